//! The shop's providers, as the workflow calls them.

use std::net::SocketAddr;

use hapax::{Attempt, Failure, Result};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::messages::{Call, Effect, ProviderAnswer};
use super::order::Order;

/// Where the providers are.
#[derive(Debug, Clone)]
pub(super) struct Providers {
    pub(super) address: SocketAddr,
}

impl Providers {
    pub(super) async fn reserve(&self, order: &Order, attempt: Attempt) -> Result<String> {
        self.call(Effect::Reserve, order, attempt).await
    }

    pub(super) async fn charge(&self, order: &Order, attempt: Attempt) -> Result<String> {
        self.call(Effect::Charge, order, attempt).await
    }

    pub(super) async fn ship(&self, order: &Order, attempt: Attempt) -> Result<String> {
        self.call(Effect::Ship, order, attempt).await
    }

    pub(super) async fn mail(&self, order: &Order, attempt: Attempt) -> Result<String> {
        self.call(Effect::Mail, order, attempt).await
    }

    /// The key of the attempt goes along, so that the provider does it once however often it is asked.
    async fn call(&self, effect: Effect, order: &Order, attempt: Attempt) -> Result<String> {
        let key = attempt.idempotency_key().to_string();
        let call = Call { effect, order: order.number, cents: order.cents, key };
        let mut line = serde_json::to_vec(&call)?;
        line.push(b'\n');
        let mut stream = TcpStream::connect(self.address).await?;
        stream.write_all(&line).await?;
        let mut answer = String::new();
        if BufReader::new(stream).read_line(&mut answer).await? == 0 {
            return Err(Failure::unknown("the provider hung up"));
        }
        let done: ProviderAnswer = serde_json::from_str(&answer)?;
        Ok(done.reference)
    }
}
