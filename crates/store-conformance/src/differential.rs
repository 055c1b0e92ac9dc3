//! Random requests to two stores that must answer alike: the memory store is the model for the other.
//!
//! The requests are drawn from a small set of runs, keys, subjects, entities and names, so that they collide. Some are
//! outdated, wrong, or repeated. A test that draws them must also show that it drew everything: see [`AnswerCoverage`].

mod commit_generator;
mod effect_request_generator;
mod entity_request;
mod entity_request_generator;
mod outcome_coverage;
mod request;
mod request_generator;

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use hapax_engine::clock::ManualClock;
use hapax_engine::fsck::fsck;
use hapax_engine::limits::MAX_PAGE;
use hapax_engine::memory::MemoryStore;
use hapax_engine::model::{OutboxMessage, RunId, Version, WorkspaceId};
use hapax_engine::store::{CommitOutcome, ListDoubts, ListJournal, ListOutbox, ListRuns, Store};

use crate::fixture::INVOICES;
use crate::suite::block_on;
use crate::{Candidate, MemoryTables};
use entity_request::EntityRequest;
use request::{Answer, Request};
use request_generator::{DrawnRequest, RequestGenerator};

pub use outcome_coverage::AnswerCoverage;

/// One test that sends random requests to a store and to the memory store: `differential_suite!(make_store);`.
///
/// The environment chooses the seeds: `HAPAX_DIFFERENTIAL_SEEDS` says how many, `HAPAX_DIFFERENTIAL_FIRST_SEED` which is first.
#[macro_export]
macro_rules! differential_suite {
    ($make_store:expr) => {
        mod differential {
            #[allow(unused_imports)]
            use super::*;

            #[test]
            fn random_requests_are_answered_as_by_the_memory_store() {
                $crate::run_differential($make_store);
            }
        }
    };
}

/// Number of requests per seed.
const REQUESTS: usize = 800;

/// Number of seeds that run concurrently, each with its own stores: one waits for its answers while another computes.
const AT_ONCE: usize = 3;

#[doc(hidden)]
pub fn run_differential<F: Future<Output = Candidate>>(make_store: impl Fn(Arc<ManualClock>) -> F + Sync) {
    let number = |name: &str, usual: u64| {
        std::env::var(name)
            .map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
    };
    let first = number("HAPAX_DIFFERENTIAL_FIRST_SEED", 0);
    let seeds = number("HAPAX_DIFFERENTIAL_SEEDS", 30);
    let (next, exercised) = (AtomicU64::new(first), Mutex::new(AnswerCoverage::default()));
    let draw = || loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= first + seeds {
            return;
        }
        block_on(async {
            let clock = Arc::new(ManualClock::default());
            let model = Arc::new(MemoryStore::new(clock.clone()));
            let model = Candidate::shared(model.clone()).with_tables(MemoryTables(model));
            let candidate = make_store(clock.clone()).await;
            let drawn = differential(seed, REQUESTS, &model, &candidate, clock).await;
            exercised.lock().unwrap().add(drawn);
            candidate.store().close().await.expect("it closes");
        });
    };
    std::thread::scope(|scope| (0..AT_ONCE).for_each(|_| drop(scope.spawn(draw))));
    exercised.into_inner().unwrap().assert_complete();
}

/// Sends `ops` requests drawn by `seed` to both stores, which follow `clock`; panics where they differ.
pub async fn differential(
    seed: u64,
    ops: usize,
    model: &Candidate,
    subject: &Candidate,
    clock: Arc<ManualClock>,
) -> AnswerCoverage {
    let tables: Vec<_> = model.tables.iter().zip(&subject.tables).flat_map(|(a, b)| [a, b]).collect();
    let has_tables = !tables.is_empty();
    for tables in &tables {
        tables.create_table(INVOICES).await;
    }
    let (model, subject) = (model.store(), subject.store());
    let mut drafter = RequestGenerator::new(seed, has_tables);
    let mut exercised = AnswerCoverage::default();
    for op in 0..ops {
        match drafter.next(&*model).await {
            DrawnRequest::Pass(span) => clock.advance(span),
            DrawnRequest::PutRow(row) => {
                for tables in &tables {
                    tables.put_row(INVOICES, row.clone()).await;
                }
                exercised.note_row();
            }
            DrawnRequest::Ask(request) => {
                let meets = meets_another_post(&request, &*model).await;
                let (expected, answer) = (request.ask(&*model).await, request.ask(&*subject).await);
                let place = || format!("seed {seed}, request {op}: {request:#?}");
                assert_eq!(expected, answer, "{}", place());
                exercised.note(&expected);
                if meets && matches!(expected, Answer::RunCommit(CommitOutcome::Committed { .. })) {
                    exercised.note_left("a post that was there");
                }
                drafter.learn(&request, &expected, &*model).await;
                if let Request::Entity(request) = &*request {
                    same_entities(&*model, &*subject, request.reads(), &place).await;
                }
                if let Some((workspace, run)) = request.run() {
                    same_run(&*model, &*subject, &workspace, run, &place).await;
                }
            }
        }
    }
    same_whole(&*model, &*subject, &format!("seed {seed}, at the end"), &mut exercised).await;
    let reads = entity_request_generator::read_all(has_tables);
    same_entities(&*model, &*subject, reads, &|| format!("seed {seed}, at the end")).await;
    exercised
}

