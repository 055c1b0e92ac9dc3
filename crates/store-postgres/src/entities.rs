//! Entities and operations within a transaction: locked rows, including the transaction's own
//! changes.
//!
//! All nodes lock documents, then entities in the store's table, then rows of the users' tables,
//! then operations, each in one order. A transaction that begins or finishes an operation holds its
//! entity, so only one transaction moves an entity at a time. User work may hold rows of its own
//! before. Writes are sent at the end, in one statement per table.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use hapax_engine::model::{
    CatalogKind, EffectKey, Entity, EntityId, EntityJournalEntry, EntityRef, EntityStorage, IdempotencyKey,
    JournalEntry, Name, Operation, OperationId, OutboxMessage, Payload, TableRef, Version, WorkspaceId,
};

use crate::codes::{Code, count, millis};
use crate::entity_notes::insert_entity_notes;
use crate::fault::Fault;
use crate::interned_names::WorkspaceRowId;
use crate::journal::{self, insert_notes};
use crate::link::Sql;
use crate::operations::{OperationColumns, home, operation, operation_id, operation_uuid};
use crate::outbox::insert_posts;
use crate::rows::{Columns, broken};
use crate::session::{Params, Session, params};
use crate::user_tables;

/// Rows that operations on entities need.
#[derive(Debug, Default)]
pub(crate) struct EntityNeeds {
    /// Entities to lock.
    pub(crate) entities: Vec<(WorkspaceId, EntityRef, EntityStorage)>,
    /// Operations to lock, with their entities.
    pub(crate) operations: Vec<(WorkspaceId, OperationId)>,
    /// Ids of new operations: to lock if they exist.
    pub(crate) ids: Vec<(WorkspaceId, OperationId)>,
    /// Keys, with the operations that they name.
    pub(crate) keys: Vec<(WorkspaceId, IdempotencyKey)>,
    /// Entities, with the operations that hold them.
    pub(crate) held: Vec<(WorkspaceId, EntityRef)>,
    /// Steps, with the newest operation of each on the entity.
    pub(crate) steps: Vec<(WorkspaceId, EntityRef, Name)>,
    /// Entity workflows that must not be replaced before the transaction ends.
    pub(crate) documents: Vec<Name>,
}

impl EntityNeeds {
    pub(crate) fn extend(&mut self, more: EntityNeeds) {
        self.entities.extend(more.entities);
        self.operations.extend(more.operations);
        self.ids.extend(more.ids);
        self.keys.extend(more.keys);
        self.held.extend(more.held);
        self.steps.extend(more.steps);
        self.documents.extend(more.documents);
    }
}

/// Table of an entity; the variants are in lock order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EntityLocation {
    Own(WorkspaceRowId, EntityRef),
    Row(TableRef, EntityId),
}

impl EntityLocation {
    pub(crate) fn new(workspace: WorkspaceRowId, entity: &EntityRef, home: &EntityStorage) -> Self {
        match home {
            EntityStorage::BuiltIn => EntityLocation::Own(workspace, entity.clone()),
            EntityStorage::UserTable(table) => EntityLocation::Row(table.clone(), entity.id.clone()),
        }
    }
}

/// An entity as it was read, and with the changes.
#[derive(Debug, Clone, Default)]
struct KnownEntity {
    was: Option<Entity>,
    is: Option<Entity>,
}

/// Pending write of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Nothing,
    Inserted,
    Restarted,
    Finished,
}

type OperationPlace = (WorkspaceRowId, OperationId);

/// Known rows of a transaction; `None` for a missing row.
#[derive(Debug, Default)]
pub(crate) struct KnownEntities {
    entities: BTreeMap<EntityLocation, KnownEntity>,
    operations: BTreeMap<OperationPlace, Option<(Operation, Change)>>,
    keys: BTreeMap<(WorkspaceRowId, IdempotencyKey), Option<OperationId>>,
    holders: BTreeMap<(WorkspaceRowId, EntityRef), Option<OperationId>>,
    lasts: BTreeMap<(WorkspaceRowId, EntityRef, Name), Option<OperationId>>,
    documents: BTreeMap<Name, Option<Version>>,
    /// Notes to write at the end.
    notes: Vec<EntityJournalEntry>,
    evidence: Vec<JournalEntry>,
    posts: Vec<OutboxMessage>,
}

impl KnownEntities {
    pub(crate) fn entity(&self, place: &EntityLocation, entity: &EntityRef) -> Option<Entity> {
        let known = self.entities.get(place)?.is.clone()?;
        // A row does not contain its entity type.
        Some(Entity { entity: entity.clone(), ..known })
    }

