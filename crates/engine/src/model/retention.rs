//! Lifetime of the key of a run.

use std::time::Duration;

use super::{Ending, Timestamp};

/// Policy for the key of a run that failed or was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeyOnFailure {
    /// The key keeps naming the failed run.
    #[default]
    Keep,
    /// The key is free at once for a new run.
    Release,
}

/// Lifetime of the key of a run. It never expires before the run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeyRetention {
    /// How long the key outlives the run. `None` means forever.
    pub keep_for: Option<Duration>,
    /// Policy for the key if the run did not complete.
    pub on_failure: KeyOnFailure,
}

/// When the key of a run that ended at `closed_at` expires. `None` means never.
pub fn decide_key_expiry(retention: KeyRetention, ending: Ending, closed_at: Timestamp) -> Option<Timestamp> {
    match (ending, retention.on_failure) {
        (Ending::Failed | Ending::Cancelled, KeyOnFailure::Release) => Some(closed_at),
        (Ending::Completed, _) | (Ending::Failed | Ending::Cancelled, KeyOnFailure::Keep) => {
            retention.keep_for.map(|span| closed_at.plus(span))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_outlives_its_run_as_declared() {
        let end = Timestamp::from_millis(1_000);
        let hour = Duration::from_secs(3600);
        let declared = KeyRetention { keep_for: Some(hour), on_failure: KeyOnFailure::Release };
        assert_eq!(decide_key_expiry(KeyRetention::default(), Ending::Failed, end), None);
        assert_eq!(decide_key_expiry(declared, Ending::Completed, end), Some(end.plus(hour)));
        assert_eq!(decide_key_expiry(declared, Ending::Failed, end), Some(end));
        assert_eq!(decide_key_expiry(declared, Ending::Cancelled, end), Some(end));
    }
}
