//! Result of settling a promise.

use hapax_engine::model::Timestamp;
use hapax_engine::runtime::SettlePromiseOutcome;

/// Result of settling a promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// This call settled the promise.
    Settled,
    /// The promise was already settled in the same way.
    AlreadySettled,
    /// No promise has this key yet. The settlement is kept for it.
    KeptEarly {
        /// End of the retention.
        until: Timestamp,
    },
}

impl From<SettlePromiseOutcome> for Settled {
    fn from(outcome: SettlePromiseOutcome) -> Self {
        match outcome {
            SettlePromiseOutcome::Settled(_) => Settled::Settled,
            SettlePromiseOutcome::AlreadySettled(_) => Settled::AlreadySettled,
            SettlePromiseOutcome::KeptEarly { until } => Settled::KeptEarly { until },
        }
    }
}

#[cfg(feature = "remote")]
impl From<hapax_remote::RemoteSettled> for Settled {
    fn from(settled: hapax_remote::RemoteSettled) -> Self {
        match settled {
            hapax_remote::RemoteSettled::Settled => Settled::Settled,
            hapax_remote::RemoteSettled::AlreadySettled => Settled::AlreadySettled,
            hapax_remote::RemoteSettled::KeptEarly { until } => Settled::KeptEarly { until },
        }
    }
}
