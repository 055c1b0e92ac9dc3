//! PostgreSQL-specific behaviour: opening, migrating, failing and recovering.

mod capped_connections;
mod client_certificates;
mod clock_jumps;
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
mod poolers;
mod promise_keys;
mod proxy;
mod purging;
mod requests;
mod same_id;
mod sql_files;
mod starting_within;
mod transacting;
