//! Bounded pages of runs, history and keys.

use std::sync::Arc;

use hapax_engine::limits::{MAX_CLAIM, MAX_PAGE};
use hapax_engine::model::{
    IdempotencyKey, Promise, PromiseId, RunCommand, RunId, RunStatus, StepId, Subject, Timestamp, Version,
    WorkspaceId,
};
use hapax_engine::store::{ListRuns, RunFilter, StartOutcome, StoreError, WaitsFor};

use crate::fixture::*;
use crate::must;

async fn ids(t: &TestStore, request: ListRuns) -> Vec<RunId> {
    t.store.list_runs(request).await.unwrap().runs.iter().map(|run| run.head.id()).collect()
}

fn all() -> ListRuns {
    ListRuns {
        workspace: None,
        statuses: Vec::new(),
        workflow: None,
        filter: Default::default(),
        before: None,
        limit: 100,
    }
}

/// Runs are listed newest first, page by page, each once, and the last page is marked.
pub(super) async fn runs_are_listed_newest_first(t: &TestStore) {
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
pub(super) async fn a_page_shows_inputs_and_results(t: &TestStore) {
    let held = t.order().input(r#"{"item":7}"#).granted_to(ANN).start().await;
    let closed = t.write(&held).await.completes(r#"{"paid":1}"#).done().await;
    let run = t.list(1, None).await.runs.remove(0);
    assert_eq!(
        (run.head, run.input, run.result),
        (closed, json(r#"{"item":7}"#), Some(completed(r#"{"paid":1}"#)))
    );
}

/// Lists can be filtered by workspace, status and workflow, together.
pub(super) async fn lists_are_narrowed(t: &TestStore) {
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
pub(super) async fn narrowed_pages_go_on_where_they_ended(t: &TestStore) {
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

fn here(filter: RunFilter) -> ListRuns {
    ListRuns { workspace: Some(WorkspaceId::default()), filter, ..all() }
}

fn id_at(millis: i64, n: u128) -> RunId {
    RunId::from_u128(RunId::first_at(Timestamp::from_millis(millis)).as_u128() + n)
}

/// Subjects are found on open and ended runs, keys while they name a run, times in the ids.
pub(super) async fn lists_are_filtered_by_subject_key_version_and_time(t: &TestStore) {
    let start = |millis, n| t.order().id(id_at(millis, n)).granted_to(ANN);
    let first = start(1_000, 1).subject("cart-1").key("k1").start().await;
    t.write(&first).await.fails("no").done().await;
    let second = start(2_000, 1).subject("cart-1").start().await;
    let other = start(2_000, 2).subject("cart-2").key("k2").start().await;
    let abroad = start(3_000, 1).subject("cart-1").key("k1").workspace("abroad").start().await;
    let newer = start(3_000, 2).workflow("order", 2).start().await;
    let of =
        |subject: &str| RunFilter { subject: Some(Subject::new(subject).unwrap()), ..Default::default() };
    assert_eq!(ids(t, here(of("cart-1"))).await, [second.id(), first.id()]);
    let failed = ListRuns { statuses: vec![RunStatus::Failed], ..here(of("cart-1")) };
    assert_eq!(ids(t, failed).await, [first.id()]);
    let away = ListRuns { workspace: Some(abroad.facts.workspace.clone()), ..here(of("cart-1")) };
    assert_eq!(ids(t, away).await, [abroad.id()]);
    let refunds = ListRuns { workflow: Some(name("refund")), ..here(of("cart-1")) };
    assert!(ids(t, refunds).await.is_empty());
    let key = |text: &str| Some(IdempotencyKey::new(text).unwrap());
    let keyed = |text: &str| RunFilter { key: key(text), ..Default::default() };
    assert_eq!(ids(t, here(keyed("k1"))).await, [first.id()]);
    assert!(ids(t, here(RunFilter { key: key("k2"), ..of("cart-1") })).await.is_empty());
    assert_eq!(ids(t, here(RunFilter { key: key("k2"), ..of("cart-2") })).await, [other.id()]);
    assert!(ids(t, here(keyed("unknown"))).await.is_empty());
    let older = ListRuns { before: Some(other.id()), ..here(keyed("k2")) };
    assert!(ids(t, older).await.is_empty());
    let version = |version| RunFilter { version: Some(version), ..Default::default() };
    assert_eq!(ids(t, here(version(2))).await, [newer.id()]);
    let running = ListRuns { statuses: vec![RunStatus::Running], ..here(version(1)) };
    assert_eq!(ids(t, running).await, [other.id(), second.id()]);
    let at = |millis| Some(Timestamp::from_millis(millis));
    let within = |since, until| RunFilter { since, until, ..Default::default() };
    assert_eq!(ids(t, here(within(at(2_000), None))).await, [newer.id(), other.id(), second.id()]);
    assert_eq!(ids(t, here(within(None, at(2_000)))).await, [first.id()]);
    assert_eq!(ids(t, here(within(at(1_001), at(3_000)))).await, [other.id(), second.id()]);
    assert!(ids(t, here(within(at(4_000), None))).await.is_empty());
    assert!(ids(t, here(within(at(3_000), at(2_000)))).await.is_empty());
    let recent = RunFilter { since: at(1_500), ..of("cart-1") };
    assert_eq!(ids(t, here(recent)).await, [second.id()]);
}

/// The current step is the first that is not final, or else the last; waits are steps of open runs.
pub(super) async fn lists_are_filtered_by_current_step_and_wait(t: &TestStore) {
    let ended = t.driven().await;
    t.write(&ended).await.does("charge").completes("1").done().await;
    let signalled = t.driven().await;
    let signalled = t.write(&signalled).await.does("charge").awaits_signal("go").parks().done().await;
    let again = t.driven().await;
    let again = t.write(&again).await.awaits_signal("go#2").parks().done().await;
    let (asleep, soon) = (t.driven().await, t.now().plus(LEASE));
    let asleep = t.write(&asleep).await.sleeps("nap", soon).parks_until(Some(soon)).done().await;
    let child = t.driven().await;
    let order = t.child_of(&child, "ship");
    let parent = t.write(&child).await.awaits_child("ship", &order).parks().done().await;
    let owner = t.driven().await;
    let owner = t.write(&owner).await.awaits_promise("payment", None).parks().done().await;
    let standalone = Promise::pending(PromiseId::standalone("rate").unwrap(), RunId::NONE, t.now(), None);
    let waiter = t.driven().await;
    let waiter = t.write(&waiter).await.waits_for("promise", standalone.clone()).parks().done().await;
    let cancelled = t.driven().await;
    let cancelled = t.write(&cancelled).await.awaits_signal("go").parks().done().await;
    t.steered(&cancelled, RunCommand::Cancel { reason: String::new() }).await;
    let at = |step: &str| RunFilter { current_step: Some(step.into()), ..Default::default() };
    assert_eq!(ids(t, here(at("charge"))).await, [ended.id()]);
    let go = ids(t, here(at("go"))).await;
    assert!(go.contains(&signalled.id()) && go.contains(&again.id()), "{go:?}");
    assert_eq!(ids(t, here(at("go#2"))).await, [again.id()]);
    assert!(ids(t, here(at("nothing"))).await.is_empty());
    let waits = |wait| RunFilter { waits_for: Some(wait), ..Default::default() };
    let waiting = |wait| ListRuns { statuses: vec![RunStatus::Waiting], ..here(waits(wait)) };
    assert_eq!(ids(t, waiting(WaitsFor::Signal("go".into()))).await, [again.id(), signalled.id()]);
    assert_eq!(ids(t, here(waits(WaitsFor::Timer))).await, [asleep.id()]);
    assert_eq!(ids(t, here(waits(WaitsFor::Child))).await, [parent.id()]);
    let own = PromiseId::for_step(owner.id(), owner.generation, &StepId::from_stored("payment"));
    assert_eq!(ids(t, here(waits(WaitsFor::Promise(own)))).await, [owner.id()]);
    let no_step = PromiseId::for_step(owner.id(), owner.generation, &StepId::from_stored("refund"));
    assert!(ids(t, here(waits(WaitsFor::Promise(no_step)))).await.is_empty());
    assert_eq!(ids(t, here(waits(WaitsFor::Promise(standalone.id.clone())))).await, [waiter.id()]);
    let both = RunFilter { current_step: Some("go#2".into()), ..waits(WaitsFor::Signal("go".into())) };
    assert_eq!(ids(t, here(both)).await, [again.id()]);
    let closed = ListRuns { statuses: vec![RunStatus::Completed], ..here(waits(WaitsFor::Timer)) };
    assert!(ids(t, closed).await.is_empty());
}

/// Pages of a list with several filters hold each fitting run once.
pub(super) async fn combined_filters_go_on_page_by_page(t: &TestStore) {
    let mut fitting = Vec::new();
    for n in 0..9u128 {
        let subject = if n % 3 == 2 { "b" } else { "a" };
        let order = t.order().workflow(if n % 2 == 0 { "order" } else { "refund" }, 1).subject(subject);
        let held = order.id(id_at(1_000 * n as i64, 1)).granted_to(ANN).start().await;
        let held = t.write(&held).await.awaits_signal("go").parks().done().await;
        // The next run takes the subject over.
        if n < 8 {
            let _sent = t.signal(&held, "go").await;
            let held = t.claim_one(ANN).await;
            t.write(&held).await.gets("go").consumes(1).does("pack").completes("1").done().await;
        }
        if n >= 2 && subject == "a" {
            fitting.push(held.id());
        }
    }
    fitting.reverse();
    let filter = RunFilter {
        subject: Some(Subject::new("a").unwrap()),
        since: Some(Timestamp::from_millis(2_000)),
        current_step: Some("pack".into()),
        ..Default::default()
    };
    for limit in 1..4 {
        let (mut seen, mut before) = (Vec::new(), None);
        loop {
            let request =
                ListRuns { before, limit, statuses: vec![RunStatus::Completed], ..here(filter.clone()) };
            let page = t.store.list_runs(request).await.unwrap();
            assert!(page.runs.len() <= limit);
            seen.extend(page.runs.iter().map(|run| run.head.id()));
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        assert_eq!(seen, fitting, "pages of {limit}");
    }
}

/// A filter over all workspaces is refused: no index serves it.
pub(super) async fn a_filter_needs_a_workspace(t: &TestStore) {
    let filter = RunFilter { version: Some(1), ..Default::default() };
    let refused = t.store.list_runs(ListRuns { filter, ..all() }).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
}

/// A history is read oldest first, from any version.
pub(super) async fn a_history_is_read_from_any_version_on(t: &TestStore) {
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
pub(super) async fn a_long_history_comes_in_pages(t: &TestStore) {
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
pub(super) async fn everything_is_cut_to_its_limit(t: &TestStore) {
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
