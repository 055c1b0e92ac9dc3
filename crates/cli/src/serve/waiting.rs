//! A start without the database: the server lives, is not ready, and tries again until it has it.

use std::time::Duration;

use anyhow::{Error, Result};
use hapax_server::LaunchError;
use hapax_server::credentials::key::ApiKey;
use hapax_server::drain::{Drain, Draining, drain};
use hapax_server::listen::{ListenOptions, serve};
use hapax_server::waiting::waiting_router;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::assemble::{Assembly, assemble};
use super::listeners::BoundListeners;
use super::settings::Settings;
use crate::limits::{FIRST_STORE_PAUSE, LONGEST_STORE_PAUSE, WAITING_DRAIN};
use crate::output;
use crate::store_url::is_postgres;

/// Assembles the server, and waits while its database is away. A permanent error, such as a wrong
/// password or a missing database, is returned at once.
pub(super) async fn assemble_patiently(
    store: &str,
    settings: &Settings,
    listen: &ListenOptions,
    mut bound: BoundListeners,
    draining: Draining,
) -> Result<(Assembly, BoundListeners)> {
    let mut waiting: Option<Waiting> = None;
    let mut pause = FIRST_STORE_PAUSE;
    loop {
        let error = match assemble(store, settings, bound.addresses(), draining.clone()).await {
            Ok(assembly) => {
                if let Some(waiting) = waiting {
                    waiting.end().await;
                }
                return Ok((assembly, bound));
            }
            Err(error) if is_postgres(store) && is_away(&error) => error,
            Err(error) => return Err(error),
        };
        if waiting.is_none() {
            let (listening, listener, metrics) = bound.listen()?;
            bound = listening;
            let address = bound.addresses()[0];
            output::say(&format!("hapax: alive on {address}, and not ready until the database is reachable"));
            waiting = Some(Waiting::begin(listen, listener, metrics));
        }
        pause = wait_after(&error, pause).await;
    }
}

/// Makes the credential that sets the installation up, if there is none. Waits for the database if it goes away between opening it and this.
pub(super) async fn bootstrap_patiently(assembly: &Assembly) -> Result<Option<ApiKey>> {
    let mut pause = FIRST_STORE_PAUSE;
    loop {
        match assembly.server.bootstrap().await {
            Err(problem) if problem.retryable && assembly.store_comes_back => {
                pause = wait_after(&problem, pause).await;
            }
            answer => return Ok(answer?),
        }
    }
}

/// Says why the server is not ready, and waits; the next pause.
async fn wait_after(why: &dyn std::fmt::Display, pause: Duration) -> Duration {
    let span = pause.mul_f64(0.5 + fastrand::f64() / 2.0);
    output::say(&format!("hapax: not ready: {why:#}; trying again in {:.1} s", span.as_secs_f64()));
    tokio::time::sleep(span).await;
    (pause * 2).min(LONGEST_STORE_PAUSE)
}

/// Is it only that the database cannot be reached now?
fn is_away(error: &Error) -> bool {
    if let Some(hapax::OpenError::Postgres(error)) = error.downcast_ref() {
        return error.is_transient();
    }
    match error.downcast_ref() {
        Some(LaunchError::Store(error)) => error.is_retryable(),
        Some(LaunchError::Engine(hapax::Error::Store(error))) => error.is_retryable(),
        Some(LaunchError::Problem(problem)) => problem.retryable,
        Some(
            LaunchError::NoCatalog
            | LaunchError::Keys(_)
            | LaunchError::Engine(_)
            | LaunchError::People(_)
            | LaunchError::Outgoing(_)
            | LaunchError::NoRandom(_),
        )
        | None => false,
    }
}

/// Answers health checks while the server is not ready.
struct Waiting {
    drain: Drain,
    listeners: JoinSet<()>,
}

impl Waiting {
    fn begin(listen: &ListenOptions, listener: TcpListener, metrics: Option<TcpListener>) -> Self {
        let (drain, draining) = drain();
        let mut listeners = JoinSet::new();
        let listen = ListenOptions { drain_timeout: WAITING_DRAIN, ..listen.clone() };
        let plain = ListenOptions { tls: None, ..listen.clone() };
        for (listener, listen) in [(Some(listener), listen), (metrics, plain)] {
            let Some(listener) = listener else { continue };
            let draining = draining.clone();
            listeners.spawn(async move {
                serve(listener, waiting_router(), listen, draining).await;
            });
        }
        Waiting { drain, listeners }
    }

    /// Closes the connections, so that callers reach the server itself.
    async fn end(mut self) {
        self.drain.begin();
        while self.listeners.join_next().await.is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use hapax_server::http_idempotency::LayerError;

    use super::*;

    #[test]
    fn only_what_may_come_right_by_itself_is_waited_for() {
        let unavailable = hapax::store::StoreError::Unavailable("away".into());
        assert!(is_away(&LaunchError::Store(unavailable).into()));
        let broken = hapax::store::StoreError::Broken("not a database of ours".into());
        assert!(!is_away(&LaunchError::Store(broken).into()));
        assert!(!is_away(&LaunchError::Keys(LayerError::NoKeyBook).into()));
        assert!(!is_away(&Error::msg("a setting is wrong")));
        let place = || "db:5432/hapax".to_owned();
        let of = |error: hapax::postgres::OpenError| Error::from(hapax::OpenError::Postgres(error));
        let detail = String::new;
        assert!(is_away(&of(hapax::postgres::OpenError::NoServer { place: place(), detail: detail() })));
        assert!(!is_away(&of(hapax::postgres::OpenError::NotLetIn { place: place(), detail: detail() })));
        assert!(!is_away(&of(hapax::postgres::OpenError::NoDatabase { place: place() })));
    }
}
