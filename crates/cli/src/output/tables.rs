//! Tables and durations, for people.

use std::fmt::{self, Write};
use std::io::{self, IsTerminal};
use std::ops::{Deref, DerefMut, Range};
use std::time::Duration;

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, presets};

/// A table that fits the terminal. Elsewhere nothing is cut.
#[derive(Debug, Clone)]
pub(crate) struct FittedTable {
    table: Table,
    /// Width of the terminal, if one is listening.
    width: Option<u16>,
}

/// An empty table with these columns.
pub(crate) fn table<const N: usize>(columns: [&str; N]) -> FittedTable {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header(columns);
    FittedTable { table, width: terminal_width() }
}

impl Deref for FittedTable {
    type Target = Table;

    fn deref(&self) -> &Table {
        &self.table
    }
}

impl DerefMut for FittedTable {
    fn deref_mut(&mut self) -> &mut Table {
        &mut self.table
    }
}

impl fmt::Display for FittedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.table.to_string();
        let needed = whole.lines().next().map_or(0, |line| line.chars().count());
        let Some(width) = self.width.filter(|width| needed > usize::from(*width)) else {
            return f.write_str(&whole);
        };
        let mut table = self.table.clone();
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        // The first column holds what other commands take, so it stays whole.
        if let Some(column) = table.column_mut(0) {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
        for row in table.row_iter_mut() {
            row.max_height(1);
        }
        write!(f, "{table}")
    }
}

/// Columns of the terminal that standard output goes to.
fn terminal_width() -> Option<u16> {
    let stdout = io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    let columns = rustix::termios::tcgetwinsize(stdout).ok()?.ws_col;
    (columns > 0).then_some(columns)
}

/// Aligns columns of numbers.
pub(crate) fn align_right(table: &mut Table, columns: Range<usize>) {
    for place in columns {
        if let Some(column) = table.column_mut(place) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// Text from outside on one line, without terminal control characters.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|letter| if is_command(letter) { ' ' } else { letter }).collect()
}

/// JSON or YAML with terminal control characters escaped, except for line ends. Such characters occur only
/// inside of texts, where JSON reads the spelling as the letter.
pub(crate) fn without_commands(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' => safe.push(letter),
            letter if is_command(letter) => _ = write!(safe, "\\u{:04x}", u32::from(letter)),
            letter => safe.push(letter),
        }
    }
    safe
}

/// Would a terminal do something else than show it, or show what follows in another order?
fn is_command(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// `3 h 20 min`: the two largest units.
pub(crate) fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    let two = |large: u64, unit: &str, small: u64, smaller: &str| match small {
        0 => format!("{large} {unit}"),
        _ => format!("{large} {unit} {small} {smaller}"),
    };
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => two(seconds / 60, "min", seconds % 60, "s"),
        3_600..86_400 => two(seconds / 3_600, "h", seconds % 3_600 / 60, "min"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_its_two_largest_units() {
        for (seconds, text) in [
            (0, "0 s"),
            (59, "59 s"),
            (61, "1 min 1 s"),
            (7_200, "2 h"),
            (12_060, "3 h 21 min"),
            (93_600, "1 d 2 h"),
        ] {
            assert_eq!(span(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn a_table_fits_the_terminal_and_keeps_its_ids_whole() {
        let mut table = table(["id", "what"]);
        table.add_row(["run_018f", &"word ".repeat(40)]);
        table.width = Some(40);
        let text = table.to_string();
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
        assert!(text.contains("run_018f") && text.contains('…') && text.lines().count() == 5, "{text}");
        table.width = None;
        assert!(table.to_string().contains(&"word ".repeat(40)), "elsewhere nothing is cut");
    }

    #[test]
    fn what_others_wrote_cannot_steer_the_terminal() {
        assert_eq!(plain("reset\n\u{1b}[2Jgone"), "reset  [2Jgone");
        assert_eq!(plain("\u{9b}2J\u{202e}x\u{7f}"), " 2J x ");
        let json = without_commands("{\n\"a\":\"\u{9b}2J\u{202e}é\"\n}");
        assert_eq!(json, "{\n\"a\":\"\\u009b2J\\u202eé\"\n}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap()["a"], "\u{9b}2J\u{202e}é");
    }
}
