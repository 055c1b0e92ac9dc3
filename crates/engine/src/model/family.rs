//! Families: a root run with all its descendants. Limits them, and cancels them as a whole.

use super::{Failure, RunId, Timestamp};

/// State of a family beyond its runs: the children of a root, their children, and so on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Family {
    /// Descendants started since the root began or last continued as new.
    pub born: u64,
    /// Set when the family was cancelled. No more children may start.
    pub cancelled: Option<CancelledFamily>,
}

/// The cancellation of a family, and its progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CancelledFamily {
    /// When the family was cancelled.
    pub at: Timestamp,
    /// The reason, for the history of each member.
    pub reason: String,
    /// True if all open members have been asked to cancel.
    pub is_swept: bool,
}

impl Family {
    /// The family after a cancellation. The first reason is kept.
    #[must_use]
    pub fn cancel(self, reason: &str, now: Timestamp) -> Family {
        let cancelled = match self.cancelled {
            Some(before) => CancelledFamily { is_swept: false, ..before },
            None => CancelledFamily { at: now, reason: reason.to_owned(), is_swept: false },
        };
        Family { born: self.born, cancelled: Some(cancelled) }
    }
}

/// Why children are not started. Nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChildrenRefused {
    /// The root has reached the limit of descendants.
    #[error(
        "run {root} has {born} descendants, and {most} is the limit. Let the workflow start fewer children, let the root continue as new, \
         or raise `max-descendants`; `hapax runs cancel {root} --descendants` ends all of them"
    )]
    TooMany {
        /// Root of the family.
        root: RunId,
        /// Current number of descendants.
        born: u64,
        /// Largest number allowed.
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
    /// Failure of the step that wanted the child.
    pub fn failure(&self) -> Failure {
        let code = match self {
            ChildrenRefused::TooMany { .. } => "too_many_descendants",
            ChildrenRefused::Cancelled { .. } => "family_cancelled",
        };
        Failure::permanent(self).with_code(code)
    }
}

/// The family of `root` after starting `children` more, if that is allowed.
pub fn decide_add_children(
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
        let full = decide_add_children(&Family { born: 7, cancelled: None }, ROOT, 3, 10).unwrap();
        assert_eq!(full.born, 10);
        let refused = decide_add_children(&full, ROOT, 1, 10).unwrap_err();
        assert_eq!(refused, ChildrenRefused::TooMany { root: ROOT, born: 10, most: 10 });
        assert_eq!(refused.failure().code(), Some("too_many_descendants"));
        assert_eq!(refused.failure().class(), crate::model::FailureClass::Permanent);
    }

    #[test]
    fn no_child_starts_in_a_cancelled_family() {
        let cancelled = CancelledFamily { at: Timestamp::EPOCH, reason: "a mistake".into(), is_swept: true };
        let family = Family { born: 1, cancelled: Some(cancelled) };
        let refused = decide_add_children(&family, ROOT, 1, 10).unwrap_err();
        assert_eq!(refused, ChildrenRefused::Cancelled { root: ROOT });
    }
}
