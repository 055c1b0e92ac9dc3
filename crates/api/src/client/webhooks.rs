//! Subscriptions and deliveries of webhooks, one method per route.

use super::routes::{Paging, segment, with_reason};
use super::sending::Ask;
use super::{Client, ClientError, RequestOptions};
use crate::{
    ChangeSubscription, CreateSubscription, DeliveryStatus, DiscardWebhooks, IssuedSubscription, Page,
    RedeliverWebhook, RedeliverWebhooks, RotateSubscription, Subscription, TestedSubscription,
    WebhookDelivery,
};

/// Filter for a list of deliveries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeliveryFilter {
    /// Only to this subscription.
    pub subscription: Option<String>,
    /// Only deliveries with this status.
    pub status: Option<DeliveryStatus>,
}

impl Client {
    /// Creates a subscription. The response shows its secret once, so the request is not retried.
    pub async fn create_subscription(
        &self,
        asked: &CreateSubscription,
    ) -> Result<IssuedSubscription, ClientError> {
        self.call(Ask::change_once("/api/v1/webhook-subscriptions".into(), asked)?).await
    }

    /// Subscriptions that are not deleted, without their secrets.
    pub async fn list_subscriptions(&self, paging: &Paging) -> Result<Page<Subscription>, ClientError> {
        self.page("/api/v1/webhook-subscriptions".into(), paging, &[]).await
    }

    /// One subscription, without its secret.
    pub async fn get_subscription(&self, id: &str) -> Result<Subscription, ClientError> {
        self.call(Ask::read(subscription_path(id, "")?)).await
    }

    /// Gives a subscription a new secret. The response shows it once, so the request is not
    /// retried.
    pub async fn rotate_subscription(
        &self,
        id: &str,
        asked: &RotateSubscription,
    ) -> Result<IssuedSubscription, ClientError> {
        self.call(Ask::change_once(subscription_path(id, "/rotate")?, asked)?).await
    }

    /// Changes a subscription.
    pub async fn change_subscription(
        &self,
        id: &str,
        change: &ChangeSubscription,
        options: RequestOptions,
    ) -> Result<Subscription, ClientError> {
        self.call(Ask::patch(subscription_path(id, "")?, change, options)?).await
    }

    /// Deletes a subscription; answers with the subscription as it was.
    pub async fn delete_subscription(
        &self,
        id: &str,
        reason: Option<&str>,
        options: RequestOptions,
    ) -> Result<Subscription, ClientError> {
        self.call(Ask::delete(with_reason(subscription_path(id, "")?, reason), options)?).await
    }

    /// Sends a subscription a `test.ping` now, and returns the result.
    pub async fn test_subscription(
        &self,
        id: &str,
        options: RequestOptions,
    ) -> Result<TestedSubscription, ClientError> {
        let nothing = serde_json::json!({});
        self.call(Ask::change(subscription_path(id, "/test")?, &nothing, options)?).await
    }

    /// Deliveries, in the order of their runs.
    pub async fn list_deliveries(
        &self,
        filter: &DeliveryFilter,
        paging: &Paging,
    ) -> Result<Page<WebhookDelivery>, ClientError> {
        let subscription = filter.subscription.clone().map(|id| ("subscription", id));
        let status = filter.status.map(|status| ("status", status.as_str().to_owned()));
        let query: Vec<_> = subscription.into_iter().chain(status).collect();
        self.page("/api/v1/webhook-deliveries".into(), paging, &query).await
    }

    /// Redelivers a delivery that was delivered or given up.
    pub async fn redeliver_webhook(
        &self,
        id: &str,
        asked: &RedeliverWebhook,
        options: RequestOptions,
    ) -> Result<WebhookDelivery, ClientError> {
        let path = format!("/api/v1/webhook-deliveries/{}/redeliver", segment(id)?);
        self.call(Ask::change(path, asked, options)?).await
    }

    /// Redelivers many deliveries to one subscription.
    pub async fn redeliver_webhooks(
        &self,
        asked: &RedeliverWebhooks,
        options: RequestOptions,
    ) -> Result<Page<WebhookDelivery>, ClientError> {
        self.call(Ask::change("/api/v1/webhook-deliveries/redeliver".into(), asked, options)?).await
    }

    /// Discards deliveries that were given up; returns them as they were.
    pub async fn discard_webhooks(
        &self,
        asked: &DiscardWebhooks,
        options: RequestOptions,
    ) -> Result<Page<WebhookDelivery>, ClientError> {
        self.call(Ask::change("/api/v1/webhook-deliveries/discard".into(), asked, options)?).await
    }
}

fn subscription_path(id: &str, rest: &str) -> Result<String, ClientError> {
    Ok(format!("/api/v1/webhook-subscriptions/{}{rest}", segment(id)?))
}
