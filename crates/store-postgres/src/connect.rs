//! How connections are made: each with timeouts of ours, on the schema of ours, to a server that takes writes.

use std::time::Duration;

use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tokio_postgres::{Client, Config};

use crate::connection_cap::{ConnectionCap, carry};
use crate::encryption::{Taken, Tls, connector};
use crate::limits::CONNECT_TIMEOUT;
use crate::open_error::OpenError;
use crate::options::PostgresOptions;

/// What every connection of the store begins with.
///
/// - The server gives up before the client does, so that a client rarely has to guess what became of a statement.
/// - Every statement goes from keys to rows; the planner is told so once instead of being asked each time. With these
///   settings one plan is right for every batch size and every size of the tables (`plans.rs` tests that).
fn session_settings(options: &PostgresOptions) -> Vec<(&'static str, String)> {
    let ours = vec![
        ("search_path", search_path(options)),
        ("hapax.schema", options.schema.clone()),
        ("plan_cache_mode", "force_generic_plan".into()),
        ("enable_seqscan", "off".into()),
        ("enable_bitmapscan", "off".into()),
        ("enable_hashjoin", "off".into()),
        ("enable_mergejoin", "off".into()),
        // Only the number of rows counts: what is looked for lies in memory or is new.
        ("seq_page_cost", "0.01".into()),
        ("random_page_cost", "0.01".into()),
        ("jit", "off".into()),
    ];
    timeouts(options).into_iter().chain(ours).collect()
}

/// What also the connections begin with that user code shares. Everything else there is the user's.
fn timeouts(options: &PostgresOptions) -> Vec<(&'static str, String)> {
    let statement = options.deadline.mul_f64(0.8).as_millis().to_string();
    let idle = options.deadline.as_millis().to_string();
    vec![
        ("statement_timeout", statement),
        ("lock_timeout", lock_timeout(options).as_millis().to_string()),
        ("idle_in_transaction_session_timeout", idle),
        ("default_transaction_isolation", "read\\ committed".into()),
    ]
}

/// How long a statement waits for what another transaction holds.
pub(crate) fn lock_timeout(options: &PostgresOptions) -> Duration {
    options.deadline.mul_f64(0.4)
}

/// Our tables first, and nobody's temporary ones before them, as they would be if they were not named.
pub(crate) fn search_path(options: &PostgresOptions) -> String {
    format!("{},pg_temp", options.schema)
}

/// Sent after the rest, because a server on a platform without it refuses it: lets go of a statement whose client is gone.
pub(crate) const CHECK_CLIENT: &str = "SET client_connection_check_interval = '2s'";

/// Sent every now and then. A plan that was made when a table held a single row may walk over it, since that was as good as to
/// look the row up, and would be kept until the server next looks at the size of the table.
pub(crate) const FORGET_PLANS: &str = "DISCARD PLANS";

/// Where connections lead, and how they are made.
#[derive(Clone)]
pub(crate) struct Address {
    /// For connections of ours.
    pub(crate) config: Config,
    /// For connections that user code shares: with its own `search_path`, and plans of PostgreSQL's choice.
    pub(crate) work_config: Config,
    pub(crate) tls: Tls,
    /// How many there may be.
    pub(crate) cap: ConnectionCap,
}

/// The address that `url` stands for.
pub(crate) fn configure(url: &str, options: &PostgresOptions) -> Result<Address, OpenError> {
    check_schema(&options.schema)?;
    check_pools(options)?;
    let (url, taken) = Taken::out_of(url)?;
    let mut config: Config = url.parse().map_err(|_| OpenError::BadUrl)?;
    if config.get_hosts().is_empty() {
        return Err(OpenError::BadUrl);
    }
    let wish = taken.into_wish(config.get_ssl_mode());
    let is_local = config.get_hosts().iter().all(|host| !matches!(host, Host::Tcp(_)));
    // Nobody listens at a socket of this machine; `psql` leaves it alone as well.
    config.ssl_mode(if is_local { SslMode::Disable } else { wish.ssl_mode() });
    let tls = connector(&wish, &place(&config))?;
    let work_config = complete(config.clone(), options, timeouts(options));
    let config = complete(config, options, session_settings(options));
    Ok(Address { config, work_config, tls, cap: ConnectionCap::new(options) })
}

fn complete(mut config: Config, options: &PostgresOptions, settings: Vec<(&'static str, String)>) -> Config {
    let given = config.get_options().unwrap_or_default().to_owned();
    let ours = settings.into_iter().map(|(name, value)| format!("-c {name}={value}"));
    let all: Vec<String> = std::iter::once(given).filter(|given| !given.is_empty()).chain(ours).collect();
    config.options(all.join(" "));
    if config.get_application_name().is_none() {
        config.application_name(&options.application_name);
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIMEOUT);
    }
    // A server that vanished without a word is noticed by these, should the deadline of a call not be first.
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

/// Where the connections lead, for messages: never with the password.
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

/// The hosts and ports that connections to `url` go to, sockets of this machine apart: for whoever sends requests for others, and must
/// keep them away from here.
pub fn list_hosts(url: &str) -> Result<Vec<(String, u16)>, OpenError> {
    let (url, _) = Taken::out_of(url)?;
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

/// One connection outside the pools. It ends with its client.
pub(crate) async fn connect(address: &Address) -> Result<Client, OpenError> {
    let Address { config, tls, cap, .. } = address;
    let permit = cap.permit().await;
    // The driver's own timeout ends when the server accepts; one that then says nothing is none.
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
