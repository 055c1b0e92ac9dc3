//! Entries of the journal as rows.

use hapax_engine::model::{
    Actor, EffectKey, EffectTally, Evidence, Fence, Generation, JournalEntry, OwnerId, StepId, TallyCount,
    WorkspaceId,
};
use hapax_engine::store::StoredJournalEntry;
use rusqlite::{Connection, params};

use crate::codes::{Code, count, millis};
use crate::fault::Fault;
use crate::operations::actor;
use crate::read::find_workspace;
use crate::rows::{self, Columns, broken, bytes};
use crate::session::{Session, WorkspaceRowId};
use crate::statements::Statements;

/// Appends entries, in their order.
pub(crate) fn insert_notes(session: &mut Session<'_, '_>, notes: &[JournalEntry]) -> Result<(), Fault> {
    for note in notes {
        let workspace = session.number_workspace(&note.workspace)?;
        let body = serde_json::to_string(&note.what)
            .map_err(|error| Fault::Broken(format!("an entry of the journal cannot be kept: {error}")))?;
        session.prepare(include_str!("../sql/insert_note.sql"))?.execute(params![
            workspace.0,
            bytes(note.run),
            note.generation.get(),
            note.step.as_ref().map(StepId::as_str),
            millis(note.at),
            count(note.fence.get()),
            note.owner.map(|owner| owner.as_u128().to_be_bytes()),
            note.by.as_ref().map(|by| by.name.as_str()),
            note.by.as_ref().map(|by| by.role.code()),
            origin_text(note.by.as_ref())?,
            body,
            note.evidence.as_ref().map(|evidence| evidence.effect.as_str()),
            note.evidence.as_ref().map(|evidence| evidence.class.code()),
            note.evidence.as_ref().map(signed_attempt),
            note.evidence.as_ref().map(|evidence| evidence.occurrence.code()),
            note.is_superseded_record(),
        ])?;
    }
    Ok(())
}

/// The attempt that evidence is about; negative if the effect was found by its key.
fn signed_attempt(evidence: &Evidence) -> i64 {
    let attempt = i64::from(evidence.attempt);
    if evidence.by_key { -attempt } else { attempt }
}

/// Highest number of a try under an effect key.
pub(crate) fn find_last_try(
    statements: &Statements<'_>,
    workspace: WorkspaceRowId,
    effect: &EffectKey,
) -> Result<u32, Fault> {
    let mut find = statements.take(include_str!("../sql/find_last_try.sql"))?;
    Ok(find.query_row(params![workspace.0, effect.as_str()], |row| row.get(0))?)
}

/// A row of the journal of `workspace`.
pub(crate) fn note(workspace: &WorkspaceId, mut row: Columns<'_>) -> Result<StoredJournalEntry, Fault> {
    let place = row.count()?;
    let run = row.run()?;
    let generation = Generation::new(row.get()?);
    let step = row.maybe_text()?.map(StepId::from_stored);
    let at = row.at()?;
    let fence = Fence::new(row.count()?);
    let owner: Option<[u8; 16]> = row.get()?;
    let owner = owner.map(|owner| OwnerId::from_u128(u128::from_be_bytes(owner)));
    let by = person(&mut row)?;
    let what = serde_json::from_str(row.text()?).map_err(broken)?;
    let evidence = evidence(&mut row)?;
    let workspace = workspace.clone();
    let note = JournalEntry { workspace, run, generation, step, at, fence, owner, by, what, evidence };
    Ok(StoredJournalEntry { place, note })
}

/// Whence a person acted, as JSON.
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
        (row.get::<Option<i64>>()?, row.get::<Option<i64>>()?, row.get::<Option<i64>>()?);
    Ok(match (effect, class, attempt, occurrence) {
        (Some(effect), Some(class), Some(attempt), Some(occurrence)) => Some(Evidence {
            effect,
            class: Code::from_code(class)?,
            attempt: u32::try_from(attempt.unsigned_abs()).map_err(broken)?,
            by_key: attempt < 0,
            occurrence: Code::from_code(occurrence)?,
        }),
        _ => None,
    })
}

/// Effects that happened more than once, or may have.
pub(crate) fn count_tallies(
    connection: &Connection,
    workspace: Option<&WorkspaceId>,
) -> Result<Vec<TallyCount>, Fault> {
    let workspace = match workspace {
        None => None,
        Some(name) => match find_workspace(connection, name)? {
            Some(number) => Some(number.0),
            None => return Ok(Vec::new()),
        },
    };
    let mut count = connection.prepare_cached(include_str!("../sql/count_tallies.sql"))?;
    rows::collect(count.query(params![workspace])?, |mut row| {
        let class = Code::from_code(row.get::<i64>()?)?;
        let tally = EffectTally { happened: row.get()?, may_have_happened: row.get()? };
        Ok(TallyCount { class, tally, effects: row.count()? })
    })
}
