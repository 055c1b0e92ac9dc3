//! Catalog items: configuration of a workspace, such as definitions and credentials.

use super::{Name, Payload, Timestamp, Version, WorkspaceId};

/// Kind of a catalog item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CatalogKind {
    /// A workspace. It is stored in itself.
    Workspace,
    /// A credential and its permissions.
    Credential,
    /// A definition of a step workflow.
    Definition,
    /// A setting of the installation, such as the secret that signs cursors.
    Setting,
    /// A source of webhooks.
    Source,
    /// A subscription to events of runs.
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

    /// The kind with this name.
    pub fn from_name(text: &str) -> Option<Self> {
        CatalogKind::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// One item of the catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogItem {
    /// Workspace of the item.
    pub workspace: WorkspaceId,
    /// Kind of the item.
    pub kind: CatalogKind,
    /// Id, unique among its kind in the whole store.
    pub id: Name,
    /// Name for people, unique among its kind in its workspace. A plain string, because some names are
    /// composed of several parts.
    pub name: String,
    /// Number of writes, including the first.
    pub version: Version,
    /// Content.
    pub body: Payload,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last written.
    pub changed_at: Timestamp,
}
