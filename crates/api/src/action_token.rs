//! Action tokens: let a page in a browser show and press the buttons of one entity.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{DurationText, Role};

/// Creates a token for one entity. Your server asks for it and gives it to the page of a person.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateActionToken {
    /// Lifetime; 10 minutes if absent, at most an hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<DurationText>,
    /// Role of the person: `viewer`, `operator` or `manager`; `operator` if absent. At most the role of the
    /// credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// Requester whose steps the person may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 128)]
    pub requester: Option<String>,
    /// The person, as the audit log names them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 128)]
    pub by: Option<String>,
}

/// An action token, shown this once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct IssuedActionToken {
    /// The token, for `Authorization: Bearer` on `GET /api/v1/entities/{type}/{id}` and
    /// `POST /api/v1/entities/{type}/{id}/steps/{stepKey}` of this entity. Every other route rejects it.
    pub token: String,
    /// Role of its holder.
    pub role: Role,
    /// When it expires.
    #[schema(format = DateTime)]
    pub expires_at: String,
}

impl fmt::Debug for IssuedActionToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IssuedActionToken")
            .field("role", &self.role)
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}
