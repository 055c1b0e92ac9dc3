//! The layer from outside: an axum service with the layer, its store, and callers that retry, race, disconnect and lie.

mod contract;
mod counting;
mod crowds;
mod failing;
mod faulty_store;
mod figures;
mod handlers;
mod leaving;
mod one_write;
mod payments;
mod takeover;
mod world;
