//! Accepts webhooks: verified, stored, and only then answered with a 2xx.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use hapax_api as api;
use hapax_api::{Code, Problem, ReceiptStatus};
use hapax_documents::evaluate_fairly;
use hapax_documents::source::{Event, Reading, Unreadable, visible_headers};
use hapax_engine::model::{InboundEvent, InboundEventId, InboundEventStatus, Name, Payload, WorkspaceId};
use hapax_engine::store::{NewInboundEvent, ReceiveOutcome};
use http::HeaderMap;

use super::InboundWebhooks;
use super::source::StoredSource;
use super::verify::{DecoyDigest, SignatureRejection};
use crate::answer::Refused;
use crate::errors::{problem_of_invalid, problem_of_store};
use crate::limits::{MAX_WEBHOOK_BYTES, PROCESS_WEBHOOK_WITHIN, WEBHOOK_RETRY_AFTER_SECONDS};
use crate::strict_json::read_pieces;

/// How an address names its source.
#[derive(Debug)]
pub(crate) enum SourceAddress {
    /// By its id.
    Id(String),
    /// By workspace and name.
    InWorkspace {
        /// The workspace.
        workspace: String,
        /// The name.
        name: String,
    },
}

/// A received request.
#[derive(Debug)]
pub(crate) struct ReceivedRequest<'a> {
    pub(crate) headers: &'a HeaderMap,
    /// Body, byte for byte.
    pub(crate) body: &'a [u8],
    /// Address of the sender, if known.
    pub(crate) address: Option<IpAddr>,
}

/// Response to the sender.
#[derive(Debug)]
pub(crate) enum IntakeResult {
    /// It is stored.
    Taken(api::WebhookReceipt),
    /// The provider sent a challenge to check the endpoint.
    Challenged(String),
}

impl InboundWebhooks {
    /// Finds the source that an address names, before the body is read. If another node has just
    /// created the source, it is read from the store. If the store is unreachable, that is a server
    /// error and not a 404.
    pub(crate) async fn find_named(
        &self,
        named: &SourceAddress,
        address: Option<IpAddr>,
    ) -> Result<Option<Arc<StoredSource>>, Refused> {
        let known = match named {
            SourceAddress::Id(id) => self.find_by_id(id),
            SourceAddress::InWorkspace { workspace, name } => {
                let Ok(workspace) = WorkspaceId::new(workspace) else { return Ok(None) };
                self.find_by_name(&workspace, name)
            }
        };
        // After too many failures from an address, the store is not queried for it.
        let may_look = address.is_none_or(|it| self.strangers.check(it, None, Instant::now()).is_ok());
        if known.is_some() || !may_look {
            return Ok(known);
        }
        Ok(match named {
            SourceAddress::Id(id) => self.find_source_by_id(id).await?,
            SourceAddress::InWorkspace { workspace, name } => {
                let Ok(workspace) = WorkspaceId::new(workspace) else { return Ok(None) };
                self.find_source(&workspace, name).await?
            }
        })
    }

    /// Reads and drops a request to an unknown source, and rejects it in the same way as a failed
    /// signature check.
    pub(crate) async fn refuse_stranger(&self, body: Body, address: Option<IpAddr>) -> Refused {
        let mut digest = DecoyDigest::new();
        if let Err(refused) = read_pieces(body, MAX_WEBHOOK_BYTES, |piece, _| digest.update(&piece)).await {
            return refused;
        }
        digest.finish();
        self.disbelieve(&SignatureRejection::UnknownSource, None, address)
    }

    /// Accepts a webhook. Every failed verification gets the same response.
    pub(crate) async fn take_in(
        self: &Arc<Self>,
        source: Arc<StoredSource>,
        sent: ReceivedRequest<'_>,
    ) -> Result<IntakeResult, Refused> {
        let source = self.believe(source, &sent).await?;
        let read = || source.source().read(sent.headers, sent.body);
        let event = match evaluate_fairly(&source.workspace, read).await {
            Ok(Reading::Event(event)) => event,
            Ok(Reading::Challenge(challenge)) => return Ok(IntakeResult::Challenged(challenge)),
            Err(unreadable) => {
                self.metrics.webhook_refused(unreadable.code());
                tracing::info!(source = source.name(), workspace = %source.workspace, %unreadable, "a signed webhook cannot be read");
                return Err(cannot_be_read(&unreadable).into());
            }
        };
        let status = match self.receive(&source, &event, &sent).await? {
            ReceiveOutcome::New(hook) => self.process_soon(source, hook, event.clone()).await,
            ReceiveOutcome::Duplicate(_) => {
                self.metrics.webhook(&source.workspace, source.name(), "duplicate");
                ReceiptStatus::Duplicate
            }
        };
        Ok(IntakeResult::Taken(api::WebhookReceipt { event_id: event.id, status }))
    }

