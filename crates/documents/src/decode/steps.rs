//! Steps by kind.

use hapax_engine::model::ClosePolicy;

use super::{DecodedStep, Decoder, Fields, Located};
use crate::fields;
use crate::limits::{MAX_BRANCHES, MAX_CONCURRENCY, MAX_ITEMS, MAX_STEP_NESTING, MAX_STEPS};
use crate::model::{
    Approval, Child, Condition, Deciders, Decision, ForEach, Http, Parallel, Promise, Signal, Step, StepKind,
    Task, Wait,
};
use crate::problem::excerpt;
use crate::run::{APPROVAL_SIGNAL, time_of};

/// Length that each loop adds to a name: a dot and the index of an item.
const ROOM_PER_LOOP: usize = 4;

impl Decoder<'_> {
    /// A list of steps, at least one.
    pub(super) fn steps(&mut self, place: &Located<'_>) -> Option<Vec<Step>> {
        let items = self.list(place)?;
        if items.is_empty() {
            self.error(place, "no_steps", "there must be at least one step");
            return None;
        }
        if self.nesting >= MAX_STEP_NESTING {
            let message = format!("steps are nested deeper than {MAX_STEP_NESTING} levels: make it a child");
            self.error(place, "too_deep", message);
            return None;
        }
        self.nesting += 1;
        let steps: Vec<Option<Step>> = items.iter().map_while(|item| self.counted_step(item)).collect();
        self.nesting -= 1;
        steps.into_iter().collect()
    }

    /// Decodes a step, or nothing if there are too many: 100,000 excess steps are one problem, not 100,000.
    fn counted_step(&mut self, place: &Located<'_>) -> Option<Option<Step>> {
        self.steps += 1;
        if self.steps > MAX_STEPS {
            if self.steps == MAX_STEPS + 1 {
                let message = format!("the document has more than {MAX_STEPS} steps: split it into children");
                self.error(place, "too_many_steps", message);
            }
            return None;
        }
        Some(self.step(place))
    }

    fn step(&mut self, place: &Located<'_>) -> Option<Step> {
        let mut fields = self.object(place)?;
        let kind = self.need(&mut fields, "type").and_then(|place| {
            let text = self.text(&place)?;
            let kind = fields::KINDS.iter().find(|(kind, _)| *kind == text);
            if kind.is_none() {
                let message =
                    format!("{:?} is not a kind of step; there are: {}", excerpt(text), fields::kinds());
                self.error(&place, "unknown_step_type", message);
            }
            kind
        });
        let prefix =
            if kind.is_some_and(|(kind, _)| *kind == "approval") { APPROVAL_SIGNAL.len() } else { 0 };
        let named = self.need(&mut fields, "name");
        let name = named
            .as_ref()
            .and_then(|place| self.name(place, "step name", prefix + self.loops * ROOM_PER_LOOP));
        if let (Some(name), Some(place)) = (&name, &named) {
            self.claim_name(name, place);
        }
        let description = fields.take("description");
        let description = self.description(description);
        let when = fields.take("when").and_then(|place| self.condition(&place, &[]));
        let output = fields.take("output");
        // A step without a known kind has no further checks.
        let (kind, own) = *kind?;
        let made = self.kind(kind, &mut fields, name.as_deref());
        let results: &[&'static str] = if kind == "http" { &["result", "response"] } else { &["result"] };
        let output = self.maybe_template(output, results);
        let allowed: Vec<&[&str]> = [fields::STEP].iter().chain(own).copied().collect();
        self.finish(fields, &format!("a step of type {kind}"), &allowed);
        if let Some(name) = &name {
            self.before.insert(name.clone());
        }
        Some(Step { name: name?, description, when, output, kind: made? })
    }

    fn claim_name(&mut self, name: &str, place: &Located<'_>) {
        let named = DecodedStep { path: place.path.clone(), at: place.at(), loops: self.loops };
        if let Some(first) = self.names.get(name) {
            let message = format!("{name:?} is the name of the step at {} already", first.path);
            self.error(place, "duplicate_name", message);
            return;
        }
        self.names.insert(name.to_string(), named);
    }

    fn kind(&mut self, kind: &str, fields: &mut Fields<'_>, name: Option<&str>) -> Option<StepKind> {
        match kind {
            "task" => self.task(fields).map(StepKind::Task),
            "http" => self.http(fields).map(|http| StepKind::Http(Box::new(http))),
            "wait" => self.wait(fields).map(StepKind::Wait),
            "condition" => self.fork(fields).map(StepKind::Condition),
            "promise" => Some(StepKind::Promise(self.promise(fields))),
            "signal" => self.signal(fields, name).map(StepKind::Signal),
            "approval" => self.approval(fields).map(StepKind::Approval),
            "child" => self.child(fields).map(StepKind::Child),
            "parallel" => self.parallel(fields).map(StepKind::Parallel),
            _ => self.for_each(fields).map(StepKind::ForEach),
        }
    }

    fn task(&mut self, fields: &mut Fields<'_>) -> Option<Task> {
        let task = self.need(fields, "task").and_then(|place| self.task_name(&place));
        let input = fields.take("input");
        if let Some(input) = &input {
            self.look_for_secrets(input);
        }
        let input = self.maybe_template(input, &[]);
        let effect = self.effect(fields, false);
        Some(Task { task: task?, input, effect: effect? })
    }

    pub(super) fn task_name(&mut self, place: &Located<'_>) -> Option<String> {
        let task = self.name(place, "task name", 0)?;
        if let Some(tasks) = &self.known.tasks
            && !tasks.contains(&task)
        {
            let known: Vec<&str> = tasks.iter().map(String::as_str).take(20).collect();
            let message = format!("no task {task:?} is registered; there are: {}", known.join(", "));
            self.error(place, "unknown_task", message);
        }
        Some(task)
    }

    fn http(&mut self, fields: &mut Fields<'_>) -> Option<Http> {
        let request = self.request(fields, &[]);
        let effect = self.effect(fields, true);
        Some(Http { request: request?, effect: effect? })
    }

    fn wait(&mut self, fields: &mut Fields<'_>) -> Option<Wait> {
        match (fields.take("for"), fields.take("until")) {
            (Some(place), None) => self.span(Some(place)).map(Wait::For),
            (None, Some(place)) => {
                let until = self.template(&place, &[])?;
                if until.is_fixed()
                    && let Err(why) = time_of(until.source())
                {
                    self.error(&place, "bad_time", why);
                }
                Some(Wait::Until(until))
            }
            (Some(_), Some(until)) => {
                self.error(&until, "for_and_until", "a wait has \"for\" or \"until\", not both");
                None
            }
            (None, None) => {
                let message = "a wait needs \"for\" (a span such as \"24h\") or \"until\" (an instant)";
                self.problems.error(&fields.path, fields.at, "missing_field", message);
                None
            }
        }
    }

    fn fork(&mut self, fields: &mut Fields<'_>) -> Option<Condition> {
        let condition = self.need(fields, "if").and_then(|place| self.condition(&place, &[]));
        let before = self.before.clone();
        let then = self.need(fields, "then").and_then(|place| self.steps(&place));
        let after_then = std::mem::replace(&mut self.before, before);
        let otherwise = match fields.take("else") {
            Some(place) => self.steps(&place),
            None => Some(Vec::new()),
        };
        self.before.extend(after_then);
        Some(Condition { condition: condition?, then: then?, otherwise: otherwise? })
    }

    fn promise(&mut self, fields: &mut Fields<'_>) -> Promise {
        let timeout = self.wait_limit(fields, "a promise");
        let key = self.maybe_template(fields.take("key"), &[]);
        let place = fields.take("keyTtl");
        if let (None, Some(place)) = (&key, &place) {
            self.warn(
                place,
                "key_not_used",
                "there is no key that could live so long; say `key`, or leave this away",
            );
        }
        let key_ttl = self.span(place);
        Promise { timeout, key, key_ttl }
    }

    /// The timeout of a step that waits for others. A step without one may wait forever, which is a warning.
    fn wait_limit(&mut self, fields: &mut Fields<'_>, what: &str) -> Option<crate::span::Span> {
        let place = fields.take("timeout");
        if place.is_none() {
            let message = format!("{what} without a timeout may wait for ever");
            self.problems.warn(&fields.path, fields.at, "no_timeout", message);
        }
        self.span(place)
    }

    fn signal(&mut self, fields: &mut Fields<'_>, name: Option<&str>) -> Option<Signal> {
        let place = fields.take("signal");
        let signal = place.as_ref().and_then(|place| self.name(place, "signal name", 0));
        if let Some(meant) = signal.as_deref().or(name)
            && meant.starts_with(APPROVAL_SIGNAL)
        {
            let message = format!(
                "signals that begin with {APPROVAL_SIGNAL:?} are answers to approvals; choose another name"
            );
            self.problems.error(&fields.path, fields.at, "reserved_name", message);
        }
        let timeout = self.wait_limit(fields, "a signal");
        Some(Signal { signal, timeout })
    }

    fn approval(&mut self, fields: &mut Fields<'_>) -> Option<Approval> {
        let by = fields.take("by").and_then(|place| self.deciders(&place));
        let decisions = fields.take("decisions").and_then(|place| self.decisions(&place));
        let show = fields.take("show");
        let show = self.maybe_template(show, &[]);
        let named = fields.take("fields").and_then(|place| Some((self.texts(&place)?, place)));
        let may_edit = decisions.as_ref().is_some_and(|decisions| decisions.contains(&Decision::Edit));
        if let Some((_, place)) = &named
            && !may_edit
        {
            self.error(place, "fields_without_edit", "fields are for an edit; add \"edit\" to decisions");
        }
        let timeout = self.wait_limit(fields, "an approval");
        let goes_on = [("fail", false), ("continue", true)];
        let place = fields.take("onReject");
        let continue_on_reject = self.choice(place, &goes_on, false);
        let place = fields.take("onTimeout");
        let continue_on_timeout = self.choice(place, &goes_on, false);
        let self_approval = fields.take("selfApproval");
        let self_approval = self.flag(self_approval);
        let fields = named.map(|(fields, _)| fields);
        Some(Approval {
            by,
            decisions,
            show,
            fields,
            timeout,
            continue_on_reject,
            continue_on_timeout,
            self_approval,
        })
    }

    fn deciders(&mut self, place: &Located<'_>) -> Option<Deciders> {
        let mut fields = self.object(place)?;
        let roles = fields.take("roles").map(|place| self.texts(&place));
        let requesters = fields.take("requesters").map(|place| self.texts(&place));
        self.finish(fields, "by", &[fields::DECIDERS]);
        let deciders = Deciders {
            roles: roles.unwrap_or(Some(vec![]))?,
            requesters: requesters.unwrap_or(Some(vec![]))?,
        };
        if deciders.roles.is_empty() && deciders.requesters.is_empty() {
            self.error(
                place,
                "nobody_may_decide",
                "name roles or requesters, or leave \"by\" out to let anybody decide",
            );
        }
        Some(deciders)
    }

    fn decisions(&mut self, place: &Located<'_>) -> Option<Vec<Decision>> {
        let choices = Decision::ALL.map(|decision| (decision.as_str(), Some(decision)));
        let items = self.list(place)?;
        if items.is_empty() {
            self.error(
                place,
                "nobody_may_decide",
                "there must be something to decide: approve, reject, edit",
            );
        }
        let decisions: Vec<_> =
            items.into_iter().map(|item| self.choice(Some(item), &choices, None)).collect();
        decisions.into_iter().collect()
    }

    fn child(&mut self, fields: &mut Fields<'_>) -> Option<Child> {
        let place = self.need(fields, "workflow");
        let workflow = place.as_ref().and_then(|place| self.workflow_selector(place));
        if let (Some(workflow), Some(place)) = (workflow.as_ref().map(|one| one.name.as_str()), &place) {
            if workflow == self.document {
                self.warn(place, "self_child", "it starts itself: make sure that this ends");
            } else if let Some(workflows) = &self.known.workflows
                && !workflows.contains(workflow)
            {
                self.warn(place, "unknown_workflow", format!("no workflow {workflow:?} is known yet"));
            }
        }
        let input = fields.take("input");
        let input = self.maybe_template(input, &[]);
        let policies = [("cancel", ClosePolicy::Cancel), ("abandon", ClosePolicy::Abandon)];
        let place = fields.take("onClose");
        let on_close = self.choice(place, &policies, ClosePolicy::Cancel);
        Some(Child { workflow: workflow?.to_string(), input, on_close })
    }

    fn parallel(&mut self, fields: &mut Fields<'_>) -> Option<Parallel> {
        let place = self.need(fields, "branches")?;
        let items = self.list(&place)?;
        if items.is_empty() || items.len() > MAX_BRANCHES {
            self.error(&place, "out_of_range", format!("there must be from 1 to {MAX_BRANCHES} branches"));
            return None;
        }
        let before = self.before.clone();
        let mut after = before.clone();
        let mut branches = Vec::new();
        for item in &items {
            self.before.clone_from(&before);
            branches.push(self.steps(item));
            after.append(&mut self.before);
        }
        self.before = after;
        let branches: Option<Vec<_>> = branches.into_iter().collect();
        Some(Parallel { branches: branches? })
    }

    fn for_each(&mut self, fields: &mut Fields<'_>) -> Option<ForEach> {
        let items = self.need(fields, "items").and_then(|place| {
            let items = self.template(&place, &[])?;
            if Self::is_plain(items.source()) && !items.source().is_array() {
                let message = "it must give a list: an expression such as \"{{ input.items }}\", or a list";
                self.error(&place, "wrong_type", message);
            }
            Some(items)
        });
        let bounded = |most: usize| most as u64;
        let place = fields.take("concurrency");
        let concurrency = place.and_then(|place| self.number(&place, 1, bounded(MAX_CONCURRENCY)));
        let place = fields.take("maxItems");
        let max_items = place.and_then(|place| self.number(&place, 1, bounded(MAX_ITEMS)));
        let result = fields.take("result");
        let before = self.before.clone();
        self.loops += 1;
        let steps = self.need(fields, "steps").and_then(|place| self.steps(&place));
        let result = self.maybe_template(result, &[]);
        self.loops -= 1;
        // Steps of an item are visible outside only through its result.
        self.before = before;
        let narrow = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        Some(ForEach {
            items: items?,
            concurrency: concurrency.map(narrow),
            max_items: max_items.map(narrow),
            result,
            steps: steps?,
        })
    }
}
