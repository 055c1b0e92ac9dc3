//! The report: one list of figures, shown as a table or as one JSON object.

use comfy_table::{CellAlignment, Table, presets};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};

use super::place::BenchStore;
use super::rss;
use crate::output::grouped;

/// Figures that every workload has, `null` where they mean nothing for it.
const COMMON: [&str; 8] = [
    "runs_per_second",
    "steps_per_second",
    "p50_ms",
    "p99_ms",
    "ceiling_steps_per_second",
    "ceiling_ratio",
    "rss_bytes",
    "rss_peak_bytes",
];

/// The figures of one workload.
#[derive(Debug)]
pub(super) struct Report {
    workload: &'static str,
    store: String,
    figures: Vec<Figure>,
}

#[derive(Debug)]
struct Figure {
    /// Ends in its unit.
    name: &'static str,
    value: Value,
    /// Target value.
    aim: Option<&'static str>,
}

impl Report {
    pub(super) fn new(workload: &'static str, place: &BenchStore) -> Self {
        let mut report = Report { workload, store: place.shown(), figures: Vec::new() };
        COMMON.iter().for_each(|name| report.put(name, Value::Null, None));
        report
    }

    /// Adds a figure, or gives a common one its value.
    pub(super) fn set(&mut self, name: &'static str, value: impl Into<Value>) {
        self.put(name, value.into(), None);
    }

    /// The same for a measured number, rounded to what it can tell.
    pub(super) fn measure(&mut self, name: &'static str, value: Option<f64>) {
        self.put(name, json!(value.map(rounded)), None);
    }

    /// The same for a number that has an aim.
    pub(super) fn judge(&mut self, name: &'static str, value: Option<f64>, aim: &'static str) {
        self.put(name, json!(value.map(rounded)), Some(aim));
    }

    /// Notes how much memory the process holds now.
    pub(super) fn read_rss(&mut self) {
        let rss = rss::read();
        self.put("rss_bytes", json!(rss.now), None);
        self.put("rss_peak_bytes", json!(rss.peak), None);
    }

    fn put(&mut self, name: &'static str, value: Value, aim: Option<&'static str>) {
        match self.figures.iter_mut().find(|figure| figure.name == name) {
            Some(figure) => {
                figure.value = value;
                figure.aim = aim;
            }
            None => self.figures.push(Figure { name, value, aim }),
        }
    }

    /// A table for people; what was not measured is left out.
    pub(super) fn to_text(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::UTF8_BORDERS_ONLY);
        for figure in self.figures.iter().filter(|figure| !figure.value.is_null()) {
            let aim = figure.aim.map(|aim| format!("aim: {aim}")).unwrap_or_default();
            table.add_row(vec![figure.name.replace('_', " "), shown(&figure.value), aim]);
        }
        if let Some(column) = table.column_mut(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        format!("{} on {}\n{table}\n", self.workload, self.store)
    }
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2 + self.figures.len()))?;
        map.serialize_entry("workload", self.workload)?;
        map.serialize_entry("store", &self.store)?;
        for figure in &self.figures {
            map.serialize_entry(figure.name, &figure.value)?;
        }
        map.end()
    }
}

/// The reports of all workloads as one object.
#[derive(Debug, serde::Serialize)]
pub(super) struct AllReports {
    workload: &'static str,
    store: String,
    workloads: Vec<Report>,
}

impl AllReports {
    pub(super) fn new(place: &BenchStore, workloads: Vec<Report>) -> Self {
        AllReports { workload: "all", store: place.shown(), workloads }
    }
}

/// Four digits, or all before the point: what is measured is not known better.
fn rounded(value: f64) -> f64 {
    if !value.is_finite() || value == 0.0 {
        return value;
    }
    let places = (3 - value.abs().log10().floor() as i32).clamp(0, 9);
    let factor = 10f64.powi(places);
    (value * factor).round() / factor
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => match (number.as_u64(), number.as_f64()) {
            (Some(whole), _) => grouped(whole),
            (None, Some(float)) if float >= 1_000.0 => grouped(float as u64),
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_report_has_the_common_figures_and_only_measured_ones_in_its_table() {
        let place = BenchStore::find(Some("memory:")).unwrap();
        let mut report = Report::new("steps", &place);
        report.judge("ceiling_ratio", Some(0.512_345), "at least 0.5");
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["ceiling_ratio"], 0.5123);
        assert!(COMMON.iter().all(|name| json.get(name).is_some()));
        let text = report.to_text();
        assert!(text.contains("ceiling ratio") && text.contains("aim: at least 0.5"), "{text}");
        assert!(!text.contains("p50"), "{text}");
    }

    #[test]
    fn numbers_keep_four_digits() {
        assert_eq!(rounded(123_456.7), 123_457.0);
        assert_eq!(rounded(1.234_56), 1.235);
        assert_eq!(rounded(0.000_123_456), 0.000_123_5);
        assert_eq!(rounded(0.0), 0.0);
    }
}
