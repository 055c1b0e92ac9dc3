//! How fast children are started: a workspace may start some each second, and those beyond that begin later.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use crate::limits::{MAX_CHILD_DELAY, MAX_PACED_WORKSPACES};
use crate::model::{Failure, Timestamp, WorkspaceId};

/// For each workspace, when its pace has caught up with the children it started.
#[derive(Debug, Default)]
pub(crate) struct ChildPace(Mutex<HashMap<WorkspaceId, Micros>>);

/// Microseconds since the epoch: a millisecond is too coarse for a thousand children a second.
type Micros = i64;

/// How many may begin at once before the pace counts, as the time in which the pace makes up for them.
const BURST: Micros = 1_000_000;

impl ChildPace {
    /// When a child that is started now may begin; refused if that is too far away.
    pub(crate) fn next(
        &self,
        workspace: &WorkspaceId,
        now: Timestamp,
        per_second: u32,
    ) -> Result<Option<Timestamp>, Failure> {
        let now_us = now.as_millis().saturating_mul(1_000);
        let mut paces = self.0.lock().expect("no holder panics");
        if paces.len() >= MAX_PACED_WORKSPACES {
            paces.retain(|_, caught_up| *caught_up > now_us);
        }
        let caught_up = paces.get(workspace).map_or(now_us, |at| (*at).max(now_us));
        let wait = Duration::from_micros(u64::try_from(caught_up - now_us - BURST).unwrap_or(0));
        if wait > MAX_CHILD_DELAY {
            let text = format!(
                "children of this workspace would begin {} s from now: {per_second} a second is the pace of one node. \
                 Start fewer at once, try again later, or raise `children-per-second`",
                wait.as_secs()
            );
            return Err(Failure::retryable(text)
                .with_code("child_rate_exceeded")
                .retry_after(MAX_CHILD_DELAY));
        }
        paces.insert(workspace.clone(), caught_up + 1_000_000 / i64::from(per_second.max(1)));
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
        let pace = ChildPace::default();
        let acme = workspace("acme");
        let begins: Vec<_> = (0..30).map(|_| pace.next(&acme, NOW, 10).unwrap()).collect();
        assert!(begins[..11].iter().all(Option::is_none), "{begins:?}");
        assert_eq!(begins[11], Some(NOW.plus(Duration::from_millis(100))));
        assert_eq!(begins[29], Some(NOW.plus(Duration::from_millis(1_900))));
        assert_eq!(pace.next(&workspace("beta"), NOW, 10).unwrap(), None, "others have a pace of their own");
        let later = NOW.plus(Duration::from_secs(60));
        assert_eq!(pace.next(&acme, later, 10).unwrap(), None, "the pace has caught up");
    }

    #[test]
    fn a_child_that_would_wait_too_long_is_refused_and_does_not_count() {
        let pace = ChildPace::default();
        let acme = workspace("acme");
        let started = (0..).take_while(|_| pace.next(&acme, NOW, 1).is_ok()).count();
        assert_eq!(started, 62);
        let refused = pace.next(&acme, NOW, 1).unwrap_err();
        assert_eq!(refused.code(), Some("child_rate_exceeded"));
        assert_eq!(refused.class(), crate::model::FailureClass::Retryable);
        assert!(
            pace.next(&acme, NOW.plus(Duration::from_secs(1)), 1).is_ok(),
            "a second later there is room"
        );
    }
}
