//! The audit log: people's actions, each recorded in the same write as the action and found by every filter.

use hapax_engine::model::{
    Actor, AuditSubject, BeginOperationOutcome, JournalEntry, JournalEvent, Origin, PromiseId, PromiseRef,
    Resolution, Role, RunId, WorkspaceId,
};
use hapax_engine::store::{
    AuditCursor, AuditFilter, CreateOutcome, ListAudit, PutSettleToken, SendSignal, SettleOutcome,
    SettlePromise, SettleToken, SignalOutcome, StoredJournalEntry,
};

use super::promise_keys::{by_key, create, key, standalone};
use crate::fixture::*;
use crate::must;

fn through(credential: &str, person: Option<&str>, name: &str) -> Actor {
    let origin = Origin {
        credential: credential.into(),
        role: "admin".into(),
        person: person.map(Into::into),
        issuer: None,
        subject: None,
        address: Some("192.0.2.7".into()),
        trace_id: Some("4bf92f3577b34da6a3ce929d0e0e4736".into()),
    };
    Actor { origin: Some(origin), ..Actor::new(name, Role::Manager) }
}

async fn audit(t: &TestStore, filter: AuditFilter) -> Vec<StoredJournalEntry> {
    let workspace = WorkspaceId::default();
    t.store.list_audit(ListAudit { workspace, filter, after: None, limit: 100 }).await.unwrap()
}

async fn notes_for(t: &TestStore, filter: AuditFilter) -> Vec<JournalEntry> {
    audit(t, filter).await.into_iter().map(|placed| placed.note).collect()
}

/// Entries by two credentials with the same name, a person who uses both, a local actor without a credential, and an
/// engine.
fn entries(t: &TestStore, run: RunId) -> Vec<JournalEntry> {
    let text = |text: &str| text.to_owned();
    let whats = [
        JournalEvent::Commanded {
            command: text("cancel"), reason: text("nul: \u{1} \u{7f} quote: \" ü 💶")
        },
        JournalEvent::Answered { decision: text("approve"), comment: None, request: None },
        JournalEvent::Settled { promise: Some(text("p/1:ü")), key: None, settlement: text("resolved") },
        JournalEvent::Settled { promise: None, key: Some(text("stripe:ch_1")), settlement: text("rejected") },
        JournalEvent::TokenIssued { promise: text("p/1:ü"), expires_at: text("then") },
        JournalEvent::KeyReleased { kind: text("run"), key: text("k \"1\""), caller: None, reason: text("") },
        JournalEvent::SetUp { kind: text("credential"), id: text("cred_1"), change: text("created") },
        JournalEvent::SetUp { kind: text("source"), id: text("cred_1"), change: text("created") },
        JournalEvent::OnEntity {
            kind: text("invoice"),
            id: text("i/1"),
            operation: None,
            did: Box::new(JournalEvent::Stepped { step: text("pay"), key: None }),
        },
        JournalEvent::OnEntity {
            kind: text("invoice"),
            id: text("i/1"),
            operation: Some(text("op_1")),
            did: Box::new(JournalEvent::Resolved {
                resolution: Resolution::DidNotHappen,
                seconded_by: None,
                reason: text(""),
                request: None,
            }),
        },
        JournalEvent::Remarked { text: text("tom looked") },
        JournalEvent::RulingProposed {
            resolution: Resolution::Abandon,
            reason: text(""),
            seen: 1,
            request: text("r"),
        },
        JournalEvent::PayloadsRevealed { reason: text("a complaint") },
        JournalEvent::SignInsRefused { times: 2, examples: vec![text("192.0.2.7: no such key")] },
    ];
    let people = [
        through("cred_1", None, "desk"),
        through("cred_2", None, "desk"),
        through("cred_1", Some("Meg \"ü\""), "Meg \"ü\" (desk)"),
        Actor::new("tom", Role::Operator),
    ];
    let mut all: Vec<JournalEntry> = Vec::new();
    for (place, what) in whats.into_iter().enumerate() {
        let by = people[place % people.len()].clone();
        let at = t.now().plus(SECOND * (place as u32 / 3));
        let mut note = JournalEntry::on_workspace(WorkspaceId::default(), by, at, what);
        if place % 2 == 0 {
            note.run = run;
        }
        all.push(note);
    }
    all
}

