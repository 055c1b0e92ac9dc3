//! Keys that callers choose. A repeated request with the same key finds the same object.

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
    /// Names a run, a promise or an operation. While the key lives, it names at most one of each kind in a
    /// workspace.
    IdempotencyKey, "idempotency key"
}
key! {
    /// What a run is about. At most one run per workspace, workflow and subject is open.
    Subject, "subject"
}
key! {
    /// Identifies one sending of a signal, so that a resend is not a second signal.
    SignalId, "signal id"
}

key! {
    /// Id of an entity within its kind, chosen by the user.
    EntityId, "entity id"
}

impl EntityId {
    /// Rejects `.` and `..`, which have a special meaning in URL paths.
    pub fn check_addressable(&self) -> Result<(), Invalid> {
        match self.as_str() {
            dots @ ("." | "..") => {
                Err(Invalid::Id { what: "entity id that can stand in an address", given: dots.into() })
            }
            _ => Ok(()),
        }
    }
}

/// Kind of object that a key names. The same text may name one object of each kind.
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

/// The object that a key names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyTarget {
    /// A run.
    Run {
        /// Id of the run.
        run: RunId,
        /// Fingerprint that a request under the key must have.
        fingerprint: Fingerprint,
    },
    /// A promise.
    Promise(PromiseId),
    /// No object yet. The key is claimed for a future promise, because a settlement for it came early.
    Nothing,
}

/// Stored record of a key: the object it names, and its expiry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRecord {
    /// The object it names.
    pub target: KeyTarget,
    /// When the key was first used.
    pub first_seen_at: Timestamp,
    /// When it expires. `None` while its object is open, or if it never expires.
    pub expires_at: Option<Timestamp>,
}

impl KeyRecord {
    /// Returns true if the key is still in force at `now`.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|at| now < at)
    }

    /// The run it names, if any.
    pub fn run(&self) -> Option<RunId> {
        match self.target {
            KeyTarget::Run { run, .. } => Some(run),
            KeyTarget::Promise(_) | KeyTarget::Nothing => None,
        }
    }

    /// The promise it names, if any.
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

    /// S0.17, S0.18, S2.9, G0.6: 1 to 255 printable ASCII characters. The empty key is rejected, not treated
    /// as absent.
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
