//! Unrecorded attempts are counted: the ledger never loses one through a pause, a reload of the log, or an
//! undo.

use std::future::pending;
use std::time::Duration;

use crate::support::{Bench, Log};
use hapax_engine::ctx::{Attempt, StepFuture};
use hapax_engine::model::{LedgerEntry, LedgerOutcome, RunId, RunStatus, StepStatus};
use hapax_engine::{Ctx, Engine, EngineOptions, Failure};

/// Engine that never records a step before it ends.
fn bench() -> Bench {
    Bench::with(EngineOptions { mark_after: Duration::from_secs(24 * 3600), ..Default::default() })
}

/// Effect that never returns on its first execution, whatever its attempt number.
fn hangs_first(
    log: &Log,
    name: &'static str,
) -> impl Fn(Attempt) -> StepFuture<'static, ()> + Send + 'static {
    let log = log.clone();
    move |attempt: Attempt| {
        let line = format!("{name} {}", attempt.number());
        let is_first = !log.read().iter().any(|line| line.starts_with(name));
        log.add(line);
        Box::pin(async move {
            match is_first {
                true => pending().await,
                false => Ok::<_, Failure>(()),
            }
        })
    }
}

async fn until_entered(bench: &Bench, log: &Log, names: &[&str]) {
    let is_entered = |name: &&str| log.read().iter().any(|line| line.starts_with(*name));
    bench.eventually("they are entered", async || names.iter().all(is_entered).then_some(())).await;
}

async fn entry(engine: &Engine, run: RunId, step: &str) -> LedgerEntry {
    let ledger = engine.ledger(run).await.unwrap();
    ledger.into_iter().find(|entry| entry.step == step).expect("it is in the ledger")
}

fn check_cut_off(entry: &LedgerEntry) {
    let outcomes: Vec<LedgerOutcome> = entry.attempts.iter().map(|attempt| attempt.outcome).collect();
    assert_eq!(outcomes, [LedgerOutcome::Unknown, LedgerOutcome::Completed], "{entry:?}");
    assert_eq!((entry.happened, entry.may_have_happened, entry.may_have_happened_twice), (1, 1, 1));
}

/// The holder vanishes in the middle of two effects; only one is recorded. The next holder finishes that one
/// and pauses as requested. After the resume, the other effect is known to have begun.
#[tokio::test]
async fn an_attempt_without_a_record_is_counted_after_a_crash_and_a_pause() {
    let bench = bench();
    let log = Log::default();
    let kept = log.clone();
    let workflow = move |ctx: Ctx, (): ()| {
        let log = kept.clone();
        async move {
            let book = ctx.step("book", hangs_first(&log, "book"));
            let book = book.compensate(|_, (): ()| async { Ok::<_, Failure>(()) });
            let mail = ctx.step("mail", hangs_first(&log, "mail"));
            let (booked, mailed) = tokio::join!(async { book.await }, async { mail.await });
            booked.and(mailed)
        }
    };
    bench.engine.register("order", workflow.clone()).unwrap();
    let run = bench.engine.start("order", &()).await.unwrap().id();
    until_entered(&bench, &log, &["book", "mail"]).await;
    bench.engine.pause(run).await.unwrap();
    bench.engine.kill();
    let second = bench.restart();
    second.register("order", workflow).unwrap();
    bench.until(run, RunStatus::Paused).await;
    bench.until_step(run, "book", StepStatus::Completed).await;
    second.resume(run).await.unwrap();
    bench.until(run, RunStatus::Completed).await;
    assert_eq!(log.read(), ["mail 1", "book 1", "book 2", "mail 2"]);
    check_cut_off(&entry(&second, run, "mail").await);
    bench.check().await;
}

/// Another node settles a promise right before it times out. The holder sees a timeout, its commit is
/// refused, and it reloads the log. That cuts off the effect in progress.
#[tokio::test]
async fn an_attempt_that_is_cut_off_by_reading_the_log_again_is_counted() {
    let bench = bench();
    let log = Log::default();
    let kept = log.clone();
    let workflow = move |ctx: Ctx, (): ()| {
        let log = kept.clone();
        async move {
            let answer = ctx.create_promise::<u32>("answer").timeout(Duration::from_secs(5));
            let mail = ctx.step("mail", hangs_first(&log, "mail"));
            let (answer, mailed) = tokio::join!(async { answer.await }, async { mail.await });
            mailed?;
            answer
        }
    };
    bench.engine.register("order", workflow).unwrap();
    let run = bench.engine.start("order", &()).await.unwrap();
    until_entered(&bench, &log, &["mail"]).await;
    let promise = format!("{}:answer", run.id());
    bench.until_promise(&promise).await;
    let other = Engine::launch(bench.store.clone(), bench.clock.clone(), EngineOptions::default()).unwrap();
    other.resolve_promise(&promise, &7).await.unwrap();
    bench.clock.advance(Duration::from_secs(6));
    assert_eq!(bench.advancing(run.result::<u32>()).await.unwrap(), 7, "the settlement came first");
    assert_eq!(log.read(), ["mail 1", "mail 2"]);
    check_cut_off(&entry(&bench.engine, run.id(), "mail").await);
    bench.check().await;
}

