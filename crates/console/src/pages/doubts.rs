//! Doubts: effects and operations with an unknown outcome, oldest first, and the form for a ruling.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Query};
use axum::response::Response;
use axum::routing::{get, post};
use hapax_api::{
    ConfirmRuling, Doubt, JournalEntry, JournalKind, LedgerEntry, Operation, Page, Resolution, ResolveDoubt,
    Role,
};
use maud::{Markup, html};
use serde::Deserialize;

use super::run::attempts;
use crate::Console;
use crate::failure::Failure;
use crate::form::{self, Submitted, Tone};
use crate::visit::Visit;
use crate::{ops, text, ui};

const PATH: &str = "/console/doubts";

pub(super) fn routes() -> Router<Arc<Console>> {
    Router::new()
        .route(PATH, get(list))
        .route("/console/doubts/{run}/{step}", get(show))
        .route("/console/doubts/{run}/{step}/resolve", post(resolve))
        .route("/console/doubts/{run}/{step}/propose", post(propose))
        .route("/console/doubts/{run}/{step}/confirm", post(confirm))
}

/// The page of one doubt.
pub(super) fn path(run: &str, step: &str) -> String {
    format!("{PATH}/{}/{}", text::encode(run), text::encode(step))
}

#[derive(Debug, Default, Deserialize)]
struct PageQuery {
    #[serde(default)]
    cursor: String,
}

async fn list(mut visit: Visit, Query(PageQuery { cursor }): Query<PageQuery>) -> Result<Response, Failure> {
    visit.frame.refresh = true;
    let page: Page<Doubt> = visit.read(&ops::LIST_DOUBTS, &[], &[("cursor", Some(&cursor))]).await?;
    let operations: Page<Operation> =
        visit.read(&ops::LIST_OPERATIONS, &[], &[("status", Some("IN_DOUBT"))]).await?;
    let steps = page.items.iter().map(|doubt| {
        vec![
            html! { a href=(path(&doubt.run_id, &doubt.step_id)) { b { (doubt.step_id) } } " of " (doubt.workflow) },
            ui::ago(&doubt.since, visit.now_ms),
            html! { (ui::sentence(&doubt.failure.message)) },
            html! { span.number { (doubt.attempts) } },
            ui::run_link(&doubt.run_id),
        ]
    });
    let held = operations.items.iter().map(|operation| {
        vec![
            html! { a href={ "/console/operations/" (text::encode(&operation.id)) } { b { (operation.step_key) } } },
            ui::entity_link(&operation.entity_type, &operation.entity_id),
            html! { @match &operation.in_doubt_since { Some(since) => { (ui::ago(since, visit.now_ms)) }, None => { (ui::none()) } } },
            html! { @match &operation.actor { Some(actor) => { (ui::actor(actor)) }, None => { (ui::none()) } } },
        ]
    });
    let content = html! {
        (ui::heading("Doubts", html! { "Nobody knows whether these happened. Find out at the provider, then decide. Nothing is repeated meanwhile." }))
        div #doubts data-fragment {
            section {
                h2 { "Steps of runs" }
                (ui::table(&["Step", "In doubt", "What is known", "Attempts", "Run"], steps.collect(), "No step is in doubt."))
                (ui::pager(PATH, &[], cursor.is_empty(), page.next_cursor.as_deref()))
            }
            section {
                h2 { "Operations on entities" }
                (ui::table(&["Step", "Entity", "In doubt", "Asked for by"], held.collect(), "No operation is in doubt."))
            }
        }
    };
    Ok(visit.page("Doubts", content))
}

async fn show(visit: Visit, Path((run, step)): Path<(String, String)>) -> Result<Response, Failure> {
    let doubt = find(&visit, &run, &step).await?;
    let ledger: Page<LedgerEntry> = visit.read(&ops::SHOW_RUN_LEDGER, &[&run], &[]).await?;
    let entry = ledger.items.iter().find(|entry| entry.step_id == step);
    let journal: Page<JournalEntry> =
        visit.read(&ops::LIST_RUN_NOTES, &[&run], &[("limit", Some("200"))]).await?;
    let known: Vec<JournalEntry> = journal
        .items
        .into_iter()
        .filter(|entry| entry.step_id.as_ref().is_none_or(|of| *of == step))
        .collect();
    let content = html! {
        div.heading {
            p.crumb { a href=(PATH) { "Doubts" } " / " (ui::run_link(&run)) }
            h1 { "Did " (step) " happen?" }
            @if let Some(doubt) = &doubt { p.about { "It came into doubt " (ui::ago(&doubt.since, visit.now_ms)) ", in " (doubt.workflow) "." } }
        }
        @match &doubt {
            Some(doubt) => { (facts_of(doubt, entry)) (proposals(&visit, doubt, &known)) (rulings(&visit, doubt)) }
            None => { div.notice.good { p.sentence { "It is no longer in doubt." } p { "What was decided is below, and on " (ui::run_link(&run)) "." } } }
        }
        @if let Some(entry) = entry { section { h2 { "Every time it was entered" } (attempts(entry)) } }
        section { h2 { "What became known" } (ui::journal(&known, "Nothing was noted.")) }
    };
    Ok(visit.page(&format!("Doubt about {step}"), content))
}

