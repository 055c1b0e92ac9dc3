//! Limits how fast a workspace starts child runs. Children beyond the limit start later.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use crate::limits::{MAX_CHILD_DELAY, MAX_PACED_WORKSPACES};
use crate::model::{Failure, Timestamp, WorkspaceId};

/// For each workspace, the time at which its limit has caught up with the children already started.
#[derive(Debug, Default)]
pub(crate) struct ChildRateLimiter(Mutex<HashMap<WorkspaceId, Micros>>);

/// Microseconds since the epoch: a millisecond is too coarse for a thousand children a second.
type Micros = i64;

/// Children that may start at once, expressed as the time the limit needs to catch up with them.
const BURST: Micros = 1_000_000;

impl ChildRateLimiter {
    /// Returns when a child started now may begin. Fails if that is too far in the future.
    pub(crate) fn next(
        &self,
        workspace: &WorkspaceId,
        now: Timestamp,
        per_second: u32,
    ) -> Result<Option<Timestamp>, Failure> {
        let now_us = now.as_millis().saturating_mul(1_000);
        let mut caught_up_at = self.0.lock().expect("no holder panics");
        if caught_up_at.len() >= MAX_PACED_WORKSPACES {
            caught_up_at.retain(|_, caught_up| *caught_up > now_us);
        }
        let caught_up = caught_up_at.get(workspace).map_or(now_us, |at| (*at).max(now_us));
        let wait = Duration::from_micros(u64::try_from(caught_up - now_us - BURST).unwrap_or(0));
        if wait > MAX_CHILD_DELAY {
            let text = format!(
                "children of this workspace would begin {} s from now: {per_second} a second is the limit of one node. \
                 Start fewer at once, try again later, or raise `children-per-second`",
                wait.as_secs()
            );
            return Err(Failure::retryable(text)
                .with_code("child_rate_exceeded")
                .retry_after(MAX_CHILD_DELAY));
        }
        caught_up_at.insert(workspace.clone(), caught_up + 1_000_000 / i64::from(per_second.max(1)));
        Ok((!wait.is_zero()).then(|| now.plus(wait)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000_000);

    fn workspace(name: &str) -> WorkspaceId {
        WorkspaceId::new(name).unwrap()
    }

    #[test]
    fn a_second_worth_of_children_begins_at_once_and_the_others_one_after_another() {
        let rate_limit = ChildRateLimiter::default();
        let acme = workspace("acme");
        let begins: Vec<_> = (0..30).map(|_| rate_limit.next(&acme, NOW, 10).unwrap()).collect();
        assert!(begins[..11].iter().all(Option::is_none), "{begins:?}");
        assert_eq!(begins[11], Some(NOW.plus(Duration::from_millis(100))));
        assert_eq!(begins[29], Some(NOW.plus(Duration::from_millis(1_900))));
        assert_eq!(
            rate_limit.next(&workspace("beta"), NOW, 10).unwrap(),
            None,
            "other workspaces have their own limit"
        );
        let later = NOW.plus(Duration::from_secs(60));
        assert_eq!(rate_limit.next(&acme, later, 10).unwrap(), None, "the limit has caught up");
    }

    #[test]
    fn a_child_that_would_wait_too_long_is_refused_and_does_not_count() {
        let rate_limit = ChildRateLimiter::default();
        let acme = workspace("acme");
        let started = (0..).take_while(|_| rate_limit.next(&acme, NOW, 1).is_ok()).count();
        assert_eq!(started, 62);
        let refused = rate_limit.next(&acme, NOW, 1).unwrap_err();
        assert_eq!(refused.code(), Some("child_rate_exceeded"));
        assert_eq!(refused.class(), crate::model::FailureClass::Retryable);
        assert!(
            rate_limit.next(&acme, NOW.plus(Duration::from_secs(1)), 1).is_ok(),
            "a second later there is room"
        );
    }
}
