//! Entities in the store's own table and in the user's tables: creation, lookup and lists.

use hapax_engine::limits::MAX_PAGE;
use hapax_engine::model::{EntityStorage, Name, TableRef, Version, WorkspaceId};
use hapax_engine::store::{CreateEntityOutcome, ListEntities, NewEntity, StoreError};

use crate::fixture::*;
use crate::must;

async fn create_in(t: &TestStore, workspace: &str, kind: &str, id: &str, data: &str) -> CreateEntityOutcome {
    let new = NewEntity {
        workspace: WorkspaceId::new(workspace).unwrap(),
        entity: entity_of(kind, id),
        status: name("approved"),
        data: json(data),
    };
    t.entities().create_entity(new).await.unwrap()
}

/// S1.5: a new entity has version 1, and reads back unchanged.
pub(super) async fn an_entity_is_made_once(t: &TestStore) {
    let made =
        must!(t.create("i1", "approved", r#"{"total":7}"#).await, CreateEntityOutcome::Created(made) => made);
    assert_eq!((&made.entity, made.status.as_str()), (&entity_in(&EntityStorage::BuiltIn, "i1"), "approved"));
    assert_eq!((made.version, made.data.as_str()), (Version::new(1), r#"{"total":7}"#));
    assert_eq!(made.updated_at, t.now());
    t.pass(SECOND);
    let again = t.create("i1", "draft", r#"{"total":8}"#).await;
    assert_eq!(again, CreateEntityOutcome::Exists(made.clone()));
    assert_eq!(t.find_invoice(&EntityStorage::BuiltIn, "i1").await, Some(made));
}

/// Creating an existing entity returns its current state.
pub(super) async fn making_an_entity_again_shows_how_it_stands(t: &TestStore) {
    t.closing(&EntityStorage::BuiltIn, "i1").await;
    let again = t.create("i1", "approved", "{}").await;
    must!(again, CreateEntityOutcome::Exists(entity) if entity.status == name("closing"));
}

/// A missing entity is not found, in either kind of table.
pub(super) async fn a_missing_entity_is_not_found(t: &TestStore) {
    for home in t.homes().await {
        t.invoice(&home, "i1", "approved").await;
        assert_eq!(t.find_invoice(&home, "i2").await, None);
    }
}

/// Data of an entity is stored byte for byte.
pub(super) async fn data_of_entities_is_kept_byte_for_byte(t: &TestStore) {
    let texts = [
        "{}",
        r#"{"b":1,"a":2}"#,
        r#"{ "a" : 1.0 , "e":1e2 }"#,
        r#"{"u":"ü💶 \u00fc","a":[{},null]}"#,
        r#"{"n":12345678901234567890.5}"#,
    ];
    for (n, text) in texts.into_iter().enumerate() {
        let id = n.to_string();
        must!(t.create(&id, "approved", text).await, CreateEntityOutcome::Created(made) if made.data.as_str() == text);
        assert_eq!(t.entity(&EntityStorage::BuiltIn, &id).await.data.as_str(), text);
    }
    let listed = t.entities().list_entities(t.all_invoices(&EntityStorage::BuiltIn)).await.unwrap();
    assert_eq!(listed.iter().map(|entity| entity.data.as_str()).collect::<Vec<_>>(), texts);
}

/// Ids are compared exactly, including case, whitespace and characters that SQL treats as patterns.
pub(super) async fn ids_of_entities_are_compared_exactly(t: &TestStore) {
    let ids = [" a", "A", "a", "a ", "a%", "a'b", "a_b", "ab"];
    for home in t.homes().await {
        for id in ids {
            t.invoice(&home, id, "approved").await;
        }
        for id in ids {
            assert_eq!(t.entity(&home, id).await.entity, entity_in(&home, id));
        }
        assert_eq!(t.find_invoice(&home, "A ").await, None);
        assert_eq!(t.find_invoice(&home, "aXb").await, None);
    }
    assert_eq!(
        t.entity_ids(t.all_invoices(&EntityStorage::BuiltIn)).await,
        ids,
        "in the order of their bytes"
    );
}

/// Entities with the same id in different workspaces or of different kinds are separate.
pub(super) async fn entities_are_told_apart_by_workspace_and_kind(t: &TestStore) {
    let places = [("default", "invoice"), ("default", "order"), ("abroad", "invoice")];
    for (n, (workspace, kind)) in places.into_iter().enumerate() {
        let data = format!(r#"{{"n":{n}}}"#);
        must!(create_in(t, workspace, kind, "1", &data).await, CreateEntityOutcome::Created(_));
    }
    t.close(&EntityStorage::BuiltIn, "1").begins().await;
    for (n, (workspace, kind)) in places.into_iter().enumerate() {
        let workspace = WorkspaceId::new(workspace).unwrap();
        let found = t
            .entities()
            .find_entity(&workspace, &entity_of(kind, "1"), &EntityStorage::BuiltIn)
            .await
            .unwrap();
        let found = found.unwrap();
        assert_eq!(found.entity, entity_of(kind, "1"));
        assert_eq!(found.data.as_str(), format!(r#"{{"n":{n}}}"#));
        assert_eq!(
            found.status,
            name(if n == 0 { "closing" } else { "approved" }),
            "only the first is moved"
        );
        let request = ListEntities { workspace, kind: name(kind), ..t.all_invoices(&EntityStorage::BuiltIn) };
        assert_eq!(t.entities().list_entities(request).await.unwrap(), [found]);
    }
    t.close(&EntityStorage::BuiltIn, "1").workspace("abroad").begins().await;
}

/// Entities are listed in the order of their ids, page by page.
pub(super) async fn entities_are_listed_in_order(t: &TestStore) {
    for home in t.homes().await {
        for id in ["c", "a", "e", "b", "d"] {
            t.invoice(&home, id, "approved").await;
        }
        assert_eq!(t.entity_ids(t.all_invoices(&home)).await, ["a", "b", "c", "d", "e"]);
        let page = |after: Option<&str>| ListEntities {
            after: after.map(|id| entity_in(&home, id).id),
            limit: 2,
            ..t.all_invoices(&home)
        };
        assert_eq!(t.entity_ids(page(None)).await, ["a", "b"]);
        assert_eq!(t.entity_ids(page(Some("b"))).await, ["c", "d"]);
        assert_eq!(t.entity_ids(page(Some("d"))).await, ["e"]);
        assert_eq!(t.entity_ids(page(Some("bb"))).await, ["c", "d"], "one that is not there");
        assert!(t.entity_ids(page(Some("e"))).await.is_empty());
    }
}

/// Entities are listed by their status, page by page.
pub(super) async fn entities_are_listed_by_status(t: &TestStore) {
    for home in t.homes().await {
        for (id, status) in [("a", "approved"), ("b", "draft"), ("c", "approved"), ("d", "approved")] {
            t.invoice(&home, id, status).await;
        }
        t.close(&home, "c").begins().await;
        let of = |status: &str, after: Option<&str>, limit| ListEntities {
            status: Some(name(status)),
            after: after.map(|id| entity_in(&home, id).id),
            limit,
            ..t.all_invoices(&home)
        };
        assert_eq!(t.entity_ids(of("approved", None, 10)).await, ["a", "d"]);
        assert_eq!(t.entity_ids(of("closing", None, 10)).await, ["c"]);
        assert_eq!(t.entity_ids(of("approved", None, 1)).await, ["a"]);
        assert_eq!(t.entity_ids(of("approved", Some("a"), 1)).await, ["d"]);
        assert!(t.entity_ids(of("lost", None, 10)).await.is_empty());
        let listed = t.entities().list_entities(of("closing", None, 10)).await.unwrap();
        assert_eq!(listed, [t.entity(&home, "c").await], "as it is found");
    }
}

/// A page of entities has a maximum size, whatever the caller asks for.
pub(super) async fn a_page_of_entities_is_bounded(t: &TestStore) {
    for n in 0..=MAX_PAGE {
        must!(t.create(&format!("{n:05}"), "approved", "{}").await, CreateEntityOutcome::Created(_));
    }
    let request = ListEntities { limit: usize::MAX, ..t.all_invoices(&EntityStorage::BuiltIn) };
    assert_eq!(t.entity_ids(request).await.len(), MAX_PAGE);
}

/// A row in the user's table shows its status, its version, its time of change and the configured columns.
pub(super) async fn a_row_in_the_users_table_is_an_entity(t: &TestStore) {
    let Some(home) = t.homes().await.into_iter().find(is_table) else { return };
    t.put_row("i1", "overdue", 41).await;
    let at = t.now();
    t.pass(SECOND);
    let found = t.entity(&home, "i1").await;
    assert_eq!((found.entity, found.status), (entity_in(&home, "i1"), name("overdue")));
    assert_eq!((found.version, found.updated_at), (Version::new(41), at));
    assert_eq!(found.data.as_str(), r#"{"total":7}"#);
    assert_eq!(
        t.find_invoice(&EntityStorage::BuiltIn, "i1").await,
        None,
        "it is not in the store's own table"
    );
    let order = entity_of("order", "i1");
    let workspace = WorkspaceId::default();
    let found = t.entities().find_entity(&workspace, &order, &home).await.unwrap();
    assert_eq!(found.unwrap().entity, order, "the row is whatever the workflow says it is");
}

/// Every verb refuses a missing table with a message.
pub(super) async fn a_table_that_is_not_there_is_refused(t: &TestStore) {
    let table = TableRef::new("nowhere_at_all").unwrap();
    let home = EntityStorage::UserTable(table.clone());
    let refused = |what: &str, error: Option<StoreError>| match error {
        Some(StoreError::Refused(why)) => assert!(why.contains("nowhere_at_all"), "{what}: {why}"),
        other => panic!("{what}: {other:?}"),
    };
    let (book, workspace) = (t.entities(), WorkspaceId::default());
    refused("check", book.check_table(&table).await.err());
    refused("find", book.find_entity(&workspace, &entity_in(&home, "i1"), &home).await.err());
    refused("list", book.list_entities(t.all_invoices(&home)).await.err());
    refused("begin", book.begin_operation(t.close(&home, "i1").request()).await.err());
    let mut strays = t.strays(t.now());
    strays.table = table;
    refused("strays", book.revert_strays(strays).await.err());
    assert!(t.operation_ids(t.all_operations(&home)).await.is_empty());
}

/// A usable table of the user is accepted. A table without a required column is refused with a message.
pub(super) async fn a_table_that_lacks_a_column_is_refused(t: &TestStore) {
    let Some(home) = t.homes().await.into_iter().find(is_table) else { return };
    let table = home.table().expect("it is one").clone();
    t.entities().check_table(&table).await.unwrap();
    // The memory store has no columns.
    if t.tables.as_ref().is_none_or(|tables| tables.writing("", "null", false).is_none()) {
        return;
    }
    t.invoice(&home, "i1", "approved").await;
    let named = |column: fn(&mut TableRef) -> &mut String| {
        let mut table = table.clone();
        *column(&mut table) = "absent".into();
        table
    };
    let lacking = [
        named(|table| &mut table.id),
        named(|table| &mut table.status),
        named(|table| &mut table.version),
        named(|table| &mut table.updated_at),
        named(|table| &mut table.data[0]),
    ];
    for table in lacking {
        let refusal = t.entities().check_table(&table).await;
        must!(refusal, Err(StoreError::Refused(why)) if why.contains("absent"));
        let home = EntityStorage::UserTable(table);
        let workspace = WorkspaceId::default();
        let refusal = t.entities().find_entity(&workspace, &entity_in(&home, "i1"), &home).await;
        must!(refusal, Err(StoreError::Refused(why)) if why.contains("absent"));
    }
}

/// Statuses are compared exactly.
pub(super) async fn statuses_are_compared_exactly(t: &TestStore) {
    for home in t.homes().await {
        t.invoice(&home, "a", "approved").await;
        t.invoice(&home, "b", "APPROVED").await;
        let status: Option<Name> = Some(name("approved"));
        assert_eq!(t.entity_ids(ListEntities { status, ..t.all_invoices(&home) }).await, ["a"]);
    }
}