    pub(crate) fn put_entity(&mut self, place: EntityLocation, entity: Entity) {
        self.entities.entry(place).or_default().is = Some(entity);
    }

    pub(crate) fn operation(&self, workspace: WorkspaceRowId, id: OperationId) -> Option<&Operation> {
        self.operations.get(&(workspace, id))?.as_ref().map(|(operation, _)| operation)
    }

    pub(crate) fn keyed(&self, workspace: WorkspaceRowId, key: &IdempotencyKey) -> Option<&Operation> {
        let id = self.keys.get(&(workspace, key.clone())).copied().flatten()?;
        self.operation(workspace, id)
    }

    pub(crate) fn holder(&self, workspace: WorkspaceRowId, entity: &EntityRef) -> Option<&Operation> {
        let id = self.holders.get(&(workspace, entity.clone())).copied().flatten()?;
        self.operation(workspace, id)
    }

    pub(crate) fn last(
        &self,
        workspace: WorkspaceRowId,
        entity: &EntityRef,
        step: &Name,
    ) -> Option<&Operation> {
        let id = self.lasts.get(&(workspace, entity.clone(), step.clone())).copied().flatten()?;
        self.operation(workspace, id)
    }

    /// Version of a document, which cannot change until the transaction ends.
    pub(crate) fn document(&self, item: &Name) -> Option<Version> {
        self.documents.get(item).copied().flatten()
    }

    /// An operation that begins, perhaps again.
    pub(crate) fn begin(&mut self, workspace: WorkspaceRowId, operation: Operation) {
        let place = (workspace, operation.id);
        let change = match self.operations.get(&place).and_then(Option::as_ref) {
            None | Some((_, Change::Inserted)) => Change::Inserted,
            Some(_) => Change::Restarted,
        };
        if let Some(key) = &operation.key {
            self.keys.insert((workspace, key.clone()), Some(operation.id));
        }
        if operation.holds_entity() {
            self.holders.insert((workspace, operation.entity.clone()), Some(operation.id));
        }
        let step = (workspace, operation.entity.clone(), operation.step.clone());
        if let Some(last) = self.lasts.get(&step).copied() {
            let last = last.and_then(|id| self.operation(workspace, id));
            let newer = last.filter(|last| last.begin_order() > operation.begin_order()).map(|last| last.id);
            self.lasts.insert(step, Some(newer.unwrap_or(operation.id)));
        }
        self.operations.insert(place, Some((operation, change)));
    }

    /// An operation that is no longer pending.
    pub(crate) fn finish(&mut self, workspace: WorkspaceRowId, operation: Operation) {
        let place = (workspace, operation.id);
        let change = match self.operations.get(&place).and_then(Option::as_ref) {
            None | Some((_, Change::Nothing | Change::Finished)) => Change::Finished,
            Some((_, change)) => *change,
        };
        let entity = (workspace, operation.entity.clone());
        if !operation.holds_entity() && self.holders.get(&entity) == Some(&Some(operation.id)) {
            self.holders.insert(entity, None);
        }
        self.operations.insert(place, Some((operation, change)));
    }

    pub(crate) fn note(&mut self, notes: impl IntoIterator<Item = EntityJournalEntry>) {
        self.notes.extend(notes);
    }

    /// Highest attempt number under an effect key among the pending writes.
    pub(crate) fn last_try(&self, workspace: WorkspaceRowId, effect: &EffectKey) -> u32 {
        let changed = self.operations.range((workspace, OperationId::from_u128(0))..);
        let of_workspace = changed.take_while(|((other, _), _)| *other == workspace);
        let operations = of_workspace.filter_map(|(_, known)| known.as_ref().map(|(operation, _)| operation));
        let of_effect = operations.filter(|operation| operation.effect_key() == *effect);
        of_effect.map(Operation::last_try).max().unwrap_or(0)
    }

    pub(crate) fn prove(&mut self, evidence: &[JournalEntry]) {
        self.evidence.extend_from_slice(evidence);
    }

    pub(crate) fn post(&mut self, posts: &[OutboxMessage]) {
        self.posts.extend_from_slice(posts);
    }

    /// Drops cached knowledge of the rows of users' tables, because it no longer holds.
    pub(crate) fn forget_rows(&mut self) {
        self.entities.retain(|place, _| matches!(place, EntityLocation::Own(..)));
    }

