//! A retry: first what it would do, then the button.

use axum::extract::{Path, Query};
use axum::response::Response;
use hapax_api::{PlannedEffect, RetryPlan, RetryRun, RunDetail};
use maud::{Markup, html};
use serde::Deserialize;

use crate::failure::Failure;
use crate::form::{self, Submitted, Tone};
use crate::visit::Visit;
use crate::{ops, text, ui};

#[derive(Debug, Default, Deserialize)]
pub(super) struct From {
    #[serde(default)]
    from: String,
}

pub(super) async fn plan(
    visit: Visit,
    Path(id): Path<String>,
    Query(From { from }): Query<From>,
) -> Result<Response, Failure> {
    let path = ui::run_path(&id);
    let detail: RunDetail = visit.read(&ops::SHOW_RUN, &[&id], &[]).await?;
    let plan: RetryPlan = visit.read(&ops::SHOW_RETRY_PLAN, &[&id], &[("fromStep", Some(&from))]).await?;
    let mut steps = vec![("", "only what failed")];
    steps.extend(
        detail
            .steps
            .iter()
            .take(crate::limits::MAX_STEPS_SHOWN)
            .map(|step| (step.id.as_str(), step.id.as_str())),
    );
    let repeats = !plan.repeat_effects.is_empty();
    let content = html! {
        div.heading {
            p.crumb { a href="/console/runs" { "Runs" } " / " a href=(path) { (id) } }
            h1 { "Retry" }
            p.about { "Nothing has happened yet. This is what a retry would do to the effects of the run." }
        }
        form.filters action={ (path) "/retry" } {
            (form::choice("from", "Run again from", &steps, &from))
            button.plain type="submit" { "Show the plan" }
        }
        div.plan {
            section { h2 { "Stays done (" (plan.stays_done.len()) ")" } (effects(&plan.stays_done, "No effect stays: none has happened.")) }
            section { h2 { "Runs again (" (plan.runs_again.len()) ")" } (effects(&plan.runs_again, "No effect runs again.")) }
        }
        @if repeats && !visit.is_manager() {
            (form::disabled("Retry", html! { "Effects that have happened would happen again. That takes a manager." }))
        } @else if visit.may(&ops::RETRY_RUN) {
            section { (form::form(&visit, &format!("{path}/retry"), Some(plan.version), html! {
                input type="hidden" name="from" value=(from);
                @if repeats {
                    div.notice.bad {
                        p.sentence { "These effects have happened, and would happen a second time. Tick each that is to happen again." }
                        @for step in &plan.repeat_effects {
                            label.check { input type="checkbox" name="repeat" value=(step) required; span { code { (step) } " happens again" } }
                        }
                    }
                }
                (form::area("reason", "Reason", "", Some("Kept in the audit log."), repeats))
                (form::submit("Retry", if repeats { Tone::Danger } else { Tone::Primary }))
            })) }
        }
    };
    Ok(visit.page("Retry", content))
}

fn effects(effects: &[PlannedEffect], nothing: &str) -> Markup {
    let rows = effects.iter().map(|effect| {
        vec![
            html! { (effect.step_id) @if effect.happens_again { " " (ui::badge(ui::State::Bad, "happens again")) } },
            ui::step_badge(effect.status),
            html! { @match effect.class { Some(class) => { (text::spelled(&class)) }, None => { (ui::none()) } } },
            html! { (ui::id(&effect.effect_key)) @if let Some(child) = &effect.child_run_id { br; "child " (ui::run_link(child)) } },
        ]
    });
    ui::table(&["Step", "Stands", "Class", "Effect key"], rows.collect(), nothing)
}

pub(super) async fn send(Path(id): Path<String>, mut form: Submitted) -> Result<Response, Failure> {
    let path = ui::run_path(&id);
    form.leads_back_to(&format!("{path}/retry"));
    let asked = RetryRun {
        from_step: form.given("from"),
        reason: form.given("reason"),
        repeat_effects: form.all("repeat"),
    };
    form.send(&ops::RETRY_RUN, &[&id], &asked).await?;
    Ok(form.done(&path, "The run was reopened."))
}
