//! Workflows by workspace and by version.

use std::time::Duration;

use crate::support::Bench;
use hapax_engine::model::{Actor, JournalEvent, Role, RunCommand, RunId, RunStatus, Timestamp, WorkspaceId};
use hapax_engine::runtime::WorkflowOptions;
use hapax_engine::store::Store;
use hapax_engine::{Ctx, Engine, Error, Failure};

fn workspace(name: &str) -> WorkspaceId {
    WorkspaceId::new(name).unwrap()
}

fn register_for_workspace(engine: &Engine, version: u32, says: &'static str) {
    let options = WorkflowOptions::default().version(version);
    let code = move |_: Ctx, _: ()| async move { Ok::<_, Failure>(says) };
    engine.register_for_workspace("greet", options, code).unwrap();
}

#[tokio::test]
async fn a_workspace_has_its_own_workflow_before_the_one_all_have() {
    let bench = Bench::new();
    let (red, blue) = (bench.engine.workspace(workspace("red")), bench.engine.workspace(workspace("blue")));
    bench.engine.register("greet", |_: Ctx, _: ()| async { Ok::<_, Failure>("all") }).unwrap();
    register_for_workspace(&red, 1, "red");
    let said = |engine: Engine| async move {
        engine.start("greet", &()).await.unwrap().result::<String>().await.unwrap()
    };
    assert_eq!(said(red.clone()).await, "red");
    assert_eq!(said(blue).await, "all");
    let again = red.register_for_workspace("greet", WorkflowOptions::default(), |_: Ctx, _: ()| async {
        Ok::<_, Failure>("other")
    });
    assert!(matches!(again, Err(Error::AlreadyRegistered(_))));
}

#[tokio::test]
async fn a_start_may_name_the_version_and_the_id() {
    let bench = Bench::new();
    register_for_workspace(&bench.engine, 1, "one");
    register_for_workspace(&bench.engine, 2, "two");
    let id = RunId::new(Timestamp::from_millis(5));
    let first = bench.engine.start("greet", &()).version(1).run_id(id).await.unwrap();
    assert_eq!((first.id(), first.result::<String>().await.unwrap()), (id, "one".into()));
    let again = bench.engine.start("greet", &()).version(1).run_id(id).await.unwrap();
    assert_eq!(again.id(), id);
    assert_eq!(
        again.head().unwrap().status(),
        RunStatus::Completed,
        "the second start finds what the first made"
    );
    let newest = bench.engine.start("greet", &()).await.unwrap();
    assert_eq!(newest.result::<String>().await.unwrap(), "two");
    let absent = bench.engine.start("greet", &()).version(3).await;
    assert!(matches!(absent, Err(Error::UnknownWorkflow(_))));
}

/// Two workspaces may use one name for different workflows. A node with only one of them leaves runs of the
/// other alone, and they wait for a node that has it.
#[tokio::test]
async fn a_run_whose_workflow_is_elsewhere_is_never_granted_here() {
    let bench = Bench::new();
    let (red, blue) = (workspace("red"), workspace("blue"));
    register_for_workspace(&bench.engine.workspace(red.clone()), 1, "red");
    let run = bench.engine.workspace(red.clone()).start("greet", &()).delay(Duration::from_secs(60));
    let run = run.await.unwrap();
    let before = run.view().await.unwrap().head;
    bench.engine.kill();
    let other = bench.restart();
    register_for_workspace(&other.workspace(blue.clone()), 1, "blue");
    for _ in 0..20 {
        // A run that is due later than the other workspace's run is still granted by a claim that saw both.
        let own =
            other.workspace(blue.clone()).start("greet", &()).delay(Duration::from_secs(61)).await.unwrap();
        bench.clock.advance(Duration::from_secs(62));
        assert_eq!(own.result::<String>().await.unwrap(), "blue");
    }
    let after = bench.store.find_run(&red, run.id()).await.unwrap().unwrap().head;
    assert_eq!(after, before, "nobody touched it");
    let right = Engine::launch(bench.store.clone(), bench.clock.clone(), Default::default()).unwrap();
    register_for_workspace(&right.workspace(red.clone()), 1, "red");
    let handle = right.workspace(red).run(run.id()).await.unwrap();
    assert_eq!(bench.advancing(handle.result::<String>()).await.unwrap(), "red");
    assert_eq!(other.stats().takeovers + right.stats().takeovers, 0);
}

#[tokio::test]
async fn a_command_of_a_person_is_in_the_audit_log() {
    let bench = Bench::new();
    register_for_workspace(&bench.engine, 1, "one");
    let run = bench.engine.start("greet", &()).delay(Duration::from_secs(60)).await.unwrap().id();
    let ada = Actor::new("ada", Role::Operator);
    let cancel = || RunCommand::Cancel { reason: "no longer wanted".into() };
    let seen = bench.engine.get(run).await.unwrap().head.version;
    let stale = bench.engine.command_run_by(run, cancel(), Some(seen.next()), ada.clone(), "x").await;
    assert!(matches!(stale, Err(Error::Concurrency { version, .. }) if version == seen));
    let head = bench
        .engine
        .command_run_by(run, cancel(), Some(seen), ada.clone(), "no longer wanted")
        .await
        .unwrap();
    assert_eq!(head.status(), RunStatus::Cancelled);
    // A repeated command returns the current state and writes nothing.
    bench.engine.command_run_by(run, cancel(), None, ada.clone(), "again").await.unwrap();
    let audit = bench.engine.list_audit(0, 10).await.unwrap();
    assert_eq!(audit.len(), 1);
    assert_eq!(audit[0].by, ada);
    let expected = JournalEvent::Commanded { command: "cancel".into(), reason: "no longer wanted".into() };
    assert_eq!(audit[0].what, expected);
}