    fn found(&mut self, workspace: WorkspaceRowId, operation: Operation) -> OperationId {
        let id = operation.id;
        let known = self.operations.entry((workspace, id)).or_default();
        known.get_or_insert((operation, Change::Nothing));
        id
    }
}

/// Names of workspaces by their numbers.
type Names = HashMap<WorkspaceRowId, WorkspaceId>;

async fn number(
    session: &Session<'_>,
    names: &mut Names,
    name: &WorkspaceId,
) -> Result<Option<WorkspaceRowId>, Fault> {
    let found = session.find_workspace(name).await?;
    names.extend(found.map(|number| (number, name.clone())));
    Ok(found)
}

/// Purpose of a read, in the order of the statements.
enum RowKind {
    SharedDocuments,
    Documents,
    Entities,
    Rows(TableRef),
    Operations,
    Keyed,
    Holders,
    Lasts,
}

/// Locks and reads the rows that are not known yet.
pub(crate) async fn prepare(session: &mut Session<'_>, needs: &EntityNeeds) -> Result<(), Fault> {
    let mut names = Names::new();
    let mut places = BTreeSet::new();
    let mut operations = BTreeSet::new();
    for (workspace, entity, home) in &needs.entities {
        if let Some(workspace) = number(session, &mut names, workspace).await? {
            places.insert(EntityLocation::new(workspace, entity, home));
        }
    }
    for (workspace, id) in &needs.operations {
        operations.extend(number(session, &mut names, workspace).await?.map(|workspace| (*id, workspace)));
    }
    operations.retain(|(id, workspace)| !session.entities.operations.contains_key(&(*workspace, *id)));
    places.extend(find_places(session, &operations).await?);
    for (workspace, id) in &needs.ids {
        operations.extend(number(session, &mut names, workspace).await?.map(|workspace| (*id, workspace)));
    }
    let (mut keys, mut held, mut steps) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for (workspace, key) in &needs.keys {
        keys.extend(number(session, &mut names, workspace).await?.map(|workspace| (workspace, key.clone())));
    }
    for (workspace, entity) in &needs.held {
        held.extend(
            number(session, &mut names, workspace).await?.map(|workspace| (workspace, entity.clone())),
        );
    }
    for (workspace, entity, step) in &needs.steps {
        let workspace = number(session, &mut names, workspace).await?;
        steps.extend(workspace.map(|workspace| (workspace, entity.clone(), step.clone())));
    }
    let known = &session.entities;
    let documents: BTreeSet<Name> =
        needs.documents.iter().filter(|item| !known.documents.contains_key(*item)).cloned().collect();
    places.retain(|place| !known.entities.contains_key(place));
    operations.retain(|(id, workspace)| !known.operations.contains_key(&(*workspace, *id)));
    keys.retain(|key| !known.keys.contains_key(key));
    held.retain(|entity| !known.holders.contains_key(entity));
    steps.retain(|step| !known.lasts.contains_key(step));

    let mut queries: Vec<(RowKind, Sql, Params)> = Vec::new();
    if !documents.is_empty() {
        // A transaction that replaces a document waits for the lock; the read after it sees the
        // result.
        let items: Vec<String> = documents.iter().map(Name::to_string).collect();
        let share = include_str!("../sql/share_documents.sql").into();
        queries.push((RowKind::SharedDocuments, share, params![items.clone()]));
        let asked = params![CatalogKind::EntityWorkflow.code(), items];
        queries.push((RowKind::Documents, include_str!("../sql/find_document_versions.sql").into(), asked));
    }
    let places = ask_for_entities(session, places, &mut queries).await?;
    if !operations.is_empty() {
        let workspaces: Vec<i32> = operations.iter().map(|(_, workspace)| workspace.0).collect();
        let ids: Vec<uuid::Uuid> = operations.iter().map(|(id, _)| operation_uuid(*id)).collect();
        let asked = params![operations.len() as i64, workspaces, ids];
        queries.push((RowKind::Operations, include_str!("../sql/lock_operations.sql").into(), asked));
    }
    if !keys.is_empty() {
        let workspaces: Vec<i32> = keys.iter().map(|(workspace, _)| workspace.0).collect();
        let texts: Vec<String> = keys.iter().map(|(_, key)| key.as_str().to_owned()).collect();
        let asked = params![keys.len() as i64, workspaces, texts];
        queries.push((RowKind::Keyed, include_str!("../sql/lock_keyed_operations.sql").into(), asked));
    }
    if !held.is_empty() {
        let workspaces: Vec<i32> = held.iter().map(|(workspace, _)| workspace.0).collect();
        let kinds: Vec<String> = held.iter().map(|(_, entity)| entity.kind.to_string()).collect();
        let ids: Vec<String> = held.iter().map(|(_, entity)| entity.id.to_string()).collect();
        let asked = params![held.len() as i64, workspaces, kinds, ids];
        queries.push((RowKind::Holders, include_str!("../sql/find_holders.sql").into(), asked));
    }
    if !steps.is_empty() {
        let workspaces: Vec<i32> = steps.iter().map(|(workspace, ..)| workspace.0).collect();
        let kinds: Vec<String> = steps.iter().map(|(_, entity, _)| entity.kind.to_string()).collect();
        let ids: Vec<String> = steps.iter().map(|(_, entity, _)| entity.id.to_string()).collect();
        let names: Vec<String> = steps.iter().map(|(.., step)| step.to_string()).collect();
        let asked = params![steps.len() as i64, workspaces, kinds, ids, names];
        queries.push((RowKind::Lasts, include_str!("../sql/find_last_operations.sql").into(), asked));
    }
    if queries.is_empty() {
        return Ok(());
    }
    let (asked, queries): (Vec<RowKind>, Vec<_>) =
        queries.into_iter().map(|(asked, sql, params)| (asked, (sql, params))).unzip();
    let answers = session.query_all(queries).await?;
    let known = &mut session.entities;
    known.entities.extend(places.into_iter().map(|place| (place, KnownEntity::default())));
    known.operations.extend(operations.into_iter().map(|(id, workspace)| ((workspace, id), None)));
    known.keys.extend(keys.into_iter().map(|key| (key, None)));
    known.holders.extend(held.into_iter().map(|entity| (entity, None)));
    known.lasts.extend(steps.into_iter().map(|step| (step, None)));
    known.documents.extend(documents.into_iter().map(|item| (item, None)));
    for (asked, rows) in asked.iter().zip(&answers) {
        for row in rows {
            take_in(known, &names, asked, Columns::of(row))?;
        }
    }
    Ok(())
}

