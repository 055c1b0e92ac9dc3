//! The journal: facts, decisions and notes, one line each.

use hapax_api::{Actor, JournalEntry, JournalKind};
use maud::{Markup, html};

/// Name of an actor, with the credential in the title.
pub(crate) fn actor(actor: &Actor) -> Markup {
    let name = actor.person.as_deref().unwrap_or(&actor.name);
    html! {
        span.actor title=[actor.credential_id.as_deref()] {
            (name) " " span.dim { "(" (actor.role.as_str()) @if actor.person.is_some() { ", " (actor.name) } ")" }
        }
    }
}

/// Entries in the order given.
pub(crate) fn journal(entries: &[JournalEntry], nothing: &str) -> Markup {
    if entries.is_empty() {
        return super::empty(nothing);
    }
    html! { ol.journal { @for entry in entries { (line(entry)) } } }
}

fn line(entry: &JournalEntry) -> Markup {
    let is_note = entry.what == JournalKind::Noted;
    html! {
        li.note[is_note].by-people[entry.actor.is_some()] {
            div.when { (super::time(&entry.at)) }
            div.what {
                p {
                    b { (word(entry.what)) }
                    @if let Some(command) = &entry.command { " " (command) }
                    @if let Some(resolution) = entry.resolution { " " (super::tag(crate::text::spelled(&resolution).as_str())) }
                    @if let Some(step) = &entry.step_id { " · step " code { (step) } }
                    @if let Some(attempt) = entry.attempt { " · attempt " (attempt) }
                    @if let Some(target) = &entry.target { " · " code { (target) } }
                    @if let Some(status) = &entry.status { " → " code { (status) } }
                    @if let Some(by) = &entry.actor { " · " (actor(by)) }
                    @if let Some(by) = &entry.seconded_by { ", agreed by " (actor(by)) }
                }
                @if let Some(reason) = &entry.reason { blockquote { (reason) } }
                @if let Some(failure) = &entry.failure { p.dim { (super::sentence(&failure.message)) @if let Some(code) = &failure.code { " " code { (code) } } } }
                @if let Some(answer) = &entry.answer { p.dim { "Answer: " (answer) } }
                @if let Some(result) = &entry.result { (super::json(result.text())) }
            }
        }
    }
}

/// Label for the kind of an entry.
pub(crate) fn word(what: JournalKind) -> &'static str {
    match what {
        JournalKind::Claimed => "Claimed",
        JournalKind::Failed => "Attempt failed",
        JournalKind::Doubted => "Came into doubt",
        JournalKind::Attempted => "Attempt became known",
        JournalKind::Superseded => "Record dropped by a retry",
        JournalKind::RepeatAllowed => "Repeat allowed",
        JournalKind::Probed => "Provider asked",
        JournalKind::Refused => "Late outcome refused",
        JournalKind::Resolved => "Decided",
        JournalKind::RulingProposed => "Ruling proposed",
        JournalKind::PayloadsRevealed => "Hidden values revealed",
        JournalKind::SignInsRefused => "Sign-in refused",
        JournalKind::ApprovalAnswered => "Approval answered",
        JournalKind::PromiseSettled => "Promise settled",
        JournalKind::SettleTokenIssued => "Settle token issued",
        JournalKind::StepTaken => "Step taken",
        JournalKind::Steered => "Asked to",
        JournalKind::Redelivered => "Redelivered",
        JournalKind::Noted => "Note",
        JournalKind::KeyReleased => "Key released",
        JournalKind::CredentialChanged => "Credential",
        JournalKind::WorkspaceChanged => "Workspace",
        JournalKind::DefinitionUploaded => "Definition",
        JournalKind::SubscriptionChanged => "Subscription",
        JournalKind::PushWorkerChanged => "Push worker",
        JournalKind::SourceChanged => "Webhook source",
        JournalKind::WebhookReprocessed => "Webhook processed again",
        JournalKind::WebhookDiscarded => "Webhook discarded",
        JournalKind::EntityWorkflowChanged => "Entity workflow",
        JournalKind::Began => "Began",
        JournalKind::TriedAgain => "Tried again",
        JournalKind::Reverted => "Given back by the janitor",
        JournalKind::Held => "Left for people by the janitor",
        JournalKind::Overridden => "Overridden",
        JournalKind::Ended => "Ended",
    }
}
