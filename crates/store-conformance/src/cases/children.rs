//! Parents and children.

use hapax_engine::model::{EventKind, PendingRequest, RunCommand, RunHead, RunState, RunStatus, WorkspaceId};
use hapax_engine::store::{CommitOutcome, StoreError};

use crate::fixture::*;
use crate::must;

/// A driven parent and its child, which waits to be claimed.
async fn family(t: &TestStore) -> (RunHead, RunHead) {
    let parent = t.driven().await;
    let order = t.child_of(&parent, "ship");
    let parent = t.write(&parent).await.awaits_child("ship", &order).done().await;
    (parent, order.start().await)
}

async fn drive(t: &TestStore, run: &RunHead) -> RunHead {
    t.claim(BOB).await.into_iter().find(|claimed| claimed.id() == run.id()).expect("it is due")
}

/// Invariant 46: a child is started in the same write as the step that waits for it, and the answer lists it as due.
pub(super) async fn a_child_is_started_with_its_step(t: &TestStore) {
    let parent = t.driven().await;
    let order = t.child_of(&parent, "ship").input(r#"{"parcel":1}"#);
    let woken = t.write(&parent).await.awaits_child("ship", &order).woke().await;
    let child = order.start().await;
    assert_eq!(woken, [child.id()]);
    assert_eq!((child.status(), child.version.get()), (RunStatus::Pending, 1));
    assert_eq!(child.facts.parent.as_ref().unwrap().run, parent.id());
    assert_eq!(t.view(&child).await.input, json(r#"{"parcel":1}"#));
    assert_eq!(t.step(&parent, "ship").await.unwrap().child, Some(child.id()));
    assert_eq!(t.history(&child).await, [EventKind::Started]);
}

/// A child that is granted at once, or due later, is not listed as due.
pub(super) async fn a_child_that_is_not_due_is_not_named(t: &TestStore) {
    let parent = t.driven().await;
    let (granted, later) = (t.child_of(&parent, "a").granted_to(BOB), t.child_of(&parent, "b").due_in(HOUR));
    let write = t.write(&parent).await.awaits_child("a", &granted).awaits_child("b", &later);
    assert!(write.woke().await.is_empty());
    assert_eq!(granted.start().await.state.lease().unwrap().owner, BOB);
}

/// Invariant 46: an existing child is left unchanged.
pub(super) async fn a_child_is_started_once(t: &TestStore) {
    let (parent, child) = family(t).await;
    let held = drive(t, &child).await;
    let mut advance = t.write(&parent).await.does("charge").advance();
    advance.children.push(t.child_of(&parent, "ship").id(child.id()).new_run());
    must!(t.store.commit_run(advance).await.unwrap(), CommitOutcome::Committed { woken, .. } if woken.is_empty());
    assert_eq!(t.head(&child).await, held);
}

/// The log of a parent contains the children it waits for, with their results.
pub(super) async fn a_parent_reads_what_its_child_ended_with(t: &TestStore) {
    let (parent, child) = family(t).await;
    assert_eq!(t.log(&parent).await.children, [(child.id(), None)]);
    let held = drive(t, &child).await;
    t.write(&held).await.completes(r#"{"sent":true}"#).done().await;
    assert_eq!(t.log(&parent).await.children, [(child.id(), Some(completed(r#"{"sent":true}"#)))]);
    let parent = t.head(&parent).await;
    assert_eq!(parent.arrivals, 1);
    t.write(&parent).await.gets("ship").done().await;
    assert!(t.log(&parent).await.children.is_empty(), "the step has its outcome");
}

/// A child that failed also notifies its parent.
pub(super) async fn a_failed_child_tells_its_parent(t: &TestStore) {
    let (parent, child) = family(t).await;
    let parent = t.write(&parent).await.parks().done().await;
    let held = drive(t, &child).await;
    assert_eq!(t.write(&held).await.fails("lost").woke().await, [parent.id()]);
    assert_eq!(t.log(&parent).await.children, [(child.id(), Some(failed("lost")))]);
    assert_eq!(t.head(&parent).await.state.wake_at(), Some(t.now()));
}

/// A child cancelled by a person also notifies its parent.
pub(super) async fn a_child_cancelled_from_outside_tells_its_parent(t: &TestStore) {
    let (parent, child) = family(t).await;
    let parent = t.write(&parent).await.parks().done().await;
    assert_eq!(t.steered(&child, cancel()).await.status(), RunStatus::Cancelled);
    let woken = t.head(&parent).await;
    assert_eq!((woken.arrivals, woken.state.wake_at()), (1, Some(t.now())));
}

/// Invariant 46: the end of a parent cancels a child that never ran, and records the reason.
pub(super) async fn the_end_of_a_parent_cancels_a_child_that_never_ran(t: &TestStore) {
    let (parent, child) = family(t).await;
    let woken = t.write(&parent).await.gives_up("ship").completes("1").woke().await;
    assert!(woken.is_empty(), "nothing is left to drive");
    let view = t.view(&child).await;
    assert_eq!(view.head.status(), RunStatus::Cancelled);
    let hapax_engine::model::RunResult::Cancelled(why) = view.result.unwrap() else {
        panic!("it was cancelled")
    };
    assert!(why.message().contains(&parent.id().to_string()));
    assert_eq!(t.events(&child).await.last().unwrap().note.as_deref(), Some(why.message()));
}

/// Invariants 45, 46: the end of a parent requests cancellation of a running child and wakes a waiting one to cancel.
pub(super) async fn the_end_of_a_parent_asks_living_children_to_cancel(t: &TestStore) {
    let parent = t.driven().await;
    let orders: Vec<_> =
        ["a", "b", "c", "d"].into_iter().map(|step| t.child_of(&parent, step).granted_to(BOB)).collect();
    let mut write = t.write(&parent).await;
    for (order, step) in orders.iter().zip(["a", "b", "c", "d"]) {
        write = write.awaits_child(step, order);
    }
    let mut parent = write.done().await;
    let mut children = Vec::new();
    for order in &orders {
        children.push(order.start().await);
    }
    let [driven, waiting, paused, ready] = &children[..] else { panic!("four children") };
    t.write(waiting).await.awaits_signal("go").parks().done().await;
    t.steered(paused, RunCommand::Pause).await;
    let asked = t.head(paused).await;
    t.write(&asked).await.pauses().done().await;
    t.write(ready).await.releases().done().await;
    let mut write = t.write(&parent).await;
    for step in ["a", "b", "c", "d"] {
        write = write.gives_up(step);
    }
    t.pass(SECOND);
    let mut woken = write.fails("no").woke().await;
    woken.sort();
    assert_eq!(woken, [waiting.id(), paused.id(), ready.id()]);
    parent = t.head(&parent).await;
    assert_eq!(parent.status(), RunStatus::Failed);
    for child in &children {
        let child = t.head(child).await;
        assert_eq!((child.asked, child.status()), (PendingRequest::Cancel, RunStatus::Running));
        assert_eq!(child.state.lease().is_some(), child.id() == driven.id());
        assert_eq!(t.history(&child).await.last(), Some(&EventKind::CancelRequested));
    }
}

/// A child with a pending cancellation is not asked again, and a closed child is not changed.
pub(super) async fn the_end_of_a_parent_changes_nothing_where_nothing_is_left_to_ask(t: &TestStore) {
    let parent = t.driven().await;
    let (first, second) =
        (t.child_of(&parent, "a").granted_to(BOB), t.child_of(&parent, "b").granted_to(BOB));
    let parent = t.write(&parent).await.awaits_child("a", &first).awaits_child("b", &second).done().await;
    let asked = t.steered(&first.start().await, cancel()).await;
    let ended = t.write(&second.start().await).await.completes("1").done().await;
    t.write(&t.head(&parent).await).await.gives_up("a").gives_up("b").completes("1").done().await;
    assert_eq!(t.head(&asked).await, asked);
    assert_eq!(t.head(&ended).await, ended);
}

/// An abandoned child outlives its parent, and its end notifies no run.
pub(super) async fn an_abandoned_child_goes_on(t: &TestStore) {
    let parent = t.driven().await;
    let order = t.child_of(&parent, "ship").abandoned().granted_to(BOB);
    let parent = t.write(&parent).await.awaits_child("ship", &order).done().await;
    let child = order.start().await;
    let closed = t.write(&parent).await.gives_up("ship").completes("1").done().await;
    assert_eq!(t.head(&child).await, child);
    assert!(t.write(&child).await.does("pack").completes("1").woke().await.is_empty());
    let parent = t.head(&parent).await;
    assert_eq!((parent.state, parent.version), (closed.state, closed.version));
}

/// The end of a parent cancels all generations below it.
pub(super) async fn the_end_of_a_parent_reaches_grandchildren(t: &TestStore) {
    let (parent, child) = family(t).await;
    let grandchild = t.child_of(&child, "pack").start().await;
    t.write(&parent).await.gives_up("ship").completes("1").done().await;
    assert_eq!(t.head(&child).await.status(), RunStatus::Cancelled);
    assert_eq!(t.head(&grandchild).await.status(), RunStatus::Cancelled);
}

/// A command that ends a run also cancels its children.
pub(super) async fn a_run_cancelled_from_outside_takes_its_children_along(t: &TestStore) {
    let parent = t.pending().await;
    let child = t.child_of(&parent, "ship").start().await;
    assert_eq!(t.steered(&parent, cancel()).await.status(), RunStatus::Cancelled);
    assert_eq!(t.head(&child).await.status(), RunStatus::Cancelled);
}

/// A child started in the write that closes its parent is cancelled by that write.
pub(super) async fn a_child_started_by_the_last_write_of_its_parent_is_cancelled(t: &TestStore) {
    let parent = t.driven().await;
    let order = t.child_of(&parent, "ship");
    t.write(&parent).await.awaits_child("ship", &order).gives_up("ship").completes("1").done().await;
    assert_eq!(order.start().await.status(), RunStatus::Cancelled);
}

/// A child belongs to its parent's workspace, and may have no key or subject that could conflict.
pub(super) async fn a_child_that_could_be_refused_is_refused_with_the_write(t: &TestStore) {
    let parent = t.driven().await;
    let order = || t.child_of(&parent, "ship");
    let stranger = t.order().workspace("abroad").start().await;
    for child in
        [order().workspace("abroad"), order().key("k"), order().subject("s"), order().id(stranger.id())]
    {
        let advance = t.write(&parent).await.awaits_child("ship", &child).advance();
        must!(t.store.commit_run(advance).await, Err(StoreError::Refused(_)));
        let new = child.new_run();
        assert!(t.store.find_run(&new.facts.workspace, new.facts.id).await.unwrap().is_none());
    }
    assert_eq!(t.head(&parent).await, parent);
    assert!(t.store.find_run(&WorkspaceId::default(), parent.id()).await.unwrap().is_some());
    assert!(matches!(t.head(&parent).await.state, RunState::Running(_)));
}
