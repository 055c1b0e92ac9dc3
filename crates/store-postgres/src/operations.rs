//! Operations as rows.

use std::time::Duration;

use hapax_engine::model::{
    Actor, ClaimTo, EntityId, EntityRef, EntityStorage, Fingerprint, Name, Operation, OperationId,
    OperationState, OperationStatus, Payload, Recovery, TableRef, Version, WorkspaceId,
};
use uuid::Uuid;

use crate::codes::{Code, count, millis};
use crate::fault::Fault;
use crate::interned_names::WorkspaceRowId;
use crate::rows::{self, Columns, broken, failure_text, owner_uuid};
use crate::session::{Params, params};

/// An operation's id as stored; it sorts like the id.
pub(crate) fn operation_uuid(operation: OperationId) -> Uuid {
    Uuid::from_u128(operation.as_u128())
}

/// Operations, each column a list with one entry per row.
#[derive(Debug, Default)]
pub(crate) struct OperationColumns {
    workspace: Vec<i32>,
    id: Vec<Uuid>,
    kind: Vec<String>,
    entity: Vec<String>,
    home: Vec<Option<String>>,
    workflow: Vec<String>,
    module: Vec<String>,
    step: Vec<String>,
    requester: Vec<Option<String>>,
    actor: Vec<Option<String>>,
    role: Vec<Option<i16>>,
    key: Vec<Option<String>>,
    fingerprint: Vec<Vec<u8>>,
    input: Vec<String>,
    from_status: Vec<String>,
    to_status: Vec<String>,
    claim_into: Vec<Option<String>>,
    revert_to: Vec<Option<String>>,
    recovery: Vec<i16>,
    irreversible: Vec<bool>,
    document: Vec<Option<i64>>,
    effect_of: Vec<Option<Uuid>>,
    may_repeat: Vec<bool>,
    done_before: Vec<bool>,
    grace: Vec<i64>,
    tries: Vec<i32>,
    tries_before: Vec<i32>,
    settled: Vec<bool>,
    has_run: Vec<bool>,
    version: Vec<i64>,
    attempt: Vec<i32>,
    owner: Vec<Uuid>,
    began_at: Vec<i64>,
    status: Vec<i16>,
    at: Vec<i64>,
    outcome: Vec<Option<String>>,
}

impl OperationColumns {
    pub(crate) fn push(&mut self, workspace: WorkspaceRowId, operation: &Operation) -> Result<(), Fault> {
        let text = |name: &Name| name.as_str().to_owned();
        let home = operation.home.table().map(serde_json::to_string).transpose();
        let home = home.map_err(|error| Fault::Refused(format!("a table cannot be kept: {error}")))?;
        let outcome = outcome_text(&operation.state)?;
        self.workspace.push(workspace.0);
        self.id.push(operation_uuid(operation.id));
        self.kind.push(text(&operation.entity.kind));
        self.entity.push(operation.entity.id.as_str().to_owned());
        self.home.push(home);
        self.workflow.push(text(&operation.workflow));
        self.module.push(text(&operation.module));
        self.step.push(text(&operation.step));
        self.requester.push(operation.requester.as_ref().map(text));
        self.actor.push(operation.by.as_ref().map(|by| by.name.clone()));
        self.role.push(operation.by.as_ref().map(|by| by.role.code()));
        self.key.push(operation.key.as_ref().map(|key| key.as_str().to_owned()));
        self.fingerprint.push(operation.fingerprint.as_bytes().to_vec());
        self.input.push(operation.input.as_str().to_owned());
        self.from_status.push(text(&operation.from));
        self.to_status.push(text(&operation.to));
        self.claim_into.push(operation.claim.as_ref().map(|claim| text(&claim.into)));
        self.revert_to.push(operation.claim.as_ref().map(|claim| text(&claim.revert_to)));
        self.recovery.push(operation.recovery.code());
        self.irreversible.push(operation.irreversible);
        self.document.push(operation.document.map(|document| count(document.get())));
        let is_continued = operation.effect_of != operation.id;
        self.effect_of.push(is_continued.then(|| operation_uuid(operation.effect_of)));
        self.may_repeat.push(operation.may_repeat);
        self.done_before.push(operation.done_before);
        self.grace.push(i64::try_from(operation.grace.as_millis()).unwrap_or(i64::MAX));
        self.tries.push(operation.tries.cast_signed());
        self.tries_before.push(operation.tries_before.cast_signed());
        self.settled.push(matches!(operation.state, OperationState::Reverted { settled: true, .. }));
        self.has_run.push(operation.run.is_some());
        self.version.push(count(operation.version.get()));
        self.attempt.push(operation.attempt.cast_signed());
        self.owner.push(owner_uuid(operation.owner));
        self.began_at.push(millis(operation.began_at));
        self.status.push(operation.state.status().code());
        self.at.push(millis(operation.state.at()));
        self.outcome.push(outcome);
        Ok(())
    }

    pub(crate) fn len(&self) -> usize {
        self.id.len()
    }

    /// All columns, in the order of the statements.
    pub(crate) fn into_params(self) -> Params {
        let OperationColumns { workspace, id, kind, entity, home, workflow, module, step, .. } = self;
        let OperationColumns { requester, actor, role, key, fingerprint, input, .. } = self;
        let OperationColumns { from_status, to_status, claim_into, revert_to, recovery, .. } = self;
        let OperationColumns { irreversible, has_run, version, attempt, owner, began_at, .. } = self;
        let OperationColumns { document, effect_of, may_repeat, done_before, grace, .. } = self;
        let OperationColumns { tries, tries_before, settled, status, at, outcome, .. } = self;
        params![
            workspace,
            id,
            kind,
            entity,
            home,
            workflow,
            module,
            step,
            requester,
            actor,
            role,
            key,
            fingerprint,
            input,
            from_status,
            to_status,
            claim_into,
            revert_to,
            recovery,
            irreversible,
            document,
            effect_of,
            may_repeat,
            done_before,
            grace,
            tries,
            tries_before,
            settled,
            has_run,
            version,
            attempt,
            owner,
            began_at,
            status,
            at,
            outcome,
        ]
    }

