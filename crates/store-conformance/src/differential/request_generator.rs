//! Random requests: mostly sensible ones, about runs in a current or earlier state.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use hapax_engine::limits::MAX_PAGE;
use hapax_engine::model::{
    Actor, Failure, Fingerprint, Grant, IdempotencyKey, IgnorePaths, KeyKind, KeyOnFailure, KeyRetention,
    Name, NewRun, Operation, OutboxMessage, OwnerId, Priority, PromiseId, PromiseRef, RepeatPermission, Role,
    RunCommand, RunFacts, RunHead, RunId, RunStatus, SettleRequest, SettleRule, Settlement, SignalId, StepId,
    StepKind, Subject, Subscribers, Timestamp, Version, WorkflowRef, WorkspaceId,
};
use hapax_engine::store::*;

use super::commit_generator::{ALONE, CommitDraft, PROMISES, STEPS};
use super::request::{Answer, Request};
use crate::UserRow;
use crate::fixture::{json, name, workflow};

/// The next request to draw.
pub(super) enum DrawnRequest {
    Pass(Duration),
    Ask(Box<Request>),
    /// The user's own code writes a row.
    PutRow(UserRow),
}

pub(super) const LEASE: Duration = Duration::from_secs(30);
/// Targets of after-effects.
pub(super) const TARGETS: [&str; 3] = ["mail", "mail", "hook"];
const INPUTS: [&str; 2] = [r#"{"item":1}"#, r#"{"item":2}"#];

/// Generator of requests; the same seed draws the same ones.
pub(super) struct RequestGenerator {
    pub(super) rng: Rng,
    ids: u128,
    /// Runs as they were last seen.
    known: Vec<RunHead>,
    /// After-effects as they were when they were claimed.
    pub(super) claimed: Vec<OutboxMessage>,
    /// Operations as they were last seen.
    pub(super) operations: Vec<Operation>,
    /// True if the stores have tables of the user.
    pub(super) has_tables: bool,
    /// Requests that may be sent again.
    sent: Vec<Request>,
    /// Requests to send before any other is drawn.
    planned: Vec<DrawnRequest>,
}

impl RequestGenerator {
    pub(super) fn new(seed: u64, has_tables: bool) -> Self {
        RequestGenerator {
            rng: Rng::with_seed(seed),
            ids: 0,
            known: Vec::new(),
            claimed: Vec::new(),
            operations: Vec::new(),
            has_tables,
            sent: Vec::new(),
            planned: Vec::new(),
        }
    }

    pub(super) async fn next(&mut self, model: &dyn Store) -> DrawnRequest {
        if let Some(planned) = self.planned.pop() {
            return planned;
        }
        let now = model.now();
        let request = match self.rng.u32(..171) {
            0..15 => Request::Start(self.start(model).await),
            15..27 => Request::Claim(self.claim()),
            27..30 => Request::Renew(self.renew()),
            30..58 => match self.advance(model).await {
                Some(advance) => advance,
                None => Request::Claim(self.claim()),
            },
            58..66 => Request::RunCommand(self.steer(model).await),
            66..73 => Request::Signal(self.signal()),
            73..80 => Request::Settle(self.settle(model).await),
            80..83 => Request::Purge(self.purge(now)),
            83..88 => self.read(model).await,
            88..93 => match self.rng.choice(&self.sent).cloned() {
                Some(again) => again,
                None => self.read(model).await,
            },
            93 if self.chance(20) => {
                self.plan_neglect();
                return DrawnRequest::Pass(LEASE);
            }
            93..100 => return DrawnRequest::Pass(self.span()),
            100..107 => Request::ClaimOutbox(self.claim_outbox()),
            107..114 => Request::FinishOutboxMessage(self.finish_outbox_message(now)),
            114..117 => Request::Redeliver(self.redeliver(model).await),
            117..119 => Request::AppendJournal(self.append_journal(now)),
            165..167 => Request::CancelFamily(self.cancel_family(model).await),
            167..170 => Request::SweepFamily(self.sweep_family(model).await),
            170 => Request::ListUnsweptFamilies(self.rng.usize(1..4)),
            125.. => return self.entity_move(model).await,
            _ => self.read_effects(model).await,
        };
        DrawnRequest::Ask(Box::new(request))
    }

    /// Stores what the answer shows, so that later requests refer to runs in that state.
    pub(super) async fn learn(&mut self, request: &Request, answer: &Answer, model: &dyn Store) {
        for head in answer.heads() {
            self.note(head);
        }
        if let Request::RunCommit(advance) = request {
            for child in &advance.children {
                let found = model.find_run(&child.facts.workspace, child.facts.id).await.unwrap();
                found.into_iter().for_each(|view| self.note(view.head));
            }
            if self.rng.u32(..4) > 0
                && let Some(view) = model.find_run(advance.workspace(), advance.run()).await.unwrap()
            {
                self.note(view.head);
            }
        }
        if let Answer::ClaimOutbox(claimed) = answer {
            self.learn_claims(&claimed.posts);
        }
        if let Answer::Entity(answer) = answer {
            self.learn_entities(answer);
        }
        if let Request::Purge(_) = request {
            self.forget_purged(model).await;
        }
        if *answer != Answer::Refused {
            self.sent.push(request.clone());
        }
        if self.sent.len() > 12 {
            self.sent.swap_remove(self.rng.usize(..self.sent.len()));
        }
    }

    fn note(&mut self, head: RunHead) {
        self.known.push(head);
        if self.known.len() > 24 {
            self.known.swap_remove(self.rng.usize(..self.known.len()));
        }
    }

    /// Forgets requests about a purged run. They must not be sent about another run that gets the same id.
    async fn forget_purged(&mut self, model: &dyn Store) {
        let mut sent = Vec::new();
        for request in std::mem::take(&mut self.sent) {
            let is_gone = match request.run() {
                Some((workspace, run)) => model.find_run(&workspace, run).await.unwrap().is_none(),
                None => false,
            };
            if !is_gone || matches!(request, Request::Start(_)) {
                sent.push(request);
            }
        }
        self.sent = sent;
        let mut known = Vec::new();
        for head in std::mem::take(&mut self.known) {
            let is_there = model.find_run(&head.facts.workspace, head.id()).await.unwrap().is_some();
            if is_there || self.rng.u32(..8) == 0 {
                known.push(head);
            }
        }
        self.known = known;
    }

    /// Lets leases expire so often that runs are quarantined.
    fn plan_neglect(&mut self) {
        let everything = || ClaimRuns { grant: grant_to(OwnerId::from_u128(9), &workflows()), limit: 100 };
        for _ in 0..=hapax_engine::limits::MAX_STALLS {
            self.planned.push(DrawnRequest::Ask(Box::new(Request::Claim(everything()))));
            self.planned.push(DrawnRequest::Pass(LEASE));
        }
    }

    pub(super) fn fresh_id(&mut self) -> RunId {
        self.ids += 1;
        RunId::from_u128(self.ids)
    }

    fn span(&mut self) -> Duration {
        Duration::from_millis(self.one_of(&[1, 100, 1_000, 10_000, 31_000, 3_600_000]))
    }

    pub(super) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.rng.usize(..choices.len())]
    }

    pub(super) fn chance(&mut self, percent: u32) -> bool {
        self.rng.u32(..100) < percent
    }

    /// A run in an earlier state, or one that never existed.
    pub(super) fn run(&mut self) -> (WorkspaceId, RunId) {
        let (mut workspace, mut run) = match self.rng.choice(&self.known) {
            Some(head) => (head.facts.workspace.clone(), head.id()),
            None => (WorkspaceId::default(), RunId::from_u128(u128::MAX)),
        };
        match self.rng.u32(..100) {
            0..3 => workspace = self.workspace(),
            3..6 => run = RunId::from_u128(u128::MAX),
            _ => {}
        }
        (workspace, run)
    }

    pub(super) fn workspace(&mut self) -> WorkspaceId {
        WorkspaceId::new(self.one_of(&["default", "default", "default", "default", "abroad"])).unwrap()
    }

    fn key(&mut self) -> IdempotencyKey {
        IdempotencyKey::new(self.one_of(&["k1", "k2", "k3"])).unwrap()
    }

    pub(super) fn owner(&mut self) -> OwnerId {
        OwnerId::from_u128(self.rng.u128(1..4))
    }

    pub(super) fn grant(&mut self) -> Grant {
        let all = workflows();
        let served = match self.chance(80) {
            true => all.to_vec(),
            false => vec![all[self.rng.usize(..all.len())].clone()],
        };
        grant_to(self.owner(), &served)
    }

    pub(super) fn maybe_grant(&mut self) -> Option<Grant> {
        self.chance(50).then(|| self.grant())
    }

    async fn start(&mut self, model: &dyn Store) -> NewRun {
        let now = model.now();
        let input = self.one_of(&INPUTS);
        let key = self.chance(60).then(|| self.key());
        let subject = self.chance(50).then(|| Subject::new(self.one_of(&["s1", "s2"])).unwrap());
        let workflow = workflows()[self.rng.usize(..3)].clone();
        let fingerprint = key
            .as_ref()
            .map(|_| Fingerprint::for_run(&workflow.name, &json(input), &IgnorePaths::default()).unwrap());
        let (workspace, id) = match self.taken_id(model).await {
            Some(taken) if self.chance(5) => (WorkspaceId::new("abroad").unwrap(), taken),
            _ => (self.workspace(), self.fresh_id()),
        };
        let facts = RunFacts {
            workspace,
            id,
            workflow,
            key,
            fingerprint,
            retention: self.retention(),
            subject,
            priority: self.one_of(&Priority::FIRST_TO_LAST),
            deadline_at: self.chance(10).then(|| now.plus(LEASE)),
            parent: None,
            created_at: now,
        };
        let due_at = self.chance(15).then(|| now.plus(self.span()));
        NewRun { facts: Arc::new(facts), input: json(input), due_at, grant: self.maybe_grant() }
    }

    /// The id of a run of the default workspace.
    async fn taken_id(&mut self, model: &dyn Store) -> Option<RunId> {
        let id = self.rng.choice(&self.known)?.id();
        model.find_run(&WorkspaceId::default(), id).await.unwrap().map(|view| view.head.id())
    }

    fn retention(&mut self) -> KeyRetention {
        let keep_for = self.one_of(&[None, Some(Duration::from_secs(5)), Some(Duration::from_secs(3600))]);
        let on_failure = self.one_of(&[KeyOnFailure::Keep, KeyOnFailure::Release]);
        KeyRetention { keep_for, on_failure }
    }

    fn claim(&mut self) -> ClaimRuns {
        ClaimRuns { grant: self.grant(), limit: self.rng.usize(..6) }
    }

    fn renew(&mut self) -> RenewLeases {
        let mut owner = self.owner();
        let mut leases = Vec::new();
        for _ in 0..self.rng.usize(..4) {
            let Some(head) = self.rng.choice(&self.known) else { break };
            owner = head.state.lease().map_or(owner, |lease| lease.owner);
            leases.push(HeldLease {
                workspace: head.facts.workspace.clone(),
                run: head.id(),
                fence: head.fence,
            });
        }
        RenewLeases { owner, lease_for: LEASE, leases }
    }

    /// A write by a current or former holder.
    async fn advance(&mut self, model: &dyn Store) -> Option<Request> {
        for _ in 0..6 {
            let known = self.rng.choice(&self.known).cloned()?;
            let Some(log) = model.find_log(&known.facts.workspace, known.id()).await.unwrap() else {
                continue;
            };
            let is_current = self.chance(90);
            if is_current && log.head.state.lease().is_none() {
                continue;
            }
            let base = if is_current { log.head.clone() } else { known };
            if base.status() == RunStatus::Running {
                return Some(Request::RunCommit(Box::new(
                    CommitDraft::new(self, &base, &log, model.now()).draw(),
                )));
            }
        }
        None
    }

    async fn steer(&mut self, model: &dyn Store) -> CommandRun {
        let (mut workspace, mut run) = self.run();
        let command = match self.rng.u32(..100) {
            0..20 => RunCommand::Pause,
            20..45 => RunCommand::Resume,
            45..60 => RunCommand::Cancel { reason: "the customer left".into() },
            _ => {
                if let Some(head) = self.failed_run(model).await {
                    (workspace, run) = (head.facts.workspace.clone(), head.id());
                }
                let from = match self.chance(40) {
                    true => Some(self.step_of(model, &workspace, run).await),
                    false => None,
                };
                let repeat = match self.chance(30) {
                    true => Some(Box::new(self.repeat(model, &workspace, run).await)),
                    false => None,
                };
                RunCommand::Retry { from, repeat }
            }
        };
        let current = model.find_run(&workspace, run).await.unwrap().map(|view| view.head.version);
        let expected = match self.rng.u32(..10) {
            0 => Some(Version::new(1)),
            1..3 => current,
            _ => None,
        };
        let note = self.maybe_note(&workspace, run, model.now());
        CommandRun { workspace, run, command, expected, note, announce: Subscribers::default() }
    }

    /// Permission to repeat some steps of the run, or all of them.
    async fn repeat(&mut self, model: &dyn Store, workspace: &WorkspaceId, run: RunId) -> RepeatPermission {
        let log = model.find_log(workspace, run).await.unwrap();
        let mut effects: Vec<StepId> =
            log.map(|log| log.steps.into_iter().map(|step| step.id).collect()).unwrap_or_default();
        if self.chance(30) {
            effects.pop();
        }
        let by = Actor::new("meg", Role::Manager);
        RepeatPermission { effects, by, seconded_by: None, reason: "the paper was empty".into() }
    }

    /// Usually a step that the run has.
    async fn step_of(&mut self, model: &dyn Store, workspace: &WorkspaceId, run: RunId) -> StepId {
        let log = model.find_log(workspace, run).await.unwrap();
        let mut steps = log.map(|log| log.steps).unwrap_or_default();
        if self.chance(40) {
            // Prefer an after-effect step: its repetition finds the earlier after-effect.
            steps.retain(|step| step.kind == StepKind::AfterEffect);
        }
        match self.rng.choice(&steps) {
            Some(step) if self.chance(60) => step.id.clone(),
            _ => StepId::from_stored(self.one_of(&STEPS)),
        }
    }

    /// Mostly of a root.
    async fn cancel_family(&mut self, model: &dyn Store) -> CancelFamily {
        let (workspace, run) = self.run();
        let head = model.find_run(&workspace, run).await.unwrap().map(|view| view.head);
        let root = match &head {
            Some(head) if self.chance(85) => head.facts.root(),
            _ => run,
        };
        let expected = match self.rng.u32(..6) {
            0 => Some(Version::new(1)),
            1 => head.map(|head| head.version),
            _ => None,
        };
        let note = self.maybe_note(&workspace, root, model.now());
        CancelFamily { workspace, root, reason: "a mistake".into(), expected, note }
    }

    /// Mostly of a family that was cancelled, from the beginning or from somewhere in it.
    async fn sweep_family(&mut self, model: &dyn Store) -> SweepFamily {
        let families = model.family_store().expect("the memory store keeps families");
        let unswept = families.list_unswept_families(MAX_PAGE).await.unwrap();
        let (workspace, root) = match self.rng.choice(&unswept) {
            Some(family) if self.chance(90) => family.clone(),
            _ => self.run(),
        };
        let after = self.chance(30).then(|| self.run().1);
        let limit = self.one_of(&[1, 2, 100, 100]);
        SweepFamily { workspace, root, after, limit, announce: Subscribers::default() }
    }

    async fn failed_run(&mut self, model: &dyn Store) -> Option<RunHead> {
        let request = ListRuns {
            workspace: None,
            statuses: vec![RunStatus::Failed],
            workflow: None,
            filter: Default::default(),
            before: None,
            limit: 100,
        };
        let failed = model.list_runs(request).await.unwrap().runs;
        self.rng.choice(&failed).map(|view| view.head.clone())
    }

    fn run_filter(&mut self) -> RunFilter {
        let waits = match self.rng.usize(..3) {
            0 => WaitsFor::Signal(self.one_of(&["go", "stop"]).into()),
            1 => WaitsFor::Child,
            _ => WaitsFor::Timer,
        };
        let subject = self.one_of(&["cart", "s1", "s2"]);
        RunFilter {
            version: self.chance(30).then_some(1),
            subject: self.chance(15).then(|| Subject::new(subject).unwrap()),
            waits_for: self.chance(50).then_some(waits),
            ..RunFilter::default()
        }
    }

    fn signal(&mut self) -> SendSignal {
        let (workspace, run) = self.run();
        let id = self.chance(50).then(|| SignalId::new(self.one_of(&["s1", "s2", "s3"])).unwrap());
        let name = self.name_of(&["go", "stop"]);
        SendSignal {
            workspace,
            run,
            name,
            payload: json(self.one_of(&INPUTS)),
            id,
            note: None,
            grant: self.maybe_grant(),
        }
    }

    pub(super) fn name_of(&mut self, choices: &[&'static str]) -> Name {
        name(self.one_of(choices))
    }

    /// Usually an existing promise, sometimes a deleted one or one that never exists.
    async fn promise(&mut self, model: &dyn Store) -> (WorkspaceId, PromiseId) {
        for _ in 0..6 {
            let Some(head) = self.rng.choice(&self.known).cloned() else { break };
            let workspace = head.facts.workspace.clone();
            if self.chance(10) {
                let step = StepId::from_stored(self.one_of(&PROMISES));
                return (workspace, PromiseId::for_step(head.id(), head.generation, &step));
            }
            let log = model.find_log(&workspace, head.id()).await.unwrap();
            let promises = log.map(|log| log.promises).unwrap_or_default();
            if let Some(promise) = self.rng.choice(&promises) {
                return (workspace, promise.id.clone());
            }
        }
        (WorkspaceId::default(), PromiseId::from_stored("nothing"))
    }

    async fn settle(&mut self, model: &dyn Store) -> SettlePromise {
        let (workspace, id) = self.promise(model).await;
        let settlement = match self.rng.u32(..4) {
            0 if self.chance(30) => Settlement::Cancelled(Failure::permanent("called off")),
            0 => Settlement::Rejected(Failure::permanent("declined").with_code("no")),
            1 => Settlement::Resolved(json(r#"{ "item" : 1.0 }"#)),
            _ => Settlement::Resolved(json(self.one_of(&INPUTS))),
        };
        let (_, run) = self.run();
        let note = self.maybe_note(&workspace, run, model.now());
        let promise = match self.rng.u32(..10) {
            0..4 => PromiseRef::Key(self.promise_key()),
            4 => PromiseRef::Id(PromiseId::from_stored(self.one_of(&ALONE))),
            _ => PromiseRef::Id(id),
        };
        let rule = match self.rng.u32(..5) {
            0 => SettleRule::SameKey { key: None, strict: false },
            1 => SettleRule::SameKey { key: Some(self.key()), strict: self.chance(50) },
            _ => SettleRule::SameValue,
        };
        let said = self.chance(20).then(|| json(r#"{"headers":{},"data":"x"}"#));
        let keep_for = self.one_of(&[None, Some(1_000), Some(100_000), Some(100_000)]);
        SettlePromise {
            workspace,
            promise,
            wish: SettleRequest { settlement, rule, said },
            keep_for: keep_for.map(Duration::from_millis),
            note,
            grant: self.maybe_grant(),
        }
    }

    /// A business key, one of a few, so that promises collide.
    pub(super) fn promise_key(&mut self) -> IdempotencyKey {
        IdempotencyKey::new(self.one_of(&["stripe:1", "stripe:2", "stripe:3", "stripe:4"])).unwrap()
    }

    fn any_key(&mut self) -> (KeyKind, IdempotencyKey) {
        match self.chance(50) {
            true => (KeyKind::Run, self.key()),
            false => (KeyKind::Promise, self.promise_key()),
        }
    }

    fn purge(&mut self, now: Timestamp) -> Purge {
        let back = self.one_of(&[0, 1_000, 100_000, 1_000_000]);
        let before = Timestamp::from_millis(now.as_millis() - back);
        let after = self.rng.choice(&self.known).map(RunHead::id);
        Purge {
            runs_closed_before: self.chance(80).then_some(before),
            after: after.filter(|_| self.chance(30)),
            limit: self.one_of(&[1, 2, 5, 100, 100, 100]),
        }
    }

    async fn read(&mut self, model: &dyn Store) -> Request {
        let (workspace, run) = self.run();
        match self.rng.u32(..7) {
            0 => Request::FindRun(workspace, run),
            1 => Request::FindLog(workspace, run),
            2 => Request::ListEvents(workspace, run, Version::new(self.rng.u64(..12))),
            3 => {
                let (kind, key) = self.any_key();
                Request::FindKey(workspace, kind, key)
            }
            4 => {
                let (kind, key) = self.any_key();
                let after = StoredKey { workspace, kind, key };
                Request::ListKeys(self.chance(70).then_some(after))
            }
            5 => {
                let (workspace, id) = self.promise(model).await;
                Request::FindPromise(workspace, id)
            }
            _ => {
                let status = RunStatus::ALL[self.rng.usize(..RunStatus::ALL.len())];
                let workspace = self.chance(60).then_some(workspace);
                let filter = match workspace.is_some() && self.chance(60) {
                    true => self.run_filter(),
                    false => RunFilter::default(),
                };
                Request::ListRuns(ListRuns {
                    workspace,
                    statuses: if self.chance(40) { vec![status, RunStatus::Waiting] } else { Vec::new() },
                    workflow: self.chance(30).then(|| self.name_of(&["order", "refund"])),
                    filter,
                    before: self.chance(30).then_some(run),
                    limit: self.rng.usize(1..8),
                })
            }
        }
    }
}

pub(super) fn workflows() -> [WorkflowRef; 3] {
    [workflow("order", 1), workflow("order", 2), workflow("refund", 1)]
}

fn grant_to(owner: OwnerId, serves: &[WorkflowRef]) -> Grant {
    Grant { owner, lease_for: LEASE, serves: Arc::new(serves.iter().cloned().collect()) }
}
