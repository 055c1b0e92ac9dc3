//! Creates and changes subscriptions. Each change is in the audit log, and takes effect on this
//! node at once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use hapax_api as api;
use hapax_api::{Code, Problem, SubscriptionStatus, WebhookSigning};
use hapax_engine::model::{
    Actor, CatalogKind, JournalEntry, JournalEvent, Name, Payload, Role as Rank, Version, WorkspaceId,
    is_misleading_name, is_misleading_text,
};
use hapax_engine::store::{PutCatalogItem, PutOutcome};
use hapax_outgoing::{Refusal, Request};
use hapax_webhooks::SigningSecret;
use secrecy::{ExposeSecret, SecretString};

use super::stored::{OldSecret, SubscriptionBody, place_of};
use super::{Subscription, Subscriptions};
use crate::errors::problem_of_store;
use crate::limits::{
    MAX_DESCRIPTION_CHARS, MAX_SECRET_OVERLAP, MAX_SUBSCRIPTIONS, MAX_SUBSCRIPTIONS_PER_WORKSPACE,
    MAX_WEBHOOK_URL_CHARS, SECRET_OVERLAP,
};
use crate::sealing::Sealed;

/// How often a change is retried after a conflict.
const TRIES: u32 = 5;

impl Subscriptions {
    /// Creates a subscription and its secret, which is shown once.
    pub(crate) async fn create(
        &self,
        workspace: &WorkspaceId,
        asked: api::CreateSubscription,
        by: Actor,
    ) -> Result<(Arc<Subscription>, SecretString), Problem> {
        self.check(workspace, &asked)?;
        self.check_quota(workspace)?;
        let id = fresh_id()?;
        let signing = asked.signing.unwrap_or_default();
        let fresh = self.fresh_secret(&place_of(workspace, &id), signing)?;
        let kept = SubscriptionBody {
            name: asked.name,
            url: asked.url,
            events: BTreeSet::from_iter(asked.events),
            description: asked.description,
            state: SubscriptionStatus::Enabled,
            reason: None,
            secret: fresh.sealed,
            public_key: fresh.public_key,
            old_secret: None,
        };
        let request = PutCatalogItem {
            workspace: workspace.clone(),
            kind: CatalogKind::Subscription,
            name: kept.name.clone(),
            body: body_of(&kept)?,
            expected: None,
            note: Some(self.note(workspace, by, &id, "created")),
            id,
        };
        match self.catalog().put_item(request).await.map_err(|error| problem_of_store(&error))? {
            PutOutcome::Put(item) => Ok((self.learn(&item)?, fresh.shown)),
            PutOutcome::NameTaken(other) => Err(name_taken(&other.id)),
            other @ (PutOutcome::Exists(_) | PutOutcome::Stale(_) | PutOutcome::Missing) => {
                tracing::error!(?other, "a fresh subscription id was taken");
                let detail = "The subscription could not be created. Send the request again.";
                Err(Problem::new(Code::Internal, detail))
            }
        }
    }

    /// Gives a subscription a new secret; the old one also signs for a while.
    pub(crate) async fn rotate(
        &self,
        workspace: &WorkspaceId,
        id: &str,
        overlap: Option<Duration>,
        by: Actor,
    ) -> Result<(Arc<Subscription>, SecretString), Problem> {
        let overlap = overlap.unwrap_or(SECRET_OVERLAP);
        if overlap > MAX_SECRET_OVERLAP {
            let days = MAX_SECRET_OVERLAP.as_secs() / 86_400;
            let detail = format!("The old secret may sign for at most {days} more days.");
            return Err(Problem::new(Code::InvalidRequest, detail).with("path", "/overlap"));
        }
        let found = self.get(workspace, id).await?;
        let signing = match found.kept.public_key {
            Some(_) => WebhookSigning::Ed25519,
            None => WebhookSigning::Hmac,
        };
        let fresh = self.fresh_secret(&found.place(), signing)?;
        let until = self.store.now().plus(overlap).as_millis();
        let rotate = |_, kept: &mut SubscriptionBody| {
            let old = std::mem::replace(&mut kept.secret, fresh.sealed.clone());
            kept.public_key.clone_from(&fresh.public_key);
            kept.old_secret = (!overlap.is_zero()).then_some(OldSecret { secret: old, until });
            true
        };
        Ok((self.change(workspace, id, None, by, "rotated", rotate).await?, fresh.shown))
    }

