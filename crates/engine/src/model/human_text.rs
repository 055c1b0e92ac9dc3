//! Validation of text that people write: names, reasons and remarks.

use super::{Actor, Invalid, RulingError};
use crate::limits::{MAX_ACTOR_CHARS, MAX_PERSON_CHARS, MAX_REASON_CHARS};

/// Kind of text that people write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HumanText {
    /// Name of a person.
    Person,
    /// Name that an action is recorded under: a person, a credential, or both.
    Actor,
    /// Reason for an action.
    Reason,
    /// Remark about a run or an entity.
    Remark,
}

impl HumanText {
    /// Description of the kind, for error messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            HumanText::Person => "the name of a person",
            HumanText::Actor => "the name of who acts",
            HumanText::Reason => "a reason",
            HumanText::Remark => "a note",
        }
    }

    /// Maximum length in characters.
    pub const fn max_chars(self) -> usize {
        match self {
            HumanText::Person => MAX_PERSON_CHARS,
            HumanText::Actor => MAX_ACTOR_CHARS,
            HumanText::Reason | HumanText::Remark => MAX_REASON_CHARS,
        }
    }

    /// Rejects text that is blank, too long, or contains NUL, which not every store can keep.
    pub fn check(self, text: &str) -> Result<(), Invalid> {
        let is_blank = text.trim().is_empty();
        match is_blank || text.chars().count() > self.max_chars() || text.contains('\0') {
            true => Err(Invalid::HumanText(self)),
            false => Ok(()),
        }
    }
}

/// Checks that a decision names an actor and a reason.
pub fn check_actor_and_reason(by: &Actor, reason: &str) -> Result<(), RulingError> {
    if by.name.trim().is_empty() {
        return Err(RulingError::NoActor);
    }
    if reason.trim().is_empty() {
        return Err(RulingError::NoReason);
    }
    HumanText::Actor.check(&by.name)?;
    HumanText::Reason.check(reason)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_something_within_their_length() {
        for words in [HumanText::Person, HumanText::Actor, HumanText::Reason, HumanText::Remark] {
            let longest = "ß".repeat(words.max_chars());
            assert_eq!(words.check(&longest), Ok(()), "{words:?}");
            for bad in ["", " \n", "a\0b", &format!("{longest}x")] {
                assert_eq!(words.check(bad), Err(Invalid::HumanText(words)), "{words:?}");
            }
        }
    }
}
