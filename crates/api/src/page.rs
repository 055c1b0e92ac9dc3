//! One bounded page of a list.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Most items on one page; a larger `limit` is rejected.
pub const MAX_PAGE_ITEMS: usize = 200;
/// Items on a page without a `limit`.
pub const DEFAULT_PAGE_ITEMS: usize = 50;

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Page<T: ToSchema> {
    /// The items.
    pub items: Vec<T>,
    /// Cursor of the next page: send it as `cursor` with the same filters. Absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}
