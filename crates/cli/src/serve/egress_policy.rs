//! Egress rules from the settings; the server itself and its database are always closed.

use std::net::{IpAddr, SocketAddr};

use anyhow::Result;
use hapax_outgoing::{DestinationPattern, Outgoing, Rules};
use hapax_server::egress_policy::EgressPolicy;

use super::settings::Settings;
use crate::limits::OWN_LOOKUP_TIMEOUT;
use crate::store_url::is_postgres;

/// The ways out of a server that listens on `own` and keeps its data in `store`.
pub(super) async fn egress_policy(
    settings: &Settings,
    store: &str,
    own: Vec<SocketAddr>,
) -> Result<EgressPolicy> {
    let mut rules = settings.rules.clone();
    rules.denied_addresses.extend(own);
    close_database(&mut rules, store).await;
    let ways = EgressPolicy::from(Outgoing::new(rules)?);
    Ok(ways.opening(settings.workspace_allow.clone())?)
}

/// Closes the database by name and by each of its current addresses.
async fn close_database(rules: &mut Rules, store: &str) {
    // Opening the store reports what is wrong with the URL.
    let hosts = match is_postgres(store) {
        true => hapax::postgres::list_hosts(store).unwrap_or_default(),
        false => Vec::new(),
    };
    for (host, port) in hosts {
        let looking = tokio::net::lookup_host((host.as_str(), port));
        if let Ok(Ok(found)) = tokio::time::timeout(OWN_LOOKUP_TIMEOUT, looking).await {
            rules.denied_addresses.extend(found);
        }
        if host.parse::<IpAddr>().is_err()
            && let Ok(place) = format!("{host}:{port}").parse::<DestinationPattern>()
        {
            rules.deny.push(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use hapax::WorkspaceId;
    use hapax_outgoing::{Refusal, Request};

    use super::super::settings::ServeOptions;
    use super::*;

    /// RELIABILITY, SSRF: our own admin, metrics and database addresses are always denied, whatever is allowed.
    #[tokio::test]
    async fn the_server_and_its_database_are_never_called() {
        let said = ServeOptions {
            allow: Some(vec!["10.0.0.0/8".into(), "10.0.0.7:5433".into(), "localhost:5433".into()]),
            workspace_allow: Some(vec!["acme:127.0.0.0/8".into(), "acme:127.0.0.1:5433".into()]),
            ..ServeOptions::default()
        };
        let mut settings = Settings::gather(said).unwrap();
        settings.rules.allow_loopback = true;
        let store = "postgres://u:p@localhost:5433,10.0.0.7:5433/db?sslmode=disable";
        let own = vec!["127.0.0.1:40001".parse().unwrap(), "127.0.0.1:40002".parse().unwrap()];
        let ways = egress_policy(&settings, store, own).await.unwrap();
        let acme = WorkspaceId::new("acme").unwrap();
        for workspace in [acme, WorkspaceId::default()] {
            let judged = |url: &str| ways.of(&workspace).check(&Request::get(url));
            for own in [
                "http://127.0.0.1:40001/",
                "http://127.0.0.1:40002/metrics",
                "http://localhost:5433/",
                "http://127.0.0.1:5433/",
                "http://10.0.0.7:5433/",
            ] {
                assert!(matches!(judged(own), Err(Refusal::Denied { .. })), "{own}: {:?}", judged(own));
            }
            assert_eq!(judged("http://127.0.0.1:40003/"), Ok(()));
            assert_eq!(judged("http://10.0.0.8/"), Ok(()));
        }
    }
}
