//! The catalog: items are replaced only over their latest version, and found by id and by name.

use hapax_engine::limits::{MAX_ITEM_NAME_CHARS, MAX_PAGE};
use hapax_engine::model::{CatalogItem, CatalogKind, Version, WorkspaceId};
use hapax_engine::store::{ListCatalogItems, PutOutcome, StoreError};

use crate::fixture::*;
use crate::must;

/// An item is created once, with version 1, and found by its id and by its name.
pub(super) async fn an_item_is_made_once(t: &TestStore) {
    assert_eq!(t.find_item("d1").await, None);
    assert_eq!(t.find_named("payout").await, None);
    let made = t.item("d1", "payout").put().await;
    let item = CatalogItem {
        workspace: WorkspaceId::default(),
        kind: CatalogKind::Definition,
        id: name("d1"),
        name: "payout".into(),
        version: Version::new(1),
        body: json(r#"{"steps":[]}"#),
        created_at: t.now(),
        changed_at: t.now(),
    };
    assert_eq!(made, item);
    t.pass(SECOND);
    assert_eq!(t.item("d1", "other").body("2").send().await, PutOutcome::Exists(item.clone()));
    assert_eq!(t.item("d1", "payout").workspace("abroad").send().await, PutOutcome::Exists(item.clone()));
    assert_eq!(t.find_item("d1").await, Some(item.clone()));
    assert_eq!(t.find_named("payout").await, Some(item));
    assert_eq!(t.find_named("other").await, None);
}

/// A caller that names the latest version replaces the item. The creation time stays.
pub(super) async fn an_item_is_replaced_only_over_its_latest_version(t: &TestStore) {
    let first = t.item("d1", "payout").put().await;
    t.pass(SECOND);
    let second = t.item("d1", "payment").body("2").over(1).put().await;
    let expected = CatalogItem {
        name: "payment".into(),
        version: Version::new(2),
        body: json("2"),
        changed_at: t.now(),
        ..first.clone()
    };
    assert_eq!(second, expected);
    assert_eq!((t.find_named("payout").await, t.find_named("payment").await), (None, Some(second.clone())));
    for seen in [0, 1, 3] {
        let stale = t.item("d1", "payment").body("3").over(seen).send().await;
        assert_eq!(stale, PutOutcome::Stale(second.clone()), "{seen}");
    }
    assert_eq!(t.find_item("d1").await, Some(second));
}

/// An item that does not exist, or belongs to another workspace, cannot be replaced.
pub(super) async fn a_missing_item_is_not_replaced(t: &TestStore) {
    assert_eq!(t.item("d1", "payout").over(1).send().await, PutOutcome::Missing);
    let made = t.item("d1", "payout").put().await;
    t.item("d2", "payout").workspace("abroad").put().await;
    assert_eq!(t.item("d1", "payout").workspace("abroad").over(1).send().await, PutOutcome::Missing);
    assert_eq!(t.item("d1", "payout").kind(CatalogKind::Setting).over(1).send().await, PutOutcome::Missing);
    assert_eq!(t.item("d1", "payout").workspace("nowhere").over(1).send().await, PutOutcome::Missing);
    assert_eq!(t.find_item("d1").await, Some(made));
}

/// A name is unique per kind and workspace, for new items and renamed ones.
pub(super) async fn a_name_is_taken_once(t: &TestStore) {
    let first = t.item("d1", "payout").put().await;
    let second = t.item("d2", "refund").put().await;
    assert_eq!(t.item("d3", "payout").send().await, PutOutcome::NameTaken(first.clone()));
    assert_eq!(t.item("d2", "payout").over(1).send().await, PutOutcome::NameTaken(first.clone()));
    assert_eq!(t.item("d2", "payout").over(9).send().await, PutOutcome::Stale(second.clone()));
    assert_eq!(t.item("d2", "payout").send().await, PutOutcome::Exists(second.clone()));
    assert_eq!(t.find_item("d3").await, None);
    assert_eq!(t.find_item("d2").await, Some(second));
    t.item("d1", "payment").over(1).put().await;
    t.item("d2", "payout").over(1).put().await;
    t.item("d4", "payout").workspace("abroad").put().await;
    t.item("d2", "payout").kind(CatalogKind::Credential).put().await;
    let abroad = WorkspaceId::new("abroad").unwrap();
    let found = t.catalog().find_named_item(&abroad, CatalogKind::Definition, "payout").await.unwrap();
    assert_eq!(found.unwrap().id, name("d4"));
    let found = t.catalog().find_named_item(&abroad, CatalogKind::Credential, "payout").await.unwrap();
    assert_eq!(found, None);
}

/// Every kind of item is stored, and the ids of each kind are separate.
pub(super) async fn every_kind_of_item_is_kept(t: &TestStore) {
    for (n, kind) in CatalogKind::ALL.into_iter().enumerate() {
        t.item("x", "x").kind(kind).body(&n.to_string()).put().await;
    }
    for (n, kind) in CatalogKind::ALL.into_iter().enumerate() {
        let item = t.catalog().find_item(kind, &name("x")).await.unwrap().unwrap();
        assert_eq!((item.kind, item.body), (kind, json(&n.to_string())));
        let listed = t.catalog().list_items(ListCatalogItems { kind, ..all_items() }).await.unwrap();
        assert_eq!(listed.len(), 1);
    }
}

/// The journal names the person who changed the catalog, in the same write and only if the change took effect.
pub(super) async fn a_catalog_change_is_in_the_journal_if_it_took_effect(t: &TestStore) {
    t.item("d1", "payout").note(t.noted("made")).put().await;
    t.item("d1", "payout").over(1).note(t.noted("changed")).put().await;
    t.item("d2", "refund").put().await;
    let refused = t.noted("refused");
    must!(t.item("d1", "payout").note(refused.clone()).send().await, PutOutcome::Exists(_));
    must!(t.item("d1", "payout").over(1).note(refused.clone()).send().await, PutOutcome::Stale(_));
    must!(t.item("d3", "payout").note(refused.clone()).send().await, PutOutcome::NameTaken(_));
    must!(t.item("d4", "other").over(1).note(refused).send().await, PutOutcome::Missing);
    assert_eq!(t.notes().await, [t.noted("made"), t.noted("changed")]);
}

/// Bodies read back byte for byte.
pub(super) async fn bodies_are_kept_byte_for_byte(t: &TestStore) {
    let large = format!("\"{}\"", "ü".repeat(500_000));
    for (n, body) in
        [r#"{"b": 1.00, "a":  [ ], "a": "\u0001\n漢"}"#, "1e400", "null", &large].iter().enumerate()
    {
        let id = format!("d{n}");
        let made = t.item(&id, &id).body(body).put().await;
        let found = t.find_item(&id).await.unwrap();
        assert_eq!((found.body.as_str() == *body, found == made), (true, true), "{n}");
    }
}

/// Ids and names are compared byte by byte.
pub(super) async fn names_are_compared_exactly(t: &TestStore) {
    let names = ["p", "P", "p ", " p", "p%", "p_", "p\u{301}", "ṕ", "p@1", "p\t", "'", "漢", ""];
    for (n, item_name) in names.iter().enumerate() {
        t.item(&format!("d{n}"), item_name).put().await;
    }
    for (n, item_name) in names.iter().enumerate() {
        assert_eq!(t.find_named(item_name).await.unwrap().id, name(&format!("d{n}")), "{item_name:?}");
    }
    t.item("D1", "another").put().await;
    assert_eq!(t.find_item("d1").await.unwrap().name, "P");
}

/// A name that some store cannot hold is refused.
pub(super) async fn a_name_that_cannot_be_kept_is_refused(t: &TestStore) {
    let longest = "ü".repeat(MAX_ITEM_NAME_CHARS);
    let longer = "ü".repeat(MAX_ITEM_NAME_CHARS + 1);
    t.item("d1", &longest).put().await;
    assert_eq!(t.find_named(&longest).await.unwrap().id, name("d1"));
    for item_name in [longer.as_str(), "a\0b"] {
        let refused = t.catalog().put_item(t.item("d2", item_name).request()).await;
        must!(refused, Err(StoreError::Refused(_)));
    }
    assert_eq!(t.find_item("d2").await, None);
}

/// Items are listed in the order of their ids, in all workspaces or one, from any position.
pub(super) async fn items_are_listed_in_order(t: &TestStore) {
    for (id, workspace) in
        [("b", "y"), ("a", "z"), ("C", "y"), ("10", "x"), ("9", "y"), ("a-b", "z"), ("a_", "x")]
    {
        t.item(id, id).workspace(workspace).put().await;
    }
    t.item("0", "0").kind(CatalogKind::Setting).put().await;
    let all = ["10", "9", "C", "a", "a-b", "a_", "b"];
    assert_eq!(t.list_ids(all_items()).await, all);
    for (at, id) in all.iter().enumerate() {
        let after = ListCatalogItems { after: Some(name(id)), limit: 2, ..all_items() };
        assert_eq!(t.list_ids(after).await, all[at + 1..(at + 3).min(all.len())], "after {id}");
    }
    let of = |workspace: &str| ListCatalogItems {
        workspace: Some(WorkspaceId::new(workspace).unwrap()),
        ..all_items()
    };
    assert_eq!(t.list_ids(of("y")).await, ["9", "C", "b"]);
    assert_eq!(t.list_ids(ListCatalogItems { after: Some(name("9")), limit: 1, ..of("y") }).await, ["C"]);
    assert_eq!(
        t.list_ids(ListCatalogItems { after: Some(name("a")), ..of("x") }).await,
        ["a_"],
        "a place in another"
    );
    assert_eq!(t.list_ids(of("nowhere")).await, Vec::<String>::new());
    assert_eq!(
        t.list_ids(ListCatalogItems { limit: 0, ..all_items() }).await,
        ["10"],
        "a page holds at least one"
    );
    let listed = t.catalog().list_items(of("z")).await.unwrap();
    assert_eq!(listed[0], t.find_item("a").await.unwrap());
}

/// A page of items has a maximum size, whatever the caller asks for.
pub(super) async fn a_page_of_items_is_bounded(t: &TestStore) {
    for n in 0..=MAX_PAGE {
        let id = format!("d{n:05}");
        t.item(&id, &id).put().await;
    }
    let page = t.list_ids(ListCatalogItems { limit: usize::MAX, ..all_items() }).await;
    assert_eq!(page.len(), MAX_PAGE);
    let rest = t.list_ids(ListCatalogItems { after: Some(name(&page[MAX_PAGE - 1])), ..all_items() }).await;
    assert_eq!(rest, [format!("d{MAX_PAGE:05}")]);
}

/// A cache can ask for the items that changed at or after an instant.
pub(super) async fn changed_items_are_listed(t: &TestStore) {
    for id in ["c", "b", "a"] {
        t.item(id, id).put().await;
        t.pass(SECOND);
    }
    let since = t.now();
    let changed = ListCatalogItems { changed_since: Some(since), ..all_items() };
    assert_eq!(t.list_ids(changed.clone()).await, Vec::<String>::new());
    t.item("c", "c").over(1).put().await;
    t.item("e", "e").workspace("abroad").put().await;
    t.pass(SECOND);
    t.item("b", "b").over(1).put().await;
    assert_eq!(t.list_ids(changed.clone()).await, ["b", "c", "e"]);
    let after = |id: &str| ListCatalogItems { after: Some(name(id)), limit: 1, ..changed.clone() };
    assert_eq!(t.list_ids(after("b")).await, ["c"]);
    let here = ListCatalogItems { workspace: Some(WorkspaceId::default()), ..changed.clone() };
    assert_eq!(t.list_ids(here).await, ["b", "c"]);
    let later = ListCatalogItems { changed_since: Some(since.plus(SECOND)), ..changed };
    assert_eq!(t.list_ids(later).await, ["b"]);
}
