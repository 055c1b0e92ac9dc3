//! The outside world: providers that outlive every crash, honour idempotency keys, and count.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use super::messages::{Call, Effect, ProviderAnswer};

/// Delay of an answer. The effect happens before it, so a crash in between leaves it unrecorded.
const ANSWER_AFTER_MS: std::ops::Range<u64> = 40..160;

/// Every provider, and what it has done.
#[derive(Debug)]
pub(super) struct World {
    address: SocketAddr,
    ledger: Mutex<Ledger>,
    called: Notify,
}

#[derive(Debug, Default)]
struct Ledger {
    calls: HashMap<Effect, u64>,
    /// Effects by key.
    done: HashMap<(Effect, String), String>,
    /// How often something was done for each order.
    per_order: HashMap<(Effect, u32), u64>,
}

/// Counts of the providers.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) charges: u64,
    pub(super) charge_calls: u64,
    pub(super) effects: u64,
    pub(super) effect_calls: u64,
    /// Effects beyond the first of their kind for an order.
    pub(super) duplicates: u64,
    /// Orders with a missing effect.
    pub(super) lost: u64,
}

impl World {
    /// Opens all providers on one loopback address.
    pub(super) async fn open() -> Result<Arc<World>> {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.context("the fake providers could not listen on 127.0.0.1")?;
        let address = listener.local_addr()?;
        let world = Arc::new(World { address, ledger: Mutex::default(), called: Notify::new() });
        tokio::spawn(serve(listener, world.clone()));
        Ok(world)
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for the next effect whose answer is still under way.
    pub(super) async fn next_call(&self) {
        self.called.notified().await;
    }

    pub(super) fn count(&self, orders: u32) -> Counts {
        self.ledger().count(orders)
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().expect("no holder panics")
    }
}

impl Ledger {
    /// Does what was asked, unless it was done under this key before.
    fn carry_out(&mut self, call: Call) -> String {
        *self.calls.entry(call.effect).or_default() += 1;
        let number = self.done.len() + 1;
        let done = self.done.entry((call.effect, call.key)).or_insert_with(|| {
            *self.per_order.entry((call.effect, call.order)).or_default() += 1;
            format!("{:?}-{number}", call.effect).to_lowercase()
        });
        done.clone()
    }

    fn count(&self, orders: u32) -> Counts {
        let did = |effect| self.done.keys().filter(|(kind, _)| *kind == effect).count() as u64;
        let has_all = |order| Effect::ALL.iter().all(|effect| self.per_order.contains_key(&(*effect, order)));
        Counts {
            charges: did(Effect::Charge),
            charge_calls: self.calls.get(&Effect::Charge).copied().unwrap_or(0),
            effects: self.done.len() as u64,
            effect_calls: self.calls.values().sum(),
            duplicates: self.per_order.values().map(|times| times - 1).sum(),
            lost: (1..=orders).filter(|order| !has_all(*order)).count() as u64,
        }
    }
}

async fn serve(listener: TcpListener, world: Arc<World>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let world = world.clone();
                // A caller that died in the middle of its call is what this is about.
                tokio::spawn(async move { answer(stream, &world).await });
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

async fn answer(mut stream: TcpStream, world: &World) -> Result<()> {
    let mut line = String::new();
    BufReader::new(&mut stream).read_line(&mut line).await?;
    let reference = world.ledger().carry_out(serde_json::from_str(&line)?);
    world.called.notify_waiters();
    tokio::time::sleep(Duration::from_millis(fastrand::u64(ANSWER_AFTER_MS))).await;
    let mut answer = serde_json::to_vec(&ProviderAnswer { reference })?;
    answer.push(b'\n');
    Ok(stream.write_all(&answer).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(effect: Effect, order: u32, key: &str) -> Call {
        Call { effect, order, cents: 1, key: key.into() }
    }

    #[test]
    fn a_provider_does_once_what_comes_twice_under_one_key() {
        let mut ledger = Ledger::default();
        let first = ledger.carry_out(call(Effect::Charge, 1, "a:charge"));
        assert_eq!(ledger.carry_out(call(Effect::Charge, 1, "a:charge")), first);
        let counts = ledger.count(1);
        assert_eq!((counts.charges, counts.charge_calls, counts.duplicates), (1, 2, 0));
    }

    #[test]
    fn a_second_key_for_one_order_is_seen_as_a_duplicate_and_a_missing_effect_as_lost() {
        let mut ledger = Ledger::default();
        for effect in Effect::ALL {
            ledger.carry_out(call(effect, 1, "a"));
        }
        ledger.carry_out(call(Effect::Charge, 1, "b"));
        ledger.carry_out(call(Effect::Charge, 2, "c"));
        let counts = ledger.count(3);
        assert_eq!((counts.duplicates, counts.lost), (1, 2));
    }
}
