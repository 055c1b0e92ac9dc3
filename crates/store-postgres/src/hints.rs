//! Hints to other nodes that work may be due. Polling is the truth; a lost hint costs only time.
//!
//! `NOTIFY` takes a lock over the whole database at commit. So hints are sent outside the
//! transaction of the change, and at most a few times per second, however many there are.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, watch};
use tokio_postgres::{AsyncMessage, Client, Connection};
use uuid::Uuid;

use crate::connect::Address;
use crate::limits::{CONNECT_TIMEOUT, HINT_EVERY};
use crate::pools::Pools;

/// Longest pause between two tries to listen again.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Hints that this node sends and receives.
#[derive(Debug)]
pub(crate) struct Hints {
    /// Schema and node: other nodes listen for the schema, and ignore their own hints.
    name: String,
    schema: String,
    to_tell: Notify,
    heard: watch::Sender<u64>,
}

impl Hints {
    pub(crate) fn new(schema: &str) -> Arc<Self> {
        let name = format!("{schema} {}", Uuid::new_v4().simple());
        Arc::new(Hints {
            name,
            schema: schema.to_owned(),
            to_tell: Notify::new(),
            heard: watch::Sender::new(0),
        })
    }

    /// Hint of a user's transaction at its commit; no node ignores it.
    pub(crate) fn from_outside(schema: &str) -> String {
        format!("{schema} committed")
    }

    /// Notes that work became due that this node may not drive itself.
    pub(crate) fn note(&self) {
        self.to_tell.notify_one();
    }

    /// Changes whenever another node sends a hint.
    pub(crate) fn listen(&self) -> watch::Receiver<u64> {
        self.heard.subscribe()
    }

    /// Sends hints to other nodes, in batches, until the task is dropped.
    pub(crate) async fn tell(self: Arc<Self>, pools: Arc<Pools>) {
        loop {
            self.to_tell.notified().await;
            let name = self.name.clone();
            let deadline = pools.maintenance.deadline();
            let told = pools.maintenance.run(deadline, |held| async move {
                let statement = held.prepare_cached(include_str!("../sql/notify_due.sql")).await?;
                held.query(&statement, &[&name]).await?;
                Ok(())
            });
            if let Err(fault) = told.await {
                tracing::debug!(?fault, "a hint was not sent");
            }
            tokio::time::sleep(HINT_EVERY).await;
        }
    }

    /// Receives hints until the task is dropped. After each reconnection a hint may have been
    /// missed, so that counts as one.
    pub(crate) async fn hear(self: Arc<Self>, address: Address) {
        let mut pause = Duration::from_millis(100);
        loop {
            let permit = address.cap.permit().await;
            match tokio::time::timeout(CONNECT_TIMEOUT, address.config.connect(address.tls.clone())).await {
                Ok(Ok((client, connection))) => {
                    let error = self.hear_until_lost(client, connection, &mut pause).await.err();
                    tracing::debug!(?error, "the connection for hints ended");
                }
                Ok(Err(error)) => tracing::debug!(%error, "hints cannot be received; polling continues"),
                Err(_) => tracing::debug!("hints cannot be received; polling continues"),
            }
            drop(permit);
            tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn hear_until_lost(
        &self,
        client: Client,
        mut connection: Connection<impl AsyncRead + AsyncWrite + Unpin, impl AsyncRead + AsyncWrite + Unpin>,
        pause: &mut Duration,
    ) -> Result<(), tokio_postgres::Error> {
        let mut asked = std::pin::pin!(client.batch_execute(include_str!("../sql/listen_due.sql")));
        let mut is_listening = false;
        // Many nodes may send hints at once; each would make this one look.
        let mut is_to_pass_on = false;
        let mut may_pass_on = std::pin::pin!(tokio::time::sleep(Duration::ZERO));
        loop {
            tokio::select! {
                listening = &mut asked, if !is_listening => {
                    listening?;
                    is_listening = true;
                    *pause = Duration::from_millis(100);
                    is_to_pass_on = true;
                }
                () = &mut may_pass_on, if is_to_pass_on => {
                    self.heard.send_modify(|heard| *heard = heard.wrapping_add(1));
                    is_to_pass_on = false;
                    may_pass_on.as_mut().reset(tokio::time::Instant::now() + HINT_EVERY);
                }
                message = std::future::poll_fn(|cx| connection.poll_message(cx)) => match message {
                    Some(Ok(AsyncMessage::Notification(told))) => {
                        let from = told.payload();
                        is_to_pass_on |= from.split(' ').next() == Some(&self.schema) && from != self.name;
                    }
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return Err(error),
                    None => return Ok(()),
                },
            }
        }
    }
}
