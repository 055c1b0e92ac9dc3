//! Digests of the leaves of a JSON value. They show where two values differ without storing the values.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::canonical_json;
use crate::limits::{MAX_DIFFERENCES, MAX_LEAF_DIGESTS};

/// JSON pointers to the leaves of a value, each with a digest of the leaf.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeafDigests {
    leaves: BTreeMap<String, u64>,
    /// True if there were more leaves than are kept.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_cut: bool,
}

impl LeafDigests {
    /// Computes the digests of `value`.
    pub fn of(value: &Value) -> Self {
        let mut outline = LeafDigests::default();
        outline.visit(value, &mut String::new());
        outline
    }

    fn visit(&mut self, value: &Value, path: &mut String) {
        if self.is_cut {
            return;
        }
        let length = path.len();
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                for (name, field) in fields {
                    path.push('/');
                    path.push_str(&name.replace('~', "~0").replace('/', "~1"));
                    self.visit(field, path);
                    path.truncate(length);
                }
            }
            Value::Array(items) if !items.is_empty() => {
                for (place, item) in items.iter().enumerate() {
                    path.push('/');
                    path.push_str(&place.to_string());
                    self.visit(item, path);
                    path.truncate(length);
                }
            }
            leaf if self.leaves.len() < MAX_LEAF_DIGESTS => {
                let digest = Sha256::digest(canonical_json(leaf).as_bytes());
                let head: [u8; 8] = digest[..8].try_into().expect("a digest has 32 bytes");
                self.leaves.insert(path.clone(), u64::from_be_bytes(head));
            }
            _ => self.is_cut = true,
        }
    }

    /// JSON pointers to the leaves that differ, in order. The root is the empty pointer. Values with more
    /// leaves than are kept may differ in others too.
    pub fn differences(&self, other: &LeafDigests) -> Vec<String> {
        let differs = |path: &&String| self.leaves.get(*path) != other.leaves.get(*path);
        // Nothing is known beyond the point where either one was cut.
        let end = match (self.is_cut, other.is_cut) {
            (false, false) => None,
            (true, false) => self.leaves.keys().next_back(),
            (false, true) => other.leaves.keys().next_back(),
            (true, true) => self.leaves.keys().next_back().min(other.leaves.keys().next_back()),
        };
        let mut paths: Vec<&String> = self.leaves.keys().chain(other.leaves.keys()).collect();
        paths.sort();
        paths.dedup();
        let known = paths.into_iter().filter(|path| end.is_none_or(|end| *path <= end));
        known.filter(differs).take(MAX_DIFFERENCES).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn differences(a: &Value, b: &Value) -> Vec<String> {
        LeafDigests::of(a).differences(&LeafDigests::of(b))
    }

    #[test]
    fn differing_added_and_missing_leaves_are_named() {
        let a = json!({"amount": 1, "to": {"iban": "A", "bic": "B"}, "tags": ["x"]});
        let b = json!({"amount": 2, "to": {"iban": "A"}, "tags": ["x", "y"]});
        assert_eq!(differences(&a, &b), ["/amount", "/tags/1", "/to/bic"]);
        assert_eq!(differences(&a, &a), Vec::<String>::new());
        assert_eq!(differences(&json!(1), &json!(2)), [""]);
        assert_eq!(differences(&json!({"a/b": 1}), &json!({"a/b": 1.5})), ["/a~1b"]);
    }

    #[test]
    fn an_outline_is_bounded_and_says_nothing_about_what_it_left_out() {
        let many = |odd: i64| json!((0..2 * MAX_LEAF_DIGESTS as i64).map(|n| n * odd).collect::<Vec<_>>());
        let outline = LeafDigests::of(&many(1));
        assert_eq!(outline.leaves.len(), MAX_LEAF_DIGESTS);
        assert!(outline.differences(&LeafDigests::of(&many(3))).len() <= MAX_DIFFERENCES);
        assert_eq!(differences(&json!({"a": 1, "b": many(1)}), &json!({"a": 2, "b": many(1)})), ["/a"]);
    }

    #[test]
    fn order_and_white_space_do_not_count() {
        let a: Value = serde_json::from_str(r#"{"a":1,"b":[1.0]}"#).unwrap();
        let b: Value = serde_json::from_str(r#"{"b":[1],"a":1}"#).unwrap();
        assert_eq!(differences(&a, &b), Vec::<String>::new());
    }
}
