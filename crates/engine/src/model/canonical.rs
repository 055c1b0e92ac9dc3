//! Canonical JSON (RFC 8785): equal values have equal text, whatever the order of keys or the white space.

use serde_json::Value;

/// Writes `value` with keys in UTF-16 order and numbers in their ECMAScript form.
///
/// Integers beyond 2^53 are written in full, so two different integers never look alike.
pub fn canonical_json(value: &Value) -> String {
    let mut text = String::new();
    write(value, &mut text);
    text
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Number(n) => match n.as_f64() {
            Some(float) if n.is_f64() => out.push_str(ryu_js::Buffer::new().format(float)),
            _ => out.push_str(&n.to_string()),
        },
        Value::String(s) => write_string(s, out),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            out.push('{');
            for (i, (key, field)) in fields.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_string(key, out);
                out.push(':');
                write(field, out);
            }
            out.push('}');
        }
    }
}

/// serde_json escapes exactly what RFC 8785 requires.
fn write_string(text: &str, out: &mut String) {
    out.push_str(&serde_json::to_string(text).expect("a string is always JSON"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canon(text: &str) -> String {
        canonical_json(&serde_json::from_str(text).unwrap())
    }

    #[test]
    fn the_example_of_rfc_8785_comes_out_as_printed() {
        let text = r#"{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],
            "string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}"#;
        assert_eq!(
            canon(text),
            r#"{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}"#
        );
    }

    /// S2.28: a proxy that reorders fields or changes white space changes nothing.
    #[test]
    fn order_and_white_space_do_not_count() {
        assert_eq!(canon(r#"{"b":1,"a":[1.0,2]}"#), canon("{ \"a\": [1, 2.0],\n \"b\": 1 }"));
    }

    #[test]
    fn keys_sort_by_utf_16_units() {
        assert_eq!(
            canon(r#"{"\ufb33":1,"\ud83d\ude00":2,"a":3}"#),
            "{\"a\":3,\"\u{1f600}\":2,\"\u{fb33}\":1}"
        );
    }

    #[test]
    fn large_whole_numbers_stay_distinct() {
        assert_ne!(canon("9007199254740993"), canon("9007199254740992"));
    }
}
