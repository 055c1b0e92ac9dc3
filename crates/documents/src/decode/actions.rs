//! Actions of a webhook source.

use std::collections::BTreeSet;

use hapax_webhooks::Scheme;

use super::{Decoder, Located};
use crate::fields;
use crate::limits::MAX_ACTIONS;
use crate::node::Kind;
use crate::run::APPROVAL_SIGNAL;
use crate::source::{Act, Action, EventId, Reject, Settle, SettleWith, Signal, SignalTo, Start};
use crate::template::Template;

impl Decoder<'_> {
    pub(super) fn actions(&mut self, place: &Located<'_>) -> Option<Vec<Action>> {
        let items = self.list(place)?;
        if !(1..=MAX_ACTIONS).contains(&items.len()) {
            self.error(place, "out_of_range", format!("there must be 1 to {MAX_ACTIONS} actions"));
            return None;
        }
        let actions: Vec<Option<Action>> = items.iter().map(|item| self.action(item)).collect();
        let mut started = BTreeSet::new();
        for (item, action) in items.iter().zip(&actions) {
            if let Some(Action { act: Act::Start(Start { workflow, key: None, .. }), .. }) = action
                && !started.insert(workflow)
            {
                let message = "two starts of one workflow without a key get the same, and one event starts one of them; give each a key";
                self.warn(item, "same_key", message);
            }
        }
        actions.into_iter().collect()
    }

    /// If the event's id is not signed, a captured webhook can be sent again under another id.
    pub(super) fn warn_of_unsigned_ids(
        &mut self,
        place: &Located<'_>,
        actions: &[Action],
        scheme: &Scheme,
        event_id: &EventId,
    ) {
        let EventId::Header(header) = event_id else { return };
        // A scheme without signatures already has a warning.
        if *scheme == Scheme::Unsigned || scheme.signs(header) {
            return;
        }
        let Some(items) = self.list(place) else { return };
        for (item, action) in items.iter().zip(actions) {
            if let Some((field, what)) = hangs_on_event_id(action) {
                let message = format!(
                    "the id of an event is in the header {header}, which is not signed: a captured webhook that is sent again under another id {what}; give it a {field:?} from the body"
                );
                self.warn(item, "unsigned_event_id", message);
            }
        }
    }

    fn action(&mut self, place: &Located<'_>) -> Option<Action> {
        let mut fields = self.object(place)?;
        let when = fields.take("when").and_then(|place| self.condition(&place, &[]));
        let acts: Vec<(&str, Located<'_>)> =
            fields::ACTS.iter().filter_map(|act| Some((*act, fields.take(act)?))).collect();
        self.finish(fields, "an action", &[fields::ACTS, fields::ACTION]);
        let [(kind, act)] = acts.as_slice() else {
            let message = format!("an action is one of: {}", fields::ACTS.join(", "));
            self.error(place, "one_of", message);
            return None;
        };
        let act = match *kind {
            "settle" => Act::Settle(self.settle(act)?),
            "start" => Act::Start(self.start(act)?),
            _ => Act::Signal(self.signal_action(act)?),
        };
        Some(Action { act, when })
    }

    fn settle(&mut self, place: &Located<'_>) -> Option<Settle> {
        let mut fields = self.object(place)?;
        let key = self.need(&mut fields, "key").and_then(|place| self.event_key(&place));
        let (value, reject) = (fields.take("value"), fields.take("reject"));
        let keep_for = fields.take("keepFor");
        let keep_for = self.span(keep_for);
        self.finish(fields, "settle", &[fields::SETTLE]);
        let with = match (value, reject) {
            (Some(value), None) => self.template(&value, &[]).map(SettleWith::Value),
            (None, Some(reject)) => self.reject(&reject).map(SettleWith::Reject),
            _ => {
                self.error(place, "one_of", "a promise is settled with either a \"value\" or \"reject\"");
                None
            }
        };
        Some(Settle { key: key?, with: with?, keep_for })
    }

    fn reject(&mut self, place: &Located<'_>) -> Option<Reject> {
        let mut fields = self.object(place)?;
        let message = self.need(&mut fields, "message").and_then(|place| self.text_template(&place));
        let code = fields.take("code").and_then(|place| self.text_template(&place));
        self.finish(fields, "reject", &[fields::REJECT]);
        Some(Reject { message: message?, code })
    }

    fn start(&mut self, place: &Located<'_>) -> Option<Start> {
        let mut fields = self.object(place)?;
        let workflow = self.need(&mut fields, "workflow").and_then(|place| {
            let selector = self.workflow_selector(&place)?;
            let name = selector.name.as_str();
            if self.known.workflows.as_ref().is_some_and(|known| !known.contains(name)) {
                self.warn(&place, "unknown_workflow", format!("no workflow {name:?} is known yet"));
            }
            Some(selector)
        });
        let key = fields.take("key").and_then(|place| self.event_key(&place));
        let input = fields.take("input").and_then(|place| {
            let is_object = matches!(&place.node.kind, Kind::Object(_));
            if !is_object && Self::is_plain(&place.node.to_value()) {
                self.wrong_type(&place, "an object, or an expression that gives one");
            }
            self.template(&place, &[])
        });
        self.finish(fields, "start", &[fields::START]);
        Some(Start { workflow: workflow?.to_string(), key, input })
    }

    fn signal_action(&mut self, place: &Located<'_>) -> Option<Signal> {
        let mut fields = self.object(place)?;
        let (run, key) = (fields.take("run"), fields.take("key"));
        let name = self.need(&mut fields, "name").and_then(|place| self.signal_name(&place));
        let id = fields.take("id").and_then(|place| self.event_key(&place));
        let payload = fields.take("payload");
        let payload = self.maybe_template(payload, &[]);
        self.finish(fields, "signal", &[fields::SIGNAL]);
        let to = match (run, key) {
            (Some(run), None) => self.text_template(&run).map(SignalTo::Run),
            (None, Some(key)) => self.text_template(&key).map(SignalTo::Key),
            _ => {
                let message = "a signal goes to a run by its id, \"run\", or by its idempotency key, \"key\"";
                self.error(place, "one_of", message);
                None
            }
        };
        Some(Signal { to: to?, name: name?, id, payload })
    }

    fn signal_name(&mut self, place: &Located<'_>) -> Option<Template> {
        let template = self.text_template(place)?;
        if template.is_fixed() {
            let name = self.name(place, "signal name", 0)?;
            if name.starts_with(APPROVAL_SIGNAL) {
                let message = format!(
                    "signals that begin with {APPROVAL_SIGNAL:?} are answers of people; choose another name"
                );
                self.error(place, "reserved_name", message);
            }
        }
        Some(template)
    }

    /// A key that is the same for every event names one object for all of them.
    fn event_key(&mut self, place: &Located<'_>) -> Option<Template> {
        let template = self.text_template(place)?;
        if template.is_fixed() {
            let message = "it is the same for every event; put what tells events apart into it: \"stripe:{{ body.id }}\"";
            self.warn(place, "constant_key", message);
        }
        Some(template)
    }

    pub(super) fn text_template(&mut self, place: &Located<'_>) -> Option<Template> {
        let text = self.text(place)?;
        if text.is_empty() {
            self.error(place, "empty", "it is empty");
            return None;
        }
        self.template(place, &[])
    }
}

