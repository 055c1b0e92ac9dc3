//! What is peculiar to the SQLite store. What every store must do is in the conformance suite.

mod dying;
mod failing_disk;
mod fixture;
mod opening;
mod owning;
mod requests;
mod sql_files;
mod torn_log;
mod transacting;
mod verbs;
