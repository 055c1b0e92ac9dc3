//! Walks the items of the catalog that were changed of late: how a node learns what other nodes were given.

use hapax_api::Problem;
use hapax_engine::limits::MAX_PAGE;
use hapax_engine::model::{Item, ItemKind, Timestamp};
use hapax_engine::store::{Catalog, ListItems};

use crate::errors::of_store;

/// Shows `take` every item of a kind, of all workspaces, that was written at `changed_since` or later; `None` is all there are.
pub(crate) async fn each_changed_item(
    catalog: &dyn Catalog,
    kind: ItemKind,
    changed_since: Option<Timestamp>,
    mut take: impl FnMut(&Item),
) -> Result<(), Problem> {
    let limit = MAX_PAGE;
    let mut after = None;
    loop {
        let request = ListItems { workspace: None, kind, changed_since, after, limit };
        let items = catalog.list_items(request).await.map_err(|error| of_store(&error))?;
        items.iter().for_each(&mut take);
        match items.last() {
            Some(last) if items.len() == limit => after = Some(last.id.clone()),
            _ => return Ok(()),
        }
    }
}
