//! Connection limit of a node. Each connection has a permit from before it is opened until its
//! socket is closed, so there are never more.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use deadpool_postgres::Connect;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Config, Connection, Error, Socket};

use crate::encryption::Tls;
use crate::limits::{
    DELIVERY_CONNECTIONS, LISTENING_CONNECTIONS, MAINTENANCE_CONNECTIONS, RENEWAL_CONNECTIONS,
};
use crate::options::PostgresOptions;

impl PostgresOptions {
    /// Most connections that a store with these options holds at once: four times `committers`, `readers`, `transactions`, and a few for renewals, claims,
    /// deliveries and hints.
    pub fn max_connections(&self) -> usize {
        4 * self.committers
            + self.readers
            + self.transactions
            + RENEWAL_CONNECTIONS
            + MAINTENANCE_CONNECTIONS
            + DELIVERY_CONNECTIONS
            + LISTENING_CONNECTIONS
    }
}

/// The permits of one node. A pool that closes a connection and makes another waits until the first is gone.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionCap(Arc<Semaphore>);

impl ConnectionCap {
    pub(crate) fn new(options: &PostgresOptions) -> Self {
        ConnectionCap(Arc::new(Semaphore::new(options.max_connections())))
    }

    /// Waits for a permit for one connection.
    pub(crate) async fn permit(&self) -> OwnedSemaphorePermit {
        self.0.clone().acquire_owned().await.expect("it is never closed")
    }
}

/// Makes the connections of a pool.
pub(crate) struct CappedConnect {
    pub(crate) tls: Tls,
    pub(crate) cap: ConnectionCap,
}

type Connecting<'a> = Pin<Box<dyn Future<Output = Result<(Client, JoinHandle<()>), Error>> + Send + 'a>>;

impl Connect for CappedConnect {
    fn connect(&self, config: &Config) -> Connecting<'_> {
        let config = config.clone();
        Box::pin(async move {
            let permit = self.cap.permit().await;
            let (client, connection) = config.connect(self.tls.clone()).await?;
            Ok((client, tokio::spawn(carry(connection, permit))))
        })
    }
}

/// Drives a connection to its end. In every case the permit is released after the socket is closed.
pub(crate) async fn carry<S>(connection: Connection<Socket, S>, permit: OwnedSemaphorePermit)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let _permit = permit;
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection ended");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/scaling.md states this number.
    #[test]
    fn the_defaults_come_to_what_the_docs_say() {
        assert_eq!(PostgresOptions::default().max_connections(), 23);
        let page = include_str!("../../../docs/scaling.md");
        assert!(page.contains("A node holds at most 23 with the defaults"));
    }
}
