//! Entries of the journal as rows.

use std::sync::Arc;

use hapax_engine::model::{
    Actor, EffectKey, EffectTally, Evidence, Fence, Generation, JournalEntry, StepId, TallyCount, WorkspaceId,
};
use hapax_engine::store::StoredJournalEntry;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::codes::{Code, count, millis};
use crate::fault::Fault;
use crate::interned_names::{InternedNames, WorkspaceRowId};
use crate::operations::actor;
use crate::pools::HeldConnection;
use crate::read::query;
use crate::rows::{self, Columns, broken, owner_uuid, uuid};
use crate::session::{Session, params};

/// Entries, each column a list with one entry per row.
#[derive(Debug, Default)]
pub(crate) struct JournalColumns {
    workspace: Vec<i32>,
    run: Vec<Uuid>,
    generation: Vec<i32>,
    step: Vec<Option<String>>,
    at: Vec<i64>,
    fence: Vec<i64>,
    owner: Vec<Option<Uuid>>,
    actor: Vec<Option<String>>,
    role: Vec<Option<i16>>,
    origin: Vec<Option<String>>,
    body: Vec<String>,
    effect: Vec<Option<String>>,
    effect_class: Vec<Option<i16>>,
    attempt: Vec<Option<i32>>,
    occurrence: Vec<Option<i16>>,
    is_rerun: Vec<bool>,
}

impl JournalColumns {
    pub(crate) fn push(&mut self, workspace: WorkspaceRowId, note: &JournalEntry) -> Result<(), Fault> {
        let body = serde_json::to_string(&note.what)
            .map_err(|error| Fault::Broken(format!("an entry of the journal cannot be kept: {error}")))?;
        self.workspace.push(workspace.0);
        self.run.push(uuid(note.run));
        self.generation.push(note.generation.get().cast_signed());
        self.step.push(note.step.as_ref().map(|step| step.as_str().to_owned()));
        self.at.push(millis(note.at));
        self.fence.push(count(note.fence.get()));
        self.owner.push(note.owner.map(owner_uuid));
        self.actor.push(note.by.as_ref().map(|by| by.name.clone()));
        self.role.push(note.by.as_ref().map(|by| by.role.code()));
        self.origin.push(origin_text(note.by.as_ref())?);
        self.body.push(body);
        let evidence = note.evidence.as_ref();
        self.effect.push(evidence.map(|evidence| evidence.effect.to_string()));
        self.effect_class.push(evidence.map(|evidence| evidence.class.code()));
        self.attempt.push(evidence.map(signed_attempt));
        self.occurrence.push(evidence.map(|evidence| evidence.occurrence.code()));
        self.is_rerun.push(note.is_superseded_record());
        Ok(())
    }

    /// In the order of the statements.
    pub(crate) fn params(&self) -> [&(dyn ToSql + Sync); 16] {
        [
            &self.workspace,
            &self.run,
            &self.generation,
            &self.step,
            &self.at,
            &self.fence,
            &self.owner,
            &self.actor,
            &self.role,
            &self.origin,
            &self.body,
            &self.effect,
            &self.effect_class,
            &self.attempt,
            &self.occurrence,
            &self.is_rerun,
        ]
    }
}

/// The attempt of the evidence; negative if the effect was found by its key.
fn signed_attempt(evidence: &Evidence) -> i32 {
    let attempt = evidence.attempt.cast_signed();
    if evidence.by_key { -attempt } else { attempt }
}

/// Highest written attempt number under an effect key.
pub(crate) async fn find_last_try(
    session: &mut Session<'_>,
    workspace: WorkspaceRowId,
    effect: &EffectKey,
) -> Result<u32, Fault> {
    let of_effect = params![workspace.0, effect.to_string()];
    let found = session.query(include_str!("../sql/find_last_try.sql"), of_effect).await?;
    let last = rows::at_most_one(&found, |mut row| row.small())?;
    Ok(last.unwrap_or(0))
}

