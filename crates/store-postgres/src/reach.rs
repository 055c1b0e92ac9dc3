//! Connects directly, or through a pooler in session mode. Rejects a pooler that does not keep sessions before it sets anything through it.

use tokio_postgres::{Client, SimpleQueryMessage};

use crate::connect::{Address, configure, configure_by_statement, connect, place};
use crate::limits::SESSION_PROBES;
use crate::open_error::OpenError;
use crate::options::PostgresOptions;
use crate::settings::apply;

/// Finds out how to connect to `url`. Returns the address and the first connection.
pub(crate) async fn reach(url: &str, options: &PostgresOptions) -> Result<(Address, Client), OpenError> {
    let address = configure(url, options)?;
    match connect(&address).await {
        Ok(client) if have_arrived(&client, &address, options).await? => return Ok((address, client)),
        // A pooler dropped the settings (`ignore_startup_parameters`).
        Ok(_) => {}
        Err(OpenError::SettingsRefused { .. }) => {}
        Err(error) => return Err(error),
    }
    let address = configure_by_statement(url, options)?;
    let client = connect(&address).await?;
    check_sessions(&address, &client).await?;
    let applied = apply(&client, address.settings.for_own()).await;
    applied.map_err(|error| OpenError::from_postgres(&place(&address.config), &error))?;
    tracing::info!(place = %place(&address.config), "connected through a pooler that keeps sessions");
    Ok((address, client))
}

/// Did the settings of the startup message arrive?
async fn have_arrived(
    client: &Client,
    address: &Address,
    options: &PostgresOptions,
) -> Result<bool, OpenError> {
    let found = find_word(client, include_str!("../sql/find_setting.sql")).await;
    let found = found.map_err(|error| OpenError::from_postgres(&place(&address.config), &error))?;
    Ok(found.as_ref() == Some(&options.schema))
}

/// Rejects a pooler in transaction or statement mode.
///
/// The check compares the backend processes of two sessions while one of them has a transaction open. It sets nothing, because a setting would stay
/// on a connection that other programs use next. Neither session may ever change its backend. Many rounds find such a pooler also while other
/// programs keep it busy, when a session may get its old connection back by chance.
async fn check_sessions(address: &Address, client: &Client) -> Result<(), OpenError> {
    let at = place(&address.config);
    let failed = |error| OpenError::from_postgres(&at, &error);
    let other = connect(address).await.map_err(|error| match error {
        OpenError::NoServer { place, .. } => OpenError::FewConnections { place },
        other => other,
    })?;
    let own = find_backend(client).await.map_err(failed)?;
    let mut own_of_other = None;
    for _ in 0..SESSION_PROBES {
        other.batch_execute("BEGIN").await.map_err(|error| match error.as_db_error() {
            // PgBouncer in statement mode rejects transactions.
            Some(_) => OpenError::SessionsNotKept { place: at.clone() },
            None => failed(error),
        })?;
        let of_other = find_backend(&other).await.map_err(failed)?;
        let first_of_other = own_of_other.get_or_insert_with(|| of_other.clone());
        // If both share one connection, a query of the first session would wait for the transaction to end.
        let is_kept = of_other != own
            && of_other == *first_of_other
            && find_backend(client).await.map_err(failed)? == own;
        other.batch_execute("ROLLBACK").await.map_err(failed)?;
        if !is_kept || find_backend(client).await.map_err(failed)? != own {
            return Err(OpenError::SessionsNotKept { place: at });
        }
    }
    Ok(())
}

async fn find_backend(client: &Client) -> Result<Option<String>, tokio_postgres::Error> {
    find_word(client, include_str!("../sql/find_backend.sql")).await
}

/// Runs a query without preparing it, because a pooler may lose prepared statements.
async fn find_word(client: &Client, sql: &str) -> Result<Option<String>, tokio_postgres::Error> {
    let answers = client.simple_query(sql).await?;
    Ok(answers.iter().find_map(|answer| match answer {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    }))
}
