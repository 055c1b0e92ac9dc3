//! Failures of steps and runs, classified by what to do about them.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::PromiseId;
use crate::limits::MAX_MESSAGE_CHARS;

/// Class of a failure: did the effect happen, and may it be retried?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// The effect did not happen and may be retried.
    Retryable,
    /// The effect did not happen and never will.
    Permanent,
    /// The effect may have happened. It may be retried only under the same effect key.
    Unknown,
}

/// A failure of a step, a run or a promise, as user code raises it and as it is stored.
///
/// Any error converts into a failure of class [`FailureClass::Unknown`] with `?`, because an arbitrary error
/// does not say whether the effect took place. To make this conversion possible, `Failure` itself does not
/// implement [`std::error::Error`].
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    class: FailureClass,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    existing_promise: Option<String>,
    /// Retrying would not help.
    #[serde(default, rename = "final", skip_serializing_if = "std::ops::Not::not")]
    is_final: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    may_have_happened: bool,
}

impl Failure {
    /// The effect did not happen. It may be retried.
    pub fn retryable(message: impl fmt::Display) -> Self {
        Self::new(FailureClass::Retryable, message)
    }

    /// The effect did not happen. It must not be retried.
    pub fn permanent(message: impl fmt::Display) -> Self {
        Self::new(FailureClass::Permanent, message)
    }

    /// The outcome of the effect is unknown.
    pub fn unknown(message: impl fmt::Display) -> Self {
        Self::new(FailureClass::Unknown, message)
    }

    fn new(class: FailureClass, message: impl fmt::Display) -> Self {
        // PostgreSQL cannot store NUL.
        let message = message.to_string().chars().filter(|c| *c != '\0').take(MAX_MESSAGE_CHARS).collect();
        Failure {
            class,
            code: None,
            message,
            retry_after_ms: None,
            existing_promise: None,
            may_have_happened: false,
            is_final: false,
        }
    }

    /// The key of a promise names another promise, so this one was not created (S4.26).
    pub fn key_conflict(key: &str, existing: &PromiseId) -> Self {
        let text = format!(
            "the key {key:?} is registered to another promise, {existing}; wait for that one, or use a key of its own"
        );
        let mut failure = Failure::permanent(text).with_code("key_conflict");
        failure.existing_promise = Some(existing.to_string());
        failure
    }

    /// Adds a short stable code that callers can branch on.
    #[must_use]
    pub fn with_code(mut self, code: &str) -> Self {
        self.code = Some(code.chars().filter(|c| *c != '\0').take(crate::limits::MAX_NAME_CHARS).collect());
        self
    }

    /// Marks that the effect may have happened. The class still decides what to do next; this mark decides
    /// what is counted. For example, a provider that answers 500 may be asked again, and may have charged the
    /// card.
    #[must_use]
    pub fn that_may_have_happened(mut self) -> Self {
        self.may_have_happened = true;
        self
    }

    /// Sets how long the provider asked to wait before the next attempt.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after_ms = Some(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        self
    }

    /// Marks that retrying would not help: the effect may have happened, but its answer cannot be used.
    #[must_use]
    pub fn finally(mut self) -> Self {
        self.is_final = true;
        self
    }

    /// The same failure of an attempt that follows one with an unknown outcome. This attempt did not happen,
    /// but that says nothing about the earlier one.
    #[must_use]
    pub(crate) fn after_unknown(mut self) -> Self {
        self.class = FailureClass::Unknown;
        self
    }

    /// Returns true if retrying would not help.
    pub fn is_final(&self) -> bool {
        self.is_final
    }

    /// Class of the failure.
    pub fn class(&self) -> FailureClass {
        self.class
    }

    /// Returns true if the effect may have happened in spite of the failure.
    pub fn may_have_happened(&self) -> bool {
        self.may_have_happened || self.class == FailureClass::Unknown
    }

    /// The stable code, if one was given.
    pub fn code(&self) -> Option<&str> {
        self.code.as_deref()
    }

    /// Text for people.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The promise that has the key, if the failure is a key conflict.
    pub fn existing_promise(&self) -> Option<&str> {
        self.existing_promise.as_deref()
    }

    /// How long the provider asked to wait.
    pub fn requested_wait(&self) -> Option<Duration> {
        self.retry_after_ms.map(Duration::from_millis)
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            message = format!("{message}: {error}");
            cause = error.source();
        }
        Failure::unknown(message)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.code {
            Some(code) => write!(f, "{} ({code})", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_error_becomes_an_unknown_outcome_with_its_causes() {
        #[derive(Debug, thiserror::Error)]
        #[error("sending failed")]
        struct Sending(#[source] std::io::Error);
        let failure: Failure = Sending(std::io::Error::other("pipe broke")).into();
        assert_eq!(failure.class(), FailureClass::Unknown);
        assert_eq!(failure.message(), "sending failed: pipe broke");
    }

    #[test]
    fn texts_are_cut_and_free_of_nul() {
        let failure = Failure::permanent("x\0".repeat(10_000)).with_code("a\0b");
        assert_eq!(failure.message().len(), MAX_MESSAGE_CHARS);
        assert!(!failure.message().contains('\0'));
        assert_eq!(failure.code(), Some("ab"));
    }
}
