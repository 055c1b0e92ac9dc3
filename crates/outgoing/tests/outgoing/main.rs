//! Outgoing requests: destinations, encryption, and answers.

mod destinations;
mod encryption;
mod responses;
#[path = "support/server.rs"]
mod server;