/// The field of an action that depends on the event id and should come from the body instead, with the reason.
fn hangs_on_event_id(action: &Action) -> Option<(&'static str, &'static str)> {
    let is_unsigned = |template: &Template| {
        let reads = |name| template.expressions().iter().any(|one| one.reads().variables.contains(name));
        reads("headers") || reads("event")
    };
    match &action.act {
        Act::Start(Start { key, .. }) => {
            key.as_ref().is_none_or(is_unsigned).then_some(("key", "starts a second run"))
        }
        Act::Signal(Signal { id, .. }) => {
            id.as_ref().is_none_or(is_unsigned).then_some(("id", "sends a second signal"))
        }
        // A promise is settled once, whatever comes later.
        Act::Settle(_) => None,
    }
}

/// Number of expressions in an action.
pub(super) fn expressions_of(action: &Action) -> usize {
    let templates: Vec<Option<&Template>> = match &action.act {
        Act::Settle(Settle { key, with: SettleWith::Value(value), .. }) => vec![Some(key), Some(value)],
        Act::Settle(Settle { key, with: SettleWith::Reject(Reject { message, code }), .. }) => {
            vec![Some(key), Some(message), code.as_ref()]
        }
        Act::Start(Start { key, input, .. }) => vec![key.as_ref(), input.as_ref()],
        Act::Signal(Signal { to: SignalTo::Run(to) | SignalTo::Key(to), name, id, payload }) => {
            vec![Some(to), Some(name), id.as_ref(), payload.as_ref()]
        }
    };
    let in_templates: usize =
        templates.into_iter().flatten().map(|template| template.expressions().len()).sum();
    in_templates + usize::from(action.when.is_some())
}
