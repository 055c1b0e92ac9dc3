//! Notifications to subscribers about runs that the store itself ends.

use hapax_engine::model::{
    AnnouncementKind, OutboxMessage, OutboxState, OutboxStatus, RunHead, RunStatus, Subscriber, Subscribers,
    WorkspaceId,
};
use hapax_engine::store::{
    CommandRun, ListOutbox, OutboxCommand, Redeliver, RedeliverOutcome, RunCommandOutcome,
};

use crate::fixture::*;
use crate::must;

fn subscribers() -> Subscribers {
    Subscribers::new(vec![
        Subscriber { target: name("hook-1"), wants: [AnnouncementKind::RunCancelled].into() },
        Subscriber {
            target: name("hook-2"),
            wants: [AnnouncementKind::RunCompleted, AnnouncementKind::RunCancelled].into(),
        },
        Subscriber { target: name("hook-3"), wants: [AnnouncementKind::RunFailed].into() },
    ])
}

async fn told(t: &TestStore, run: &RunHead) -> Vec<(String, String)> {
    let request =
        ListOutbox { workspace: None, status: Some(OutboxStatus::Due), target: None, after: None, limit: 50 };
    let posts = t.store.list_outbox(request).await.unwrap();
    let what = |post: &OutboxMessage| {
        let payload: serde_json::Value = post.payload.to().unwrap();
        assert_eq!(payload["data"]["runId"], run.id().to_string());
        (post.target.to_string(), payload["type"].as_str().unwrap().to_string())
    };
    posts.iter().filter(|post| post.run == run.id()).map(what).collect()
}

fn command(run: &RunHead) -> CommandRun {
    CommandRun {
        workspace: WorkspaceId::default(),
        run: run.id(),
        command: cancel(),
        expected: None,
        note: None,
        announce: subscribers(),
    }
}

fn expected_of_cancelled() -> Vec<(String, String)> {
    ["hook-1", "hook-2"].map(|hook| (hook.to_string(), "run.cancelled".to_string())).to_vec()
}

/// A command that ends a run also notifies its subscribers, in the same write and only once.
pub(super) async fn a_command_that_ends_a_run_notifies_subscribers(t: &TestStore) {
    let run = t.pending().await;
    must!(t.store.command_run(command(&run)).await.unwrap(), RunCommandOutcome::Accepted(head) if head.status() == RunStatus::Cancelled);
    assert_eq!(told(t, &run).await, expected_of_cancelled());
    must!(t.store.command_run(command(&run)).await.unwrap(), RunCommandOutcome::Refused(..));
    assert_eq!(told(t, &run).await.len(), 2);
    let driven = t.driven().await;
    must!(t.store.command_run(command(&driven)).await.unwrap(), RunCommandOutcome::Accepted(_));
    assert!(told(t, &driven).await.is_empty(), "it has not ended yet");
}

/// Subscribers are also notified of children that end with their parent, whatever ended the parent.
pub(super) async fn children_that_end_with_their_parent_notify_subscribers(t: &TestStore) {
    let parent = t.driven().await;
    let child = t.child_of(&parent, "child").start().await;
    let write = t.write(&parent).await.announces(subscribers()).completes("1");
    write.done().await;
    assert_eq!(t.head(&child).await.status(), RunStatus::Cancelled);
    assert_eq!(told(t, &child).await, expected_of_cancelled());
    assert_eq!(told(t, &parent).await, [("hook-2".to_string(), "run.completed".to_string())]);
    let parent = t.pending().await;
    let child = t.child_of(&parent, "child").start().await;
    must!(t.store.command_run(command(&parent)).await.unwrap(), RunCommandOutcome::Accepted(_));
    assert_eq!(
        (told(t, &parent).await, told(t, &child).await),
        (expected_of_cancelled(), expected_of_cancelled())
    );
}

/// A person may delete a settled announcement, so that it no longer counts as a dead letter. The journal names the
/// person.
pub(super) async fn a_dead_announcement_can_be_deleted(t: &TestStore) {
    let run = t.pending().await;
    must!(t.store.command_run(command(&run)).await.unwrap(), RunCommandOutcome::Accepted(_));
    let claimed = t.claim_outbox(ANN, &[("hook-1", 1)]).await.posts.remove(0);
    let (workspace, id) = (claimed.workspace.clone(), claimed.id.clone());
    let note = Some(noted_by(MEG, &run, "they are gone"));
    let never = Redeliver { workspace, id, wish: OutboxCommand::Discard, note };
    let under_way = t.store.redeliver(never.clone()).await.unwrap();
    assert_eq!(under_way, RedeliverOutcome::UnderWay(claimed.clone()));
    assert!(t.notes().await.is_empty());
    let dead = OutboxMessage { state: OutboxState::Dead { at: t.now() }, ..claimed.clone() };
    assert!(t.finish(&claimed, dead.state).await);
    let abroad = Redeliver { workspace: WorkspaceId::new("abroad").unwrap(), ..never.clone() };
    assert_eq!(t.store.redeliver(abroad).await.unwrap(), RedeliverOutcome::NoSuchMessage);
    assert_eq!(t.store.redeliver(never.clone()).await.unwrap(), RedeliverOutcome::Discarded(dead));
    assert_eq!(t.store.redeliver(never).await.unwrap(), RedeliverOutcome::NoSuchMessage);
    assert_eq!(told(t, &run).await, expected_of_cancelled()[1..], "the other one is still told");
    assert_eq!(t.store.list_outbox(t.all_posts()).await.unwrap().len(), 1);
    assert_eq!(t.notes().await.len(), 1);
}
