//! The commands that talk to a server, against a real one.

#[path = "remote/admin.rs"]
mod admin;
#[path = "remote/audit.rs"]
mod audit;
#[path = "remote/entities.rs"]
mod entities;
#[path = "remote/exits.rs"]
mod exits;
#[path = "remote/operations.rs"]
mod operations;
#[path = "remote/profiles.rs"]
mod profiles;
#[path = "remote/promises.rs"]
mod promises;
#[path = "remote/sources.rs"]
mod sources;
#[path = "remote/start.rs"]
mod start;
#[path = "remote/steering.rs"]
mod steering;
#[path = "remote/support.rs"]
mod support;
#[path = "remote/watching.rs"]
mod watching;
#[path = "remote/webhooks.rs"]
mod webhooks;
#[path = "remote/why.rs"]
mod why;
#[path = "remote/workflows.rs"]
mod workflows;

use crate::support::terminal;
