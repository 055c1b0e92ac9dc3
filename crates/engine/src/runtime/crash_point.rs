//! Points in a run at which tests inject crashes.

use std::fmt;
use std::sync::Arc;

use crate::model::{RunId, StepId};

/// Point that a run has reached: just before or after a commit or an effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CrashPoint {
    /// Before the engine claims due runs.
    BeforeClaim,
    /// After a lease was granted.
    AfterClaim(RunId),
    /// Before a step's code runs.
    BeforeEffect(RunId, StepId),
    /// Right before the check that the effect may still be sent. See [`crate::Hold::is_held`].
    BeforeSend(RunId, StepId),
    /// A step's code reads the idempotency key of its effect.
    KeyRead(RunId, StepId),
    /// After a step's code has returned, before its outcome is recorded.
    AfterEffect(RunId, StepId),
    /// Before step records are committed.
    BeforeRecord(RunId),
    /// After step records were committed.
    AfterRecord(RunId),
    /// Before the end of a run is committed.
    BeforeCompletion(RunId),
    /// After the end of a run was committed.
    AfterCompletion(RunId),
}

impl CrashPoint {
    /// Name of the point, for command lines and test configuration.
    pub const fn name(&self) -> &'static str {
        match self {
            CrashPoint::BeforeClaim => "before_claim",
            CrashPoint::AfterClaim(_) => "after_claim",
            CrashPoint::BeforeEffect(..) => "before_effect",
            CrashPoint::BeforeSend(..) => "before_send",
            CrashPoint::KeyRead(..) => "key_read",
            CrashPoint::AfterEffect(..) => "after_effect",
            CrashPoint::BeforeRecord(_) => "before_record",
            CrashPoint::AfterRecord(_) => "after_record",
            CrashPoint::BeforeCompletion(_) => "before_completion",
            CrashPoint::AfterCompletion(_) => "after_completion",
        }
    }

    /// Names of all points.
    pub const NAMES: [&'static str; 10] = [
        "before_claim",
        "after_claim",
        "before_effect",
        "before_send",
        "key_read",
        "after_effect",
        "before_record",
        "after_record",
        "before_completion",
        "after_completion",
    ];
}

/// Function that is called at each [`CrashPoint`].
#[derive(Clone)]
pub struct CrashPointWatcher(Arc<dyn Fn(&CrashPoint) + Send + Sync>);

impl CrashPointWatcher {
    /// Wraps `watch`.
    pub fn new(watch: impl Fn(&CrashPoint) + Send + Sync + 'static) -> Self {
        CrashPointWatcher(Arc::new(watch))
    }

    pub(crate) fn reached(&self, point: &CrashPoint) {
        (self.0)(point);
    }
}

impl fmt::Debug for CrashPointWatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CrashPointWatcher")
    }
}
