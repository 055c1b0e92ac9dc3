//! The subset of Markdown in descriptions, as HTML: paragraphs, lists, code, links and strong
//! words.

/// Text for HTML, in elements and quoted attributes.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(c),
        }
    }
    escaped
}

/// Appends the paragraphs and lists of `text`.
pub(super) fn render(page: &mut String, text: &str) {
    for block in text.split("\n\n").filter(|block| !block.trim().is_empty()) {
        match block.starts_with("- ") {
            true => {
                page.push_str("<ul>");
                for item in block.lines() {
                    page.push_str("<li>");
                    page.push_str(&inline(item.trim_start_matches("- ")));
                    page.push_str("</li>");
                }
                page.push_str("</ul>");
            }
            false => {
                page.push_str("<p>");
                page.push_str(&inline(block));
                page.push_str("</p>");
            }
        }
    }
}

/// Code, links and strong words of one line.
pub(super) fn inline(text: &str) -> String {
    let mut shown = String::with_capacity(text.len() + 32);
    let mut rest = text;
    while let Some(place) = rest.find(['`', '[', '*']) {
        shown.push_str(&escape(&rest[..place]));
        rest = &rest[place..];
        let taken = code(rest).or_else(|| link(rest)).or_else(|| strong(rest));
        let (html, length) = taken.unwrap_or_else(|| (escape(&rest[..1]), 1));
        shown.push_str(&html);
        rest = &rest[length..];
    }
    shown.push_str(&escape(rest));
    shown
}

fn code(text: &str) -> Option<(String, usize)> {
    let inner = text.strip_prefix('`')?;
    let end = inner.find('`')?;
    Some((format!("<code>{}</code>", escape(&inner[..end])), end + 2))
}

fn link(text: &str) -> Option<(String, usize)> {
    let inner = text.strip_prefix('[')?;
    let (name, rest) = inner.split_once("](")?;
    // Only to this server: a description links nothing else.
    let (target, _) = rest.split_once(')').filter(|(target, _)| target.starts_with(['/', '#']))?;
    let length = name.len() + target.len() + 4;
    Some((format!("<a href=\"{}\">{}</a>", escape(target), inline(name)), length))
}

fn strong(text: &str) -> Option<(String, usize)> {
    let inner = text.strip_prefix("**")?;
    let end = inner.find("**")?;
    Some((format!("<strong>{}</strong>", inline(&inner[..end])), end + 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_links_and_strong_words_become_elements() {
        assert_eq!(
            inline("**Do** [`run_ended`](/errors/run_ended): <b> & `a < b`."),
            "<strong>Do</strong> <a href=\"/errors/run_ended\"><code>run_ended</code></a>: &lt;b&gt; &amp; <code>a &lt; b</code>."
        );
    }

    #[test]
    fn what_is_not_markup_stays_text() {
        assert_eq!(inline("2 * 3 [x] `open"), "2 * 3 [x] `open");
        assert_eq!(inline("[a](javascript:alert(1))"), "[a](javascript:alert(1))");
    }

    #[test]
    fn blocks_become_paragraphs_and_lists() {
        let mut page = String::new();
        render(&mut page, "One.\n\n- a\n- b");
        assert_eq!(page, "<p>One.</p><ul><li>a</li><li>b</li></ul>");
    }
}
