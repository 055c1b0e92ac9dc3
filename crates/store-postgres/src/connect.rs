//! Making connections: each with the store's timeouts and schema, to a server that takes writes.

use std::time::Duration;

use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tokio_postgres::{Client, Config};

use crate::connection_cap::{ConnectionCap, carry};
use crate::encryption::{Tls, UrlParameters, connector};
use crate::limits::CONNECT_TIMEOUT;
use crate::open_error::OpenError;
use crate::options::PostgresOptions;
use crate::settings::{self, Settings};

/// Sent after the rest, because a server on an unsupported platform rejects it. Makes the server
/// cancel a statement whose client is gone.
pub(crate) const CHECK_CLIENT: &str = "SET client_connection_check_interval = '2s'";

/// Sent from time to time. A plan for a table with a single row may scan it, since that was as good
/// as a lookup, and would be kept until the server next analyses the table.
pub(crate) const FORGET_PLANS: &str = "DISCARD PLANS";

/// Server address and connection settings.
#[derive(Clone)]
pub(crate) struct Address {
    /// For the store's own connections.
    pub(crate) config: Config,
    /// For connections that user code shares: with its own `search_path`, and plans of PostgreSQL's choice.
    pub(crate) work_config: Config,
    /// How settings reach the server.
    pub(crate) settings: Settings,
    pub(crate) tls: Tls,
    /// Limit on connections.
    pub(crate) cap: ConnectionCap,
}

/// Parses `url`.
pub(crate) fn configure(url: &str, options: &PostgresOptions) -> Result<Address, OpenError> {
    let plain = configure_plain(url, options)?;
    let config = settings::at_startup(&plain.config, &settings::own(options));
    let work_config = settings::at_startup(&plain.config, &settings::timeouts(options));
    Ok(Address { config, work_config, ..plain })
}

/// The address for a pooler that accepts no settings in the startup message.
pub(crate) fn configure_by_statement(url: &str, options: &PostgresOptions) -> Result<Address, OpenError> {
    Ok(Address { settings: Settings::by_statement(options), ..configure_plain(url, options)? })
}

/// The address without settings of the store.
fn configure_plain(url: &str, options: &PostgresOptions) -> Result<Address, OpenError> {
    check_schema(&options.schema)?;
    check_pools(options)?;
    let (url, taken) = UrlParameters::out_of(url)?;
    let mut config: Config = url.parse().map_err(|_| OpenError::BadUrl)?;
    if config.get_hosts().is_empty() {
        return Err(OpenError::BadUrl);
    }
    let wish = taken.into_wish(config.get_ssl_mode())?;
    let is_local = config.get_hosts().iter().all(|host| !matches!(host, Host::Tcp(_)));
    // A socket of this machine cannot be overheard; `psql` does not encrypt it either.
    config.ssl_mode(if is_local { SslMode::Disable } else { wish.ssl_mode() });
    let tls = connector(&wish, &place(&config))?;
    let config = complete(config, options);
    let (work_config, cap) = (config.clone(), ConnectionCap::new(options));
    Ok(Address { config, work_config, settings: Settings::AtStartup, tls, cap })
}

fn complete(mut config: Config, options: &PostgresOptions) -> Config {
    if config.get_application_name().is_none() {
        config.application_name(&options.application_name);
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIMEOUT);
    }
    // Keepalives detect a server that vanished silently, if the deadline of a call does not come
    // first.
    config.keepalives(true).keepalives_idle(Duration::from_secs(10));
    config.keepalives_interval(Duration::from_secs(3)).keepalives_retries(3);
    config.tcp_user_timeout(options.deadline);
    config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    config
}

fn check_pools(options: &PostgresOptions) -> Result<(), OpenError> {
    let PostgresOptions { committers, readers, transactions, .. } = *options;
    let pools = [("committers", committers), ("readers", readers), ("transactions", transactions)];
    match pools.iter().find(|(_, connections)| *connections == 0) {
        Some((name, _)) => Err(OpenError::NoConnections(name)),
        None => Ok(()),
    }
}

fn check_schema(schema: &str) -> Result<(), OpenError> {
    let starts_well = schema.starts_with(|c: char| c.is_ascii_lowercase());
    let fits = schema.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    match starts_well && fits && schema.len() <= 40 {
        true => Ok(()),
        false => Err(OpenError::BadSchema(schema.chars().take(60).collect())),
    }
}