/// S2.14: each filter, alone and combined, returns the same entries as the model.
pub(super) async fn every_filter_of_the_audit_log_finds_what_it_names(t: &TestStore) {
    let run = t.driven().await;
    let entries = entries(t, run.id());
    t.store.append_journal(entries.clone()).await.unwrap();
    t.store.append_journal(vec![note_of(&run, JournalEvent::Claimed { attempt: 1 })]).await.unwrap();
    let elsewhere = WorkspaceId::new("elsewhere").unwrap();
    let foreign = entries.iter().map(|note| JournalEntry { workspace: elsewhere.clone(), ..note.clone() });
    t.store.append_journal(foreign.collect()).await.unwrap();
    assert_eq!(notes_for(t, AuditFilter::default()).await, entries);
    let some = |text: &str| Some(text.to_owned());
    let mut filters = vec![
        AuditFilter { run: Some(run.id()), ..AuditFilter::default() },
        AuditFilter { credential: some("cred_1"), ..AuditFilter::default() },
        AuditFilter { credential: some("cred_2"), ..AuditFilter::default() },
        AuditFilter { credential: some("nobody"), ..AuditFilter::default() },
        AuditFilter { since: Some(t.now().plus(SECOND)), ..AuditFilter::default() },
        AuditFilter { until: Some(t.now().plus(SECOND)), ..AuditFilter::default() },
    ];
    for name in ["desk", "Meg \"ü\"", "tom", "Meg \"ü\" (desk)"] {
        filters.push(AuditFilter { name: some(name), ..AuditFilter::default() });
    }
    for note in &entries {
        filters.push(AuditFilter { action: Some(note.what.action()), ..AuditFilter::default() });
        if let Some(subject) = note.what.subject() {
            filters.push(AuditFilter { subject: Some(subject), ..AuditFilter::default() });
        }
    }
    let narrow = |filter: &AuditFilter| AuditFilter {
        credential: some("cred_1"),
        since: Some(t.now().plus(SECOND)),
        until: Some(t.now().plus(SECOND * 3)),
        ..filter.clone()
    };
    filters.extend(filters.clone().iter().map(narrow));
    for filter in filters {
        let expected: Vec<JournalEntry> = entries.iter().filter(|note| filter.fits(note)).cloned().collect();
        assert_eq!(notes_for(t, filter.clone()).await, expected, "{filter:?}");
    }
    let found =
        notes_for(t, AuditFilter { subject: Some(AuditSubject::promise("p/1:ü")), ..Default::default() });
    assert_eq!(found.await.len(), 2, "a settlement and a token");
    let desk = notes_for(t, AuditFilter { name: some("desk"), ..AuditFilter::default() }).await;
    let both =
        notes_for(t, AuditFilter { name: some("desk"), credential: some("cred_2"), ..Default::default() });
    assert!(desk.len() > both.await.len(), "credentials named alike can be told apart");
}

/// Pages are ordered by time, then by position, even if positions are in a different order.
pub(super) async fn the_audit_log_is_paged_by_time(t: &TestStore) {
    let run = t.driven().await;
    let mut entries = entries(t, run.id());
    entries.reverse();
    t.store.append_journal(entries.clone()).await.unwrap();
    entries.sort_by_key(|note| note.at);
    let page = async |filter: AuditFilter, after: Option<AuditCursor>| {
        let workspace = WorkspaceId::default();
        t.store.list_audit(ListAudit { workspace, filter, after, limit: 2 }).await.unwrap()
    };
    let since = Some(t.now().plus(SECOND));
    for filter in [
        AuditFilter::default(),
        AuditFilter { since, ..AuditFilter::default() },
        AuditFilter { credential: Some("cred_1".into()), ..AuditFilter::default() },
    ] {
        let (mut found, mut after): (Vec<JournalEntry>, Option<AuditCursor>) = (Vec::new(), None);
        loop {
            let next = page(filter.clone(), after).await;
            assert!(next.len() <= 2);
            let Some(last) = next.last() else { break };
            after = Some(AuditCursor { at: last.note.at, place: last.place });
            found.extend(next.into_iter().map(|placed| placed.note));
        }
        let expected: Vec<JournalEntry> = entries.iter().filter(|note| filter.fits(note)).cloned().collect();
        assert_eq!(found, expected, "{filter:?}");
    }
}