/// Highest attempt number under an effect key. The caller holds the entity, so no other transaction
/// adds one.
pub(crate) async fn find_last_try(
    session: &mut Session<'_>,
    workspace: WorkspaceRowId,
    effect: &EffectKey,
) -> Result<u32, Fault> {
    let written = journal::find_last_try(session, workspace, effect).await?;
    Ok(written.max(session.entities.last_try(workspace, effect)))
}

/// Tables of the operations' entities.
async fn find_places(
    session: &mut Session<'_>,
    operations: &BTreeSet<(OperationId, WorkspaceRowId)>,
) -> Result<Vec<EntityLocation>, Fault> {
    if operations.is_empty() {
        return Ok(Vec::new());
    }
    let workspaces: Vec<i32> = operations.iter().map(|(_, workspace)| workspace.0).collect();
    let ids: Vec<uuid::Uuid> = operations.iter().map(|(id, _)| operation_uuid(*id)).collect();
    let asked = params![operations.len() as i64, workspaces, ids];
    let found = session.query(include_str!("../sql/find_homes.sql"), asked).await?;
    let place = |mut row: Columns<'_>| {
        let workspace = WorkspaceRowId(row.get()?);
        operation_id(&mut row)?;
        let entity = entity_ref(&mut row)?;
        Ok(EntityLocation::new(workspace, &entity, &home(&mut row)?))
    };
    crate::rows::collect(&found, place)
}

