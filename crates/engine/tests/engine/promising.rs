//! Promises with business keys, and standalone promises, as workflows see them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::support::Bench;
use hapax_engine::model::{IdempotencyKey, PromiseRef, PromiseState, RunStatus};
use hapax_engine::runtime::{CreatePromiseOutcome, Error, NewPromise, SettlePromiseOutcome};
use hapax_engine::store::Store;
use hapax_engine::{Ctx, Failure};
use serde::{Deserialize, Serialize};

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Payment {
    charge: String,
    amount: u64,
}

fn payment() -> Payment {
    Payment { charge: "ch_1".into(), amount: 100 }
}

fn by_key(key: &str) -> PromiseRef {
    PromiseRef::Key(IdempotencyKey::new(key).unwrap())
}

/// Waits for a payment under the given key.
async fn pay(ctx: Ctx, key: String) -> Result<Payment, Failure> {
    ctx.create_promise::<Payment>("payment").with_idempotency_key(key).await
}

/// S4.6, S4.19, S4.20, G4.3: the run waits under the provider's id. A caller with that id settles it once,
/// with a typed value.
#[tokio::test]
async fn a_run_waits_under_a_business_key() {
    let bench = Bench::new();
    bench.engine.register("pay", pay).unwrap();
    let run = bench.engine.start("pay", "stripe:ch_1").await.unwrap();
    bench.until(run.id(), RunStatus::Waiting).await;
    let settled = bench.engine.resolve_by_key("stripe:ch_1", &payment()).await.unwrap();
    assert!(
        matches!(settled, SettlePromiseOutcome::Settled(promise) if promise.id.as_str() == format!("{}:payment", run.id()))
    );
    assert_eq!(run.result::<Payment>().await.unwrap(), payment());
    let again = bench.engine.resolve_by_key("stripe:ch_1", &payment()).await.unwrap();
    assert!(matches!(again, SettlePromiseOutcome::AlreadySettled(_)));
    let other = bench.engine.resolve_by_key("stripe:ch_1", &Payment { amount: 1, ..payment() }).await;
    assert!(matches!(other, Err(Error::AlreadySettled)));
    bench.check().await;
}

/// G4.1: a webhook that arrives before the promise is not lost, in either order.
#[tokio::test]
async fn a_settlement_that_comes_first_is_there_when_the_run_asks() {
    let bench = Bench::new();
    bench.engine.register("pay", pay).unwrap();
    let kept = bench.engine.resolve_by_key("stripe:ch_1", &payment()).await.unwrap();
    assert!(matches!(kept, SettlePromiseOutcome::KeptEarly { .. }));
    assert_eq!(bench.engine.list_early_settlements(None, 10).await.unwrap().len(), 1);
    let run = bench.engine.start("pay", "stripe:ch_1").await.unwrap();
    assert_eq!(run.result::<Payment>().await.unwrap(), payment());
    assert!(bench.engine.list_early_settlements(None, 10).await.unwrap().is_empty());
    bench.check().await;
}

/// A run that continues with other steps learns from the commit that opens its promise that it is already
/// settled. It never parks for it.
#[tokio::test]
async fn an_early_settlement_reaches_a_running_run() {
    let bench = Bench::new();
    let workflow = |ctx: Ctx, _: ()| async move {
        let opened = ctx.create_promise::<u32>("payment").with_idempotency_key("stripe:ch_1").open()?;
        ctx.run("charge", |_| async { Ok::<_, Failure>(()) }).await?;
        opened.await
    };
    bench.engine.register("order", workflow).unwrap();
    drop(bench.engine.resolve_by_key("stripe:ch_1", &7).await.unwrap());
    let run = bench.engine.start("order", &()).await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 7);
    assert_eq!(run.view().await.unwrap().head.fence.get(), 1, "driven in one stretch");
    bench.check().await;
}

/// S4.18: the key is registered before the next effect begins, so a settlement of the charge always finds the
/// promise.
#[tokio::test]
async fn an_open_promise_has_its_key_before_the_next_effect() {
    let bench = Bench::new();
    let engine = bench.engine.clone();
    let workflow = move |ctx: Ctx, _: ()| {
        let engine = engine.clone();
        async move {
            let opened = ctx.create_promise::<u32>("payment").with_idempotency_key("stripe:ch_1").open()?;
            ctx.run("charge", move |_| {
                let engine = engine.clone();
                async move {
                    let settled =
                        engine.resolve_by_key("stripe:ch_1", &7).await.map_err(Failure::permanent)?;
                    Ok::<bool, Failure>(matches!(settled, SettlePromiseOutcome::Settled(_)))
                }
            })
            .await
            .and_then(|found| {
                found.then_some(()).ok_or_else(|| Failure::permanent("not found by its key"))
            })?;
            opened.await
        }
    };
    bench.engine.register("order", workflow).unwrap();
    let run = bench.engine.start("order", &()).await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 7);
    bench.check().await;
}