/// Address of the server for messages, without the password.
pub(crate) fn place(config: &Config) -> String {
    let ports = config.get_ports();
    let hosts = config.get_hosts().iter().enumerate().map(|(i, host)| {
        let port = ports.get(i).or(ports.first()).copied().unwrap_or(5432);
        match host {
            Host::Tcp(name) => format!("{name}:{port}"),
            #[cfg(unix)]
            Host::Unix(folder) => format!("{}:{port}", folder.display()),
        }
    });
    let hosts: Vec<String> = hosts.collect();
    format!("{}/{}", hosts.join(","), config.get_dbname().or(config.get_user()).unwrap_or_default())
}

/// Hosts and ports of `url`, without local sockets. An HTTP sender on behalf of others must be kept
/// away from them.
pub fn list_hosts(url: &str) -> Result<Vec<(String, u16)>, OpenError> {
    let (url, _) = UrlParameters::out_of(url)?;
    let config: Config = url.parse().map_err(|_| OpenError::BadUrl)?;
    let port = |i: usize| config.get_ports().get(i).or(config.get_ports().first()).copied().unwrap_or(5432);
    let named = config.get_hosts().iter().enumerate().filter_map(|(i, host)| match host {
        Host::Tcp(name) => Some((name.clone(), port(i))),
        #[cfg(unix)]
        Host::Unix(_) => None,
    });
    let addressed =
        config.get_hostaddrs().iter().enumerate().map(|(i, address)| (address.to_string(), port(i)));
    Ok(named.chain(addressed).collect())
}

/// Opens one connection outside the pools. It has only the settings of its startup message, and
/// closes with its client.
pub(crate) async fn connect(address: &Address) -> Result<Client, OpenError> {
    let Address { config, tls, cap, .. } = address;
    let permit = cap.permit().await;
    // The driver's own timeout ends when the server accepts the connection; a silent server needs
    // another.
    let patience = config.get_connect_timeout().copied().unwrap_or(CONNECT_TIMEOUT);
    let connecting = tokio::time::timeout(patience, config.connect(tls.clone())).await;
    let (client, connection) = match connecting {
        Ok(connected) => connected.map_err(|error| OpenError::from_postgres(&place(config), &error))?,
        Err(_) => {
            let detail = format!("it did not answer within {patience:?}");
            return Err(OpenError::NoServer { place: place(config), detail });
        }
    };
    tokio::spawn(carry(connection, permit));
    Ok(client)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_shown_nowhere() {
        let options = PostgresOptions::default();
        let Address { config, .. } =
            configure("postgres://ann:canary@db.example:6000/orders", &options).unwrap();
        assert_eq!(place(&config), "db.example:6000/orders");
        assert!(!format!("{config:?}").contains("canary"));
        for broken in ["postgres://ann:canary@host:port/x", "postgres://h/x?canary=1", "canary", ""] {
            let Err(error) = configure(broken, &options) else { panic!("{broken}") };
            assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
        }
    }

    #[test]
    fn the_hosts_of_a_url_are_those_that_connections_go_to() {
        let hosts = |url: &str| {
            let found = list_hosts(url).unwrap();
            found.iter().map(|(host, port)| format!("{host} {port}")).collect::<Vec<_>>()
        };
        assert_eq!(hosts("postgres://u:p@db.example/x?sslmode=verify-full"), ["db.example 5432"]);
        assert_eq!(hosts("postgres://one:1,two:2/x"), ["one 1", "two 2"]);
        assert_eq!(
            hosts("postgres://db:6000/x?hostaddr=10.0.0.7"),
            ["db 6000", "10.0.0.7 6000"],
            "by name and by address"
        );
        assert!(hosts("postgres:///x?host=/run/postgresql").is_empty());
        assert!(list_hosts("postgres://h:port/x").is_err());
    }

    /// RELIABILITY, config files: a pool of 0 is refused with the reason.
    #[test]
    fn a_pool_without_connections_is_refused() {
        let refused = |options| match configure("postgres://h/x", &options) {
            Err(OpenError::NoConnections(which)) => which,
            _ => panic!("it must be refused"),
        };
        let options = PostgresOptions::default;
        assert_eq!(refused(options().committers(0)), "committers");
        assert_eq!(refused(options().readers(0)), "readers");
        assert_eq!(refused(options().transactions(0)), "transactions");
    }

    #[test]
    fn a_schema_is_a_plain_name() {
        for good in ["hapax", "a", "tenant_7"] {
            assert!(check_schema(good).is_ok(), "{good}");
        }
        for bad in ["", "7a", "Hapax", "a b", "a;b", "a\"b", "_a", &"a".repeat(41)] {
            assert!(check_schema(bad).is_err(), "{bad}");
        }
    }
}
