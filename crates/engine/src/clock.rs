//! Time as the engine and the stores see it, so that tests can drive it.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::watch;

use crate::model::Timestamp;

/// A future that ends when an instant has come.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A source of time.
pub trait Clock: Debug + Send + Sync + 'static {
    /// The wall clock.
    fn now(&self) -> Timestamp;

    /// Time since some fixed point. Never runs backwards, and counts the time the machine was suspended: leases end meanwhile.
    fn monotonic(&self) -> Duration;

    /// Waits until the wall clock has reached `at`.
    fn sleep_until(&self, at: Timestamp) -> Sleep;
}

/// The clock of the machine. Under tokio's paused test time it follows that time.
#[derive(Debug)]
pub struct SystemClock {
    base: Timestamp,
    started: tokio::time::Instant,
    paused: bool,
}

impl SystemClock {
    /// The machine's wall clock.
    pub fn new() -> Self {
        SystemClock { base: wall_clock(), started: tokio::time::Instant::now(), paused: false }
    }

    /// A clock that starts at `base` and follows tokio's time, for tests on paused time.
    pub fn following_tokio(base: Timestamp) -> Self {
        SystemClock { base, started: tokio::time::Instant::now(), paused: true }
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
            false => wall_clock(),
        }
    }

    fn monotonic(&self) -> Duration {
        match self.paused {
            true => self.started.elapsed(),
            false => since_boot(),
        }
    }

    fn sleep_until(&self, at: Timestamp) -> Sleep {
        // One more millisecond, because the wall clock is cut to whole ones: waking early would be a lap for nothing.
        let wait = at.since(self.now()) + Duration::from_millis(1);
        // A wall clock that jumps must not turn into a sleep of years.
        let wait = wait.min(Duration::from_secs(3600));
        Box::pin(tokio::time::sleep(wait))
    }
}

/// Time since the machine started, the time it was suspended included.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// Time since the first call. What this platform offers may not count the time the machine was suspended.
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
    /// Noon of a day like any other: 2026-01-01.
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
            // The sender lives as long as the clock; if it is gone nobody waits any more.
            let _ = now.wait_for(|now| *now >= at).await;
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_manual_clock_wakes_sleepers_when_moved() {
        let clock = ManualClock::default();
        let sleep = clock.sleep_until(clock.now().plus(Duration::from_secs(3600)));
        let woken = tokio::spawn(sleep);
        clock.advance(Duration::from_secs(3600));
        woken.await.unwrap();
    }
}
