//! The steps of a run over time: one row each, with its attempts as bars. What it gave is behind the row.

use hapax_api::{LedgerEntry, LedgerOutcome, Page, Run, Step, StepKind};
use maud::{Markup, html};

use super::is_open;
use crate::failure::Failure;
use crate::limits::{MAX_COMMITS_WITH_ATTEMPTS, MAX_STEPS_SHOWN};
use crate::visit::Visit;
use crate::{ops, text, ui};

/// Start and end of what is drawn, in milliseconds since 1970.
struct Scale {
    from: i64,
    to: i64,
}

impl Scale {
    /// Where an instant is, in hundredths.
    fn place(&self, at: i64) -> f64 {
        let whole = (self.to - self.from).max(1) as f64;
        ((at - self.from) as f64 / whole * 100.0).clamp(0.0, 100.0)
    }
}

/// One stretch of a bar.
struct BarSegment {
    from: i64,
    to: i64,
    class: &'static str,
    says: String,
}

fn ms(at: &str) -> Option<i64> {
    at.parse::<jiff::Timestamp>().ok().map(|at| at.as_millisecond())
}

/// One page of steps, in the order they started.
pub(super) struct Shown {
    steps: Vec<Step>,
    /// Effects of the run with their attempts. Left out where a run is long.
    ledger: Option<Vec<LedgerEntry>>,
    is_newest: bool,
    is_first_page: bool,
    next: Option<String>,
}

impl Shown {
    /// Steps on this page.
    pub(super) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Reads a page. An open run works at its end, so its newest steps come first.
    pub(super) async fn read(visit: &Visit, run: &Run, order: &str, cursor: &str) -> Result<Self, Failure> {
        let is_newest = match order {
            "asc" => false,
            "desc" => true,
            _ => is_open(run.status),
        };
        let order = if is_newest { "desc" } else { "asc" };
        let limit = MAX_STEPS_SHOWN.to_string();
        let query = [("order", Some(order)), ("limit", Some(limit.as_str())), ("cursor", Some(cursor))];
        let page: Page<Step> = visit.read(&ops::LIST_STEPS, &[&run.id], &query).await?;
        let mut steps = page.items;
        if is_newest {
            steps.reverse();
        }
        let ledger = match run.version <= MAX_COMMITS_WITH_ATTEMPTS {
            true => {
                Some(visit.read::<Page<LedgerEntry>>(&ops::SHOW_RUN_LEDGER, &[&run.id], &[]).await?.items)
            }
            false => None,
        };
        Ok(Shown { steps, ledger, is_newest, is_first_page: cursor.is_empty(), next: page.next_cursor })
    }

    /// Links to the pages of earlier and later steps.
    fn pager(&self, run: &Run) -> Markup {
        let path = ui::run_path(&run.id);
        let link = |order: &str, cursor: Option<&str>| {
            format!("{path}{}", text::query(&[("order", Some(order)), ("cursor", cursor)]))
        };
        let next = self.next.as_deref();
        let is_whole = self.is_first_page && next.is_none();
        html! {
            @if !is_whole {
                nav.pager aria-label="Pages of steps" {
                    @if self.is_newest {
                        @if let Some(next) = next { a.button.plain href=(link("desc", Some(next))) { "Earlier steps" } }
                        a.button.plain href=(link("asc", None)) { "First steps" }
                        @if !self.is_first_page { a.button.plain href=(link("desc", None)) { "Newest steps" } }
                    } @else {
                        @if !self.is_first_page { a.button.plain href=(link("asc", None)) { "First steps" } }
                        @if let Some(next) = next { a.button.plain href=(link("asc", Some(next))) { "Later steps" } }
                        a.button.plain href=(link("desc", None)) { "Newest steps" }
                    }
                }
            }
            @if self.ledger.is_none() {
                p.hint { "The run is long, so steps are drawn as a whole. " a href={ (path) "?tab=effects" } { "Effects" } " has every attempt." }
            }
        }
    }
}

pub(super) fn timeline(visit: &Visit, run: &Run, page: &Shown) -> Markup {
    let shown = &page.steps;
    let ledger = page.ledger.as_deref().unwrap_or_default();
    let now = visit.now_ms;
    let from =
        shown.first().and_then(|step| ms(&step.started_at)).or_else(|| ms(&run.created_at)).unwrap_or(now);
    let ends = shown.iter().filter_map(|step| step.ended_at.as_deref().map_or(Some(now), ms));
    let scale = Scale { from, to: ends.max().unwrap_or(now).max(from + 1) };
    html! {
        @if shown.is_empty() { (ui::empty("No step has begun.")) } @else {
            div.waterfall {
                div.axis aria-hidden="true" { span { "0" } span { (ui::span_text((scale.to - scale.from) / 2)) } span { (ui::span_text(scale.to - scale.from)) } }
                @for step in shown { (row(step, ledger, &scale, now)) }
            }
        }
        (page.pager(run))
        div.plan {
            section { h2 { "Input" } (ui::json(run.input.text())) }
            @if let Some(output) = &run.output { section { h2 { "Output" } (ui::json(output.text())) } }
        }
    }
}

