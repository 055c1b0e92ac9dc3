//! Webhook sources as documents: signatures, event ids, and actions.
//!
//! Only [`check_source`] creates sources, so every existing source has been checked. Serialised as JSON, it is the
//! source again, with the fields of its preset in place of the preset.

mod body;
mod check;
mod event;
mod plan;

use hapax_webhooks::Scheme;
use http::HeaderName;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

pub use body::Unreadable;
pub use check::{CheckedSource, check_source, check_source_bytes};
pub use event::{ActionPlan, Event, Filtered, Outcome, Reading, visible_headers};
pub use plan::{Planned, PlannedSettlement, PlannedTarget};

use crate::expression::Expression;
use crate::span::Span;
use crate::template::{SECRET, Template};

/// Variables of a source's expressions.
pub(crate) const VARIABLES: &[&str] = &["body", "headers", "event"];

/// A source of webhooks.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// Its name, which is part of its address.
    pub name: String,
    /// Description for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Signature scheme.
    #[serde(serialize_with = "signature")]
    pub signature: Scheme,
    /// Names of the secrets. Any of them may have signed.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "secrets")]
    pub secrets: Vec<String>,
    /// Location of the provider's event id.
    pub event_id: EventId,
    /// Filter: an event is ignored if this is false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<Expression>,
    /// Actions for each event.
    pub actions: Vec<Action>,
}

/// Location of an event's id, which is the same for each delivery of the event.
#[derive(Debug, Clone, PartialEq)]
pub enum EventId {
    /// In this header.
    Header(HeaderName),
    /// In the body, at this JSON pointer.
    Pointer(String),
}

/// One action for an event.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Action {
    /// The kind of the action.
    #[serde(flatten)]
    pub act: Act,
    /// The action is skipped if this is false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<Expression>,
}

/// The kind of action.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// Settles a promise by its key.
    Settle(Settle),
    /// Starts a run.
    Start(Start),
    /// Sends a signal to a run.
    Signal(Signal),
}

impl Act {
    /// The kind's name in documents.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Act::Settle(_) => "settle",
            Act::Start(_) => "start",
            Act::Signal(_) => "signal",
        }
    }
}

/// Settles a promise.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Settle {
    /// The key of the promise.
    pub key: Template,
    /// The settlement.
    #[serde(flatten)]
    pub with: SettleWith,
    /// Retention of the settlement if the promise does not exist yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_for: Option<Span>,
}

/// How a promise is settled.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SettleWith {
    /// A value.
    Value(Template),
    /// A rejection: there will be no value.
    Reject(Reject),
}

/// Reason for a rejection.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reject {
    /// Message.
    pub message: Template,
    /// Code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Template>,
}

/// Starts a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Start {
    /// Name of the workflow.
    pub workflow: String,
    /// Its key. If absent, it consists of the source, the workflow and the event's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Template>,
    /// Input; an empty object if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Template>,
}

/// Sends a signal.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Signal {
    /// The run that receives it.
    #[serde(flatten)]
    pub to: SignalTo,
    /// Its name.
    pub name: Template,
    /// Identifies the signal within the source; the id of the event if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Template>,
    /// The payload; null if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<Template>,
}

/// Reference to a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SignalTo {
    /// By its id.
    Run(Template),
    /// By its key.
    Key(Template),
}

impl Serialize for EventId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            EventId::Header(name) => json!({ "header": name.as_str() }),
            EventId::Pointer(pointer) => json!({ "pointer": pointer }),
        }
        .serialize(serializer)
    }
}

fn signature<S: Serializer>(scheme: &Scheme, serializer: S) -> Result<S::Ok, S::Error> {
    let mut written = json!({ "scheme": scheme.as_str() });
    match scheme {
        Scheme::Hmac(hmac) => {
            written["header"] = Value::from(hmac.header.as_str());
            written["algorithm"] = Value::from(hmac.algorithm.as_str());
            written["encoding"] = Value::from(hmac.encoding.as_str());
            if !hmac.prefix.is_empty() {
                written["prefix"] = Value::from(hmac.prefix.as_str());
            }
        }
        Scheme::Unsigned => written["allowUnsigned"] = Value::Bool(true),
        Scheme::StandardWebhooks | Scheme::Stripe | Scheme::GitHub | Scheme::Slack => {}
    }
    written.serialize(serializer)
}

fn secrets<S: Serializer>(names: &[String], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(names.iter().map(|name| format!("{SECRET}{name}")))
}
