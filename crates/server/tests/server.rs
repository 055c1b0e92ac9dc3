//! All tests of the server over HTTP, as one program, because each program is linked separately.

mod support;

mod console;
mod contract;
mod entities;
mod examples;
mod inbound_webhooks;
mod observed;
mod outbound_webhooks;
mod routes;
mod runs;
mod transports;
mod wire;
mod workers;
