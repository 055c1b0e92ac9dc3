//! Families: a root run with all its descendants.

use hapax_engine::model::{
    ChildrenRefused, ClosePolicy, EventKind, PendingRequest, RunHead, RunId, RunStatus, StepId, Subscribers,
    WorkspaceId,
};
use hapax_engine::store::{
    CancelFamily, CancelFamilyOutcome, CommitOutcome, FamilyStore, StoreError, SweepFamily,
    SweepFamilyOutcome,
};

use crate::fixture::*;
use crate::must;

fn book(t: &TestStore) -> &dyn FamilyStore {
    t.store.family_store().expect("a store keeps families")
}

/// A child that continues when its parent ends.
fn abandoned<'s>(t: &'s TestStore, parent: &RunHead, step: &str) -> Order<'s> {
    t.order().parent(parent.facts.as_parent(StepId::from_stored(step), ClosePolicy::Abandon))
}

/// A driven root with two abandoned children and a grandchild below the first, which BOB drives.
async fn family(t: &TestStore) -> [RunHead; 4] {
    let root = t.driven().await;
    let (first, second) = (abandoned(t, &root, "a").granted_to(BOB), abandoned(t, &root, "b"));
    let root = t.write(&root).await.awaits_child("a", &first).awaits_child("b", &second).done().await;
    let first = first.start().await;
    let grandchild = abandoned(t, &first, "c");
    let first = t.write(&first).await.awaits_child("c", &grandchild).done().await;
    [root, first, second.start().await, grandchild.start().await]
}

async fn cancel_family(t: &TestStore, root: &RunHead) -> CancelFamilyOutcome {
    let (workspace, root) = (root.facts.workspace.clone(), root.id());
    let request = CancelFamily { workspace, root, reason: "a mistake".into(), expected: None, note: None };
    book(t).cancel_family(request).await.unwrap()
}

async fn sweep(t: &TestStore, root: &RunHead, after: Option<RunId>, limit: usize) -> SweepFamilyOutcome {
    let (workspace, root) = (root.facts.workspace.clone(), root.id());
    let request = SweepFamily { workspace, root, after, limit, announce: Subscribers::default() };
    book(t).sweep_family(request).await.unwrap()
}

async fn unswept(t: &TestStore) -> Vec<RunId> {
    let families = book(t).list_unswept_families(10).await.unwrap();
    families.into_iter().map(|(_, root)| root).collect()
}

/// Tries to start one child while the root is limited to `most` descendants.
async fn start_one(t: &TestStore, parent: &RunHead, step: &str, most: u64) -> CommitOutcome {
    let order = abandoned(t, parent, step);
    let mut advance = t.write(parent).await.awaits_child(step, &order).advance();
    advance.max_descendants = most;
    t.store.commit_run(advance).await.unwrap()
}

/// A child knows the root of its family, and its depth below the root.
pub(super) async fn descendants_know_their_root(t: &TestStore) {
    let [root, first, second, grandchild] = family(t).await;
    for (run, depth) in [(&first, 1), (&second, 1), (&grandchild, 2)] {
        let facts = t.head(run).await.facts;
        assert_eq!((facts.root(), facts.depth()), (root.id(), depth));
    }
    assert_eq!((root.facts.root(), root.facts.depth()), (root.id(), 0));
}

/// All descendants count towards the root's limit, wherever they are started. A write over the limit changes nothing.
pub(super) async fn a_root_has_so_many_descendants_and_no_more(t: &TestStore) {
    let [root, first, _, _] = family(t).await;
    for parent in [&root, &first] {
        let before = t.head(parent).await;
        let refused =
            must!(start_one(t, parent, "d", 3).await, CommitOutcome::ChildrenRefused(refused) => refused);
        assert_eq!(refused, ChildrenRefused::TooMany { root: root.id(), born: 3, most: 3 });
        assert_eq!(t.head(parent).await, before);
        assert!(t.step(parent, "d").await.is_none());
    }
    assert_eq!(t.list(10, None).await.runs.len(), 4);
    must!(start_one(t, &first, "d", 4).await, CommitOutcome::Committed { .. });
    must!(start_one(t, &root, "d", 4).await, CommitOutcome::ChildrenRefused(_));
    let other = t.driven().await;
    must!(start_one(t, &other, "d", 1).await, CommitOutcome::Committed { .. });
}

/// A repeated write finds its own children, which count once.
pub(super) async fn a_write_sent_again_counts_its_children_once(t: &TestStore) {
    let root = t.driven().await;
    let order = abandoned(t, &root, "a");
    let mut advance = t.write(&root).await.awaits_child("a", &order).advance();
    advance.max_descendants = 2;
    must!(t.store.commit_run(advance.clone()).await.unwrap(), CommitOutcome::Committed { .. });
    must!(t.store.commit_run(advance).await.unwrap(), CommitOutcome::Committed { .. });
    let root = t.head(&root).await;
    must!(start_one(t, &root, "b", 2).await, CommitOutcome::Committed { .. });
    let root = t.head(&root).await;
    must!(start_one(t, &root, "c", 2).await, CommitOutcome::ChildrenRefused(_));
}

/// Continue-as-new resets the count of descendants, so a root can start children without end.
pub(super) async fn a_root_that_continues_as_new_begins_a_new_count(t: &TestStore) {
    let root = t.driven().await;
    must!(start_one(t, &root, "a", 1).await, CommitOutcome::Committed { .. });
    let root = t.head(&root).await;
    must!(start_one(t, &root, "b", 1).await, CommitOutcome::ChildrenRefused(_));
    let root = t.write(&root).await.gives_up("a").continues_with("2").done().await;
    must!(start_one(t, &root, "a", 1).await, CommitOutcome::Committed { .. });
}