/// Finds the doubt among the open ones.
async fn find(visit: &Visit, run: &str, step: &str) -> Result<Option<Doubt>, Failure> {
    let mut cursor = String::new();
    for _ in 0..crate::limits::MAX_DOUBT_PAGES {
        let query = [("limit", Some("200")), ("cursor", Some(cursor.as_str()))];
        let page: Page<Doubt> = visit.read(&ops::LIST_DOUBTS, &[], &query).await?;
        if let Some(found) = page.items.into_iter().find(|doubt| doubt.run_id == run && doubt.step_id == step)
        {
            return Ok(Some(found));
        }
        let Some(next) = page.next_cursor else { return Ok(None) };
        cursor = next;
    }
    Ok(None)
}

fn facts_of(doubt: &Doubt, entry: Option<&LedgerEntry>) -> Markup {
    html! {
        div.notice.doubt {
            p.sentence { (ui::sentence(&doubt.failure.message)) }
            p { "Ask the provider about " (ui::id(&doubt.effect_key)) ". That is the key the effect was sent under." }
            @if let Some(entry) = entry {
                @if !entry.probes.is_empty() { p { "The provider was asked " (entry.probes.len()) " times; it said: " (entry.probes.join(", ").replace('_', " ")) "." } }
                @if entry.refused_writes > 0 { p { (entry.refused_writes) " late outcomes were refused, because their worker no longer held the run. They are evidence, below." } }
            }
        }
        (ui::facts(vec![
            ("Workflow", html! { (doubt.workflow) }),
            ("Run", ui::run_link(&doubt.run_id)),
            ("In doubt since", ui::time(&doubt.since)),
            ("Attempts", html! { (doubt.attempts) }),
        ]))
    }
}

/// Open proposals, each with the effect of confirming it.
fn proposals(visit: &Visit, doubt: &Doubt, journal: &[JournalEntry]) -> Markup {
    let is_open = |entry: &&JournalEntry| {
        entry.what == JournalKind::RulingProposed && entry.version == Some(doubt.version)
    };
    let open: Vec<&JournalEntry> = journal.iter().filter(is_open).collect();
    html! {
        @if !open.is_empty() {
            section #proposals {
                h2 { "Proposed, and waiting for a second person" }
                div.rulings { @for entry in open { (proposal(visit, doubt, entry)) } }
            }
        }
    }
}

fn proposal(visit: &Visit, doubt: &Doubt, entry: &JournalEntry) -> Markup {
    let (Some(resolution), Some(id), Some(by)) = (entry.resolution, &entry.proposal_id, &entry.actor) else {
        return html! {};
    };
    let (_, label, effect, tone) = described(resolution);
    let is_own = by.credential_id.as_deref() == Some(visit.session.credential.as_str());
    let is_manager = |role: Role| matches!(role, Role::Manager | Role::Admin);
    let has_manager = resolution == Resolution::Happened || is_manager(by.role) || visit.is_manager();
    let action = format!("{}/confirm", path(&doubt.run_id, &doubt.step_id));
    html! {
        div.ruling {
            p { b { (label) } " · first: " (ui::actor(by)) ", " (ui::ago(&entry.at, visit.now_ms)) }
            @if let Some(reason) = &entry.reason { blockquote { (reason) } }
            @if let Some(output) = &entry.result { (ui::json(output.text())) }
            @if !visit.may(&ops::CONFIRM_RULING) {
                (form::disabled("Confirm", html! { "Your role may look, and not decide." }))
            } @else if is_own {
                (form::disabled("Confirm", html! { "You proposed this. Somebody else must look for themselves and confirm it." }))
            } @else if !has_manager {
                (form::disabled("Confirm", html! { "It cannot be taken back, so one of the two people is a manager." }))
            } @else {
                (form::disclosed("Confirm…", tone, form::form(visit, &action, None, html! {
                    input type="hidden" name="proposal" value=(id);
                    input type="hidden" name="seen" value=(doubt.version);
                    p { "You are the second person. " (effect) }
                    (form::area("reason", "What did you check yourself?", "", Some("Kept in the audit log, under your name."), true))
                    (form::submit(&format!("Confirm: {label}"), tone))
                })))
            }
        }
    }
}

/// A ruling in words: its label, and what it does.
fn described(resolution: Resolution) -> (Resolution, &'static str, &'static str, Tone) {
    let found = RULINGS.into_iter().find(|(of, ..)| *of == resolution);
    found.expect("every ruling is described")
}

