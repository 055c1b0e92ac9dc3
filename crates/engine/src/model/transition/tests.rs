//! How operations begin and end, as tables over their state and the authority of the writer.

use super::*;
use crate::model::{EntityId, Failure, Role};

const ANN: OwnerId = OwnerId::from_u128(0xa);
const BOB: OwnerId = OwnerId::from_u128(0xb);

fn name(text: &str) -> Name {
    Name::new("name", text).unwrap()
}

fn json(text: &str) -> Payload {
    Payload::parse(text).unwrap()
}

const fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn manager() -> Actor {
    Actor::new("meg", Role::Manager)
}

fn claim() -> ClaimTo {
    ClaimTo { into: name("closing"), revert_to: name("approved") }
}

/// A request to close an approved invoice that was read at version 1.
fn close() -> BeginOperation {
    BeginOperation {
        id: OperationId::from_u128(1),
        workspace: WorkspaceId::default(),
        entity: EntityRef { kind: name("invoice"), id: EntityId::new("i1").unwrap() },
        home: EntityStorage::BuiltIn,
        workflow: name("billing"),
        module: name("billing"),
        step: name("close"),
        requester: None,
        by: None,
        key: None,
        fingerprint: Fingerprint::from_bytes([1; 32]),
        input: json("1"),
        from: vec![name("approved")],
        to: name("closed"),
        claim: Some(claim()),
        transient: vec![name("closing")],
        recovery: Recovery::Revert,
        retry: RetryAnswer::Refused,
        irreversible: Irreversible::No,
        has_effect: true,
        document: None,
        grace: Duration::ZERO,
        overridden: None,
        seen: Version::new(1),
        run: None,
        owner: ANN,
    }
}

fn invoice(status: &str, version: u64) -> Entity {
    let entity = close().entity;
    Entity {
        entity,
        status: name(status),
        version: Version::new(version),
        data: json("{}"),
        updated_at: at(0),
    }
}

/// The operation that `close` begins, in this state.
pub(in crate::model) fn operation(state: OperationState) -> Operation {
    let facts = BeginFacts { entity: Some(invoice("approved", 1)), ..BeginFacts::default() };
    match decide_begin_operation(&close(), facts, at(0)) {
        BeginOperationOutcome::Begun { operation, .. } => Operation { state, ..*operation },
        other => panic!("{other:?}"),
    }
}

fn failure() -> Failure {
    Failure::unknown("no answer")
}

/// Every state. The last heartbeat of the pending one was at 100.
fn states() -> [OperationState; 6] {
    [
        OperationState::Pending { heard_at: at(100) },
        OperationState::Done { at: at(100), result: json("1") },
        OperationState::Rejected { at: at(100), failure: failure() },
        OperationState::Failed { at: at(100), failure: failure() },
        OperationState::Reverted { at: at(100), settled: false },
        OperationState::InDoubt { since: at(100) },
    ]
}

fn ends() -> [OperationEnd; 7] {
    [
        OperationEnd::Done { result: json("1"), data: None },
        OperationEnd::Rejected(failure()),
        OperationEnd::Failed(failure()),
        OperationEnd::Reverted,
        OperationEnd::InDoubt,
        OperationEnd::DidNotHappen,
        OperationEnd::TryAgain,
    ]
}

fn finish(by: FinishBy, end: OperationEnd) -> FinishOperation {
    FinishOperation {
        workspace: WorkspaceId::default(),
        operation: OperationId::from_u128(1),
        attempt: 1,
        by,
        end,
        tries: None,
        posts: Vec::new(),
        notes: Vec::new(),
    }
}

fn decide_finish_request(
    request: &FinishOperation,
    operation: Option<Operation>,
    entity: Option<Entity>,
) -> Result<FinishOperationOutcome, Invalid> {
    decide_finish_operation(request, FinishFacts { operation, entity, last_try: 0 }, at(200))
}

