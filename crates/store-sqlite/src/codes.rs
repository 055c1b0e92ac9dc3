//! The numbers that stand for enums in columns. They are on disk: never change one, only add.

use hapax_engine::model::{
    CatalogKind, EffectClass, Ending, EventKind, InboundEventStatus, KeyKind, Occurrence, OperationStatus,
    OutboxStatus, PendingRequest, Priority, PromiseStatus, Recovery, Role, RunStatus, StepKind, StepStatus,
    Timestamp,
};

use crate::fault::Fault;

/// An enum with a number for each variant.
pub(crate) trait Code: Sized + Copy + 'static {
    /// Name of the enum, for the error about an unknown number.
    const WHAT: &'static str;

    /// Every variant.
    const ALL: &'static [Self];

    /// The number of this variant.
    fn code(self) -> i64;

    /// The variant with this number.
    fn from_code(code: i64) -> Result<Self, Fault> {
        let found = Self::ALL.iter().copied().find(|variant| variant.code() == code);
        found.ok_or_else(|| Fault::Broken(format!("the file holds {code} as {}", Self::WHAT)))
    }
}

impl Code for RunStatus {
    const WHAT: &'static str = "the status of a run";
    const ALL: &'static [Self] = &RunStatus::ALL;

    fn code(self) -> i64 {
        match self {
            RunStatus::Pending => 0,
            RunStatus::Running => 1,
            RunStatus::Waiting => 2,
            RunStatus::Paused => 3,
            RunStatus::Completed => 4,
            RunStatus::Failed => 5,
            RunStatus::Cancelled => 6,
        }
    }
}

/// How a run that has ended under this status ended.
pub(crate) fn ending_of(status: RunStatus) -> Option<Ending> {
    match status {
        RunStatus::Completed => Some(Ending::Completed),
        RunStatus::Failed => Some(Ending::Failed),
        RunStatus::Cancelled => Some(Ending::Cancelled),
        RunStatus::Pending | RunStatus::Running | RunStatus::Waiting | RunStatus::Paused => None,
    }
}

impl Code for PendingRequest {
    const WHAT: &'static str = "what was asked of a run";
    const ALL: &'static [Self] = &[PendingRequest::Nothing, PendingRequest::Pause, PendingRequest::Cancel];

    fn code(self) -> i64 {
        match self {
            PendingRequest::Nothing => 0,
            PendingRequest::Pause => 1,
            PendingRequest::Cancel => 2,
        }
    }
}

impl Code for Priority {
    const WHAT: &'static str = "a priority";
    const ALL: &'static [Self] = &Priority::FIRST_TO_LAST;

    fn code(self) -> i64 {
        match self {
            Priority::High => 0,
            Priority::Normal => 1,
            Priority::Low => 2,
        }
    }
}

impl Code for StepKind {
    const WHAT: &'static str = "the kind of a step";
    const ALL: &'static [Self] = &StepKind::ALL;

    fn code(self) -> i64 {
        match self {
            StepKind::Effect => 0,
            StepKind::Undo => 1,
            StepKind::Sleep => 2,
            StepKind::Promise => 3,
            StepKind::Signal => 4,
            StepKind::Child => 5,
            StepKind::Value => 6,
            StepKind::Select => 7,
            StepKind::Claimed => 8,
            StepKind::Transaction => 9,
            StepKind::AfterEffect => 10,
        }
    }
}

impl Code for StepStatus {
    const WHAT: &'static str = "the status of a step";
    const ALL: &'static [Self] = &StepStatus::ALL;

    fn code(self) -> i64 {
        match self {
            StepStatus::Pending => 0,
            StepStatus::Running => 1,
            StepStatus::Waiting => 2,
            StepStatus::Completed => 3,
            StepStatus::Failed => 4,
            StepStatus::Skipped => 5,
            StepStatus::Cancelled => 6,
            StepStatus::InDoubt => 7,
        }
    }
}

impl Code for EventKind {
    const WHAT: &'static str = "the kind of an event";
    const ALL: &'static [Self] = &EventKind::ALL;

    fn code(self) -> i64 {
        match self {
            EventKind::Started => 0,
            EventKind::Claimed => 1,
            EventKind::TakenOver => 2,
            EventKind::Waited => 3,
            EventKind::Released => 4,
            EventKind::PauseRequested => 5,
            EventKind::Paused => 6,
            EventKind::Resumed => 7,
            EventKind::CancelRequested => 8,
            EventKind::Quarantined => 9,
            EventKind::ContinuedAsNew => 10,
            EventKind::Completed => 11,
            EventKind::Failed => 12,
            EventKind::Cancelled => 13,
            EventKind::Retried => 14,
        }
    }
}

impl Code for KeyKind {
    const WHAT: &'static str = "the kind of a key";
    const ALL: &'static [Self] = &KeyKind::ALL;

    fn code(self) -> i64 {
        match self {
            KeyKind::Run => 0,
            KeyKind::Promise => 1,
        }
    }
}

impl Code for OutboxStatus {
    const WHAT: &'static str = "the status of an after-effect";
    const ALL: &'static [Self] = &OutboxStatus::ALL;

    fn code(self) -> i64 {
        match self {
            OutboxStatus::Due => 0,
            OutboxStatus::Claimed => 1,
            OutboxStatus::Delivered => 2,
            OutboxStatus::Dead => 3,
        }
    }
}