/// Rulings, from harmless to grave.
const RULINGS: [(Resolution, &str, &str, Tone); 4] = [
    (
        Resolution::Happened,
        "It happened",
        "The run goes on with the output you give. Nothing is sent again.",
        Tone::Primary,
    ),
    (
        Resolution::DidNotHappen,
        "It did not happen",
        "The step is run, so the effect is sent now. If it did happen after all, it happens twice.",
        Tone::Danger,
    ),
    (
        Resolution::Compensate,
        "It is undone",
        "You, or the provider, took it back. The run goes on with the output you give.",
        Tone::Danger,
    ),
    (
        Resolution::Abandon,
        "Nobody will ever know",
        "The step counts as failed, and the run goes on as its workflow says.",
        Tone::Danger,
    ),
];

/// Forms for the rulings.
fn rulings(visit: &Visit, doubt: &Doubt) -> Markup {
    if !visit.may(&ops::RESOLVE_DOUBT) {
        return form::disabled("Decide", html! { "Your role may look, and not decide." });
    }
    html! {
        section {
            h2 { "Decide" }
            div.rulings {
                @for (resolution, label, effect, tone) in RULINGS {
                    @if doubt.resolutions.contains(&resolution) { (ruling(visit, doubt, resolution, label, effect, tone)) }
                }
            }
        }
    }
}

fn ruling(
    visit: &Visit,
    doubt: &Doubt,
    resolution: Resolution,
    label: &str,
    effect: &str,
    tone: Tone,
) -> Markup {
    // A ruling that cannot be taken back needs a second person: a manager, or anybody if two people always decide.
    let takes_two = resolution != Resolution::Happened && (doubt.takes_two_people || !visit.is_manager());
    let needs_output = matches!(resolution, Resolution::Happened | Resolution::Compensate);
    let word = text::spelled(&resolution).replace(' ', "_");
    let fields = html! {
        input type="hidden" name="resolution" value=(word);
        input type="hidden" name="seen" value=(doubt.version);
        p { (effect) }
        @if needs_output { (form::area("output", "Output", "", Some("One JSON value: what the effect gave."), true)) }
        (form::area("reason", "How do you know?", "", Some("Kept in the audit log, under your name."), true))
        @if takes_two { p.hint { "Nothing happens until a second person confirms it. One of the two is a manager." } }
        (form::submit(&if takes_two { format!("Propose: {label}") } else { label.to_owned() }, tone))
    };
    let what = if takes_two { "propose" } else { "resolve" };
    let action = format!("{}/{what}", path(&doubt.run_id, &doubt.step_id));
    let opens = if takes_two { format!("Propose: {label}…") } else { format!("{label}…") };
    html! { div.ruling { (form::disclosed(&opens, tone, form::form(visit, &action, None, fields))) p.hint { (effect) } } }
}

async fn resolve(
    Path((run, step)): Path<(String, String)>,
    mut form: Submitted,
) -> Result<Response, Failure> {
    let asked = asked(&mut form, &run, &step)?;
    form.send(&ops::RESOLVE_DOUBT, &[&run, &step], &asked).await?;
    Ok(form.done(&ui::run_path(&run), &format!("Decided: {} {}.", step, text::spelled(&asked.resolution))))
}

async fn propose(
    Path((run, step)): Path<(String, String)>,
    mut form: Submitted,
) -> Result<Response, Failure> {
    let asked = asked(&mut form, &run, &step)?;
    form.send(&ops::PROPOSE_RULING, &[&run, &step], &asked).await?;
    let told =
        format!("Proposed: {}. A second person confirms it on this page.", text::spelled(&asked.resolution));
    Ok(form.done(&path(&run, &step), &told))
}

async fn confirm(
    Path((run, step)): Path<(String, String)>,
    mut form: Submitted,
) -> Result<Response, Failure> {
    form.leads_back_to(&path(&run, &step));
    let asked = ConfirmRuling {
        proposal_id: form.text("proposal").into(),
        reason: form.text("reason").into(),
        version: form.number("seen")?,
    };
    form.send(&ops::CONFIRM_RULING, &[&run, &step], &asked).await?;
    Ok(form.done(&ui::run_path(&run), &format!("Confirmed. Two people decided about {step}.")))
}

/// The ruling that a form asks for.
fn asked(form: &mut Submitted, run: &str, step: &str) -> Result<ResolveDoubt, Failure> {
    form.leads_back_to(&path(run, step));
    let resolution = match form.text("resolution") {
        "happened" => Resolution::Happened,
        "did_not_happen" => Resolution::DidNotHappen,
        "compensate" => Resolution::Compensate,
        _ => Resolution::Abandon,
    };
    Ok(ResolveDoubt {
        resolution,
        output: form.json("output")?,
        reason: form.text("reason").into(),
        version: form.number("seen")?,
        by: None,
    })
}
