//! The table of all routes: method and path, required access, and support for request keys.

pub(crate) mod action_tokens;
pub(crate) mod admin;
pub(crate) mod approvals;
pub(crate) mod audit;
pub(crate) mod definitions;
pub(crate) mod deliveries;
pub(crate) mod doubts;
pub(crate) mod durable_promises;
pub(crate) mod entities;
pub(crate) mod entity_steps;
pub(crate) mod entity_workflows;
pub(crate) mod events;
pub(crate) mod keys;
pub(crate) mod ledger;
pub(crate) mod meta;
pub(crate) mod nodes;
pub(crate) mod notes;
pub(crate) mod operations;
pub(crate) mod promises;
pub(crate) mod push_workers;
pub(crate) mod request;
pub(crate) mod runs;
pub(crate) mod settle_links;
pub(crate) mod subscriptions;
pub(crate) mod webhook_events;
pub(crate) mod webhook_sources;
pub(crate) mod webhooks;
pub(crate) mod why;
pub(crate) mod worker_sessions;

use std::sync::Arc;

use axum::Router;
use axum::handler::Handler;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, delete, get, patch, post, put};
use hapax_http_idempotency::IdempotencyLayer;
use hapax_workers::limits::MAX_COMMIT_BYTES;
use http::Method;

use crate::access::Access;
use crate::answer::{refuse_all_else, with_response_layers};
use crate::app::App;
use crate::console::ConsoleHost;
use crate::cross_origin::{allow_origins, takes_action_tokens};
use crate::guard::Guard;
use crate::limits::{MAX_GRPC_OVERHEAD_BYTES, MAX_URI_BYTES};
use crate::strict_json::unreadable;
use crate::trace_layer::TraceLayer;
use crate::{docs_page, error_pages};

/// One route. It cannot be created without its access.
pub(crate) struct Route {
    /// Method of the route.
    pub(crate) method: Method,
    /// The path, with its parameters in braces.
    pub(crate) path: &'static str,
    /// Required access.
    pub(crate) access: Access,
    /// Does it support request keys?
    pub(crate) takes_keys: bool,
    /// Does its response hold a secret, which must not be stored?
    is_confidential: bool,
    /// Does it store its answer in the write of its effect?
    is_in_one_write: bool,
    /// Does it change a resource with a version, and honour `If-Match`?
    pub(crate) is_versioned: bool,
    handler: MethodRouter<Arc<App>>,
}

