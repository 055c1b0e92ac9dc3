//! Received events, for people: list, show, and process again.

use std::sync::Arc;

use hapax_api as api;
use hapax_api::{Code, Problem, ReceivedStatus, WebhookActionStatus};
use hapax_engine::model::{
    Actor, InboundEvent, InboundEventId, InboundEventStatus, JournalEntry, JournalEvent, Name, WorkspaceId,
};
use hapax_engine::store::ListInboundEvents;

use super::InboundWebhooks;
use super::outcome::{ActionResult, Outcome};
use crate::errors::problem_of_store;
use crate::limits::WEBHOOKS_READ_AT_ONCE;

/// Filter for events.
#[derive(Debug, Clone, Default)]
pub(crate) struct EventFilter {
    pub(crate) source: Option<String>,
    pub(crate) status: Option<ReceivedStatus>,
}

impl InboundWebhooks {
    /// Events of a workspace before a position, newest first, and the position where the page ends.
    /// They are read a few at a time, because each comes with its body.
    pub(crate) async fn list_events(
        &self,
        workspace: &WorkspaceId,
        filter: &EventFilter,
        mut before: Option<u64>,
        limit: usize,
    ) -> Result<(Vec<api::ReceivedWebhookSummary>, Option<u64>), Problem> {
        let source = match &filter.source {
            None => None,
            Some(source) => match Name::new("source name", source) {
                Ok(source) => Some(source),
                Err(_) => return Ok((Vec::new(), None)),
            },
        };
        let status = filter.status.map(parse_status);
        let mut found = Vec::new();
        while found.len() < limit {
            let asked = (limit - found.len()).min(WEBHOOKS_READ_AT_ONCE);
            let (workspace, source) = (workspace.clone(), source.clone());
            let request = ListInboundEvents { workspace, source, status, before, limit: asked };
            let inbound =
                self.book()?.list_inbound_events(request).await.map_err(|error| problem_of_store(&error))?;
            found.extend(inbound.iter().map(shown));
            match inbound.last() {
                Some(last) if inbound.len() == asked => before = Some(last.place),
                _ => return Ok((found, None)),
            }
        }
        Ok((found, before))
    }

    /// One event.
    pub(crate) async fn get_event(
        &self,
        workspace: &WorkspaceId,
        source: &str,
        event: &str,
    ) -> Result<InboundEvent, Problem> {
        let absent = || {
            Problem::new(
                Code::NotFound,
                "There is no such webhook event in this workspace; list them with GET /api/v1/webhook-events.",
            )
        };
        let source = Name::new("source name", source).map_err(|_| absent())?;
        let id = InboundEventId { workspace: workspace.clone(), source, event: event.to_owned() };
        let found = self.book()?.find_inbound_event(&id).await.map_err(|error| problem_of_store(&error))?;
        found.ok_or_else(absent)
    }

    /// Processes an event again, with the current source.
    pub(crate) async fn reprocess(
        self: &Arc<Self>,
        workspace: &WorkspaceId,
        source: &str,
        event: &str,
        by: Actor,
    ) -> Result<InboundEvent, Problem> {
        let hook = self.get_event(workspace, source, event).await?;
        let what = JournalEvent::SetUp {
            kind: "webhook-event".into(),
            id: format!("{source}/{event}"),
            change: "reprocessed".into(),
        };
        let note = JournalEntry::on_workspace(workspace.clone(), by, self.store.now(), what);
        self.store.append_journal(vec![note]).await.map_err(|error| problem_of_store(&error))?;
        self.process_again(hook).await?;
        self.get_event(workspace, source, event).await
    }

    /// Processes the newest events of a status before a position again, oldest first; returns the
    /// position of the next ones.
    pub(crate) async fn reprocess_many(
        self: &Arc<Self>,
        workspace: &WorkspaceId,
        filter: &EventFilter,
        before: Option<u64>,
        limit: usize,
        by: &Actor,
    ) -> Result<(Vec<api::ReceivedWebhookSummary>, Option<u64>), Problem> {
        let (found, next) = self.list_events(workspace, filter, before, limit).await?;
        let mut processed = Vec::with_capacity(found.len());
        for event in found.iter().rev() {
            let hook = self.reprocess(workspace, &event.source, &event.event_id, by.clone()).await?;
            processed.push(shown(&hook));
        }
        Ok((processed, next))
    }
}

/// Summary for lists.
pub(crate) fn shown(hook: &InboundEvent) -> api::ReceivedWebhookSummary {
    let status = match hook.status {
        InboundEventStatus::Received => ReceivedStatus::Received,
        InboundEventStatus::Applied => ReceivedStatus::Applied,
        InboundEventStatus::Ignored => ReceivedStatus::Ignored,
        InboundEventStatus::Unmatched => ReceivedStatus::Unmatched,
        InboundEventStatus::Failed => ReceivedStatus::Failed,
    };
    let outcome = hook.outcome.as_ref().and_then(|outcome| outcome.to::<Outcome>().ok());
    api::ReceivedWebhookSummary {
        source: hook.id.source.to_string(),
        event_id: hook.id.event.clone(),
        status,
        received_at: hook.received_at.to_string(),
        changed_at: hook.changed_at.to_string(),
        duplicates: hook.duplicates,
        attempts: hook.attempts,
        outcome: outcome.map(outcome_to_api),
    }
}

/// Full form, with headers and body.
pub(crate) fn event_with_body_to_api(hook: &InboundEvent) -> api::ReceivedWebhook {
    api::ReceivedWebhook {
        summary: shown(hook),
        headers: hook.headers.to().unwrap_or_default(),
        raw_body: String::from_utf8_lossy(&hook.body).into_owned(),
    }
}

fn outcome_to_api(outcome: Outcome) -> api::WebhookOutcome {
    let actions = outcome.actions.into_iter().map(|action| api::WebhookActionOutcome {
        action: action.action,
        status: match action.result {
            ActionResult::Applied => WebhookActionStatus::Applied,
            ActionResult::Skipped => WebhookActionStatus::Skipped,
            ActionResult::Unmatched => WebhookActionStatus::Unmatched,
            ActionResult::Failed => WebhookActionStatus::Failed,
        },
        detail: action.detail,
        promise_id: action.promise_id,
        run_id: action.run_id,
    });
    api::WebhookOutcome { detail: outcome.detail, actions: actions.collect() }
}

fn parse_status(status: ReceivedStatus) -> InboundEventStatus {
    match status {
        ReceivedStatus::Received => InboundEventStatus::Received,
        ReceivedStatus::Applied => InboundEventStatus::Applied,
        ReceivedStatus::Ignored => InboundEventStatus::Ignored,
        ReceivedStatus::Unmatched => InboundEventStatus::Unmatched,
        ReceivedStatus::Failed => InboundEventStatus::Failed,
    }
}
