//! After-effects exist exactly when their cause is committed, and are delivered at least once under one id,
//! fairly.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::{Bench, Log};
use hapax_engine::model::{Actor, EffectKey, OutboxStatus, RetryPolicy, Role, RunStatus};
use hapax_engine::runtime::{Delivery, TargetOptions};
use hapax_engine::{Ctx, Engine, Error, Failure};

async fn order(ctx: Ctx, targets: Vec<String>) -> Result<(), Failure> {
    ctx.step("book", |_| async { Ok::<_, Failure>(()) }).await?;
    for target in targets {
        ctx.after_effect(&target, "booked").await?;
    }
    Ok(())
}

fn receive(
    log: &Log,
) -> impl Fn(Delivery, String) -> std::future::Ready<Result<(), Failure>> + Send + Sync + use<> {
    let log = log.clone();
    move |delivery, text| {
        log.add(format!("{text} as {}", delivery.id().rsplit(':').next().unwrap()));
        std::future::ready(Ok(()))
    }
}

async fn until_status(bench: &Bench, engine: &Engine, count: usize, status: OutboxStatus) {
    bench
        .eventually(&format!("{count} {status:?}"), async || {
            let posts = engine.list_after_effects(Some(status), None, 1_000).await.unwrap();
            (posts.len() == count).then_some(())
        })
        .await
}

#[tokio::test]
async fn an_after_effect_is_delivered_once_what_caused_it_is_durable() {
    let bench = Bench::new();
    let log = Log::default();
    bench.engine.register("order", order).unwrap();
    bench.engine.register_target("mail", receive(&log)).unwrap();
    let run = bench.engine.start("order", &["mail", "mail"]).await.unwrap();
    run.result::<()>().await.unwrap();
    until_status(&bench, &bench.engine, 2, OutboxStatus::Delivered).await;
    let mut seen = log.read();
    seen.sort();
    assert_eq!(seen, ["booked as mail", "booked as mail#2"]);
    bench.check().await;
}

/// S2.26: a crash between record and delivery loses nothing, and a replay sends nothing twice.
#[tokio::test]
async fn a_crash_neither_loses_nor_doubles_an_after_effect() {
    let bench = Bench::new();
    let log = Log::default();
    let workflow = |ctx: Ctx, (): ()| async move {
        ctx.after_effect("mail", "hello").await?;
        ctx.signal::<()>("go").await
    };
    bench.engine.register("order", workflow).unwrap();
    let run = bench.engine.start("order", &()).await.unwrap();
    bench.until(run.id(), RunStatus::Waiting).await;
    bench.engine.kill();
    let second = bench.restart();
    second.register("order", workflow).unwrap();
    second.signal(run.id(), "go", &(), None).await.unwrap();
    second.register_target("mail", receive(&log)).unwrap();
    second.run(run.id()).await.unwrap().result::<()>().await.unwrap();
    until_status(&bench, &second, 1, OutboxStatus::Delivered).await;
    assert_eq!(log.read(), ["hello as mail"]);
    bench.check().await;
}

#[tokio::test]
async fn a_deliverer_that_vanishes_is_followed_by_another_under_the_same_id() {
    let bench = Bench::new();
    let log = Log::default();
    bench.engine.register("order", order).unwrap();
    let entered = log.clone();
    bench
        .engine
        .register_target("mail", move |delivery: Delivery, _: String| {
            entered.add(format!("hangs on {}", delivery.id()));
            async { std::future::pending::<Result<(), Failure>>().await }
        })
        .unwrap();
    let run = bench.engine.start("order", &["mail"]).await.unwrap();
    bench.eventually("it is on its way", async || (!log.read().is_empty()).then_some(())).await;
    bench.engine.kill();
    let second = bench.restart();
    bench.clock.advance(hapax_engine::limits::MAX_DELIVERY * 2);
    let (seen, attempts) = (log.clone(), log.clone());
    second
        .register_target("mail", move |delivery: Delivery, _: String| {
            seen.add(format!("takes {} in attempt {}", delivery.id(), delivery.attempt()));
            std::future::ready(Ok::<_, Failure>(()))
        })
        .unwrap();
    until_status(&bench, &second, 1, OutboxStatus::Delivered).await;
    let id = format!("{}:mail", run.id());
    assert_eq!(attempts.read(), [format!("hangs on {id}"), format!("takes {id} in attempt 2")]);
}

