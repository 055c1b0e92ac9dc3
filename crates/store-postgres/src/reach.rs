//! The way to a server: straight, or through a pooler that keeps sessions. One that does not is refused before anything is sent through it.

use tokio_postgres::{Client, SimpleQueryMessage};

use crate::connect::{Address, configure, configure_by_statement, connect, place};
use crate::limits::SESSION_PROBES;
use crate::open_error::OpenError;
use crate::options::PostgresOptions;

/// Finds out how connections to `url` are to be made; answers with the first of them.
pub(crate) async fn reach(url: &str, options: &PostgresOptions) -> Result<(Address, Client), OpenError> {
    let address = configure(url, options)?;
    match connect(&address).await {
        Ok(client) if have_arrived(&client, &address, options).await? => return Ok((address, client)),
        // Dropped on the way, which poolers do if they are told to.
        Ok(_) => {}
        Err(OpenError::SettingsRefused { .. }) => {}
        Err(error) => return Err(error),
    }
    let address = configure_by_statement(url, options)?;
    let client = connect(&address).await?;
    check_sessions(&address, &client).await?;
    let settings = address.settings.for_own().unwrap_or_default();
    let set = client.batch_execute(settings).await;
    set.map_err(|error| OpenError::from_postgres(&place(&address.config), &error))?;
    tracing::info!(place = %place(&address.config), "connected through a pooler that keeps sessions");
    Ok((address, client))
}

/// Have the settings of the first message arrived?
async fn have_arrived(
    client: &Client,
    address: &Address,
    options: &PostgresOptions,
) -> Result<bool, OpenError> {
    let found = find_word(client, include_str!("../sql/find_setting.sql")).await;
    let found = found.map_err(|error| OpenError::from_postgres(&place(&address.config), &error))?;
    Ok(found.as_ref() == Some(&options.schema))
}

/// Refuses a pooler that gives a session's statements to different connections of the server, or one connection to different sessions.
///
/// Nothing is set to find out: what is set through such a pooler stays with a connection that others use next. While one session has a transaction
/// open, another must be served by its own connection, the same as before.
async fn check_sessions(address: &Address, client: &Client) -> Result<(), OpenError> {
    let at = place(&address.config);
    let failed = |error| OpenError::from_postgres(&at, &error);
    let other = connect(address).await.map_err(|error| match error {
        OpenError::NoServer { place, .. } => OpenError::FewConnections { place },
        other => other,
    })?;
    for _ in 0..SESSION_PROBES {
        let before = find_backend(client).await.map_err(failed)?;
        other.batch_execute("BEGIN").await.map_err(|error| match error.as_db_error() {
            // A pooler that keeps nothing beyond a statement says so.
            Some(_) => OpenError::SessionsNotKept { place: at.clone() },
            None => failed(error),
        })?;
        let of_other = find_backend(&other).await.map_err(failed)?;
        // With a single connection behind the pooler this would wait for the transaction.
        let is_own = of_other != before && find_backend(client).await.map_err(failed)? == before;
        other.batch_execute("ROLLBACK").await.map_err(failed)?;
        if !is_own {
            return Err(OpenError::SessionsNotKept { place: at });
        }
    }
    Ok(())
}

async fn find_backend(client: &Client) -> Result<Option<String>, tokio_postgres::Error> {
    find_word(client, include_str!("../sql/find_backend.sql")).await
}

/// Asks without preparing: a pooler may not know what was prepared by the time it is used.
async fn find_word(client: &Client, sql: &str) -> Result<Option<String>, tokio_postgres::Error> {
    let answers = client.simple_query(sql).await?;
    Ok(answers.iter().find_map(|answer| match answer {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    }))
}