/// A writer that lost the run gets that answer, whatever else is wrong with its children.
pub(super) async fn a_stale_writer_learns_only_that_it_is_stale(t: &TestStore) {
    let root = t.driven().await;
    must!(start_one(t, &root, "a", 1).await, CommitOutcome::Committed { .. });
    must!(start_one(t, &root, "b", 1).await, CommitOutcome::Stale(_));
    t.pass(LEASE);
    assert_eq!(t.claim(BOB).await.len(), 2);
    must!(start_one(t, &root, "b", 1).await, CommitOutcome::LeaseLost);
}

/// No child starts in a cancelled family, so a sweep reaches every member.
pub(super) async fn no_child_starts_in_a_cancelled_family(t: &TestStore) {
    let [root, first, _, _] = family(t).await;
    must!(cancel_family(t, &root).await, CancelFamilyOutcome::Cancelled(head) if head == t.head(&root).await);
    for parent in [&root, &first] {
        let refused =
            must!(start_one(t, parent, "d", 99).await, CommitOutcome::ChildrenRefused(refused) => refused);
        assert_eq!(refused, ChildrenRefused::Cancelled { root: root.id() });
    }
    let late = abandoned(t, &first, "late").new_run();
    must!(t.store.start_run(late).await, Err(StoreError::Refused(_)));
    assert_eq!(t.list(10, None).await.runs.len(), 4);
}

/// A sweep cancels all open members in small batches, including abandoned ones, and can resume after a crash.
pub(super) async fn a_sweep_reaches_every_member_of_a_cancelled_family(t: &TestStore) {
    let [root, first, second, grandchild] = family(t).await;
    let bystander = t.pending().await;
    assert_eq!(sweep(t, &root, None, 10).await, SweepFamilyOutcome::default(), "it was not cancelled");
    must!(cancel_family(t, &root).await, CancelFamilyOutcome::Cancelled(_));
    assert_eq!(unswept(t).await, [root.id()]);
    let begun = sweep(t, &root, None, 2).await;
    assert_eq!(begun.steered.len(), 2);
    assert!(begun.next.is_some());
    assert_eq!(unswept(t).await, [root.id()], "a crash here leaves it to others");
    let mut after = None;
    let mut batches = 0;
    loop {
        let swept = sweep(t, &root, after, 2).await;
        batches += 1;
        after = swept.next;
        if after.is_none() {
            break;
        }
    }
    assert!(batches <= 2, "{batches}");
    assert_eq!(unswept(t).await, []);
    for driven in [&root, &first] {
        assert_eq!(t.head(driven).await.asked, PendingRequest::Cancel);
    }
    for pending in [&second, &grandchild] {
        assert_eq!(t.head(pending).await.status(), RunStatus::Cancelled);
        assert_eq!(t.history(pending).await, [EventKind::Started, EventKind::Cancelled]);
    }
    assert_eq!(t.head(&bystander).await, bystander);
}

/// A family can be cancelled even if its root ended long ago.
pub(super) async fn the_family_of_an_ended_root_is_cancelled_as_well(t: &TestStore) {
    let [root, first, second, _] = family(t).await;
    let root = t.write(&root).await.gives_up("a").gives_up("b").completes("1").done().await;
    assert_eq!(t.head(&second).await.status(), RunStatus::Pending);
    must!(cancel_family(t, &root).await, CancelFamilyOutcome::Cancelled(_));
    assert_eq!(sweep(t, &root, None, 10).await.next, None);
    assert_eq!(t.head(&root).await.status(), RunStatus::Completed);
    assert_eq!(t.head(&first).await.asked, PendingRequest::Cancel);
    assert_eq!(t.head(&second).await.status(), RunStatus::Cancelled);
}

/// Only a root's family can be cancelled, only in its workspace, and only under the version that the caller saw.
pub(super) async fn only_the_family_of_a_root_is_cancelled(t: &TestStore) {
    let [root, first, ..] = family(t).await;
    must!(cancel_family(t, &first).await, CancelFamilyOutcome::NotRoot(run) if run == root.id());
    let asked = |workspace: &str, expected| CancelFamily {
        workspace: WorkspaceId::new(workspace).unwrap(),
        root: root.id(),
        reason: "a mistake".into(),
        expected,
        note: None,
    };
    let own = root.facts.workspace.as_str();
    let abroad = book(t).cancel_family(asked("abroad", None)).await.unwrap();
    must!(abroad, CancelFamilyOutcome::NoSuchRun);
    let stale = book(t).cancel_family(asked(own, Some(first.version.next().next().next()))).await.unwrap();
    must!(stale, CancelFamilyOutcome::Stale(version) if version == root.version);
    assert_eq!(unswept(t).await, []);
    let seen = book(t).cancel_family(asked(own, Some(root.version))).await.unwrap();
    must!(seen, CancelFamilyOutcome::Cancelled(_));
}

/// The data of a family is deleted with its last run.
pub(super) async fn a_family_is_forgotten_with_its_last_member(t: &TestStore) {
    let root = t.driven().await;
    let child = abandoned(t, &root, "a").granted_to(BOB);
    let root = t.write(&root).await.awaits_child("a", &child).done().await;
    let child = child.start().await;
    must!(cancel_family(t, &root).await, CancelFamilyOutcome::Cancelled(_));
    t.write(&root).await.gives_up("a").completes("1").done().await;
    t.pass(SECOND);
    assert_eq!(t.purge().await.runs, 1);
    assert_eq!(unswept(t).await, [root.id()], "a descendant is left that could start children");
    t.write(&child).await.completes("1").done().await;
    t.pass(SECOND);
    assert_eq!(t.purge().await.runs, 1);
    assert_eq!(unswept(t).await, []);
}
