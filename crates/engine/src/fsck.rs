//! Checks the invariants of a store on its data, through the verbs that every store has.
//!
//! It may run beside living workers: a run is judged only if it stood still while it was read, else it is counted as
//! moving. What can be judged from data alone is judged; what only a recorded history of calls can show, tests show.

mod entities;
mod history;
mod inbound_events;
mod invariant;
mod keys;
mod outbox;
mod promise_keys;
mod promises;
mod released;
mod report;
mod snapshot;
mod standing;
mod versions;
mod workspaces;

use std::collections::BTreeSet;

use crate::store::{ListRuns, Store, StoreError, StoreResult};

pub use report::{Report, Violation};

use keys::Named;
use released::Released;
use snapshot::{Reading, Snapshot};

/// Runs on one page: each comes with its payloads, so fewer than a list may hold.
const PAGE: usize = 100;

/// Walks every run, its records and history, every key with what it names, every promise and operation that is open, every after-effect, and every
/// webhook that waits, and reports what breaks an invariant.
pub async fn fsck(store: &dyn Store) -> StoreResult<Report> {
    let mut report = Report::default();
    let (mut named, mut released) = (Named::default(), Released::default());
    let mut workspaces = BTreeSet::new();
    let mut before = None;
    loop {
        let page = store
            .list_runs(ListRuns {
                workspace: None,
                statuses: Vec::new(),
                workflow: None,
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
                Reading::Still(snapshot) => {
                    named.note(&snapshot.view.head);
                    check_run(store, &snapshot, &mut released, &mut report).await?;
                }
                Reading::Moving => report.moving += 1,
                Reading::Gone => {}
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
    standing::check(snapshot, store.now(), &mut found);
    keys::check_own(store, snapshot, released, &mut found).await?;
    outbox::check_own(snapshot, &mut found);
    for (invariant, what) in found {
        report.add(Violation { invariant, run: Some(snapshot.view.head.id()), what });
    }
    Ok(())
}

/// What a check of one run found: the invariant and what breaks it.
type Found = Vec<(u8, String)>;
