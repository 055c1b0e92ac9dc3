//! A private PostgreSQL for tests, started from the binaries of this machine: never a mock, never somebody else's server.
//!
//! - [`Server`] is one test's own, to be stopped, frozen, killed and started again, or followed by a standby that takes over.
//! - [`Database`] is a fresh copy of a template in a server that all tests of a build share, for the many tests that
//!   want only an empty database. Test processes come and go; the server starts with the first and ends soon after the last.
//!
//! A server ends with the process that uses it, however that process ends: a keeper waits for a lock that the process
//! holds, and the operating system lets go of it in any case. On a [`Server`] `fsync` is on, since durability is among what is
//! tested; the shared one can only go with all its data, and flushes nothing.
//!
//! Runs on Linux, as root too (PostgreSQL itself then runs as `postgres` or `nobody`).

mod binaries;
mod cluster;
mod database;
mod error;
mod keeper;
mod server;
mod shared;

pub use database::Database;
pub use error::FixtureError;
pub use server::{Server, ServerOptions, Shutdown};