    /// Finds the source that verifies the request. A failing source may have been replaced on
    /// another node a moment ago, so the cached one is compared with the store before the request
    /// is rejected. An unreachable store is a server error.
    async fn believe(
        &self,
        source: Arc<StoredSource>,
        sent: &ReceivedRequest<'_>,
    ) -> Result<Arc<StoredSource>, Refused> {
        let Err(why) = self.verify(&source, sent.headers, sent.body, self.store.now()).await else {
            return Ok(source);
        };
        // After too many failures from an address, the store is not queried for it.
        let may_look = sent.address.is_none_or(|it| self.strangers.check(it, None, Instant::now()).is_ok());
        let newer = match may_look {
            true => self.find_source_by_id(source.id.as_str()).await?,
            false => None,
        };
        let Some(newer) = newer.filter(|newer| newer.version > source.version) else {
            return Err(self.disbelieve(&why, Some(&source), sent.address));
        };
        match self.verify(&newer, sent.headers, sent.body, self.store.now()).await {
            Ok(()) => Ok(newer),
            Err(why) => Err(self.disbelieve(&why, Some(&newer), sent.address)),
        }
    }

    /// One response for every failure; a sender that fails too often must wait. A valid signature
    /// is never delayed by the failures of others at the same address, because many senders share
    /// one.
    fn disbelieve(
        &self,
        why: &SignatureRejection,
        source: Option<&StoredSource>,
        address: Option<IpAddr>,
    ) -> Refused {
        if let SignatureRejection::SecretUnavailable(_) = why {
            self.metrics.webhook_refused(why.code());
            let detail = "The signature cannot be checked now, because a secret of the source cannot be read. Nothing was stored; send it again.";
            return Problem::new(Code::SecretUnavailable, detail)
                .retry_after(WEBHOOK_RETRY_AFTER_SECONDS)
                .into();
        }
        let now = Instant::now();
        if let Some(address) = address {
            if let Err(refused) = self.strangers.check(address, None, now) {
                self.metrics.webhook_refused("rate_limited");
                return refused;
            }
            self.strangers.record_failure(address, None, now);
        }
        self.metrics.webhook_refused(why.code());
        let (name, workspace) = match source {
            Some(source) => (source.name(), source.workspace.as_str()),
            None => ("", ""),
        };
        tracing::warn!(source = name, workspace, reason = why.code(), %why, "a webhook failed verification");
        Refused::new(
            Code::WebhookSignatureInvalid,
            "The source does not exist, or the signature is wrong or too old. Nothing was stored.",
        )
    }

    async fn receive(
        &self,
        source: &StoredSource,
        event: &Event,
        sent: &ReceivedRequest<'_>,
    ) -> Result<ReceiveOutcome, Problem> {
        let headers = visible_headers(sent.headers).map_err(|unreadable| cannot_be_read(&unreadable))?;
        let id = InboundEventId {
            workspace: source.workspace.clone(),
            source: Name::new("source name", source.name())
                .map_err(|invalid| problem_of_invalid(&invalid))?,
            event: event.id.clone(),
        };
        let headers = Payload::of(&headers).map_err(|invalid| problem_of_invalid(&invalid))?;
        let new = NewInboundEvent { id, headers, body: sent.body.to_vec() };
        self.book()?.receive_event(new).await.map_err(|error| problem_of_store(&error))
    }

    /// Processes the event now if that is quick. Otherwise it continues without the sender, and the
    /// sweeper takes over if this process dies.
    async fn process_soon(
        self: &Arc<Self>,
        source: Arc<StoredSource>,
        hook: InboundEvent,
        event: Event,
    ) -> ReceiptStatus {
        let inbound = self.clone();
        let task = tokio::spawn(async move { inbound.process(&source, &hook, event).await });
        match tokio::time::timeout(PROCESS_WEBHOOK_WITHIN, task).await {
            Ok(Ok(Ok(status))) => receipt_of(status),
            // It is stored, and the sweeper will process it.
            Ok(Ok(Err(_)) | Err(_)) | Err(_) => ReceiptStatus::Received,
        }
    }
}

fn receipt_of(status: InboundEventStatus) -> ReceiptStatus {
    match status {
        InboundEventStatus::Received => ReceiptStatus::Received,
        InboundEventStatus::Applied => ReceiptStatus::Applied,
        InboundEventStatus::Ignored => ReceiptStatus::Ignored,
        InboundEventStatus::Unmatched => ReceiptStatus::Unmatched,
        InboundEventStatus::Failed => ReceiptStatus::Failed,
    }
}

/// Error for a sender with a valid signature: explains what is wrong with the body.
fn cannot_be_read(unreadable: &Unreadable) -> Problem {
    let code = match unreadable {
        Unreadable::TooLarge => Code::PayloadTooLarge,
        Unreadable::HeadersTooLarge => Code::HeadersTooLarge,
        Unreadable::Compressed => Code::UnsupportedMediaType,
        Unreadable::Body(_) => Code::InvalidJson,
        Unreadable::EventId(_) => Code::InvalidRequest,
    };
    Problem::new(code, format!("{unreadable}. Nothing was stored."))
}
