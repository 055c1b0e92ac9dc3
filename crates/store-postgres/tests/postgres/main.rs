//! What the PostgreSQL store does beyond what every store does: opening, migrating, failing and coming back.

mod dropped_futures;
mod failing_server;
mod fairness;
mod fixture;
mod half_open;
mod lost_answers;
mod many_nodes;
mod migrating;
mod opening;
mod poison;
mod proxy;
mod sql_files;
