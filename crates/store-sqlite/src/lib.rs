//! The SQLite store: one file, one writer, group commit.
//!
//! All writes of a process flow to one thread. It takes everything that waits into one transaction,
//! commits it with one flush of the disk, and then answers each caller ([`SqliteStore`]). Reads
//! have connections of their own and see every acknowledged write.
//!
//! One process owns the file: the lock is beside it in `<file>-owner`, and the process that opens
//! it knows that every lease in it is dead. With [`SqliteOptions::shared`] several processes of one
//! machine may use it together.

mod add_key_usage;
mod append_journal;
mod arrival;
mod backup;
mod begin_operation;
mod begin_request;
mod catalog;
mod check_table;
mod claim_outbox;
mod claim_runs;
mod codes;
mod command_run;
mod commit_run;
mod connect;
mod create_entity;
mod create_promise;
mod early;
mod ending;
mod entities;
mod entity_notes;
mod entity_store;
mod families;
mod fault;
mod file_identity;
mod find;
mod find_oldest_due_at;
mod finish_event;
mod finish_operation;
mod finish_outbox_message;
mod forget_promises;
mod heartbeat_operations;
mod inbound_events;
mod items;
mod job;
mod journal;
mod limits;
mod list_audit;
mod list_doubts;
mod list_journal;
mod list_operations;
mod list_outbox;
mod list_promises;
mod list_runs;
mod migrate;
mod open;
mod open_error;
mod open_promises;
mod operations;
mod options;
mod outbox;
mod owner_lock;
mod promise_keys;
mod promise_store;
mod promises;
mod purge;
mod purge_inbound_events;
mod purge_operations;
mod purge_promises;
mod purge_requests;
mod put_item;
mod read;
mod readers;
mod receive_event;
mod redeliver;
mod release_key;
mod renew_leases;
mod request_key_store;
mod requests;
mod restore;
mod revert_strays;
mod rows;
mod send_signal;
mod session;
mod settle_promise;
mod settle_tokens;
mod start_run;
mod statements;
mod store;
mod transact;
mod transact_operation;
mod transaction_action;
mod transaction_step;
mod user_tables;
mod user_work;
mod webhook_store;
mod writer;
mod writer_thread;

pub use backup::{BackupError, Copied, OnProgress, Progress, back_up};
pub use open::{find_schema, migrate};
pub use open_error::OpenError;
pub use options::SqliteOptions;
pub use owner_lock::Owner;
pub use restore::Restoring;
pub use store::SqliteStore;
pub use transaction_action::TransactionAction;
pub use transaction_step::TransactionStep;
pub use user_work::SqliteWork;

/// The SQLite binding that work in a transaction is written with.
pub use rusqlite;
