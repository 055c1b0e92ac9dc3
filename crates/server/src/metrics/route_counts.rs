//! Requests by method, route and class of status, and how long they took.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::{Method, StatusCode};

use super::exposition::Exposition;

/// Label for unknown routes.
const UNMATCHED: &str = "unmatched";
const METHODS: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "OTHER"];
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];
const BOUNDS: [f64; 14] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// All routes are registered at the start, so counting takes no lock and callers cannot create
/// series.
#[derive(Debug)]
pub(super) struct RouteCounts(BTreeMap<&'static str, [MethodCounts; METHODS.len()]>);

#[derive(Debug, Default)]
struct MethodCounts {
    by_class: [AtomicU64; CLASSES.len()],
    by_time: [AtomicU64; BOUNDS.len() + 1],
    total_micros: AtomicU64,
}

impl RouteCounts {
    pub(super) fn new(routes: impl IntoIterator<Item = &'static str>) -> Self {
        RouteCounts(routes.into_iter().chain([UNMATCHED]).map(|route| (route, Default::default())).collect())
    }

    pub(super) fn count(&self, method: &Method, route: Option<&str>, status: StatusCode, took: Duration) {
        let Some(counts) = route.and_then(|route| self.0.get(route)).or_else(|| self.0.get(UNMATCHED)) else {
            return;
        };
        let place = METHODS.iter().position(|known| *known == method.as_str()).unwrap_or(METHODS.len() - 1);
        let counts = &counts[place];
        let class = usize::from(status.as_u16() / 100).clamp(1, CLASSES.len()) - 1;
        counts.by_class[class].fetch_add(1, Ordering::Relaxed);
        let seconds = took.as_secs_f64();
        let bucket = BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len());
        counts.by_time[bucket].fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        counts.total_micros.fetch_add(micros, Ordering::Relaxed);
    }

    pub(super) fn write(&self, out: &mut Exposition) {
        let all = || {
            let by_route = self.0.iter();
            by_route.flat_map(|(route, counts)| {
                METHODS.iter().zip(counts).map(move |(method, counts)| (*route, *method, counts))
            })
        };
        let help = "Requests answered, by method, route and class of status.";
        let mut family = out.family("hapax_http_requests_total", "counter", help);
        for (route, method, counts) in all() {
            for (class, count) in CLASSES.iter().zip(&counts.by_class) {
                let count = count.load(Ordering::Relaxed);
                if count > 0 {
                    family.count(&[("method", method), ("route", route), ("status", *class)], count);
                }
            }
        }
        let help = "Time from the head of a request to the head of its answer, by method and route.";
        let mut family = out.family("hapax_http_request_duration_seconds", "histogram", help);
        for (route, method, counts) in all() {
            let by_time: Vec<u64> =
                counts.by_time.iter().map(|count| count.load(Ordering::Relaxed)).collect();
            if by_time.iter().any(|count| *count > 0) {
                let sum = counts.total_micros.load(Ordering::Relaxed) as f64 / 1e6;
                family.histogram(&[("method", method), ("route", route)], &BOUNDS, &by_time, sum);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Invariant: callers cannot create series.
    #[test]
    fn unknown_paths_and_methods_make_no_new_series() {
        let counts = RouteCounts::new(["/known"]);
        for place in 0..100 {
            let method = Method::from_bytes(format!("M{place}").as_bytes()).unwrap();
            let path = format!("/unknown-{place}");
            counts.count(&method, Some(&path), StatusCode::NOT_FOUND, Duration::from_millis(3));
            counts.count(&method, None, StatusCode::from_u16(999).unwrap(), Duration::from_secs(100));
        }
        let mut out = Exposition::default();
        counts.write(&mut out);
        let text = out.finish();
        let series: Vec<&str> =
            text.lines().filter(|line| line.starts_with("hapax_http_requests_total")).collect();
        assert_eq!(
            series,
            [
                "hapax_http_requests_total{method=\"OTHER\",route=\"unmatched\",status=\"4xx\"} 100",
                "hapax_http_requests_total{method=\"OTHER\",route=\"unmatched\",status=\"5xx\"} 100",
            ]
        );
    }
}
