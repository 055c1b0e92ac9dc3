//! The machine of one worker: a session, its two lanes, its hold, and the functions that it keeps.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::FutureExt;

use hapax_api as api;
use hapax_api::{Code, Problem};
use hapax_engine::model::{RunId, Timestamp, WorkspaceId};
use hapax_engine::store::Store;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::sleep;

use super::Coverage;
use super::line::{Act as Request, LineAnswer, send};
use super::node::Node;
use super::program::Answer;
use super::provider::RequestHandling;
use super::rule::Rule;
use super::script::{Act, Script};
use super::simulated_nodes::{NodeSessions, SimulatedNodes, WORKFLOW};
use super::watch::at_once;
use super::world::World;
use crate::{WorkerCaller, Workers};

/// Slots of a simulated worker.
const CONCURRENCY: u32 = 4;

/// A process that offers the workflow.
pub struct Machine {
    pub world: Arc<World>,
    pub offices: Arc<SimulatedNodes>,
    pub node: Arc<Node>,
    pub instance: Option<String>,
    pub reached: Arc<Mutex<Coverage>>,
    state: Mutex<State>,
    work: Notify,
    hold_changed: Notify,
}

#[derive(Default)]
struct State {
    /// Number of sessions so far. What belongs to an older one is forgotten.
    life: u32,
    session: Option<String>,
    /// Until when effects may begin, by a clock that counts time spent suspended.
    hold_until: Duration,
    functions: BTreeMap<String, Function>,
    /// Batches that wait to be handed in, in their order.
    outbox: VecDeque<(String, String, Vec<Value>)>,
    running: u32,
    last_request: u64,
}

impl State {
    /// The session is over: its runs are forgotten.
    fn forget(&mut self) {
        self.life += 1;
        self.session = None;
        self.functions.clear();
        self.outbox.clear();
    }
}

/// One activation.
struct Function {
    run: String,
    script: Script,
    /// Operations that the code has asked for.
    asked: u32,
    /// Operations whose outcome the code has received.
    taken: u32,
    seen: Vec<(String, Value)>,
    is_stopped: bool,
    /// Attempts that were aborted.
    aborted: Vec<(u32, u64)>,
}

impl Function {
    /// Goes on with the outcome of the operation that the code waits for.
    fn take(&mut self, outcome: Result<Value, Value>, items: &mut Vec<Value>) {
        self.taken += 1;
        items.push(json!({ "took": self.taken }));
        let act = &self.script.acts[self.taken as usize - 1];
        match outcome {
            Ok(output) => {
                if act.effort().is_some() {
                    self.seen.push((act.step(self.taken), output));
                }
                self.ask(items);
            }
            Err(failure) => {
                items.push(json!({ "throw": failure }));
                self.is_stopped = true;
            }
        }
    }

    /// Asks for the next operation, or ends.
    fn ask(&mut self, items: &mut Vec<Value>) {
        match self.script.acts.get(self.taken as usize) {
            Some(act) => {
                self.asked = self.taken + 1;
                items.push(act.asked(self.asked));
            }
            None if self.script.fails => {
                self.is_stopped = true;
                let failure =
                    json!({ "message": "so it is written", "class": "permanent", "code": "planned" });
                items.push(json!({ "throw": failure }));
            }
            None => {
                self.is_stopped = true;
                items.push(json!({ "return": self.seen }));
            }
        }
    }
}

fn text<'a>(message: &'a Value, name: &str) -> &'a str {
    message[name].as_str().unwrap_or_default()
}

fn number(message: &Value, name: &str) -> u64 {
    message[name].as_u64().unwrap_or_default()
}

fn span(text: &str) -> Duration {
    let span: api::DurationText = serde_json::from_value(json!(text)).expect("a span");
    span.0
}

/// Why a session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Over,
    Replaced,
}

