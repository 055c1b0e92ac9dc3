//! Durations as percentiles.

use std::time::Duration;

/// Times from a tenth of a microsecond to an hour, to three digits.
#[derive(Debug, Clone)]
pub(super) struct Histogram(hdrhistogram::Histogram<u64>);

impl Histogram {
    pub(super) fn new() -> Self {
        Histogram(hdrhistogram::Histogram::new_with_bounds(100, 3_600_000_000_000, 3).expect("valid bounds"))
    }

    pub(super) fn record(&mut self, time: Duration) {
        self.0.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(super) fn add(&mut self, other: &Histogram) {
        self.0.add(&other.0).expect("all have the same bounds");
    }

    pub(super) fn count(&self) -> u64 {
        self.0.len()
    }

    pub(super) fn ms(&self, percentile: f64) -> Option<f64> {
        (self.count() > 0).then(|| self.0.value_at_percentile(percentile) as f64 / 1e6)
    }

    pub(super) fn us(&self, percentile: f64) -> Option<f64> {
        self.ms(percentile).map(|ms| ms * 1e3)
    }
}

/// The middle one.
pub(super) fn median(mut figures: Vec<f64>) -> Option<f64> {
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    match figures.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(figures[middle]),
        _ => Some((figures[middle - 1] + figures[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_come_back_in_their_unit() {
        let mut times = Histogram::new();
        (1..=100).for_each(|ms| times.record(Duration::from_millis(ms)));
        assert!((times.ms(50.0).unwrap() - 50.0).abs() < 0.1);
        assert!((times.us(99.0).unwrap() - 99_000.0).abs() < 100.0);
        assert_eq!(Histogram::new().ms(50.0), None);
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0]), Some(2.5));
    }
}
