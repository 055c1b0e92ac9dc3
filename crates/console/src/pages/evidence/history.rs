//! The numbers of the evidence over time: effects by when they were first entered, from the same rows.

use std::collections::BTreeMap;

use hapax_api::{LedgerClass, LedgerEntry};
use jiff::Timestamp;
use maud::{Markup, html};

use crate::limits::MAX_HISTORY_BARS;
use crate::pages::ledger::{self, first};
use crate::text;

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;
/// Widths of a bar and their names, the smallest first.
const WIDTHS: [(i64, &str); 8] = [
    (MINUTE_MS, "minute"),
    (5 * MINUTE_MS, "five minutes"),
    (15 * MINUTE_MS, "quarter of an hour"),
    (HOUR_MS, "hour"),
    (6 * HOUR_MS, "six hours"),
    (DAY_MS, "day"),
    (7 * DAY_MS, "week"),
    (28 * DAY_MS, "four weeks"),
];
/// Fewer bars than this look like a wall, so empty ones come before them.
const FEWEST_BARS: i64 = 24;

/// Numbers of the effects that were first entered in one stretch of time.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Bar {
    effects: u64,
    /// Attempts beyond the first.
    again: u64,
    entered_again: u64,
    /// Effects that may have happened twice, or did, as the two large numbers count them.
    perhaps_twice: u64,
    twice: u64,
    refused: u64,
    rulings: u64,
}

impl Bar {
    fn add(&mut self, entry: &LedgerEntry) {
        self.effects += 1;
        self.again += entry.attempt_log.len().saturating_sub(1) as u64;
        self.entered_again += u64::from(entry.attempt_log.len() > 1);
        if entry.class != LedgerClass::Idempotent {
            self.twice += u64::from(entry.happened_twice);
            self.perhaps_twice += u64::from(entry.may_have_happened_twice);
        }
        self.refused += u64::from(entry.refused_writes);
        self.rulings += entry.rulings.len() as u64;
    }
}

/// Bars in the order of time, without gaps, and the width of each.
struct History {
    width_ms: i64,
    each: &'static str,
    /// Beginning of each in milliseconds since 1970.
    bars: Vec<(i64, Bar)>,
    /// Effects that were never entered, or that are older than the first bar.
    left_out: usize,
}

fn entered_ms(entry: &LedgerEntry) -> Option<i64> {
    first(entry)?.parse::<Timestamp>().ok().map(|at| at.as_millisecond())
}

impl History {
    /// Bars as narrow as they can be without being too many.
    fn of(entries: &[LedgerEntry]) -> Option<Self> {
        let known: Vec<(i64, &LedgerEntry)> =
            entries.iter().filter_map(|entry| Some((entered_ms(entry)?, entry))).collect();
        let (from, to) =
            known.iter().fold((i64::MAX, i64::MIN), |(from, to), (at, _)| (from.min(*at), to.max(*at)));
        let widest = WIDTHS[WIDTHS.len() - 1];
        let places = |width: i64| to.div_euclid(width) - from.div_euclid(width) + 1;
        let fits = |(width, _): &(i64, &str)| places(*width) <= MAX_HISTORY_BARS as i64;
        let (width_ms, each) =
            if known.is_empty() { return None } else { WIDTHS.into_iter().find(fits).unwrap_or(widest) };
        let last = to.div_euclid(width_ms);
        let oldest =
            from.div_euclid(width_ms).max(last - MAX_HISTORY_BARS as i64 + 1).min(last - FEWEST_BARS + 1);
        let mut bars: BTreeMap<i64, Bar> = (oldest..=last).map(|place| (place, Bar::default())).collect();
        let mut left_out = entries.len() - known.len();
        for (at, entry) in known {
            match bars.get_mut(&at.div_euclid(width_ms)) {
                Some(bar) => bar.add(entry),
                None => left_out += 1,
            }
        }
        Some(History {
            width_ms,
            each,
            bars: bars.into_iter().map(|(place, bar)| (place * width_ms, bar)).collect(),
            left_out,
        })
    }
}

