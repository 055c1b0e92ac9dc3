//! The janitor of a module: releases claims that a crash left behind, or reports them to people. It works in
//! small batches and runs safely beside other janitors.

use std::sync::Arc;
use std::time::Duration;

use super::execution::{execute_action, finish, finish_request, operation_end_of_run};
use super::heartbeats::heartbeat_all;
use super::probing;
use super::registry::Janitor;
use crate::limits::{MAX_PAGE, MAX_SPAN, MAX_STALE_CLAIMS, MIN_LEASE};
use crate::model::{
    Action, EntityJournalEntry, EntityStorage, FinishBy, FinishOperation, FinishOperationOutcome, Invalid,
    JournalEvent, Name, Operation, OperationEnd, Recovery, RevertRule, StepView, Timestamp, UncoveredClaim,
    WorkspaceId,
};
use crate::runtime::background::LoopReporter;
use crate::runtime::inner::{Inner, Phase};
use crate::runtime::stats::Counters;
use crate::runtime::{Engine, Error};
use crate::store::{OpenClaim, RevertStrays};

/// Module of the program that owns entity workflows.
#[must_use = "a module without a janitor covers nothing"]
#[derive(Debug)]
pub struct Module {
    engine: Engine,
    name: String,
}

/// Result of one janitor pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JanitorReport {
    /// Claims that were released.
    pub reverted: usize,
    /// Operations that need a ruling.
    pub held: usize,
    /// Operations carried out by a run that is followed here from now on.
    pub followed: usize,
    /// Operations in doubt that a probe resolved.
    pub settled: usize,
    /// Rows in the user's tables that were in a transient status without a holder.
    pub strays: usize,
}

impl Engine {
    /// Returns the module of that name.
    pub fn module(&self, name: &str) -> Module {
        Module { engine: self.clone(), name: name.into() }
    }

    /// Fails if no janitor would release some transient status after a crash: one that a workflow declares,
    /// or one that an open operation of an earlier workflow holds. The error names each workflow and its
    /// module.
    ///
    /// Call it after all workflows and modules are registered.
    pub async fn check_coverage(&self) -> Result<(), Error> {
        let mut uncovered = self.inner.entities.list_uncovered();
        if let Ok(store) = self.entity_store() {
            let modules = self.modules();
            let open = self.inner.call_store(store.list_open_claims(None, MAX_PAGE)).await?;
            for OpenClaim { module, workflow, claim_into } in open {
                let claim = UncoveredClaim { workflow, module, claim_into, is_open: true };
                if !modules.contains(&claim.module) {
                    uncovered.push(claim);
                }
            }
        }
        match uncovered.is_empty() {
            true => Ok(()),
            false => Err(Error::UncoveredClaims(uncovered)),
        }
    }

    /// Modules whose janitors run here.
    pub fn modules(&self) -> std::collections::BTreeSet<Name> {
        self.inner.entities.modules()
    }

    /// How the janitor of a module works here: its interval, and the silence after which it treats a holder as gone.
    pub fn find_janitor(&self, module: &Name) -> Option<(Duration, Duration)> {
        let janitor = self.inner.entities.find_janitor(module)?;
        Some((janitor.every, janitor.stale_after))
    }

    /// Runs one janitor pass for a module now.
    pub async fn free_stale_claims(&self, module: &str) -> Result<JanitorReport, Error> {
        let module = Name::new("module", module)?;
        let missing = || Error::Options(format!("module {module} has no janitor here; give it one first"));
        let janitor = self.inner.entities.find_janitor(&module).ok_or_else(missing)?;
        run_pass(self, &module, janitor).await
    }
}

impl Module {
    /// Starts the module's janitor. It runs at this interval and treats a claim as stale when its holder sent
    /// no heartbeat for `stale_after`.
    pub fn janitor(self, every: Duration, stale_after: Duration) -> Result<(), Error> {
        let name = Name::new("module", &self.name)?;
        for (what, given) in [("pause of a janitor", every), ("patience of a janitor", stale_after)] {
            if given > MAX_SPAN {
                return Err(Invalid::Span { what, given }.into());
            }
            if given < MIN_LEASE {
                return Err(Error::Options(format!("the {what} is at least {MIN_LEASE:?}; it is {given:?}")));
            }
        }
        let janitor = Janitor { every, stale_after };
        let inner = &self.engine.inner;
        inner.entities.add_janitor(name.clone(), janitor)?;
        // The janitor does not keep the engine alive; it ends with the engine.
        let (weak, engine) = (Arc::downgrade(inner), Arc::new(self.engine.detached()));
        inner.loops.spawn(format!("janitor of {name}"), move |reporter| {
            janitor_loop(weak.clone(), engine.clone(), name.clone(), janitor, reporter)
        });
        Ok(())
    }
}

