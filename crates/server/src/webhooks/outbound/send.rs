//! One attempt to deliver to a subscription: signed, sent under the egress policy, and judged.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use hapax_engine::Hold;
use hapax_engine::model::{EffectKey, Failure, Timestamp};
use hapax_engine::runtime::Delivery;
use hapax_outgoing::{Fault, Request, SendCheck};
use hapax_webhooks::{MessageId, Reply, SigningSecret, Unsignable, Verdict, judge, sign, wait_after};
use http::HeaderValue;
use http::header::CONTENT_TYPE;

use super::{Subscription, Subscriptions};
use crate::limits::{MAX_TEST_DETAIL_CHARS, WEBHOOK_TIMEOUT};
use crate::sealing::Closed;

/// Outcome of one attempt.
#[derive(Debug)]
pub(crate) struct Attempted {
    pub(crate) verdict: Verdict,
    pub(crate) status: Option<u16>,
    pub(crate) took: Duration,
}

impl Attempted {
    fn not_sent(why: impl ToString) -> Self {
        let verdict = Verdict::Again { why: why.to_string(), asked: None };
        Attempted { verdict, status: None, took: Duration::ZERO }
    }

    /// Cause of the failure, if it failed.
    pub(crate) fn detail(&self) -> Option<String> {
        match &self.verdict {
            Verdict::Delivered => None,
            Verdict::Again { why, .. } | Verdict::GiveUp { why } | Verdict::Disable { why } => {
                Some(why.chars().take(MAX_TEST_DETAIL_CHARS).collect())
            }
        }
    }
}

impl Subscriptions {
    /// Delivers an after-effect to its subscription.
    pub(super) async fn deliver(
        &self,
        subscription: &Subscription,
        delivery: &Delivery,
        body: String,
    ) -> Result<(), Failure> {
        // Target names are the same in all workspaces, so a workflow of another workspace might use
        // this one.
        if subscription.workspace != *delivery.workspace() {
            return Err(Failure::permanent("the subscription belongs to another workspace"));
        }
        // A message from an entity's document would look like one from this server.
        if EffectKey::from_stored(delivery.id()).announced().is_none() {
            let why = "subscriptions receive only announcements about runs; send it to another target";
            return Err(Failure::permanent(why).with_code("target_reserved"));
        }
        if let Some(why) = subscription.not_told() {
            return Err(Failure::permanent(why).with_code("subscription_disabled"));
        }
        delivery.hold().ensure_still_held()?;
        let message = MessageId::from_key(subscription.workspace.as_str(), delivery.id());
        match self.send(subscription, &message, body, delivery.hold()).await.verdict {
            Verdict::Delivered => Ok(()),
            Verdict::Again { why, asked } => {
                delivery.hold().ensure_still_held()?;
                let age = self.store.now().since(delivery.created_at());
                match wait_after(delivery.attempt(), age, asked, fastrand::f64()) {
                    Some(wait) => Err(Failure::retryable(why).retry_after(wait)),
                    None => Err(Failure::permanent(format!("{why}; the time for attempts is over"))),
                }
            }
            Verdict::GiveUp { why } => Err(Failure::permanent(why)),
            Verdict::Disable { why } => {
                self.disable_for_good(subscription, &why).await;
                Err(Failure::permanent(why))
            }
        }
    }

    /// Signs and sends one message, once.
    pub(crate) async fn send(
        &self,
        to: &Subscription,
        id: &MessageId,
        body: String,
        hold: &Hold,
    ) -> Attempted {
        let now = self.store.now();
        let secrets = match self.secrets_of(to, now) {
            Ok(secrets) => secrets,
            Err(closed) => {
                tracing::error!(subscription = %to.id, %closed, "the secret of a subscription cannot be opened");
                return Attempted::not_sent(format!("not sent: its secret cannot be opened: {closed}"));
            }
        };
        let body = Bytes::from(body);
        let signed = match sign(&secrets, id, system_time(now), &body) {
            Ok(signed) => signed,
            Err(unsignable @ Unsignable::TooLarge) => {
                let verdict = Verdict::GiveUp { why: format!("not sent: {unsignable}") };
                return Attempted { verdict, status: None, took: Duration::ZERO };
            }
            Err(unsignable) => return Attempted::not_sent(format!("not sent: {unsignable}")),
        };
        let mut request = Request::post(to.kept.url.clone(), body);
        request.headers = signed.to_headers();
        request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        request.timeout = Some(WEBHOOK_TIMEOUT);
        let hold = hold.clone();
        request.send_check = Some(SendCheck::new(move || hold.is_held()));
        let begun = Instant::now();
        let answer = self.outgoing.of(&to.workspace).send(request).await;
        let took = begun.elapsed();
        let (status, headers) = match &answer {
            Ok(answer) => (Some(answer.status), Some(&answer.headers)),
            Err(fault) => (status_of(fault), None),
        };
        let why = answer.as_ref().err().map(ToString::to_string).unwrap_or_default();
        let reply = match (&answer, status) {
            (_, Some(status)) => Reply::Answered { status, headers },
            (Err(Fault::Refused { .. }), None) => Reply::Forbidden { why: &why },
            (_, None) => Reply::Silence { why: &why },
        };
        Attempted { verdict: judge(&reply, system_time(now)), status, took }
    }

    /// Secrets that sign at `now`, the newest first.
    fn secrets_of(&self, of: &Subscription, now: Timestamp) -> Result<Vec<SigningSecret>, Closed> {
        let old = of.kept.old_secret.as_ref().filter(|old| now.as_millis() < old.until);
        let sealed = std::iter::once(&of.kept.secret).chain(old.map(|old| &old.secret));
        let open = |sealed| {
            let text = self.sealer.open(&of.place(), sealed)?;
            let text = std::str::from_utf8(&text).map_err(|_| Closed::Broken)?;
            SigningSecret::parse(text).map_err(|_| Closed::Broken)
        };
        sealed.map(open).collect()
    }
}

/// The status of an incomplete response.
fn status_of(fault: &Fault) -> Option<u16> {
    match fault {
        Fault::Unknown { status, .. } | Fault::TooLarge { status, .. } => *status,
        Fault::Redirected { status, .. } => Some(*status),
        Fault::Refused { .. } | Fault::NotSent { .. } | Fault::NoLongerHeld => None,
    }
}

fn system_time(at: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(at.as_millis()).unwrap_or_default())
}
