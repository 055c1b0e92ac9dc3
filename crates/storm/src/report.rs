//! What people are shown at the end: a table of counts, and the story of each violation.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::checks::Evidence;
use crate::limits::MAX_STORIES;
use crate::people::People;
use crate::plan::{Counts, Plan};
use crate::provider::count_effects;
use crate::storm::Options;
use crate::world::{Violation, World};

/// Violations of one check that are shown on the screen; all of them are in the folder.
const SHOWN_PER_CHECK: usize = 3;

/// The outcome of a storm.
#[derive(Debug)]
pub struct Report {
    seed: u64,
    nodes: usize,
    minutes: u64,
    counts: Counts,
    cut: usize,
    work: usize,
    rulings: (usize, usize),
    lookups: usize,
    database_log: String,
    pub violations: Vec<Violation>,
    evidence: Evidence,
}

impl Report {
    pub fn new(
        options: &Options,
        plan: &Plan,
        world: &World,
        people: &People,
        work: usize,
        evidence: Evidence,
    ) -> Report {
        let links = world.database_links.iter().chain([&world.provider_link]);
        Report {
            seed: options.seed,
            nodes: options.nodes,
            minutes: options.total.as_secs() / 60,
            counts: plan.counts(),
            cut: links.map(|link| link.count_cut()).sum(),
            work,
            rulings: (people.ruled_happened, people.ruled_did_not_happen),
            lookups: world.provider.count_lookups(),
            database_log: world.database.log(),
            violations: world.violations(),
            evidence,
        }
    }

    /// The table.
    pub fn summary(&self) -> String {
        let by_status =
            |status: &str| self.evidence.runs.values().filter(|run| run["status"] == status).count();
        let effects: usize = count_effects(&self.evidence.calls).values().sum();
        let operations: usize = self.evidence.operations.values().map(Vec::len).sum();
        let rows = [
            ("pieces of work", self.work.to_string()),
            (
                "runs",
                format!(
                    "{} ({} completed, {} failed, {} cancelled)",
                    self.evidence.runs.len(),
                    by_status("COMPLETED"),
                    by_status("FAILED"),
                    by_status("CANCELLED")
                ),
            ),
            ("operations on objects", operations.to_string()),
            ("webhooks", self.evidence.webhooks.len().to_string()),
            ("answers replayed and compared", self.evidence.replays.to_string()),
            ("kills", self.counts.kills.to_string()),
            ("pauses", self.counts.pauses.to_string()),
            ("restarts of nodes", self.counts.restarts.to_string()),
            ("faults of links", format!("{} ({} connections cut)", self.counts.link_faults, self.cut)),
            ("faults of the database", self.counts.database_faults.to_string()),
            (
                "requests at the provider",
                format!("{} and {} lookups", self.evidence.calls.len(), self.lookups),
            ),
            ("effects at the provider", effects.to_string()),
            ("rulings", format!("{} happened, {} did not happen", self.rulings.0, self.rulings.1)),
            ("violations", self.violations.len().to_string()),
        ];
        rows.iter().fold(String::new(), |mut text, (name, value)| {
            let _ = writeln!(text, "{name:<32} {value}");
            text
        })
    }

    /// The violations, a few of each check.
    pub fn violations_by_check(&self) -> String {
        let mut by_check: BTreeMap<&str, Vec<&Violation>> = BTreeMap::new();
        for violation in &self.violations {
            by_check.entry(violation.check).or_default().push(violation);
        }
        let mut text = String::new();
        for (check, violations) in by_check {
            let _ = writeln!(text, "VIOLATED: {check} ({})", violations.len());
            for violation in violations.iter().take(SHOWN_PER_CHECK) {
                let _ = writeln!(text, "    {}{}", of(violation), violation.what);
            }
        }
        text
    }

    /// The command that draws the same storm.
    pub fn again(&self) -> String {
        format!("cargo xtask storm --nodes {} --minutes {} --seed {}", self.nodes, self.minutes, self.seed)
    }

    /// Writes the summary, the provider's record and the stories.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let write = |name: &str, text: &str| {
            std::fs::write(folder.join(name), text).with_context(|| format!("{name} cannot be written"))
        };
        let mut all = self.summary();
        for violation in &self.violations {
            let _ = writeln!(all, "{}: {}{}", violation.check, of(violation), violation.what);
        }
        write("summary.txt", &all)?;
        write("postgres.log", &self.database_log)?;
        let calls: Vec<String> = self.evidence.calls.iter().map(|call| call.tell()).collect();
        write("provider.txt", &calls.join("\n"))?;
        for op in self.list_told() {
            write(&format!("story-{op}.txt"), &self.story(op))?;
        }
        Ok(())
    }

    /// The operations whose stories are told: of each check in turn, so that one with many violations leaves room for the others.
    fn list_told(&self) -> Vec<&str> {
        let mut rank: BTreeMap<&str, usize> = BTreeMap::new();
        let mut ranked: Vec<(usize, &str)> = Vec::new();
        for violation in &self.violations {
            let Some(op) = violation.op.as_deref().filter(|op| !op.is_empty()) else { continue };
            let place = rank.entry(violation.check).or_default();
            ranked.push((*place, op));
            *place += 1;
        }
        ranked.sort_by_key(|(place, _)| *place);
        let mut told = Vec::new();
        for (_, op) in ranked {
            if told.len() < MAX_STORIES && !told.contains(&op) {
                told.push(op);
            }
        }
        told
    }

    /// Everything that is known of one business operation.
    fn story(&self, op: &str) -> String {
        let mut text = format!("{op}\n\nWhat is wrong\n");
        for violation in self.violations.iter().filter(|it| it.op.as_deref() == Some(op)) {
            let _ = writeln!(text, "  {}: {}", violation.check, violation.what);
        }
        let _ = writeln!(text, "\nThe provider's record (seconds since the start)");
        for call in self.evidence.calls.iter().filter(|call| call.op == op) {
            let _ = writeln!(text, "  {}", call.tell());
        }
        if let Some(run) = self.evidence.run_of.get(op) {
            let _ = writeln!(text, "\nThe run\n  {}", self.evidence.runs[run]);
            tell_list(&mut text, "Its steps", self.evidence.steps.get(run));
            tell_list(&mut text, "Its history", self.evidence.events.get(run));
            let of_run: Vec<Value> = self
                .evidence
                .ledger
                .values()
                .flatten()
                .filter(|it| it["runId"] == run.as_str())
                .cloned()
                .collect();
            tell_list(&mut text, "Its ledger", Some(&of_run));
        }
        tell_list(&mut text, "Operations on the object", self.evidence.operations.get(op));
        text
    }
}

fn of(violation: &Violation) -> String {
    violation.op.as_ref().filter(|op| !op.is_empty()).map_or_else(String::new, |op| format!("{op}: "))
}

fn tell_list(text: &mut String, title: &str, items: Option<&Vec<Value>>) {
    let Some(items) = items else { return };
    let _ = writeln!(text, "\n{title}");
    for item in items {
        let _ = writeln!(text, "  {item}");
    }
}
