//! What the PostgreSQL store does beyond what every store does: opening, migrating, failing and coming back.

mod capped_connections;
mod delivering;
mod dropped_futures;
mod encrypting;
mod entities;
mod failing_server;
mod fairness;
mod fixture;
mod half_open;
mod lanes;
mod lost_answers;
mod many_nodes;
mod migrating;
mod opening;
mod poison;
mod promise_keys;
mod proxy;
mod purging;
mod requests;
mod same_id;
mod sql_files;
mod starting_within;
mod transacting;
