//! Assembles a server from its settings: store, engine, host services.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;
use hapax::{ActionAnswer, Engine, Hapax, StepCall};
use hapax_documents::HostServices;
use hapax_server::drain::Draining;
use hapax_server::http_caller::GuardedCaller;
use hapax_server::{Server, ServerOptions};
use serde_json::Value;

use super::egress_policy::egress_policy;
use super::secrets::NamedSecrets;
use super::settings::Settings;
use crate::limits::ABANDON_WITHIN;
use crate::store_url::is_postgres;

/// A server, and the engine under it, which lives as long as this does.
pub(crate) struct Assembly {
    pub(crate) server: Server,
    pub(crate) engine: Engine,
    /// Can the store be away for a while and come back?
    pub(crate) store_comes_back: bool,
}

/// `own` are the addresses that it will listen on.
pub(crate) async fn assemble(
    store: &str,
    settings: &Settings,
    own: Vec<SocketAddr>,
    draining: Draining,
) -> Result<Assembly> {
    let outgoing = egress_policy(settings, store, own).await?;
    let mut builder = Hapax::builder(store).options(settings.engine.clone());
    if let Some(identity) = settings.identity {
        builder = builder.identity(identity);
    }
    let engine = builder.open().await?.into_engine()?;
    let secrets = NamedSecrets::new(settings);
    let services = HostServices::new()
        .task("echo", |call| async move { Ok(call.input) })
        .http(Arc::new(GuardedCaller::new(outgoing.clone())))
        .secrets(Arc::new(secrets));
    let options = ServerOptions {
        keys: settings.keys.clone(),
        draining,
        grace: settings.drain,
        outgoing,
        requests_per_second: settings.requests_per_second,
        max_definitions: settings.max_definitions,
        max_definitions_per_workspace: settings.max_definitions_per_workspace,
        people: settings.people.clone(),
        longest_credential_life: settings.longest_credential_life,
        console: settings.console,
        advertise_url: settings.advertise_url.clone(),
        settings: settings.shown(store),
        action_origins: settings.action_origins.clone(),
        sealing_keys: settings.sealing_keys.clone(),
        modules: settings.modules.clone(),
        tls: settings.tls.clone(),
        quotas: settings.quotas.clone(),
        entity_tables: settings.entity_tables.clone(),
    };
    engine.register_action(
        "echo",
        |call: StepCall| async move { ActionAnswer::done(call.input::<Value>()?) },
    )?;
    match Server::launch(engine.clone(), services, options).await {
        Ok(server) => Ok(Assembly { server, engine, store_comes_back: is_postgres(store) }),
        Err(error) => {
            // The caller may retry with another engine; this one must not drive any run until then.
            let _ = tokio::time::timeout(ABANDON_WITHIN, engine.close()).await;
            Err(error.into())
        }
    }
}
