//! A private PostgreSQL server for tests, started from the binaries of this machine: neither a mock nor a shared server.
//!
//! - [`Server`] is one test's own, to be stopped, frozen, killed and started again, or followed by a standby that takes over.
//! - [`Database`] is a fresh copy of a template in a server that all tests of a build share, for the many tests that
//!   want only an empty database. Test processes come and go; the server starts with the first and ends soon after the last.
//!
//! - [`PgBouncer`] is a PgBouncer in front of a [`Server`], in whichever mode a test asks for.
//!
//! A server ends with the process that uses it, however that process ends: a keeper waits for a lock that the process
//! holds, and the operating system lets go of it in any case. On a [`Server`] `fsync` is on, since durability is among what is
//! tested; the shared one can only go with all its data, and flushes nothing.
//!
//! The programs are those in `HAPAX_POSTGRES_BIN`, a folder with `initdb`, `pg_ctl` and `postgres`; without it those in PATH, then the newest
//! that Debian installed. `cargo xtask postgres-matrix` sets it to one version after the other.
//!
//! Runs on Linux, as root too (PostgreSQL itself then runs as `postgres` or `nobody`, who must be able to read its programs).

mod base_backup;
mod binaries;
mod cluster;
mod database;
mod error;
mod pgbouncer;
mod server;
mod server_guard;
mod shared;

pub use database::Database;
pub use error::FixtureError;
pub use pgbouncer::PgBouncer;
pub use server::{Server, ServerOptions, Shutdown};
