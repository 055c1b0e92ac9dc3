//! Turns a verified webhook into planned actions.

use std::collections::BTreeMap;

use hapax_webhooks::Scheme;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::body::{Unreadable, read_body};
use super::plan::{Planned, plan};
use super::{EventId, Source};
use crate::decode::is_telling;
use crate::limits::{MAX_CHALLENGE_CHARS, MAX_EVENT_HEADER_BYTES, MAX_EVENT_ID_CHARS, MAX_PLAN_BYTES};
use crate::scope::Scope;

/// A parsed webhook.
#[derive(Debug, Clone, PartialEq)]
pub enum Reading {
    /// An event.
    Event(Event),
    /// The provider verifies the URL: respond 200 with `{"challenge": …}`, and do nothing else.
    Challenge(String),
}

/// An event and its planned actions.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// The provider's id: an event with a known id is a duplicate.
    pub id: String,
    /// Result of the filter; there are no actions unless the event passes.
    pub filtered: Filtered,
    /// One plan per action of the source, in order.
    pub actions: Vec<ActionPlan>,
}

/// Result of the filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filtered {
    /// The event passes.
    Passed,
    /// The event is ignored.
    Rejected,
    /// The filter failed: the event failed too, and can be processed again once the source is fixed.
    Failed {
        /// The reason.
        why: String,
    },
}

/// Plan of one action.
#[derive(Debug, Clone, PartialEq)]
pub struct ActionPlan {
    /// Index of the action in the source, from 0.
    pub index: usize,
    /// `settle`, `start` or `signal`.
    pub kind: &'static str,
    /// The outcome.
    pub outcome: Outcome,
}

/// Outcome of planning an action.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The action to carry out.
    Do(Planned),
    /// Its `when` does not hold.
    Skipped,
    /// It cannot be planned from this event; the other actions are unaffected.
    Failed {
        /// The reason.
        why: String,
    },
}

impl Source {
    /// Parses a webhook. Verify its signature first, on the same bytes.
    pub fn read(&self, headers: &HeaderMap, body: &[u8]) -> Result<Reading, Unreadable> {
        let body = read_body(headers, body)?;
        if let Some(challenge) = self.find_challenge(&body) {
            return Ok(Reading::Challenge(challenge));
        }
        let id = self.get_event_id(headers, &body)?;
        Ok(Reading::Event(self.plan_event(id, visible_headers(headers)?, body)))
    }

    /// Parses a stored event again, with the current source. The event keeps its `id`; `headers` are the result of
    /// [`visible_headers`] when it arrived.
    pub fn read_again(
        &self,
        id: &str,
        headers: &BTreeMap<String, String>,
        body: &[u8],
    ) -> Result<Event, Unreadable> {
        let declared = headers.iter().filter_map(|(name, value)| {
            Some((name.parse::<HeaderName>().ok()?, value.parse::<HeaderValue>().ok()?))
        });
        let body = read_body(&declared.collect(), body)?;
        Ok(self.plan_event(id.to_string(), headers.clone(), body))
    }

    fn plan_event(&self, id: String, headers: BTreeMap<String, String>, body: Value) -> Event {
        let scope = Scope::new(Value::Null, Value::Null)
            .with("headers", json!(headers))
            .with("event", json!({ "id": id, "source": self.name }))
            .with("body", body);
        let filtered = match self.filter.as_ref().map(|filter| filter.holds(&scope)) {
            None | Some(Ok(true)) => Filtered::Passed,
            Some(Ok(false)) => Filtered::Rejected,
            Some(Err(failed)) => Filtered::Failed { why: failed.0 },
        };
        let actions = match filtered {
            Filtered::Passed => self.plan_actions(&id, &scope),
            Filtered::Rejected | Filtered::Failed { .. } => Vec::new(),
        };
        Event { id, filtered, actions }
    }

    fn plan_actions(&self, event_id: &str, scope: &Scope) -> Vec<ActionPlan> {
        let mut left = MAX_PLAN_BYTES;
        let mut outcome = |action: &super::Action| {
            match action.when.as_ref().map(|when| when.holds(scope)) {
                None | Some(Ok(true)) => {}
                Some(Ok(false)) => return Outcome::Skipped,
                Some(Err(failed)) => return Outcome::Failed { why: failed.0 },
            }
            let planned = plan(&self.name, &action.act, event_id, scope);
            let planned = planned.and_then(|planned| match left.checked_sub(planned.about_size()) {
                Some(rest) => {
                    left = rest;
                    Ok(planned)
                }
                None => {
                    Err(format!("the actions of one event hold more than {MAX_PLAN_BYTES} bytes together"))
                }
            });
            planned.map_or_else(|why| Outcome::Failed { why }, Outcome::Do)
        };
        let actions = self.actions.iter().enumerate();
        actions
            .map(|(index, action)| ActionPlan { index, kind: action.act.as_str(), outcome: outcome(action) })
            .collect()
    }

    /// Slack asks once, when the address is entered there.
    fn find_challenge(&self, body: &Value) -> Option<String> {
        let is_asked = self.signature == Scheme::Slack && body.get("type")? == "url_verification";
        let challenge = body.get("challenge")?.as_str()?;
        let is_plain = challenge.bytes().all(|byte| byte.is_ascii_graphic());
        (is_asked && is_plain && challenge.len() <= MAX_CHALLENGE_CHARS).then(|| challenge.to_string())
    }

    fn get_event_id(&self, headers: &HeaderMap, body: &Value) -> Result<String, Unreadable> {
        let none = |why: String| Err(Unreadable::EventId(why));
        let id = match &self.event_id {
            EventId::Header(name) => {
                let mut values = headers.get_all(name).iter();
                match (values.next().map(|value| value.to_str()), values.next()) {
                    (None, _) => return none(format!("the header {name} is missing")),
                    (_, Some(_)) => return none(format!("the header {name} is there more than once")),
                    (Some(Err(_)), _) => return none(format!("the header {name} is not printable ASCII")),
                    (Some(Ok(id)), None) => id.to_string(),
                }
            }
            EventId::Pointer(pointer) => match body.pointer(pointer) {
                None => return none(format!("there is nothing at {pointer} in the body")),
                Some(Value::String(id)) => id.clone(),
                Some(Value::Number(id)) if !id.is_f64() => id.to_string(),
                Some(_) => return none(format!("at {pointer} is neither a text nor a whole number")),
            },
        };
        let is_fine =
            (1..=MAX_EVENT_ID_CHARS).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
        match is_fine {
            true => Ok(id),
            false => {
                none(format!("it is not 1 to {MAX_EVENT_ID_CHARS} printable ASCII characters without spaces"))
            }
        }
    }
}

/// Headers for expressions: names in lower case, without credentials, because values that expressions see are stored.
pub fn visible_headers(headers: &HeaderMap) -> Result<BTreeMap<String, String>, Unreadable> {
    let size: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if size > MAX_EVENT_HEADER_BYTES {
        return Err(Unreadable::HeadersTooLarge);
    }
    let mut visible = BTreeMap::new();
    for name in headers.keys().filter(|name| !is_proof(name)) {
        let values: Result<Vec<&str>, _> = headers.get_all(name).iter().map(|value| value.to_str()).collect();
        if let Ok(values) = values {
            visible.insert(name.as_str().to_string(), values.join(", "));
        }
    }
    Ok(visible)
}

fn is_proof(name: &HeaderName) -> bool {
    let name = name.as_str();
    is_telling(name) || name.contains("signature") || name.contains("hmac")
}
