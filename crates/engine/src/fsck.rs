//! Checks the invariants of a store on its data, through the operations that every store has.
//!
//! It may run beside live workers. A run is judged only if it did not change while it was read; otherwise it
//! is counted as moving. Invariants that data alone cannot show are covered by tests.

mod entities;
mod history;
mod inbound_events;
mod invariant;
mod keys;
mod outbox;
mod promise_keys;
mod promises;
mod released_keys;
mod report;
mod run_state;
mod snapshot;
mod versions;
mod workspaces;

use std::collections::BTreeSet;

use crate::store::{ListRuns, Store, StoreError, StoreResult};

pub use report::{Report, Violation};

use keys::ClaimedKeys;
use released_keys::Released;
use snapshot::{RunReading, Snapshot};

/// Runs per page. Each comes with its payloads, so fewer than the maximum page.
const PAGE: usize = 100;

/// Checks every run with its records and history, every key with the object it names, every open promise and
/// operation, every outbox message, and every unprocessed webhook event. Reports all violations of
/// invariants.
pub async fn fsck(store: &dyn Store) -> StoreResult<Report> {
    let mut report = Report::default();
    let (mut named, mut released) = (ClaimedKeys::default(), Released::default());
    let mut workspaces = BTreeSet::new();
    let mut before = None;
    loop {
        let page = store
            .list_runs(ListRuns {
                workspace: None,
                statuses: Vec::new(),
                workflow: None,
                filter: Default::default(),
                before,
                limit: PAGE,
            })
            .await?;
        for view in &page.runs {
            let (workspace, id) = (&view.head.facts.workspace, view.head.id());
            if before.is_some_and(|before| id >= before) {
                return Err(StoreError::Broken(format!("the list of runs goes back at {id}")));
            }
            before = Some(id);
            workspaces.insert(workspace.clone());
            match snapshot::read(store, workspace, id).await? {
                RunReading::Still(snapshot) => {
                    named.note(&snapshot.view.head);
                    check_run(store, &snapshot, &mut released, &mut report).await?;
                }
                RunReading::Moving => report.moving += 1,
                RunReading::Gone => {}
            }
        }
        if page.next.is_none() {
            break;
        }
    }
    keys::check_all(store, &named, &mut workspaces, &mut released, &mut report).await?;
    outbox::check_all(store, &mut report).await?;
    workspaces::add_set_up(store, &mut workspaces).await?;
    promises::check_all(store, &workspaces, &mut released, &mut report).await?;
    entities::check_all(store, &workspaces, &mut report).await?;
    inbound_events::check_all(store, &mut report).await?;
    Ok(report)
}

async fn check_run(
    store: &dyn Store,
    snapshot: &Snapshot,
    released: &mut Released,
    report: &mut Report,
) -> StoreResult<()> {
    report.runs += 1;
    report.steps += snapshot.log.steps.len();
    report.events += snapshot.events.len();
    let mut found = Vec::new();
    versions::check(snapshot, &mut found);
    history::check(snapshot, &mut found);
    run_state::check(snapshot, store.now(), &mut found);
    keys::check_own(store, snapshot, released, &mut found).await?;
    outbox::check_own(snapshot, &mut found);
    for (invariant, what) in found {
        report.add(Violation { invariant, run: Some(snapshot.view.head.id()), what });
    }
    Ok(())
}

/// Faults of one run: the invariant and a description.
type Found = Vec<(u8, String)>;
