//! Trace of a simulation: a hash over all events, to compare two runs of a seed, and the last lines to read.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use hapax_engine::model::RunId;

/// Number of lines kept, and number of lines that a failure shows.
const KEPT: usize = 5_000;
const SHOWN: usize = 60;
const SHOWN_OF_ONE_RUN: usize = 20;

#[derive(Default)]
pub struct Trace {
    lines: VecDeque<String>,
    count: u64,
    hash: DefaultHasher,
    names: BTreeMap<RunId, usize>,
    to_stderr: bool,
}

/// Hash of the trace; equal for two runs of one seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digest {
    pub lines: u64,
    pub hash: u64,
}

impl Trace {
    /// An empty trace; `HAPAX_SIM_TRACE` shows it line by line while it grows.
    pub fn new() -> Self {
        Trace { to_stderr: std::env::var_os("HAPAX_SIM_TRACE").is_some(), ..Trace::default() }
    }

    pub fn add(&mut self, at_ms: u128, who: &str, what: &str) {
        let line = format!("{:>7}.{:03} {who:<6} {what}", at_ms / 1000, at_ms % 1000);
        line.hash(&mut self.hash);
        self.count += 1;
        if self.to_stderr {
            eprintln!("{line}");
        }
        if what.ends_with("=> nothing") {
            // Hash it, but do not print it.
            return;
        }
        if self.lines.len() == KEPT {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    /// Short name for a run, numbered by first mention.
    pub fn name(&mut self, run: RunId) -> String {
        let next = self.names.len() + 1;
        format!("r{}", self.names.entry(run).or_insert(next))
    }

    pub fn digest(&self) -> Digest {
        Digest { lines: self.count, hash: self.hash.finish() }
    }

    pub fn last_lines(&self) -> String {
        let from = self.lines.len().saturating_sub(SHOWN);
        self.lines.range(from..).map(|line| format!("{line}\n")).collect()
    }

    /// The last lines about one run, without lease renewals and repeated requests of people.
    pub fn last_lines_of(&self, name: &str) -> String {
        let (word, held) = (format!(" {name} "), format!(" {name}@"));
        let dull =
            |line: &str| line.contains(" find ") || line.contains(" renew ") || line.contains(" signal ");
        let told =
            self.lines.iter().filter(|line| (line.contains(&word) && !dull(line)) || line.contains(&held));
        let told: Vec<&String> =
            told.filter(|line| !line.contains("renew") || line.contains("lost [\"")).collect();
        let from = told.len().saturating_sub(SHOWN_OF_ONE_RUN);
        told[from..].iter().map(|line| format!("    {line}\n")).collect()
    }
}
