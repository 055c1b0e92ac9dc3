//! Rate limits: failed authentications by address and by key id, requests by credential.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hapax_api::{Code, Problem};

use crate::answer::Refused;
use crate::connection_limit::address_group;
use crate::limits;

/// Token bucket: `burst` at once, and one more after each `refill`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// Size of a burst.
    pub burst: u32,
    /// Time until one more.
    pub refill: Duration,
}

/// Remaining tokens per key; an unknown key has all of them. Holds at most
/// [`limits::MAX_RATE_LIMIT_ENTRIES`].
#[derive(Debug)]
struct Buckets<K> {
    allowance: Allowance,
    max_entries: usize,
    by_key: HashMap<K, Bucket>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    tokens: f64,
    seen_at: Instant,
}

impl<K: Hash + Eq + Clone> Buckets<K> {
    fn new(allowance: Allowance, max_entries: usize) -> Self {
        Buckets { allowance, max_entries, by_key: HashMap::new() }
    }

    fn full(&self) -> f64 {
        f64::from(self.allowance.burst)
    }

    fn tokens_at(&self, bucket: Bucket, now: Instant) -> f64 {
        let refill = self.allowance.refill.as_secs_f64().max(f64::MIN_POSITIVE);
        let gained = now.saturating_duration_since(bucket.seen_at).as_secs_f64() / refill;
        (bucket.tokens + gained).min(self.full())
    }

    /// Wait for the next token; `None` if there is one now.
    fn wait_for(&self, key: &K, now: Instant) -> Option<Duration> {
        let tokens = self.by_key.get(key).map_or(self.full(), |bucket| self.tokens_at(*bucket, now));
        (tokens < 1.0).then(|| self.allowance.refill.mul_f64(1.0 - tokens))
    }

    /// Takes a token, if there is one.
    fn take(&mut self, key: &K, now: Instant) {
        let tokens = self.by_key.get(key).map_or(self.full(), |bucket| self.tokens_at(*bucket, now));
        if !self.by_key.contains_key(key) && self.by_key.len() >= self.max_entries {
            self.forget(now);
        }
        self.by_key.insert(key.clone(), Bucket { tokens: (tokens - 1.0).max(0.0), seen_at: now });
    }

