//! A refund that waits for a person, and goes on without one after three days.

use std::sync::Arc;

use hapax::clock::ManualClock;
use hapax::{Ctx, Hapax, Result, RunStatus, days};

async fn say(text: String) -> Result<String> {
    Ok(text)
}

async fn refund(ctx: Ctx, cents: u64) -> Result<String> {
    if cents < 1_000 {
        return ctx.step("refund", |_| say("refunded, too small to ask".into())).await;
    }
    let asked = ctx.create_promise::<bool>("approved").open()?;
    let id = asked.id().to_string();
    ctx.step("ask-manager", |_| say(format!("please decide on {id}"))).await?;
    let too_late = async { ctx.sleep(days(3)).await.map(|()| false) };
    let (first, approved) = ctx.select((asked, too_late)).await?;
    Ok(match (first, approved?) {
        (0, true) => "refunded, approved".to_string(),
        (0, false) => "refused by the manager".to_string(),
        _ => "refused, nobody decided in three days".to_string(),
    })
}

async fn run() -> std::result::Result<String, Box<dyn std::error::Error>> {
    let clock = Arc::new(ManualClock::default());
    let hapax = Hapax::builder("memory:").clock(clock.clone()).open().await?;
    hapax.register("refund", refund)?;
    let mut said = String::new();
    for (cents, decision) in [(500, None), (5_000, Some(true)), (6_000, Some(false)), (7_000, None)] {
        let run = hapax.start("refund", &cents).subject(format!("order-{cents}")).await?;
        if cents >= 1_000 {
            while run.status().await? != RunStatus::Waiting {
                tokio::task::yield_now().await;
            }
            let promise = format!("{}:approved", run.id());
            match decision {
                Some(decision) => {
                    hapax.resolve_promise(&promise, &decision).await?;
                    // A second click on the button changes nothing; a change of mind is refused.
                    hapax.resolve_promise(&promise, &decision).await?;
                    assert!(hapax.resolve_promise(&promise, &!decision).await.is_err());
                }
                None => clock.advance(days(3)),
            }
        }
        said += &format!("{cents}: {}\n", run.result::<String>().await?);
    }
    Ok(said)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    print!("{}", run().await?);
    Ok(())
}

#[tokio::test]
async fn people_decide_once_and_time_decides_for_them() {
    assert_eq!(
        run().await.unwrap(),
        "500: refunded, too small to ask\n\
         5000: refunded, approved\n\
         6000: refused by the manager\n\
         7000: refused, nobody decided in three days\n"
    );
}
