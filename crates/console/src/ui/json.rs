//! JSON as it was stored: laid out by the style, so that the text of the element is the stored text, byte for byte.

use maud::{Markup, PreEscaped, Render, html};

use crate::limits::{MAX_LAID_OUT_JSON, MAX_SHOWN_JSON};

/// A JSON value as stored. Numbers are not read, so none is changed.
pub(crate) fn json(text: &str) -> Markup {
    if text.len() > MAX_SHOWN_JSON {
        let cut = text.floor_char_boundary(MAX_SHOWN_JSON);
        return html! {
            pre.json.raw tabindex="0" { (text[..cut]) }
            p.hint { "Cut after " (MAX_SHOWN_JSON / 1024) " kB of " (text.len() / 1024) " kB. The API has all of it." }
        };
    }
    // A stored text with line breaks keeps its own layout.
    let is_raw = text.len() > MAX_LAID_OUT_JSON || text.contains('\n') || matches!(text, "{}" | "[]");
    match is_raw {
        true => html! { pre.json.raw tabindex="0" { (text) } },
        false => html! { pre.json tabindex="0" { (PreEscaped(lay_out(text))) } },
    }
}

/// The tokens of the text, in spans: nothing but spans is added.
fn lay_out(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 4);
    let mut rest = text;
    // Is a line open within each container around?
    let mut depth = 0_usize;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => string_length(rest),
            '{' | '[' | '}' | ']' | ',' | ':' => 1,
            _ => rest.find(['"', '{', '[', '}', ']', ',', ':']).unwrap_or(rest.len()),
        };
        let (token, after) = rest.split_at(length);
        match first {
            '{' | '[' => {
                out.push_str(if first == '{' { "<b>{</b>" } else { "<b>[</b>" });
                depth += 1;
                out.push_str("<span class=\"in\"><span class=\"line\">");
            }
            '}' | ']' => {
                if depth > 0 {
                    depth -= 1;
                    out.push_str("</span></span>");
                }
                out.push_str(if first == '}' { "<b>}</b>" } else { "<b>]</b>" });
            }
            ',' => {
                out.push(',');
                if depth > 0 {
                    out.push_str("</span><span class=\"line\">");
                }
            }
            // Where the text has no space, the style makes one.
            ':' if after.starts_with(char::is_whitespace) => out.push(':'),
            ':' => out.push_str("<b class=\"tight\">:</b>"),
            '"' => {
                let class = if after.trim_start().starts_with(':') { "name" } else { "text" };
                span(&mut out, class, token);
            }
            // Where the style begins a line, space of the text would move it.
            _ if token.trim().is_empty() && is_line_start(&out) => {
                out.push_str("<i>");
                out.push_str(token);
                out.push_str("</i>");
            }
            _ if token.trim().is_empty() => out.push_str(token),
            _ => span(&mut out, "value", token),
        }
        rest = after;
    }
    for _ in 0..depth {
        out.push_str("</span></span>");
    }
    out
}

fn is_line_start(out: &str) -> bool {
    out.ends_with("class=\"line\">")
}

fn span(out: &mut String, class: &str, token: &str) {
    out.push_str("<span class=\"");
    out.push_str(class);
    out.push_str("\">");
    token.render_to(out);
    out.push_str("</span>");
}

/// How many bytes the string at the start has, with its quotes.
fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    for (place, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return place + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text content that a browser computes.
    fn text_of(markup: &str) -> String {
        let mut text = String::new();
        let mut is_tag = false;
        for letter in markup.chars() {
            match letter {
                '<' => is_tag = true,
                '>' if is_tag => is_tag = false,
                _ if is_tag => {}
                other => text.push(other),
            }
        }
        text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
    }

    #[test]
    fn the_text_of_the_element_is_the_stored_text_byte_for_byte() {
        for stored in [
            r#"{ "b" : 1.00, "a":[ 18446744073709551615 , -0.0,1e400 ],"<script>":"a\"}{\\","n":null}"#,
            "[]",
            "\"alone\"",
            "12",
            "{\"a\":{},\"b\":[[],[{}]]}",
        ] {
            assert_eq!(text_of(&lay_out(stored)), stored);
            assert!(!lay_out(stored).contains("<script"), "{stored}");
        }
    }

    #[test]
    fn what_is_no_json_is_still_only_text() {
        for broken in ["}}]]", "{\"a", "\"\\", "<img src=x onerror=alert(1)>", ""] {
            let shown = lay_out(broken);
            assert_eq!(text_of(&shown), broken);
            assert!(!shown.contains("<img"), "{shown}");
            assert_eq!(shown.matches("<span").count(), shown.matches("</span>").count());
        }
    }
}
