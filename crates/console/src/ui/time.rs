//! Instants and spans. Without scripts they are in UTC; the script puts them into the viewer's zone and leaves UTC in the title.

use jiff::Timestamp;
use maud::{Markup, html};

/// An instant.
pub(crate) fn time(at: &str) -> Markup {
    match at.parse::<Timestamp>() {
        Ok(instant) => {
            let short = instant.strftime("%b %-d, %H:%M:%S").to_string();
            html! { time datetime=(at) title=(utc(instant)) { (short) } }
        }
        Err(_) => html! { (at) },
    }
}

fn utc(instant: Timestamp) -> String {
    instant.strftime("%Y-%m-%d %H:%M:%S%.3f UTC").to_string()
}

/// How long ago, or how soon, an instant is; the instant is in the title.
pub(crate) fn ago(at: &str, now_ms: i64) -> Markup {
    let Ok(instant) = at.parse::<Timestamp>() else { return html! { (at) } };
    let span = now_ms - instant.as_millisecond();
    let text = match span {
        0.. => format!("{} ago", span_text(span)),
        _ => format!("in {}", span_text(-span)),
    };
    html! { time datetime=(at) title=(utc(instant)) data-relative { (text) } }
}

/// Milliseconds from now to an instant; negative if it has passed.
pub(crate) fn until_ms(at: &str, now_ms: i64) -> Option<i64> {
    at.parse::<Timestamp>().ok().map(|at| at.as_millisecond() - now_ms)
}

/// Milliseconds between two instants.
pub(crate) fn span_between(from: &str, to: &str) -> Option<i64> {
    let (from, to) = (from.parse::<Timestamp>().ok()?, to.parse::<Timestamp>().ok()?);
    Some(to.as_millisecond() - from.as_millisecond())
}

/// A span in its two largest units.
pub(crate) fn span_text(ms: i64) -> String {
    let ms = ms.max(0);
    let seconds = ms / 1_000;
    let two = |large: i64, unit: &str, small: i64, smaller: &str| match small {
        0 => format!("{large} {unit}"),
        _ => format!("{large} {unit} {small} {smaller}"),
    };
    match seconds {
        0 => format!("{ms} ms"),
        1..10 => format!("{seconds}.{} s", ms % 1_000 / 100),
        10..60 => format!("{seconds} s"),
        60..3_600 => two(seconds / 60, "min", seconds % 60, "s"),
        3_600..86_400 => two(seconds / 3_600, "h", seconds % 3_600 / 60, "min"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_its_two_largest_units_and_is_never_negative() {
        let told =
            [(-5, "0 ms"), (999, "999 ms"), (1_250, "1.2 s"), (61_000, "1 min 1 s"), (90_000_000, "1 d 1 h")];
        for (ms, text) in told {
            assert_eq!(span_text(ms), text);
        }
    }

    #[test]
    fn an_instant_says_utc_in_its_title() {
        let shown = time("2026-11-18T20:05:15.042Z").into_string();
        assert!(shown.contains("title=\"2026-11-18 20:05:15.042 UTC\""), "{shown}");
    }
}