    /// Changes the content of a subscription, its status, or both. Repeating the request changes
    /// nothing.
    pub(crate) async fn patch(
        &self,
        workspace: &WorkspaceId,
        id: &str,
        asked: &api::ChangeSubscription,
        expected: Option<Version>,
        by: Actor,
    ) -> Result<Arc<Subscription>, Problem> {
        if let Some(reason) = &asked.reason {
            check_text("/reason", reason, MAX_DESCRIPTION_CHARS)?;
        }
        let found = self.get(workspace, id).await?;
        self.check(workspace, &merged(&found.kept, asked))?;
        let what = match &asked.reason {
            Some(reason) => format!("{}: {reason}", verb_of(asked)),
            None => verb_of(asked).to_owned(),
        };
        let patch = |_, kept: &mut SubscriptionBody| {
            let before = kept.clone();
            apply(kept, asked);
            *kept != before
        };
        self.change(workspace, id, expected, by, &what, patch).await
    }

    /// Deletes a subscription. Repeating the request changes nothing.
    pub(crate) async fn delete(
        &self,
        workspace: &WorkspaceId,
        id: &str,
        reason: Option<&str>,
        expected: Option<Version>,
        by: Actor,
    ) -> Result<Arc<Subscription>, Problem> {
        if let Some(reason) = reason {
            check_text("query:reason", reason, MAX_DESCRIPTION_CHARS)?;
        }
        let what = reason.map_or("deleted".into(), |reason| format!("deleted: {reason}"));
        let delete = |_, kept: &mut SubscriptionBody| {
            let is_news = kept.state != SubscriptionStatus::Deleted;
            if is_news {
                kept.state = SubscriptionStatus::Deleted;
                kept.reason = reason.map(Into::into);
            }
            is_news
        };
        self.change(workspace, id, expected, by, &what, delete).await
    }

    /// Disables a subscription whose receiver answers that it is gone.
    pub(super) async fn disable_for_good(&self, subscription: &Subscription, why: &str) {
        let by = Actor::new(format!("receiver of {}", subscription.id), Rank::Operator);
        let (workspace, id) = (&subscription.workspace, subscription.id.as_str());
        let disable = |seen: Version, kept: &mut SubscriptionBody| {
            // If it was changed since, a person has handled it; the next delivery shows if that
            // helped.
            let is_as_it_was = seen == subscription.version && kept.state == SubscriptionStatus::Enabled;
            if is_as_it_was {
                kept.state = SubscriptionStatus::Disabled;
                kept.reason = Some(why.into());
            }
            is_as_it_was
        };
        let disabled = self.change(workspace, id, None, by, &format!("disabled: {why}"), disable).await;
        if let Err(problem) = disabled {
            // The next delivery gets the same response.
            tracing::warn!(subscription = id, %problem, "a subscription whose receiver is gone could not be disabled");
        }
    }

