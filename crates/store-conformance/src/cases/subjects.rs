//! Subjects: at most one open run of a workflow per subject.

use hapax_engine::store::StartOutcome;

use crate::fixture::*;
use crate::must;

/// S2.3, S2.44, CONTRACT 3: a new run on the same subject is refused while the first is open, and the answer names the
/// first.
pub(super) async fn a_subject_has_one_open_run(t: &TestStore) {
    let first = t.order().key("1").subject("refund:R123").start().await;
    let second = t.order().key("2").subject("refund:R123");
    must!(second.send().await, StartOutcome::SubjectBusy { run } if run == first.id());
    assert!(t.key("2").await.is_none(), "nothing was written");
    assert_eq!(t.list(10, None).await.runs.len(), 1);
}

/// Waiting and paused runs also hold their subject.
pub(super) async fn a_run_that_rests_holds_its_subject(t: &TestStore) {
    let run = t.order().subject("s").granted_to(ANN).start().await;
    let run = t.write(&run).await.awaits_signal("go").parks().done().await;
    must!(t.order().subject("s").send().await, StartOutcome::SubjectBusy { .. });
    t.steered(&run, hapax_engine::model::RunCommand::Pause).await;
    must!(t.order().subject("s").send().await, StartOutcome::SubjectBusy { .. });
}

/// A run frees its subject however it ends.
pub(super) async fn the_end_of_a_run_frees_its_subject(t: &TestStore) {
    for way in 0..4 {
        let run = t.order().subject("s").granted_to(ANN).start().await;
        let write = t.write(&run).await;
        match way {
            0 => write.completes("1").done().await,
            1 => write.fails("no").done().await,
            2 => write.cancels().done().await,
            _ => write.releases().done().await,
        };
    }
    let last = t.order().subject("s");
    must!(last.send().await, StartOutcome::SubjectBusy { .. });
    let pending = t.order().subject("u").start().await;
    t.steered(&pending, cancel()).await;
    t.order().subject("u").start().await;
}

/// A subject is scoped to a workspace and a workflow name, in any version.
pub(super) async fn subjects_are_told_apart_by_workspace_and_workflow(t: &TestStore) {
    t.order().subject("s").start().await;
    t.order().subject("S").start().await;
    t.order().subject("s").workspace("abroad").start().await;
    t.order().subject("s").workflow("refund", 1).start().await;
    t.order().start().await;
    must!(t.order().subject("s").workflow("order", 2).send().await, StartOutcome::SubjectBusy { .. });
}

/// The key is checked before the subject, so a second click finds its own run.
pub(super) async fn a_key_decides_before_a_subject(t: &TestStore) {
    let first = t.order().key("k").subject("s").start().await;
    must!(t.order().key("k").subject("s").send().await, StartOutcome::Existing(run) if run == first);
    must!(t.order().key("k").input("2").subject("s").send().await, StartOutcome::KeyConflict { .. });
}
