//! Operations on entities, as far as the file itself has a say in them.

use std::sync::Arc;

use hapax_engine::model::{
    BeginOperation, BeginOperationOutcome, ClaimTo, Entity, EntityId, EntityRef, EntityStorage, Failure,
    Fingerprint, FinishBy, FinishOperation, FinishOperationOutcome, Name, Operation, OperationEnd,
    OperationId, OperationStatus, OwnerId, Payload, Recovery, RetryAnswer,
};
use hapax_engine::store::{
    CreateEntityOutcome, EntityStore, ListOperations, NewEntity, Store, StoreError, TransactOperation,
    TransactOperationOutcome,
};
use hapax_store_sqlite::rusqlite::Connection;
use hapax_store_sqlite::{SqliteStore, SqliteWork};

use crate::fixture::*;

pub(crate) fn name(text: &str) -> Name {
    Name::new("name", text).unwrap()
}

pub(crate) fn invoice(id: &str) -> EntityRef {
    EntityRef { kind: name("invoice"), id: EntityId::new(id).unwrap() }
}

pub(crate) fn closing() -> ClaimTo {
    ClaimTo { into: name("closing"), revert_to: name("open") }
}

/// Closing an invoice goes from `open` over `closing` to `closed`.
pub(crate) fn close(home: &EntityStorage, entity: &Entity, id: u128) -> BeginOperation {
    let (step, input) = (name("close"), Payload::null());
    BeginOperation {
        id: OperationId::from_u128(id),
        workspace: workspace(),
        entity: entity.entity.clone(),
        home: home.clone(),
        workflow: name("billing"),
        module: name("billing"),
        fingerprint: Fingerprint::for_operation(&entity.entity, &step, None, &input).unwrap(),
        step,
        requester: None,
        by: None,
        key: None,
        input,
        from: vec![name("open")],
        to: name("closed"),
        claim: Some(closing()),
        transient: vec![name("closing")],
        recovery: Recovery::Revert,
        retry: RetryAnswer::Refused,
        irreversible: hapax_engine::model::Irreversible::No,
        has_effect: true,
        document: None,
        grace: Default::default(),
        overridden: None,
        seen: entity.version,
        run: None,
        owner: OwnerId::from_u128(1),
    }
}

