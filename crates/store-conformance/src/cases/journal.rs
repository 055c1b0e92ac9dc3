//! The journal: append-only entries, each with its subject.

use hapax_engine::limits::MAX_PAGE;
use hapax_engine::model::{
    Actor, EffectClass, EffectKey, Evidence, Failure, Fence, Generation, JournalEntry, JournalEvent,
    Occurrence, Origin, Resolution, Role, RunCommand, RunHead, RunId, StepId, Subscribers, WorkspaceId,
};
use hapax_engine::store::{
    CommandRun, CommitOutcome, ListJournal, RunCommandOutcome, SettleOutcome, SettlePromise,
};

use crate::fixture::*;
use crate::must;

fn entered(run: &RunHead, attempt: u32) -> JournalEntry {
    note_of(run, JournalEvent::Claimed { attempt })
}

/// An entry of each kind, with and without each optional field.
fn every_kind(run: &RunHead) -> Vec<JournalEntry> {
    let failure = || Failure::unknown("the \"line\" broke: ü").with_code("408").retry_after(SECOND);
    let origin = Origin {
        credential: "cred-7".into(),
        role: "admin".into(),
        person: Some("Meg \"ü\"".into()),
        issuer: Some("https://login.example".into()),
        subject: Some("u-1 \"ü\"".into()),
        address: Some("::1".into()),
        trace_id: Some("4bf92f3577b34da6a3ce929d0e0e4736".into()),
    };
    let meg = || Actor { origin: Some(origin.clone()), ..Actor::new("Meg O'Hara 💶", Role::Manager) };
    let tom = || Actor::new("tom", Role::Operator);
    let output = serde_json::json!({ "id": 7, "amount": 1.0, "nested": [null, true] });
    let resolutions = [
        Resolution::Happened { output: output.clone() },
        Resolution::DidNotHappen,
        Resolution::Compensate { output },
        Resolution::Abandon,
    ];
    let mut all = vec![
        JournalEvent::Claimed { attempt: 1 },
        JournalEvent::Failed { attempt: 2, failure: failure() },
        JournalEvent::Doubted { attempt: 3, failure: failure() },
        JournalEvent::Probed { answer: "unknown".into() },
        JournalEvent::Refused { attempt: 7, occurrence: None },
        JournalEvent::Refused { attempt: 7, occurrence: Some(Occurrence::Happened) },
        JournalEvent::Attempted { attempt: 2, occurrence: Occurrence::MayHaveHappened },
        JournalEvent::Superseded { attempt: 2, occurrence: Occurrence::DidNotHappen },
        JournalEvent::RepeatAllowed {
            attempt: 1,
            seconded_by: Some(tom()),
            reason: "the paper was empty".into(),
        },
        JournalEvent::Commanded { command: "cancel".into(), reason: String::new() },
        JournalEvent::Redelivered { reason: "asked\nagain".into() },
        JournalEvent::PayloadsRevealed { reason: "the customer asks \"why\"".into() },
        JournalEvent::SignInsRefused { times: u64::from(u32::MAX) + 1, examples: vec!["ü: no role".into()] },
    ];
    all.extend(resolutions.clone().map(|resolution| JournalEvent::RulingProposed {
        resolution,
        reason: "the list of the provider does not have it".into(),
        seen: 7,
        request: "r 0".into(),
    }));
    all.extend(resolutions.map(|resolution| JournalEvent::Resolved {
        resolution,
        seconded_by: Some(tom()),
        reason: "seen in the provider's list".into(),
        request: Some("r 1".into()),
    }));
    let note = |(place, what): (usize, JournalEvent)| JournalEntry {
        step: (place % 2 == 0).then(|| StepId::from_stored("wire~undo#2")),
        owner: (place % 3 > 0).then_some(BOB),
        by: [None, Some(meg()), Some(tom())][place % 3].clone(),
        generation: Generation::new(place as u32),
        fence: Fence::new(place as u64),
        evidence: (place % 4 > 0).then(|| Evidence {
            effect: EffectKey::from_stored("run_7:wire \"ü\""),
            class: EffectClass::ALL[place % 3],
            attempt: place as u32,
            by_key: place % 5 == 1,
            occurrence: Occurrence::ALL[place % 3],
        }),
        ..note_of(run, what)
    };
    all.into_iter().enumerate().map(note).collect()
}