async fn janitor_loop(
    inner: std::sync::Weak<Inner>,
    engine: Arc<impl Fn() -> Option<Engine>>,
    module: Name,
    janitor: Janitor,
    reporter: LoopReporter,
) {
    loop {
        let Some(shared) = inner.upgrade() else { return };
        if shared.phase() != Phase::Running {
            return;
        }
        // Counted from the start of the pass, so that a slow pass does not delay the next.
        let next = shared.clock.now().plus(janitor.every);
        if let Some(engine) = engine() {
            match run_pass(&engine, &module, janitor).await {
                Ok(JanitorReport { reverted: 0, held: 0, followed: 0, settled: 0, strays: 0 }) => {}
                Ok(report) => tracing::warn!(%module, ?report, "claims were left behind"),
                Err(error) => tracing::warn!(%module, %error, "the janitor could not look; trying again"),
            }
        }
        drop(shared);
        reporter.pass();
        if !wait_until(&inner, next).await {
            return;
        }
    }
}

/// Waits for the next pass. Returns false if the engine stops first. `changed` fires often and is no reason
/// for a pass.
async fn wait_until(inner: &std::sync::Weak<Inner>, next: Timestamp) -> bool {
    loop {
        let Some(shared) = inner.upgrade() else { return false };
        let changed = shared.changed.notified();
        if shared.phase() != Phase::Running {
            return false;
        }
        tokio::select! {
            biased;
            () = shared.clock.sleep_until(next) => return true,
            () = changed => {}
        }
    }
}

async fn run_pass(engine: &Engine, module: &Name, janitor: Janitor) -> Result<JanitorReport, Error> {
    let inner = &engine.inner;
    let store = engine.entity_store()?;
    // Operations that run here must not look dead because this process was suspended.
    heartbeat_all(inner).await;
    let unheard_since = inner.store.now().minus(janitor.stale_after);
    let mut report = JanitorReport::default();
    let stale =
        inner.call_store(store.list_stale_operations(module, unheard_since, MAX_STALE_CLAIMS)).await?;
    for operation in stale {
        let scoped = engine.workspace(operation.workspace.clone());
        if operation.run.is_some() {
            report.followed += usize::from(follow_run(&scoped, operation).await?);
            continue;
        }
        // A request of the holder may take effect for a while after the holder's own deadline.
        let unheard_since = inner.store.now().minus(janitor.stale_after.max(operation.grace));
        if operation.state.at() >= unheard_since {
            continue;
        }
        // An action that commits together with its record has not happened if there is no record.
        let has_effect = operation.tries > 0;
        let needs_ruling = has_effect && operation.recovery == Recovery::Hold && operation.claim.is_some();
        let request =
            release_request(&operation, needs_ruling, FinishBy::Janitor { unheard_since }, inner.store.now());
        match finish(&scoped, request).await? {
            FinishOperationOutcome::Finished { operation, .. } if needs_ruling => {
                Counters::add(&inner.counters.doubts);
                report.held += 1;
                tracing::warn!(key = %operation.effect_key(), operation = %operation.id, "effect in doubt: its holder vanished");
                probing::schedule_probe(&scoped, &operation);
            }
            FinishOperationOutcome::Finished { operation, .. } => {
                Counters::add(&inner.counters.janitor_releases);
                report.reverted += 1;
                tracing::warn!(key = %operation.effect_key(), operation = %operation.id, "the claim of a vanished holder was given back");
            }
            // A heartbeat arrived after all, or another janitor was faster.
            FinishOperationOutcome::Again(_)
            | FinishOperationOutcome::Lost(_)
            | FinishOperationOutcome::Stale(_) => {}
        }
    }
    report.settled = probing::probe_all(engine, module).await?;
    for (workspace, registered) in inner.entities.list_of_module(module) {
        let workflow = &registered.workflow;
        let EntityStorage::UserTable(table) = &workflow.home else { continue };
        if workflow.revert_rule != RevertRule::OnePerClaim {
            continue;
        }
        for claim in workflow.claims() {
            let request = RevertStrays {
                workspace: workspace.clone().unwrap_or_else(WorkspaceId::default),
                kind: workflow.entity.clone(),
                table: table.clone(),
                claim: claim.clone(),
                before: unheard_since,
                limit: MAX_STALE_CLAIMS,
            };
            let strays = inner.call_store(store.revert_strays(request)).await?.len();
            Counters::add_many(&inner.counters.janitor_releases, strays as u64);
            report.strays += strays;
        }
    }
    Ok(report)
}

