//! Checks that the list of cases matches the source. A separate crate, because the library would otherwise be compiled
//! twice.

/// A topic, its file, and its cases as they are listed.
type Topic = (&'static str, &'static str, &'static [&'static str]);

macro_rules! topics {
    (() $($topic:ident { $($name:ident)* })*) => {
        const TOPICS: &[Topic] = &[$((
            stringify!($topic),
            include_str!(concat!("../src/cases/", stringify!($topic), ".rs")),
            &[$(stringify!($name)),*],
        )),*];
    };
}

hapax_store_conformance::with_every_case!(topics!());

#[test]
fn every_case_that_is_written_is_listed_once() {
    for (topic, source, listed) in TOPICS {
        let written = source.lines().filter_map(|line| line.strip_prefix("pub(super) async fn "));
        let written: Vec<&str> = written.filter_map(|line| line.split('(').next()).collect();
        assert_eq!(written, *listed, "the cases of {topic}, in the order of the file");
    }
    let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/cases")).unwrap();
    assert_eq!(files.count(), TOPICS.len(), "every file is a topic");
}

#[test]
fn every_case_says_what_it_proves() {
    for (topic, source, _) in TOPICS {
        let mut before = "";
        for line in source.lines() {
            if line.starts_with("pub(super) async fn ") {
                assert!(before.starts_with("/// "), "{topic}: {line}");
            }
            before = line;
        }
    }
}
