//! Endpoint for providers' webhooks. Open to all: the signature is the credential.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use hapax_api as api;
use hapax_api::ReceiptStatus;
use http::StatusCode;

use super::request::PathOf;
use crate::answer::Refused;
use crate::app::App;
use crate::body_budget::BodyCharge;
use crate::connection::Peer;
use crate::limits::MAX_WEBHOOK_BYTES;
use crate::strict_json::read_body;
use crate::webhooks::inbound::{IntakeResult, ReceivedRequest, SourceAddress};

/// Receives a webhook for the source with this id. It is stored before the 2xx response; a
/// duplicate does nothing.
pub(crate) async fn take_in(
    State(app): State<Arc<App>>,
    PathOf(source): PathOf<String>,
    peer: Option<Extension<Peer>>,
    request: Request,
) -> Result<Response, Refused> {
    take(&app, SourceAddress::Id(source), peer, request).await
}

/// Receives a webhook for a source named by its workspace and name.
pub(crate) async fn take_in_by_name(
    State(app): State<Arc<App>>,
    PathOf((workspace, name)): PathOf<(String, String)>,
    peer: Option<Extension<Peer>>,
    request: Request,
) -> Result<Response, Refused> {
    take(&app, SourceAddress::InWorkspace { workspace, name }, peer, request).await
}

async fn take(
    app: &App,
    named: SourceAddress,
    peer: Option<Extension<Peer>>,
    request: Request,
) -> Result<Response, Refused> {
    let (parts, body) = request.into_parts();
    let address = peer.map(|Extension(peer)| peer.address.ip());
    // A request to an unknown source is not stored.
    let Some(source) = app.inbound.find_named(&named, address).await? else {
        return Err(app.inbound.refuse_stranger(body, address).await);
    };
    if let Some(charge) = parts.extensions.get::<BodyCharge>() {
        charge.count_for(&source.workspace);
    }
    let body = read_body(body, MAX_WEBHOOK_BYTES).await?;
    let sent = ReceivedRequest { headers: &parts.headers, body: &body, address };
    Ok(match app.inbound.take_in(source, sent).await? {
        IntakeResult::Taken(receipt) => {
            let status = match receipt.status {
                ReceiptStatus::Received => StatusCode::ACCEPTED,
                _ => StatusCode::OK,
            };
            (status, Json(receipt)).into_response()
        }
        IntakeResult::Challenged(challenge) => Json(api::WebhookChallenge { challenge }).into_response(),
    })
}
