//! Session settings, and the two ways to send them.
//!
//! A direct connection sends them in its startup message, so they always hold and `RESET ALL` returns to them. PgBouncer rejects or drops such
//! settings. Behind a pooler in session mode the store therefore sends them as the first statement of each connection.

use std::time::Duration;

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, Error};

use crate::options::PostgresOptions;

/// Name and value of a setting.
pub(crate) type Setting = (&'static str, String);

/// How settings reach the server.
#[derive(Debug, Clone)]
pub(crate) enum Settings {
    /// In the startup message.
    AtStartup,
    /// As the first statement of a connection, and again after each `RESET ALL`.
    ByStatement {
        /// Settings of the store's own connections.
        own: Vec<Setting>,
        /// Settings of connections that user code shares.
        work: Vec<Setting>,
    },
}

impl Settings {
    pub(crate) fn by_statement(options: &PostgresOptions) -> Settings {
        Settings::ByStatement { own: own(options), work: timeouts(options) }
    }

    /// Settings to send first on a connection of the store; empty if they were in its startup message.
    pub(crate) fn for_own(&self) -> &[Setting] {
        match self {
            Settings::AtStartup => &[],
            Settings::ByStatement { own, .. } => own,
        }
    }

    /// Settings to send first on a connection that user code shares, and again before each use.
    pub(crate) fn for_work(&self) -> &[Setting] {
        match self {
            Settings::AtStartup => &[],
            Settings::ByStatement { work, .. } => work,
        }
    }
}

/// Adds settings to the startup message. They follow the `options` of the URL, so they win.
pub(crate) fn at_startup(config: &Config, settings: &[Setting]) -> Config {
    let given = config.get_options().unwrap_or_default().to_owned();
    let ours = settings.iter().map(|(name, value)| format!("-c {name}={}", value.replace(' ', "\\ ")));
    let all: Vec<String> = std::iter::once(given).filter(|given| !given.is_empty()).chain(ours).collect();
    let mut config = config.clone();
    config.options(all.join(" "));
    config
}

/// Sends settings as one statement.
pub(crate) async fn apply(client: &Client, settings: &[Setting]) -> Result<(), Error> {
    if settings.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = settings.iter().map(|(name, _)| *name).collect();
    let values: Vec<&str> = settings.iter().map(|(_, value)| value.as_str()).collect();
    let params: [&(dyn ToSql + Sync); 2] = [&names, &values];
    client.query(include_str!("../sql/apply_settings.sql"), &params).await.map(drop)
}

/// Settings of every connection of the store.
///
/// - The server times out before the client does, so a client rarely faces an unknown outcome.
/// - Every statement goes from keys to rows, so the settings fix that plan once. With them, one
///   plan is right for every batch size and table size (`plans.rs` tests that).
pub(crate) fn own(options: &PostgresOptions) -> Vec<Setting> {
    let ours = vec![
        ("search_path", search_path(options)),
        ("hapax.schema", options.schema.clone()),
        ("plan_cache_mode", "force_generic_plan".into()),
        ("enable_seqscan", "off".into()),
        ("enable_bitmapscan", "off".into()),
        ("enable_hashjoin", "off".into()),
        ("enable_mergejoin", "off".into()),
        // Only the number of rows counts: the rows are in memory or new.
        ("seq_page_cost", "0.01".into()),
        ("random_page_cost", "0.01".into()),
        ("jit", "off".into()),
    ];
    timeouts(options).into_iter().chain(ours).collect()
}

/// Settings of connections that user code shares. All other settings there are the user's.
pub(crate) fn timeouts(options: &PostgresOptions) -> Vec<Setting> {
    let statement = options.deadline.mul_f64(0.8).as_millis().to_string();
    let idle = options.deadline.as_millis().to_string();
    vec![
        ("statement_timeout", statement),
        ("lock_timeout", lock_timeout(options).as_millis().to_string()),
        ("idle_in_transaction_session_timeout", idle),
        ("default_transaction_isolation", "read committed".into()),
    ]
}

/// How long a statement waits for a lock.
pub(crate) fn lock_timeout(options: &PostgresOptions) -> Duration {
    options.deadline.mul_f64(0.4)
}

/// The store's tables first. Temporary tables are last; without an explicit position they would
/// come first.
pub(crate) fn search_path(options: &PostgresOptions) -> String {
    format!("{},pg_temp", options.schema)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_settings_are_sent_either_way() {
        let options = PostgresOptions::default().schema("orders");
        let started = at_startup(&Config::new(), &own(&options));
        let started = started.get_options().unwrap();
        let stated = Settings::by_statement(&options);
        for (name, value) in stated.for_own() {
            assert!(started.contains(&format!("-c {name}={}", value.replace(' ', r"\ "))), "{started}");
        }
        assert!(started.contains("-c search_path=orders,pg_temp"), "{started}");
        assert!(started.contains(r"-c default_transaction_isolation=read\ committed"), "{started}");
        assert!(Settings::AtStartup.for_own().is_empty() && Settings::AtStartup.for_work().is_empty());
    }
}
