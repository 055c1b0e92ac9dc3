//! `hapax serve`: the server for production.

pub(crate) mod assemble;
mod config_file;
mod egress_policy;
mod identity_providers;
pub(crate) mod listeners;
#[cfg(test)]
mod reference;
mod secrets;
pub(crate) mod settings;
pub(crate) mod stopping;
mod waiting;

use std::path::Path;

use anyhow::{Context, Error, Result, bail};
use hapax::NodeIdentity;
use hapax_server::exposure::{Protection, check_exposure};
use hapax_server::listen::ListenOptions;
use hapax_server::tls::load_tls;

use crate::key_file;
use crate::output;
use crate::store_url::{is_postgres, is_shared, without_secrets};
use assemble::Assembly;
use listeners::BoundListeners;
use secrets::NamedSecrets;
use settings::{ServeOptions, Settings};
use stopping::Stopping;
use waiting::{assemble_patiently, bootstrap_patiently};

/// Configuration file that is read by default.
const CONFIG: &str = "hapax.toml";

pub(crate) async fn run(options: ServeOptions) -> Result<()> {
    let mut settings = Settings::gather(with_config_of_folder(options))?;
    let Some(store) = settings.store.clone() else {
        bail!(
            "say which store: --store sqlite:PATH or --store postgres://… (or HAPAX_STORE, or `store` in the configuration)"
        );
    };
    let store = store.as_str();
    // Before the store is opened: what is refused leaves nothing behind.
    let protection = Protection {
        has_authentication: true,
        has_tls: settings.tls_cert.is_some(),
        allows_plain: settings.behind_proxy,
    };
    check_exposure(settings.listen, protection)?;
    if is_shared(store) {
        settings.check_for_several_nodes()?;
    }
    if store == "memory:" {
        output::say("hapax: memory: keeps nothing; use it to try things out only");
    }
    if let Some(path) = &settings.identity_file {
        if !is_postgres(store) {
            bail!(
                "identity-file is for postgres://…; the process that opens an SQLite file knows that no other is left"
            );
        }
        settings.identity = Some(NodeIdentity::take(path)?);
    }
    NamedSecrets::new(settings.secrets_dir.clone()).warn_of_unbound();
    let stopping = Stopping::listen()?;
    let bound = BoundListeners::take(&settings)?;
    let listen = listen_options(&settings)?;
    let assembly = assemble_patiently(store, &settings, &listen, bound, stopping.draining());
    let (assembly, bound) = stopping.starting(assembly).await?;
    serve(assembly, bound, &settings, stopping, |address, key| {
        // Whoever waits for the next line may read the file then.
        let file = settings.key_file.as_deref();
        let written = key.as_deref().zip(file).map(|(key, path)| key_file::write(path, key).map(|()| path));
        let scheme = if settings.tls_cert.is_some() { "https" } else { "http" };
        output::say(&format!("hapax: serving {} on {scheme}://{address}", without_secrets(store)));
        if let Some(key) = key {
            tell_first_key(&key, written)?;
            output::say("hapax: next, with HAPAX_API_KEY set to it: hapax admin workspaces create NAME, then hapax admin credentials create admin --role admin --workspace NAME");
        }
        Ok(())
    })
    .await
}

/// Tells the key that sets the installation up, or the file that it was written to: there is no other way to have it again.
fn tell_first_key(key: &str, written: Option<Result<&Path>>) -> Result<()> {
    match written {
        Some(Ok(path)) => {
            let path = path.display();
            output::say(&format!(
                "hapax: this installation has no credentials yet. A key that may set it up is in {path}"
            ));
            return Ok(());
        }
        Some(Err(error)) => output::say(&format!("hapax: warning: {error:#}; it is printed instead")),
        None => {}
    }
    output::say(
        "hapax: this installation has no credentials yet. This key may set it up, and is shown this once:",
    );
    output::print(&format!("{key}\n"))
}

/// The options, with the configuration that lies in the working directory if no other is named.
fn with_config_of_folder(options: ServeOptions) -> ServeOptions {
    let path = Path::new(CONFIG);
    if options.config.is_some() || !path.exists() {
        return options;
    }
    output::say(&format!("hapax: settings are read from {CONFIG} in the working directory"));
    ServeOptions { config: Some(path.to_owned()), ..options }
}

fn listen_options(settings: &Settings) -> Result<ListenOptions> {
    let mut listen = settings.listen_options();
    if let (Some(chain), Some(key)) = (&settings.tls_cert, &settings.tls_key) {
        listen.tls = Some(load_tls(chain, key)?);
    }
    Ok(listen)
}

/// Listens, tells that it does, and serves until told to stop. Whether the address is safe to listen on is the caller's to check.
pub(crate) async fn serve(
    assembly: Assembly,
    bound: BoundListeners,
    settings: &Settings,
    stopping: Stopping,
    ready: impl FnOnce(std::net::SocketAddr, Option<String>) -> Result<()>,
) -> Result<()> {
    let listen = listen_options(settings)?;
    // Listened on by nobody else, so that the address is free once the server takes no more connections.
    let (bound, listener, metrics) = bound.listen()?;
    drop(bound);
    let address = listener.local_addr().context("the address that is listened on cannot be told")?;
    if let Some(listener) = metrics {
        let server = assembly.server.clone();
        tokio::spawn(async move { server.serve_metrics(listener, ListenOptions::default()).await });
    }
    let key = match settings.is_dev {
        true => None,
        false => stopping.starting(bootstrap_patiently(&assembly)).await?,
    };
    ready(address, key.map(|key| key.reveal().to_owned()))?;
    let drained = tokio::select! {
        drained = assembly.server.serve(listener, listen) => drained?,
        signal = stopping.insisted() => {
            let told = "stopped at once; what was in flight is taken up by the next start";
            return Err(Error::from(signal).context(told));
        }
    };
    match drained.cut {
        0 => output::say("hapax: stopped in good order"),
        cut => output::say(&format!("hapax: stopped; {cut} connections did not end in time and were cut")),
    }
    Ok(())
}
