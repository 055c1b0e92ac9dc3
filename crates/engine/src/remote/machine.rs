//! State of one activation: what the code asked for, what it was given, and what it waits for.
//!
//! Calls come from two sides: from the code of the workflow, through its context, and from [`super::RemoteRun`], which
//! polls the code. Both run in one task, so they take turns.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

use super::items::{
    AttemptKind, AttemptOrder, AttemptOutcome, Evidence, Item, OperationBody, RecordKind, RemoteActivation,
    RunMessage,
};
use super::operation::Operation;
use super::replay_log::ReplayLog;
use crate::clock::Clock;
use crate::ctx::Undo;
use crate::hold::Hold;
use crate::model::{Failure, Fence, Name, Payload, RunId, WorkflowRef, WorkspaceId};
use crate::runtime::Declared;

/// Outcome of an operation.
pub(super) type Outcome = Result<Payload, Failure>;

/// Constants of an activation.
pub(crate) struct ActivationFacts {
    pub(crate) run: RunId,
    pub(crate) workspace: WorkspaceId,
    pub(crate) workflow: WorkflowRef,
    pub(crate) fence: Fence,
    pub(crate) key_prefix: String,
    pub(crate) declared: Arc<Declared>,
}

/// One activation, shared by the code and the run that polls it.
pub(crate) struct Machine {
    pub(crate) facts: ActivationFacts,
    pub(crate) hold: Hold,
    pub(crate) clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

/// Context of code whose run is on a server.
#[derive(Clone)]
pub(crate) struct WorkerCtx {
    pub(crate) machine: Arc<Machine>,
    /// Scope of the operations that are asked for.
    pub(crate) scope: Option<u32>,
}

/// An operation that the code asks for.
pub(crate) struct OperationRequest {
    pub(crate) kind: RecordKind,
    /// Name of the step.
    pub(crate) name: Name,
    pub(crate) what: OperationBody,
    /// True if the code may go on by itself when an attempt succeeds.
    pub(crate) goes_on: bool,
    pub(crate) undo: Option<Undo>,
}

impl OperationRequest {
    /// An operation without attempts.
    pub(crate) fn wait(kind: RecordKind, name: Name, what: OperationBody) -> Self {
        OperationRequest { kind, name, what, goes_on: false, undo: None }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScopeKind {
    Scope,
    Shield,
}

/// State of one operation.
#[derive(Default)]
struct OperationState {
    id: String,
    /// True while the code waits for its outcome.
    is_open: bool,
    is_step: bool,
    is_scope: bool,
    goes_on: bool,
    /// Outcome that the code has not picked up, and whether it was recorded before.
    outcome: Option<(Outcome, bool)>,
    /// Attempt that its code is to begin.
    order: Option<AttemptOrder>,
    /// Attempt that it must stop.
    stops: bool,
    running: Option<(u32, AttemptKind)>,
    undo: Option<Undo>,
    waker: Option<Waker>,
}

/// A shield whose body is being polled.
struct EnteredShield {
    op: u32,
    /// Scope that the shield was opened in.
    within: Option<u32>,
}

pub(super) struct State {
    log: ReplayLog,
    operations: HashMap<u32, OperationState>,
    /// Operations that the code waits for.
    outstanding: BTreeSet<u32>,
    /// Operations with an attempt to begin or under way.
    attempts: HashSet<u32>,
    by_id: HashMap<String, u32>,
    ordinals: HashMap<String, u32>,
    last_op: u32,
    /// Outcomes of the server that the code has not been given.
    resolved: VecDeque<(u32, Outcome)>,
    shields: Vec<EnteredShield>,
    items: Vec<Item>,
    begun: Vec<u32>,
    aborted: Vec<u32>,
    pub(super) in_turn: bool,
    pub(super) ended: bool,
    pub(super) forgotten: bool,
    stopped: bool,
    /// Failed scopes whose outcome is open.
    closing: usize,
    /// True once a failed scope was closed: the server gives each outcome from there on.
    is_led: bool,
    violation: Option<String>,
    is_violation_told: bool,
    pub(super) continue_with: Option<Payload>,
    /// Attempts that wait for the right to go on.
    unheld: Vec<Waker>,
}

/// Items of a run once its code can go no further.
pub(super) struct Collected {
    pub(super) items: Vec<Item>,
    pub(super) begun: Vec<u32>,
    pub(super) aborted: Vec<u32>,
    pub(super) running: usize,
}

impl State {
    fn is_over(&self) -> bool {
        self.ended || self.forgotten || self.violation.is_some()
    }

    fn violate(&mut self, why: String) {
        self.violation.get_or_insert(why);
    }

    /// Says that the code did something when it was not its turn.
    fn stray(&mut self, what: &str) {
        self.violate(format!(
            "the workflow asked for {what} outside of its turn: between steps it awaited something that is not the \
             context's, or it used the context inside of a step. Await only what the context returns, and do everything else \
             in ctx.step"
        ));
    }

    fn may_ask(&mut self, what: impl FnOnce() -> String) -> bool {
        if self.is_over() {
            return false;
        }
        if !self.in_turn {
            self.stray(&what());
        }
        self.in_turn
    }

    fn next_id(&mut self, name: &Name) -> String {
        let ordinal = self.ordinals.entry(name.as_str().to_string()).or_insert(0);
        *ordinal += 1;
        match *ordinal {
            1 => name.to_string(),
            n => format!("{name}#{n}"),
        }
    }

    /// Finds the record of an operation, and checks that it is of the same kind.
    fn find_record(&mut self, id: &str, kind: RecordKind) -> Option<super::replay_log::Found> {
        let found = self.log.ask(id)?;
        if found.kind != kind {
            self.violate(format!(
                "the history has a {} at {id:?}, but the code asks for a {} there",
                found.kind.as_str(),
                kind.as_str()
            ));
        }
        Some(found)
    }

    /// Scope of an operation that is asked for in `scope`: a shield whose body asks for it stands before it.
    fn scope_of(&self, scope: Option<u32>) -> Option<u32> {
        let shield = self.shields.iter().rev().find(|shield| shield.within == scope);
        shield.map_or(scope, |shield| Some(shield.op))
    }

    fn close(&mut self, op: u32) {
        let Some(operation) = self.operations.get_mut(&op) else { return };
        operation.is_open = false;
        if self.outstanding.remove(&op) && operation.is_scope {
            self.closing -= 1;
        }
        self.by_id.remove(&operation.id);
    }

    /// Gives an outcome to the code. Returns the waker of the code that waits for it.
    fn give(&mut self, op: u32, outcome: Outcome, is_recorded: bool) -> Option<Waker> {
        self.items.push(Item::Took(op));
        self.close(op);
        self.in_turn = true;
        let operation = self.operations.get_mut(&op)?;
        operation.outcome = Some((outcome, is_recorded));
        operation.waker.take()
    }

    fn stop_attempt(&mut self, op: u32, attempt: Option<u32>) -> Option<Waker> {
        let operation = self.operations.get_mut(&op)?;
        let under_way =
            operation.order.as_ref().map(|order| order.number).or(operation.running.map(|(n, _)| n));
        if under_way.is_none() || attempt.is_some_and(|attempt| Some(attempt) != under_way) {
            return None;
        }
        (operation.order, operation.running, operation.stops) = (None, None, true);
        self.attempts.remove(&op);
        self.aborted.push(op);
        operation.waker.take()
    }

    fn unasked_text(&self, id: &str, kind: RecordKind) -> String {
        let code = match self.ended {
            true => "ends".to_string(),
            false => {
                let waits = self.outstanding.iter().filter_map(|op| self.operations.get(op));
                let waits: Vec<String> = waits.map(|operation| format!("{:?}", operation.id)).collect();
                format!("waits at {}", waits.join(", "))
            }
        };
        format!(
            "the history has a {} at {id:?}, but the code {code} without asking for it; restore the code that the run \
             began with, or give the changed code a new version",
            kind.as_str()
        )
    }
}

impl Machine {
    pub(super) fn new(
        activation: RemoteActivation,
        declared: Arc<Declared>,
        hold: Hold,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let RemoteActivation { run, workspace, workflow, fence, key_prefix, input: _, log } = activation;
        let state = State {
            log: ReplayLog::new(log),
            operations: HashMap::new(),
            outstanding: BTreeSet::new(),
            attempts: HashSet::new(),
            by_id: HashMap::new(),
            ordinals: HashMap::new(),
            last_op: 0,
            resolved: VecDeque::new(),
            shields: Vec::new(),
            items: Vec::new(),
            begun: Vec::new(),
            aborted: Vec::new(),
            in_turn: false,
            ended: false,
            forgotten: false,
            stopped: false,
            closing: 0,
            is_led: false,
            violation: None,
            is_violation_told: false,
            continue_with: None,
            unheld: Vec::new(),
        };
        let facts = ActivationFacts { run, workspace, workflow, fence, key_prefix, declared };
        Machine { facts, hold, clock, state: Mutex::new(state) }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // If user code panics, guards that use this lock are dropped. They must not panic in turn.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // Messages.

    /// Takes a message. Undo attempts are the caller's.
    pub(super) fn deliver(&self, message: RunMessage) -> Option<(AttemptOrder, Undo)> {
        let mut state = self.state();
        let waker = match message {
            RunMessage::Attempt(order) => match self.accept(&mut state, order) {
                Ok(waker) => waker,
                Err(undo) => return undo,
            },
            RunMessage::Resolved { op, outcome } => {
                state.resolved.push_back((op, outcome));
                None
            }
            RunMessage::Abort { op, attempt } => state.stop_attempt(op, Some(attempt)),
            RunMessage::Stop => {
                state.stopped = true;
                None
            }
            RunMessage::Drop => {
                let running: Vec<u32> = state.attempts.drain().collect();
                state.aborted.extend(running);
                state.forgotten = true;
                None
            }
            RunMessage::HoldRenewed => {
                let unheld = std::mem::take(&mut state.unheld);
                drop(state);
                unheld.into_iter().for_each(Waker::wake);
                return None;
            }
        };
        drop(state);
        waker.into_iter().for_each(Waker::wake);
        None
    }

    /// Hands an order to the code of its step. An undo is returned as an error: its code is not the workflow's.
    #[allow(clippy::type_complexity)]
    fn accept(
        &self,
        state: &mut State,
        order: AttemptOrder,
    ) -> Result<Option<Waker>, Option<(AttemptOrder, Undo)>> {
        let (op, number, attempted) = (order.op, order.number, order.kind);
        let ended = state.ended;
        let operation = state.operations.get_mut(&op);
        if order.kind == AttemptKind::Undo
            && let Some(undo) = operation.as_ref().and_then(|operation| operation.undo.clone())
        {
            state.begun.push(op);
            return Err(Some((order, undo)));
        }
        match operation.filter(|operation| operation.is_step && operation.is_open && !ended) {
            Some(operation) if order.kind != AttemptKind::Undo => {
                (operation.order, operation.stops) = (Some(order), operation.running.is_some());
                state.attempts.insert(op);
                Ok(operation.waker.take())
            }
            Some(_) | None => {
                let failure = Failure::unknown(format!("operation {op} has no code to run"));
                let outcome = AttemptOutcome::Failed(failure.with_code("invalid"));
                state.items.push(Item::Outcome {
                    op,
                    kind: attempted,
                    attempt: number,
                    outcome,
                    evidence: None,
                });
                Ok(None)
            }
        }
    }

    /// Gives the next outcome to the code, if there is one. Returns whether it did.
    pub(super) fn give_next(&self) -> bool {
        let mut state = self.state();
        let waker = loop {
            if state.is_over() {
                return false;
            }
            if !state.is_led
                && let Some(next) = state.log.next()
            {
                let Some(op) = state.by_id.get(next).copied() else {
                    if let Some(kind) = state.log.kind_of_unasked(next) {
                        let text = state.unasked_text(next, kind);
                        state.violate(text);
                        return false;
                    }
                    // The code asked for it, and does not wait for it any more.
                    state.log.take_next();
                    continue;
                };
                let Some((_, outcome)) = state.log.take_next() else { return false };
                break state.give(op, outcome, true);
            }
            let Some((op, outcome)) = state.resolved.pop_front() else { return false };
            let Some(operation) = state.operations.get(&op).filter(|operation| operation.is_open) else {
                continue;
            };
            let id = operation.id.clone();
            let stopped = state.stop_attempt(op, None);
            state.log.use_up(&id);
            let given = state.give(op, outcome, false);
            break given.or(stopped);
        };
        drop(state);
        waker.into_iter().for_each(Waker::wake);
        true
    }

    /// Ends a turn: the code went as far as it could.
    pub(super) fn end_turn(&self) {
        let mut state = self.state();
        state.in_turn = false;
        if state.is_over() || !state.outstanding.is_empty() {
            return;
        }
        state.violate(
            "the workflow waits for something that is not the context's: nothing is open, and it has not ended. Await only \
             what the context returns, and do everything else in ctx.step"
                .into(),
        );
    }

    /// Once the code has been given every outcome of the log, or has ended, it must have asked for every record.
    pub(super) fn check_that_all_is_asked(&self) {
        let mut state = self.state();
        let is_complete = state.ended || (state.closing == 0 && state.log.next().is_none());
        if !is_complete || state.violation.is_some() || state.forgotten {
            return;
        }
        let text = state.log.first_unasked().map(|(id, kind)| state.unasked_text(id, kind));
        if let Some(text) = text {
            state.violate(text);
        }
    }

    /// The function ended.
    pub(super) fn end(&self, outcome: Result<Payload, Failure>) {
        let mut state = self.state();
        if state.is_over() {
            return;
        }
        if !state.in_turn {
            state.stray("its end");
            return;
        }
        state.ended = true;
        state.outstanding.clear();
        let end = match (state.continue_with.take(), outcome) {
            (Some(input), _) => Item::ContinuesAsNew(input),
            (None, Ok(output)) => Item::Returns(output),
            (None, Err(failure)) => Item::Throws(failure),
        };
        state.items.push(end);
    }

    /// Takes what the run has to say. A violation stands for everything but outcomes, which must not be lost.
    pub(super) fn collect(&self) -> Collected {
        let mut state = self.state();
        let mut items = std::mem::take(&mut state.items);
        if let Some(why) = state.violation.clone() {
            items.retain(|item| matches!(item, Item::Outcome { .. }));
            if !std::mem::replace(&mut state.is_violation_told, true) {
                items.push(Item::Violation(why));
            }
        }
        Collected {
            items,
            begun: std::mem::take(&mut state.begun),
            aborted: std::mem::take(&mut state.aborted),
            running: state.attempts.len(),
        }
    }

    /// True if nothing happens in the run and it only waits for the server.
    pub(super) fn is_idle(&self) -> bool {
        let state = self.state();
        state.attempts.is_empty() && state.resolved.is_empty() && !state.is_over()
    }

    pub(super) fn evict(&self) {
        let mut state = self.state();
        if !state.is_over() {
            state.items.push(Item::Evicted);
        }
        state.forgotten = true;
    }

    pub(super) fn push(&self, item: Item) {
        self.state().items.push(item);
    }

    // Calls of operations.

    pub(super) fn poll_outcome(&self, op: u32, waker: &Waker) -> Option<(Outcome, bool)> {
        let mut state = self.state();
        let operation = state.operations.get_mut(&op)?;
        let Some(outcome) = operation.outcome.take() else {
            if !operation.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
                operation.waker = Some(waker.clone());
            }
            return None;
        };
        // A long run keeps only what may still be needed.
        if operation.undo.is_none() {
            state.operations.remove(&op);
        }
        Some(outcome)
    }

    /// Next action of a step's code.
    pub(super) fn take_order(&self, op: u32) -> (bool, Option<AttemptOrder>) {
        let mut state = self.state();
        let Some(operation) = state.operations.get_mut(&op) else { return (true, None) };
        let stops = std::mem::take(&mut operation.stops);
        let order = operation.order.take();
        if let Some(order) = &order {
            operation.running = Some((order.number, order.kind));
            state.begun.push(op);
        }
        (stops, order)
    }

    /// An attempt ended. The code goes on at once if the protocol lets it.
    pub(super) fn end_attempt(&self, order: &AttemptOrder, outcome: AttemptOutcome) {
        let op = order.op;
        let mut state = self.state();
        state.attempts.remove(&op);
        let is_success = order.kind == AttemptKind::Effect && matches!(outcome, AttemptOutcome::Output(_));
        let output = match &outcome {
            AttemptOutcome::Output(output) if is_success => Some(output.clone()),
            _ => None,
        };
        let evidence = is_success.then(|| Box::new(Evidence { key: order.key.clone(), fence: order.fence }));
        let (kind, attempt) = (order.kind, order.number);
        state.items.push(Item::Outcome { op, kind, attempt, outcome, evidence });
        let is_alone = state.outstanding.len() == 1 && state.outstanding.contains(&op);
        let is_free = is_alone && !state.stopped && !state.is_over() && state.log.next().is_none();
        let Some(operation) = state.operations.get_mut(&op) else { return };
        operation.running = None;
        if let Some(output) = output
            && is_free
            && operation.goes_on
            && operation.is_open
        {
            // The code polls for the outcome right after this.
            state.give(op, Ok(output), false);
        }
    }

    /// Whether an attempt may begin, or go on after a wait: only while the right to its effect holds. If not, it is
    /// woken when the right is renewed.
    pub(crate) fn may_go_on(&self, cx: &Context<'_>) -> bool {
        if self.hold.is_held() {
            return true;
        }
        let mut state = self.state();
        if !state.unheld.iter().any(|known| known.will_wake(cx.waker())) {
            state.unheld.push(cx.waker().clone());
        }
        drop(state);
        // It may have been renewed in between.
        self.hold.is_held()
    }

    pub(super) fn abandon(&self, op: u32) {
        let mut state = self.state();
        let is_over = state.is_over();
        let Some(operation) = state.operations.get_mut(&op).filter(|operation| operation.is_open) else {
            return;
        };
        operation.is_open = false;
        let had_attempt = operation.running.take().is_some() | operation.order.take().is_some();
        if state.outstanding.remove(&op) && state.operations.get(&op).is_some_and(|of| of.is_scope) {
            state.closing -= 1;
        }
        state.attempts.remove(&op);
        if is_over {
            return;
        }
        if !state.in_turn {
            state.stray("nothing more of an operation");
            return;
        }
        if had_attempt {
            state.aborted.push(op);
        }
        // Futures are dropped inside out. The server hears of them in the order of asking.
        let later =
            state.items.iter().rev().take_while(|item| matches!(item, Item::Abandons(known) if *known > op));
        let place = state.items.len() - later.count();
        state.items.insert(place, Item::Abandons(op));
    }

    /// A recorded value does not fit the type that the code asks for.
    pub(crate) fn violate(&self, why: String) {
        self.state().violate(why);
    }
}

impl WorkerCtx {
    /// The context of operations in `scope`.
    pub(crate) fn within(&self, scope: u32) -> Self {
        WorkerCtx { machine: self.machine.clone(), scope: Some(scope) }
    }

    /// Asks for an operation. Its outcome comes when its turn has come.
    pub(crate) fn ask(&self, asked: OperationRequest) -> Operation {
        let OperationRequest { kind, name, what, goes_on, undo } = asked;
        let mut state = self.machine.state();
        if !state.may_ask(|| format!("the {} {:?}", kind.as_str(), name.as_str())) {
            return Operation::never(self.machine.clone());
        }
        let id = state.next_id(&name);
        state.find_record(&id, kind);
        if state.violation.is_some() {
            return Operation::never(self.machine.clone());
        }
        state.last_op += 1;
        let op = state.last_op;
        let scope = state.scope_of(self.scope);
        state.items.push(Item::Asks { op, scope, what: Box::new(what) });
        let operation = OperationState {
            id: id.clone(),
            is_open: true,
            is_step: kind == RecordKind::Step,
            goes_on,
            undo,
            ..OperationState::default()
        };
        state.operations.insert(op, operation);
        state.by_id.insert(id.clone(), op);
        state.outstanding.insert(op);
        drop(state);
        Operation::new(self.machine.clone(), op, id)
    }

    /// A value that the code makes for itself: the recorded one, or a new one.
    pub(crate) fn value(
        &self,
        name: &Name,
        make: impl FnOnce() -> Result<Payload, Failure>,
    ) -> Result<(Payload, bool), Failure> {
        let mut state = self.machine.state();
        if !state.may_ask(|| format!("the value {:?}", name.as_str())) {
            drop(state);
            return make().map(|made| (made, false));
        }
        let id = state.next_id(name);
        let found = state.find_record(&id, RecordKind::Value);
        state.last_op += 1;
        let op = state.last_op;
        drop(state);
        let (value, is_recorded) = match found.and_then(|found| found.value) {
            Some(value) => (value?, true),
            None => (make()?, false),
        };
        let what = Box::new(OperationBody::Value { name: name.to_string(), value: value.clone() });
        self.machine.push(Item::Asks { op, scope: None, what });
        Ok((value, is_recorded))
    }

    /// Opens a scope or a shield.
    pub(crate) fn open_scope(&self, kind: ScopeKind) -> Operation {
        let mut state = self.machine.state();
        let what = match kind {
            ScopeKind::Scope => OperationBody::Scope,
            ScopeKind::Shield => OperationBody::Shield,
        };
        if !state.may_ask(|| "a scope".into()) {
            return Operation::never(self.machine.clone());
        }
        state.last_op += 1;
        let op = state.last_op;
        let scope = state.scope_of(self.scope);
        state.items.push(Item::Asks { op, scope, what: Box::new(what) });
        let id = format!("~scope-{op}");
        let operation =
            OperationState { id: id.clone(), is_open: true, is_scope: true, ..OperationState::default() };
        state.operations.insert(op, operation);
        drop(state);
        Operation::new(self.machine.clone(), op, id)
    }

    /// The body of a scope ended well. That is known at once.
    pub(crate) fn close_scope(&self, scope: &mut Operation) -> bool {
        let Some(op) = scope.number() else { return false };
        let mut state = self.machine.state();
        if !state.may_ask(|| "the end of a scope".into()) {
            return false;
        }
        state.operations.remove(&op);
        state.items.push(Item::ClosesScope(op, None));
        drop(state);
        scope.forget();
        true
    }

    /// The body of a scope failed. Its outcome comes when its effects are undone.
    pub(crate) fn close_failed_scope(&self, scope: &Operation, failure: Failure) {
        let Some(op) = scope.number() else { return };
        let mut state = self.machine.state();
        if !state.may_ask(|| "the end of a scope".into()) {
            return;
        }
        state.items.push(Item::ClosesScope(op, Some(failure)));
        state.outstanding.insert(op);
        state.closing += 1;
        state.is_led = true;
    }

    /// Begins to poll the body of a shield.
    pub(crate) fn enter_shield(&self, shield: &Operation) -> ShieldGuard<'_> {
        if let Some(op) = shield.number() {
            self.machine.state().shields.push(EnteredShield { op, within: self.scope });
        }
        ShieldGuard { ctx: self, is_entered: shield.number().is_some() }
    }

    pub(crate) fn continue_as_new(&self, input: Payload) {
        self.machine.state().continue_with = Some(input);
    }
}

/// Ends a poll of the body of a shield.
pub(crate) struct ShieldGuard<'a> {
    ctx: &'a WorkerCtx,
    is_entered: bool,
}

impl Drop for ShieldGuard<'_> {
    fn drop(&mut self) {
        if self.is_entered {
            self.ctx.machine.state().shields.pop();
        }
    }
}