/// Returns true if the write would add an after-effect that already exists.
async fn meets_another_post(request: &Request, model: &dyn Store) -> bool {
    let Request::RunCommit(advance) = request else { return false };
    if advance.posts.is_empty() {
        return false;
    }
    let workspace = Some(advance.workspace().clone());
    let all = ListOutbox { workspace, status: None, target: None, after: None, limit: MAX_PAGE };
    let known = model.list_outbox(all).await.unwrap();
    let other =
        |post: &OutboxMessage, known: &OutboxMessage| known.id == post.id && known.payload != post.payload;
    advance.posts.iter().any(|post| known.iter().any(|known| other(post, known)))
}

/// Checks that everything readable about one run is equal.
async fn same_run(
    model: &dyn Store,
    subject: &dyn Store,
    workspace: &WorkspaceId,
    run: RunId,
    place: &dyn Fn() -> String,
) {
    let reads = [
        Request::FindRun(workspace.clone(), run),
        Request::FindLog(workspace.clone(), run),
        Request::ListEvents(workspace.clone(), run, Version::default()),
    ];
    for read in reads {
        assert_eq!(read.ask(model).await, read.ask(subject).await, "{read:?} after {}", place());
    }
}

/// Checks that everything readable about entities is equal.
async fn same_entities(
    model: &dyn Store,
    subject: &dyn Store,
    reads: Vec<EntityRequest>,
    place: &(dyn Fn() -> String + Sync),
) {
    for read in reads {
        let read = Request::Entity(read);
        assert_eq!(read.ask(model).await, read.ask(subject).await, "{read:?} after {}", place());
    }
}

/// Checks that the journal, the doubts and the after-effects are equal.
async fn same_effects(model: &dyn Store, subject: &dyn Store, place: &str, exercised: &mut AnswerCoverage) {
    for workspace in ["default", "abroad"] {
        let workspace = WorkspaceId::new(workspace).unwrap();
        let all = ListJournal { workspace, run: None, by_people: false, after: 0, limit: MAX_PAGE };
        let read = Request::ListJournal(all, 0);
        let Answer::ListJournal(notes) = read.ask(model).await else { panic!("notes were asked for") };
        assert_eq!(Answer::ListJournal(notes.clone()), read.ask(subject).await, "{place}");
        for note in notes {
            exercised.note_left(if note.by.is_some() { "a note of a person" } else { "a note of an engine" });
        }
    }
    let all = ListDoubts { workspace: None, after: None, limit: MAX_PAGE };
    let doubts = model.list_doubts(all.clone()).await.unwrap();
    assert_eq!(doubts, subject.list_doubts(all).await.unwrap(), "{place}");
    for doubt in doubts {
        let run = model.find_run(&doubt.workspace, doubt.run).await.unwrap().expect("its run is there");
        let ended = run.head.status().is_closed();
        exercised.note_left(if ended { "a doubt in an ended run" } else { "a doubt in an open run" });
    }
    let all = ListOutbox { workspace: None, status: None, target: None, after: None, limit: MAX_PAGE };
    let posts = model.list_outbox(all.clone()).await.unwrap();
    assert_eq!(posts, subject.list_outbox(all).await.unwrap(), "{place}");
    for post in posts {
        exercised.note_left(&format!("a post, {}", post.state.status().as_str()));
    }
}

/// Checks that everything readable is equal, and breaks no invariant.
async fn same_whole(model: &dyn Store, subject: &dyn Store, place: &str, exercised: &mut AnswerCoverage) {
    let all = ListRuns {
        workspace: None,
        statuses: Vec::new(),
        workflow: None,
        filter: Default::default(),
        before: None,
        limit: 1000,
    };
    let runs = model.list_runs(all.clone()).await.unwrap();
    assert!(runs.next.is_none(), "the universe is small");
    assert_eq!(runs, subject.list_runs(all).await.unwrap(), "{place}");
    assert_eq!(model.list_keys(None).await.unwrap(), subject.list_keys(None).await.unwrap(), "{place}");
    same_effects(model, subject, place, exercised).await;
    for view in &runs.runs {
        let (workspace, run) = (&view.head.facts.workspace, view.head.id());
        same_run(model, subject, workspace, run, &|| place.to_owned()).await;
        for event in model.list_events(workspace, run, Version::default()).await.unwrap() {
            exercised.note_event(event.kind);
        }
    }
    for (store, name) in [(model, "the model"), (subject, "the subject")] {
        let report = fsck(store).await.unwrap();
        assert!(report.is_clean() && report.runs == runs.runs.len(), "{place}, {name}: {report}");
    }
}