/// The entries of a write are stored with it, in order and with all fields.
pub(super) async fn a_write_brings_its_notes(t: &TestStore) {
    let run = t.driven().await;
    let notes = every_kind(&run);
    let write =
        notes.iter().fold(t.write(&run).await.does("charge"), |write, note| write.notes(note.clone()));
    write.done().await;
    assert_eq!(t.notes().await, notes);
}

/// Invariant 3: a refused write adds no entries.
pub(super) async fn a_refused_write_notes_nothing(t: &TestStore) {
    let run = t.driven().await;
    let late = t.write(&run).await.does("charge").notes(entered(&run, 1)).advance();
    t.write(&run).await.does("ship").done().await;
    must!(t.store.commit_run(late.clone()).await.unwrap(), CommitOutcome::Stale(_));
    t.pass(LEASE);
    t.claim_one(BOB).await;
    must!(t.store.commit_run(late).await.unwrap(), CommitOutcome::LeaseLost);
    assert_eq!(t.notes().await, []);
}

/// A repeated write is recognised, and adds no entries.
pub(super) async fn a_write_sent_again_notes_nothing_twice(t: &TestStore) {
    let run = t.driven().await;
    let write = t.write(&run).await.does("charge").notes(entered(&run, 1)).advance();
    for _ in 0..3 {
        must!(t.store.commit_run(write.clone()).await.unwrap(), CommitOutcome::Committed { .. });
    }
    assert_eq!(t.notes().await, write.notes);
}

/// Only the settlement that settles a promise is recorded.
pub(super) async fn only_what_settles_a_promise_is_noted(t: &TestStore) {
    let run = t.driven().await;
    let soon = t.now().plus(SECOND);
    let write = t.write(&run).await.awaits_promise("payment", None).awaits_promise("late", Some(soon));
    let run = write.done().await;
    let settle = |step: &str, why: &str| {
        let note = Some(noted_by(MEG, &run, why));
        t.store.settle_promise(SettlePromise { note, ..settlement_of(&run, step, "1") })
    };
    must!(settle("payment", "first").await.unwrap(), SettleOutcome::Settled { .. });
    must!(settle("payment", "again").await.unwrap(), SettleOutcome::AlreadySettled { .. });
    t.pass(SECOND);
    must!(settle("late", "too late").await.unwrap(), SettleOutcome::TimedOut { .. });
    must!(settle("nothing", "unheard of").await.unwrap(), SettleOutcome::NoSuchPromise);
    assert_eq!(t.notes().await, [noted_by(MEG, &run, "first")]);
}

/// Only a command that takes effect is recorded.
pub(super) async fn only_a_command_that_is_carried_out_is_noted(t: &TestStore) {
    let run = t.pending().await;
    let failed = t.driven().await;
    let failed = t.write(&failed).await.fails_at("charge").fails("no").done().await;
    let steer = |run: &RunHead, command: RunCommand, why: &str| {
        let note = Some(noted_by(MEG, run, why));
        let workspace = run.facts.workspace.clone();
        t.store.command_run(CommandRun {
            workspace,
            run: run.id(),
            command,
            expected: None,
            note,
            announce: Subscribers::default(),
        })
    };
    must!(steer(&run, RunCommand::Pause, "pause").await.unwrap(), RunCommandOutcome::Accepted(_));
    must!(steer(&run, RunCommand::Pause, "again").await.unwrap(), RunCommandOutcome::Refused(..));
    must!(steer(&failed, retry(), "retry").await.unwrap(), RunCommandOutcome::Accepted(_));
    must!(steer(&run, cancel(), "cancel").await.unwrap(), RunCommandOutcome::Accepted(_));
    must!(steer(&run, cancel(), "again").await.unwrap(), RunCommandOutcome::Refused(..));
    let stale = CommandRun {
        workspace: failed.facts.workspace.clone(),
        run: failed.id(),
        command: cancel(),
        expected: Some(failed.version),
        note: Some(noted_by(MEG, &failed, "stale")),
        announce: Subscribers::default(),
    };
    must!(t.store.command_run(stale).await.unwrap(), RunCommandOutcome::Refused(..));
    let expected = [(&run, "pause"), (&failed, "retry"), (&run, "cancel")];
    let mut notes = t.notes().await;
    notes.retain(|note| !note.is_superseded_record());
    assert_eq!(notes, expected.map(|(run, why)| noted_by(MEG, run, why)));
}

