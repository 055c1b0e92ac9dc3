//! Every route: who may call it, how it is described, and what it does with bad input.

use crate::support;

#[path = "routes/access.rs"]
mod access;
#[path = "routes/audited.rs"]
mod audited;
#[path = "routes/authentication.rs"]
mod authentication;
#[path = "routes/bad_definitions.rs"]
mod bad_definitions;
#[path = "routes/bad_input.rs"]
mod bad_input;
#[path = "routes/credentials.rs"]
mod credentials;
#[path = "routes/cursors.rs"]
mod cursors;
#[path = "routes/definition_lifecycle.rs"]
mod definition_lifecycle;
#[path = "routes/described.rs"]
mod described;
#[path = "routes/field_names.rs"]
mod field_names;
#[path = "routes/permissions.rs"]
mod permissions;
#[path = "routes/quotas.rs"]
mod quotas;
#[path = "routes/tokens.rs"]
mod tokens;

const RUNS: &str = "/api/v1/workflow-runs";
