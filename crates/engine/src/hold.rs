//! Holds: the right to send an effect while the lease or claim behind it lasts.
//!
//! A process can pause at any instruction: a stopped container, a suspended laptop, a long page fault. While
//! it is paused, its lease may expire and another process may take over without its knowledge. So the hold is
//! compared with the clock at the last moment before an effect leaves the process, using a clock that
//! includes suspension.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::sync::watch;

use crate::clock::{Clock, SystemClock};
use crate::model::{Failure, RunId, StepId};
use crate::runtime::{CrashPoint, CrashPointWatcher};

/// Failure code of an effect that was not sent because the sender no longer held the right.
pub const NO_LONGER_HELD: &str = "no_longer_held";

/// The right to send an effect. Cheap to clone. All clones share one right.
#[derive(Clone)]
pub struct Hold {
    right: Arc<SendRight>,
    watched: Option<Arc<CheckObserver>>,
}

/// Two holds are equal if they are clones of the same right.
impl PartialEq for Hold {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.right, &other.right)
    }
}

impl Eq for Hold {}

struct SendRight {
    clock: Arc<dyn Clock>,
    /// Deadline by [`Clock::monotonic`], in milliseconds. `u64::MAX` means never. Rights of one [`HoldSource`] share it.
    deadline_ms: Arc<AtomicU64>,
    /// Deadline of an additional external lease.
    outside_deadline_ms: AtomicU64,
    lost: watch::Sender<bool>,
}

/// Observer that is notified before each check.
struct CheckObserver {
    watcher: CrashPointWatcher,
    run: RunId,
    step: StepId,
}

impl Hold {
    /// A right that ends at `deadline` by [`Clock::monotonic`], unless it is extended.
    pub fn until(clock: Arc<dyn Clock>, deadline: Duration) -> Self {
        Hold::sharing(clock, Arc::new(AtomicU64::new(millis(deadline))))
    }

    fn sharing(clock: Arc<dyn Clock>, deadline_ms: Arc<AtomicU64>) -> Self {
        let right = SendRight {
            clock,
            deadline_ms,
            outside_deadline_ms: AtomicU64::new(u64::MAX),
            lost: watch::Sender::new(false),
        };
        Hold { right: Arc::new(right), watched: None }
    }

    /// A right that never ends, for requests without a lease or claim.
    pub fn unlimited() -> Self {
        static UNLIMITED: LazyLock<Hold> =
            LazyLock::new(|| Hold::until(Arc::new(SystemClock::new()), Duration::MAX));
        UNLIMITED.clone()
    }

    /// The same right, with an observer that is notified before each check.
    pub(crate) fn watched(&self, watcher: CrashPointWatcher, run: RunId, step: StepId) -> Self {
        Hold { right: self.right.clone(), watched: Some(Arc::new(CheckObserver { watcher, run, step })) }
    }

    /// Returns true if the right is still held. Call this right before the effect leaves the process, after
    /// the last await.
    pub fn is_held(&self) -> bool {
        if let Some(watched) = &self.watched {
            watched.watcher.reached(&CrashPoint::BeforeSend(watched.run, watched.step.clone()));
        }
        self.stands()
    }

    /// Fails if the right is no longer held. The failure says that nothing was sent.
    pub fn ensure_still_held(&self) -> Result<(), Failure> {
        match self.is_held() {
            true => Ok(()),
            false => Err(Failure::retryable(
                "this process no longer holds the right to this effect, so nothing was sent; the current holder continues",
            )
            .with_code(NO_LONGER_HELD)),
        }
    }

    /// Returns true if the right is lost for good. A right past its deadline may still be renewed; a lost one
    /// may not.
    pub fn is_lost(&self) -> bool {
        *self.right.lost.borrow()
    }

    /// Waits until the right is lost for good.
    pub async fn lost(&self) {
        // The sender lives as long as this clone.
        let _ = self.right.lost.subscribe().wait_for(|lost| *lost).await;
    }

    /// Like [`Hold::is_held`], without notifying the observer.
    pub(crate) fn stands(&self) -> bool {
        !self.is_lost() && self.right.clock.monotonic() < self.deadline()
    }

