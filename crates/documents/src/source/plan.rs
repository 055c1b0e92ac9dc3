//! Actions filled in with the data of an event: plain strings and values, for the host to carry out.

use std::time::Duration;

use hapax_engine::limits::MAX_MESSAGE_CHARS;
use hapax_engine::model::{IdempotencyKey, Name};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Act, Reject, Settle, SettleWith, Signal, SignalTo, Start};
use crate::run::APPROVAL_SIGNAL;
use crate::scope::Scope;
use crate::template::{Template, about_size};

/// An action to carry out.
#[derive(Debug, Clone, PartialEq)]
pub enum Planned {
    /// Settle the promise with this key, or keep the settlement for it.
    Settle {
        /// The key: 1 to 255 printable ASCII characters.
        key: String,
        /// The settlement.
        settlement: PlannedSettlement,
        /// Retention of the settlement if the promise does not exist yet.
        keep_for: Option<Duration>,
    },
    /// Start a run.
    Start {
        /// Name of the workflow.
        workflow: String,
        /// Version; the latest if absent.
        version: Option<u32>,
        /// The key of the run: one event starts one run.
        key: String,
        /// An object.
        input: Value,
    },
    /// Send a signal.
    Signal {
        /// The run that receives it.
        target: PlannedTarget,
        /// Its name.
        name: String,
        /// Its id: one event sends it once.
        id: String,
        /// The payload.
        payload: Value,
    },
}

/// Settlement of a promise.
#[derive(Debug, Clone, PartialEq)]
pub enum PlannedSettlement {
    /// A value.
    Resolve(Value),
    /// A rejection: there will be no value.
    Reject {
        /// Message.
        message: String,
        /// Code.
        code: Option<String>,
    },
}

/// Receiver of a signal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlannedTarget {
    /// The run with this id.
    Run(String),
    /// The run with this key.
    Key(String),
}

impl Planned {
    /// Size in approximate bytes.
    pub(super) fn about_size(&self) -> usize {
        match self {
            Planned::Settle { settlement: PlannedSettlement::Resolve(value), .. } => about_size(value),
            Planned::Settle { settlement: PlannedSettlement::Reject { message, .. }, .. } => message.len(),
            Planned::Start { input, .. } => about_size(input),
            Planned::Signal { payload, .. } => about_size(payload),
        }
    }
}

/// Fills in an action, or returns the reason why it cannot be filled in.
pub(super) fn plan(source: &str, act: &Act, event_id: &str, scope: &Scope) -> Result<Planned, String> {
    match act {
        Act::Settle(settle) => plan_settle(settle, scope),
        Act::Start(start) => plan_start(source, start, event_id, scope),
        Act::Signal(signal) => plan_signal(source, signal, event_id, scope),
    }
}

fn plan_settle(settle: &Settle, scope: &Scope) -> Result<Planned, String> {
    let settlement = match &settle.with {
        SettleWith::Value(value) => PlannedSettlement::Resolve(rendered(value, scope)?),
        SettleWith::Reject(Reject { message, code }) => PlannedSettlement::Reject {
            message: text(message, "the message", scope)?.chars().take(MAX_MESSAGE_CHARS).collect(),
            code: code.as_ref().map(|code| name(code, "code", scope)).transpose()?,
        },
    };
    let key = key(&settle.key, scope)?;
    Ok(Planned::Settle { key, settlement, keep_for: settle.keep_for.map(|span| span.get()) })
}

fn plan_start(source: &str, start: &Start, event_id: &str, scope: &Scope) -> Result<Planned, String> {
    let input = match &start.input {
        Some(input) => rendered(input, scope)?,
        None => json!({}),
    };
    if !input.is_object() {
        return Err(
            "the input of a run is an object; write one around it: { event: \"{{ body }}\" }".to_string()
        );
    }
    // The key contains only the name, so that a source that moves to another version starts nothing twice.
    let (name, version) = match start.workflow.split_once('@') {
        Some((name, version)) => (name, version.parse().ok()),
        None => (start.workflow.as_str(), None),
    };
    let key = match &start.key {
        Some(given) => key(given, scope)?,
        None => made_key(&[source, name, event_id]),
    };
    Ok(Planned::Start { workflow: name.to_owned(), version, key, input })
}

fn plan_signal(source: &str, signal: &Signal, event_id: &str, scope: &Scope) -> Result<Planned, String> {
    let target = match &signal.to {
        SignalTo::Run(run) => PlannedTarget::Run(key(run, scope)?),
        SignalTo::Key(given) => PlannedTarget::Key(key(given, scope)?),
    };
    let name = name(&signal.name, "signal name", scope)?;
    if name.starts_with(APPROVAL_SIGNAL) {
        return Err(format!(
            "signals that begin with {APPROVAL_SIGNAL:?} are answers of people; choose another name"
        ));
    }
    let payload = signal.payload.as_ref().map_or(Ok(Value::Null), |payload| rendered(payload, scope))?;
    // It contains the source and the name, so that two providers with the same id, or two signals of one event, are
    // separate.
    let given = signal.id.as_ref().map(|given| key(given, scope)).transpose()?;
    let id = made_key(&[source, &name, given.as_deref().unwrap_or(event_id)]);
    Ok(Planned::Signal { target, name, id, payload })
}

/// Names contain no colon, so the result is unambiguous. A text that is too long for a key is hashed.
fn made_key(parts: &[&str]) -> String {
    let key = parts.join(":");
    match IdempotencyKey::new(&key) {
        Ok(_) => key,
        Err(_) => {
            let digest: String =
                Sha256::digest(key.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
            format!("sha256:{digest}")
        }
    }
}

fn rendered(template: &Template, scope: &Scope) -> Result<Value, String> {
    template.render(scope).map_err(|failed| failed.0)
}

fn text(template: &Template, what: &str, scope: &Scope) -> Result<String, String> {
    match rendered(template, scope)? {
        Value::String(text) => Ok(text),
        Value::Number(number) if !number.is_f64() => Ok(number.to_string()),
        _ => Err(format!("{what} must come out as a text or a whole number: {}", shown(template))),
    }
}

fn key(template: &Template, scope: &Scope) -> Result<String, String> {
    let key = text(template, "it", scope)?;
    match IdempotencyKey::new(&key) {
        Ok(_) => Ok(key),
        Err(_) => {
            Err(format!("it must come out as 1 to 255 printable ASCII characters: {}", shown(template)))
        }
    }
}

fn name(template: &Template, what: &'static str, scope: &Scope) -> Result<String, String> {
    let name = text(template, what, scope)?;
    Name::new(what, &name).map_err(|invalid| invalid.to_string())?;
    Ok(name)
}

fn shown(template: &Template) -> String {
    crate::problem::excerpt(&template.source().to_string())
}