fn row(step: &Step, ledger: &[LedgerEntry], scale: &Scale, now: i64) -> Markup {
    let entry = ledger.iter().find(|entry| Some(&entry.effect_key) == step.effect_key.as_ref());
    let (state, word) = ui::state(step.status);
    let begins = ms(&step.started_at).unwrap_or(scale.from);
    let ends = step.ended_at.as_deref().map_or(Some(now), ms).unwrap_or(now);
    html! {
        details.step id={ "step-" (step.id) } {
            summary {
                span.step-name { (ui::dot(state, word)) " " b { (step.id) } " " span.dim { (text::spelled(&step.kind)) } @if step.attempts > 1 { " " (ui::tag(&format!("{} attempts", step.attempts))) } }
                (bar(&stretches(step, entry, begins, ends, now), scale, &format!("{} {word}", step.id)))
                span.number.took { (ui::span_text(ends - begins)) @if step.ended_at.is_none() { "…" } }
            }
            div.inside {
                (ui::known(vec![
                    ("Status", Some(ui::step_badge(step.status))),
                    ("Began", Some(ui::time(&step.started_at))),
                    ("Ended", step.ended_at.as_deref().map(ui::time)),
                    ("Due", step.due_at.as_deref().map(ui::time)),
                    ("Attempts", (step.attempts > 0).then(|| html! { (step.attempts) })),
                    ("Effect key", step.effect_key.as_deref().map(ui::id)),
                    ("Child", step.child_run_id.as_deref().map(ui::run_link)),
                ]))
                @if let Some(failure) = &step.failure {
                    div.notice.bad { p { (ui::sentence(&failure.message)) } p.dim { (text::spelled(&failure.class)) @if let Some(code) = &failure.code { " · " code { (code) } } } }
                }
                @if let Some(entry) = entry.filter(|entry| !entry.attempt_log.is_empty()) { (attempts(entry)) }
                @if let Some(output) = &step.output { h3 { "Output" } (ui::json(output.text())) }
            }
        }
    }
}

/// Every time that the code of an effect was entered.
pub(in crate::pages) fn attempts(entry: &LedgerEntry) -> Markup {
    let rows = entry.attempt_log.iter().map(|attempt| {
        vec![
            html! { span.number { (attempt.number) } },
            outcome(attempt.status),
            attempt.began_at.as_deref().map_or_else(ui::none, ui::time),
            attempt.ended_at.as_deref().map_or_else(ui::none, ui::time),
            html! { @match &attempt.owner { Some(owner) => { code { (owner) } }, None => { (ui::none()) } } },
            html! { @match attempt.fence { Some(fence) => { span.number { (fence) } }, None => { (ui::none()) } } },
        ]
    });
    ui::table(
        &["Attempt", "Outcome", "Began", "Known since", "Worker", "Fence"],
        rows.collect(),
        "No attempt.",
    )
}

fn outcome(outcome: LedgerOutcome) -> Markup {
    match outcome {
        LedgerOutcome::Completed => ui::badge(ui::State::Good, "Happened"),
        LedgerOutcome::Failed => ui::badge(ui::State::Bad, "Did not happen"),
        LedgerOutcome::Unknown => ui::badge(ui::State::Doubt, "Unknown"),
        LedgerOutcome::Open => ui::badge(ui::State::Active, "Open"),
    }
}

fn stretches(step: &Step, entry: Option<&LedgerEntry>, begins: i64, ends: i64, now: i64) -> Vec<BarSegment> {
    let (state, word) = ui::state(step.status);
    let known = entry.map(|entry| entry.attempt_log.as_slice()).unwrap_or_default();
    let dated: Vec<BarSegment> = known
        .iter()
        .filter_map(|attempt| {
            let (began, ended) =
                (attempt.began_at.as_deref().and_then(ms), attempt.ended_at.as_deref().and_then(ms));
            // Without a claim nobody wrote down when it began: it is a mark where it ended.
            let from = began.or(ended)?;
            let to = ended.unwrap_or(match attempt.status {
                LedgerOutcome::Open => now,
                _ => ends,
            });
            let class = match attempt.status {
                LedgerOutcome::Completed => "good",
                LedgerOutcome::Failed => "bad",
                LedgerOutcome::Unknown => "doubt",
                LedgerOutcome::Open => "active",
            };
            Some(BarSegment {
                from,
                to,
                class,
                says: format!("Attempt {}: {}", attempt.number, text::spelled(&attempt.status)),
            })
        })
        .collect();
    if dated.len() > 1 || step.attempts > 1 && !dated.is_empty() {
        return dated;
    }
    let is_wait =
        matches!(step.kind, StepKind::Sleep | StepKind::Promise | StepKind::Signal | StepKind::Child);
    let class = if is_wait { "wait" } else { state.class() };
    vec![BarSegment {
        from: begins,
        to: ends,
        class,
        says: format!("{word}, {}", ui::span_text(ends - begins)),
    }]
}

fn bar(stretches: &[BarSegment], scale: &Scale, name: &str) -> Markup {
    let ends = stretches.first().zip(stretches.last());
    html! {
        svg.bar role="img" aria-label=(name) {
            @if let Some((first, last)) = ends.filter(|_| stretches.len() > 1) {
                line x1={ (format!("{:.2}", scale.place(first.from))) "%" } x2={ (format!("{:.2}", scale.place(last.to))) "%" } y1="50%" y2="50%" {}
            }
            @for stretch in stretches {
                @let x = scale.place(stretch.from).min(99.4);
                @let width = (scale.place(stretch.to) - x).max(0.6);
                rect.(stretch.class) x={ (format!("{x:.2}")) "%" } width={ (format!("{width:.2}")) "%" } y="2" height="10" rx="3" { title { (stretch.says) } }
            }
        }
    }
}
