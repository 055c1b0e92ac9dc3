//! Steps with names that the code chooses: skipped, remembered, slept, signalled and started ones.

use std::time::Duration;

use hapax_engine::model::{RunStatus, StepKind, StepStatus};
use hapax_engine::testing::{TestEnvironment, replay};
use hapax_engine::{Ctx, Failure};

async fn named(ctx: Ctx, (): ()) -> Result<u32, Failure> {
    ctx.skip("not-today")?;
    let chosen: String = ctx.remember("choice", || "left".to_string())?;
    assert_eq!(chosen, "left");
    ctx.sleep_as("cool-down", Duration::from_secs(60)).await?;
    let told: u32 = ctx.signal("go").recorded_as("wait-for-go").await?;
    let doubled: u32 = ctx.child("double", &told).recorded_as("twice").await?;
    ctx.skip("not-today-either")?;
    Ok(doubled)
}

/// S0.36, S0.41: a skipped step is recorded as SKIPPED and stays so.
#[tokio::test]
async fn steps_are_on_record_under_the_names_they_were_given() {
    let lab = TestEnvironment::new();
    let double = |_: Ctx, n: u32| async move { Ok::<_, Failure>(n * 2) };
    lab.engine().register("double", double).unwrap();
    lab.engine().register("named", named).unwrap();
    let run = lab.engine().start("named", &()).await.unwrap();
    assert_eq!(lab.settle(run.id()).await.unwrap(), RunStatus::Waiting);
    lab.engine().signal(run.id(), "go", &21, None).await.unwrap();
    assert_eq!(lab.settle(run.id()).await.unwrap(), RunStatus::Completed);
    assert_eq!(run.result::<u32>().await.unwrap(), 42);
    let log = lab.engine().get_log(run.id()).await.unwrap();
    let seen: Vec<_> = log.steps.iter().map(|s| (s.id.as_str(), s.kind, s.state.status())).collect();
    assert_eq!(
        seen,
        [
            ("not-today", StepKind::Value, StepStatus::Skipped),
            ("choice", StepKind::Value, StepStatus::Completed),
            ("cool-down", StepKind::Sleep, StepStatus::Completed),
            ("wait-for-go", StepKind::Signal, StepStatus::Completed),
            ("twice", StepKind::Child, StepStatus::Completed),
            ("not-today-either", StepKind::Value, StepStatus::Skipped),
        ]
    );
    replay(log, named).await.unwrap();
    let report = hapax_engine::fsck::fsck(&*lab.engine().store()).await.unwrap();
    assert!(report.is_clean(), "{:#?}", report.violations);
}