/// S4.17, S4.23, S4.26, G4.5: a workflow can handle a taken key; this one reports its owner without waiting.
/// A day after its promise was settled, the key is free.
#[tokio::test]
async fn a_workflow_sees_whose_key_it_is() {
    let bench = Bench::new();
    bench.engine.register("pay", pay).unwrap();
    let polite = |ctx: Ctx, key: String| async move {
        match ctx.create_promise::<Payment>("payment").with_idempotency_key(key).await {
            Err(failure) => Ok(failure.existing_promise().unwrap_or("nobody").to_string()),
            Ok(_) => Err(Failure::permanent("it has the key of another")),
        }
    };
    bench.engine.register("polite", polite).unwrap();
    let first = bench.engine.start("pay", "stripe:ch_1").await.unwrap();
    bench.until(first.id(), RunStatus::Waiting).await;
    let second = bench.engine.start("polite", "stripe:ch_1").await.unwrap();
    assert_eq!(second.result::<String>().await.unwrap(), format!("{}:payment", first.id()));
    let third = bench.engine.start("pay", "stripe:ch_1").await.unwrap();
    let failed = third.result::<Payment>().await.unwrap_err();
    assert!(failed.to_string().contains("key_conflict"), "{failed}");
    // The other promise is unchanged.
    bench.engine.resolve_by_key("stripe:ch_1", &payment()).await.unwrap();
    assert_eq!(first.result::<Payment>().await.unwrap(), payment());
    // After the key has expired, the run that failed because of it can be retried.
    bench.clock.advance(DAY);
    third.retry(None).await.unwrap();
    bench.until(third.id(), RunStatus::Waiting).await;
    bench.engine.resolve_by_key("stripe:ch_1", &payment()).await.unwrap();
    assert_eq!(third.result::<Payment>().await.unwrap(), payment());
    bench.check().await;
}

/// S4.36: if two runs want one key at the same time, one waits and the other gets the conflict.
#[tokio::test]
async fn of_two_runs_that_want_one_key_one_has_it() {
    let bench = Bench::new();
    bench.engine.register("pay", pay).unwrap();
    let (one, two) = tokio::join!(bench.engine.start("pay", "k"), bench.engine.start("pay", "k"));
    let (one, two) = (one.unwrap(), two.unwrap());
    let has_failed = async || {
        for run in [&one, &two] {
            if bench.engine.get(run.id()).await.unwrap().head.status() == RunStatus::Failed {
                return Some(run.id());
            }
        }
        None
    };
    let failed = bench.eventually("one is told", has_failed).await;
    let waits = if failed == one.id() { &two } else { &one };
    bench.until(waits.id(), RunStatus::Waiting).await;
    bench.engine.resolve_by_key("k", &payment()).await.unwrap();
    assert_eq!(waits.result::<Payment>().await.unwrap(), payment());
    bench.check().await;
}

/// G4.2: a run that waits longer than the key's time to live is still found by its key.
#[tokio::test]
async fn a_key_lives_as_long_as_the_run_waits() {
    let bench = Bench::new();
    let patient = |ctx: Ctx, key: String| async move {
        let promise = ctx.create_promise::<u32>("payment").with_idempotency_key(key);
        promise.key_ttl(Duration::from_secs(60)).timeout(30 * DAY).await
    };
    bench.engine.register("patient", patient).unwrap();
    let run = bench.engine.start("patient", "k").await.unwrap();
    bench.until(run.id(), RunStatus::Waiting).await;
    bench.clock.advance(20 * DAY);
    bench.engine.resolve_by_key("k", &7).await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 7);
    // After the settlement the key is kept as long as requested, and then it is free.
    assert!(bench.engine.find_promise(&by_key("k")).await.unwrap().is_some());
    bench.clock.advance(Duration::from_secs(60));
    assert!(bench.engine.find_promise(&by_key("k")).await.unwrap().is_none());
}

/// A crash between opening and waiting, or during the wait, changes nothing: the next process finds the same
/// promise by its key.
#[tokio::test]
async fn another_process_waits_for_the_same_promise() {
    let bench = Bench::new();
    bench.engine.register("pay", pay).unwrap();
    let run = bench.engine.start("pay", "k").await.unwrap();
    bench.until(run.id(), RunStatus::Waiting).await;
    bench.engine.kill();
    let next = bench.restart();
    next.register("pay", pay).unwrap();
    next.resolve_by_key("k", &payment()).await.unwrap();
    assert_eq!(next.run(run.id()).await.unwrap().result::<Payment>().await.unwrap(), payment());
    bench.check().await;
}

