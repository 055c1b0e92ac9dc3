//! What is peculiar to the SQLite store. What every store must do is in the conformance suite.

mod backing_up;
mod dying;
mod entities;
mod failing_disk;
mod fixture;
mod inbound_events;
mod migrating;
mod opening;
mod owning;
mod promises;
mod requests;
mod sql_files;
mod torn_log;
mod transacting;
mod user_tables;
mod verbs;