    /// Changes the stored form. Retries after a conflict if no version was expected. `change`
    /// receives the version, and returns whether there is anything to write.
    async fn change(
        &self,
        workspace: &WorkspaceId,
        id: &str,
        expected: Option<Version>,
        by: Actor,
        what: &str,
        change: impl Fn(Version, &mut SubscriptionBody) -> bool,
    ) -> Result<Arc<Subscription>, Problem> {
        for _ in 0..TRIES {
            let found = self.get(workspace, id).await?;
            let mut kept = found.kept.clone();
            let is_news = change(found.version, &mut kept);
            if is_news && found.is_deleted() {
                return Err(Problem::new(Code::NotFound, "The subscription was deleted; create a new one."));
            }
            if let Some(expected) = expected.filter(|expected| *expected != found.version) {
                let (now, seen) = (found.version.get(), expected.get());
                let detail = format!("The subscription is at version {now}, not {seen}; look at it again.");
                return Err(Problem::new(Code::Concurrency, detail).with("version", now));
            }
            if !is_news {
                return Ok(found);
            }
            let is_deleted = kept.state == SubscriptionStatus::Deleted;
            let request = PutCatalogItem {
                workspace: workspace.clone(),
                kind: CatalogKind::Subscription,
                id: found.id.clone(),
                // The name of a deleted subscription is free for another.
                name: if is_deleted { found.id.to_string() } else { kept.name.clone() },
                body: body_of(&kept)?,
                expected: Some(found.version),
                note: Some(self.note(workspace, by.clone(), &found.id, what)),
            };
            match self.catalog().put_item(request).await.map_err(|error| problem_of_store(&error))? {
                PutOutcome::Put(item) => return self.learn(&item),
                PutOutcome::NameTaken(other) => return Err(name_taken(&other.id)),
                PutOutcome::Stale(_) | PutOutcome::Exists(_) | PutOutcome::Missing => {}
            }
        }
        let detail = "Other requests keep changing the subscription. Send the request again.";
        Err(Problem::new(Code::StoreUnavailable, detail).retry_after(1))
    }

    fn check(&self, workspace: &WorkspaceId, asked: &api::CreateSubscription) -> Result<(), Problem> {
        check_text("/name", &asked.name, 128)?;
        check_text("/url", &asked.url, MAX_WEBHOOK_URL_CHARS)?;
        if let Some(description) = &asked.description {
            check_text("/description", description, MAX_DESCRIPTION_CHARS)?;
        }
        if asked.events.is_empty() || asked.events.len() > 4 * api::WebhookEvent::ALL.len() {
            let known = api::WebhookEvent::ALL.map(api::WebhookEvent::as_str).join(", ");
            let detail = format!("Name at least one event: {known}.");
            return Err(Problem::new(Code::InvalidRequest, detail).with("path", "/events"));
        }
        let request = Request::post(asked.url.clone(), "");
        let outgoing = self.outgoing.of(workspace);
        match outgoing.check(&request) {
            Ok(()) if outgoing.is_plain_beyond_trust(&request) => {
                let detail = "Events would cross the internet in clear text. Use https, or ask the operator to add the destination to \
                              `allow` or `workspace-allow`.";
                Err(Problem::new(Code::AddressNotAllowed, detail).with("path", "/url"))
            }
            Ok(()) => Ok(()),
            Err(why @ (Refusal::BadUrl { .. } | Refusal::Scheme { .. } | Refusal::Credentials)) => {
                Err(Problem::new(Code::InvalidRequest, format!("The address cannot be used: {why}."))
                    .with("path", "/url"))
            }
            Err(why) => {
                let detail = format!("Webhooks cannot be sent there: {why}.");
                Err(Problem::new(Code::AddressNotAllowed, detail).with("path", "/url"))
            }
        }
    }

    fn check_quota(&self, workspace: &WorkspaceId) -> Result<(), Problem> {
        let known = self.known.read().expect("no holder panics");
        let living = || known.by_id.values().filter(|one| !one.is_deleted());
        let here = living().filter(|one| one.workspace == *workspace).count();
        let (most, of) = match () {
            () if here >= MAX_SUBSCRIPTIONS_PER_WORKSPACE => (MAX_SUBSCRIPTIONS_PER_WORKSPACE, "workspace"),
            () if living().count() >= MAX_SUBSCRIPTIONS => (MAX_SUBSCRIPTIONS, "server"),
            () => return Ok(()),
        };
        let detail =
            format!("This {of} holds at most {most} subscriptions. Delete one that is no longer needed.");
        Err(Problem::new(Code::QuotaExceeded, detail).with("quota", "subscriptions"))
    }

