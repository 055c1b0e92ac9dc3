//! Bars on standard error, for a person who waits.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar for `total` of something; nothing is drawn if nobody watches.
pub(super) fn bar(what: impl Into<String>, total: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:32} {bar:30} {human_pos}/{human_len} {per_sec} {eta}");
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(5));
    bar.with_style(style.expect("a valid literal")).with_message(what.into())
}
