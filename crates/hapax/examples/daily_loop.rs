//! A job that runs every day under one id, with a bounded history.

use std::sync::Arc;

use hapax::clock::{Clock, ManualClock};
use hapax::{Ctx, Hapax, Result, days};

async fn send_report() -> Result<()> {
    Ok(())
}

async fn daily_report(ctx: Ctx, day: u32) -> Result<u32> {
    ctx.step("report", |_| send_report()).await?;
    if day == 7 {
        return Ok(day);
    }
    ctx.sleep(days(1)).await?;
    ctx.continue_as_new(&(day + 1))
}

async fn run() -> std::result::Result<String, Box<dyn std::error::Error>> {
    let clock = Arc::new(ManualClock::default());
    let hapax = Hapax::builder("memory:").clock(clock.clone()).open().await?;
    hapax.register("daily-report", daily_report)?;
    let first = hapax.start("daily-report", &1u32).idempotency_key("daily-report").await?;
    let again = hapax.start("daily-report", &1u32).idempotency_key("daily-report").await?;
    let began = clock.now();
    // A day passes whenever the job sleeps.
    let ended = tokio::spawn(async move { first.result::<u32>().await });
    while !ended.is_finished() {
        if again.status().await? == hapax::RunStatus::Waiting {
            clock.advance(days(1));
        }
        tokio::task::yield_now().await;
    }
    let reports = ended.await??;
    let log = hapax.engine()?.get_log(again.id()).await?;
    Ok(format!(
        "{reports} reports over {} days; started again: {}; steps in its history now: {}\n",
        clock.now().since(began).as_secs() / 86_400,
        again.created,
        log.steps.len()
    ))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    print!("{}", run().await?);
    Ok(())
}

#[tokio::test]
async fn a_week_of_reports_is_one_run_with_a_short_history() {
    assert_eq!(
        run().await.unwrap(),
        "7 reports over 6 days; started again: false; steps in its history now: 1\n"
    );
}
