//! The text format of Prometheus.

use std::fmt::Write;

/// A scrape being written. Every family has HELP and TYPE, and samples only under its own name.
#[derive(Debug, Default)]
pub(super) struct Exposition(String);

/// One metric with all its series.
pub(super) struct Family<'a> {
    out: &'a mut String,
    name: &'static str,
}

impl Exposition {
    pub(super) fn family(&mut self, name: &'static str, kind: &str, help: &str) -> Family<'_> {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
        Family { out: &mut self.0, name }
    }

    /// A gauge without labels.
    pub(super) fn gauge(&mut self, name: &'static str, help: &str, value: f64) {
        self.family(name, "gauge", help).sample(&[], value);
    }

    /// A counter without labels.
    pub(super) fn counter(&mut self, name: &'static str, help: &str, value: u64) {
        self.family(name, "counter", help).count(&[], value);
    }

    pub(super) fn finish(self) -> String {
        self.0
    }
}

impl Family<'_> {
    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: f64) {
        self.write("", labels, &value);
    }

    pub(super) fn count(&mut self, labels: &[(&str, &str)], value: u64) {
        self.write("", labels, &value);
    }

    /// The series of one histogram: cumulative buckets, sum and count. `counts` has one more than
    /// `bounds`, for the overflow.
    pub(super) fn histogram(&mut self, labels: &[(&str, &str)], bounds: &[f64], counts: &[u64], sum: f64) {
        let mut cumulative = 0;
        for (place, count) in counts.iter().enumerate() {
            cumulative += count;
            let bound = bounds.get(place).map_or_else(|| "+Inf".to_owned(), ToString::to_string);
            let labels: Vec<_> = labels.iter().copied().chain([("le", bound.as_str())]).collect();
            self.write("_bucket", &labels, &cumulative);
        }
        self.write("_sum", labels, &sum);
        self.write("_count", labels, &cumulative);
    }

    fn write(&mut self, suffix: &str, labels: &[(&str, &str)], value: &dyn std::fmt::Display) {
        let _ = write!(self.out, "{}{suffix}", self.name);
        for (place, (name, value)) in labels.iter().enumerate() {
            let before = if place == 0 { '{' } else { ',' };
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.out, "{before}{name}=\"{value}\"");
        }
        let after = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.out, "{after} {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_is_cumulative_and_ends_at_infinity() {
        let mut out = Exposition::default();
        out.family("hapax_x_seconds", "histogram", "How long.").histogram(
            &[("a", "b")],
            &[0.5, 1.0],
            &[2, 0, 1],
            7.5,
        );
        let expected = "# HELP hapax_x_seconds How long.\n# TYPE hapax_x_seconds histogram\n\
            hapax_x_seconds_bucket{a=\"b\",le=\"0.5\"} 2\nhapax_x_seconds_bucket{a=\"b\",le=\"1\"} 2\n\
            hapax_x_seconds_bucket{a=\"b\",le=\"+Inf\"} 3\nhapax_x_seconds_sum{a=\"b\"} 7.5\nhapax_x_seconds_count{a=\"b\"} 3\n";
        assert_eq!(out.finish(), expected);
    }

    #[test]
    fn what_a_label_says_cannot_break_out_of_it() {
        let mut out = Exposition::default();
        out.family("hapax_x", "gauge", "X.").sample(&[("a", "\"} 1\nhapax_y 2\\")], 1.0);
        let text = out.finish();
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(text.ends_with("hapax_x{a=\"\\\"} 1\\nhapax_y 2\\\\\"} 1\n"), "{text}");
    }
}