    /// Makes room: first drops full buckets, which equal unknown ones; else the eighth that was
    /// unused for the longest time.
    fn forget(&mut self, now: Instant) {
        let (allowance, full) = (self.allowance, self.full());
        let refilled = Buckets::<K> { allowance, max_entries: 0, by_key: HashMap::new() };
        self.by_key.retain(|_, bucket| refilled.tokens_at(*bucket, now) < full);
        if self.by_key.len() < self.max_entries {
            return;
        }
        let mut seen: Vec<Instant> = self.by_key.values().map(|bucket| bucket.seen_at).collect();
        let at = seen.len() / 8;
        let (_, oldest_kept, _) = seen.select_nth_unstable(at);
        let oldest_kept = *oldest_kept;
        self.by_key.retain(|_, bucket| bucket.seen_at > oldest_kept);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn refuse(what: &str, wait: Duration) -> Refused {
    let seconds = wait.as_secs_f64().ceil().max(1.0) as u64;
    let detail = format!("{what} Wait {seconds} s, then send the request again under the same key.");
    Problem::new(Code::RateLimited, detail).retry_after(seconds).into()
}

/// Counts failed authentications. It is consulted only after a key or token turned out to be wrong,
/// never for a valid one: many callers share an address, and the failures of some must not block
/// the others.
#[derive(Debug)]
pub struct FailedAuth {
    by_address: Mutex<Buckets<IpAddr>>,
    by_key: Mutex<Buckets<String>>,
}

impl Default for FailedAuth {
    fn default() -> Self {
        let refill = limits::FAILED_AUTH_REFILL;
        FailedAuth::new(
            Allowance { burst: limits::FAILED_AUTH_BURST_PER_ADDRESS, refill },
            Allowance { burst: limits::FAILED_AUTH_BURST_PER_KEY, refill },
        )
    }
}

impl FailedAuth {
    /// Creates limits with these allowances.
    pub fn new(per_address: Allowance, per_key: Allowance) -> Self {
        FailedAuth {
            by_address: Mutex::new(Buckets::new(per_address, limits::MAX_RATE_LIMIT_ENTRIES)),
            by_key: Mutex::new(Buckets::new(per_key, limits::MAX_RATE_LIMIT_ENTRIES)),
        }
    }

    /// Rejects a caller with too many recent failures. `key_id` is the id in the key, if the key is
    /// well-formed.
    pub fn check(&self, address: IpAddr, key_id: Option<&str>, now: Instant) -> Result<(), Refused> {
        let by_address = locked(&self.by_address).wait_for(&address_group(address), now);
        let by_key = key_id.and_then(|id| locked(&self.by_key).wait_for(&id.to_owned(), now));
        match by_address.max(by_key) {
            Some(wait) => Err(refuse("Too many requests with a wrong key or token.", wait)),
            None => Ok(()),
        }
    }

    /// Counts a failure. After too many, the caller must wait, and does not learn what is wrong.
    pub fn count(&self, address: IpAddr, key_id: Option<&str>, now: Instant) -> Result<(), Refused> {
        self.check(address, key_id, now)?;
        self.record_failure(address, key_id, now);
        Ok(())
    }

    /// Counts a failure.
    pub fn record_failure(&self, address: IpAddr, key_id: Option<&str>, now: Instant) {
        locked(&self.by_address).take(&address_group(address), now);
        if let Some(id) = key_id {
            locked(&self.by_key).take(&id.to_owned(), now);
        }
    }
}

/// Counts requests by credential; without an allowance it allows everything.
#[derive(Debug)]
pub struct RequestRate(Option<Mutex<Buckets<String>>>);

impl RequestRate {
    /// Limits each credential to this many requests a second, with a burst of the same size; `None`
    /// is no limit.
    pub fn per_second(requests: Option<NonZeroU32>) -> Self {
        RequestRate(requests.map(|requests| {
            let allowance =
                Allowance { burst: requests.get(), refill: Duration::from_secs(1) / requests.get() };
            Mutex::new(Buckets::new(allowance, limits::MAX_RATE_LIMIT_ENTRIES))
        }))
    }

    /// Counts one request, or rejects it.
    pub fn take(&self, credential: &str, now: Instant) -> Result<(), Refused> {
        let Some(buckets) = &self.0 else { return Ok(()) };
        let mut buckets = locked(buckets);
        let key = credential.to_owned();
        match buckets.wait_for(&key, now) {
            Some(wait) => Err(refuse("This credential has sent too many requests.", wait)),
            None => {
                buckets.take(&key, now);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: Allowance = Allowance { burst: 2, refill: Duration::from_secs(6) };
    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    #[test]
    fn a_caller_with_too_many_failures_must_wait_and_learns_how_long() {
        let failed = FailedAuth::new(TWO, TWO);
        let now = Instant::now();
        for _ in 0..2 {
            failed.check(HERE, None, now).unwrap();
            failed.record_failure(HERE, None, now);
        }
        let refused = failed.check(HERE, None, now).unwrap_err();
        assert_eq!(refused.problem().retry_after, Some(Duration::from_secs(6).into()));
        assert_eq!(refused.problem().status, 429);
        assert!(failed.check(THERE, None, now).is_ok(), "another address is another matter");
        assert!(failed.check(HERE, None, now + Duration::from_secs(5)).is_err());
        assert!(failed.check(HERE, None, now + Duration::from_secs(6)).is_ok());
    }

    #[test]
    fn one_key_id_guessed_at_from_many_addresses_is_guarded_too() {
        let failed = FailedAuth::new(TWO, TWO);
        let now = Instant::now();
        failed.record_failure(HERE, Some("id"), now);
        failed.record_failure(THERE, Some("id"), now);
        assert!(failed.check("192.0.2.3".parse().unwrap(), Some("id"), now).is_err());
        assert!(failed.check(HERE, Some("other"), now).is_ok());
    }

    #[test]
    fn a_credential_without_an_allowance_is_never_refused() {
        let now = Instant::now();
        let open = RequestRate::per_second(None);
        assert!((0..10_000).all(|_| open.take("c", now).is_ok()));
        let narrow = RequestRate::per_second(NonZeroU32::new(2));
        assert!(narrow.take("c", now).is_ok() && narrow.take("c", now).is_ok());
        let refused = narrow.take("c", now).unwrap_err();
        assert_eq!(
            (refused.problem().status, refused.problem().retry_after),
            (429, Some(Duration::from_secs(1).into()))
        );
        assert!(narrow.take("d", now).is_ok(), "another credential is another matter");
        let half = Duration::from_millis(500);
        assert!(narrow.take("c", now + half).is_ok() && narrow.take("c", now + half).is_err());
    }

    #[test]
    fn memory_is_bounded_and_the_longest_unseen_are_forgotten_first() {
        let mut buckets = Buckets::new(TWO, 64);
        let begin = Instant::now();
        for i in 0..10_000u64 {
            buckets.take(&i, begin + Duration::from_millis(i));
            assert!(buckets.by_key.len() <= 64);
        }
        assert!(buckets.by_key.contains_key(&9_999));
        assert!(!buckets.by_key.contains_key(&0));
    }
}
