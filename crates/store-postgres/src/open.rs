//! Opening a database: every failure has its own error.

use std::sync::Arc;

use hapax_engine::clock::Clock;
use tokio_postgres::Client;

use crate::connect::{Address, place};
use crate::limits::MIN_SERVER;
use crate::migrate::{self, KNOWN_VERSION, SchemaFit};
use crate::open_error::OpenError;
use crate::options::PostgresOptions;
use crate::reach::reach;
use crate::server_clock::ServerClock;

/// An opened database.
pub(crate) struct Opened {
    pub(crate) address: Address,
    pub(crate) place: String,
    pub(crate) clock: Arc<dyn Clock>,
    /// The server clock, if the store uses it; it must be read again from time to time.
    pub(crate) server_clock: Option<Arc<ServerClock>>,
}

/// Connects once, checks the server, and migrates the tables if requested.
pub(crate) async fn open(url: &str, options: &PostgresOptions) -> Result<Opened, OpenError> {
    let (address, mut client) = reach(url, options).await?;
    let place = place(&address.config);
    inspect(&client, &place).await?;
    let found = migrate::look(&client).await.map_err(|error| OpenError::from_postgres(&place, &error))?;
    match found.fit(KNOWN_VERSION) {
        SchemaFit::Good => {}
        SchemaFit::Newer => {
            return Err(OpenError::Newer { place, found: found.version, known: KNOWN_VERSION });
        }
        SchemaFit::Older if options.migrate => drop(migrate::apply(&mut client, &address.config).await?),
        SchemaFit::Older => {
            return Err(OpenError::Older { place, found: found.version, known: KNOWN_VERSION });
        }
    }
    let (clock, server_clock): (Arc<dyn Clock>, _) = match &options.clock {
        Some(clock) => (clock.clone(), None),
        None => {
            let read = ServerClock::read_first(&client).await;
            let clock = read.map_err(|error| OpenError::from_postgres(&place, &error))?;
            (clock.clone(), Some(clock))
        }
    };
    Ok(Opened { address, place, clock, server_clock })
}

/// Rejects a server that cannot keep the store's promises, and warns about settings that weaken
/// them.
async fn inspect(client: &Client, place: &str) -> Result<(), OpenError> {
    let row = client
        .query_one(include_str!("../sql/inspect_server.sql"), &[])
        .await
        .map_err(|error| OpenError::from_postgres(place, &error))?;
    check_version(row.get(0))?;
    let (is_standby, is_read_only): (bool, bool) = (row.get(1), row.get(2));
    if is_standby || is_read_only {
        return Err(OpenError::ReadOnly { place: place.to_owned() });
    }
    for (setting, value) in ["fsync", "full_page_writes", "synchronous_commit"].iter().zip(3..) {
        let value: String = row.get(value);
        if value == "off" {
            tracing::warn!(place, setting, "ACKNOWLEDGED WORK CAN BE LOST: the server has this setting off");
        }
    }
    Ok(())
}

fn check_version(found: i32) -> Result<(), OpenError> {
    match found < MIN_SERVER {
        true => Err(OpenError::OldServer { found, needed: MIN_SERVER }),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_too_old_is_refused() {
        let error = check_version(130_011).unwrap_err();
        assert_eq!(error.to_string(), "PostgreSQL 13 is too old: use 14 or newer");
        assert!(check_version(140_000).is_ok());
    }
}
