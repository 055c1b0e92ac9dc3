//! The janitor of a module: frees what a crash left claimed, or shows it to people; a little at a time, safe beside others.

use std::sync::Arc;
use std::time::Duration;

use super::acting::{carry_out, end_of_run, finish, finishing};
use super::held::hear_of_all;
use super::probing;
use super::registry::Janitor;
use crate::limits::{MAX_PAGE, MAX_SPAN, MAX_STALE_CLAIMS, MIN_LEASE};
use crate::model::{
    Action, EntityJournalEntry, EntityStorage, FinishBy, FinishOperation, FinishOperationOutcome, Invalid,
    JournalEvent, Name, Operation, OperationEnd, Recovery, RevertRule, StepView, Timestamp, UncoveredClaim,
    WorkspaceId,
};
use crate::runtime::inner::{Inner, Phase};
use crate::runtime::stats::Counters;
use crate::runtime::{Engine, Error};
use crate::store::{OpenClaim, RevertStrays};

/// One module of the program, which owns entity workflows.
#[must_use = "a module without a janitor covers nothing"]
#[derive(Debug)]
pub struct Module {
    engine: Engine,
    name: String,
}

/// What a look of a janitor came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Freed {
    /// Claims that were given back.
    pub reverted: usize,
    /// Operations that were left to people.
    pub held: usize,
    /// Operations that a run carries out, whose runs are followed here from now on.
    pub followed: usize,
    /// Operations in doubt that a probe settled.
    pub settled: usize,
    /// Rows in tables of the user's that were in a transient status although nothing held them.
    pub strays: usize,
}

impl Engine {
    /// The module of that name.
    pub fn module(&self, name: &str) -> Module {
        Module { engine: self.clone(), name: name.into() }
    }

    /// Refuses to go on if some transient status would be freed by nobody after a crash: one that a workflow declares, or one that an operation holds now, begun
    /// under an earlier workflow. Names every workflow with its module. Call it when all workflows and modules are registered.
    pub async fn check_coverage(&self) -> Result<(), Error> {
        let mut uncovered = self.inner.entities.list_uncovered();
        if let Ok(book) = self.entity_store() {
            let modules = self.modules();
            let open = self.inner.answer(book.list_open_claims(MAX_PAGE)).await?;
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

    /// The modules whose janitors run here.
    pub fn modules(&self) -> std::collections::BTreeSet<Name> {
        self.inner.entities.modules()
    }

    /// Has the janitor of a module look now, without waiting for its time.
    pub async fn free_stale_claims(&self, module: &str) -> Result<Freed, Error> {
        let module = Name::new("module", module)?;
        let missing = || Error::Options(format!("module {module} has no janitor here; give it one first"));
        let janitor = self.inner.entities.find_janitor(&module).ok_or_else(missing)?;
        look(self, &module, janitor).await
    }
}

impl Module {
    /// Gives the module a janitor that looks every so often, and counts a claim as left behind when nothing was heard of its holder for so long.
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
        // Not kept alive by its own janitor: that ends with the engine.
        tokio::spawn(work(Arc::downgrade(inner), self.engine.detached(), name, janitor));
        Ok(())
    }
}

async fn work(
    inner: std::sync::Weak<Inner>,
    engine: impl Fn() -> Option<Engine>,
    module: Name,
    janitor: Janitor,
) {
    loop {
        let Some(shared) = inner.upgrade() else { return };
        if shared.phase() != Phase::Running {
            return;
        }
        // From the beginning of the look, so that one that takes long does not put off the next.
        let next = shared.clock.now().plus(janitor.every);
        if let Some(engine) = engine() {
            match look(&engine, &module, janitor).await {
                Ok(Freed { reverted: 0, held: 0, followed: 0, settled: 0, strays: 0 }) => {}
                Ok(freed) => tracing::warn!(%module, ?freed, "claims were left behind"),
                Err(error) => tracing::warn!(%module, %error, "the janitor could not look; trying again"),
            }
        }
        drop(shared);
        if !wait_until(&inner, next).await {
            return;
        }
    }
}

/// Waits for the next look; false if the engine stops before. Much changes all the time, which is no reason to look.
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

async fn look(engine: &Engine, module: &Name, janitor: Janitor) -> Result<Freed, Error> {
    let inner = &engine.inner;
    let book = engine.entity_store()?;
    // What lives here must not be taken for dead because both of us slept.
    hear_of_all(inner).await;
    let unheard_since = inner.store.now().minus(janitor.stale_after);
    let mut freed = Freed::default();
    let stale = inner.answer(book.list_stale_operations(module, unheard_since, MAX_STALE_CLAIMS)).await?;
    for operation in stale {
        let speaking = engine.workspace(operation.workspace.clone());
        if operation.run.is_some() {
            freed.followed += usize::from(follow(&speaking, operation).await?);
            continue;
        }
        // What its holder has sent may take effect for a while after the holder's own deadline.
        let unheard_since = inner.store.now().minus(janitor.stale_after.max(operation.grace));
        if operation.state.at() >= unheard_since {
            continue;
        }
        // What shares the transaction of its record has not happened if there is no record.
        let has_effect = operation.tries > 0;
        let holds = has_effect && operation.recovery == Recovery::Hold && operation.claim.is_some();
        let request = free(&operation, holds, FinishBy::Janitor { unheard_since }, inner.store.now());
        match finish(&speaking, request).await? {
            FinishOperationOutcome::Finished { operation, .. } if holds => {
                Counters::add(&inner.counters.doubts);
                freed.held += 1;
                tracing::warn!(key = %operation.effect_key(), operation = %operation.id, "effect in doubt: its holder vanished");
                probing::ask_in_time(&speaking, &operation);
            }
            FinishOperationOutcome::Finished { operation, .. } => {
                Counters::add(&inner.counters.janitor_releases);
                freed.reverted += 1;
                tracing::warn!(key = %operation.effect_key(), operation = %operation.id, "the claim of a vanished holder was given back");
            }
            // It was heard of after all, or another janitor was faster.
            FinishOperationOutcome::Again(_)
            | FinishOperationOutcome::Lost(_)
            | FinishOperationOutcome::Stale(_) => {}
        }
    }
    freed.settled = probing::ask_about_all(engine, module).await?;
    for (workspace, registered) in inner.entities.of_module(module) {
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
            let strays = inner.answer(book.revert_strays(request)).await?.len();
            Counters::add_many(&inner.counters.janitor_releases, strays as u64);
            freed.strays += strays;
        }
    }
    Ok(freed)
}