/// A stored signal is recorded in the audit log. A rejected or duplicate signal is not.
pub(super) async fn a_stored_signal_is_in_the_audit_log(t: &TestStore) {
    let run = t.driven().await;
    let send = |id: &str, why: &str| {
        let note = Some(noted_by(MEG, &run, why));
        t.store.send_signal(SendSignal { note, ..signal_to(&run, "go", Some(id)) })
    };
    must!(send("s1", "first").await.unwrap(), SignalOutcome::Stored { .. });
    must!(send("s1", "again").await.unwrap(), SignalOutcome::Duplicate);
    assert_eq!(notes_for(t, AuditFilter::default()).await, [noted_by(MEG, &run, "first")]);
    let ended = t.driven().await;
    let ended = t.write(&ended).await.fails_at("charge").fails("no").done().await;
    let note = Some(noted_by(MEG, &ended, "too late"));
    let late = SendSignal { note, ..signal_to(&ended, "go", None) };
    must!(t.store.send_signal(late).await.unwrap(), SignalOutcome::Ended(_));
    assert_eq!(notes_for(t, AuditFilter::default()).await.len(), 1);
}

fn settled_by_meg(t: &TestStore, promise: Option<&str>, key: Option<&str>) -> JournalEntry {
    let text = |text: Option<&str>| text.map(ToOwned::to_owned);
    let what =
        JournalEvent::Settled { promise: text(promise), key: text(key), settlement: "resolved".into() };
    JournalEntry::on_workspace(WorkspaceId::default(), through("cred_1", None, MEG), t.now(), what)
}

/// The audit log names the promise even if the caller settled it by key and did not know its id.
pub(super) async fn a_settlement_by_key_names_its_promise_in_the_audit_log(t: &TestStore) {
    let mut promise = standalone(t, "p1");
    promise.key = Some(hapax_engine::model::PromiseKey { key: key("k1"), keep_for: HOUR });
    must!(create(t, promise).await, CreateOutcome::Created(_));
    let settle = |of: &str| {
        let note = Some(settled_by_meg(t, None, Some(of)));
        t.store.settle_promise(SettlePromise { note, keep_for: Some(HOUR), ..by_key(of, "1") })
    };
    must!(settle("k1").await.unwrap(), SettleOutcome::Settled { .. });
    must!(settle("k1").await.unwrap(), SettleOutcome::AlreadySettled { .. });
    let of_promise = AuditFilter { subject: Some(AuditSubject::promise("p1")), ..AuditFilter::default() };
    assert_eq!(notes_for(t, of_promise).await, [settled_by_meg(t, Some("p1"), Some("k1"))]);
    // An early settlement has only the key.
    must!(settle("k2").await.unwrap(), SettleOutcome::KeptEarly { .. });
    must!(settle("k2").await.unwrap(), SettleOutcome::AlreadyKept { .. });
    let of_key = AuditFilter { subject: Some(AuditSubject::key("promise", "k2")), ..AuditFilter::default() };
    assert_eq!(notes_for(t, of_key).await, [settled_by_meg(t, None, Some("k2"))]);
    assert_eq!(notes_for(t, AuditFilter::default()).await.len(), 2);
    // The settlement of a run's promise is also found by the run.
    let run = t.driven().await;
    let run = t.write(&run).await.awaits_promise("payment", None).done().await;
    let settlement = settlement_of(&run, "payment", "1");
    let PromiseRef::Id(id) = &settlement.promise else { panic!("named by id") };
    let note = Some(settled_by_meg(t, Some(id.as_str()), None));
    let settled = t.store.settle_promise(SettlePromise { note, ..settlement.clone() }).await.unwrap();
    must!(settled, SettleOutcome::Settled { .. });
    let of_run = notes_for(t, AuditFilter { run: Some(run.id()), ..AuditFilter::default() }).await;
    must!(of_run.as_slice(), [JournalEntry { what: JournalEvent::Settled { promise: Some(found), .. }, .. }] if found == id.as_str());
}

