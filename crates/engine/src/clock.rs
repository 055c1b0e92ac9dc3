//! Clocks of the engine and the stores. Tests can drive them.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;

use crate::limits::{MAX_CLOCK_SLEEP, MAX_CLOCK_STEP};
use crate::model::Timestamp;

/// A future that completes at an instant.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A source of time.
pub trait Clock: Debug + Send + Sync + 'static {
    /// Wall-clock time.
    fn now(&self) -> Timestamp;

    /// Time since some fixed point. It never runs backwards and includes time when the machine was suspended,
    /// because leases expire during that time too.
    fn monotonic(&self) -> Duration;

    /// Waits until the wall clock has reached `at`.
    fn sleep_until(&self, at: Timestamp) -> Sleep;

    /// Waits for `span`, whatever happens to the wall clock.
    fn sleep(&self, span: Duration) -> Sleep {
        self.sleep_until(self.now().plus(span))
    }

    /// Number of wall-clock jumps seen.
    fn jumps(&self) -> u64 {
        0
    }
}

/// The system clock. Under tokio's paused test time it follows that time.
///
/// It follows the wall clock in small steps only. If the wall clock jumps, this clock continues with the time
/// since boot. So a jump makes nothing expire early, revives nothing that has expired, and stops no timer. A
/// restart adopts the wall clock.
#[derive(Debug, Clone)]
pub struct SystemClock {
    base: Timestamp,
    started: tokio::time::Instant,
    paused: bool,
    steady: Arc<SteadyWallClock>,
}

impl SystemClock {
    /// The wall clock of the machine.
    pub fn new() -> Self {
        let steady = Arc::new(SteadyWallClock::new(wall_clock(), since_boot()));
        SystemClock { base: wall_clock(), started: tokio::time::Instant::now(), paused: false, steady }
    }

    /// A clock that starts at `base` and follows tokio's time, for tests with paused time.
    pub fn following_tokio(base: Timestamp) -> Self {
        let steady = Arc::new(SteadyWallClock::new(base, Duration::ZERO));
        SystemClock { base, started: tokio::time::Instant::now(), paused: true, steady }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        match self.paused {
            true => self.base.plus(self.started.elapsed()),
            false => self.steady.now(wall_clock(), since_boot()),
        }
    }

    fn monotonic(&self) -> Duration {
        match self.paused {
            true => self.started.elapsed(),
            false => since_boot(),
        }
    }

    fn sleep_until(&self, at: Timestamp) -> Sleep {
        let clock = self.clone();
        Box::pin(async move {
            loop {
                // One extra millisecond, because the wall clock is truncated to milliseconds. Waking early
                // would cost another loop.
                let wait = at.since(clock.now()) + Duration::from_millis(1);
                tokio::time::sleep(wait.min(MAX_CLOCK_SLEEP)).await;
                if clock.now() >= at {
                    return;
                }
            }
        })
    }

    fn sleep(&self, span: Duration) -> Sleep {
        // One extra millisecond for callers that wait for an instant, as above.
        Box::pin(tokio::time::sleep(span.saturating_add(Duration::from_millis(1))))
    }

    fn jumps(&self) -> u64 {
        self.steady.jumps.load(Ordering::Relaxed)
    }
}

/// A wall clock without jumps.
#[derive(Debug)]
struct SteadyWallClock {
    /// Milliseconds from the epoch to boot, as currently used.
    offset_ms: AtomicI64,
    /// The same, as last observed.
    seen_ms: AtomicI64,
    jumps: AtomicU64,
}

impl SteadyWallClock {
    fn new(wall: Timestamp, since_boot: Duration) -> Self {
        let offset = offset_of(wall, since_boot);
        SteadyWallClock {
            offset_ms: AtomicI64::new(offset),
            seen_ms: AtomicI64::new(offset),
            jumps: AtomicU64::new(0),
        }
    }

    fn now(&self, wall: Timestamp, since_boot: Duration) -> Timestamp {
        let (offset, known) = (offset_of(wall, since_boot), self.offset_ms.load(Ordering::Relaxed));
        let seen = self.seen_ms.swap(offset, Ordering::Relaxed);
        if is_small_step(known, offset) {
            self.offset_ms.store(offset, Ordering::Relaxed);
            return wall;
        }
        let steady = Timestamp::from_millis(known).plus(since_boot);
        if !is_small_step(seen, offset) {
            self.jumps.fetch_add(1, Ordering::Relaxed);
            tracing::error!(
                %wall, %steady,
                "the wall clock of this machine has jumped; the time is counted on from before. Set the clock right, or restart to adopt it"
            );
        }
        steady
    }
}

