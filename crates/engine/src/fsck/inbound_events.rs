//! Checks that no received webhook event is forgotten.

use super::PAGE;
use super::invariant::HOOKS_ARE_PROCESSED;
use super::report::{Report, Violation};
use crate::limits::INBOUND_EVENT_OVERDUE_AFTER;
use crate::store::{ListUnprocessedEvents, Store, StoreResult};

/// Reports the first events that were not processed in time. Any server can process them.
pub(super) async fn check_all(store: &dyn Store, report: &mut Report) -> StoreResult<()> {
    let Some(book) = store.webhook_store() else { return Ok(()) };
    let before = store.now().minus(INBOUND_EVENT_OVERDUE_AFTER);
    let first = ListUnprocessedEvents { before, after: None, limit: PAGE };
    for hook in book.list_unprocessed_events(first).await? {
        let what = format!(
            "the event {} of source {} in workspace {} arrived at {} and is not processed yet",
            hook.id.event, hook.id.source, hook.id.workspace, hook.received_at
        );
        report.add(Violation { invariant: HOOKS_ARE_PROCESSED, run: None, what });
    }
    Ok(())
}
