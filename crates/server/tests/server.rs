//! All tests of the server over HTTP, as one program, because each program is linked separately.

mod support;

mod console;
mod contract;
mod entities;
mod examples;
mod hooks;
mod observed;
mod routes;
mod runs;
mod transports;
mod webhooks;
mod wire;
mod workers;
