//! Keys that callers choose: they name a thing, so that asking twice finds it again.

use std::fmt;
use std::sync::Arc;

use super::{Fingerprint, Invalid, PromiseId, RunId, Timestamp};
use crate::limits::MAX_KEY_CHARS;

macro_rules! key {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks that `text` is 1 to 255 printable ASCII characters.
            pub fn new(text: &str) -> Result<Self, Invalid> {
                let printable = text.bytes().all(|b| (0x20..=0x7e).contains(&b));
                if text.is_empty() || text.len() > MAX_KEY_CHARS || !printable {
                    return Err(Invalid::Key { what: $what });
                }
                Ok($name(text.into()))
            }

            /// The key as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

key! {
    /// Names an operation: at most one of it exists per workspace and kind while the key lives.
    IdempotencyKey, "idempotency key"
}
key! {
    /// What a run is about; at most one open run per workspace, workflow and subject.
    Subject, "subject"
}
key! {
    /// Names one sending of a signal, so that a resend is not a second signal.
    SignalId, "signal id"
}

key! {
    /// One business object among those of its kind, by the id its owner gave it.
    EntityId, "entity id"
}

impl EntityId {
    /// Refuses what cannot stand in an address: `.` and `..` as a part of a path mean something else.
    pub fn check_addressable(&self) -> Result<(), Invalid> {
        match self.as_str() {
            dots @ ("." | "..") => {
                Err(Invalid::Id { what: "entity id that can stand in an address", given: dots.into() })
            }
            _ => Ok(()),
        }
    }
}

/// What a key names; the same text may name one thing of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyKind {
    /// A run.
    Run,
    /// A promise.
    Promise,
}

impl KeyKind {
    /// Every kind.
    pub const ALL: [KeyKind; 2] = [KeyKind::Run, KeyKind::Promise];

    /// The kind as stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            KeyKind::Run => "run",
            KeyKind::Promise => "promise",
        }
    }
}

/// The one thing that a key stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyTarget {
    /// A run.
    Run {
        /// Which.
        run: RunId,
        /// What sameness means under the key.
        fingerprint: Fingerprint,
    },
    /// A promise.
    Promise(PromiseId),
    /// Nothing yet: it is claimed for a promise that is still to be made, because somebody settled that early.
    Nothing,
}

/// What a key stands for, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRecord {
    /// What it names.
    pub target: KeyTarget,
    /// When it was first seen.
    pub first_seen_at: Timestamp,
    /// When it expires; `None` while what it names is open, or if it is kept for ever.
    pub expires_at: Option<Timestamp>,
}

impl KeyRecord {
    /// Does the key still stand for it at `now`?
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|at| now < at)
    }

    /// The run it names, if it names one.
    pub fn run(&self) -> Option<RunId> {
        match self.target {
            KeyTarget::Run { run, .. } => Some(run),
            KeyTarget::Promise(_) | KeyTarget::Nothing => None,
        }
    }

    /// The promise it names, if it names one.
    pub fn promise(&self) -> Option<&PromiseId> {
        match &self.target {
            KeyTarget::Promise(id) => Some(id),
            KeyTarget::Run { .. } | KeyTarget::Nothing => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S0.17, S0.18, S2.9, G0.6: 1 to 255 printable ASCII characters; the empty key is refused, not treated as absent.
    #[test]
    fn keys_are_printable_and_bounded() {
        for good in
            ["k", "process-order-789", "send-welcome-7-spring", "stripe:ch_1", "with space", &"k".repeat(255)]
        {
            assert!(IdempotencyKey::new(good).is_ok(), "{good}");
        }
        for bad in ["", "tab\t", "nul\0", "é", "del\u{7f}", &"k".repeat(256)] {
            assert!(IdempotencyKey::new(bad).is_err(), "{bad:?}");
        }
    }
}