/// A promise races with a timer, and the loser does not come back.
#[tokio::test]
async fn a_promise_and_a_timer_race() {
    let bench = Bench::new();
    let racing = |ctx: Ctx, key: String| async move {
        let paid = async { ctx.create_promise::<u32>("payment").with_idempotency_key(key).await.map(Some) };
        let late = async { ctx.sleep(HOUR).await.map(|()| None) };
        let (_, first) = ctx.select((paid, late)).await?;
        first
    };
    bench.engine.register("racing", racing).unwrap();
    let paid = bench.engine.start("racing", "paid").await.unwrap();
    let late = bench.engine.start("racing", "late").await.unwrap();
    bench.until(paid.id(), RunStatus::Waiting).await;
    bench.until(late.id(), RunStatus::Waiting).await;
    bench.engine.resolve_by_key("paid", &7).await.unwrap();
    assert_eq!(paid.result::<Option<u32>>().await.unwrap(), Some(7));
    bench.clock.advance(HOUR);
    assert_eq!(late.result::<Option<u32>>().await.unwrap(), None);
    bench.check().await;
}

/// Any number of runs and callers wait for a standalone promise. A run that waits for a missing promise
/// creates it.
#[tokio::test]
async fn many_wait_for_one_promise() {
    let bench = Bench::new();
    let waits = |ctx: Ctx, _: u32| async move { ctx.await_promise::<String>("market.open").await };
    bench.engine.register("waits", waits).unwrap();
    let mut runs = Vec::new();
    for n in 0..20 {
        runs.push(bench.engine.start("waits", &n).await.unwrap());
    }
    for run in &runs {
        bench.until(run.id(), RunStatus::Waiting).await;
    }
    let made =
        bench.engine.create_promise(NewPromise { id: Some("market.open".into()), ..NewPromise::default() });
    assert!(matches!(made.await.unwrap(), CreatePromiseOutcome::Exists(_)));
    let (engine, told) = (bench.engine.clone(), Arc::new(AtomicU32::new(0)));
    let callers: Vec<_> = (0..3)
        .map(|_| {
            let (engine, told) = (engine.clone(), told.clone());
            tokio::spawn(async move {
                let promise = PromiseRef::Id(hapax_engine::model::PromiseId::from_stored("market.open"));
                let promise = engine.wait_for_promise(&promise).await.unwrap();
                assert!(matches!(promise.state, PromiseState::Settled { .. }));
                told.fetch_add(1, Ordering::SeqCst);
            })
        })
        .collect();
    bench.engine.resolve_promise("market.open", "today").await.unwrap();
    for run in &runs {
        assert_eq!(run.result::<String>().await.unwrap(), "today");
    }
    for caller in callers {
        caller.await.unwrap();
    }
    assert_eq!(told.load(Ordering::SeqCst), 3);
    let late = bench.engine.start("waits", &99).await.unwrap();
    assert_eq!(late.result::<String>().await.unwrap(), "today");
    bench.check().await;
}

/// Waiters learn that a standalone promise has timed out. A wait with its own time limit leaves the promise
/// unchanged.
#[tokio::test]
async fn a_promise_that_stands_alone_times_out_for_all() {
    let bench = Bench::new();
    let deadline_at = Some(bench.store.now().plus(2 * HOUR));
    let new = NewPromise { id: Some("approval".into()), deadline_at, ..NewPromise::default() };
    assert!(matches!(bench.engine.create_promise(new).await.unwrap(), CreatePromiseOutcome::Created(_)));
    let waits = |ctx: Ctx, hours: Option<u32>| async move {
        let promise = ctx.await_promise::<String>("approval");
        match hours {
            Some(hours) => promise.timeout(HOUR * hours).await,
            None => promise.await,
        }
    };
    bench.engine.register("waits", waits).unwrap();
    let hasty = bench.engine.start("waits", &Some(1)).await.unwrap();
    let patient = bench.engine.start("waits", &None::<u32>).await.unwrap();
    bench.until(hasty.id(), RunStatus::Waiting).await;
    bench.until(patient.id(), RunStatus::Waiting).await;
    bench.clock.advance(HOUR);
    bench.until(hasty.id(), RunStatus::Failed).await;
    bench.until(patient.id(), RunStatus::Waiting).await;
    bench.clock.advance(HOUR);
    bench.until(patient.id(), RunStatus::Failed).await;
    let late = bench.engine.resolve_promise("approval", "yes").await;
    assert!(matches!(late, Err(Error::PromiseTimedOut)));
    bench.check().await;
}

/// A standalone promise cannot look like the promise of a run: ids that start like run ids are refused.
#[tokio::test]
async fn ids_of_runs_promises_are_refused() {
    let bench = Bench::new();
    for id in ["run_00000000000000000000000000000001:payment", "", "tab\t", &"x".repeat(256)] {
        let made =
            bench.engine.create_promise(NewPromise { id: Some(id.into()), ..NewPromise::default() }).await;
        assert!(matches!(made, Err(Error::Invalid(_))), "{id}: {made:?}");
    }
}
