//! Webhook sources and their events, one method per route.

use super::routes::{CreatedOrExisting, Document, Paging, segment, with_reason};
use super::sending::Ask;
use super::{Client, ClientError, RequestOptions};
use crate::{
    ChangeWebhookSource, Page, ReceivedStatus, ReceivedWebhook, ReceivedWebhookSummary, ReprocessWebhooks,
    ReprocessedWebhooks, WebhookSource, WebhookSourceSummary,
};

/// Filter for a list of events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReceivedFilter {
    /// Only of this source.
    pub source: Option<String>,
    /// Only those with this status.
    pub status: Option<ReceivedStatus>,
}

/// Sources.
impl Client {
    /// Uploads a source. It does not replace a different one of the same name.
    pub async fn create_source(
        &self,
        document: Document<'_>,
        options: RequestOptions,
    ) -> Result<CreatedOrExisting<WebhookSource>, ClientError> {
        self.make(upload("/api/v1/webhook-sources".into(), document, options)?).await
    }

    /// Replaces the document of a source.
    pub async fn replace_source(
        &self,
        name: &str,
        document: Document<'_>,
        options: RequestOptions,
    ) -> Result<WebhookSource, ClientError> {
        let path = source_path(name, "")?;
        self.call(match document {
            Document::Json(text) => Ask::put_text(path, "application/json", text, options)?,
            Document::Yaml(text) => Ask::put_text(path, "application/yaml", text, options)?,
        })
        .await
    }

    /// Sources, in the order of their ids.
    pub async fn list_sources(&self, paging: &Paging) -> Result<Page<WebhookSourceSummary>, ClientError> {
        self.page("/api/v1/webhook-sources".into(), paging, &[]).await
    }

    /// One source with its document.
    pub async fn get_source(&self, name: &str) -> Result<WebhookSource, ClientError> {
        self.call(Ask::read(source_path(name, "")?)).await
    }

    /// Enables or disables a source.
    pub async fn change_source(
        &self,
        name: &str,
        change: &ChangeWebhookSource,
        options: RequestOptions,
    ) -> Result<WebhookSource, ClientError> {
        self.call(Ask::patch(source_path(name, "")?, change, options)?).await
    }

    /// Deletes a source; answers with the source as it was.
    pub async fn delete_source(
        &self,
        name: &str,
        reason: Option<&str>,
        options: RequestOptions,
    ) -> Result<WebhookSource, ClientError> {
        self.call(Ask::delete(with_reason(source_path(name, "")?, reason), options)?).await
    }
}

/// Received events.
impl Client {
    /// Events, newest first.
    pub async fn list_received(
        &self,
        filter: &ReceivedFilter,
        paging: &Paging,
    ) -> Result<Page<ReceivedWebhookSummary>, ClientError> {
        let mut query = Vec::new();
        query.extend(filter.source.clone().map(|source| ("source", source)));
        query.extend(filter.status.map(|status| ("status", status.as_str().to_owned())));
        self.page("/api/v1/webhook-events".into(), paging, &query).await
    }

    /// One event with its headers and body.
    pub async fn get_received(&self, source: &str, event: &str) -> Result<ReceivedWebhook, ClientError> {
        self.call(Ask::read(event_path(source, event, "")?)).await
    }

    /// Processes an event again, with the current source.
    pub async fn reprocess_received(
        &self,
        source: &str,
        event: &str,
        options: RequestOptions,
    ) -> Result<ReceivedWebhookSummary, ClientError> {
        let nothing = serde_json::Map::new();
        self.call(Ask::change(event_path(source, event, "/reprocess")?, &nothing, options)?).await
    }

    /// Processes the newest events of a status again.
    pub async fn reprocess_many_received(
        &self,
        asked: &ReprocessWebhooks,
        options: RequestOptions,
    ) -> Result<ReprocessedWebhooks, ClientError> {
        self.call(Ask::change("/api/v1/webhook-events/reprocess".into(), asked, options)?).await
    }
}

fn upload(path: String, document: Document<'_>, options: RequestOptions) -> Result<Ask, ClientError> {
    match document {
        Document::Json(text) => Ask::change_text(path, "application/json", text, options),
        Document::Yaml(text) => Ask::change_text(path, "application/yaml", text, options),
    }
}

fn source_path(name: &str, rest: &str) -> Result<String, ClientError> {
    Ok(format!("/api/v1/webhook-sources/{}{rest}", segment(name)?))
}

fn event_path(source: &str, event: &str, rest: &str) -> Result<String, ClientError> {
    Ok(format!("/api/v1/webhook-events/{}/{}{rest}", segment(source)?, segment(event)?))
}
