//! Short names of nodes. The id of a session begins with the tag of its node, so any node knows which one has the session.

use std::fmt;

const PREFIX: &str = "wks_";
/// Hex digits of a tag.
const TAG_DIGITS: usize = 12;
/// Hex digits of the part of an id that is random.
const RANDOM_DIGITS: usize = 32;

/// Short name of a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeTag(String);

impl NodeTag {
    /// The tag with these bytes: random ones, or a part of a digest.
    pub fn from_bytes(bytes: [u8; TAG_DIGITS / 2]) -> Self {
        NodeTag(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// The node that opened the session with this id. `None` if no node gives such ids.
    pub fn of_session(id: &str) -> Option<Self> {
        let digits = id.strip_prefix(PREFIX)?;
        let is_hex = digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
        let is_id = is_hex && digits.len() == TAG_DIGITS + RANDOM_DIGITS;
        is_id.then(|| NodeTag(digits[..TAG_DIGITS].to_owned()))
    }

    /// Id of a session of this node.
    pub(crate) fn session_id(&self, random: u128) -> String {
        format!("{PREFIX}{}{random:0width$x}", self.0, width = RANDOM_DIGITS)
    }

    /// Its hex digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_session_names_its_node() {
        let tag = NodeTag::from_bytes([1, 2, 3, 4, 5, 255]);
        assert_eq!(tag.as_str(), "0102030405ff");
        for random in [0, 1, u128::MAX] {
            assert_eq!(NodeTag::of_session(&tag.session_id(random)), Some(tag.clone()));
        }
        let id = tag.session_id(7);
        for bad in ["", "wks_", &id[1..], &id[..id.len() - 1], &format!("{id}0"), &id.to_uppercase(), "wks_é"]
        {
            assert_eq!(NodeTag::of_session(bad), None, "{bad}");
        }
    }
}