pub(crate) async fn begin(store: &SqliteStore, request: BeginOperation) -> Operation {
    match store.begin_operation(request).await.unwrap() {
        BeginOperationOutcome::Begun { operation, .. } => *operation,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn done(operation: &Operation) -> FinishOperation {
    FinishOperation {
        workspace: workspace(),
        operation: operation.id,
        attempt: operation.attempt,
        by: FinishBy::Holder(operation.owner),
        end: OperationEnd::Done { result: Payload::of("paid").unwrap(), data: None },
        tries: None,
        posts: Vec::new(),
        notes: Vec::new(),
    }
}

pub(crate) async fn finish(store: &SqliteStore, request: FinishOperation) -> Operation {
    match store.finish_operation(request).await.unwrap() {
        FinishOperationOutcome::Finished { operation, .. } => *operation,
        other => panic!("{other:?}"),
    }
}

async fn make(store: &SqliteStore, id: &str) -> Entity {
    let data = Payload::parse("{}").unwrap();
    let new = NewEntity { workspace: workspace(), entity: invoice(id), status: name("open"), data };
    match store.create_entity(new).await.unwrap() {
        CreateEntityOutcome::Created(entity) => entity,
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn find(store: &SqliteStore, id: &str, home: &EntityStorage) -> Option<Entity> {
    store.find_entity(&workspace(), &invoice(id), home).await.unwrap()
}

/// Beyond the checks in code, the tables themselves reject impossible rows.
#[tokio::test]
async fn the_tables_refuse_what_no_operation_can_be() {
    let place = TestFolder::new();
    let store = place.open().await;
    let entity = make(&store, "1").await;
    let held = begin(&store, close(&EntityStorage::BuiltIn, &entity, 1)).await;
    let file = Connection::open(place.file()).unwrap();
    let columns = [
        "workspace",
        "kind",
        "entity",
        "workflow",
        "module",
        "step",
        "fingerprint",
        "from_status",
        "to_status",
        "claim_into",
        "revert_to",
        "recovery",
        "irreversible",
        "version",
        "attempt",
        "owner",
        "began_at",
        "status",
        "at",
        "value",
        "input",
    ];
    // Tries to write a second operation that is like the first but for some columns, and takes it back.
    let copy = |id: &str, changes: &[(&str, &str)]| {
        let values = columns
            .map(|column| changes.iter().find(|change| change.0 == column).map_or(column, |change| change.1));
        let (columns, values) = (columns.join(", "), values.join(", "));
        let copy = format!(
            "INSERT INTO hapax_operations (id, {columns}) SELECT x'{id}', {values} FROM hapax_operations"
        );
        file.execute_batch("BEGIN").unwrap();
        let copied = file.execute_batch(&copy);
        file.execute_batch("ROLLBACK").unwrap();
        copied
    };
    let id = "00000000000000000000000000000002";
    let elsewhere = ("entity", "'2'");
    copy(id, &[elsewhere]).unwrap();
    let bad: [(&[_], &str); 9] = [
        (&[], "a second holder"),
        (&[("status", "5")], "the same, in doubt"),
        (&[("status", "1")], "done without a result"),
        (&[elsewhere, ("value", "'1'")], "a result although it is pending"),
        (&[elsewhere, ("status", "6")], "a status that there is not"),
        (&[elsewhere, ("claim_into", "NULL")], "back from nowhere"),
        (&[elsewhere, ("attempt", "0")], "never tried"),
        (&[elsewhere, ("owner", "x''")], "held by nobody"),
        (&[elsewhere, ("recovery", "2")], "left to the winds"),
    ];
    for (changes, what) in bad {
        let refused = copy(id, changes).unwrap_err();
        assert!(refused.to_string().contains("constraint failed"), "{what}: {refused}");
    }
    assert!(copy("02", &[elsewhere]).is_err(), "an id that is not one");
    finish(&store, done(&held)).await;
    copy(id, &[("status", "0"), ("value", "NULL")]).unwrap();
}

/// Each way to ask for operations is a statement of its own; all of them say the same.
#[tokio::test]
async fn every_list_of_operations_agrees_with_the_plain_one() {
    let place = TestFolder::new();
    let store = place.open().await;
    for id in 0..12u128 {
        let entity = make(&store, &format!("i{id}")).await;
        let step = ["close", "reopen"][(id % 2) as usize];
        let begun =
            begin(&store, BeginOperation { step: name(step), ..close(&EntityStorage::BuiltIn, &entity, id) })
                .await;
        let why = Failure::permanent("no");
        let end = match id % 4 {
            0 => OperationEnd::Rejected(why),
            1 => OperationEnd::Failed(why),
            2 => continue,
            _ => OperationEnd::Done { result: Payload::null(), data: None },
        };
        finish(&store, FinishOperation { end, ..done(&begun) }).await;
        if id % 4 < 2 {
            let entity = find(&store, &format!("i{id}"), &EntityStorage::BuiltIn).await.unwrap();
            begin(&store, close(&EntityStorage::BuiltIn, &entity, 100 + id)).await;
        }
    }
    let all = ListOperations {
        workspace: workspace(),
        kind: None,
        entity: None,
        step: None,
        status: None,
        before: None,
        limit: 1000,
    };
    let every = store.list_operations(all.clone()).await.unwrap();
    assert_eq!(every.len(), 18);
    assert!(every.is_sorted_by(|a, b| a.id > b.id));
    let kinds = [None, Some(name("invoice")), Some(name("order"))];
    let entities = [None, Some(EntityId::new("i1").unwrap()), Some(EntityId::new("i2").unwrap())];
    let steps = [None, Some(name("close")), Some(name("reopen"))];
    let statuses: Vec<_> = std::iter::once(None).chain(OperationStatus::ALL.map(Some)).collect();
    let befores = [None, Some(OperationId::from_u128(101)), Some(OperationId::from_u128(2))];
    let mut asked = 0;
    for (kind, entity) in kinds.iter().flat_map(|kind| entities.iter().map(move |entity| (kind, entity))) {
        for (step, status) in steps.iter().flat_map(|step| statuses.iter().map(move |status| (step, *status)))
        {
            for before in befores {
                let (kind, entity, step) = (kind.clone(), entity.clone(), step.clone());
                let request =
                    ListOperations { kind, entity, step, status, before, limit: 2, workspace: workspace() };
                let matches = |operation: &&Operation| {
                    request.kind.as_ref().is_none_or(|kind| operation.entity.kind == *kind)
                        && request.entity.as_ref().is_none_or(|id| operation.entity.id == *id)
                        && request.step.as_ref().is_none_or(|step| operation.step == *step)
                        && status.is_none_or(|status| operation.state.status() == status)
                        && before.is_none_or(|before| operation.id < before)
                };
                let expected: Vec<Operation> = every.iter().filter(matches).take(2).cloned().collect();
                assert_eq!(store.list_operations(request.clone()).await.unwrap(), expected, "{request:?}");
                asked += 1;
            }
        }
    }
    assert_eq!(asked, 3 * 3 * 3 * 7 * 3);
    let stale = store.list_stale_operations(&name("billing"), store.now().plus(LEASE), 1000).await.unwrap();
    let pending = ListOperations { status: Some(OperationStatus::Pending), ..all };
    let mut pending = store.list_operations(pending).await.unwrap();
    pending.reverse();
    assert_eq!(stale, pending);
}

/// S1.9
#[tokio::test]
async fn the_work_of_an_action_and_the_new_status_are_one_commit() {
    let place = TestFolder::new();
    let store = place.open().await;
    let file = Connection::open(place.file()).unwrap();
    file.execute_batch("CREATE TABLE payments (amount INTEGER NOT NULL UNIQUE)").unwrap();
    let payments =
        || -> i64 { file.query_row("SELECT count(*) FROM payments", [], |row| row.get(0)).unwrap() };
    let pay = |operation: &Operation, amount: i64, fails: bool| {
        let work = SqliteWork::new(move |connection| {
            connection.execute("INSERT INTO payments VALUES (?1)", [amount])?;
            if fails { Err(Failure::permanent("no")) } else { Ok(amount) }
        });
        let finishing = done(operation);
        let finish = move |result| {
            let end = OperationEnd::Done { result, data: None };
            Ok(FinishOperation { end, ..finishing.clone() })
        };
        TransactOperation { work: Box::new(work), finish: Box::new(finish) }
    };
    let entity = make(&store, "1").await;
    let held = begin(&store, close(&EntityStorage::BuiltIn, &entity, 1)).await;

    let failed = store.transact_operation(pay(&held, 1, true)).await.unwrap();
    assert!(matches!(failed, TransactOperationOutcome::WorkFailed(_)), "{failed:?}");
    let zombie = Operation { attempt: 7, ..held.clone() };
    let lost = store.transact_operation(pay(&zombie, 2, false)).await.unwrap();
    assert!(
        matches!(lost, TransactOperationOutcome::Worked(FinishOperationOutcome::Lost(Some(_)))),
        "{lost:?}"
    );
    let refusal = |_| Err(Failure::permanent("not so"));
    let refused = TransactOperation { finish: Box::new(refusal), ..pay(&held, 3, false) };
    let refused = store.transact_operation(refused).await.unwrap();
    assert!(
        matches!(&refused, TransactOperationOutcome::WorkFailed(why) if why.message() == "not so"),
        "{refused:?}"
    );
    let odd = TransactOperation { work: Box::new("a text"), ..pay(&held, 4, false) };
    assert!(matches!(store.transact_operation(odd).await, Err(StoreError::Refused(_))));
    assert_eq!(
        (payments(), find(&store, "1", &EntityStorage::BuiltIn).await.unwrap().status),
        (0, name("closing"))
    );

    let worked = store.transact_operation(pay(&held, 5, false)).await.unwrap();
    let TransactOperationOutcome::Worked(FinishOperationOutcome::Finished { operation, entity, .. }) = worked
    else {
        panic!("{worked:?}")
    };
    assert_eq!(store.find_operation(&workspace(), held.id).await.unwrap(), Some(*operation));
    assert_eq!(find(&store, "1", &EntityStorage::BuiltIn).await, entity);
    assert_eq!((payments(), entity.unwrap().status), (1, name("closed")));
    let again = store.transact_operation(pay(&held, 6, false)).await.unwrap();
    assert!(matches!(again, TransactOperationOutcome::Worked(FinishOperationOutcome::Lost(_))), "{again:?}");
    assert_eq!(payments(), 1);
}

/// Transitions of many callers share the flush of the disk, and none sees another's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_on_distinct_entities_do_not_disturb_each_other() {
    let place = TestFolder::new();
    let store = Arc::new(place.open().await);
    let callers: Vec<_> = (1..=64u128)
        .map(|id| {
            let store = store.clone();
            tokio::spawn(async move {
                let entity = make(&store, &id.to_string()).await;
                let held = begin(&store, close(&EntityStorage::BuiltIn, &entity, id)).await;
                finish(&store, done(&held)).await;
                find(&store, &id.to_string(), &EntityStorage::BuiltIn).await.unwrap()
            })
        })
        .collect();
    for caller in callers {
        let entity = caller.await.unwrap();
        assert_eq!((entity.status, entity.version.get()), (name("closed"), 3));
    }
}
