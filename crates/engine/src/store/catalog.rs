//! What is set up in workspaces.

use async_trait::async_trait;

use super::{StoreError, StoreResult};
use crate::limits::MAX_ITEM_NAME_CHARS;
use crate::model::{CatalogKind, Item, JournalEntry, Name, Payload, Timestamp, Version, WorkspaceId};

/// Keeps what is set up: workspaces, credentials, definitions.
#[async_trait]
pub trait Catalog: Send + Sync {
    /// Writes an item, if it is as the caller expects.
    ///
    /// Absent is expected: an item of that kind and id (in any workspace) is `Exists`, then one of that name in the workspace is
    /// `NameTaken`; else it is made, with version 1. A version is expected: `Missing` if there is no such item in the workspace, `Stale` if it has another
    /// version, `NameTaken` if another item has the name; else it is written with the next version, and keeps when it was made. The
    /// note is appended to the journal in the same write, and only if it takes effect. A name that cannot be kept
    /// ([`PutCatalogItem::check`]) is [`StoreError::Refused`].
    async fn put_item(&self, request: PutCatalogItem) -> StoreResult<PutOutcome>;

    /// One item by its id, in whatever workspace.
    async fn find_item(&self, kind: CatalogKind, id: &Name) -> StoreResult<Option<Item>>;

    /// One item by its name.
    async fn find_named_item(
        &self,
        workspace: &WorkspaceId,
        kind: CatalogKind,
        name: &str,
    ) -> StoreResult<Option<Item>>;

    /// Items in the order of their ids.
    async fn list_items(&self, request: ListCatalogItems) -> StoreResult<Vec<Item>>;
}

/// An item to be written.
#[derive(Debug, Clone)]
pub struct PutCatalogItem {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// What it is.
    pub kind: CatalogKind,
    /// Its id.
    pub id: Name,
    /// Its name.
    pub name: String,
    /// What it says.
    pub body: Payload,
    /// The version that is to be replaced; `None` if there must be none.
    pub expected: Option<Version>,
    /// Who did it, for the journal.
    pub note: Option<JournalEntry>,
}

impl PutCatalogItem {
    /// Refuses a name that is too long, or has the one character that not every store can keep.
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

    /// Decides what becomes of it at `now`, given the item with its id and the one with its name in its workspace. A store
    /// writes the item of [`PutOutcome::Put`] and nothing else.
    pub fn decide(&self, found: Option<Item>, namesake: Option<Item>, now: Timestamp) -> PutOutcome {
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
        PutOutcome::Put(Item {
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

/// What it came to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum PutOutcome {
    /// It is written.
    Put(Item),
    /// There is one with that id.
    Exists(Item),
    /// Another one has the name.
    NameTaken(Item),
    /// It was changed since.
    Stale(Item),
    /// There is none to replace.
    Missing,
}

/// Which items to list.
#[derive(Debug, Clone)]
pub struct ListCatalogItems {
    /// Of this workspace; `None` lists all.
    pub workspace: Option<WorkspaceId>,
    /// Of this kind.
    pub kind: CatalogKind,
    /// Only those written at this instant or later.
    pub changed_since: Option<Timestamp>,
    /// Only items after this id; where the page before ended.
    pub after: Option<Name>,
    /// How many at most; cut to [`crate::limits::MAX_PAGE`].
    pub limit: usize,
}