/// An instant as the filter of the ledger takes it: to the minute, in UTC.
fn minute(ms: i64) -> String {
    let at = Timestamp::from_millisecond(ms).unwrap_or(Timestamp::UNIX_EPOCH);
    at.strftime("%Y-%m-%dT%H:%M").to_string()
}

fn name(from_ms: i64, width_ms: i64) -> String {
    let at = Timestamp::from_millisecond(from_ms).unwrap_or(Timestamp::UNIX_EPOCH);
    let format = if width_ms < DAY_MS { "%b %-d, %H:%M" } else { "%b %-d" };
    at.strftime(format).to_string()
}

/// The numbers over time: a chart, and a table whose numbers link to their rows.
pub(super) fn over_time(entries: &[LedgerEntry]) -> Markup {
    let Some(history) = History::of(entries) else { return html! {} };
    html! {
        section {
            h2 { "Over time" }
            p.hint {
                "Effects by the " (history.each) " in which they were first entered, in UTC. "
                span.legend {
                    @for (class, name) in [("first", "effects"), ("again", "attempts beyond the first"), ("doubt", "perhaps twice"), ("bad", "twice")] {
                        span { i.key.(class) {} (name) }
                    }
                }
                @if history.left_out > 0 { " " (text::count(history.left_out, "effect")) " are not drawn: older, or not entered yet." }
            }
            (drawn(&history))
            details.more #history-table { summary { "As a table, each number with its rows" } (table(&history)) }
        }
    }
}

/// Bars as an image. Each bar leads to its rows.
fn drawn(history: &History) -> Markup {
    let most = history.bars.iter().map(|(_, bar)| bar.effects + bar.again).max().unwrap_or(1).max(1) as f64;
    let width = 100.0 / history.bars.len() as f64;
    let height = |count: u64| count as f64 / most * 100.0;
    let (first, last) = (history.bars.first(), history.bars.last());
    html! {
        div.history {
            span.scale aria-hidden="true" { (most) }
            svg.bars preserveAspectRatio="none" viewBox="0 0 100 100" role="group" aria-label="Effects over time" {
                @for (place, (from, bar)) in history.bars.iter().enumerate() {
                    @if bar.effects > 0 {
                        @let x = place as f64 * width + width * 0.12;
                        @let parts = [("first", bar.effects), ("again", bar.again), ("doubt", bar.perhaps_twice), ("bad", bar.twice)];
                        @let says = format!("{}: {}, {} attempts beyond the first, {} perhaps twice, {} twice", name(*from, history.width_ms), text::count(bar.effects as usize, "effect"), bar.again, bar.perhaps_twice, bar.twice);
                        a href=(rows(history, *from, "")) aria-label=(says) {
                            title { (says) }
                            rect.whole x=(format!("{:.3}", place as f64 * width)) width=(format!("{width:.3}")) y="0" height="100" {}
                            @for (number, (class, count)) in parts.into_iter().enumerate() {
                                @if count > 0 {
                                    // Attempts include the effects that may have happened twice, so this bar covers a part of theirs.
                                    @let base = match number { 0 => 0.0, _ => height(bar.effects) };
                                    @let tall = height(count).max(1.5);
                                    rect.(class) x=(format!("{x:.3}")) width=(format!("{:.3}", width * 0.76)) y=(format!("{:.3}", (100.0 - base - tall).max(0.0))) height=(format!("{tall:.3}")) {}
                                }
                            }
                        }
                    }
                }
            }
            div.history-axis aria-hidden="true" {
                @if let Some((from, _)) = first { span { (name(*from, history.width_ms)) } }
                @if history.bars.len() > 1 { @if let Some((from, _)) = last { span { (name(*from, history.width_ms)) } } }
            }
        }
    }
}

