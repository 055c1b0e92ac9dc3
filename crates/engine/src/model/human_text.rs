//! What people put into words: who they are, why they do something, what they have to say.

use super::{Actor, Invalid, RulingRefused};
use crate::limits::{MAX_ACTOR_CHARS, MAX_PERSON_CHARS, MAX_REASON_CHARS};

/// Something that people put into words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HumanText {
    /// The name that a person gives.
    Person,
    /// The name under which somebody acts: a person's, or that of what they act through, or both.
    Actor,
    /// Why something is done.
    Reason,
    /// What somebody says about a run or an entity.
    Remark,
}

impl HumanText {
    /// What they are called.
    pub const fn as_str(self) -> &'static str {
        match self {
            HumanText::Person => "the name of a person",
            HumanText::Actor => "the name of who acts",
            HumanText::Reason => "a reason",
            HumanText::Remark => "a note",
        }
    }

    /// The most characters they may have.
    pub const fn max_chars(self) -> usize {
        match self {
            HumanText::Person => MAX_PERSON_CHARS,
            HumanText::Actor => MAX_ACTOR_CHARS,
            HumanText::Reason | HumanText::Remark => MAX_REASON_CHARS,
        }
    }

    /// Refuses words that say nothing, are too long, or hold NUL, which not every store can keep.
    pub fn check(self, text: &str) -> Result<(), Invalid> {
        let is_blank = text.trim().is_empty();
        match is_blank || text.chars().count() > self.max_chars() || text.contains('\0') {
            true => Err(Invalid::HumanText(self)),
            false => Ok(()),
        }
    }
}

/// Checks that somebody stands for what is decided, and says why.
pub fn check_actor_and_reason(by: &Actor, reason: &str) -> Result<(), RulingRefused> {
    if by.name.trim().is_empty() {
        return Err(RulingRefused::Nobody);
    }
    if reason.trim().is_empty() {
        return Err(RulingRefused::NoReason);
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
