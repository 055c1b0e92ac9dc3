//! Deliveries of webhooks.

use hapax_api as api;
use hapax_engine::model::{OutboxMessage, OutboxState, OutboxStatus};
use hapax_webhooks::MessageId;

use super::{failure_to_api, raw};

/// One delivery to a subscription.
pub(crate) fn delivery_to_api(post: &OutboxMessage, subscription: &str) -> api::WebhookDelivery {
    let (mut next_attempt_at, mut delivered_at, mut given_up_at) = (None, None, None);
    match post.state {
        OutboxState::Due { at } => next_attempt_at = Some(at.to_string()),
        OutboxState::Claimed { .. } => {}
        OutboxState::Delivered { at } => delivered_at = Some(at.to_string()),
        OutboxState::Dead { at } => given_up_at = Some(at.to_string()),
    }
    api::WebhookDelivery {
        id: post.id.to_string(),
        webhook_id: MessageId::from_key(post.workspace.as_str(), post.id.as_str()).to_string(),
        subscription_id: subscription.to_owned(),
        // A workflow may send a message of its own, which is not an announced event.
        event: post.id.announced().map_or("after_effect", |(what, _)| what.as_str()).to_owned(),
        run_id: post.run.to_string(),
        status: status_to_api(post.state.status()),
        attempts: post.attempts,
        created_at: post.created_at.to_string(),
        next_attempt_at,
        delivered_at,
        given_up_at,
        failure: post.failure.as_ref().map(failure_to_api),
        body: raw(&post.payload),
    }
}

fn status_to_api(status: OutboxStatus) -> api::DeliveryStatus {
    match status {
        OutboxStatus::Due => api::DeliveryStatus::Due,
        OutboxStatus::Claimed => api::DeliveryStatus::Claimed,
        OutboxStatus::Delivered => api::DeliveryStatus::Delivered,
        OutboxStatus::Dead => api::DeliveryStatus::Dead,
    }
}

/// The status with this spelling, if there is one.
pub(crate) fn parse_delivery_status(text: &str) -> Option<OutboxStatus> {
    let named = api::DeliveryStatus::from_name(text)?;
    OutboxStatus::ALL.into_iter().find(|status| status_to_api(*status) == named)
}
