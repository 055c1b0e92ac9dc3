//! A lease in Redis: optional mutual exclusion outside the database.
//!
//! Each driven run has one key. `SET key token NX PX ttl` takes it. Scripts that first compare the token renew and
//! release it, so no node can extend or release another node's lease.
//!
//! ```no_run
//! use std::sync::Arc;
//! use hapax_engine::EngineOptions;
//! use hapax_lease_redis::RedisLease;
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let lease = RedisLease::connect("redis://127.0.0.1/").await?;
//! let options = EngineOptions { lease: Some(Arc::new(lease)), ..EngineOptions::default() };
//! # Ok(()) }
//! ```
//!
//! # Limitations
//!
//! - **No fencing.** Redis cannot refuse a late write of a paused holder. The store can: it guards each write by
//!   version and fence, with or without this lease. Recorded data does not depend on Redis.
//! - **No protection if Redis loses data.** A restart without persistence, an eviction, or a failover to a replica that
//!   did not have the key yet admits a second holder. Replication in Redis is asynchronous; `WAIT` and several servers
//!   reduce the risk but do not remove it.
//! - **No better clock.** Redis measures the time to live with its own clock, and the node measures its time to stop
//!   with the node's clock. A node stops a tenth of the lease early. A process that is frozen in the middle of an effect
//!   cannot stop at all.
//! - **No exactly-once effects.** A crash between an effect and its record repeats the effect, under the same idempotency key.
//!
//! So the lease is a hint. It stops two nodes from beginning the same effect concurrently where the store alone would
//! notice only afterwards. In return Redis becomes a dependency: while it is unreachable, no run is driven.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use hapax_engine::lease::{Lease, LeaseError, LeaseToken};
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, RedisError};

/// Longest wait for a connection, and for an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// Longest pause before the next try to connect.
const RECONNECT_PAUSE: Duration = Duration::from_millis(500);
/// Number of connection attempts of one call.
const RECONNECTS: usize = 2;

/// Extends the lease by `ARGV[2]` milliseconds if the token matches.
const RENEW: &str = "\
if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0";

/// Releases the lease if the token matches.
const RELEASE: &str = "\
if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('DEL', KEYS[1])
end
return 0";

/// Reason why Redis could not be used. It never contains the password.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The URL cannot be parsed. The error does not repeat it, because it may contain a password.
    #[error(
        "the URL cannot be read: write it as redis://USER:PASSWORD@HOST:PORT/NUMBER or redis+unix:///PATH"
    )]
    BadUrl,
    /// The server does not answer, or does not answer like Redis.
    #[error("Redis cannot be used ({0}): check the address, the password, and that the server runs")]
    NoServer(String),
}

/// Leases as keys of a Redis server.
#[derive(Clone)]
pub struct RedisLease {
    connection: ConnectionManager,
    prefix: String,
}

impl RedisLease {
    /// Connects. Reconnects by itself if the connection breaks later.
    pub async fn connect(url: &str) -> Result<Self, ConnectError> {
        let client = Client::open(url).map_err(|_| ConnectError::BadUrl)?;
        let config = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(ANSWER_WITHIN))
            .set_response_timeout(Some(ANSWER_WITHIN))
            .set_number_of_retries(RECONNECTS)
            .set_max_delay(RECONNECT_PAUSE);
        let connection = ConnectionManager::new_with_config(client, config).await;
        let connection = connection.map_err(|error| ConnectError::NoServer(error.to_string()))?;
        Ok(RedisLease { connection, prefix: "hapax:lease:".into() })
    }

    /// Sets the key prefix, `hapax:lease:` by default. Engines on different databases need different prefixes only if
    /// their run ids can be equal, for example after a database was copied.
    #[must_use]
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.prefix = prefix.into();
        self
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    async fn renew_key(&self, key: &str, token: &LeaseToken, ttl: Duration) -> Result<bool, LeaseError> {
        let mut eval = redis::cmd("EVAL");
        eval.arg(RENEW).arg(1).arg(key).arg(token.as_str()).arg(millis(ttl));
        eval.query_async(&mut self.connection.clone()).await.map_err(failed)
    }
}

#[async_trait]
impl Lease for RedisLease {
    async fn acquire(&self, name: &str, token: &LeaseToken, ttl: Duration) -> Result<bool, LeaseError> {
        let key = self.key(name);
        let mut set = redis::cmd("SET");
        set.arg(&key).arg(token.as_str()).arg("NX").arg("PX").arg(millis(ttl));
        let taken: Option<String> = set.query_async(&mut self.connection.clone()).await.map_err(failed)?;
        match taken {
            Some(_) => Ok(true),
            // It may be our own lease, from a request whose answer was lost.
            None => self.renew_key(&key, token, ttl).await,
        }
    }

    async fn renew(&self, name: &str, token: &LeaseToken, ttl: Duration) -> Result<bool, LeaseError> {
        self.renew_key(&self.key(name), token, ttl).await
    }

    async fn release(&self, name: &str, token: &LeaseToken) -> Result<(), LeaseError> {
        let mut eval = redis::cmd("EVAL");
        eval.arg(RELEASE).arg(1).arg(self.key(name)).arg(token.as_str());
        let _was_ours: bool = eval.query_async(&mut self.connection.clone()).await.map_err(failed)?;
        Ok(())
    }
}

impl fmt::Debug for RedisLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisLease").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

/// Redis accepts whole milliseconds, at least one.
fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX).max(1)
}

fn failed(error: RedisError) -> LeaseError {
    LeaseError(error.to_string())
}
