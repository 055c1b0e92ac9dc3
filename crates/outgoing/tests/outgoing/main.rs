//! Outgoing requests: destinations, encryption, and answers.

mod encryption;
#[path = "support/server.rs"]
mod server;
mod what_comes_back;
mod where_requests_go;