/// Adds the reads that lock the entities at these places; returns the entities to find, without
/// those in unusable tables.
async fn ask_for_entities(
    session: &Session<'_>,
    places: BTreeSet<EntityLocation>,
    queries: &mut Vec<(RowKind, Sql, Params)>,
) -> Result<Vec<EntityLocation>, Fault> {
    let mut own: Vec<(WorkspaceRowId, EntityRef)> = Vec::new();
    let mut tables: BTreeMap<TableRef, Vec<EntityId>> = BTreeMap::new();
    for place in places {
        match place {
            EntityLocation::Own(workspace, entity) => own.push((workspace, entity)),
            EntityLocation::Row(table, id) => tables.entry(table).or_default().push(id),
        }
    }
    if !own.is_empty() {
        let workspaces: Vec<i32> = own.iter().map(|(workspace, _)| workspace.0).collect();
        let kinds: Vec<String> = own.iter().map(|(_, entity)| entity.kind.to_string()).collect();
        let ids: Vec<String> = own.iter().map(|(_, entity)| entity.id.to_string()).collect();
        let asked = params![own.len() as i64, workspaces, kinds, ids];
        queries.push((RowKind::Entities, include_str!("../sql/lock_entities.sql").into(), asked));
    }
    let mut sought: Vec<EntityLocation> =
        own.into_iter().map(|(workspace, entity)| EntityLocation::Own(workspace, entity)).collect();
    for (table, ids) in tables {
        let described = match session.get_table(&table).await {
            Ok(described) => described,
            // The operation that needs it gets the error in its turn.
            Err(Fault::Refused(_)) => continue,
            Err(fault) => return Err(fault),
        };
        let fit = ids.iter().filter(|id| described.may_have(id) != Some(false));
        let texts: Vec<String> = fit.map(|id| id.as_str().to_owned()).collect();
        if !texts.is_empty() {
            let asked = params![texts.len() as i64, texts];
            queries.push((RowKind::Rows(table.clone()), described.lock.clone().into(), asked));
        }
        sought.extend(ids.into_iter().map(|id| EntityLocation::Row(table.clone(), id)));
    }
    Ok(sought)
}

fn entity_ref(row: &mut Columns<'_>) -> Result<EntityRef, Fault> {
    let kind = Name::new("kind", row.text()?).map_err(broken)?;
    Ok(EntityRef { kind, id: EntityId::new(row.text()?).map_err(broken)? })
}

fn take_in(
    known: &mut KnownEntities,
    names: &Names,
    asked: &RowKind,
    mut row: Columns<'_>,
) -> Result<(), Fault> {
    let known_entity = |entity: Entity| KnownEntity { was: Some(entity.clone()), is: Some(entity) };
    match asked {
        RowKind::SharedDocuments => return Ok(()),
        RowKind::Documents => {
            let item = Name::new("id", row.text()?).map_err(broken)?;
            known.documents.insert(item, Some(Version::new(row.count()?)));
            return Ok(());
        }
        _ => {}
    }
    if let RowKind::Rows(table) = asked {
        let kind = Name::new("kind", "row").map_err(broken)?;
        let entity = user_tables::entity(&kind, table, row)?;
        known
            .entities
            .insert(EntityLocation::Row(table.clone(), entity.entity.id.clone()), known_entity(entity));
        return Ok(());
    }
    let workspace = WorkspaceRowId(row.get()?);
    if let RowKind::Entities = asked {
        let entity = entity(row)?;
        known.entities.insert(EntityLocation::Own(workspace, entity.entity.clone()), known_entity(entity));
        return Ok(());
    }
    let name = names.get(&workspace).ok_or_else(|| broken("a workspace that was not asked for"))?;
    let found = operation(name.clone(), &mut row)?;
    let (entity, step, key) = (found.entity.clone(), found.step.clone(), found.key.clone());
    let id = known.found(workspace, found);
    match (asked, key) {
        (RowKind::Keyed, Some(key)) => drop(known.keys.insert((workspace, key), Some(id))),
        (RowKind::Holders, _) => drop(known.holders.insert((workspace, entity), Some(id))),
        (RowKind::Lasts, _) => drop(known.lasts.insert((workspace, entity, step), Some(id))),
        _ => {}
    }
    Ok(())
}

/// A row of the store's own entities, starting at its type.
pub(crate) fn entity(mut row: Columns<'_>) -> Result<Entity, Fault> {
    Ok(Entity {
        entity: entity_ref(&mut row)?,
        status: Name::new("status", row.text()?).map_err(broken)?,
        version: Version::new(row.count()?),
        updated_at: row.at()?,
        data: Payload::from_stored(row.text()?),
    })
}

