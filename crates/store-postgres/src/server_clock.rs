//! The server's clock as this node knows it.
//!
//! One clock must judge the leases of many nodes, and no node's wall clock can be trusted. So the
//! store uses the server's clock: its offset to this node's monotonic clock is measured at the
//! start and again every few seconds, as half of a round trip around `clock_timestamp()`. The error
//! is at most half of the shortest of a few round trips, plus the drift between the two clocks
//! until the next reading (a millisecond in ten seconds for the worst quartz), plus the millisecond
//! that instants are truncated to. Safety does not depend on it: versions and fences provide that.
//! An error of a few milliseconds only makes a lease that much shorter or longer.
//!
//! If an operator sets the server's clock, keys must not end early and timers must not stall. A
//! node that sees a jump writes a correction into the database, and all nodes use the corrected
//! clock (decision 0015).

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use hapax_engine::clock::{Clock, Sleep, since_boot};
use hapax_engine::limits::{MAX_CLOCK_SLEEP, MAX_CLOCK_STEP};
use hapax_engine::model::Timestamp;
use tokio_postgres::{Client, Error};

use crate::limits::READ_CLOCK_EVERY;

/// Readings per measurement; the best one counts.
const READINGS: usize = 3;
/// How often a reading is repeated because another node corrected the clock during it.
const TRIES: usize = 5;
/// A node publishes its time from its third reading on. By then, older nodes have corrected any
/// jump that this one could not see.
const READINGS_BEFORE_SAYING: u64 = 3;

/// The server's clock, as this node knows it.
#[derive(Debug)]
pub struct ServerClock {
    /// By [`since_boot`], so that it includes time in which the machine was suspended.
    started: Duration,
    /// Milliseconds from the epoch to `started`, by the corrected server clock.
    started_at_ms: AtomicI64,
    readings: AtomicU64,
    jumps: AtomicU64,
}

/// One reading of the server's clock.
#[derive(Debug, Clone, Copy)]
struct ClockReading {
    /// Milliseconds from the epoch to the start of this node's clock, by the corrected server
    /// clock.
    offset: i64,
    /// The same, by the latest time that any node published.
    seen: Option<i64>,
    /// Number of corrections.
    number: i64,
}

/// Conclusion from a reading.
#[derive(Debug, PartialEq, Eq)]
enum ClockDecision {
    /// The clock is right.
    Follow,
    /// The clock has jumped: add this many milliseconds from now on.
    Correct(i64),
}

/// Judges a reading by this node's expectation and by the time that other nodes published a moment
/// ago.
fn judge(expected: Option<i64>, reading: ClockReading) -> ClockDecision {
    let ClockReading { offset, seen, .. } = reading;
    let step = millis(MAX_CLOCK_STEP);
    let Some(expected) = expected else {
        // Time has passed without a node, or the clock was set forward: they look the same. Time
        // never goes back.
        return match seen {
            Some(seen) if offset < seen - step => ClockDecision::Correct(seen - offset),
            _ => ClockDecision::Follow,
        };
    };
    if (offset - expected).abs() <= step {
        return ClockDecision::Follow;
    }
    // Other nodes use this very time, so this node stood still, or it started while the clock was
    // wrong.
    if seen.is_some_and(|seen| (offset - seen).abs() <= step + 2 * millis(READ_CLOCK_EVERY)) {
        return ClockDecision::Follow;
    }
    ClockDecision::Correct(seen.map_or(expected, |seen| expected.max(seen)) - offset)
}

fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

impl ServerClock {
    /// Reads the server's clock for the first time.
    pub(crate) async fn read_first(client: &Client) -> Result<Arc<Self>, Error> {
        let clock = Arc::new(ServerClock {
            started: since_boot(),
            started_at_ms: AtomicI64::new(0),
            readings: AtomicU64::new(0),
            jumps: AtomicU64::new(0),
        });
        clock.read(client).await?;
        Ok(clock)
    }

    fn elapsed(&self) -> Duration {
        since_boot().saturating_sub(self.started)
    }