/// Milliseconds from the epoch to boot.
fn offset_of(wall: Timestamp, since_boot: Duration) -> i64 {
    wall.as_millis().saturating_sub(i64::try_from(since_boot.as_millis()).unwrap_or(i64::MAX))
}

pub(crate) fn is_small_step(from_ms: i64, to_ms: i64) -> bool {
    u128::from(from_ms.abs_diff(to_ms)) <= MAX_CLOCK_STEP.as_millis()
}

/// Time since boot, including suspension.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// Time since the first call. On this platform it may not include suspension.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub fn since_boot() -> Duration {
    static FIRST: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    FIRST.elapsed()
}

fn wall_clock() -> Timestamp {
    Timestamp::from_millis(jiff::Timestamp::now().as_millisecond())
}

/// A clock that stands still until a test moves it.
#[derive(Debug)]
pub struct ManualClock {
    now: watch::Sender<Timestamp>,
    moves: Mutex<()>,
}

impl ManualClock {
    /// A clock that shows `at`.
    pub fn new(at: Timestamp) -> Self {
        ManualClock { now: watch::Sender::new(at), moves: Mutex::new(()) }
    }

    /// Moves the clock forward.
    pub fn advance(&self, span: Duration) {
        let _one_at_a_time = self.moves.lock().expect("no mover panics");
        let next = self.now.borrow().plus(span);
        self.now.send_replace(next);
    }
}

impl Default for ManualClock {
    /// 2026-01-01, noon.
    fn default() -> Self {
        ManualClock::new(Timestamp::from_millis(1_767_268_800_000))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.now.borrow()
    }

    fn monotonic(&self) -> Duration {
        self.now().since(Timestamp::EPOCH)
    }

    fn sleep_until(&self, at: Timestamp) -> Sleep {
        let mut now = self.now.subscribe();
        Box::pin(async move {
            // The sender lives as long as the clock. If it is gone, nothing waits any more.
            let _ = now.wait_for(|now| *now >= at).await;
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const NOON: Timestamp = Timestamp::from_millis(1_767_268_800_000);

    #[tokio::test(start_paused = true)]
    async fn a_timer_of_more_than_an_hour_does_not_end_after_one() {
        let clock = SystemClock::following_tokio(NOON);
        clock.sleep_until(NOON.plus(HOUR * 5)).await;
        assert!(clock.now() >= NOON.plus(HOUR * 5), "{}", clock.now());
        clock.sleep(HOUR * 5).await;
        assert!(clock.now() >= NOON.plus(HOUR * 10), "{}", clock.now());
    }

    #[test]
    fn a_wall_clock_that_jumps_is_counted_and_not_followed() {
        let steady = SteadyWallClock::new(NOON, Duration::ZERO);
        let second = Duration::from_secs(1);
        let after_step = NOON.plus(second * 4);
        assert_eq!(steady.now(after_step, second), after_step, "a step of three seconds is followed");
        let jumped = NOON.plus(HOUR * 25);
        for n in 2..5 {
            let expected = after_step.plus(second * (n - 1));
            assert_eq!(steady.now(jumped.plus(second * n), second * n), expected);
        }
        assert_eq!(steady.jumps.load(Ordering::Relaxed), 1, "one jump is told once");
        let back = NOON.minus(HOUR);
        assert_eq!(steady.now(back.plus(second * 5), second * 5), after_step.plus(second * 4));
        assert_eq!(steady.jumps.load(Ordering::Relaxed), 2);
        let right_again = after_step.plus(second * 5);
        assert_eq!(steady.now(right_again, second * 6), right_again, "a clock that is set right is followed");
    }

    #[tokio::test]
    async fn a_manual_clock_wakes_sleepers_when_moved() {
        let clock = ManualClock::default();
        let sleep = clock.sleep_until(clock.now().plus(Duration::from_secs(3600)));
        let woken = tokio::spawn(sleep);
        clock.advance(Duration::from_secs(3600));
        woken.await.unwrap();
    }
}
