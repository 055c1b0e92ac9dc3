//! The API over both transports: plain HTTP with JSON, and gRPC.

use crate::support;
use crate::workers::worker;

#[path = "transports/calls.rs"]
mod calls;
#[path = "transports/client.rs"]
mod client;
#[path = "transports/fixtures.rs"]
mod fixtures;
#[path = "transports/invalid_requests.rs"]
mod invalid_requests;
