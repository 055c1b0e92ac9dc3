//! The server's clock as this node knows it.
//!
//! Leases of many nodes must be judged by one clock, and no node's wall clock is to be trusted. So the store's clock is the
//! server's: its offset to this node's monotonic clock is measured at the start and again every few seconds, as half of a round
//! trip around `clock_timestamp()`. The error is at most half of the shortest of a few round trips, plus what the two clocks
//! drift apart until the next reading (a millisecond in ten seconds for the worst quartz), plus the millisecond that instants are
//! cut to. Nothing depends on it for safety: that is what versions and fences are for. An error of a few milliseconds only makes a
//! lease that much shorter or longer.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use hapax_engine::clock::{Clock, Sleep, since_boot};
use hapax_engine::limits::LONGEST_NAP;
use hapax_engine::model::Timestamp;
use tokio_postgres::Client;

/// The best of this many readings counts.
const READINGS: usize = 3;

/// The server's clock, as this node knows it.
#[derive(Debug)]
pub struct ServerClock {
    /// By [`since_boot`], so that the time this machine was suspended counts.
    started: Duration,
    /// Milliseconds from the epoch to `started`, by the server's clock.
    started_at_ms: AtomicI64,
}

impl ServerClock {
    /// Reads the server's clock for the first time.
    pub(crate) async fn read_first(client: &Client) -> Result<Arc<Self>, tokio_postgres::Error> {
        let clock = Arc::new(ServerClock { started: since_boot(), started_at_ms: AtomicI64::new(0) });
        clock.read(client).await?;
        Ok(clock)
    }

    fn elapsed(&self) -> Duration {
        since_boot().saturating_sub(self.started)
    }

    /// Reads the server's clock again.
    pub(crate) async fn read(&self, client: &Client) -> Result<(), tokio_postgres::Error> {
        let mut best: Option<(Duration, i64)> = None;
        for _ in 0..READINGS {
            let asked = self.elapsed();
            let server_ms: i64 = client.query_one(include_str!("../sql/read_clock.sql"), &[]).await?.get(0);
            let round_trip = self.elapsed() - asked;
            let middle = asked + round_trip / 2;
            let offset = server_ms - i64::try_from(middle.as_millis()).unwrap_or(i64::MAX);
            if best.is_none_or(|(shortest, _)| round_trip < shortest) {
                best = Some((round_trip, offset));
            }
        }
        if let Some((_, offset)) = best {
            self.started_at_ms.store(offset, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl Clock for ServerClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.started_at_ms.load(Ordering::Relaxed)).plus(self.elapsed())
    }

    fn monotonic(&self) -> Duration {
        self.elapsed()
    }

    fn sleep_until(&self, at: Timestamp) -> Sleep {
        // One more millisecond, because instants are cut to whole ones. Those who wait for longer than a nap look again.
        let wait = at.since(self.now()) + Duration::from_millis(1);
        Box::pin(tokio::time::sleep(wait.min(LONGEST_NAP)))
    }
}
