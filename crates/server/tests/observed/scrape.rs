//! A scrape, read as Prometheus would read it.

use std::collections::{BTreeMap, BTreeSet};

use hapax_server::identity::INSTALLATION;

use crate::support::{Role, TestServer};

/// Response of a server.
pub struct Scrape {
    pub text: String,
    /// Every family that has both HELP and TYPE, with its type.
    pub families: BTreeMap<String, String>,
    series: BTreeMap<String, f64>,
}

impl Scrape {
    /// Reads as an installation credential that may only watch.
    pub async fn of(server: &TestServer) -> Self {
        let key = server.key(INSTALLATION, Role::Viewer).await;
        let answer = server.send("GET", "/metrics", None, &key, &[]).await;
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.bytes));
        assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
        Self::read(String::from_utf8(answer.bytes).unwrap())
    }

    /// Parses the text; panics if it breaks the format.
    pub fn read(text: String) -> Self {
        let (mut helps, mut families, mut series) = (BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, about) = help.split_once(' ').unwrap();
                assert!(about.ends_with('.') && helps.insert(name.to_owned()), "{line}");
            } else if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').unwrap();
                assert!(helps.contains(name), "HELP comes first: {line}");
                assert!(families.insert(name.to_owned(), kind.to_owned()).is_none(), "{line}");
            } else {
                let (place, value) = line.rsplit_once(' ').unwrap();
                let name = place.split('{').next().unwrap();
                let family = family_of(name, &families).unwrap_or_else(|| panic!("no family: {line}"));
                assert!(family.starts_with("hapax_"), "{line}");
                assert_eq!(families[family] == "counter", family.ends_with("_total"), "{line}");
                assert!(series.insert(place.to_owned(), value.parse().unwrap()).is_none(), "twice: {line}");
            }
        }
        assert_eq!(helps.len(), families.len(), "every family has HELP and TYPE");
        Scrape { text, families, series }
    }

    /// The value of a series, spelled as in the text.
    pub fn value(&self, series: &str) -> f64 {
        *self.series.get(series).unwrap_or_else(|| panic!("no {series} in {}", self.text))
    }
}

/// The family that a sample of this name belongs to.
pub fn family_of<'a>(name: &'a str, families: &BTreeMap<String, String>) -> Option<&'a str> {
    let parts = ["_bucket", "_sum", "_count"];
    let base = parts.iter().find_map(|part| name.strip_suffix(part));
    let of_histogram = base.filter(|base| families.get(*base).is_some_and(|kind| kind == "histogram"));
    of_histogram.or_else(|| families.contains_key(name).then_some(name))
}
