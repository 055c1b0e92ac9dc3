//! One bounded page of a list.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Most items on one page; a larger `limit` is refused.
pub const MAX_PAGE_ITEMS: usize = 200;
/// Items on a page that no `limit` was given for.
pub const DEFAULT_PAGE_ITEMS: usize = 50;

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Page<T: ToSchema> {
    /// The items.
    pub items: Vec<T>,
    /// Give this as `cursor`, with the same filters, for the next page. Absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}
