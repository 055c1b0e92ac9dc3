//! Requests that go out: where to, how encrypted, and what is made of the answers.

mod encryption;
#[path = "support/server.rs"]
mod server;
mod what_comes_back;
mod where_requests_go;