/// The rows behind a number: effects first entered in this stretch.
fn rows(history: &History, from: i64, only: &str) -> String {
    let (since, until) = (minute(from), minute(from + history.width_ms - 60_000));
    let query = [("since", Some(since.as_str())), ("until", Some(until.as_str())), ("only", Some(only))];
    format!("{}{}", ledger::PATH, text::query(&query))
}

fn table(history: &History) -> Markup {
    let busy = history.bars.iter().rev().filter(|(_, bar)| bar.effects > 0);
    let linked = |from: i64, only: &str, count: u64| {
        html! { @if count == 0 { span.number.dim { "0" } } @else { a.number href=(rows(history, from, only)) { (count) } } }
    };
    let rows = busy.map(|(from, bar)| {
        vec![
            html! { (name(*from, history.width_ms)) },
            linked(*from, "", bar.effects),
            linked(*from, "entered", bar.again),
            linked(*from, "perhaps", bar.perhaps_twice),
            linked(*from, "twice", bar.twice),
            linked(*from, "refused", bar.refused),
            linked(*from, "ruled", bar.rulings),
        ]
    });
    let columns = [
        "First entered",
        "Effects",
        "Attempts beyond the first",
        "Perhaps twice",
        "Twice",
        "Late outcomes refused",
        "Decisions of people",
    ];
    crate::ui::table(&columns, rows.collect(), "Nothing was entered.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(began: &str, attempts: usize, class: &str) -> LedgerEntry {
        let attempt = |number| format!(r#"{{"number":{number},"beganAt":"{began}","status":"unknown"}}"#);
        let log: Vec<_> = (1..=attempts).map(attempt).collect();
        let text = format!(
            r#"{{"effectKey":"r:x","runId":"r","stepId":"x","class":"{class}","attemptLog":[{}],"probes":[],"rulings":[],"refusedWrites":1,
               "happened":1,"mayHaveHappened":1,"happenedTwice":0,"mayHaveHappenedTwice":{}}}"#,
            log.join(","),
            attempts - 1
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn every_effect_counts_once_in_the_stretch_it_was_first_entered_in() {
        let entries = [
            entry("2026-11-18T09:59:59.9Z", 1, "claimed"),
            entry("2026-11-18T10:00:00Z", 3, "claimed"),
            entry("2026-11-18T11:30:00Z", 2, "idempotent"),
        ];
        let history = History::of(&entries).unwrap();
        assert_eq!((history.width_ms, history.bars.len(), history.left_out), (5 * MINUTE_MS, 24, 0));
        let busy = history.bars.iter().filter(|(_, bar)| bar.effects > 0);
        let numbers: Vec<_> =
            busy.map(|(_, bar)| (bar.effects, bar.again, bar.perhaps_twice, bar.refused)).collect();
        assert_eq!(numbers, [(1, 0, 0, 1), (1, 2, 2, 1), (1, 1, 0, 1)]);
        let second = history.bars.iter().filter(|(_, bar)| bar.effects > 0).nth(1).unwrap().0;
        assert!(
            rows(&history, second, "entered").contains("since=2026-11-18T10%3A00&until=2026-11-18T10%3A04")
        );
    }

    #[test]
    fn a_long_time_has_wider_bars_and_never_too_many() {
        let far = [entry("2016-01-01T00:00:00Z", 1, "claimed"), entry("2026-11-18T10:00:00Z", 1, "claimed")];
        let history = History::of(&far).unwrap();
        assert_eq!((history.bars.len(), history.left_out), (MAX_HISTORY_BARS, 1));
        let month =
            [entry("2026-10-20T00:00:00Z", 1, "claimed"), entry("2026-11-18T10:00:00Z", 1, "claimed")];
        assert_eq!(History::of(&month).unwrap().width_ms, DAY_MS);
        assert!(History::of(&[]).is_none());
    }
}
