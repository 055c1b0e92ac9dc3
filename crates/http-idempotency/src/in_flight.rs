//! Requests in flight in this process, to wake duplicates as soon as one ends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use hapax_engine::model::{BeginRequest, IdempotencyKey, RequestScope, Timestamp};
use tokio::sync::watch;

use crate::limits::{MAX_WAITERS, MAX_WAITING_BYTES};

pub(crate) type RequestKey = (RequestScope, IdempotencyKey);

#[derive(Debug)]
pub(crate) struct InFlightRequests {
    here: Mutex<HashMap<RequestKey, InFlightEntry>>,
    count: watch::Sender<usize>,
    waiting: Mutex<Waiting>,
}

/// A request that the store does not know yet, and when it came.
type FreshRequest = (Arc<BeginRequest>, Timestamp);

/// State of a request in flight in this process.
#[derive(Debug, Clone)]
struct InFlightEntry {
    landed: watch::Receiver<()>,
    /// The request and when it came, if the store does not know it yet.
    fresh: Option<FreshRequest>,
}

/// A request in flight in this process. Dropping it wakes the waiters.
#[derive(Debug)]
pub(crate) struct InFlightRequest {
    flights: Arc<InFlightRequests>,
    place: RequestKey,
    // Dropped last, after the place can no longer be found.
    end: watch::Sender<()>,
}

/// Memory held by waiting requests.
#[derive(Debug, Default)]
struct Waiting {
    requests: usize,
    bytes: usize,
}

/// One request that waits for another, with its body.
#[derive(Debug)]
pub(crate) struct Waiter {
    flights: Arc<InFlightRequests>,
    bytes: usize,
}

impl InFlightRequests {
    pub(crate) fn new() -> Arc<Self> {
        let count = watch::Sender::new(0);
        Arc::new(InFlightRequests { here: Mutex::default(), count, waiting: Mutex::default() })
    }

    fn here(&self) -> MutexGuard<'_, HashMap<RequestKey, InFlightEntry>> {
        self.here.lock().expect("no holder panics")
    }

    pub(crate) fn take_off(self: &Arc<Self>, place: RequestKey) -> InFlightRequest {
        let (end, landed) = watch::channel(());
        self.count.send_modify(|count| *count += 1);
        self.here().insert(place.clone(), InFlightEntry { landed, fresh: None });
        InFlightRequest { flights: self.clone(), place, end }
    }

    /// Takes off with a request that the store does not know, unless this process has one in flight under `place`.
    pub(crate) fn take_off_fresh(
        self: &Arc<Self>,
        place: &RequestKey,
        request: FreshRequest,
    ) -> Option<InFlightRequest> {
        let mut here = self.here();
        if here.contains_key(place) {
            return None;
        }
        let (end, landed) = watch::channel(());
        here.insert(place.clone(), InFlightEntry { landed, fresh: Some(request) });
        drop(here);
        self.count.send_modify(|count| *count += 1);
        Some(InFlightRequest { flights: self.clone(), place: place.clone(), end })
    }

    /// The request in flight here under `place`, if the store does not know it yet.
    pub(crate) fn find_fresh(&self, place: &RequestKey) -> Option<FreshRequest> {
        self.here().get(place).and_then(|landing| landing.fresh.clone())
    }

    /// Completes when this process has finished the request under `place`; `None` if it works on none.
    pub(crate) fn find(&self, place: &RequestKey) -> Option<watch::Receiver<()>> {
        self.here().get(place).map(|landing| landing.landed.clone())
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("no holder panics")
    }

    /// Reserves memory for a waiting request with a body of `bytes`, or returns `None` if too much is reserved.
    pub(crate) fn find_seat(self: &Arc<Self>, bytes: usize) -> Option<Waiter> {
        let mut waiting = self.waiting();
        if waiting.requests >= MAX_WAITERS || waiting.bytes.saturating_add(bytes) > MAX_WAITING_BYTES {
            return None;
        }
        waiting.requests += 1;
        waiting.bytes += bytes;
        Some(Waiter { flights: self.clone(), bytes })
    }

    pub(crate) fn count(&self) -> usize {
        *self.count.borrow()
    }

    pub(crate) async fn until_none(&self) {
        // We own the sender, so the wait ends when the last request has ended.
        let _ = self.count.subscribe().wait_for(|count| *count == 0).await;
    }
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        let mut here = self.flights.here();
        // An identical request may have begun after this one lost its hold.
        if here.get(&self.place).is_some_and(|landing| landing.landed.same_channel(&self.end.subscribe())) {
            here.remove(&self.place);
        }
        drop(here);
        self.flights.count.send_modify(|count| *count -= 1);
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut waiting = self.flights.waiting();
        waiting.requests -= 1;
        waiting.bytes -= self.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::OneCaller;

    fn place() -> RequestKey {
        (OneCaller::everybody().0, IdempotencyKey::new("k").unwrap())
    }

    #[tokio::test]
    async fn the_end_of_a_flight_wakes_those_who_wait_and_leaves_a_later_one_alone() {
        let flights = InFlightRequests::new();
        let first = flights.take_off(place());
        let mut landed = flights.find(&place()).unwrap();
        let second = flights.take_off(place());
        drop(first);
        assert!(landed.changed().await.is_err());
        assert!(flights.find(&place()).is_some());
        assert_eq!(flights.count(), 1);
        drop(second);
        assert!(flights.find(&place()).is_none());
        flights.until_none().await;
    }

    #[test]
    fn only_so_many_may_wait_at_once() {
        let flights = InFlightRequests::new();
        let mut seats: Vec<_> = (0..MAX_WAITERS).map(|_| flights.find_seat(0).unwrap()).collect();
        assert!(flights.find_seat(0).is_none());
        seats.pop();
        assert!(flights.find_seat(0).is_some());
    }

    #[test]
    fn waiting_requests_hold_a_limited_number_of_bytes() {
        let flights = InFlightRequests::new();
        let most = flights.find_seat(MAX_WAITING_BYTES - 1).unwrap();
        assert!(flights.find_seat(2).is_none());
        assert!(flights.find_seat(1).is_some());
        drop(most);
        assert!(flights.find_seat(MAX_WAITING_BYTES).is_some());
        assert!(flights.find_seat(usize::MAX).is_none());
    }
}
