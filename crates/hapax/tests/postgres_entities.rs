//! Entities that several processes move at once on one PostgreSQL, in a table of the user's and in Hapax's own.
#![cfg(feature = "postgres")]

#[path = "postgres_entities/crowd.rs"]
mod crowd;
#[path = "postgres_entities/invoices.rs"]
mod invoices;
#[path = "postgres_entities/process.rs"]
mod process;
