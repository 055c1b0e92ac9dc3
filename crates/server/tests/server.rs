//! All tests of the server over HTTP, as one program: each program would be linked for itself.

mod support;

mod console;
mod contract;
mod entities;
mod examples;
mod hooks;
mod observed;
mod routes;
mod runs;
mod webhooks;
mod wire;