/// A worker that lost a run may still append its observations, even about a deleted run.
pub(super) async fn notes_are_appended_without_a_guard(t: &TestStore) {
    let run = t.driven().await;
    t.pass(LEASE);
    t.claim_one(BOB).await;
    let gone = JournalEntry { run: RunId::from_u128(7), ..entered(&run, 2) };
    let notes = vec![
        note_of(&run, JournalEvent::Refused { attempt: 1, occurrence: None }),
        gone,
        noted_by(MEG, &run, "looked"),
    ];
    t.store.append_journal(notes.clone()).await.unwrap();
    t.store.append_journal(Vec::new()).await.unwrap();
    assert_eq!(t.notes().await, notes);
    assert_eq!(t.head(&run).await.version.get(), 2, "the run is not touched");
}

/// The journal is read oldest first, in pages, from any position.
pub(super) async fn notes_are_read_in_order_and_in_pages(t: &TestStore) {
    let run = t.driven().await;
    let notes: Vec<JournalEntry> = (1..=5).map(|attempt| entered(&run, attempt)).collect();
    t.store.append_journal(notes[..3].to_vec()).await.unwrap();
    t.write(&run).await.does("charge").notes(notes[3].clone()).notes(notes[4].clone()).done().await;
    let (mut read, mut after) = (Vec::new(), 0);
    loop {
        let page = t.placed_notes(ListJournal { after, limit: 2, ..t.all_notes() }).await;
        let Some(last) = page.last() else { break };
        assert!(page.len() <= 2 && page[0].place > after, "{page:?}");
        after = last.place;
        read.extend(page.into_iter().map(|placed| placed.note));
    }
    assert_eq!(read, notes);
    assert_eq!(
        t.placed_notes(ListJournal { limit: 0, ..t.all_notes() }).await.len(),
        1,
        "a page is not empty"
    );
    assert!(t.placed_notes(ListJournal { after: u64::MAX, ..t.all_notes() }).await.is_empty());
}