fn begun_word(begun: &BeginOperationOutcome) -> &'static str {
    match begun {
        BeginOperationOutcome::Begun { operation, .. } if operation.attempt == 2 => "begun, attempt 2",
        BeginOperationOutcome::Begun { .. } => "begun",
        BeginOperationOutcome::Recorded(_) => "recorded",
        BeginOperationOutcome::KeyConflict(_) => "key conflict",
        BeginOperationOutcome::ClaimFailed(Some(_)) => "claim failed",
        BeginOperationOutcome::ClaimFailed(None) => "claim failed, none",
        BeginOperationOutcome::NotAllowed(_) => "not allowed",
        BeginOperationOutcome::OverrideRequired(_) => "override required",
        BeginOperationOutcome::DocumentChanged(_) => "document changed",
        BeginOperationOutcome::Stale(_) => "stale",
        BeginOperationOutcome::NoSuchEntity => "no such entity",
    }
}

fn finish_word(finished: &FinishOperationOutcome) -> &'static str {
    match finished {
        FinishOperationOutcome::Finished { .. } => "F",
        FinishOperationOutcome::Again(_) => "A",
        FinishOperationOutcome::Lost(_) => "-",
        FinishOperationOutcome::Stale(_) => "S",
    }
}

/// G1.2: each authority finishes only what it covers. A repeated request recognises an end that was written;
/// everything else is lost.
#[test]
fn each_right_finishes_only_what_it_is_about() {
    let janitor = |unheard_since| FinishBy::Janitor { unheard_since: at(unheard_since) };
    // Each word has one letter per end, in the order of `ends`. Each column is a state, in the order of
    // `states`.
    let known = |pending, doubted| [pending, "A------", "-A-----", "--A----", "---A---", doubted];
    let table: [(&str, FinishBy, bool, [&str; 6]); 10] = [
        (
            "holder",
            FinishBy::Holder(ANN),
            false,
            ["FFFFFFF", "A------", "-A-----", "--A----", "-------", "----A--"],
        ),
        ("another", FinishBy::Holder(BOB), false, ["-------"; 6]),
        ("janitor", janitor(101), false, known("FFFFFF-", "----A--")),
        ("janitor, heard", janitor(100), false, known("-------", "----A--")),
        ("run", FinishBy::Run, true, known("FFFFFF-", "----A--")),
        ("no run", FinishBy::Run, false, known("-------", "----A--")),
        ("people", FinishBy::People, false, known("-------", "FFFFFF-")),
        ("probe", FinishBy::Probe, false, known("-------", "FFFFFF-")),
        ("late result", FinishBy::LateResult, false, known("-------", "F---A--")),
        (
            "holder of a run",
            FinishBy::Holder(ANN),
            true,
            ["FFFFFFF", "A------", "-A-----", "--A----", "-------", "----A--"],
        ),
    ];
    for (right, by, has_run, expected) in table {
        for (state, expected) in states().into_iter().zip(expected) {
            let run = has_run.then(|| RunId::from_u128(1));
            let operation = Operation { run, ..operation(state.clone()) };
            let decide = |end| {
                let entity = Some(invoice("closing", 2));
                decide_finish_request(&finish(by, end), Some(operation.clone()), entity).unwrap()
            };
            let words: String = ends().map(|end| finish_word(&decide(end))).concat();
            assert_eq!(words, expected, "{right}, {:?}", state.status());
        }
    }
}

/// G1.2: an attempt other than the current one finishes nothing, whatever its authority, and is not
/// recognised.
#[test]
fn another_attempt_finishes_nothing() {
    let rights = [
        FinishBy::Holder(ANN),
        FinishBy::Janitor { unheard_since: at(101) },
        FinishBy::Run,
        FinishBy::LateResult,
        FinishBy::Probe,
        FinishBy::People,
    ];
    for attempt in [0, 2] {
        for (state, by) in states().into_iter().flat_map(|state| rights.map(|by| (state.clone(), by))) {
            let operation = Operation { run: Some(RunId::from_u128(1)), ..operation(state) };
            for end in ends() {
                let request = FinishOperation { attempt, ..finish(by, end) };
                let entity = Some(invoice("closing", 2));
                let finished = decide_finish_request(&request, Some(operation.clone()), entity);
                assert_eq!(finished, Ok(FinishOperationOutcome::Lost(Some(Box::new(operation.clone())))));
            }
        }
    }
    let nothing = decide_finish_request(&finish(FinishBy::People, OperationEnd::Reverted), None, None);
    assert_eq!(nothing, Ok(FinishOperationOutcome::Lost(None)));
}

