//! Points in the life of a run where a crash would be most telling.

use std::fmt;
use std::sync::Arc;

use crate::model::{RunId, StepId};

/// Where a run has got to, just before or after something became durable or an effect took place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Point {
    /// Before leases on due runs are asked for.
    BeforeClaim,
    /// After a lease was granted.
    AfterClaim(RunId),
    /// Before a step's code is entered.
    BeforeEffect(RunId, StepId),
    /// Right before the check that an effect may still be sent: see [`crate::Hold::is_held`].
    BeforeSend(RunId, StepId),
    /// A step's code asks for the key of its effect.
    KeyRead(RunId, StepId),
    /// After a step's code has returned, before anything is written of it.
    AfterEffect(RunId, StepId),
    /// Before step records are written.
    BeforeRecord(RunId),
    /// After step records were written.
    AfterRecord(RunId),
    /// Before the end of a run is written.
    BeforeCompletion(RunId),
    /// After the end of a run was written.
    AfterCompletion(RunId),
}

impl Point {
    /// The bare name, for choosing a point from outside.
    pub const fn name(&self) -> &'static str {
        match self {
            Point::BeforeClaim => "before_claim",
            Point::AfterClaim(_) => "after_claim",
            Point::BeforeEffect(..) => "before_effect",
            Point::BeforeSend(..) => "before_send",
            Point::KeyRead(..) => "key_read",
            Point::AfterEffect(..) => "after_effect",
            Point::BeforeRecord(_) => "before_record",
            Point::AfterRecord(_) => "after_record",
            Point::BeforeCompletion(_) => "before_completion",
            Point::AfterCompletion(_) => "after_completion",
        }
    }

    /// Every name.
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

/// A function that is told of each [`Point`] reached.
#[derive(Clone)]
pub struct PointWatcher(Arc<dyn Fn(&Point) + Send + Sync>);

impl PointWatcher {
    /// Wraps `watch`.
    pub fn new(watch: impl Fn(&Point) + Send + Sync + 'static) -> Self {
        PointWatcher(Arc::new(watch))
    }

    pub(crate) fn reached(&self, point: &Point) {
        (self.0)(point);
    }
}

impl fmt::Debug for PointWatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PointWatcher")
    }
}