    /// Only the columns that end it.
    pub(crate) fn into_ends(self) -> Params {
        params![
            self.id.len() as i64,
            self.workspace,
            self.id,
            self.status,
            self.at,
            self.outcome,
            self.tries,
            self.settled,
            self.tries_before,
        ]
    }
}

/// The result, or the failure.
fn outcome_text(state: &OperationState) -> Result<Option<String>, Fault> {
    Ok(match state {
        OperationState::Done { result, .. } => Some(result.as_str().to_owned()),
        OperationState::Rejected { failure, .. } | OperationState::Failed { failure, .. } => {
            Some(failure_text(failure)?)
        }
        OperationState::Pending { .. } | OperationState::Reverted { .. } | OperationState::InDoubt { .. } => {
            None
        }
    })
}

/// An operation of `workspace`, from the current column on.
pub(crate) fn operation(workspace: WorkspaceId, row: &mut Columns<'_>) -> Result<Operation, Fault> {
    let name = |what, text: &str| Name::new(what, text).map_err(broken);
    let id = operation_id(row)?;
    let kind = name("kind", row.text()?)?;
    let entity = EntityRef { kind, id: EntityId::new(row.text()?).map_err(broken)? };
    let home = home(row)?;
    let workflow = name("workflow", row.text()?)?;
    let module = name("module", row.text()?)?;
    let step = name("step", row.text()?)?;
    let requester = row.maybe_text()?.map(|text| name("requester", text)).transpose()?;
    let by = actor(row)?;
    let key = row.maybe_key()?;
    let fingerprint = row.get::<&[u8]>()?.try_into().map(Fingerprint::from_bytes).map_err(broken)?;
    let input = Payload::from_stored(row.text()?);
    let from = name("status", row.text()?)?;
    let to = name("status", row.text()?)?;
    let claim = match (row.maybe_text()?, row.maybe_text()?) {
        (Some(into), Some(revert_to)) => {
            Some(ClaimTo { into: name("status", into)?, revert_to: name("status", revert_to)? })
        }
        _ => None,
    };
    let recovery: Recovery = row.code()?;
    let irreversible = row.get()?;
    let document = row.get::<Option<i64>>()?.map(|version| Version::new(version.unsigned_abs()));
    let effect_of = row.get::<Option<Uuid>>()?;
    let effect_of = effect_of.map_or(id, |effect_of| OperationId::from_u128(effect_of.as_u128()));
    let may_repeat = row.get()?;
    let done_before = row.get()?;
    let grace = Duration::from_millis(row.count()?);
    let tries = row.small()?;
    let tries_before = row.small()?;
    let settled = row.get()?;
    let run = row.get::<bool>()?.then(|| id.as_run());
    let version = Version::new(row.count()?);
    let attempt = row.small()?;
    let owner = row.maybe_owner()?.ok_or_else(|| broken("an operation that nobody began"))?;
    let began_at = row.at()?;
    let status: OperationStatus = row.code()?;
    let at = row.at()?;
    let state = state(status, at, row.maybe_text()?, settled)?;
    Ok(Operation {
        id,
        workspace,
        entity,
        home,
        workflow,
        module,
        step,
        requester,
        by,
        key,
        fingerprint,
        input,
        from,
        to,
        claim,
        recovery,
        irreversible,
        document,
        effect_of,
        may_repeat,
        done_before,
        grace,
        tries,
        tries_before,
        run,
        version,
        attempt,
        owner,
        began_at,
        state,
    })
}

fn state(
    status: OperationStatus,
    at: hapax_engine::model::Timestamp,
    outcome: Option<&str>,
    settled: bool,
) -> Result<OperationState, Fault> {
    Ok(match (status, outcome) {
        (OperationStatus::Pending, None) => OperationState::Pending { heard_at: at },
        (OperationStatus::Done, Some(result)) => {
            OperationState::Done { at, result: Payload::from_stored(result) }
        }
        (OperationStatus::Rejected, Some(failure)) => {
            OperationState::Rejected { at, failure: rows::failure(failure)? }
        }
        (OperationStatus::Failed, Some(failure)) => {
            OperationState::Failed { at, failure: rows::failure(failure)? }
        }
        (OperationStatus::Reverted, None) => OperationState::Reverted { at, settled },
        (OperationStatus::InDoubt, None) => OperationState::InDoubt { since: at },
        (status, _) => {
            return Err(broken(format!("an operation that is {} and {outcome:?}", status.as_str())));
        }
    })
}

pub(crate) fn operation_id(row: &mut Columns<'_>) -> Result<OperationId, Fault> {
    Ok(OperationId::from_u128(row.get::<Uuid>()?.as_u128()))
}

/// Storage of an entity.
pub(crate) fn home(row: &mut Columns<'_>) -> Result<EntityStorage, Fault> {
    let table = row.maybe_text()?.map(serde_json::from_str::<TableRef>).transpose().map_err(broken)?;
    Ok(table.map_or(EntityStorage::BuiltIn, EntityStorage::UserTable))
}

/// The person who did it, if there is one.
pub(crate) fn actor(row: &mut Columns<'_>) -> Result<Option<Actor>, Fault> {
    Ok(match (row.get::<Option<String>>()?, row.get::<Option<i16>>()?) {
        (Some(name), Some(role)) => Some(Actor::new(name, Code::from_code(role)?)),
        _ => None,
    })
}
