//! The listener against raw sockets: hostile and slow clients, and their limits.

#[path = "wire/fixture.rs"]
mod fixture;

#[path = "wire/bodies.rs"]
mod bodies;
#[path = "wire/connections.rs"]
mod connections;
#[path = "wire/heads.rs"]
mod heads;
#[path = "wire/http2.rs"]
mod http2;
#[path = "wire/tls.rs"]
mod tls;