/// Appends entries, in their order.
pub(crate) async fn insert_notes(session: &mut Session<'_>, notes: &[JournalEntry]) -> Result<(), Fault> {
    if notes.is_empty() {
        return Ok(());
    }
    let mut columns = JournalColumns::default();
    for note in notes {
        columns.push(session.get_workspace(&note.workspace).await?, note)?;
    }
    let JournalColumns {
        workspace, run, generation, step, at, fence, owner, actor, role, origin, body, ..
    } = columns;
    let JournalColumns { effect, effect_class, attempt, occurrence, is_rerun, .. } = columns;
    let entries = params![
        workspace,
        run,
        generation,
        step,
        at,
        fence,
        owner,
        actor,
        role,
        origin,
        body,
        effect,
        effect_class,
        attempt,
        occurrence,
        is_rerun
    ];
    session.keep_back(include_str!("../sql/insert_notes.sql"), entries);
    Ok(())
}

/// A row of the journal of `workspace`.
pub(crate) fn note(workspace: &WorkspaceId, mut row: Columns<'_>) -> Result<StoredJournalEntry, Fault> {
    let place = row.count()?;
    let run = row.run()?;
    let generation = Generation::new(row.small()?);
    let step = row.maybe_text()?.map(StepId::from_stored);
    let at = row.at()?;
    let fence = Fence::new(row.count()?);
    let owner = row.maybe_owner()?;
    let by = person(&mut row)?;
    let what = serde_json::from_str(row.text()?).map_err(broken)?;
    let evidence = evidence(&mut row)?;
    let workspace = workspace.clone();
    let note = JournalEntry { workspace, run, generation, step, at, fence, owner, by, what, evidence };
    Ok(StoredJournalEntry { place, note })
}

/// Origin of a person's action, as JSON.
pub(crate) fn origin_text(by: Option<&Actor>) -> Result<Option<String>, Fault> {
    let origin = by.and_then(|by| by.origin.as_ref()).map(serde_json::to_string).transpose();
    origin.map_err(|error| Fault::Broken(format!("an entry of the journal cannot be kept: {error}")))
}

/// A person's name, role and origin.
pub(crate) fn person(row: &mut Columns<'_>) -> Result<Option<Actor>, Fault> {
    let by = actor(row)?;
    let origin = row.maybe_text()?.map(serde_json::from_str).transpose().map_err(broken)?;
    Ok(by.map(|by| Actor { origin, ..by }))
}

fn evidence(row: &mut Columns<'_>) -> Result<Option<Evidence>, Fault> {
    let effect = row.maybe_text()?.map(EffectKey::from_stored);
    let (class, attempt, occurrence) =
        (row.get::<Option<i16>>()?, row.get::<Option<i32>>()?, row.get::<Option<i16>>()?);
    Ok(match (effect, class, attempt, occurrence) {
        (Some(effect), Some(class), Some(attempt), Some(occurrence)) => Some(Evidence {
            effect,
            class: Code::from_code(class)?,
            attempt: attempt.unsigned_abs(),
            by_key: attempt < 0,
            occurrence: Code::from_code(occurrence)?,
        }),
        _ => None,
    })
}

/// Effects that happened more than once, or may have.
pub(crate) async fn count_tallies(
    held: Arc<HeldConnection>,
    interned_names: Arc<InternedNames>,
    workspace: Option<WorkspaceId>,
) -> Result<Vec<TallyCount>, Fault> {
    let workspace = match &workspace {
        None => None,
        Some(name) => match interned_names.find_workspace(held.link(), name).await? {
            Some(number) => Some(number.0),
            None => return Ok(Vec::new()),
        },
    };
    let found = query(&held, include_str!("../sql/count_tallies.sql"), &[&workspace]).await?;
    rows::collect(&found, |mut row| {
        let class = Code::from_code(row.get::<i16>()?)?;
        let mut times = || row.count().map(|times| u32::try_from(times).unwrap_or(u32::MAX));
        let tally = EffectTally { happened: times()?, may_have_happened: times()? };
        Ok(TallyCount { class, tally, effects: row.count()? })
    })
}
