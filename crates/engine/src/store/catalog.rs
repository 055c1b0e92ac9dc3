//! The catalog: configuration of workspaces.

use async_trait::async_trait;

use super::{StoreError, StoreResult};
use crate::limits::MAX_ITEM_NAME_CHARS;
use crate::model::{CatalogItem, CatalogKind, JournalEntry, Name, Payload, Timestamp, Version, WorkspaceId};

/// Stores configuration: workspaces, credentials, definitions.
#[async_trait]
pub trait Catalog: Send + Sync {
    /// Writes an item if it is as the caller expects.
    ///
    /// - Without an `expected` version the item must be new. If an item of that kind and id exists in any
    ///   workspace, the outcome is `Exists`. If another item of the workspace has the name, it is
    ///   `NameTaken`. Otherwise the item is created with version 1.
    /// - With an `expected` version the item must exist. If it is not in the workspace, the outcome is
    ///   `Missing`. If it has another version, it is `Stale`. If another item has the name, it is
    ///   `NameTaken`. Otherwise the item is written with the next version and keeps its creation time.
    ///
    /// The journal entry is appended in the same write, and only if the write takes effect. A name that
    /// cannot be stored ([`PutCatalogItem::check`]) is [`StoreError::Refused`].
    async fn put_item(&self, request: PutCatalogItem) -> StoreResult<PutOutcome>;

    /// Finds an item by id, in any workspace.
    async fn find_item(&self, kind: CatalogKind, id: &Name) -> StoreResult<Option<CatalogItem>>;

    /// Finds an item by name.
    async fn find_named_item(
        &self,
        workspace: &WorkspaceId,
        kind: CatalogKind,
        name: &str,
    ) -> StoreResult<Option<CatalogItem>>;

    /// Lists items in the order of their ids.
    async fn list_items(&self, request: ListCatalogItems) -> StoreResult<Vec<CatalogItem>>;
}

/// An item to write.
#[derive(Debug, Clone)]
pub struct PutCatalogItem {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// Kind of the item.
    pub kind: CatalogKind,
    /// Id of the item.
    pub id: Name,
    /// Name of the item.
    pub name: String,
    /// Content.
    pub body: Payload,
    /// Version to replace. `None` if the item must be new.
    pub expected: Option<Version>,
    /// Entry for the journal.
    pub note: Option<JournalEntry>,
}

impl PutCatalogItem {
    /// Rejects a name that is too long or contains NUL, which not every store can keep.
    pub fn check(&self) -> StoreResult<()> {
        match self.name.chars().count() {
            _ if self.name.contains('\0') => {
                Err(StoreError::Refused("the name of an item may not contain the character NUL".into()))
            }
            length if length > MAX_ITEM_NAME_CHARS => Err(StoreError::Refused(format!(
                "the name of an item has {length} characters; at most {MAX_ITEM_NAME_CHARS} are kept"
            ))),
            _ => Ok(()),
        }
    }

    /// Decides on the write at `now`, given the item with its id and the item with its name in its workspace.
    /// A store writes the item in [`PutOutcome::Put`] and nothing else.
    pub fn decide(
        &self,
        found: Option<CatalogItem>,
        namesake: Option<CatalogItem>,
        now: Timestamp,
    ) -> PutOutcome {
        let (version, created_at) = match (self.expected, found) {
            (None, Some(found)) => return PutOutcome::Exists(found),
            (None, None) => (Version::new(1), now),
            (Some(_), None) => return PutOutcome::Missing,
            (Some(_), Some(found)) if found.workspace != self.workspace => return PutOutcome::Missing,
            (Some(expected), Some(found)) if found.version != expected => return PutOutcome::Stale(found),
            (Some(expected), Some(found)) => (expected.next(), found.created_at),
        };
        if let Some(other) = namesake.filter(|other| other.id != self.id) {
            return PutOutcome::NameTaken(other);
        }
        PutOutcome::Put(CatalogItem {
            workspace: self.workspace.clone(),
            kind: self.kind,
            id: self.id.clone(),
            name: self.name.clone(),
            version,
            body: self.body.clone(),
            created_at,
            changed_at: now,
        })
    }
}

/// Outcome of [`Catalog::put_item`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum PutOutcome {
    /// The item was written.
    Put(CatalogItem),
    /// An item with that id exists.
    Exists(CatalogItem),
    /// Another item has the name.
    NameTaken(CatalogItem),
    /// The item has changed.
    Stale(CatalogItem),
    /// The item to replace does not exist.
    Missing,
}

/// Selects items to list.
#[derive(Debug, Clone)]
pub struct ListCatalogItems {
    /// Only this workspace. `None` lists all.
    pub workspace: Option<WorkspaceId>,
    /// Only this kind.
    pub kind: CatalogKind,
    /// Only items written at this instant or later.
    pub changed_since: Option<Timestamp>,
    /// Only items after this id, the last of the previous page.
    pub after: Option<Name>,
    /// Page size, at most [`crate::limits::MAX_PAGE`].
    pub limit: usize,
}
