//! Tables of the memory store that stand in for the user's tables.

use std::any::Any;
use std::sync::Arc;

use async_trait::async_trait;
use hapax_engine::memory::MemoryStore;
use hapax_engine::model::{Entity, EntityId, EntityRef, Payload, Version};

use crate::fixture::name;
use crate::{UserRow, UserTables};

/// Tables of the memory store that stand in for the user's. The memory store has no transactions to share with user
/// code.
#[derive(Debug, Clone)]
pub struct MemoryTables(pub Arc<MemoryStore>);

#[async_trait]
impl UserTables for MemoryTables {
    async fn create_table(&self, table: &str) {
        self.0.create_table(table);
    }

    async fn put_row(&self, table: &str, row: UserRow) {
        let UserRow { id, status, version, updated_at, total } = row;
        let row = Entity {
            entity: EntityRef { kind: name("row"), id: EntityId::new(&id).expect("it can be an id") },
            status: name(&status),
            version: Version::new(version),
            data: Payload::of(&serde_json::json!({ "total": total })).expect("it is JSON"),
            updated_at,
        };
        self.0.put_row(table, row);
    }

    fn writing(&self, _text: &str, _output: &str, _fails: bool) -> Option<Box<dyn Any + Send + Sync>> {
        None
    }

    async fn written(&self) -> Vec<String> {
        Vec::new()
    }
}