/// The outcome of an effect is known, but its commit is refused for another reason. The outcome is still
/// evidence.
#[tokio::test]
async fn an_outcome_that_is_lost_by_reading_the_log_again_is_kept_as_evidence() {
    let bench = bench();
    let log = Log::default();
    let (open, gate) = tokio::sync::watch::channel(false);
    let kept = log.clone();
    let workflow = move |ctx: Ctx, (): ()| {
        let (log, gate) = (kept.clone(), gate.clone());
        async move {
            let answer = ctx.create_promise::<u32>("answer").timeout(Duration::from_secs(5));
            let mail = ctx.step("mail", move |attempt: Attempt| {
                log.add(format!("mail {}", attempt.number()));
                let mut gate = gate.clone();
                async move {
                    let opened = gate.wait_for(|open| *open).await.map(drop);
                    opened.map_err(Failure::unknown)
                }
            });
            let (answer, mailed) = tokio::join!(async { answer.await }, async { mail.await });
            mailed?;
            answer
        }
    };
    let line = crate::support::cut_off::CutOff::new(bench.store.clone());
    let options = EngineOptions { mark_after: Duration::from_secs(24 * 3600), ..Default::default() };
    let node = Engine::launch(line.clone(), bench.clock.clone(), options).unwrap();
    node.register("order", workflow).unwrap();
    let run = node.start("order", &()).await.unwrap();
    until_entered(&bench, &log, &["mail"]).await;
    let promise = format!("{}:answer", run.id());
    bench.until_promise(&promise).await;
    bench.engine.resolve_promise(&promise, &7).await.unwrap();
    // Both finish while the commit is held back, and the promise causes its refusal.
    line.hold(true);
    bench.clock.advance(Duration::from_secs(6));
    open.send_replace(true);
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    line.hold(false);
    assert_eq!(bench.advancing(run.result::<u32>()).await.unwrap(), 7);
    assert_eq!(log.read(), ["mail 1", "mail 2"]);
    let mail = bench
        .eventually("the evidence is kept", async || {
            let mail = entry(&bench.engine, run.id(), "mail").await;
            (mail.happened == 2).then_some(mail)
        })
        .await;
    assert_eq!((mail.happened_twice, mail.may_have_happened), (1, 0), "{mail:?}");
    bench.check().await;
}

/// A run fails while another step waits for its turn, and its holder vanishes during the undo. The cancelled
/// step is recorded first. The undo is still known to have begun.
#[tokio::test]
async fn an_undoing_that_was_cut_off_is_counted_whatever_is_recorded_before_it() {
    let bench = bench();
    let log = Log::default();
    let kept = log.clone();
    let workflow = move |ctx: Ctx, (): ()| {
        let log = kept.clone();
        async move {
            let refund = hangs_first(&log, "refund");
            let charge = ctx.step("charge", |_| async { Ok::<_, Failure>(()) });
            charge.compensate(move |attempt, (): ()| refund(attempt)).await?;
            let mail = ctx.step("mail", |_| async { Ok::<_, Failure>(()) });
            let fails = async { Err::<(), _>(Failure::permanent("sold out")) };
            tokio::select! {
                biased;
                mailed = async { mail.await } => mailed,
                failed = fails => failed,
            }
        }
    };
    bench.engine.register("order", workflow.clone()).unwrap();
    let run = bench.engine.start("order", &()).await.unwrap().id();
    until_entered(&bench, &log, &["refund"]).await;
    bench.engine.kill();
    let second = bench.restart();
    second.register("order", workflow).unwrap();
    bench.until(run, RunStatus::Failed).await;
    assert_eq!(log.read(), ["refund 1", "refund 2"]);
    check_cut_off(&entry(&second, run, "charge~undo").await);
    bench.check().await;
}
