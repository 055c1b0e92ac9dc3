//! The final report: a table of counts, and the story of each violation.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::checks::Evidence;
use crate::event_log::{self, About, LogLine};
use crate::limits::{MAX_LOG_LINES_PER_STORY, MAX_STORIES};
use crate::people::People;
use crate::plan::{Counts, Plan};
use crate::provider::count_effects;
use crate::storm::Options;
use crate::world::{Violation, World};

/// Violations of one check that are shown on the screen; all of them are in the folder.
const SHOWN_PER_CHECK: usize = 3;

/// How much earlier and later than an operation a fault may be and still belong to its story.
const MARGIN: Duration = Duration::from_secs(3);

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
    world: Arc<World>,
}

impl Report {
    pub fn new(
        options: &Options,
        plan: &Plan,
        world: &Arc<World>,
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
            world: world.clone(),
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
            write(&format!("story-{op}.txt"), &self.story(op, folder))?;
        }
        Ok(())
    }

    /// All that happened around one business operation: what clients and people did, what the provider and the nodes wrote down, and the faults
    /// meanwhile.
    fn list_events(&self, op: &str, folder: &Path) -> Vec<LogLine> {
        let run = self.evidence.run_of.get(op);
        let operations = self.evidence.operations.get(op).map_or(&[][..], Vec::as_slice);
        let of_operations = operations.iter().filter_map(|it| it["id"].as_str().map(str::to_owned));
        let ids: Vec<String> = run.cloned().into_iter().chain(of_operations).collect();
        let is_ours = |about: &About| match about {
            About::All => false,
            About::Op(of) => of == op,
            About::Id(of) => ids.iter().any(|id| of.starts_with(id.as_str())),
        };
        let line =
            |at: Duration, who: &str, what: String| LogLine { at, about: About::All, who: who.into(), what };
        let mut lines: Vec<LogLine> =
            self.world.event_log.lines().into_iter().filter(|line| is_ours(&line.about)).collect();
        for call in self.evidence.calls.iter().filter(|call| call.op == op) {
            lines.push(line(call.at, "provider", format!("← {}", call.tell_briefly())));
            lines.extend(call.ended_at.map(|at| line(at, "provider", call.tell_end())));
        }
        let find_time = |written: &str| self.world.event_log.find_time(written);
        let at_of = |record: &Value| record["at"].as_str().and_then(find_time);
        let records = |of: &HashMap<String, Vec<Value>>| run.and_then(|run| of.get(run)).cloned();
        for event in records(&self.evidence.events).unwrap_or_default() {
            let what = ["version", "fence", "kind", "note"].map(|name| said(&event, name)).concat();
            lines.extend(at_of(&event).map(|at| line(at, "history", what.trim().to_owned())));
        }
        for entry in records(&self.evidence.journals).unwrap_or_default() {
            let names = [
                "what",
                "stepId",
                "attempt",
                "occurrence",
                "answer",
                "resolution",
                "command",
                "failure",
                "reason",
            ];
            let what = names.map(|name| said(&entry, name)).concat();
            lines.extend(at_of(&entry).map(|at| line(at, "journal", what.trim().to_owned())));
        }
        for node in 0..self.nodes {
            let quoted = quote_log(&folder.join(format!("node-{node}.log")), &ids);
            let told = quoted
                .into_iter()
                .filter_map(|(at, what)| Some(line(find_time(&at)?, &format!("log {node}"), what)));
            lines.extend(told);
        }
        let (first, last) = (lines.iter().map(|line| line.at).min(), lines.iter().map(|line| line.at).max());
        let (Some(first), Some(last)) = (first, last) else { return lines };
        let is_meanwhile = |line: &LogLine| line.at + MARGIN >= first && line.at <= last + MARGIN;
        let faults = self.world.event_log.lines().into_iter().filter(|line| line.about == About::All);
        lines.extend(faults.filter(is_meanwhile));
        lines
    }

    /// Operations with stories: taken from each check in turn, so that one with many violations leaves room for the others.
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

    /// Everything that is known of one business operation: what is wrong, then all that happened in order, then the records.
    fn story(&self, op: &str, folder: &Path) -> String {
        let mut text = format!("{op}\n\nWhat is wrong\n");
        for violation in self.violations.iter().filter(|it| it.op.as_deref() == Some(op)) {
            let _ = writeln!(text, "  {}: {}", violation.check, violation.what);
        }
        let _ = writeln!(text, "\nWhat happened, in seconds since the start\n");
        text.push_str(&event_log::tell(self.list_events(op, folder)));
        if let Some(run) = self.evidence.run_of.get(op) {
            let _ = writeln!(text, "\nThe run\n  {}", self.evidence.runs[run]);
            tell_list(&mut text, "Its steps", self.evidence.steps.get(run));
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
        let entries = self.evidence.ledger.values().flatten();
        let of_object: Vec<Value> = entries.filter(|it| it["entity"]["id"] == op).cloned().collect();
        tell_list(&mut text, "Its ledger", Some(&of_object).filter(|entries| !entries.is_empty()));
        text
    }
}

/// Text of a field of a record; empty if absent.
fn said(record: &Value, name: &str) -> String {
    match &record[name] {
        Value::Null => String::new(),
        Value::String(text) => format!(" {text}"),
        other => format!(" {name} {other}"),
    }
}

fn of(violation: &Violation) -> String {
    violation.op.as_ref().filter(|op| !op.is_empty()).map_or_else(String::new, |op| format!("{op}: "))
}

/// The lines of a log that name one of `ids`, each with the time it was written at.
fn quote_log(path: &Path, ids: &[String]) -> Vec<(String, String)> {
    let Ok(log) = std::fs::read_to_string(path) else { return Vec::new() };
    let named = log.lines().filter(|line| ids.iter().any(|id| line.contains(id.as_str())));
    let read = |line: &str| {
        let json: Value = serde_json::from_str(line).ok()?;
        let at = json["at"].as_str()?.to_owned();
        let mut fields = json.as_object()?.clone();
        for name in ["at", "target", "message", "level", "traceId", "workspace"] {
            fields.remove(name);
        }
        let message = json["message"].as_str().unwrap_or_default();
        Some((at, format!("{}: {message} {}", json["level"].as_str()?, Value::Object(fields))))
    };
    named.filter_map(read).take(MAX_LOG_LINES_PER_STORY).collect()
}

fn tell_list(text: &mut String, title: &str, items: Option<&Vec<Value>>) {
    let Some(items) = items else { return };
    let _ = writeln!(text, "\n{title}");
    for item in items {
        let _ = writeln!(text, "  {item}");
    }
}