fn free(operation: &Operation, holds: bool, by: FinishBy, now: Timestamp) -> FinishOperation {
    let (attempt, last_heard_at) = (operation.attempt, operation.state.at().to_string());
    let status = operation.claim.as_ref().map(|claim| claim.revert_to.to_string());
    let (end, what) = match holds {
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

/// A run carries it out, and it is the run that says how it ends: follow it, and start it should the one who began have died before that.
async fn follow(engine: &Engine, operation: Operation) -> Result<bool, Error> {
    let inner = &engine.inner;
    let registered = inner.entities.find(&operation.workspace, &operation.entity.kind);
    // What has begun goes on by the document it began under, or not at all.
    let as_begun = registered.filter(|registered| registered.is_of(&operation)).and_then(|registered| {
        let view = registered.view_of(&operation)?;
        matches!(view.action, Some(Action::Workflow(_))).then_some((registered, view))
    });
    let Some((registered, view)) = as_begun else { return end_with_run(engine, &operation).await };
    let book = engine.entity_store()?;
    let found =
        inner.answer(book.find_entity(&operation.workspace, &operation.entity, &operation.home)).await?;
    let Some(entity) = found else { return end_with_run(engine, &operation).await };
    let since = inner.clock.monotonic();
    let following = engine.clone();
    tokio::spawn(async move {
        let id = operation.id;
        if let Err(error) = carry_out(following, registered, view, operation, entity, since).await {
            tracing::warn!(operation = %id, %error, "the run of an operation could not be followed");
        }
    });
    // So that it is not among the stale ones for a while.
    hear_of_all(inner).await;
    Ok(true)
}

/// The workflow no longer says how it was begun, so nothing is started for it; but what its run has come to still counts.
async fn end_with_run(engine: &Engine, operation: &Operation) -> Result<bool, Error> {
    let end = match engine.get(operation.id.as_run()).await {
        Ok(view) => match view.result {
            Some(result) => end_of_run(result),
            None => return Ok(false),
        },
        // It was never started, and by this workflow it will not be.
        Err(Error::NoSuchRun(_)) => OperationEnd::DidNotHappen,
        Err(error) => return Err(error),
    };
    let request = finishing(operation, None, FinishBy::Run, end, engine.inner.store.now());
    let _ = finish(engine, request).await?;
    Ok(false)
}

/// What people decide about an operation in doubt.
pub(super) fn decided(
    operation: &Operation,
    view: Option<&StepView>,
    end: OperationEnd,
    note: EntityJournalEntry,
) -> FinishOperation {
    let at = note.at;
    FinishOperation { notes: vec![note], ..finishing(operation, view, FinishBy::People, end, at) }
}