    fn fresh_secret(&self, place: &str, signing: WebhookSigning) -> Result<NewSecret, Problem> {
        let secret = match signing {
            WebhookSigning::Hmac => SigningSecret::generate(),
            WebhookSigning::Ed25519 => SigningSecret::generate_pair(),
        };
        let secret = secret.map_err(no_random)?;
        let kept = secret.reveal();
        let sealed = self.sealer.seal(place, kept.expose_secret().as_bytes()).map_err(no_random)?;
        let public_key = secret.public_key().map(|key| key.to_string());
        let shown = public_key.clone().map_or(kept, SecretString::from);
        Ok(NewSecret { shown, sealed, public_key })
    }

    fn note(&self, workspace: &WorkspaceId, by: Actor, id: &Name, change: &str) -> JournalEntry {
        let kind = CatalogKind::Subscription.as_str().into();
        let what = JournalEvent::SetUp { kind, id: id.to_string(), change: change.into() };
        JournalEntry::on_workspace(workspace.clone(), by, self.store.now(), what)
    }
}

/// The subscription as a create request would describe it, with the changes applied.
fn merged(kept: &SubscriptionBody, asked: &api::ChangeSubscription) -> api::CreateSubscription {
    let mut changed = kept.clone();
    apply(&mut changed, asked);
    api::CreateSubscription {
        name: changed.name,
        url: changed.url,
        events: asked.events.clone().unwrap_or_else(|| changed.events.into_iter().collect()),
        description: changed.description,
        signing: None,
    }
}

fn apply(kept: &mut SubscriptionBody, asked: &api::ChangeSubscription) {
    if let Some(name) = &asked.name {
        kept.name.clone_from(name);
    }
    if let Some(url) = &asked.url {
        kept.url.clone_from(url);
    }
    if let Some(events) = &asked.events {
        kept.events = events.iter().copied().collect();
    }
    if let Some(description) = &asked.description {
        kept.description = Some(description.clone()).filter(|text| !text.is_empty());
    }
    let to = match asked.status {
        Some(api::ActivationStatus::Enabled) => SubscriptionStatus::Enabled,
        Some(api::ActivationStatus::Disabled) => SubscriptionStatus::Disabled,
        None => return,
    };
    if kept.state != to {
        kept.state = to;
        kept.reason = asked.reason.clone().filter(|_| to != SubscriptionStatus::Enabled);
    }
}

/// The change in one word, for the audit log.
fn verb_of(asked: &api::ChangeSubscription) -> &'static str {
    let says_more =
        asked.name.is_some() || asked.url.is_some() || asked.events.is_some() || asked.description.is_some();
    match asked.status {
        Some(api::ActivationStatus::Enabled) if !says_more => "enabled",
        Some(api::ActivationStatus::Disabled) if !says_more => "disabled",
        Some(api::ActivationStatus::Enabled) => "changed and enabled",
        Some(api::ActivationStatus::Disabled) => "changed and disabled",
        None => "changed",
    }
}

fn name_taken(by: &Name) -> Problem {
    let detail = format!("The subscription {by} has this name; choose another.");
    Problem::new(Code::NameTaken, detail).with("subscriptionId", by.to_string())
}

/// A new secret.
struct NewSecret {
    /// Secret for the receiver.
    shown: SecretString,
    sealed: Sealed,
    public_key: Option<String>,
}

fn check_text(path: &'static str, text: &str, most: usize) -> Result<(), Problem> {
    let length = text.chars().count();
    let is_misleading = match path {
        "/name" | "/url" => is_misleading_name(text),
        _ => is_misleading_text(text),
    };
    if text.trim().is_empty() || length > most || is_misleading {
        let detail = format!("Use 1 to {most} visible characters.");
        return Err(Problem::new(Code::InvalidRequest, detail).with("path", path));
    }
    Ok(())
}

fn fresh_id() -> Result<Name, Problem> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(no_random)?;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Name::new("subscription id", &format!("sub_{hex}")).expect("hex digits are a plain word"))
}

fn body_of(kept: &SubscriptionBody) -> Result<Payload, Problem> {
    Payload::of(kept).map_err(|invalid| crate::errors::problem_of_invalid(&invalid))
}

fn no_random(error: impl std::fmt::Display) -> Problem {
    tracing::error!(%error, "no secret could be created");
    Problem::new(Code::Internal, "No secret could be created. Report `traceId` to the operator.")
}
