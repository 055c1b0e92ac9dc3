//! All tests of the library over its stores, as one program: each program would be linked for itself.

mod identity;
mod killed;
mod killed_effects;
mod postgres_entities;
mod postgres_nodes;
mod postgres_outages;
mod postgres_transactions;
mod transactions;