/// Invariant 51: it ends as `dead` with a reason, and an operator can deliver it again.
#[tokio::test]
async fn an_after_effect_that_cannot_be_delivered_is_dead_until_people_say_otherwise() {
    let bench = Bench::new();
    let broken = Arc::new(AtomicBool::new(true));
    let seen = broken.clone();
    bench.engine.register("order", order).unwrap();
    let retry = RetryPolicy::default().max_attempts(3);
    let options = TargetOptions { retry, ..TargetOptions::default() };
    bench
        .engine
        .register_target_with("mail", options, move |_: Delivery, _: String| {
            let broken = seen.load(Ordering::SeqCst);
            async move { if broken { Err(Failure::retryable("no route")) } else { Ok(()) } }
        })
        .unwrap();
    let run = bench.engine.start("order", &["mail"]).await.unwrap();
    run.result::<()>().await.unwrap();
    until_status(&bench, &bench.engine, 1, OutboxStatus::Dead).await;
    let dead = bench.engine.list_after_effects(Some(OutboxStatus::Dead), None, 10).await.unwrap().remove(0);
    assert_eq!((dead.attempts, dead.failure.unwrap().message()), (3, "no route"));
    let counted = async || (bench.engine.stats().given_up == 1).then_some(());
    bench.eventually("it is counted once", counted).await;
    broken.store(false, Ordering::SeqCst);
    let by = Actor::new("ada", Role::Operator);
    bench.engine.redeliver(&dead.id, by.clone(), "the route is back").await.unwrap();
    until_status(&bench, &bench.engine, 1, OutboxStatus::Delivered).await;
    let audit = bench.engine.list_audit(0, 10).await.unwrap();
    assert_eq!((audit.len(), audit[0].step.as_deref()), (1, Some("mail")));
    let nobody = Actor::new(" ", Role::Operator);
    assert!(bench.engine.redeliver(&dead.id, nobody, "why").await.is_err());
    let unknown = EffectKey::from_stored("run_0:mail");
    let refused = bench.engine.redeliver(&unknown, by, "why").await.unwrap_err();
    assert!(matches!(refused, Error::NoSuchAfterEffect(_)), "{refused}");
    bench.check().await;
}

/// A dead endpoint delays no other.
#[tokio::test]
async fn a_target_that_hangs_delays_no_other() {
    let bench = Bench::new();
    let log = Log::default();
    bench.engine.register("order", order).unwrap();
    let options =
        TargetOptions { max_concurrent: 2, timeout: Duration::from_secs(30), ..TargetOptions::default() };
    bench
        .engine
        .register_target_with("dead", options, |_: Delivery, _: String| async {
            std::future::pending::<Result<(), Failure>>().await
        })
        .unwrap();
    bench.engine.register_target("mail", receive(&log)).unwrap();
    for _ in 0..20 {
        bench.engine.start("order", &["dead", "dead", "mail"]).await.unwrap();
    }
    bench.eventually("all mail is there", async || (log.read().len() == 20).then_some(())).await;
    let posts = bench.engine.list_after_effects(Some(OutboxStatus::Claimed), None, 100).await.unwrap();
    assert!(posts.len() <= 2, "no more than the target asked for are on their way");
    bench.check().await;
}

#[tokio::test]
async fn a_panic_or_a_wrong_type_is_a_failed_delivery() {
    let bench = Bench::new();
    bench.engine.register("order", order).unwrap();
    let retry = RetryPolicy::never();
    let options = TargetOptions { retry, ..TargetOptions::default() };
    let panics = |_: Delivery, _: String| async { panic!("oh") as Result<(), Failure> };
    bench.engine.register_target_with("panics", options, panics).unwrap();
    bench.engine.register_target("counts", |_: Delivery, _: u32| async { Ok::<_, Failure>(()) }).unwrap();
    bench.engine.start("order", &["panics", "counts"]).await.unwrap();
    until_status(&bench, &bench.engine, 2, OutboxStatus::Dead).await;
    let dead = bench.engine.list_after_effects(Some(OutboxStatus::Dead), None, 10).await.unwrap();
    let why: Vec<String> = dead.into_iter().map(|post| post.failure.unwrap().to_string()).collect();
    assert!(why[0].contains("does not fit") && why[1].contains("panicked: oh"), "{why:?}");
}