/// Sends or queues everything that has changed.
pub(crate) async fn write_out(session: &mut Session<'_>) -> Result<(), Fault> {
    write_operations(session)?;
    let changed: Vec<(EntityLocation, KnownEntity)> = session
        .entities
        .entities
        .iter_mut()
        .filter(|(_, known)| known.was != known.is)
        .map(|(place, known)| {
            let before = KnownEntity { was: known.was.take(), is: known.is.clone() };
            known.was.clone_from(&known.is);
            (place.clone(), before)
        })
        .collect();
    let mut rows: BTreeMap<TableRef, Vec<(Entity, Entity)>> = BTreeMap::new();
    let (mut new, mut old) = (EntityColumns::default(), EntityColumns::default());
    for (place, known) in changed {
        match (place, known.was, known.is) {
            (EntityLocation::Own(workspace, _), None, Some(entity)) => new.push(workspace, &entity),
            (EntityLocation::Own(workspace, _), Some(_), Some(entity)) => old.push(workspace, &entity),
            (EntityLocation::Row(table, _), Some(was), Some(is)) => {
                rows.entry(table).or_default().push((was, is))
            }
            (place, ..) => return Err(Fault::Broken(format!("the entity at {place:?} was taken away"))),
        }
    }
    if !new.id.is_empty() {
        session.keep_back(include_str!("../sql/insert_entities.sql"), new.into_params());
    }
    if !old.id.is_empty() {
        let mut written = params![old.id.len() as i64];
        written.extend(old.into_params());
        session.keep_back(include_str!("../sql/write_entities.sql"), written);
    }
    let (notes, posts) =
        (std::mem::take(&mut session.entities.notes), std::mem::take(&mut session.entities.posts));
    insert_posts(session, &posts).await?;
    insert_entity_notes(session, &notes).await?;
    let evidence = std::mem::take(&mut session.entities.evidence);
    insert_notes(session, &evidence).await?;
    for (table, rows) in rows {
        write_rows(session, &table, &rows).await?;
    }
    Ok(())
}

/// Writes releases before claims, since another operation may claim the entity in the same
/// transaction.
fn write_operations(session: &mut Session<'_>) -> Result<(), Fault> {
    let mut columns = [(); 3].map(|()| OperationColumns::default());
    let [finished, restarted, inserted] = &mut columns;
    for ((workspace, _), known) in &mut session.entities.operations {
        let Some((operation, change)) = known else { continue };
        match std::mem::replace(change, Change::Nothing) {
            Change::Nothing => {}
            Change::Finished => finished.push(*workspace, operation)?,
            Change::Restarted => restarted.push(*workspace, operation)?,
            Change::Inserted => inserted.push(*workspace, operation)?,
        }
    }
    let [finished, restarted, inserted] = columns;
    if finished.len() > 0 {
        session.keep_back(include_str!("../sql/finish_operations.sql"), finished.into_ends());
    }
    if restarted.len() > 0 {
        let number = restarted.len() as i64;
        let mut written = restarted.into_params();
        written.extend(params![number]);
        session.keep_back(include_str!("../sql/restart_operations.sql"), written);
    }
    if inserted.len() > 0 {
        session.keep_back(include_str!("../sql/insert_operations.sql"), inserted.into_params());
    }
    Ok(())
}

/// Writes rows of a user's table, each with its old and new values. A row that no longer has its
/// old values belongs to a rival transaction.
pub(crate) async fn write_rows(
    session: &mut Session<'_>,
    table: &TableRef,
    rows: &[(Entity, Entity)],
) -> Result<(), Fault> {
    let described = session.get_table(table).await?;
    let texts = |text: fn(&(Entity, Entity)) -> String| rows.iter().map(text).collect::<Vec<String>>();
    let counts = |value: fn(&(Entity, Entity)) -> i64| rows.iter().map(value).collect::<Vec<i64>>();
    let written = params![
        rows.len() as i64,
        texts(|(was, _)| was.entity.id.to_string()),
        texts(|(was, _)| was.status.to_string()),
        counts(|(was, _)| count(was.version.get())),
        texts(|(_, is)| is.status.to_string()),
        counts(|(_, is)| count(is.version.get())),
        counts(|(_, is)| millis(is.updated_at)),
    ];
    match session.query(described.write.clone(), written).await?.len() == rows.len() {
        true => Ok(()),
        false => Err(Fault::Rival),
    }
}

/// Entities of the store's own table, each column a list with one entry per row.
#[derive(Debug, Default)]
struct EntityColumns {
    workspace: Vec<i32>,
    kind: Vec<String>,
    id: Vec<String>,
    status: Vec<String>,
    version: Vec<i64>,
    updated_at: Vec<i64>,
    data: Vec<String>,
}

impl EntityColumns {
    fn push(&mut self, workspace: WorkspaceRowId, entity: &Entity) {
        self.workspace.push(workspace.0);
        self.kind.push(entity.entity.kind.to_string());
        self.id.push(entity.entity.id.to_string());
        self.status.push(entity.status.to_string());
        self.version.push(count(entity.version.get()));
        self.updated_at.push(millis(entity.updated_at));
        self.data.push(entity.data.as_str().to_owned());
    }

    fn into_params(self) -> Params {
        let EntityColumns { workspace, kind, id, status, version, updated_at, data } = self;
        params![workspace, kind, id, status, version, updated_at, data]
    }
}