impl Machine {
    pub fn new(
        world: &Arc<World>,
        offices: &Arc<SimulatedNodes>,
        node: Arc<Node>,
        instance: Option<String>,
        reached: &Arc<Mutex<Coverage>>,
    ) -> Arc<Self> {
        Arc::new(Machine {
            world: world.clone(),
            offices: offices.clone(),
            node,
            instance,
            reached: reached.clone(),
            state: Mutex::default(),
            work: Notify::new(),
            hold_changed: Notify::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn reach(&self, change: impl FnOnce(&mut Coverage)) {
        change(&mut self.reached.lock().unwrap());
    }

    fn log(&self, what: &str) {
        self.world.log(&self.node.name, what);
    }

    /// Lives until it is replaced or dies.
    pub async fn live(self: Arc<Self>) {
        let node = self.node.clone();
        tokio::select! {
            biased;
            () = node.death() => {}
            () = self.work_on() => {}
        }
    }

    async fn work_on(self: &Arc<Self>) {
        loop {
            let Some(session) = self.open().await else { continue };
            self.log(&format!("opened {session}"));
            self.reach(|reached| reached.sessions += 1);
            let end = tokio::select! {
                biased;
                end = self.poll(&session) => end,
                end = self.commit(&session) => end,
            };
            self.log(&format!("{session} is {end:?}"));
            self.state().forget();
            if end == End::Replaced {
                self.reach(|reached| reached.replaced += 1);
                return;
            }
            self.reach(|reached| reached.over += 1);
            sleep(Duration::from_millis(20)).await;
        }
    }

    async fn open(self: &Arc<Self>) -> Option<String> {
        sleep(self.world.span(Duration::from_millis(50))).await;
        let office = self.offices.any()?;
        let mut offer = json!({
            "name": self.node.name, "concurrency": CONCURRENCY, "workflows": [{ "name": WORKFLOW, "version": 1 }],
        });
        if let Some(instance) = &self.instance {
            offer["instance"] = json!(instance);
        }
        let offer: api::OpenWorkerSession = serde_json::from_value(offer).expect("a sound offer");
        let act: Request<String> = Arc::new(move |workers: Arc<Workers>| {
            let offer = offer.clone();
            async move {
                let workspace = WorkspaceId::default();
                workers.open(WorkerCaller::unbound(&workspace), offer).map(|opened| opened.session_id)
            }
            .boxed()
        });
        match send(&self.world, &office, &office, act).await {
            (LineAnswer::Answer(session), _) => {
                self.announce(&session, &office);
                let mut state = self.state();
                state.session = Some(session.clone());
                state.hold_until = Duration::ZERO;
                Some(session)
            }
            (LineAnswer::Refused(_) | LineAnswer::NoAnswer, _) => None,
        }
    }

    /// The node tells the others of the session, as servers do.
    fn announce(&self, session: &str, office: &NodeSessions) {
        let Some(instance) = self.instance.clone() else { return };
        let workspace = WorkspaceId::default();
        let Some(opened_at) = office.workers.opened_at(&workspace, session) else { return };
        for other in self.offices.others(&office.tag) {
            let (world, office, session) = (self.world.clone(), office.clone(), session.to_string());
            let instance = instance.clone();
            tokio::spawn(async move {
                let (of, id): (Timestamp, String) = (opened_at, session.clone());
                let act: Request<bool> = Arc::new(move |workers: Arc<Workers>| {
                    let (instance, id) = (instance.clone(), id.clone());
                    async move {
                        let workspace = WorkspaceId::default();
                        workers.replace_older(WorkerCaller::unbound(&workspace), &instance, of, &id)
                    }
                    .boxed()
                });
                if let (LineAnswer::Answer(false), _) = send(&world, &other, &other, act).await {
                    office.workers.give_way(&WorkspaceId::default(), &session);
                }
            });
        }
    }

    // Lanes.

    async fn poll(self: &Arc<Self>, session: &str) -> End {
        loop {
            let (sequence, free) = self.next_request();
            let body = api::PollWorkerSession { sequence, free };
            let id = session.to_string();
            let act: Request<Value> = Arc::new(move |workers: Arc<Workers>| {
                let (id, body) = (id.clone(), body.clone());
                async move {
                    let workspace = WorkspaceId::default();
                    let answer = workers.poll(WorkerCaller::unbound(&workspace), &id, &body).await?;
                    Ok(serde_json::from_slice(&answer).expect("answers are JSON"))
                }
                .boxed()
            });
            match self.exchange(session, act).await {
                Ok(()) => {}
                Err(end) => return end,
            }
        }
    }

    async fn commit(self: &Arc<Self>, session: &str) -> End {
        loop {
            while self.state().outbox.is_empty() {
                self.work.notified().await;
            }
            let (sequence, free) = self.next_request();
            let mut runs: Vec<api::WorkerRunItems> = Vec::new();
            for (run, activation, items) in self.state().outbox.drain(..) {
                let items = items.iter().map(|item| api::RawJson::from_value(item).expect("items are JSON"));
                match runs.iter_mut().find(|entry| entry.activation == activation) {
                    Some(entry) => entry.items.extend(items),
                    None => runs.push(api::WorkerRunItems { run, activation, items: items.collect() }),
                }
            }
            let body = api::CommitWorkerSession { sequence, free, runs, results: Vec::new() };
            let id = session.to_string();
            let act: Request<Value> = Arc::new(move |workers: Arc<Workers>| {
                let (id, body) = (id.clone(), body.clone());
                async move {
                    let workspace = WorkspaceId::default();
                    let answer = workers.commit(WorkerCaller::unbound(&workspace), &id, body).await?;
                    Ok(serde_json::from_slice(&answer).expect("answers are JSON"))
                }
                .boxed()
            });
            match self.exchange(session, act).await {
                Ok(()) => {}
                Err(end) => return end,
            }
        }
    }

    fn next_request(&self) -> (u64, u32) {
        let mut state = self.state();
        state.last_request += 1;
        (state.last_request, CONCURRENCY.saturating_sub(state.running))
    }

    /// Sends one request until an answer comes: always the same, with the same number.
    async fn exchange(self: &Arc<Self>, session: &str, act: Request<Value>) -> Result<(), End> {
        // The answer to a later one may be that to the first.
        let sent_at = self.world.elapsed();
        let mut wait = Duration::from_millis(20);
        loop {
            self.node.thawed().await;
            let (via, office) = (self.offices.any(), self.offices.of_session(session));
            // Nobody listens at the address of a node that is gone.
            let Some(office) = office else { return Err(End::Over) };
            let via = via.unwrap_or_else(|| office.clone());
            if via.tag != office.tag {
                self.reach(|reached| reached.forwarded += 1);
            }
            let (told, came_twice) = send(&self.world, &via, &office, act.clone()).await;
            self.reach(|reached| reached.arrived_twice += u64::from(came_twice));
            self.node.thawed().await;
            match told {
                LineAnswer::Answer(answer) => {
                    self.hear(sent_at, &answer);
                    return Ok(());
                }
                LineAnswer::Refused(Problem { code: Code::SessionReplaced, .. }) => {
                    return Err(End::Replaced);
                }
                LineAnswer::Refused(Problem { code: Code::SessionUnknown, .. }) => return Err(End::Over),
                LineAnswer::NoAnswer => {
                    self.reach(|reached| reached.sent_again += 1);
                }
                LineAnswer::Refused(problem) => {
                    self.world.break_off(format!("{} was refused: {problem}", self.node.name));
                    return Err(End::Over);
                }
            }
            sleep(wait).await;
            wait = (wait * 2).min(Duration::from_millis(500));
        }
    }

    fn hear(self: &Arc<Self>, sent_at: Duration, answer: &Value) {
        {
            let mut state = self.state();
            let until = sent_at + span(text(answer, "holdFor"));
            state.hold_until = state.hold_until.max(until);
        }
        self.hold_changed.notify_waiters();
        for message in answer["messages"].as_array().expect("answers have messages") {
            self.take_in(message);
        }
    }

    // Messages.

    fn take_in(self: &Arc<Self>, message: &Value) {
        let activation = text(message, "activation").to_string();
        self.log(&format!("hears {} of {activation}", text(message, "type")));
        match text(message, "type") {
            "activate" => self.activate(activation, message),
            "attempt" => self.attempt(activation, message),
            "resolved" => self.resolve(&activation, message),
            "abort" => {
                let attempt = (number(message, "op") as u32, number(message, "attempt"));
                if let Some(function) = self.state().functions.get_mut(&activation) {
                    function.aborted.push(attempt);
                }
            }
            "stop" => {
                if let Some(function) = self.state().functions.get_mut(&activation) {
                    function.is_stopped = true;
                }
            }
            "drop" => {
                if text(message, "why") == "violation" {
                    self.world.break_off(format!("{} was told of a violation: {message}", self.node.name));
                }
                self.state().functions.remove(&activation);
            }
            other => self.world.break_off(format!("an unknown message: {other}")),
        }
    }

    fn push(&self, run: &str, activation: &str, items: Vec<Value>) {
        if !items.is_empty() {
            self.state().outbox.push_back((run.into(), activation.into(), items));
            self.work.notify_one();
        }
    }

    fn activate(self: &Arc<Self>, activation: String, message: &Value) {
        let script: Script = serde_json::from_value(message["input"].clone()).expect("a script");
        let run = text(message, "run").to_string();
        let mut function = Function {
            run: run.clone(),
            script,
            asked: 0,
            taken: 0,
            seen: Vec::new(),
            is_stopped: false,
            aborted: Vec::new(),
        };
        let mut items = Vec::new();
        function.ask(&mut items);
        let log = message["log"].as_array().expect("there is a log").iter();
        let ended = log.filter(|record| ["COMPLETED", "FAILED"].contains(&text(record, "status")));
        for record in ended {
            if function.is_stopped {
                break;
            }
            let act = &function.script.acts[function.asked as usize - 1];
            if act.step(function.asked) != text(record, "id") {
                self.world.break_off(format!("{run} has {record} where its code asks for {act:?}"));
            }
            let outcome = match text(record, "status") {
                "COMPLETED" => Ok(record["output"].clone()),
                _ => Err(record["failure"].clone()),
            };
            function.take(outcome, &mut items);
            self.reach(|reached| reached.replays += 1);
        }
        self.state().functions.insert(activation.clone(), function);
        self.push(&run, &activation, items);
    }

    fn resolve(self: &Arc<Self>, activation: &str, message: &Value) {
        let (mut items, run) = (Vec::new(), text(message, "run"));
        {
            let mut state = self.state();
            let Some(function) = state.functions.get_mut(activation).filter(|function| !function.is_stopped)
            else {
                return;
            };
            if number(message, "op") as u32 != function.taken + 1 {
                self.world.break_off(format!("{run}: {message} comes out of order"));
            }
            let outcome = match message.get("failure") {
                Some(failure) => Err(failure.clone()),
                None => Ok(message["output"].clone()),
            };
            function.take(outcome, &mut items);
        }
        self.push(run, activation, items);
    }

    fn attempt(self: &Arc<Self>, activation: String, message: &Value) {
        let place = {
            let mut state = self.state();
            let Some(function) = state.functions.get(&activation) else { return };
            let op = number(message, "op") as u32;
            let act = function.script.acts[op as usize - 1].clone();
            let place = (function.run.clone(), act, state.life);
            state.running += 1;
            place
        };
        let (machine, message) = (self.clone(), message.clone());
        tokio::spawn(async move {
            let (run, act, life) = place;
            let node = machine.node.clone();
            tokio::select! {
                biased;
                () = node.death() => {}
                () = machine.make(life, &run, &activation, &act, &message) => {}
            }
            let mut state = machine.state();
            state.running = state.running.saturating_sub(1);
        });
    }

    /// Makes one attempt and hands in its outcome.
    async fn make(self: &Arc<Self>, life: u32, run: &str, activation: &str, act: &Act, message: &Value) {
        let attempt = (number(message, "op") as u32, number(message, "attempt"));
        let outcome = match text(message, "do") {
            "probe" => self.probe(life, activation, attempt, text(message, "key")).await,
            "undo" => self.undo(life, activation, attempt, message).await,
            _ => self.effect(life, activation, attempt, run, act, message).await,
        };
        let Some(mut outcome) = outcome else { return };
        self.world.may_pause(&self.node).await;
        (outcome["outcome"], outcome["attempt"]) = (json!(attempt.0), json!(attempt.1));
        outcome["do"] = message["do"].clone();
        let mut items = vec![outcome];
        {
            let mut state = self.state();
            if state.life != life {
                return;
            }
            let function = state.functions.get_mut(activation);
            let succeeded = items[0].get("output").filter(|_| text(message, "do") == "effect").cloned();
            if let (Some(function), Some(output)) = (function, succeeded)
                && !function.is_stopped
                && attempt.0 == function.taken + 1
                && !function.aborted.contains(&attempt)
            {
                // It is the only operation that the code waits for, so the code goes on at once.
                function.take(Ok(output), &mut items);
            }
        }
        self.push(run, activation, items);
    }

    /// Waits until the hold allows to begin. False if the attempt is no longer wanted.
    async fn may_begin(&self, life: u32, activation: &str, attempt: (u32, u64)) -> bool {
        loop {
            self.world.may_pause(&self.node).await;
            let changed = self.hold_changed.notified();
            {
                let state = self.state();
                let function = state.functions.get(activation).filter(|_| state.life == life);
                if function.is_none_or(|function| function.aborted.contains(&attempt)) {
                    return false;
                }
                // Nothing is awaited between this look and the request.
                if self.world.elapsed() < state.hold_until {
                    return true;
                }
            }
            self.reach(|reached| reached.held_back += 1);
            changed.await;
        }
    }

    /// Checks that the node of the session holds the run at the moment at which its worker sends something.
    fn check_lease(&self, run: &str, what: &str) {
        let session = self.state().session.clone();
        let id: RunId = run.parse().expect("the id of a run");
        let view =
            at_once(self.world.store.find_run(&WorkspaceId::default(), id)).expect("no run is deleted");
        let is_held = view.head.state.lease().is_some_and(|lease| lease.until > self.world.store.now());
        let is_its_own = session.and_then(|session| self.offices.of_session(&session)).is_none_or(|office| {
            view.head.state.lease().is_some_and(|lease| Some(&lease.owner) == office.node.owner.get())
        });
        if !is_held || !is_its_own {
            self.world.expect(Rule::StaleHolderNeverSends, || {
                format!(
                    "{} sends {what} of {run}, which its node does not hold: {:?}",
                    self.node.name, view.head.state
                )
            });
        }
    }

    async fn effect(
        self: &Arc<Self>,
        life: u32,
        activation: &str,
        attempt: (u32, u64),
        run: &str,
        act: &Act,
        message: &Value,
    ) -> Option<Value> {
        let (world, key) = (&self.world, text(message, "key"));
        if !self.may_begin(life, activation, attempt).await {
            return None;
        }
        let effort = act.effort().expect("a sleep has no attempts");
        // An effect that may be repeated waits for nobody: its run may go on elsewhere already.
        if act.is_wire() {
            self.check_lease(run, key);
            world.provider.check_claim(world, key);
        }
        if matches!(act, Act::Book(_)) {
            world.provider.can_be_undone(key);
        }
        let inside = world.provider.enter_action(world, key, None, !act.is_wire());
        let entries = world.provider.account(key).entries;
        let answer = effort.answer(entries);
        let treatment = RequestHandling {
            happens: answer == Answer::Done || (answer == Answer::Unknown && effort.charges_anyway),
            // Not always too slow for the timeout.
            works_for: Duration::from_millis(if entries.is_multiple_of(3) { 0 } else { effort.ms }),
            answers_after: Duration::from_millis(if entries.is_multiple_of(3) { 0 } else { effort.late_ms }),
        };
        let done = json!({ "by": self.node.name, "step": act.step(attempt.0) });
        self.log(&format!("sends {key}"));
        let answered = world.work_on(key, key, treatment, done).await;
        drop(inside);
        answered.ok()?;
        // A provider that honours keys answers with what it did first.
        let output = world.provider.look_up(key);
        Some(match answer {
            Answer::Done => json!({ "output": output }),
            Answer::Unknown => {
                json!({ "failure": { "message": "no answer", "class": "unknown", "code": "planned" } })
            }
            Answer::NotNow | Answer::Never => {
                world.provider.deny(key);
                json!({ "failure": { "message": "not now", "class": "retryable", "code": "planned" } })
            }
        })
    }

    async fn probe(
        self: &Arc<Self>,
        life: u32,
        activation: &str,
        attempt: (u32, u64),
        key: &str,
    ) -> Option<Value> {
        if !self.may_begin(life, activation, attempt).await {
            return None;
        }
        self.reach(|reached| reached.probes += 1);
        let found = self.world.provider.look_up(key);
        Some(match found {
            Some(output) => json!({ "answer": "happened", "output": output }),
            None if self.world.chance(6) => json!({ "answer": "unknown" }),
            None => {
                self.world.provider.deny(key);
                json!({ "answer": "did_not_happen" })
            }
        })
    }

    async fn undo(
        self: &Arc<Self>,
        life: u32,
        activation: &str,
        attempt: (u32, u64),
        message: &Value,
    ) -> Option<Value> {
        if !self.may_begin(life, activation, attempt).await {
            return None;
        }
        let key = text(message, "key");
        let inside = self.world.provider.enter_action(&self.world, key, None, true);
        self.reach(|reached| reached.undone += 1);
        let treatment = RequestHandling {
            happens: true,
            works_for: Duration::from_millis(20),
            answers_after: Duration::ZERO,
        };
        let answered = self.world.work_on(key, key, treatment, json!(null)).await;
        drop(inside);
        answered.ok().map(|()| json!({ "output": null }))
    }
}
