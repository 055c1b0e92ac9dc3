//! Retries of a failed run: the plan names the effects that run again, and an effect that happened is
//! repeated only with permission.

use crate::support::{Bench, Log};
use hapax_engine::model::{
    Actor, JournalEvent, PlannedEffect, ProbeAnswer, Refusal, RepeatPermission, Role, RulingError, RunId,
    RunStatus, StepId,
};
use hapax_engine::{Ctx, Error, Failure};

/// A run that sent a fax and an email and then failed.
async fn failed_after_a_fax(bench: &Bench, log: &Log) -> RunId {
    let kept = log.clone();
    let workflow = move |ctx: Ctx, (): ()| {
        let log = kept.clone();
        async move {
            log.step(&ctx, "look").await?;
            log.step(&ctx, "fax").claimed().await?;
            log.step(&ctx, "mail").await?;
            ctx.step("file", |attempt| async move {
                match attempt.number() {
                    1 => Err(Failure::permanent("the cabinet is locked")),
                    _ => Ok(()),
                }
            })
            .await
        }
    };
    bench.engine.register("office", workflow).unwrap();
    let run = bench.engine.start("office", &()).await.unwrap().id();
    bench.until(run, RunStatus::Failed).await;
    run
}

fn ids(names: &[&str]) -> Vec<StepId> {
    names.iter().map(|name| StepId::from_stored(name)).collect()
}

fn allowed_by(role: Role, effects: &[&str]) -> RepeatPermission {
    let (by, reason) = (Actor::new("ada", role), "the paper was empty".into());
    RepeatPermission { effects: ids(effects), by, seconded_by: None, reason }
}

fn named(effects: &[PlannedEffect]) -> Vec<StepId> {
    effects.iter().map(|effect| effect.step.clone()).collect()
}

/// Regression: an operator's retry sent two faxes, and the ledger counted one.
#[tokio::test]
async fn a_fax_that_was_sent_is_sent_again_only_if_a_manager_names_it() {
    let bench = Bench::new();
    let log = Log::default();
    let run = failed_after_a_fax(&bench, &log).await;
    let done = ["do look", "do fax", "do mail"];

    let plan = bench.engine.plan_retry(run, Some("fax")).await.unwrap();
    assert_eq!(named(&plan.stays_done), ids(&["look"]));
    assert_eq!(named(&plan.runs_again), ids(&["fax", "mail", "file"]));
    assert_eq!(plan.repeats(), ids(&["fax"]), "the mail goes out under the key it went out under before");

    let refused = bench.engine.retry(run, Some("fax")).await.unwrap_err();
    assert!(
        matches!(&refused, Error::Refused { refusal: Refusal::WouldRepeat(steps), .. } if *steps == ids(&["fax"])),
        "{refused:?}"
    );
    let alone = allowed_by(Role::Operator, &["fax"]);
    let refused = bench.engine.retry_repeating(run, Some("fax"), alone).await.unwrap_err();
    assert!(matches!(refused, Error::Ruling(RulingError::NeedsManager(_))), "{refused:?}");
    let wrong = allowed_by(Role::Manager, &["mail"]);
    let refused = bench.engine.retry_repeating(run, Some("fax"), wrong).await.unwrap_err();
    assert!(matches!(refused, Error::Refused { refusal: Refusal::WouldRepeat(_), .. }), "{refused:?}");
    assert_eq!(bench.engine.get(run).await.unwrap().head.status(), RunStatus::Failed, "nothing has changed");
    assert_eq!(log.read(), done);

    bench.engine.retry_repeating(run, Some("fax"), allowed_by(Role::Manager, &["fax"])).await.unwrap();
    bench.until(run, RunStatus::Completed).await;
    assert_eq!(log.read()[3..], ["do fax", "do mail"]);
    let ledger = bench.engine.ledger(run).await.unwrap();
    let fax = ledger.iter().find(|entry| entry.step == "fax").unwrap();
    assert_eq!((fax.happened, fax.happened_twice, fax.may_have_happened_twice), (2, 1, 0));
    assert!(
        matches!(&fax.rulings[..], [ruling] if ruling.by.name == "ada" && matches!(ruling.what, JournalEvent::RepeatAllowed { .. })),
        "{:?}",
        fax.rulings
    );
    let audit = bench.engine.list_audit(0, 10).await.unwrap();
    assert!(audit.iter().any(|entry| matches!(entry.what, JournalEvent::RepeatAllowed { .. })), "{audit:?}");
    bench.check().await;
}

#[tokio::test]
async fn a_retry_that_repeats_nothing_needs_nobody() {
    let bench = Bench::new();
    let log = Log::default();
    let run = failed_after_a_fax(&bench, &log).await;
    let plan = bench.engine.plan_retry(run, Some("mail")).await.unwrap();
    assert_eq!((named(&plan.stays_done), plan.repeats()), (ids(&["look", "fax"]), vec![]));
    bench.engine.retry(run, Some("mail")).await.unwrap();
    bench.until(run, RunStatus::Completed).await;
    assert_eq!(log.read(), ["do look", "do fax", "do mail", "do mail"]);
    bench.check().await;
}

