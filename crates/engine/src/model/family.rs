//! Families: a root run with all runs that descend from it. What bounds them, and what ends them.

use super::{Failure, RunId, Timestamp};

/// What is kept of the descendants of one root: its children, their children, and so on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Family {
    /// Descendants that were started since the root began, or last continued as new.
    pub born: u64,
    /// Why no more may be started, if people cancelled the family.
    pub cancelled: Option<CancelledFamily>,
}

/// That people cancelled a family, and how far that has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CancelledFamily {
    /// When.
    pub at: Timestamp,
    /// Why, for the history of each member.
    pub reason: String,
    /// Have all members that were open been asked to cancel?
    pub is_swept: bool,
}

impl Family {
    /// The family after people cancelled it. The first reason stays.
    #[must_use]
    pub fn cancel(self, reason: &str, now: Timestamp) -> Family {
        let cancelled = match self.cancelled {
            Some(before) => CancelledFamily { is_swept: false, ..before },
            None => CancelledFamily { at: now, reason: reason.to_owned(), is_swept: false },
        };
        Family { born: self.born, cancelled: Some(cancelled) }
    }
}

/// Why children are not started; nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChildrenRefused {
    /// The root has as many descendants as it may have.
    #[error(
        "run {root} has {born} descendants, and {most} is the limit. Let the workflow start fewer children, let the root continue as new, \
         or raise `max-descendants`; `hapax runs cancel {root} --descendants` ends all of them"
    )]
    TooMany {
        /// The root of the family.
        root: RunId,
        /// How many it has.
        born: u64,
        /// How many it may have.
        most: u64,
    },
    /// The family was cancelled.
    #[error("run {root} was cancelled together with its descendants, so they start no more children")]
    Cancelled {
        /// The root of the family.
        root: RunId,
    },
}

impl ChildrenRefused {
    /// What the step that wanted the child fails with.
    pub fn failure(&self) -> Failure {
        let code = match self {
            ChildrenRefused::TooMany { .. } => "too_many_descendants",
            ChildrenRefused::Cancelled { .. } => "family_cancelled",
        };
        Failure::permanent(self).with_code(code)
    }
}

/// The family of `root` after `children` more are started, if they may be.
pub fn decide_births(
    family: &Family,
    root: RunId,
    children: u64,
    most: u64,
) -> Result<Family, ChildrenRefused> {
    if family.cancelled.is_some() {
        return Err(ChildrenRefused::Cancelled { root });
    }
    let born = family.born.saturating_add(children);
    match born <= most {
        true => Ok(Family { born, cancelled: None }),
        false => Err(ChildrenRefused::TooMany { root, born: family.born, most }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: RunId = RunId::from_u128(1);

    #[test]
    fn a_family_grows_up_to_its_limit_and_no_further() {
        let full = decide_births(&Family { born: 7, cancelled: None }, ROOT, 3, 10).unwrap();
        assert_eq!(full.born, 10);
        let refused = decide_births(&full, ROOT, 1, 10).unwrap_err();
        assert_eq!(refused, ChildrenRefused::TooMany { root: ROOT, born: 10, most: 10 });
        assert_eq!(refused.failure().code(), Some("too_many_descendants"));
        assert_eq!(refused.failure().class(), crate::model::FailureClass::Permanent);
    }

    #[test]
    fn nobody_is_born_into_a_cancelled_family() {
        let cancelled = CancelledFamily { at: Timestamp::EPOCH, reason: "a mistake".into(), is_swept: true };
        let family = Family { born: 1, cancelled: Some(cancelled) };
        let refused = decide_births(&family, ROOT, 1, 10).unwrap_err();
        assert_eq!(refused, ChildrenRefused::Cancelled { root: ROOT });
    }
}