/// A repeated request recognises an end only if it is the same.
#[test]
fn an_end_that_says_something_else_is_not_known_again() {
    let others = [
        OperationEnd::Done { result: json("2"), data: None },
        OperationEnd::Rejected(Failure::permanent("other")),
        OperationEnd::Failed(Failure::permanent("other")),
    ];
    for (state, other) in states()[1..4].iter().zip(others) {
        let decided = decide_finish_request(
            &finish(FinishBy::Holder(ANN), other),
            Some(operation(state.clone())),
            None,
        );
        assert!(matches!(decided, Ok(FinishOperationOutcome::Lost(Some(_)))), "{decided:?}");
    }
}

/// S1.28, S1.29: how the entity changes, depending on its state and on whether it was claimed.
#[test]
fn an_end_moves_only_what_the_operation_holds() {
    let closed = Some(("closed", 3));
    let approved = Some(("approved", 3));
    // State of the entity, whether the step has a claim, and the result of Done, Rejected, Failed, Reverted
    // and InDoubt.
    type EntityStatus = Option<(&'static str, u64)>;
    type Row = (EntityStatus, bool, [Result<EntityStatus, ()>; 5]);
    // `DidNotHappen` has the same result as `Reverted`. `TryAgain` changes nothing.
    let table: [Row; 9] = [
        (Some(("closing", 2)), true, [Ok(closed), Ok(approved), Ok(approved), Ok(approved), Ok(None)]),
        (
            Some(("closing", 7)),
            true,
            [
                Ok(Some(("closed", 8))),
                Ok(Some(("approved", 8))),
                Ok(Some(("approved", 8))),
                Ok(Some(("approved", 8))),
                Ok(None),
            ],
        ),
        (Some(("approved", 2)), true, [Err(()), Ok(None), Ok(None), Ok(None), Ok(None)]),
        (Some(("paid", 3)), true, [Err(()), Ok(None), Ok(None), Ok(None), Ok(None)]),
        (None, true, [Err(()), Ok(None), Ok(None), Ok(None), Ok(None)]),
        (Some(("approved", 2)), false, [Ok(closed), Ok(None), Ok(None), Ok(None), Ok(None)]),
        (Some(("approved", 3)), false, [Err(()), Ok(None), Ok(None), Ok(None), Ok(None)]),
        (Some(("overdue", 2)), false, [Err(()), Ok(None), Ok(None), Ok(None), Ok(None)]),
        (None, false, [Err(()), Ok(None), Ok(None), Ok(None), Ok(None)]),
    ];
    for (standing, has_claim, expected) in table {
        let entity = standing.map(|(status, version)| invoice(status, version));
        let claim = has_claim.then(claim);
        let pending = Operation { claim, ..operation(states()[0].clone()) };
        let more = [expected[3], Ok(None)];
        for (end, expected) in ends().into_iter().zip(expected.into_iter().chain(more)) {
            let place = format!("{standing:?}, claimed: {has_claim}, {end:?}");
            let request = finish(FinishBy::Holder(ANN), end);
            let decided = decide_finish_request(&request, Some(pending.clone()), entity.clone());
            match (decided.unwrap(), expected) {
                (FinishOperationOutcome::Finished { entity: moved, operation, .. }, Ok(expected)) => {
                    let there = expected
                        .map(|(status, version)| Entity { updated_at: at(200), ..invoice(status, version) });
                    assert_eq!(moved, there, "{place}");
                    assert_eq!(operation.state.at(), at(200), "{place}");
                    let state = pending.state.clone();
                    assert_eq!(Operation { state, ..*operation }, pending, "{place}");
                }
                (FinishOperationOutcome::Stale(found), Err(())) => assert_eq!(found, entity, "{place}"),
                other => panic!("{place}: {other:?}"),
            }
        }
    }
}

/// Only success merges data into the entity. The data must be an object.
#[test]
fn success_lays_data_over_the_entity() {
    let entity = Entity { data: json(r#"{"a":1,"b":2}"#), ..invoice("closing", 2) };
    let decide = |data: &str| {
        let end = OperationEnd::Done { result: json("1"), data: Some(json(data)) };
        let pending = Some(operation(states()[0].clone()));
        decide_finish_request(&finish(FinishBy::Holder(ANN), end), pending, Some(entity.clone()))
    };
    match decide(r#"{"b":3}"#) {
        Ok(FinishOperationOutcome::Finished { entity: Some(entity), .. }) => {
            assert_eq!(entity.data.as_str(), r#"{"a":1,"b":3}"#);
        }
        other => panic!("{other:?}"),
    }
    assert!(decide("[]").is_err() && decide("null").is_err());
}

/// S2.44: what is recorded under the key decides first, whatever the entity is like.
#[test]
fn a_recorded_outcome_decides_first() {
    let table = [
        ("begun", "recorded"),
        ("recorded", "recorded"),
        ("recorded", "recorded"),
        ("recorded", "recorded"),
        ("stale", "stale"),
        ("recorded", "recorded"),
    ];
    for (state, (own, others)) in states().into_iter().zip(table) {
        let again = BeginOperation { id: OperationId::from_u128(2), ..close() };
        let stranger = BeginOperation { owner: BOB, ..close() };
        for (request, expected) in [(close(), own), (again, others), (stranger, others)] {
            let facts = |entity| BeginFacts {
                known: Some(operation(state.clone())),
                entity,
                ..BeginFacts::default()
            };
            let decided = decide_begin_operation(&request, facts(Some(invoice("paid", 9))), at(200));
            assert_eq!(begun_word(&decided), expected, "{:?}", state.status());
            let other = BeginOperation { fingerprint: Fingerprint::from_bytes([2; 32]), ..request };
            let decided = decide_begin_operation(&other, facts(None), at(200));
            assert_eq!(begun_word(&decided), "key conflict", "{:?}", state.status());
        }
    }
}

/// S1.26, S1.27, S1.35: the entity decides next: its holder, the version that was read, and its status.
#[test]
fn how_the_entity_stands_decides_next() {
    let pending = || operation(states()[0].clone());
    let table: [(Option<Entity>, bool, &str); 8] = [
        (None, false, "no such entity"),
        (Some(invoice("closing", 2)), true, "claim failed"),
        (Some(invoice("approved", 1)), true, "claim failed"),
        (Some(invoice("approved", 2)), false, "stale"),
        (Some(invoice("closing", 2)), false, "stale"),
        (Some(invoice("closing", 1)), false, "claim failed, none"),
        (Some(invoice("draft", 1)), false, "not allowed"),
        (Some(invoice("approved", 1)), false, "begun"),
    ];
    for (entity, is_held, expected) in table {
        let place = format!("{entity:?}, held: {is_held}");
        let holder = is_held.then(pending);
        let facts = BeginFacts { entity, holder, ..BeginFacts::default() };
        assert_eq!(begun_word(&decide_begin_operation(&close(), facts, at(200))), expected, "{place}");
    }
}

/// S2.17 to S2.20: only a step that returns its result returns it, and only after it was done.
#[test]
fn only_what_was_done_is_returned() {
    for (n, state) in states().into_iter().enumerate() {
        for (retry, status) in [
            (RetryAnswer::Returns, "closed"),
            (RetryAnswer::Refused, "closed"),
            (RetryAnswer::Returns, "closing"),
            (RetryAnswer::Returns, "approved"),
        ] {
            let request = BeginOperation { retry, id: OperationId::from_u128(2), ..close() };
            let last = Some(operation(state.clone()));
            let facts = BeginFacts { entity: Some(invoice(status, 1)), last, ..BeginFacts::default() };
            let expected = match (retry, status) {
                (_, "closing") => "claim failed, none",
                (_, "approved") => "begun",
                (RetryAnswer::Returns, _) if n == 1 => "recorded",
                _ => "not allowed",
            };
            let decided = decide_begin_operation(&request, facts, at(200));
            assert_eq!(begun_word(&decided), expected, "{retry:?}, {status}, {:?}", state.status());
        }
    }
}

/// S2.46, G1.4: an irreversible step that may have happened needs an override, which is recorded.
#[test]
fn an_irreversible_step_that_may_have_happened_needs_a_word() {
    let certain = OperationState::Failed { at: at(100), failure: Failure::permanent("no") };
    let settled = OperationState::Reverted { at: at(100), settled: true };
    let states = states().into_iter().chain([certain, settled]);
    use Irreversible::{Each, No, Once};
    // Pairs: is the step done or may it be, and is that unknown?
    let facts = [(true, true), (true, false), (false, false), (true, true), (true, true), (true, true)];
    for (state, (bars, doubtful)) in states.zip(facts.into_iter().chain([(false, false), (false, false)])) {
        for (irreversible, has_word) in
            [(Once, false), (Once, true), (No, false), (No, true), (Each, false), (Each, true)]
        {
            let word = Override { by: manager(), reason: "I know".into() };
            let request = BeginOperation {
                id: OperationId::from_u128(2),
                irreversible,
                overridden: has_word.then_some(word),
                ..close()
            };
            let last = Some(operation(state.clone()));
            let facts = BeginFacts { entity: Some(invoice("approved", 1)), last, ..BeginFacts::default() };
            let decided = decide_begin_operation(&request, facts, at(200));
            let place = format!("{state:?}, irreversible: {irreversible:?}, word: {has_word}");
            let needs_word = bars && irreversible == Once;
            let takes_word = has_word && (needs_word || doubtful);
            match decided {
                BeginOperationOutcome::OverrideRequired(found) => {
                    assert!(needs_word && !has_word, "{place}");
                    assert_eq!(found.id, OperationId::from_u128(1));
                }
                BeginOperationOutcome::Begun { notes, operation, .. } if takes_word => {
                    assert_eq!(operation.effect_of, operation.id, "a new effect: {place}");
                    assert_eq!((notes.len(), &notes[0].by), (1, &Some(manager())), "{place}");
                    assert_eq!(notes[0].operation, Some(OperationId::from_u128(2)));
                    assert!(notes[0].to_audit_entry().is_some());
                }
                BeginOperationOutcome::Begun { notes, .. } => {
                    assert!(!needs_word, "{place}");
                    assert_eq!(
                        notes.len(),
                        usize::from(has_word),
                        "a word that was not needed is audited: {place}"
                    );
                    let is_overridden = |note: &EntityJournalEntry| {
                        matches!(note.what, JournalEvent::Overridden { operation: None, .. })
                    };
                    assert!(notes.iter().all(is_overridden), "{place}");
                }
                other => panic!("{place}: {other:?}"),
            }
        }
    }
}

/// G1.6: a reverted operation continues as another attempt of the same operation, by another owner.
#[test]
fn a_reverted_operation_continues_as_another_attempt() {
    let known = Operation { key: Some(IdempotencyKey::new("k").unwrap()), ..operation(states()[4].clone()) };
    let request = BeginOperation {
        id: OperationId::from_u128(2),
        key: known.key.clone(),
        owner: BOB,
        run: Some(RunId::from_u128(2)),
        seen: Version::new(3),
        ..close()
    };
    let facts =
        BeginFacts { known: Some(known), entity: Some(invoice("approved", 3)), ..BeginFacts::default() };
    match decide_begin_operation(&request, facts, at(200)) {
        BeginOperationOutcome::Begun { operation, entity, notes, .. } => {
            assert_eq!(
                (operation.id, operation.attempt, operation.owner),
                (OperationId::from_u128(1), 2, BOB)
            );
            assert_eq!((operation.began_at, operation.version), (at(0), Version::new(4)));
            assert_eq!(
                operation.run,
                Some(RunId::from_u128(1)),
                "the run of the operation, not of the request"
            );
            assert_eq!(operation.state, OperationState::Pending { heard_at: at(200) });
            assert_eq!((entity.status, entity.version), (name("closing"), Version::new(4)));
            assert_eq!(notes.len(), 1);
            assert_eq!(notes[0].what, JournalEvent::TriedAgain { attempt: 2 });
        }
        other => panic!("{other:?}"),
    }
}

/// A step without a claim leaves the entity unchanged.
#[test]
fn a_step_without_a_claim_leaves_the_entity_as_it_is() {
    let request = BeginOperation { claim: None, ..close() };
    let entity = invoice("approved", 1);
    let facts = BeginFacts { entity: Some(entity.clone()), ..BeginFacts::default() };
    match decide_begin_operation(&request, facts, at(200)) {
        BeginOperationOutcome::Begun { operation, entity: found, .. } => {
            assert_eq!((operation.version, found), (Version::new(1), entity));
            assert!(!operation.holds_entity());
        }
        other => panic!("{other:?}"),
    }
}

/// The newest operation of the step is read only where it affects the answer.
#[test]
fn the_newest_operation_is_looked_for_where_it_matters() {
    let (refused, returns) = (RetryAnswer::Refused, RetryAnswer::Returns);
    let table = [
        (Irreversible::No, false, refused, "approved", false),
        (Irreversible::No, false, refused, "closed", false),
        (Irreversible::Each, false, refused, "approved", false),
        (Irreversible::No, false, returns, "approved", false),
        (Irreversible::No, false, returns, "closed", true),
        (Irreversible::Once, false, refused, "approved", true),
        (Irreversible::Once, false, refused, "closed", true),
        (Irreversible::No, true, refused, "approved", true),
        (Irreversible::Each, true, refused, "closed", true),
    ];
    for (irreversible, has_effect, retry, status, expected) in table {
        let request = BeginOperation { irreversible, has_effect, retry, ..close() };
        let place = format!("{irreversible:?}, effect: {has_effect}, {retry:?}, {status}");
        assert_eq!(request.asks_for_last(&invoice(status, 1)), expected, "{place}");
        assert!(request.may_ask_for_last() || !expected, "{place}");
    }
}

/// Begins another operation after `last` and returns it.
fn begin_after(last: &Operation, request: BeginOperation) -> Operation {
    let last = Some(last.clone());
    let facts = BeginFacts { entity: Some(invoice("approved", 1)), last, ..BeginFacts::default() };
    match decide_begin_operation(&request, facts, at(200)) {
        BeginOperationOutcome::Begun { operation, .. } => *operation,
        other => panic!("{other:?}"),
    }
}

/// CONTRACT 8: the operation after one that may have happened uses its effect key. A result or a known
/// failure starts a new effect.
#[test]
fn an_operation_that_may_have_happened_keeps_its_effect_key() {
    let certain = OperationState::Failed { at: at(100), failure: Failure::permanent("no") };
    let settled = OperationState::Reverted { at: at(100), settled: true };
    let cases = states().into_iter().chain([certain, settled]).zip([
        (true, true),
        (false, false),
        (false, false),
        (true, true),
        (true, true),
        (true, true),
        (false, false),
        // It did not happen. The same key is as good as a new one, and safer if someone was wrong.
        (true, false),
    ]);
    for (state, (goes_on, may_repeat)) in cases {
        let last = operation(state.clone());
        let next = BeginOperation { id: OperationId::from_u128(2), ..close() };
        let other_input = BeginOperation { fingerprint: Fingerprint::from_bytes([2; 32]), ..next.clone() };
        for request in [next.clone(), other_input] {
            let begun = begin_after(&last, request);
            let effect_of = if goes_on { last.id } else { begun.id };
            assert_eq!((begun.effect_of, begun.may_repeat), (effect_of, may_repeat), "{state:?}");
            assert_eq!(begun.tries_before, if goes_on { last.tries } else { 0 }, "{state:?}");
        }
        let without = BeginOperation { has_effect: false, ..next };
        assert_eq!(begin_after(&last, without).effect_of, OperationId::from_u128(2), "{state:?}");
    }
}

/// An unclaimed step may have several effects at once. Only the same request continues one, and only after it
/// has ended.
#[test]
fn an_unclaimed_step_goes_on_only_with_the_same_request() {
    let next = BeginOperation { id: OperationId::from_u128(2), claim: None, ..close() };
    let other = BeginOperation { fingerprint: Fingerprint::from_bytes([2; 32]), ..next.clone() };
    for (n, state) in states().into_iter().enumerate() {
        let last = operation(state.clone());
        let is_open = [3, 4].contains(&n);
        assert_eq!(begin_after(&last, next.clone()).effect_of == last.id, is_open, "{state:?}");
        assert_ne!(begin_after(&last, other.clone()).effect_of, last.id, "{state:?}");
    }
}

/// A known failure of a later operation does not resolve an earlier one under the same key.
#[test]
fn a_doubt_is_passed_on_until_the_outcome_is_known() {
    let reverted = operation(states()[4].clone());
    let id = |n| OperationId::from_u128(n);
    let declined = OperationState::Failed { at: at(100), failure: Failure::permanent("no") };
    let rejected = OperationState::Rejected { at: at(100), failure: Failure::permanent("no") };
    for known in [declined, rejected] {
        let second = begin_after(&reverted, BeginOperation { id: id(2), ..close() });
        let second = Operation { state: known, ..second };
        assert!(second.leaves_doubt());
        let third = begin_after(&second, BeginOperation { id: id(3), ..close() });
        assert_eq!((third.effect_of, third.tries_before), (reverted.id, 2));
        let done = OperationState::Done { at: at(100), result: json("1") };
        let third = Operation { state: done, ..third };
        assert!(!third.leaves_doubt());
        let fourth = begin_after(&third, BeginOperation { id: id(4), ..close() });
        assert_eq!((fourth.effect_of, fourth.done_before, fourth.may_repeat), (id(4), true, false));
        let fourth = Operation { state: rejected_by_action(), ..fourth };
        assert!(fourth.needs_override(), "the third has done it");
    }
}

fn rejected_by_action() -> OperationState {
    OperationState::Rejected { at: at(100), failure: Failure::permanent("no") }
}

/// CONTRACT 8: an operation begins only under the current document. A recorded one is returned in any case.
#[test]
fn an_operation_begins_only_under_the_document_as_it_is() {
    let of = |version| DocumentRef { item: name("doc"), version: Version::new(version) };
    let request = BeginOperation { document: Some(of(1)), ..close() };
    let facts = |document: Option<u64>, known| BeginFacts {
        known,
        entity: Some(invoice("approved", 1)),
        document: document.map(Version::new),
        ..BeginFacts::default()
    };
    let word = |document, known| {
        let decided = decide_begin_operation(&request, facts(document, known), at(200));
        begun_word(&decided)
    };
    assert_eq!(word(Some(1), None), "begun");
    assert_eq!(word(Some(2), None), "document changed");
    assert_eq!(word(None, None), "document changed");
    assert_eq!(word(Some(2), Some(operation(states()[1].clone()))), "recorded");
    assert_eq!(word(Some(2), Some(operation(states()[0].clone()))), "begun", "its own, begun before");
    assert_eq!(word(Some(2), Some(operation(states()[4].clone()))), "document changed", "another attempt");
    let begun = decide_begin_operation(&request, facts(Some(1), None), at(200));
    assert!(
        matches!(begun, BeginOperationOutcome::Begun { operation, .. } if operation.document == Some(Version::new(1)))
    );
}
