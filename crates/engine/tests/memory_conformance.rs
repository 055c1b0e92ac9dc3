//! The memory store does what every store must do.

use std::any::Any;
use std::sync::Arc;

use async_trait::async_trait;
use hapax_engine::clock::ManualClock;
use hapax_engine::memory::MemoryStore;
use hapax_engine::model::{Entity, EntityId, EntityRef, Name, Payload, Version};
use hapax_store_conformance::{Candidate, UserRow, UserTables};

/// Tables that stand for the user's.
#[derive(Debug)]
struct Tables(Arc<MemoryStore>);

fn name(text: &str) -> Name {
    Name::new("name", text).unwrap()
}

#[async_trait]
impl UserTables for Tables {
    async fn create_table(&self, table: &str) {
        self.0.create_table(table);
    }

    async fn put_row(&self, table: &str, row: UserRow) {
        let UserRow { id, status, version, updated_at, total } = row;
        let entity = EntityRef { kind: name("row"), id: EntityId::new(&id).unwrap() };
        let data = Payload::of(&serde_json::json!({ "total": total })).unwrap();
        let version = Version::new(version);
        self.0.put_row(table, Entity { entity, status: name(&status), version, data, updated_at });
    }

    fn writing(&self, _text: &str, _output: &str, _fails: bool) -> Option<Box<dyn Any + Send + Sync>> {
        None
    }

    async fn written(&self) -> Vec<String> {
        Vec::new()
    }
}

async fn make_store(clock: Arc<ManualClock>) -> Candidate {
    let store = Arc::new(MemoryStore::new(clock));
    Candidate::shared(store.clone()).with_tables(Tables(store))
}

hapax_store_conformance::conformance_suite!(make_store);
hapax_store_conformance::differential_suite!(make_store);
hapax_store_conformance::interleaving_suite!(make_store);
