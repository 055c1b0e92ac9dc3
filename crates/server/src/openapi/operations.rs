//! The table of operations: one file for each chapter of the reference.

mod admin;
mod compatibility;
mod definitions;
mod doubts;
mod entities;
mod entity_workflows;
mod keys;
mod ledger;
mod promises;
mod runs;
mod server;
mod webhook_deliveries;
mod webhook_events;
mod webhook_sources;
mod webhook_subscriptions;
mod workers;

use super::operation::Group;

/// Every operation, in the order of the reference.
pub(crate) fn table() -> Vec<Group> {
    vec![
        runs::group(),
        definitions::group(),
        doubts::group(),
        promises::group(),
        entities::group(),
        entity_workflows::group(),
        webhook_sources::group(),
        webhook_events::group(),
        webhook_subscriptions::group(),
        webhook_deliveries::group(),
        workers::group(),
        ledger::group(),
        keys::group(),
        admin::group(),
        server::group(),
        compatibility::group(),
    ]
}
