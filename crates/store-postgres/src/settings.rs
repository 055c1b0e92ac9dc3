//! The settings of every session, and the two ways in which they get to the server.
//!
//! Usually they come with the first message of a connection, so there is no moment without them, and `RESET ALL` comes back to them. A pooler in
//! session mode takes no such message, or drops what it does not know: there they are statements, sent before anything else.

use std::time::Duration;

use tokio_postgres::Config;

use crate::options::PostgresOptions;

/// Name and value.
pub(crate) type Setting = (&'static str, String);

/// What leaves a connection that user code has used as it was, but for its prepared statements.
const CLEAN: &str = "CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; UNLISTEN *; SELECT pg_advisory_unlock_all(); DISCARD TEMP; \
                     DISCARD SEQUENCES;";

/// How the settings get to the server.
#[derive(Debug, Clone)]
pub(crate) enum Settings {
    /// With the first message of a connection.
    AtStartup,
    /// As statements on each new connection.
    ByStatement {
        /// For connections of ours.
        own: String,
        /// For connections that user code shares.
        work: String,
    },
}

impl Settings {
    pub(crate) fn by_statement(options: &PostgresOptions) -> Settings {
        Settings::ByStatement { own: statements(&own(options)), work: statements(&timeouts(options)) }
    }

    /// What a new connection of ours is sent first.
    pub(crate) fn for_own(&self) -> Option<&str> {
        match self {
            Settings::AtStartup => None,
            Settings::ByStatement { own, .. } => Some(own),
        }
    }

    /// What a new connection that user code shares is sent first.
    pub(crate) fn for_work(&self) -> Option<&str> {
        match self {
            Settings::AtStartup => None,
            Settings::ByStatement { work, .. } => Some(work),
        }
    }

    /// What such a connection is sent before its next use.
    pub(crate) fn clean_work(&self) -> String {
        format!("{CLEAN} {}", self.for_work().unwrap_or_default())
    }
}

/// `config` with settings in its first message, after those that the URL gives, so that these count.
pub(crate) fn at_startup(config: &Config, settings: &[Setting]) -> Config {
    let given = config.get_options().unwrap_or_default().to_owned();
    let ours = settings.iter().map(|(name, value)| format!("-c {name}={}", value.replace(' ', "\\ ")));
    let all: Vec<String> = std::iter::once(given).filter(|given| !given.is_empty()).chain(ours).collect();
    let mut config = config.clone();
    config.options(all.join(" "));
    config
}

/// No value holds a quote: they are numbers, words, and a schema name that was checked.
fn statements(settings: &[Setting]) -> String {
    let set = |(name, value): &Setting| match *name {
        // A list of names, not one name with a comma in it.
        "search_path" => format!("SET {name} = {value};"),
        _ => format!("SET {name} = '{value}';"),
    };
    settings.iter().map(set).collect::<Vec<_>>().join(" ")
}

/// What every connection of the store begins with.
///
/// - The server gives up before the client does, so that a client rarely has to guess what became of a statement.
/// - Every statement goes from keys to rows; the planner is told so once instead of being asked each time. With these
///   settings one plan is right for every batch size and every size of the tables (`plans.rs` tests that).
pub(crate) fn own(options: &PostgresOptions) -> Vec<Setting> {
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

/// How long a statement waits for what another transaction holds.
pub(crate) fn lock_timeout(options: &PostgresOptions) -> Duration {
    options.deadline.mul_f64(0.4)
}

/// Our tables first, and nobody's temporary ones before them, as they would be if they were not named.
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
        let Settings::ByStatement { own: stated, .. } = Settings::by_statement(&options) else { panic!() };
        for name in own(&options).iter().map(|(name, _)| name) {
            assert!(started.contains(&format!("-c {name}=")), "{started}");
            assert!(stated.contains(&format!("SET {name} = ")), "{stated}");
        }
        assert!(started.contains(r"-c default_transaction_isolation=read\ committed"), "{started}");
        assert!(stated.contains("SET search_path = orders,pg_temp;"), "{stated}");
    }
}
