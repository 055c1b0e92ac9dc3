//! The display: live figures, and the final result.

use std::time::Duration;

use anstyle::{AnsiColor, Style};
use comfy_table::{CellAlignment, ColumnConstraint, Table, Width, presets};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::STARTS_PER_ORDER;
use super::effect_counts::EffectCounts;
use crate::output::{grouped, is_watched, say};

const HEADLINE: &str =
    "A shop takes orders, its worker is killed again and again, and every card is charged once.";

/// Room for the longest note; the whole fits into 80 columns.
const NOTE_WIDTH: u16 = 52;

/// The live table on standard error: redrawn for a person, plain lines for a file.
pub(super) struct LiveTable {
    live: Option<ProgressBar>,
    news: String,
}

impl LiveTable {
    pub(super) fn new() -> LiveTable {
        say(HEADLINE);
        let live = is_watched().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            bar.with_style(ProgressStyle::with_template("{msg}").expect("a valid literal"))
        });
        LiveTable { live, news: String::new() }
    }

    /// Announces an event.
    pub(super) fn say(&mut self, at: Duration, news: &str) {
        self.news = format!("{:5.1} s  {news}", at.as_secs_f64());
        if self.live.is_none() {
            say(&self.news);
        }
    }

    pub(super) fn show(&self, tally: &EffectCounts) {
        if let Some(live) = &self.live {
            live.set_message(format!("\n{}\n{}", table(tally, DemoStage::Under), self.news));
            live.tick();
        }
    }

    pub(super) fn clear(&self) {
        if let Some(live) = &self.live {
            live.finish_and_clear();
        }
    }
}

/// Is it still going on?
#[derive(Clone, Copy, PartialEq, Eq)]
enum DemoStage {
    Under,
    Over,
}

/// The final words: the figures, what they prove, and what to do next.
pub(super) fn closing(tally: &EffectCounts) -> String {
    let good = Style::new().bold().fg_color(Some(AnsiColor::Green.into()));
    let bad = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
    let (style, verdict) = match tally.faults() {
        faults if faults.is_empty() => (good, proven(tally)),
        faults => (bad, format!("Broken: {}.", faults.join("; "))),
    };
    let kept = tally.database.as_ref().map(|path| format!("The database is {path}.\n")).unwrap_or_default();
    format!(
        "\n{}\n\n{style}{verdict}{style:#}\n{kept}See how fast that is on this disk: {} bench steps\n",
        table(tally, DemoStage::Over),
        command()
    )
}

fn proven(tally: &EffectCounts) -> String {
    format!(
        "Proven: {} starts and {} crashes came to {} runs and {} charges. No effect happened twice, none was lost.",
        grouped(tally.starts_fired),
        tally.crashes,
        grouped(tally.runs_created),
        grouped(tally.charges),
    )
}

/// How this program was called, so that the next command can be pasted.
fn command() -> &'static str {
    match std::env::var_os("CARGO") {
        Some(_) => "cargo run --release --",
        None => "hapax",
    }
}

fn table(tally: &EffectCounts, stage: DemoStage) -> Table {
    let done = match stage {
        DemoStage::Under => format!("{} done after {:.0} s", tally.runs_completed, tally.seconds),
        DemoStage::Over => format!("all done after {:.1} s", tally.seconds),
    };
    let runs = match stage {
        DemoStage::Under => ("runs completed", tally.runs_completed),
        DemoStage::Over => ("runs created", tally.runs_created),
    };
    let again = match tally.starts_sent_again {
        0 => String::new(),
        again => format!("; {again} unanswered ones again"),
    };
    let retried = tally.charge_calls - tally.charges;
    let rows = [
        ("orders", tally.orders, done),
        ("starts fired", tally.starts_fired, format!("each order {STARTS_PER_ORDER} times{again}")),
        (runs.0, runs.1, "one per idempotency key".to_string()),
        ("crashes", tally.crashes, "the worker killed in the middle (SIGKILL)".to_string()),
        ("recovered runs", tally.recovered, "went on after their last recorded step".to_string()),
        ("charges made", tally.charges, format!("{retried} retried under the same key and not made again")),
        ("effects in all", tally.effects, "reserved, charged, shipped, mailed".to_string()),
        ("duplicates", tally.duplicates, "counted by the providers, not by us".to_string()),
    ];
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    for (what, number, note) in rows {
        table.add_row(vec![what.to_string(), grouped(number), note]);
    }
    if let Some(column) = table.column_mut(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    if let Some(column) = table.column_mut(2) {
        // A table that changes its width while one looks at it is hard to read.
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(NOTE_WIDTH)));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_words_tell_what_was_proven_or_what_is_broken() {
        let good = EffectCounts {
            orders: 2,
            runs_created: 2,
            runs_completed: 2,
            charges: 2,
            charge_calls: 3,
            ..EffectCounts::default()
        };
        let text = closing(&good);
        assert!(text.contains("Proven") && text.contains("1 retried under the same key"), "{text}");
        let broken = EffectCounts { duplicates: 1, ..good };
        assert!(closing(&broken).contains("Broken: 1 effects were duplicated"));
    }
}
