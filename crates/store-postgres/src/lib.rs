//! The PostgreSQL store: any number of nodes on one database, nothing else to run.
//!
//! All writes of a node flow through a few connections. Writes that concern only their own run
//! (nearly all) take the hot lane: everything that waits becomes one statement over arrays, each
//! row guarded by version and fence, and one commit. Operations on more than their own run take the
//! read-modify-write lane: their runs are locked in one order, the model decides, and a whole batch
//! commits together. Requests under their keys have such a lane of their own, in which the keys are
//! locked in one order. So do operations on entities: one statement per table reads the rows of a
//! batch, and one writes the changes. Reads, renewals, maintenance and deliveries have connections
//! of their own.
//!
//! - One lock order keeps transactions from deadlocks: promises without a run, then runs (by run
//!   id, parents before children), then keys; and entities, then rows of the users' tables, then
//!   operations.
//! - Writes to a run, its steps, promises and signals happen under the lock of the run's row;
//!   writes to a promise without a run, and to its waiters, under the lock of its own row.
//! - A call that outlives its deadline costs its connection, so no transaction is ever left behind.
//! - `now` is a parameter of every statement: the server's clock as [`ServerClock`] knows it, or a
//!   test's.
//!
//! With the feature `tls`, connections are encrypted as `sslmode`, `sslrootcert`, `sslcert` and
//! `sslkey` in the URL say. A pooler between node and server must keep sessions together, because
//! statements are prepared once per connection and plans depend on session settings. A pooler in
//! transaction mode is rejected when the store is opened.

// The connector is `Copy` only without TLS.
#![cfg_attr(not(feature = "tls"), allow(clippy::clone_on_copy))]

mod add_key_usage;
mod advance_runs;
mod append_journal;
mod arrival;
mod batch;
mod batch_outbox;
mod begin_operation;
mod begin_request;
mod catalog;
mod claim_outbox;
mod claim_runs;
#[cfg(feature = "tls")]
mod client_certificate;
mod codes;
mod command_run;
mod commit_run;
mod committer;
mod connect;
mod connection_cap;
mod create_entity;
mod create_promise;
mod encryption;
mod end_leases;
mod ending;
mod entities;
mod entity_notes;
mod entity_reads;
mod entity_store;
mod families;
mod fault;
mod finish_operation;
mod finish_outbox_message;
mod hints;
mod inbound_events;
mod interned_names;
mod items;
mod job;
mod journal;
mod limits;
mod link;
mod list_audit;
mod list_doubts;
mod list_journal;
mod list_outbox;
mod list_runs;
mod migrate;
mod open;
mod open_error;
mod open_promise;
mod operations;
mod options;
mod outbox;
#[cfg(test)]
mod plans;
mod pools;
mod promise_keys;
mod promise_store;
mod promises;
mod purge;
mod purge_operations;
mod purge_promises;
mod put_item;
mod reach;
mod read;
mod redeliver;
mod release_key;
mod renew_leases;
mod request_key_store;
mod requests;
mod revert_strays;
mod rmw_lane;
mod rows;
mod send_signal;
mod server_clock;
mod session;
mod settings;
mod settle_promise;
mod settle_tokens;
mod standalone_promises;
mod start_run;
mod start_runs;
mod start_within;
mod store;
mod transact;
mod transaction_action;
mod transaction_step;
mod user_tables;
mod user_work;
mod webhook_store;

pub use connect::list_hosts;
pub use migrate::{Migrated, find_schema, migrate};
pub use open_error::OpenError;
pub use options::PostgresOptions;
pub use server_clock::ServerClock;
pub use start_within::StartWithin;
pub use store::PostgresStore;
pub use tokio_postgres;
pub use transaction_action::TransactionAction;
pub use transaction_step::TransactionStep;
pub use user_work::PostgresWork;