impl Code for EffectClass {
    const WHAT: &'static str = "the class of an effect";
    const ALL: &'static [Self] = &EffectClass::ALL;

    fn code(self) -> i64 {
        match self {
            EffectClass::Idempotent => 0,
            EffectClass::Claimed => 1,
            EffectClass::Transactional => 2,
        }
    }
}

/// The numbers rise with certainty: the highest of an attempt counts.
impl Code for Occurrence {
    const WHAT: &'static str = "what is known of an attempt";
    const ALL: &'static [Self] = &Occurrence::ALL;

    fn code(self) -> i64 {
        match self {
            Occurrence::MayHaveHappened => 0,
            Occurrence::DidNotHappen => 1,
            Occurrence::Happened => 2,
        }
    }
}

impl Code for Role {
    const WHAT: &'static str = "the role of a person";
    const ALL: &'static [Self] = &[Role::Operator, Role::Manager];

    fn code(self) -> i64 {
        match self {
            Role::Operator => 0,
            Role::Manager => 1,
        }
    }
}

impl Code for PromiseStatus {
    const WHAT: &'static str = "the status of a promise";
    const ALL: &'static [Self] = &PromiseStatus::ALL;

    fn code(self) -> i64 {
        match self {
            PromiseStatus::Pending => 0,
            PromiseStatus::Resolved => 1,
            PromiseStatus::Rejected => 2,
            PromiseStatus::TimedOut => 3,
            PromiseStatus::Cancelled => 4,
            PromiseStatus::KeyTaken => 5,
        }
    }
}

impl Code for InboundEventStatus {
    const WHAT: &'static str = "the status of a webhook";
    const ALL: &'static [Self] = &InboundEventStatus::ALL;

    fn code(self) -> i64 {
        match self {
            InboundEventStatus::Received => 0,
            InboundEventStatus::Applied => 1,
            InboundEventStatus::Ignored => 2,
            InboundEventStatus::Unmatched => 3,
            InboundEventStatus::Failed => 4,
        }
    }
}

/// How far a request is, without its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestStatus {
    InFlight,
    Answered,
}

impl Code for RequestStatus {
    const WHAT: &'static str = "the status of a request";
    const ALL: &'static [Self] = &[RequestStatus::InFlight, RequestStatus::Answered];

    fn code(self) -> i64 {
        match self {
            RequestStatus::InFlight => 0,
            RequestStatus::Answered => 1,
        }
    }
}

impl Code for CatalogKind {
    const WHAT: &'static str = "the kind of an item";
    const ALL: &'static [Self] = &CatalogKind::ALL;

    fn code(self) -> i64 {
        match self {
            CatalogKind::Workspace => 0,
            CatalogKind::Credential => 1,
            CatalogKind::Definition => 2,
            CatalogKind::Setting => 3,
            CatalogKind::Source => 4,
            CatalogKind::Subscription => 5,
            CatalogKind::EntityWorkflow => 6,
        }
    }
}

impl Code for OperationStatus {
    const WHAT: &'static str = "the status of an operation";
    const ALL: &'static [Self] = &OperationStatus::ALL;

    fn code(self) -> i64 {
        match self {
            OperationStatus::Pending => 0,
            OperationStatus::Done => 1,
            OperationStatus::Rejected => 2,
            OperationStatus::Failed => 3,
            OperationStatus::Reverted => 4,
            OperationStatus::InDoubt => 5,
        }
    }
}

impl Code for Recovery {
    const WHAT: &'static str = "what becomes of a claim whose holder vanished";
    const ALL: &'static [Self] = &[Recovery::Revert, Recovery::Hold];

    fn code(self) -> i64 {
        match self {
            Recovery::Revert => 0,
            Recovery::Hold => 1,
        }
    }
}

/// A counter as SQLite keeps it. Counters rise by one and cannot reach the sign bit; tokens do not pass here.
pub(crate) fn count(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// An instant as SQLite keeps it.
pub(crate) fn millis(at: Timestamp) -> i64 {
    at.as_millis()
}

/// Perhaps an instant.
pub(crate) fn millis_of(at: Option<Timestamp>) -> Option<i64> {
    at.map(Timestamp::as_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<C: Code + std::fmt::Debug + PartialEq>() {
        for variant in C::ALL {
            assert_eq!(C::from_code(variant.code()).unwrap(), *variant);
        }
        let mut codes: Vec<i64> = C::ALL.iter().map(|variant| variant.code()).collect();
        codes.sort_unstable();
        let no_gaps: Vec<i64> = (0..C::ALL.len() as i64).collect();
        assert_eq!(codes, no_gaps, "{}: numbers have no gaps, as the CHECKs say", C::WHAT);
        assert!(C::from_code(C::ALL.len() as i64).is_err());
    }

    #[test]
    fn every_number_reads_back_as_its_variant() {
        check::<RunStatus>();
        check::<PendingRequest>();
        check::<Priority>();
        check::<StepKind>();
        check::<StepStatus>();
        check::<EventKind>();
        check::<KeyKind>();
        check::<PromiseStatus>();
        check::<InboundEventStatus>();
        check::<OutboxStatus>();
        check::<EffectClass>();
        check::<Occurrence>();
        check::<Role>();
        check::<RequestStatus>();
        check::<CatalogKind>();
        check::<OperationStatus>();
        check::<Recovery>();
    }
}
