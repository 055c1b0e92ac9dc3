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

    /// Rejects text that is blank, too long, or has characters that commands terminals or turn the
    /// text around. A reason or a remark may have several lines.
    pub fn check(self, text: &str) -> Result<(), Invalid> {
        let is_blank = text.trim().is_empty();
        let is_misleading = match self {
            HumanText::Person | HumanText::Actor => is_misleading_name(text),
            HumanText::Reason | HumanText::Remark => is_misleading_text(text),
        };
        match is_blank || text.chars().count() > self.max_chars() || is_misleading {
            true => Err(Invalid::HumanText(self)),
            false => Ok(()),
        }
    }
}

/// Returns true if a name has control characters, or characters that change the direction of text
/// or cannot be seen: two names could look the same, or one like another.
pub fn is_misleading_name(text: &str) -> bool {
    text.chars().any(|letter| letter.is_control() || is_invisible(letter) || turns_text(letter))
}

/// The same for prose of several lines, in which marks of direction are usual and harmless.
pub fn is_misleading_text(text: &str) -> bool {
    let is_command = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\r' | '\t');
    text.chars().any(|letter| is_command(letter) || turns_text(letter))
}

/// Embeddings, overrides and isolates of the direction of text.
fn turns_text(letter: char) -> bool {
    matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn is_invisible(letter: char) -> bool {
    matches!(
        letter,
        '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}' | '\u{2060}' | '\u{feff}'
    )
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
            for bad in
                ["", " \n", "a\0b", "\u{1b}[31mred", "a\u{202e}b", "a\u{2066}b", &format!("{longest}x")]
            {
                assert_eq!(words.check(bad), Err(Invalid::HumanText(words)), "{words:?}: {bad:?}");
            }
        }
    }

    #[test]
    fn a_name_has_one_visible_line_and_a_reason_may_have_several() {
        for text in ["two\nlines", "a\tb", "\u{200e}left", "zero\u{200b}width"] {
            assert!(HumanText::Person.check(text).is_err(), "{text:?}");
            assert_eq!(HumanText::Reason.check(text), Ok(()), "{text:?}");
        }
        for name in ["Zoë 🦀", "عائشة", "O'Neill, J.", "王小明"] {
            assert_eq!(HumanText::Person.check(name), Ok(()), "{name}");
        }
    }
}
