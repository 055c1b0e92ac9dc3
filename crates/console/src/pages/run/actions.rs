//! Commands on a run.

use axum::extract::Path;
use axum::response::Response;
use hapax_api::{AddNote, CancelRun, RejectPromise, ResolvePromise, Run, RunStatus, SendSignal, SteerRun};
use maud::{Markup, html};

use super::is_open;
use crate::failure::Failure;
use crate::form::{self, Submitted, Tone};
use crate::ops::{self, Op};
use crate::ui;
use crate::visit::Visit;

/// Buttons that the state of the run and the role of the caller allow.
pub(super) fn buttons(visit: &Visit, run: &Run) -> Markup {
    let path = ui::run_path(&run.id);
    let (is_open, is_paused) = (is_open(run.status), run.status == RunStatus::Paused);
    let reason = |needed: bool| form::area("reason", "Reason", "", Some("Kept in the audit log."), needed);
    let steer = |name: &str, label: &str, tone: Tone, fields: Markup| {
        form::disclosed(
            &format!("{label}…"),
            tone,
            form::form(
                visit,
                &format!("{path}/{name}"),
                Some(run.version),
                html! {
                    (fields) (form::submit(label, tone))
                },
            ),
        )
    };
    html! {
        div.actions {
            @if is_paused && visit.may(&ops::RESUME_RUN) { (steer("resume", "Resume", Tone::Primary, reason(false))) }
            @if is_open && !is_paused && visit.may(&ops::PAUSE_RUN) { (steer("pause", "Pause", Tone::Plain, reason(false))) }
            @if is_open && visit.may(&ops::SEND_SIGNAL) {
                (form::disclosed("Send signal…", Tone::Plain, form::form(visit, &format!("{path}/signal"), None, html! {
                    (form::text_field("name", "Signal", "", None, true))
                    (form::area("value", "Value", "", Some("One JSON value; null if empty."), false))
                    (form::submit("Send signal", Tone::Plain))
                })))
            }
            @if run.status == RunStatus::Failed && visit.may(&ops::RETRY_RUN) {
                a.button.primary href={ (path) "/retry" } { "Retry…" }
            }
            @if is_open && visit.may(&ops::CANCEL_RUN) {
                (steer("cancel", "Cancel run", Tone::Danger, html! {
                    p { "The run undoes what it can, then ends. Effects that happened are not taken back unless the workflow compensates them." }
                    (reason(false))
                    @if run.parent.is_none() {
                        label.check { input type="checkbox" name="descendants" value="yes"; span { "Also cancel everything that descends from it" } }
                    }
                }))
            }
        }
    }
}

async fn steer(mut form: Submitted, id: &str, op: &Op, done: &str) -> Result<Response, Failure> {
    let path = ui::run_path(id);
    form.leads_back_to(&path);
    form.send(op, &[id], &SteerRun { reason: form.given("reason") }).await?;
    Ok(form.done(&path, done))
}

pub(super) async fn pause(Path(id): Path<String>, form: Submitted) -> Result<Response, Failure> {
    steer(form, &id, &ops::PAUSE_RUN, "The run was asked to pause.").await
}

pub(super) async fn resume(Path(id): Path<String>, form: Submitted) -> Result<Response, Failure> {
    steer(form, &id, &ops::RESUME_RUN, "The run goes on.").await
}

pub(super) async fn cancel(Path(id): Path<String>, mut form: Submitted) -> Result<Response, Failure> {
    let path = ui::run_path(&id);
    form.leads_back_to(&path);
    let asked = CancelRun { reason: form.given("reason"), descendants: form.is_ticked("descendants") };
    form.send(&ops::CANCEL_RUN, &[&id], &asked).await?;
    Ok(form.done(&path, "The run was asked to cancel."))
}

pub(super) async fn signal(Path(id): Path<String>, mut form: Submitted) -> Result<Response, Failure> {
    let path = ui::run_path(&id);
    form.leads_back_to(&path);
    // The key of the form names the signal, so that it is one signal however often it arrives.
    let asked = SendSignal {
        name: form.text("name").into(),
        value: form.json("value")?,
        signal_id: form.given("key"),
    };
    form.send(&ops::SEND_SIGNAL, &[&id], &asked).await?;
    Ok(form.done(&path, "The signal was sent."))
}

pub(super) async fn add_note(Path(id): Path<String>, mut form: Submitted) -> Result<Response, Failure> {
    let path = format!("{}?tab=notes", ui::run_path(&id));
    form.leads_back_to(&path);
    form.send(&ops::ADD_RUN_NOTE, &[&id], &AddNote { text: form.text("text").into(), step_id: None }).await?;
    Ok(form.done(&path, "The note was added."))
}

/// Settles the promise that the run waits for.
pub(super) fn settling(visit: &Visit, run: &str, key: &str) -> Markup {
    let action = format!("{}/settle", ui::run_path(run));
    let as_what = |how: &str, fields: Markup| {
        form::form(
            visit,
            &action,
            None,
            html! {
                input type="hidden" name="promise" value=(key);
                input type="hidden" name="how" value=(how);
                (fields)
            },
        )
    };
    html! {
        @if visit.may(&ops::RESOLVE_PROMISE) {
            div.actions {
                (form::disclosed("Resolve it…", Tone::Plain, as_what("resolve", html! {
                    (form::area("value", "Value", "", Some("One JSON value, as the webhook would carry; null if empty."), false))
                    (form::submit("Resolve", Tone::Primary))
                })))
                (form::disclosed("Reject it…", Tone::Plain, as_what("reject", html! {
                    (form::area("message", "Why will there be no value?", "", None, true))
                    (form::submit("Reject", Tone::Danger))
                })))
            }
        }
    }
}

pub(super) async fn settle(Path(id): Path<String>, mut form: Submitted) -> Result<Response, Failure> {
    let path = ui::run_path(&id);
    form.leads_back_to(&path);
    let promise = format!("key:{}", form.text("promise"));
    match form.text("how") {
        "reject" => {
            let asked = RejectPromise { message: form.text("message").into(), code: None };
            form.send(&ops::REJECT_PROMISE, &[&promise], &asked).await?;
        }
        _ => {
            let asked = ResolvePromise { value: form.json("value")? };
            form.send(&ops::RESOLVE_PROMISE, &[&promise], &asked).await?;
        }
    }
    Ok(form.done(&path, "The promise was settled."))
}
