//! Tables and spans of time, for people.

use std::ops::Range;
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};

/// An empty table with these columns. Nothing in it is wrapped, so that ids can be copied.
pub(crate) fn table<const N: usize>(columns: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header(columns);
    table
}

/// Aligns columns of numbers.
pub(crate) fn align_right(table: &mut Table, columns: Range<usize>) {
    for place in columns {
        if let Some(column) = table.column_mut(place) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// What others wrote, on one line, and without what a terminal would obey.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
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
    fn what_others_wrote_cannot_steer_the_terminal() {
        assert_eq!(plain("reset\n\u{1b}[2Jgone"), "reset  [2Jgone");
    }
}
