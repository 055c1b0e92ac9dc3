//! The picture of a state machine with the present status lit.

use maud::{Markup, PreEscaped, html};

/// Inlines an SVG picture of the API in the style of the page. The server escapes its texts, and it contains no script.
pub(crate) fn diagram(svg: &str, present: Option<&str>) -> Markup {
    let (Some(style), Some(end)) = (svg.find("<style>"), svg.find("</style>")) else { return html! {} };
    let mut picture = format!("{}{}", &svg[..style], &svg[end + "</style>".len()..]);
    if let Some(present) = present {
        let text = format!(">{}</text></g>", html! { (present) }.into_string());
        let group = picture.find(&text).and_then(|place| picture[..place].rfind("<g class=\"status"));
        if let Some(group) = group {
            picture.insert_str(group + "<g class=\"status".len(), " here");
        }
    }
    html! { figure.diagram tabindex="0" { (PreEscaped(picture)) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_present_status_is_lit_and_the_style_is_the_page_s() {
        let svg = "<svg><style>x{}</style><g class=\"status\"><text>a</text></g><g class=\"status claimed\"><text>b</text></g></svg>";
        let shown = diagram(svg, Some("b")).into_string();
        assert!(shown.contains("<g class=\"status here claimed\"><text>b"), "{shown}");
        assert!(!shown.contains("<style>"));
        assert_eq!(diagram("nothing", None).into_string(), "");
    }
}
