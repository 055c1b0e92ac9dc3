//! Observation of requests with keys: events and their counts.

use std::sync::atomic::{AtomicU64, Ordering};

use hapax_engine::model::RequestScope;

/// Outcome of a request with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// It was new, and the service was called.
    Began,
    /// Its first attempt had crashed, and the service was called again.
    TakenOver,
    /// Its first attempt had crashed, and the request was refused for that reason.
    InDoubt,
    /// The stored answer was replayed.
    Replayed,
    /// The key belongs to a different request.
    Conflicted,
    /// It waited for an identical request, whatever the outcome.
    Waited,
    /// The first request with the key is still in progress.
    InProgress,
    /// Its answer has expired, and the key is not free yet.
    Expired,
    /// It came so late that its key may have been used and purged before.
    WindowPassed,
    /// Its answer was too large to store.
    NotKept,
    /// The answer of the service was stored.
    Stored,
    /// Nothing began, and the key was freed.
    Released,
    /// The service answered, and the answer could not be stored at once.
    Unsaved,
    /// The service failed: it panicked, returned an error, or broke off its answer.
    Failed,
    /// The store was unreachable, and nothing began.
    StoreAway,
}

impl Event {
    /// Every event.
    pub const ALL: [Event; 15] = [
        Event::Began,
        Event::TakenOver,
        Event::InDoubt,
        Event::Replayed,
        Event::Conflicted,
        Event::Waited,
        Event::InProgress,
        Event::Expired,
        Event::WindowPassed,
        Event::NotKept,
        Event::Stored,
        Event::Released,
        Event::Unsaved,
        Event::Failed,
        Event::StoreAway,
    ];

    /// The event's name in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Event::Began => "began",
            Event::TakenOver => "taken_over",
            Event::InDoubt => "in_doubt",
            Event::Replayed => "replayed",
            Event::Conflicted => "conflicted",
            Event::Waited => "waited",
            Event::InProgress => "in_progress",
            Event::Expired => "expired",
            Event::WindowPassed => "window_passed",
            Event::NotKept => "not_kept",
            Event::Stored => "stored",
            Event::Released => "released",
            Event::Unsaved => "unsaved",
            Event::Failed => "failed",
            Event::StoreAway => "store_away",
        }
    }
}

/// Receives every event, during the request. It must not block.
pub trait Observe: Send + Sync + 'static {
    /// Reports an event of a request in this scope.
    fn saw(&self, scope: &RequestScope, event: Event);
}

/// Number of events of each kind since the layer was created.
#[derive(Debug, Default)]
pub(crate) struct Counters([AtomicU64; Event::ALL.len()]);

impl Counters {
    pub(crate) fn count(&self, event: Event) {
        self.0[event as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> IdempotencyStats {
        let of = |event: Event| self.0[event as usize].load(Ordering::Relaxed);
        IdempotencyStats {
            new: of(Event::Began),
            takeovers: of(Event::TakenOver),
            doubts: of(Event::InDoubt),
            replays: of(Event::Replayed),
            conflicts: of(Event::Conflicted),
            waits: of(Event::Waited),
            in_progress: of(Event::InProgress),
            expired: of(Event::Expired),
            window_passed: of(Event::WindowPassed),
            not_kept: of(Event::NotKept),
            stored: of(Event::Stored),
            released: of(Event::Released),
            unsaved: of(Event::Unsaved),
            failed: of(Event::Failed),
            store_away: of(Event::StoreAway),
        }
    }
}

/// Number of [`Event`]s of each kind in this process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IdempotencyStats {
    /// [`Event::Began`].
    pub new: u64,
    /// [`Event::TakenOver`].
    pub takeovers: u64,
    /// [`Event::InDoubt`].
    pub doubts: u64,
    /// [`Event::Replayed`].
    pub replays: u64,
    /// [`Event::Conflicted`].
    pub conflicts: u64,
    /// [`Event::Waited`].
    pub waits: u64,
    /// [`Event::InProgress`].
    pub in_progress: u64,
    /// [`Event::Expired`].
    pub expired: u64,
    /// [`Event::WindowPassed`].
    pub window_passed: u64,
    /// [`Event::NotKept`].
    pub not_kept: u64,
    /// [`Event::Stored`].
    pub stored: u64,
    /// [`Event::Released`].
    pub released: u64,
    /// [`Event::Unsaved`].
    pub unsaved: u64,
    /// [`Event::Failed`].
    pub failed: u64,
    /// [`Event::StoreAway`].
    pub store_away: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_has_a_place_and_a_name_of_its_own() {
        let names: std::collections::BTreeSet<_> = Event::ALL.iter().map(|event| event.as_str()).collect();
        assert_eq!(names.len(), Event::ALL.len());
        for (place, event) in Event::ALL.into_iter().enumerate() {
            assert_eq!(event as usize, place);
        }
    }
}