/// A list can be filtered by run, by people's actions, or by both, and always covers one workspace.
pub(super) async fn the_journal_is_narrowed(t: &TestStore) {
    let (one, two) = (t.driven().await, t.driven().await);
    let abroad = t.order().workspace("abroad").granted_to(ANN).start().await;
    let notes = vec![
        entered(&one, 1),
        noted_by(MEG, &two, "2"),
        entered(&abroad, 3),
        noted_by(MEG, &one, "4"),
        entered(&two, 5),
        noted_by(MEG, &abroad, "6"),
    ];
    t.store.append_journal(notes.clone()).await.unwrap();
    let list = |request: ListJournal| async {
        t.placed_notes(request).await.into_iter().map(|placed| placed.note).collect::<Vec<_>>()
    };
    let pick = |places: &[usize]| places.iter().map(|place| notes[*place].clone()).collect::<Vec<_>>();
    let all = t.all_notes();
    let of = |run: &RunHead| ListJournal { run: Some(run.id()), ..all.clone() };
    assert_eq!(list(all.clone()).await, pick(&[0, 1, 3, 4]));
    assert_eq!(list(of(&one)).await, pick(&[0, 3]));
    assert_eq!(list(ListJournal { by_people: true, ..all.clone() }).await, pick(&[1, 3]));
    assert_eq!(list(ListJournal { by_people: true, ..of(&two) }).await, pick(&[1]));
    assert_eq!(list(of(&abroad)).await, pick(&[]), "it is of another workspace");
    let elsewhere = |name: &str| ListJournal { workspace: WorkspaceId::new(name).unwrap(), ..all.clone() };
    assert_eq!(list(elsewhere("abroad")).await, pick(&[2, 5]));
    assert_eq!(list(elsewhere("nowhere")).await, pick(&[]));
    for narrow in [of(&two), ListJournal { by_people: true, ..all.clone() }] {
        let first = t.placed_notes(ListJournal { limit: 1, ..narrow.clone() }).await;
        let rest = t.placed_notes(ListJournal { after: first[0].place, ..narrow.clone() }).await;
        assert_eq!((first.len(), rest.len()), (1, 1), "{narrow:?}");
    }
}

/// A new generation keeps the entries of the earlier ones.
pub(super) async fn notes_outlive_their_generation(t: &TestStore) {
    let run = t.driven().await;
    let before = entered(&run, 1);
    let run = t.write(&run).await.does("charge").notes(before.clone()).done().await;
    let next = t.write(&run).await.continues_with("2").notes(entered(&run, 2)).done().await;
    assert_eq!(t.notes().await, [before, entered(&run, 2)]);
    assert_eq!(next.generation.get(), 1);
}

/// A purged run takes its entries along, except for people's actions, which are the audit log.
pub(super) async fn actions_of_people_outlive_the_run(t: &TestStore) {
    let (gone, kept) = (t.driven().await, t.driven().await);
    for run in [&gone, &kept] {
        let write = t.write(run).await.does("charge").notes(entered(run, 1)).notes(noted_by(MEG, run, "x"));
        write.done().await;
    }
    let held = t.head(&gone).await;
    t.write(&held).await.completes("1").done().await;
    t.pass(SECOND);
    assert_eq!(t.purge().await.runs, 1);
    let left = [noted_by(MEG, &gone, "x"), entered(&kept, 1), noted_by(MEG, &kept, "x")];
    assert_eq!(t.notes().await, left);
}

/// A position is never reused, even if its entry is deleted, so a reader that resumes from it misses nothing.
pub(super) async fn a_place_is_never_given_twice(t: &TestStore) {
    let run = t.driven().await;
    let noted = t.write(&run).await.does("charge").notes(entered(&run, 1)).completes("1").done().await;
    let last = t.placed_notes(t.all_notes()).await.last().expect("it is there").place;
    t.pass(SECOND);
    assert_eq!(t.purge().await.runs, 1);
    assert!(t.notes().await.is_empty());
    t.store.append_journal(vec![noted_by(MEG, &noted, "later")]).await.unwrap();
    let later = t.placed_notes(ListJournal { after: last, ..t.all_notes() }).await;
    assert_eq!(later.len(), 1, "whoever read up to {last} sees what came since");
}

/// A page has a maximum size, whatever the caller asks for.
pub(super) async fn a_page_of_the_journal_is_cut_to_its_limit(t: &TestStore) {
    let run = t.driven().await;
    let notes = (0..=MAX_PAGE as u32).map(|attempt| noted_by(MEG, &run, &attempt.to_string())).collect();
    t.store.append_journal(notes).await.unwrap();
    let all = ListJournal { limit: usize::MAX, ..t.all_notes() };
    let of_run = ListJournal { run: Some(run.id()), ..all.clone() };
    for request in [all.clone(), of_run, ListJournal { by_people: true, ..all }] {
        assert_eq!(t.placed_notes(request).await.len(), MAX_PAGE);
    }
}