fn read<H, T>(path: &'static str, access: Access, handler: H) -> Route
where
    H: Handler<T, Arc<App>>,
    T: 'static,
{
    Route::new(Method::GET, path, access, get(handler)).without_request_keys()
}

fn write<H, T>(path: &'static str, access: Access, handler: H) -> Route
where
    H: Handler<T, Arc<App>>,
    T: 'static,
{
    Route::new(Method::POST, path, access, post(handler))
}

fn change<H, T>(path: &'static str, access: Access, handler: H) -> Route
where
    H: Handler<T, Arc<App>>,
    T: 'static,
{
    Route::new(Method::PATCH, path, access, patch(handler))
}

fn replace<H, T>(path: &'static str, access: Access, handler: H) -> Route
where
    H: Handler<T, Arc<App>>,
    T: 'static,
{
    Route::new(Method::PUT, path, access, put(handler))
}

fn remove<H, T>(path: &'static str, access: Access, handler: H) -> Route
where
    H: Handler<T, Arc<App>>,
    T: 'static,
{
    Route::new(Method::DELETE, path, access, delete(handler))
}

impl Route {
    fn new(method: Method, path: &'static str, access: Access, handler: MethodRouter<Arc<App>>) -> Self {
        Route {
            method,
            path,
            access,
            takes_keys: true,
            is_confidential: false,
            is_in_one_write: false,
            is_versioned: false,
            handler,
        }
    }

    /// Does it require callers to accept JSON? Providers that send webhooks may put any value in
    /// `Accept`.
    pub(crate) fn is_negotiated(&self) -> bool {
        let is_of_providers = self.path.starts_with("/api/v1/webhooks/");
        let is_json = !self.path.ends_with("/stream") && !self.path.ends_with("/diagram");
        self.path.starts_with("/api/") && is_json && !is_of_providers
    }

    /// Marks a response that holds a secret: it is sent once, and not stored under a key.
    fn answers_with_a_secret(mut self) -> Self {
        self.is_confidential = true;
        self
    }

    /// Marks a handler whose only effect is one write, which can store its answer as well.
    fn answering_in_one_write(mut self) -> Self {
        self.is_in_one_write = true;
        self
    }

    /// Marks a change that honours `If-Match`.
    fn on_the_version_seen(mut self) -> Self {
        self.is_versioned = true;
        self
    }

    /// Marks a route without request keys: it changes nothing, its caller has no credential, or
    /// `idempotency-key` has another meaning there. Repeating a request is safe by other means.
    fn without_request_keys(mut self) -> Self {
        self.takes_keys = false;
        self
    }
}

/// The table.
pub(crate) fn table() -> Vec<Route> {
    use Access::{Administer, Install, Manage, Open, Operate, Read, Reveal, Watch, Work};
    vec![
        write("/api/v1/workflow-definitions", Administer, definitions::upload),
        read("/api/v1/workflow-definitions", Read, definitions::list),
        read("/api/v1/workflow-definitions/{id}", Read, definitions::show),
        change("/api/v1/workflow-definitions/{id}", Administer, definitions::change).on_the_version_seen(),
        remove("/api/v1/workflow-definitions/{id}", Administer, definitions::delete).on_the_version_seen(),
        write("/api/v1/workflow-runs", Operate, runs::starting::create).answering_in_one_write(),
        write("/api/v1/workflow-runs/batch", Operate, runs::starting::create_batch),
        read("/api/v1/workflow-runs", Read, runs::showing::list),
        read("/api/v1/workflow-runs/{id}", Read, runs::showing::show),
        write("/api/v1/workflow-runs/{id}/reveal", Reveal, runs::showing::reveal).answers_with_a_secret(),
        write("/api/v1/workflow-runs/{id}/cancel", Operate, runs::steering::cancel).on_the_version_seen(),
        write("/api/v1/workflow-runs/{id}/pause", Operate, runs::steering::pause).on_the_version_seen(),
        write("/api/v1/workflow-runs/{id}/resume", Operate, runs::steering::resume).on_the_version_seen(),
        write("/api/v1/workflow-runs/{id}/retry", Operate, runs::steering::retry).on_the_version_seen(),
        read("/api/v1/workflow-runs/{id}/retry-plan", Read, runs::retry_plan::show),
        write("/api/v1/workflow-runs/{id}/signals", Operate, runs::steering::signal),
        write("/api/v1/workflow-runs/{id}/approvals/{step}", Operate, approvals::answer),
        read("/api/v1/workflow-runs/{id}/steps", Read, runs::showing::steps),
        read("/api/v1/workflow-runs/{id}/result", Read, runs::showing::result),
        read("/api/v1/workflow-runs/{id}/events", Read, events::list),
        read("/api/v1/workflow-runs/{id}/events/stream", Read, events::stream),
        read("/api/v1/workflow-runs/{id}/ledger", Read, ledger::list_of_run),
        read("/api/v1/workflow-runs/{id}/notes", Read, notes::list),
        write("/api/v1/workflow-runs/{id}/notes", Operate, notes::add),
        read("/api/v1/keys/{scope}/{key}", Read, keys::show),
        write("/api/v1/keys/{scope}/{key}/release", Manage, keys::release),
        read("/api/v1/why", Read, why::show),
        read("/api/v1/doubts", Read, doubts::list),
        read("/api/v1/doubts/{run}/{step}", Read, doubts::show),
        write("/api/v1/doubts/{run}/{step}/resolve", Operate, doubts::resolve),
        write("/api/v1/doubts/{run}/{step}/propose", Operate, doubts::propose),
        write("/api/v1/doubts/{run}/{step}/confirm", Operate, doubts::confirm),
        read("/api/v1/ledger", Read, ledger::list),
        read("/api/v1/ledger/{key}", Read, ledger::show),
        read("/api/v1/audit", Read, audit::list),
        read("/api/v1/audit/{id}", Read, audit::show),
        write("/api/v1/workspaces", Install, admin::create_workspace),
        read("/api/v1/workspaces", Install, admin::list_workspaces),
        read("/api/v1/workspaces/{id}", Read, admin::show_workspace),
        write("/api/v1/credentials", Administer, admin::create_credential).answers_with_a_secret(),
        read("/api/v1/credentials", Administer, admin::list_credentials),
        read("/api/v1/credentials/{id}", Administer, admin::show_credential),
        write("/api/v1/credentials/{id}/rotate", Administer, admin::rotate_credential)
            .answers_with_a_secret(),
        write("/api/v1/credentials/{id}/revoke", Administer, admin::revoke_credential),
        read("/api/v1/node", Administer, nodes::show),
        read("/api/v1/leases", Read, nodes::leases),
        read("/api/v1/idempotency-policy", Open, meta::policy),
        read("/", Open, meta::home),
        read("/healthz", Open, meta::health),
        read("/readyz", Open, meta::readiness),
        read("/metrics", Watch, meta::metrics),
        read("/openapi.json", Open, meta::openapi),
        read("/schemas/workflow-definition.json", Open, meta::document_schema),
        read("/docs", Open, meta::docs),
        write("/api/v1/webhook-subscriptions", Administer, subscriptions::create).answers_with_a_secret(),
        read("/api/v1/webhook-subscriptions", Read, subscriptions::list),
        read("/api/v1/webhook-subscriptions/{id}", Read, subscriptions::show),
        write("/api/v1/webhook-subscriptions/{id}/rotate", Administer, subscriptions::rotate)
            .answers_with_a_secret(),
        change("/api/v1/webhook-subscriptions/{id}", Administer, subscriptions::change).on_the_version_seen(),
        remove("/api/v1/webhook-subscriptions/{id}", Administer, subscriptions::delete).on_the_version_seen(),
        write("/api/v1/webhook-subscriptions/{id}/test", Administer, subscriptions::test),
        read("/api/v1/webhook-deliveries", Read, deliveries::list),
        read("/api/v1/webhook-deliveries/{id}", Read, deliveries::show),
        write("/api/v1/webhook-deliveries/{id}/redeliver", Operate, deliveries::redeliver),
        write("/api/v1/webhook-deliveries/redeliver", Operate, deliveries::redeliver_many),
        write("/api/v1/webhook-deliveries/discard", Operate, deliveries::discard),
        write("/api/v1/promises", Operate, promises::create),
        read("/api/v1/promises", Read, promises::list),
        read("/api/v1/promises/{ref}", Read, promises::show),
        write("/api/v1/promises/{ref}/resolve", Operate, promises::resolve),
        write("/api/v1/promises/{ref}/reject", Operate, promises::reject),
        write("/api/v1/promises/{ref}/tokens", Operate, settle_links::issue).answers_with_a_secret(),
        read("/api/v1/early-settlements", Read, promises::list_early_settlements),
        read("/api/v1/early-settlements/{key}", Read, promises::show_early_settlement),
        read("/api/tenants/{slug}/promises/{ref}", Read, promises::show_of_tenant),
        write("/api/tenants/{slug}/promises/{ref}/resolve", Operate, promises::resolve_of_tenant),
        write("/api/tenants/{slug}/promises/{ref}/reject", Operate, promises::reject_of_tenant),
        write("/settle/{token}", Open, settle_links::settle).without_request_keys(),
        read("/settle/{token}", Open, settle_links::explain),
        write("/promises", Operate, durable_promises::create).without_request_keys(),
        read("/promises/{id}", Read, durable_promises::show),
        change("/promises/{id}", Operate, durable_promises::complete).without_request_keys(),
        write("/api/v1/webhook-sources", Administer, webhook_sources::create),
        read("/api/v1/webhook-sources", Read, webhook_sources::list),
        read("/api/v1/webhook-sources/{name}", Read, webhook_sources::show),
        replace("/api/v1/webhook-sources/{name}", Administer, webhook_sources::replace).on_the_version_seen(),
        change("/api/v1/webhook-sources/{name}", Administer, webhook_sources::change).on_the_version_seen(),
        remove("/api/v1/webhook-sources/{name}", Administer, webhook_sources::delete).on_the_version_seen(),
        write("/api/v1/webhooks/{source}", Open, webhooks::take_in).without_request_keys(),
        write("/api/v1/webhooks/{workspace}/{name}", Open, webhooks::take_in_by_name).without_request_keys(),
        read("/api/v1/webhook-events", Read, webhook_events::list),
        write("/api/v1/webhook-events/reprocess", Operate, webhook_events::reprocess_many),
        read("/api/v1/webhook-events/{source}/{event}", Read, webhook_events::show),
        write("/api/v1/webhook-events/{source}/{event}/reprocess", Operate, webhook_events::reprocess),
        read("/schemas/webhook-source.json", Open, meta::source_schema),
        write("/api/v1/entity-workflows", Administer, entity_workflows::create),
        read("/api/v1/entity-workflows", Read, entity_workflows::list),
        read("/api/v1/entity-workflows/{name}", Read, entity_workflows::show),
        replace("/api/v1/entity-workflows/{name}", Administer, entity_workflows::replace)
            .on_the_version_seen(),
        remove("/api/v1/entity-workflows/{name}", Administer, entity_workflows::delete).on_the_version_seen(),
        read("/api/v1/entity-workflows/{name}/diagram", Read, entity_workflows::draw),
        write("/api/v1/entities/{type}", Operate, entities::create),
        read("/api/v1/entities/{type}", Read, entities::list),
        read("/api/v1/entities/{type}/{id}", Read, entities::show),
        write("/api/v1/entities/{type}/{id}/steps/{stepKey}", Operate, entity_steps::take)
            .on_the_version_seen(),
        write("/api/v1/entities/{type}/{id}/steps/{stepKey}/override", Manage, entity_steps::take_overriding)
            .on_the_version_seen(),
        write("/api/v1/entities/{type}/{id}/action-tokens", Operate, action_tokens::issue)
            .answers_with_a_secret(),
        read("/api/v1/entities/{type}/{id}/notes", Read, entities::notes),
        write("/api/v1/entities/{type}/{id}/notes", Operate, entities::add_note),
        read("/api/v1/entities/{type}/{id}/operations", Read, entities::operations),
        read("/api/v1/operations", Read, operations::list),
        read("/api/v1/operations/{id}", Read, operations::show),
        write("/api/v1/operations/{id}/resolve", Operate, operations::resolve),
        read("/schemas/entity-workflow.json", Open, meta::entity_schema),
        write("/api/v1/worker-sessions", Work, worker_sessions::open).without_request_keys(),
        read("/api/v1/worker-sessions", Read, worker_sessions::list),
        read("/api/v1/worker-workflows", Read, worker_sessions::versions),
        write("/api/v1/worker-sessions/announce", Work, worker_sessions::announce).without_request_keys(),
        write("/api/v1/worker-sessions/{id}/poll", Work, worker_sessions::poll).without_request_keys(),
        write("/api/v1/worker-sessions/{id}/commit", Work, worker_sessions::commit).without_request_keys(),
        read("/api/v1/worker-sessions/{id}/runs/{run}/log", Work, worker_sessions::log),
        remove("/api/v1/worker-sessions/{id}", Work, worker_sessions::close).without_request_keys(),
        write("/api/v1/push-workers", Administer, push_workers::create).answers_with_a_secret(),
        read("/api/v1/push-workers", Read, push_workers::list),
        read("/api/v1/push-workers/{id}", Read, push_workers::get),
        remove("/api/v1/push-workers/{id}", Administer, push_workers::delete),
    ]
}

/// Every route with its access, for tests that check that none is forgotten.
pub fn list_routes() -> Vec<(Method, &'static str, Access)> {
    table().into_iter().map(|route| (route.method, route.path, route.access)).collect()
}

/// All routes with their layers, and the pages of the console if there is one.
pub(crate) fn router(app: &Arc<App>, keys: &IdempotencyLayer, console: Option<&Arc<ConsoleHost>>) -> Router {
    let api = guarded(app, keys);
    let pages = console.map(|host| hapax_console::router(host.clone(), api.clone()));
    let calls = hapax_grpc::router(api.clone(), GRPC);
    let routes = api
        .merge(calls)
        .merge(error_pages::routes())
        .merge(docs_page::assets())
        .merge(pages.unwrap_or_default());
    let mut routes = refuse_all_else(routes);
    if !app.options.action_origins.is_empty() {
        routes = routes.layer(from_fn_with_state(app.clone(), allow_origins));
    }
    // The outermost layer, so that it also sees unknown routes and panics.
    routes.layer(TraceLayer(app.clone()))
}

/// Limits of gRPC. A commit of a worker is the largest message.
const GRPC: hapax_grpc::Options = hapax_grpc::Options {
    max_message_bytes: MAX_COMMIT_BYTES + MAX_GRPC_OVERHEAD_BYTES,
    max_uri_bytes: MAX_URI_BYTES,
    unreadable: |error| unreadable(error).problem().clone(),
};

/// The table of routes, each behind its guard.
fn guarded(app: &Arc<App>, keys: &IdempotencyLayer) -> Router {
    let (confidential, in_one_write) = (keys.clone().confidential(), keys.clone().in_one_write());
    let mut router = Router::new();
    for route in table() {
        let answers_json = route.is_negotiated();
        let refuses_versions = route.method != Method::GET && !route.is_versioned;
        let takes_action_tokens = takes_action_tokens(&route.method, route.path);
        let guard = Guard {
            app: app.clone(),
            access: route.access,
            answers_json,
            refuses_versions,
            takes_action_tokens,
        };
        let mut handler = route.handler;
        handler = match (route.takes_keys, route.is_confidential) {
            (true, false) if route.is_in_one_write => handler.layer(in_one_write.clone()),
            (true, false) => handler.layer(keys.clone()),
            (true, true) => handler.layer(confidential.clone()),
            (false, _) => handler,
        };
        handler = handler.layer(guard);
        router = router.route(route.path, handler);
    }
    router.with_state(app.clone())
}

/// Metrics only, without authentication: for a listener that only the monitoring system can reach.
pub(crate) fn metrics_router(app: &Arc<App>) -> Router {
    let routes = Router::new().route("/metrics", get(meta::metrics)).route("/healthz", get(meta::health));
    with_response_layers(routes.with_state(app.clone()))
}

/// Every path template, as metrics name it.
pub(crate) fn templates() -> impl Iterator<Item = &'static str> {
    let pages = error_pages::PATHS.into_iter().chain(docs_page::ASSET_PATHS);
    let console = hapax_console::PATHS.iter().copied();
    table().into_iter().map(|route| route.path).chain(pages).chain(console).chain(hapax_grpc::paths())
}
