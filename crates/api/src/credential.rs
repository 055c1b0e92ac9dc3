//! Credentials: API keys, their roles and their lifetimes. Only one response shows the secret.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::DurationText;

/// Permissions of a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// May read.
    Viewer,
    /// May take work and record it.
    Worker,
    /// May start and steer runs, and make reversible decisions.
    Operator,
    /// May also make irreversible decisions.
    Manager,
    /// May also manage credentials, definitions and the workspace.
    Admin,
}

impl Role {
    /// Every role.
    pub const ALL: [Role; 5] = [Role::Viewer, Role::Worker, Role::Operator, Role::Manager, Role::Admin];

    /// The role as stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Worker => "worker",
            Role::Operator => "operator",
            Role::Manager => "manager",
            Role::Admin => "admin",
        }
    }

    /// The role with this name, if there is one.
    pub fn from_name(text: &str) -> Option<Self> {
        Role::ALL.into_iter().find(|role| role.as_str() == text)
    }
}

/// Names that a credential of the role worker is bound to. One that ends with `*` stands for all names that begin so.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OfferedNames {
    /// Workflows that it may offer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workflows: Vec<String>,
    /// Tasks that it may offer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<String>,
    /// Actions that it may offer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<String>,
}

/// Asks for a credential.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateCredential {
    /// Name for people and for the audit log.
    #[schema(min_length = 1, max_length = 128)]
    pub name: String,
    /// Role of the credential.
    pub role: Role,
    /// Requester that the credential acts for, in entity workflows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 128)]
    pub requester: Option<String>,
    /// Lifetime; absent: until revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<DurationText>,
    /// Networks that the credential may be used from, such as `10.8.0.0/16`; any if absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 50)]
    pub networks: Vec<String>,
    /// Routes that the credential may call, such as `POST /api/v1/workflow-runs`, spelled as in this description; all that
    /// its role allows if absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 50)]
    pub routes: Vec<String>,
    /// Keeps inputs, outputs and other payloads from the credential.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hides_payloads: bool,
    /// Names that its workers may offer, for the role worker alone. Absent: all names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub may_offer: Option<OfferedNames>,
}

/// Gives a credential a new secret. The credential, its scope of keys and its role stay.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RotateCredential {
    /// How long the old secret still works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<DurationText>,
}

/// Ends a credential.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RevokeCredential {
    /// Why; kept in the audit log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 4096)]
    pub reason: Option<String>,
}

/// A credential, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Credential {
    /// Its id.
    pub id: String,
    /// Workspace of the credential.
    pub workspace_id: String,
    /// Name for people.
    pub name: String,
    /// Role of the credential.
    pub role: Role,
    /// Requester that the credential acts for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requester: Option<String>,
    /// Names that its workers may offer. Absent: all names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub may_offer: Option<OfferedNames>,
    /// When it was made.
    #[schema(format = DateTime)]
    pub created_at: String,
    /// When it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub expires_at: Option<String>,
    /// When it was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub revoked_at: Option<String>,
    /// Time until which the previous secret still works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub old_secret_until: Option<String>,
    /// Approximate time of the last use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub last_used_at: Option<String>,
    /// Networks that it may be used from; any if absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<String>,
    /// Routes that it may call; all that its role allows if absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<String>,
    /// Inputs, outputs and other payloads are hidden from it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hides_payloads: bool,
}

/// A credential with its secret, shown this once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct IssuedCredential {
    /// The credential.
    pub credential: Credential,
    /// The key, shown this once: keep it as you keep a password.
    pub api_key: String,
}

impl std::fmt::Debug for IssuedCredential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IssuedCredential").field("credential", &self.credential).finish_non_exhaustive()
    }
}