/// An issued token is recorded in the audit log. A refused one is not.
pub(super) async fn an_issued_token_is_in_the_audit_log(t: &TestStore) {
    must!(create(t, standalone(t, "a")).await, CreateOutcome::Created(_));
    let put = |promise: &str, digest: u8| {
        let what = JournalEvent::TokenIssued { promise: promise.into(), expires_at: "then".into() };
        let by = through("cred_1", None, MEG);
        let note = Some(JournalEntry::on_workspace(WorkspaceId::default(), by, t.now(), what));
        let token = SettleToken {
            digest: [digest; 32],
            workspace: WorkspaceId::default(),
            promise: PromiseId::from_stored(promise),
            expires_at: t.now().plus(HOUR),
        };
        PutSettleToken { token, note }
    };
    let book = t.store.promise_store().expect("the store keeps promises");
    assert!(book.put_settle_token(put("a", 1)).await.unwrap());
    assert!(!book.put_settle_token(put("nothing", 2)).await.unwrap());
    let found = notes_for(t, AuditFilter { action: Some("token_issued".into()), ..Default::default() }).await;
    assert_eq!(found, put("a", 1).note.into_iter().collect::<Vec<_>>());
}

/// The start of an operation and its audit entry are one write. A repeated request adds no second entry.
pub(super) async fn a_step_taken_by_a_person_is_in_the_audit_log_once(t: &TestStore) {
    for (n, home) in t.homes().await.into_iter().enumerate() {
        let id = format!("i{n}");
        t.invoice(&home, &id, "approved").await;
        let close = t.close(&home, &id).key(&format!("k{n}"));
        let begun = close.begins().await;
        must!(close.again().send().await, BeginOperationOutcome::Recorded(_));
        let subject = Some(AuditSubject::entity(&begun.operation.entity.kind.to_string(), &id));
        let found = notes_for(t, AuditFilter { subject, ..AuditFilter::default() }).await;
        let [JournalEntry { by, what: JournalEvent::OnEntity { operation, did, .. }, at, .. }] =
            found.as_slice()
        else {
            panic!("one entry: {found:?}");
        };
        assert_eq!((by, at), (&Some(manager()), &t.now()));
        assert_eq!(operation, &Some(begun.id().to_string()));
        let step = JournalEvent::Stepped {
            step: begun.operation.step.to_string(),
            key: begun.operation.key.as_ref().map(ToString::to_string),
        };
        assert_eq!(**did, step);
        // The start itself comes from the operation.
        assert!(t.noted_on(&home, &id).await.is_empty());
    }
}

/// A manager's override is recorded even if the step would have been allowed without it.
pub(super) async fn an_override_that_was_not_needed_is_in_the_audit_log(t: &TestStore) {
    for (n, home) in t.homes().await.into_iter().enumerate() {
        let id = format!("o{n}");
        t.invoice(&home, &id, "approved").await;
        let begun = t.close(&home, &id).overridden("to be sure").begins().await;
        let subject = Some(AuditSubject::entity(&begun.operation.entity.kind.to_string(), &id));
        let found = notes_for(t, AuditFilter { subject, ..AuditFilter::default() }).await;
        let did = match found.as_slice() {
            [JournalEntry { what: JournalEvent::OnEntity { did, .. }, .. }] => did,
            _ => panic!("one entry: {found:?}"),
        };
        assert_eq!(**did, JournalEvent::Overridden { operation: None, reason: "to be sure".into() });
    }
}