    /// Reads the server's clock again, and corrects it if it has jumped.
    pub(crate) async fn read(&self, client: &Client) -> Result<(), Error> {
        for _ in 0..TRIES {
            let reading = self.look(client).await?;
            let is_first = self.readings.load(Ordering::Relaxed) == 0;
            let expected = (!is_first).then(|| self.started_at_ms.load(Ordering::Relaxed));
            let ClockDecision::Correct(by) = judge(expected, reading) else {
                self.started_at_ms.store(reading.offset, Ordering::Relaxed);
                let readings = self.readings.fetch_add(1, Ordering::Relaxed) + 1;
                if readings >= READINGS_BEFORE_SAYING {
                    self.say(client, reading).await?;
                }
                return Ok(());
            };
            let corrected =
                client.execute(include_str!("../sql/correct_clock.sql"), &[&by, &reading.number]).await?;
            if corrected == 1 {
                self.jumps.fetch_add(1, Ordering::Relaxed);
                tracing::error!(
                    jumped_ms = -by,
                    "the clock of the database server has jumped; all nodes continue from the time before"
                );
            }
        }
        // Other nodes keep correcting it: the last right reading stays in use.
        Ok(())
    }

    async fn look(&self, client: &Client) -> Result<ClockReading, Error> {
        let mut best: Option<(Duration, ClockReading)> = None;
        for _ in 0..READINGS {
            let asked = self.elapsed();
            let row = client.query_one(include_str!("../sql/read_clock.sql"), &[]).await?;
            let round_trip = self.elapsed() - asked;
            let middle = millis(asked + round_trip / 2);
            let (server, number, seen): (i64, i64, Option<i64>) = (row.get(0), row.get(1), row.get(2));
            let reading =
                ClockReading { offset: server - middle, seen: seen.map(|seen| seen - middle), number };
            // Readings before and after a correction cannot be compared.
            let is_better = |(shortest, known): (Duration, ClockReading)| {
                known.number != reading.number || round_trip < shortest
            };
            if best.is_none_or(is_better) {
                best = Some((round_trip, reading));
            }
        }
        Ok(best.expect("there was one reading at least").1)
    }

    /// Publishes this node's time, unless another node has just published.
    async fn say(&self, client: &Client, reading: ClockReading) -> Result<(), Error> {
        let now = self.now().as_millis();
        let is_fresh = |seen: i64| reading.offset - seen < millis(READ_CLOCK_EVERY) / 2;
        if !reading.seen.is_some_and(is_fresh) {
            client.execute(include_str!("../sql/note_clock.sql"), &[&now, &reading.number]).await?;
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
        // One more millisecond, because instants are truncated to whole ones. Longer waits check
        // again.
        let wait = at.since(self.now()) + Duration::from_millis(1);
        Box::pin(tokio::time::sleep(wait.min(MAX_CLOCK_SLEEP)))
    }

    fn jumps(&self) -> u64 {
        self.jumps.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400_000;
    const NOON: i64 = 1_000 * DAY;

    fn reading(offset: i64, seen: Option<i64>) -> ClockReading {
        ClockReading { offset, seen, number: 0 }
    }

    #[test]
    fn a_jump_is_corrected_by_whoever_sees_it_first() {
        for jump in [25 * 3_600_000, -25 * 3_600_000] {
            let seen = Some(NOON - 10_000);
            assert_eq!(judge(Some(NOON), reading(NOON + jump, seen)), ClockDecision::Correct(-jump));
            assert_eq!(judge(Some(NOON), reading(NOON + jump, None)), ClockDecision::Correct(-jump));
        }
        assert_eq!(
            judge(Some(NOON), reading(NOON + 9_000, Some(NOON))),
            ClockDecision::Follow,
            "a small step"
        );
    }

    /// A virtual machine that stood still for a day must not set back the time of the others.
    #[test]
    fn a_node_that_stood_still_follows_the_others() {
        let others = Some(NOON + DAY - 12_000);
        assert_eq!(judge(Some(NOON), reading(NOON + DAY, others)), ClockDecision::Follow);
    }

    /// A node that started between a jump and its correction once used the wrong time.
    #[test]
    fn a_node_that_came_after_the_jump_follows_the_correction() {
        assert_eq!(judge(Some(NOON + DAY), reading(NOON, Some(NOON - 5_000))), ClockDecision::Follow);
    }

    #[test]
    fn the_first_node_after_a_pause_takes_the_time_as_it_is_but_never_goes_back() {
        assert_eq!(judge(None, reading(NOON, None)), ClockDecision::Follow);
        assert_eq!(judge(None, reading(NOON + DAY, Some(NOON))), ClockDecision::Follow);
        assert_eq!(judge(None, reading(NOON - DAY, Some(NOON))), ClockDecision::Correct(DAY));
    }
}