fn release_request(
    operation: &Operation,
    needs_ruling: bool,
    by: FinishBy,
    now: Timestamp,
) -> FinishOperation {
    let (attempt, last_heard_at) = (operation.attempt, operation.state.at().to_string());
    let status = operation.claim.as_ref().map(|claim| claim.revert_to.to_string());
    let (end, what) = match needs_ruling {
        true => (OperationEnd::InDoubt, JournalEvent::Held { attempt, last_heard_at }),
        false => {
            let end = match operation.tries {
                0 => OperationEnd::DidNotHappen,
                _ => OperationEnd::Reverted,
            };
            (end, JournalEvent::Reverted { attempt, last_heard_at, status })
        }
    };
    let note = EntityJournalEntry {
        workspace: operation.workspace.clone(),
        entity: operation.entity.clone(),
        operation: Some(operation.id),
        at: now,
        by: None,
        what,
        evidence: None,
    };
    FinishOperation {
        workspace: operation.workspace.clone(),
        operation: operation.id,
        attempt,
        by,
        end,
        tries: None,
        posts: Vec::new(),
        notes: vec![note],
    }
}

/// Follows the run that carries out the operation and starts it if necessary. The run decides how the
/// operation ends.
async fn follow_run(engine: &Engine, operation: Operation) -> Result<bool, Error> {
    let inner = &engine.inner;
    let registered = inner.entities.find(&operation.workspace, &operation.entity.kind);
    // An operation continues only under the document it began with.
    let as_begun = registered.filter(|registered| registered.is_of(&operation)).and_then(|registered| {
        let view = registered.view_of(&operation)?;
        matches!(view.action, Some(Action::Workflow(_))).then_some((registered, view))
    });
    let Some((registered, view)) = as_begun else { return end_with_run(engine, &operation).await };
    let store = engine.entity_store()?;
    let found =
        inner.call_store(store.find_entity(&operation.workspace, &operation.entity, &operation.home)).await?;
    let Some(entity) = found else { return end_with_run(engine, &operation).await };
    let since = inner.clock.monotonic();
    let following = engine.clone();
    tokio::spawn(async move {
        let id = operation.id;
        if let Err(error) = execute_action(following, registered, view, operation, entity, since).await {
            tracing::warn!(operation = %id, %error, "the run of an operation could not be followed");
        }
    });
    // Keeps the operation off the stale list for a while.
    heartbeat_all(inner).await;
    Ok(true)
}

/// Ends an operation whose workflow has changed, with the result of its run. Nothing is started for it.
async fn end_with_run(engine: &Engine, operation: &Operation) -> Result<bool, Error> {
    let end = match engine.get(operation.id.as_run()).await {
        Ok(view) => match view.result {
            Some(result) => operation_end_of_run(result),
            None => return Ok(false),
        },
        // The run was never started, and the current workflow will not start it.
        Err(Error::NoSuchRun(_)) => OperationEnd::DidNotHappen,
        Err(error) => return Err(error),
    };
    let request = finish_request(operation, None, FinishBy::Run, end, engine.inner.store.now());
    let _ = finish(engine, request).await?;
    Ok(false)
}

/// Request that records a person's ruling on an operation in doubt.
pub(super) fn ruling_request(
    operation: &Operation,
    view: Option<&StepView>,
    end: OperationEnd,
    note: EntityJournalEntry,
) -> FinishOperation {
    let at = note.at;
    FinishOperation { notes: vec![note], ..finish_request(operation, view, FinishBy::People, end, at) }
}
