//! The stored form and the wire form of a subscription.

use std::collections::BTreeSet;

use hapax_api as api;
use hapax_api::{Code, Problem, SubscriptionStatus, WebhookEvent};
use hapax_engine::model::{AnnouncementKind, CatalogItem, Name, Subscriber, Timestamp, Version, WorkspaceId};
use serde::{Deserialize, Serialize};

use crate::sealing::Sealed;

/// Prefix of outbox targets that are subscriptions.
const TARGET: &str = "webhook.";

/// Stored part of a subscription, without its times. Its secret is sealed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct SubscriptionBody {
    pub(super) name: String,
    pub(super) url: String,
    pub(super) events: BTreeSet<WebhookEvent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<String>,
    pub(super) state: SubscriptionStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    pub(super) secret: Sealed,
    /// Key that the receiver verifies with, if it differs from the secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) public_key: Option<String>,
    /// The secret before the last rotation, and when it stops signing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) old_secret: Option<OldSecret>,
}

/// An old secret that still signs for a while.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct OldSecret {
    pub(super) secret: Sealed,
    pub(super) until: i64,
}

/// A subscription.
#[derive(Debug, Clone)]
pub(crate) struct Subscription {
    pub(crate) id: Name,
    pub(crate) workspace: WorkspaceId,
    pub(crate) version: Version,
    pub(super) created_at: Timestamp,
    pub(super) changed_at: Timestamp,
    pub(super) kept: SubscriptionBody,
}

impl Subscription {
    pub(super) fn of(item: &CatalogItem) -> Result<Self, Problem> {
        let kept = item.body.to().map_err(|error| {
            tracing::error!(subscription = %item.id, %error, "a stored subscription cannot be read");
            let detail = "A stored subscription cannot be read. Report `traceId` to the operator.";
            Problem::new(Code::StoreBroken, detail)
        })?;
        Ok(Subscription {
            id: item.id.clone(),
            workspace: item.workspace.clone(),
            version: item.version,
            created_at: item.created_at,
            changed_at: item.changed_at,
            kept,
        })
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.kept.state == SubscriptionStatus::Deleted
    }

    /// Rejects a request that needs an enabled subscription.
    pub(crate) fn require_enabled(&self) -> Result<(), Problem> {
        match self.not_told() {
            None => Ok(()),
            Some(why) => Err(Problem::new(
                Code::SubscriptionDisabled,
                format!(
                    "{why}. If it was not deleted, enable it with PATCH /api/v1/webhook-subscriptions/{} and `{{\"status\": \"enabled\"}}`.",
                    self.id
                ),
            )
            .with("subscriptionId", self.id.to_string())
            .with("reason", self.kept.reason.clone())),
        }
    }

    /// Why it receives no events, if so.
    pub(super) fn not_told(&self) -> Option<String> {
        let state = match self.kept.state {
            SubscriptionStatus::Enabled => return None,
            SubscriptionStatus::Disabled => "disabled",
            SubscriptionStatus::Deleted => "deleted",
        };
        let because = self.kept.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        Some(format!("the subscription is {state}{because}"))
    }

    /// The engine's form, if it receives events.
    pub(super) fn subscriber(&self) -> Option<Subscriber> {
        let wants = self.kept.events.iter().map(|event| announced(*event)).collect();
        let is_told = self.kept.state == SubscriptionStatus::Enabled;
        is_told.then(|| Subscriber { target: self.target(), wants })
    }

    /// The target of its after-effects.
    pub(super) fn target(&self) -> Name {
        target_of(&self.id)
    }

    /// Place that its secrets are sealed for.
    pub(super) fn place(&self) -> String {
        place_of(&self.workspace, &self.id)
    }

    /// The wire form, without its secret.
    pub(crate) fn shown(&self) -> api::Subscription {
        let kept = self.kept.clone();
        api::Subscription {
            id: self.id.to_string(),
            name: kept.name,
            url: kept.url,
            events: kept.events.into_iter().collect(),
            description: kept.description,
            public_key: kept.public_key,
            status: kept.state,
            reason: kept.reason,
            version: self.version.get(),
            created_at: self.created_at.to_string(),
            changed_at: self.changed_at.to_string(),
            old_secret_until: kept.old_secret.map(|old| Timestamp::from_millis(old.until).to_string()),
        }
    }
}

pub(super) fn place_of(workspace: &WorkspaceId, id: &Name) -> String {
    format!("subscription {workspace} {id}")
}

/// The target of a subscription's after-effects.
pub(super) fn target_of(id: &Name) -> Name {
    Name::new("target", &format!("{TARGET}{id}")).expect("ids of subscriptions are short")
}

/// The subscription of a target, if it is one.
pub(crate) fn subscription_of(target: &Name) -> Option<&str> {
    target.as_str().strip_prefix(TARGET)
}

fn announced(event: WebhookEvent) -> AnnouncementKind {
    match event {
        WebhookEvent::RunCompleted => AnnouncementKind::RunCompleted,
        WebhookEvent::RunFailed => AnnouncementKind::RunFailed,
        WebhookEvent::RunCancelled => AnnouncementKind::RunCancelled,
        WebhookEvent::EffectInDoubt => AnnouncementKind::EffectInDoubt,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_engine_announces_can_be_subscribed_to_under_the_same_name() {
        let names = WebhookEvent::ALL.map(|event| (event.as_str(), announced(event).as_str()));
        assert!(names.iter().all(|(wire, engine)| wire == engine), "{names:?}");
        assert_eq!(names.len(), AnnouncementKind::ALL.len());
    }

    #[test]
    fn a_target_tells_its_subscription() {
        let id = Name::new("id", "sub_1").unwrap();
        assert_eq!(subscription_of(&target_of(&id)), Some("sub_1"));
        assert_eq!(subscription_of(&Name::new("target", "mail").unwrap()), None);
    }
}