    /// When the right ends by [`Clock::monotonic`] of its engine, unless it is renewed: the earlier of the two deadlines.
    pub fn deadline(&self) -> Duration {
        let own = self.right.deadline_ms.load(Ordering::Acquire);
        Duration::from_millis(own.min(self.right.outside_deadline_ms.load(Ordering::Acquire)))
    }

    pub(crate) fn extend(&self, deadline: Duration) {
        self.right.deadline_ms.store(millis(deadline), Ordering::Release);
    }

    pub(crate) fn extend_outside(&self, deadline: Duration) {
        self.right.outside_deadline_ms.store(millis(deadline), Ordering::Release);
    }

    /// Ends the right for good. Only the party that granted it calls this.
    pub fn lose(&self) {
        self.right.lost.send_replace(true);
    }
}

/// Rights that end together and are renewed together, such as those of everything that one session with a server
/// covers. Each is lost for itself.
#[derive(Debug, Clone)]
pub struct HoldSource {
    clock: Arc<dyn Clock>,
    deadline_ms: Arc<AtomicU64>,
}

impl HoldSource {
    /// Rights that do not hold until they are extended.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        HoldSource { clock, deadline_ms: Arc::default() }
    }

    /// End of the rights.
    pub fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }

    /// A right of its own, which ends with the others.
    pub fn hold(&self) -> Hold {
        Hold::sharing(self.clock.clone(), self.deadline_ms.clone())
    }

    /// Extends the rights to `deadline`, if they do not last longer. Returns true if they had passed before.
    pub fn extend(&self, deadline: Duration) -> bool {
        let before = self.deadline_ms.fetch_max(millis(deadline), Ordering::AcqRel);
        before <= millis(self.clock.monotonic())
    }

    /// Ends the rights. They may be extended again.
    pub fn end(&self) {
        self.deadline_ms.store(0, Ordering::Release);
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold").field("deadline", &self.deadline()).field("lost", &self.is_lost()).finish()
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    fn held_for(span: Duration) -> (Arc<ManualClock>, Hold) {
        let clock = Arc::new(ManualClock::default());
        let hold = Hold::until(clock.clone(), clock.monotonic() + span);
        (clock, hold)
    }

    #[test]
    fn a_right_ends_at_its_deadline_and_comes_back_when_it_is_renewed() {
        let (clock, hold) = held_for(Duration::from_secs(10));
        assert!(hold.is_held());
        clock.advance(Duration::from_secs(10));
        assert!(!hold.is_held());
        assert_eq!(hold.ensure_still_held().unwrap_err().code(), Some(NO_LONGER_HELD));
        assert!(!hold.is_lost(), "a late renewal may still find it ours");
        hold.extend(clock.monotonic() + Duration::from_secs(1));
        assert!(hold.is_held());
    }

    #[test]
    fn the_earlier_of_two_deadlines_counts() {
        let (clock, hold) = held_for(Duration::from_secs(10));
        hold.extend_outside(clock.monotonic() + Duration::from_secs(1));
        clock.advance(Duration::from_secs(2));
        assert!(!hold.is_held());
    }

    #[tokio::test]
    async fn a_lost_right_is_never_held_again_and_wakes_those_who_wait() {
        let (clock, hold) = held_for(Duration::from_secs(10));
        let waiting = tokio::spawn({
            let hold = hold.clone();
            async move { hold.lost().await }
        });
        hold.lose();
        waiting.await.unwrap();
        hold.extend(clock.monotonic() + Duration::from_secs(60));
        assert!(!hold.is_held());
        hold.lost().await;
    }

    #[test]
    fn an_unlimited_right_is_held() {
        assert!(Hold::unlimited().is_held());
        assert_eq!(Hold::unlimited(), Hold::unlimited());
    }

    /// A pause between the observer and the check must be noticed. The observer is called where a pause is
    /// worst.
    #[test]
    fn a_pause_right_before_the_check_is_noticed() {
        let (clock, hold) = held_for(Duration::from_secs(10));
        let pausing = {
            let clock = clock.clone();
            CrashPointWatcher::new(move |_| clock.advance(Duration::from_secs(60)))
        };
        let step = StepId::from_stored("charge");
        assert!(!hold.watched(pausing, RunId::NONE, step).is_held());
    }
}
