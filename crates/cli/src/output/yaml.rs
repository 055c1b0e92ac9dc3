//! JSON values written as YAML: blocks instead of braces, and quotes only where they are needed.

use serde_json::Value;

use super::tables::without_commands;

/// Words that YAML, in one of its versions, takes for something else than a text.
const RESERVED: &[&str] = &["null", "true", "false", "yes", "no", "on", "off", "y", "n"];

/// The value as one YAML document, with an end of line.
pub(crate) fn document(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Object(fields) if !fields.is_empty() => block(value, 0, &mut text),
        Value::Array(items) if !items.is_empty() => block(value, 0, &mut text),
        scalar => {
            text.push_str(&inline(scalar));
            text.push('\n');
        }
    }
    text
}

fn block(value: &Value, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                text.push_str(&format!("{indent}{}:", word(key)));
                below(value, depth, text);
            }
        }
        Value::Array(items) => {
            for value in items {
                text.push_str(&format!("{indent}-"));
                below(value, depth, text);
            }
        }
        scalar => text.push_str(&format!("{indent}{}\n", inline(scalar))),
    }
}

/// A value after its key or its dash: on the same line if it is short, as a block of its own otherwise.
fn below(value: &Value, depth: usize, text: &mut String) {
    let is_block = match value {
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    match is_block {
        true => {
            text.push('\n');
            block(value, depth + 1, text);
        }
        false => text.push_str(&format!(" {}\n", inline(value))),
    }
}

/// Numbers, booleans and empty collections are written as in JSON, which YAML reads, too.
fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => word(text),
        other => other.to_string(),
    }
}

/// A text, bare if nothing else could be meant by it.
fn word(text: &str) -> String {
    let is_plain = text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.' | '/'))
        && !RESERVED.contains(&text.to_ascii_lowercase().as_str());
    match is_plain {
        true => text.to_owned(),
        // YAML reads the escapes of JSON. All other control characters are escaped, too.
        false => without_commands(&Value::from(text).to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn yaml_holds_what_json_holds() {
        let value = json!({
            "a": "x: y", "b": [1, null, "\u{1b}[2J\u{9b}", [], {}, [[1], {"k": "v"}]], "c": {"d": 1.5, "e f": -2},
            "yes": "no", "empty": "", "number": "12", "date": "2026-01-01", "lines": "a\nb\t\"c\"\\", "é": "😀", "#": "- a",
            "null": null, "large": u64::MAX, "exponent": "1e3", "tilde": "~"
        });
        let text = document(&value);
        assert!(!text.contains('\u{1b}') && !text.contains('\u{9b}'), "{text}");
        assert_eq!(serde_saphyr::from_str::<Value>(&text).unwrap(), value, "{text}");
        for scalar in [json!(1), json!("x y"), json!(null), json!([]), json!({}), json!([1, [2]])] {
            assert_eq!(serde_saphyr::from_str::<Value>(&document(&scalar)).unwrap(), scalar);
        }
    }

    #[test]
    fn yaml_is_easy_on_the_eye() {
        let value = json!({"id": "run_1", "steps": [{"name": "say"}], "input": {}});
        assert_eq!(document(&value), "id: run_1\ninput: {}\nsteps:\n  -\n    name: say\n");
    }
}
