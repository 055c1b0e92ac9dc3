//! Reveals the hidden values of a run to managers who give a reason.

use axum::extract::Path;
use axum::response::Response;
use hapax_api::{RawJson, RevealRun, Run, RunDetail, Step};
use maud::{Markup, html};

use crate::failure::Failure;
use crate::form::{self, Submitted, Tone};
use crate::visit::Visit;
use crate::{ops, ui};

/// Placeholder for a hidden value.
const MASKED: &str = "\"[masked]\"";

fn values<'a>(run: &'a Run, steps: &'a [Step]) -> impl Iterator<Item = (&'a str, &'a RawJson)> {
    let own = [("Input", Some(&run.input)), ("Output", run.output.as_ref())];
    let own = own.into_iter().filter_map(|(name, value)| Some((name, value?)));
    own.chain(steps.iter().filter_map(|step| Some((step.id.as_str(), step.output.as_ref()?))))
}

/// The form that asks for what is hidden, if anything of the run or of the shown steps is.
pub(super) fn offer(visit: &Visit, run: &Run, steps: &[Step]) -> Markup {
    let is_hidden = values(run, steps).any(|(_, value)| value.text().contains(MASKED));
    if !is_hidden {
        return html! {};
    }
    if !visit.may(&ops::REVEAL_RUN) {
        return html! { p.hint { "Some values are hidden. A manager can reveal them, with a reason." } };
    }
    let action = format!("{}/reveal", ui::run_path(&run.id));
    form::disclosed(
        "Reveal hidden values…",
        Tone::Plain,
        form::form(
            visit,
            &action,
            None,
            html! {
                p { "The audit log keeps that you looked, and why." }
                (form::area("reason", "Reason", "", Some("For example the number of the complaint."), true))
                (form::submit("Reveal", Tone::Primary))
            },
        ),
    )
}

/// The values, this once. No address leads back to them.
pub(super) async fn show(Path(id): Path<String>, mut form: Submitted) -> Result<Response, Failure> {
    form.leads_back_to(&ui::run_path(&id));
    let asked = RevealRun { reason: form.text("reason").into() };
    let answer = form.send_with(&ops::REVEAL_RUN, &[&id], &[], Some(&asked)).await?;
    let detail: RunDetail = form.read(&answer)?;
    let content = html! {
        (ui::heading("Hidden values", html! { "Of " (ui::run_link(&id)) ". The audit log has that you looked." }))
        @for (name, value) in values(&detail.run, &detail.steps) { section { h2 { (name) } (ui::json(value.text())) } }
        div.actions { a.button.primary href=(ui::run_path(&id)) { "Back to the run" } }
    };
    Ok(form.visit.page("Hidden values", content))
}
