//! Texts in paths and queries.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Characters that need no escape in a path segment or a query value.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The text as one segment of a path, or as a value of a query.
pub(crate) fn encode(text: &str) -> String {
    // Alone in a segment, dots would climb.
    if !text.is_empty() && text.bytes().all(|byte| byte == b'.') {
        return text.replace('.', "%2E");
    }
    utf8_percent_encode(text, PLAIN).to_string()
}

/// The template with its braces filled in, in their order.
pub(crate) fn fill(template: &str, arguments: &[&str]) -> String {
    let mut arguments = arguments.iter();
    let segments = template.split('/').map(|segment| match segment.starts_with('{') {
        true => encode(arguments.next().expect("an argument for each brace")),
        false => segment.to_owned(),
    });
    let filled = segments.collect::<Vec<_>>().join("/");
    debug_assert!(arguments.next().is_none(), "{template} takes fewer arguments");
    filled
}

/// The pairs that have a value, as a query with its question mark; nothing if there are none.
pub(crate) fn query(pairs: &[(&str, Option<&str>)]) -> String {
    let mut query = String::new();
    for (name, value) in pairs {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            query.push(if query.is_empty() { '?' } else { '&' });
            query.push_str(name);
            query.push('=');
            query.push_str(&encode(value));
        }
    }
    query
}

/// A word of the wire as people read it: `did_not_happen` becomes `did not happen`.
pub(crate) fn spelled<T: serde::Serialize>(value: &T) -> String {
    let word = serde_json::to_value(value).ok().and_then(|value| value.as_str().map(ToOwned::to_owned));
    word.unwrap_or_default().to_lowercase().replace('_', " ")
}

/// A number of things: `1 effect`, `2 effects`.
pub(crate) fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_stay_within_their_segment() {
        assert_eq!(fill("/a/{x}/b/{y}", &["p/q", ".."]), "/a/p%2Fq/b/%2E%2E");
        assert_eq!(query(&[("a", Some("x y&z")), ("b", None), ("c", Some(""))]), "?a=x%20y%26z");
    }
}
