//! YAML with the position of every value. serde-saphyr itself refuses duplicate keys, unknown tags, alias bombs and
//! multiple documents, with line and column. It stops at its first error, so only that one is reported.

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::options::{DuplicateKeyPolicy, MergeKeyPolicy, NonFiniteFloatPolicy};
use serde_saphyr::{Error, Spanned};

use super::{Kind, Node, check_text};
use crate::limits::{MAX_DOCUMENT_BYTES, MAX_DOCUMENT_DEPTH, MAX_DOCUMENT_VALUES};
use crate::problem::{Position, Problems, below, excerpt};

pub(super) fn read(text: &str, problems: &mut Problems) -> Option<Node> {
    let budget = serde_saphyr::budget! {
        max_depth: MAX_DOCUMENT_DEPTH,
        max_nodes: MAX_DOCUMENT_VALUES * 2,
        max_events: MAX_DOCUMENT_VALUES * 4,
        // An alias is expanded in place, so a few are enough and many are a bomb.
        max_aliases: 1_000,
        max_anchors: 100,
        // The reader refuses a second document with a better message.
        max_documents: 2,
        max_total_scalar_bytes: MAX_DOCUMENT_BYTES,
        flow_nesting_limit: MAX_DOCUMENT_DEPTH,
    };
    let options = serde_saphyr::options! {
        budget: budget,
        duplicate_keys: DuplicateKeyPolicy::Error,
        merge_keys: MergeKeyPolicy::Error,
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_DOCUMENT_VALUES },
        strict_booleans: true,
        reject_unsupported_tags: true,
        non_finite_float_policy: NonFiniteFloatPolicy::Reject,
        with_snippet: false,
    };
    match serde_saphyr::from_str_with_options::<Spanned<RawValue>>(text, options) {
        Ok(raw) => {
            let mut values = 0;
            let node = node_of(raw, "", &mut values, problems);
            if values > MAX_DOCUMENT_VALUES {
                let message = format!("it has more than {MAX_DOCUMENT_VALUES} values");
                problems.error("", None, "too_large", message);
                return None;
            }
            Some(node)
        }
        Err(error) => {
            let at = error.location().and_then(place);
            let error = error.without_snippet();
            let (code, message) = match error {
                Error::DuplicateMappingKey { key, .. } => {
                    let key = excerpt(key.as_deref().unwrap_or("a key"));
                    ("duplicate_key", format!("{key:?} is here twice; keep one"))
                }
                Error::Budget { .. } => ("too_large", format!("it is more than a document may be: {error}")),
                _ => (
                    "syntax",
                    format!("it is not YAML that can be used: {}", excerpt_line(&error.to_string())),
                ),
            };
            problems.error("", at, code, message);
            None
        }
    }
}

fn excerpt_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(300).collect()
}

fn place(location: serde_saphyr::Location) -> Option<Position> {
    let narrow = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let at = Position { line: narrow(location.line()), column: narrow(location.column()) };
    (at.line > 0).then_some(at)
}

/// A value from the reader.
enum RawValue {
    Null,
    Bool(bool),
    Number(serde_json::Number),
    Text(String),
    List(Vec<Spanned<RawValue>>),
    Object(Vec<(String, Spanned<RawValue>)>),
}

fn node_of(raw: Spanned<RawValue>, path: &str, values: &mut usize, problems: &mut Problems) -> Node {
    *values += 1;
    let at = place(raw.referenced);
    let kind = match raw.value {
        RawValue::Null => Kind::Null,
        RawValue::Bool(flag) => Kind::Bool(flag),
        RawValue::Number(number) => Kind::Number(number),
        RawValue::Text(text) => {
            check_text(&text, path, at, problems);
            Kind::Text(text)
        }
        RawValue::List(items) => {
            let items = items.into_iter().enumerate();
            Kind::List(items.map(|(n, item)| node_of(item, &below(path, n), values, problems)).collect())
        }
        RawValue::Object(fields) => {
            let fields = fields.into_iter().map(|(key, value)| {
                check_text(&key, path, at, problems);
                let node = node_of(value, &below(path, excerpt(&key)), values, problems);
                (key, node)
            });
            Kind::Object(fields.collect())
        }
    };
    Node { at, kind }
}

impl<'de> Deserialize<'de> for RawValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = RawValue;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value that JSON has")
    }

    fn visit_unit<E>(self) -> Result<RawValue, E> {
        Ok(RawValue::Null)
    }

    fn visit_none<E>(self) -> Result<RawValue, E> {
        Ok(RawValue::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<RawValue, D::Error> {
        RawValue::deserialize(deserializer)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<RawValue, E> {
        Ok(RawValue::Bool(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<RawValue, E> {
        Ok(RawValue::Number(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<RawValue, E> {
        Ok(RawValue::Number(number.into()))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<RawValue, E> {
        let number = serde_json::Number::from_f64(number);
        number.map(RawValue::Number).ok_or_else(|| E::custom("a number must be finite"))
    }

    fn visit_str<E>(self, text: &str) -> Result<RawValue, E> {
        Ok(RawValue::Text(text.to_string()))
    }

    fn visit_string<E>(self, text: String) -> Result<RawValue, E> {
        Ok(RawValue::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<RawValue, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(RawValue::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawValue, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry::<String, Spanned<RawValue>>()? {
            fields.push(field);
        }
        Ok(RawValue::Object(fields))
    }
}
