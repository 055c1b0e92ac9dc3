//! One activation of a run in a function that keeps no state: its exchanges, and messages that wait to be sent.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use hapax_api::{PushedTurn, RawJson};
use serde::Deserialize;

use crate::limits::MAX_PUSHED_TURN_BYTES;
use crate::push::carry::Errand;
use crate::push::{Head, Told};

/// Messages and answers of one activation.
pub(crate) struct Conversation {
    pub(crate) run: String,
    /// Rises with each activation.
    pub(crate) number: u64,
    turns: Vec<PushedTurn>,
    waiting: VecDeque<Told>,
    /// Id of the request whose work was not begun.
    id: Option<String>,
    is_under_way: bool,
    /// The function has ended. Only undos may follow.
    is_over: bool,
    not_before: Duration,
    /// Steps that the code waits for: attempts may come.
    open_steps: HashSet<u32>,
}

/// Members of an item that decide whether attempts may come.
#[derive(Deserialize, Default)]
#[serde(default)]
struct ItemHead {
    op: Option<u32>,
    #[serde(rename = "do")]
    asks: Option<String>,
    took: Option<u32>,
    abandon: Option<u32>,
    #[serde(rename = "return")]
    returned: Option<serde::de::IgnoredAny>,
    throw: Option<serde::de::IgnoredAny>,
    #[serde(rename = "continueAsNew")]
    continue_as_new: Option<serde::de::IgnoredAny>,
    violation: Option<serde::de::IgnoredAny>,
}

impl Conversation {
    /// A conversation that begins with `activate`; `rest` are further pages of its log.
    pub(crate) fn begun(activate: Told, rest: Vec<RawJson>, number: u64) -> Self {
        let head = Head { kind: "log".into(), ..activate.head.clone() };
        let run = activate.head.run.clone();
        let rest = rest.into_iter().map(|json| Told { head: head.clone(), json });
        Conversation {
            run,
            number,
            turns: Vec::new(),
            waiting: std::iter::once(activate).chain(rest).collect(),
            id: None,
            is_under_way: false,
            is_over: false,
            not_before: Duration::ZERO,
            open_steps: HashSet::new(),
        }
    }

    /// Adds a message. An `abort` removes its attempt if that was not sent yet.
    pub(crate) fn hear(&mut self, told: Told) {
        if told.head.kind == "abort" {
            let before = self.waiting.len();
            let (op, attempt) = (told.head.op, told.head.attempt);
            let is_it = |other: &Told| {
                other.head.kind == "attempt" && (other.head.op, other.head.attempt) == (op, attempt)
            };
            self.waiting.retain(|other| !is_it(other));
            if self.waiting.len() < before {
                self.id = None;
                return;
            }
        }
        self.waiting.push_back(told);
    }

    /// Is there something that the function must hear now? What only stops it can wait.
    pub(crate) fn has_work(&self) -> bool {
        self.waiting.iter().any(|told| matches!(told.head.kind.as_str(), "activate" | "attempt" | "resolved"))
    }

    pub(crate) fn is_ready(&self, now: Duration) -> bool {
        !self.is_under_way && now >= self.not_before && self.has_work()
    }

    /// Builds the next request.
    pub(crate) fn send(&mut self, activation: String) -> Errand {
        self.is_under_way = true;
        let (turns, waiting) = (std::mem::take(&mut self.turns), std::mem::take(&mut self.waiting));
        Errand::run(self.run.clone(), activation, turns, waiting.into(), self.id.take())
    }

    /// Takes the exchanges back, with the new one; `again` are messages that must be sent again.
    pub(crate) fn take_back(
        &mut self,
        turns: Vec<PushedTurn>,
        again: Vec<Told>,
        id: Option<String>,
        not_before: Duration,
    ) {
        for item in turns.iter().skip(self.turns.len()).flat_map(|turn| &turn.items) {
            let item: ItemHead = serde_json::from_str(item.text()).unwrap_or_default();
            match (item.op, item.asks.as_deref(), item.took.or(item.abandon)) {
                (Some(op), Some("step"), _) => _ = self.open_steps.insert(op),
                (_, _, Some(op)) => _ = self.open_steps.remove(&op),
                _ => {}
            }
            let ends = [&item.returned, &item.throw, &item.continue_as_new, &item.violation];
            self.is_over |= ends.iter().any(|end| end.is_some());
        }
        (self.turns, self.id, self.not_before, self.is_under_way) = (turns, id, not_before, false);
        for told in again.into_iter().rev() {
            self.waiting.push_front(told);
        }
    }

    /// Does it wait for something that is no attempt?
    pub(crate) fn may_be_forgotten(&self) -> bool {
        !self.is_under_way && !self.is_over && self.waiting.is_empty() && self.open_steps.is_empty()
    }

    pub(crate) fn is_too_long(&self) -> bool {
        let texts = self.turns.iter().flat_map(|turn| turn.messages.iter().chain(&turn.items));
        texts.map(|json| json.text().len()).sum::<usize>() > MAX_PUSHED_TURN_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Told {
        Told { head: serde_json::from_str(text).unwrap(), json: RawJson::from_text(text.into()).unwrap() }
    }

    fn begun() -> Conversation {
        Conversation::begun(told(r#"{"type":"activate","run":"r","activation":"a1"}"#), Vec::new(), 1)
    }

    fn turn(items: &[&str]) -> PushedTurn {
        let items = items.iter().map(|item| RawJson::from_text((*item).into()).unwrap());
        PushedTurn { messages: Vec::new(), items: items.collect() }
    }

    #[test]
    fn an_attempt_that_was_not_sent_is_taken_back_and_never_sent() {
        let mut run = begun();
        run.send("a1".into());
        run.take_back(vec![turn(&[r#"{"op":1,"do":"step","name":"a"}"#])], Vec::new(), None, Duration::ZERO);
        assert!(!run.may_be_forgotten(), "an attempt will come");
        run.hear(told(r#"{"type":"attempt","op":1,"attempt":1,"do":"effect"}"#));
        assert!(run.is_ready(Duration::ZERO));
        run.hear(told(r#"{"type":"abort","op":1,"attempt":1,"why":"timeout"}"#));
        assert!(!run.has_work());
    }

    #[test]
    fn a_run_that_waits_for_the_world_may_be_forgotten() {
        let mut run = begun();
        run.send("a1".into());
        let items =
            [r#"{"op":1,"do":"step","name":"a"}"#, r#"{"took":1}"#, r#"{"op":2,"do":"signal","name":"go"}"#];
        run.take_back(vec![turn(&items)], Vec::new(), None, Duration::ZERO);
        assert!(run.may_be_forgotten() && !run.is_too_long());
    }
}