/// A child that runs again is another run and repeats all its effects.
#[tokio::test]
async fn a_child_that_completed_is_started_again_only_if_a_manager_names_it() {
    let bench = Bench::new();
    let log = Log::default();
    let kept = log.clone();
    let child = move |ctx: Ctx, (): ()| {
        let log = kept.clone();
        async move { log.step(&ctx, "ship").await.map(drop) }
    };
    bench.engine.register("shipping", child).unwrap();
    let parent = |ctx: Ctx, (): ()| async move {
        ctx.child::<_, ()>("shipping", &()).await?;
        Err::<(), _>(Failure::permanent("no more stamps"))
    };
    bench.engine.register("order", parent).unwrap();
    let run = bench.engine.start("order", &()).await.unwrap().id();
    bench.until(run, RunStatus::Failed).await;
    let plan = bench.engine.plan_retry(run, Some("shipping")).await.unwrap();
    assert_eq!(plan.repeats(), ids(&["shipping"]));
    assert!(plan.runs_again[0].child.is_some() && plan.runs_again[0].class.is_none(), "{plan:?}");
    assert!(bench.engine.retry(run, Some("shipping")).await.is_err());
    let allowed = allowed_by(Role::Manager, &["shipping"]);
    bench.engine.retry_repeating(run, Some("shipping"), allowed).await.unwrap();
    bench.eventually("it ships again", async || (log.read().len() == 2).then_some(())).await;
    bench.until(run, RunStatus::Failed).await;
    bench.check().await;
}

/// Returns how often the fax was sent and how often it may have been, by the ledger. The metrics must agree.
async fn faxes(bench: &Bench, run: RunId) -> (u32, u32) {
    let ledger = bench.engine.ledger(run).await.unwrap();
    let fax = ledger.iter().find(|entry| entry.step == "fax").unwrap();
    let counted = bench.engine.count_repeats().await.unwrap()[&fax.class];
    let told = (u64::from(fax.happened_twice), u64::from(fax.may_have_happened_twice));
    assert_eq!((counted.happened_twice, counted.may_have_happened_twice), told, "{fax:?}");
    (fax.happened, fax.may_have_happened)
}

/// A probe by key finds the fax that was sent before the retry, so it is uncertain whether there were two, or
/// three after another retry.
#[tokio::test]
async fn a_repeated_fax_that_only_a_probe_knows_of_may_have_been_sent_twice() {
    let bench = Bench::new();
    let workflow = |ctx: Ctx, (): ()| async move {
        let fax = ctx.step("fax", |attempt| async move {
            match attempt.number() {
                1 => Ok(7),
                _ => Err(Failure::unknown("the line was cut")),
            }
        });
        let pages = fax.probe(|_| async { Ok::<_, Failure>(ProbeAnswer::Happened(7)) }).await?;
        ctx.step("file", |attempt| async move {
            match attempt.number() {
                1 | 2 => Err(Failure::permanent("the cabinet is locked")),
                _ => Ok(pages),
            }
        })
        .await
    };
    bench.engine.register("office", workflow).unwrap();
    let run = bench.engine.start("office", &()).await.unwrap().id();
    bench.until(run, RunStatus::Failed).await;
    assert_eq!(faxes(&bench, run).await, (1, 0));
    let repeat = || bench.engine.retry_repeating(run, Some("fax"), allowed_by(Role::Manager, &["fax"]));
    repeat().await.unwrap();
    bench.until(run, RunStatus::Failed).await;
    assert_eq!(faxes(&bench, run).await, (1, 1));
    repeat().await.unwrap();
    bench.until(run, RunStatus::Completed).await;
    assert_eq!(faxes(&bench, run).await, (1, 2));
    bench.check().await;
}

/// The attempt before the retry is known to have failed, so the fax that the probe finds is the one after it.
#[tokio::test]
async fn a_probe_finds_the_only_fax_that_can_have_been_sent() {
    let bench = Bench::new();
    let workflow = |ctx: Ctx, (): ()| async move {
        let fax = ctx.step("fax", |attempt| async move {
            match attempt.number() {
                1 => Err(Failure::permanent("no paper")),
                _ => Err(Failure::unknown("the line was cut")),
            }
        });
        fax.probe(|_| async { Ok::<_, Failure>(ProbeAnswer::Happened(7)) }).await
    };
    bench.engine.register("office", workflow).unwrap();
    let run = bench.engine.start("office", &()).await.unwrap().id();
    bench.until(run, RunStatus::Failed).await;
    bench.engine.retry(run, None).await.unwrap();
    bench.until(run, RunStatus::Completed).await;
    assert_eq!(faxes(&bench, run).await, (1, 0));
    bench.check().await;
}
