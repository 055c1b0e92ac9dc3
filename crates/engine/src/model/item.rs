//! The catalog: what is set up in a workspace rather than run in it, such as definitions and credentials.

use super::{Name, Payload, Timestamp, Version, WorkspaceId};

/// What kind of thing an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CatalogKind {
    /// A workspace; it lies in itself.
    Workspace,
    /// A credential: who may do what.
    Credential,
    /// A definition of a step workflow.
    Definition,
    /// A setting of the installation, such as the secret that signs cursors.
    Setting,
    /// A source of webhooks.
    Source,
    /// Somebody who wants to be told what becomes of runs.
    Subscription,
    /// An entity workflow.
    EntityWorkflow,
}

impl CatalogKind {
    /// Every kind.
    pub const ALL: [CatalogKind; 7] = [
        CatalogKind::Workspace,
        CatalogKind::Credential,
        CatalogKind::Definition,
        CatalogKind::Setting,
        CatalogKind::Source,
        CatalogKind::Subscription,
        CatalogKind::EntityWorkflow,
    ];

    /// The kind as stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            CatalogKind::Workspace => "workspace",
            CatalogKind::Credential => "credential",
            CatalogKind::Definition => "definition",
            CatalogKind::Setting => "setting",
            CatalogKind::Source => "source",
            CatalogKind::Subscription => "subscription",
            CatalogKind::EntityWorkflow => "entity_workflow",
        }
    }

    /// The kind spelled so, if there is one.
    pub fn from_name(text: &str) -> Option<Self> {
        CatalogKind::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// One thing of the catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The workspace it belongs to.
    pub workspace: WorkspaceId,
    /// What it is.
    pub kind: CatalogKind,
    /// Its id, unique among its kind in the whole store.
    pub id: Name,
    /// The name people know it by, unique among its kind in its workspace; text, because some are made of several.
    pub name: String,
    /// How often it was written; the first time counts.
    pub version: Version,
    /// What it says.
    pub body: Payload,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last written.
    pub changed_at: Timestamp,
}
