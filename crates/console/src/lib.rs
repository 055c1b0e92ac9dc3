//! The console: pages over the operations of the API.
//!
//! It is a client inside the server. Each page asks the same routes as any other client, with the permissions of the
//! session, so it can do nothing that the API cannot. Every page and every form works without scripts; `assets/console.js`
//! only adds to them.
//!
//! A page is a file in `pages/`: it reads through `visit::Visit`, renders with `ui`, and writes through
//! `form::Submitted`.

mod api;
mod assets;
mod failure;
mod flash;
mod form;
mod host;
mod json_diff;
mod layout;
pub mod limits;
pub mod ops;
mod pages;
mod session;
mod text;
mod ui;
mod visit;

use std::sync::Arc;

use axum::Router;

pub use host::{Departure, Host, NewSession, ProviderAnswer, Session, SessionSummary, Visitor};
pub use pages::PATHS;

/// Where the console begins.
pub const HOME: &str = "/console";

/// State that all pages share.
pub(crate) struct Console {
    /// Sessions and permissions.
    host: Arc<dyn Host>,
    /// The routes of the API.
    api: Router,
    /// Which definitions ask for approvals.
    asking: pages::AskingDefinitions,
}

/// The routes of the console. `api` answers what pages ask; it is not asked over the network.
pub fn router(host: Arc<dyn Host>, api: Router) -> Router {
    pages::routes().with_state(Arc::new(Console { host, api, asking: Default::default() }))
}
