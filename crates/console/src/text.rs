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

/// JSON with a line for each member, for people to edit. Only white space changes, so every number stays as it was written.
pub(crate) fn pretty(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let (mut depth, mut is_text, mut is_escaped, mut is_opened) = (0_usize, false, false, false);
    let break_line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    };
    for c in json.chars() {
        if is_text {
            out.push(c);
            is_text = c != '"' || is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            continue;
        }
        if c.is_ascii_whitespace() {
            continue;
        }
        let closes = matches!(c, '}' | ']');
        depth -= usize::from(closes && depth > 0);
        // An empty container stays on its line.
        if is_opened != closes {
            break_line(&mut out, depth);
        }
        is_opened = matches!(c, '{' | '[');
        depth += usize::from(is_opened);
        is_text = c == '"';
        match c {
            ',' => {
                out.push(',');
                break_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c => out.push(c),
        }
    }
    out
}

/// A cell that no spreadsheet takes for a formula or for two.
pub(crate) fn csv_cell(cell: &str) -> String {
    let guard = if cell.starts_with(['=', '+', '-', '@', '\t', '\r']) { "'" } else { "" };
    format!("\"{guard}{}\"", cell.replace('"', "\"\""))
}

/// Count with its noun: `1 effect`, `2 effects`.
pub(crate) fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn laying_out_adds_white_space_and_nothing_else() {
        let json = r#"{"a":[],"b":{"c":9007199254740993.0,"d":"x\\\"{,:}"},"e":[1, {"f":null}]}"#;
        let laid_out = pretty(json);
        assert_eq!(
            laid_out,
            "{\n  \"a\": [],\n  \"b\": {\n    \"c\": 9007199254740993.0,\n    \"d\": \"x\\\\\\\"{,:}\"\n  },\n  \"e\": [\n    1,\n    {\n      \"f\": null\n    }\n  ]\n}"
        );
        assert_eq!(pretty(&laid_out), laid_out, "laid out again it stays");
    }

    #[test]
    fn arguments_stay_within_their_segment() {
        assert_eq!(fill("/a/{x}/b/{y}", &["p/q", ".."]), "/a/p%2Fq/b/%2E%2E");
        assert_eq!(query(&[("a", Some("x y&z")), ("b", None), ("c", Some(""))]), "?a=x%20y%26z");
    }

    #[test]
    fn a_cell_is_no_formula() {
        assert_eq!(csv_cell("=cmd|' /C calc'!A0"), "\"'=cmd|' /C calc'!A0\"");
        assert_eq!(csv_cell("a\"b"), "\"a\"\"b\"");
    }
}
