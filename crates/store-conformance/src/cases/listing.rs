//! Bounded pages of runs, history and keys.

use std::sync::Arc;

use hapax_engine::limits::{MAX_CLAIM, MAX_PAGE};
use hapax_engine::model::{RunId, RunStatus, Version, WorkspaceId};
use hapax_engine::store::{ListRuns, StartOutcome};

use crate::fixture::*;
use crate::must;

async fn ids(t: &Stage, request: ListRuns) -> Vec<RunId> {
    t.store.list_runs(request).await.unwrap().runs.iter().map(|run| run.head.id()).collect()
}

fn all() -> ListRuns {
    ListRuns { workspace: None, statuses: Vec::new(), workflow: None, before: None, limit: 100 }
}

/// Runs are listed newest first, page by page, each once, and the last page is marked.
pub(super) async fn runs_are_listed_newest_first(t: &Stage) {
    assert!(t.list(10, None).await.runs.is_empty());
    let mut runs = Vec::new();
    for _ in 0..5 {
        runs.push(t.pending().await);
    }
    runs.reverse();
    let (mut seen, mut before, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = t.list(2, before).await;
        pages += 1;
        seen.extend(page.runs.into_iter().map(|run| run.head));
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    assert_eq!((seen, pages), (runs, 3));
    assert_eq!(t.list(5, None).await.next, None, "a page that just fits is the last");
}

/// A page shows runs with their inputs and results.
pub(super) async fn a_page_shows_inputs_and_results(t: &Stage) {
    let held = t.order().input(r#"{"item":7}"#).granted_to(ANN).start().await;
    let closed = t.write(&held).await.completes(r#"{"paid":1}"#).done().await;
    let run = t.list(1, None).await.runs.remove(0);
    assert_eq!(
        (run.head, run.input, run.result),
        (closed, json(r#"{"item":7}"#), Some(completed(r#"{"paid":1}"#)))
    );
}

/// Lists can be filtered by workspace, status and workflow, together.
pub(super) async fn lists_are_narrowed(t: &Stage) {
    let pending = t.pending().await;
    let abroad = t.order().workspace("abroad").start().await;
    let refund = t.order().workflow("refund", 2).start().await;
    let running = t.driven().await;
    let failed = t.driven().await;
    t.write(&failed).await.fails("no").done().await;
    let every = [&failed, &running, &refund, &abroad, &pending].map(|run| run.id());
    assert_eq!(ids(t, all()).await, every);
    let abroad_only = ListRuns { workspace: Some(WorkspaceId::new("abroad").unwrap()), ..all() };
    assert_eq!(ids(t, abroad_only).await, [abroad.id()]);
    let here = || ListRuns { workspace: Some(WorkspaceId::default()), ..all() };
    let two = ListRuns { statuses: vec![RunStatus::Running, RunStatus::Failed], ..here() };
    assert_eq!(ids(t, two).await, [failed.id(), running.id()]);
    let refunds = ListRuns { workflow: Some(name("refund")), ..here() };
    assert_eq!(ids(t, refunds.clone()).await, [refund.id()]);
    assert!(ids(t, ListRuns { statuses: vec![RunStatus::Failed], ..refunds }).await.is_empty());
    let none = ListRuns { workspace: Some(WorkspaceId::new("nowhere").unwrap()), ..all() };
    assert!(ids(t, none).await.is_empty());
}

/// Pages of a filtered list continue where the last one ended, even if other runs lie between.
pub(super) async fn narrowed_pages_go_on_where_they_ended(t: &Stage) {
    let mut waiting = Vec::new();
    for n in 0..9 {
        let held = t.driven().await;
        if n % 3 == 0 {
            waiting.push(t.write(&held).await.awaits_signal("go").parks().done().await.id());
        }
    }
    waiting.reverse();
    let request = |before| ListRuns { statuses: vec![RunStatus::Waiting], before, limit: 2, ..all() };
    let first = t.store.list_runs(request(None)).await.unwrap();
    assert_eq!(first.runs.iter().map(|run| run.head.id()).collect::<Vec<_>>(), waiting[..2]);
    assert!(first.next.is_some());
    let second = t.store.list_runs(request(first.next)).await.unwrap();
    assert_eq!(second.runs.iter().map(|run| run.head.id()).collect::<Vec<_>>(), waiting[2..]);
    assert_eq!(second.next, None);
}

/// A history is read oldest first, from any version.
pub(super) async fn a_history_is_read_from_any_version_on(t: &Stage) {
    let run = t.pending().await;
    let held = t.claim_one(ANN).await;
    let held = t.write(&held).await.does("charge").releases().done().await;
    let events = t.events(&run).await;
    assert_eq!(events.iter().map(|event| event.version.get()).collect::<Vec<_>>(), [1, 2, 5]);
    for (after, left) in [(0, 3), (1, 2), (2, 1), (4, 1), (5, 0), (99, 0)] {
        let page = t.store.list_events(&run.facts.workspace, run.id(), Version::new(after)).await.unwrap();
        assert_eq!(page, events[3 - left..]);
    }
    assert_eq!(held.version.get(), 5);
}

/// A long history is returned in pages.
pub(super) async fn a_long_history_comes_in_pages(t: &Stage) {
    let held = t.driven().await;
    let mut write = t.write(&held).await;
    for n in 0..MAX_PAGE {
        write = write.continues_with(&n.to_string());
    }
    write.done().await;
    let first = t.events(&held).await;
    assert_eq!(first.len(), MAX_PAGE);
    let last = first.last().unwrap().version;
    let second = t.store.list_events(&held.facts.workspace, held.id(), last).await.unwrap();
    assert_eq!(second.iter().map(|event| event.version).collect::<Vec<_>>(), [last.next()]);
}

/// Every page, key list and claim has a maximum size, and the rest follows on the next call.
pub(super) async fn everything_is_cut_to_its_limit(t: &Stage) {
    let count = MAX_CLAIM + 3;
    let orders: Vec<_> = (0..count).map(|n| t.order().key(&format!("key-{n:05}")).new_run()).collect();
    for batch in orders.chunks(200) {
        let starts: Vec<_> = batch
            .iter()
            .map(|new| {
                let (store, new) = (Arc::clone(&t.store), new.clone());
                tokio::spawn(async move { store.start_run(new).await.unwrap() })
            })
            .collect();
        for start in starts {
            must!(start.await.unwrap(), StartOutcome::Created(_));
        }
    }
    let page = t.list(usize::MAX, None).await;
    assert_eq!(page.runs.len(), MAX_PAGE);
    assert_eq!(t.list(usize::MAX, page.next).await.runs.len(), count - MAX_PAGE);
    let keys = t.store.list_keys(None).await.unwrap();
    assert_eq!(keys.len(), MAX_PAGE);
    let last = keys.last().unwrap().0.clone();
    assert_eq!(t.store.list_keys(Some(last)).await.unwrap().len(), count - MAX_PAGE);
    assert_eq!(t.claim_upto(usize::MAX, ANN).await.runs.len(), MAX_CLAIM);
    assert_eq!(t.claim_upto(usize::MAX, ANN).await.runs.len(), count - MAX_CLAIM);
}
