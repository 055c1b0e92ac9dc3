//! Steps in doubt: listed until a person resolves them.

use hapax_engine::limits::MAX_PAGE;
use hapax_engine::model::{
    Failure, PromiseRef, Refusal, RunCommand, RunId, StepId, StepState, StepStatus, StepTransition,
    WorkspaceId,
};
use hapax_engine::store::{
    DoubtCursor, ListDoubts, RunCommandOutcome, SettleOutcome, SettlePromise, StoredDoubt,
};

use crate::fixture::*;
use crate::must;

fn lost() -> Failure {
    Failure::unknown("its worker vanished")
}

/// Run and step name of each doubt.
fn names(doubts: &[StoredDoubt]) -> Vec<(RunId, &str)> {
    doubts.iter().map(|doubt| (doubt.run, doubt.step.id.as_str())).collect()
}

async fn page(t: &TestStore, limit: usize, after: Option<DoubtCursor>) -> Vec<StoredDoubt> {
    t.store.list_doubts(ListDoubts { workspace: None, after, limit }).await.unwrap()
}

fn place_of(doubt: &StoredDoubt) -> DoubtCursor {
    match doubt.step.state {
        StepState::InDoubt { since, .. } => {
            DoubtCursor { since, run: doubt.run, step: doubt.step.id.clone() }
        }
        ref other => panic!("{} is in no doubt: {other:?}", doubt.step.id),
    }
}

/// A doubt says when and why it began, and shows the run's current record.
pub(super) async fn a_doubt_says_since_when_and_why(t: &TestStore) {
    let run = t.driven().await;
    t.pass(SECOND);
    let why = Failure::unknown("the \"line\" broke: ü").with_code("408").retry_after(SECOND);
    let run = t.write(&run).await.loses("wire", why.clone()).does("charge").done().await;
    let step = t.step(&run, "wire").await.unwrap();
    assert_eq!(step.state, StepState::InDoubt { since: t.now(), failure: why });
    let workspace = run.facts.workspace.clone();
    assert_eq!(t.doubts().await, [StoredDoubt { workspace, run: run.id(), step }]);
}

/// The oldest doubt comes first, then the smaller run id, then the smaller step id, page by page.
pub(super) async fn the_longest_in_doubt_comes_first(t: &TestStore) {
    let (one, two) = (t.driven().await, t.driven().await);
    let two = t.write(&two).await.loses("b", lost()).done().await;
    t.pass(SECOND);
    t.write(&two).await.loses("a", lost()).done().await;
    t.write(&one).await.loses("z", lost()).loses("a#2", lost()).loses("a", lost()).done().await;
    let expected =
        vec![(two.id(), "b"), (one.id(), "a"), (one.id(), "a#2"), (one.id(), "z"), (two.id(), "a")];
    assert_eq!(names(&t.doubts().await), expected);
    let (mut read, mut after) = (Vec::new(), None);
    loop {
        let page = page(t, 2, after.clone()).await;
        let Some(last) = page.last() else { break };
        assert!(page.len() <= 2);
        after = Some(place_of(last));
        read.extend(page);
    }
    assert_eq!(names(&read), expected);
    assert_eq!(page(t, 0, None).await.len(), 1, "a page is not empty");
    let between = DoubtCursor { since: t.now(), run: one.id(), step: StepId::from_stored("b") };
    assert_eq!(names(&page(t, 9, Some(between)).await), expected[3..]);
}

/// The list can be limited to one workspace.
pub(super) async fn doubts_are_narrowed_to_a_workspace(t: &TestStore) {
    let here = t.driven().await;
    let abroad = t.order().workspace("abroad").granted_to(ANN).start().await;
    for run in [&here, &abroad] {
        t.write(run).await.loses("wire", lost()).done().await;
    }
    let of = |workspace: &str| {
        let workspace = Some(WorkspaceId::new(workspace).unwrap());
        t.store.list_doubts(ListDoubts { workspace, after: None, limit: 10 })
    };
    assert_eq!(names(&of("default").await.unwrap()), [(here.id(), "wire")]);
    assert_eq!(names(&of("abroad").await.unwrap()), [(abroad.id(), "wire")]);
    assert_eq!(of("abroad").await.unwrap()[0].workspace, abroad.facts.workspace);
    assert_eq!(of("nowhere").await.unwrap(), []);
    assert_eq!(t.doubts().await.len(), 2);
}

/// A doubt leaves the list however it is resolved, and may appear again later.
pub(super) async fn a_settled_doubt_is_gone(t: &TestStore) {
    let now = t.now();
    let ways = [
        (StepTransition::Begin, StepState::Running),
        (StepTransition::Happened, StepState::Completed { at: now, output: json("1") }),
        (StepTransition::DidNotHappen, StepState::Pending { due_at: now, failure: lost() }),
        (StepTransition::Abandon, StepState::Failed { at: now, failure: lost() }),
    ];
    for (transition, state) in ways {
        let run = t.driven().await;
        let run = t.write(&run).await.loses("wire", lost()).loses("other", lost()).done().await;
        let run = t.write(&run).await.settles_doubt("wire", transition, state.clone()).done().await;
        assert_eq!(names(&t.doubts().await), [(run.id(), "other")], "{transition:?}");
        assert_eq!(t.step(&run, "wire").await.unwrap().state, state);
        let run = t.write(&run).await.settles_doubt("other", StepTransition::Begin, StepState::Running);
        let run = run.done().await;
        assert_eq!(t.doubts().await, []);
        let run = t.write(&run).await.loses("other", lost()).done().await;
        assert_eq!(names(&t.doubts().await), [(run.id(), "other")], "it may come again");
        t.write(&run).await.continues_with("2").done().await;
        assert_eq!(t.doubts().await, [], "the record went with its generation");
    }
}

/// A run may end with an open doubt. The run is kept, and the doubt listed, until people have ruled.
pub(super) async fn an_ended_run_may_leave_a_doubt(t: &TestStore) {
    let run = t.driven().await;
    let write = t.write(&run).await.loses("wire", lost()).asks_people("wire").fails("in doubt");
    let run = write.done().await;
    assert_eq!(names(&t.doubts().await), [(run.id(), "wire")]);
    t.pass(SECOND);
    assert_eq!(t.purge().await.runs, 0, "nobody has ruled");
    assert_eq!(names(&t.doubts().await), [(run.id(), "wire")]);
    let ruling =
        SettlePromise { promise: PromiseRef::Id(doubt_of(&run, "wire")), ..settlement_of(&run, "wire", "1") };
    must!(t.store.settle_promise(ruling).await.unwrap(), SettleOutcome::Settled { .. });
    assert_eq!(t.purge().await.runs, 1);
    assert_eq!(t.doubts().await, []);
}

/// A retry does not repeat a step in doubt. A retry that leaves that step alone succeeds.
pub(super) async fn a_retry_does_not_run_again_what_is_in_doubt(t: &TestStore) {
    let run = t.driven().await;
    let run =
        t.write(&run).await.does("charge").loses("wire", lost()).fails_at("ship").fails("no").done().await;
    for from in ["charge", "wire"] {
        let from = Some(StepId::from_stored(from));
        let refused = t.steer(&run, RunCommand::retry(from)).await;
        let RunCommandOutcome::Refused(refusal, head) = refused else { panic!("{refused:?}") };
        assert_eq!((refusal, head), (Refusal::InDoubt(StepId::from_stored("wire")), run.clone()));
        assert_eq!(t.log(&run).await.steps.len(), 3, "nothing is deleted");
    }
    must!(t.steer(&run, retry()).await, RunCommandOutcome::Accepted(_));
    assert_eq!(t.step(&run, "wire").await.unwrap().state.status(), StepStatus::InDoubt);
    assert!(t.step(&run, "ship").await.is_none());
    assert_eq!(names(&t.doubts().await), [(run.id(), "wire")]);
}

/// A page has a maximum size, whatever the caller asks for.
pub(super) async fn a_page_of_doubts_is_cut_to_its_limit(t: &TestStore) {
    let run = t.driven().await;
    let mut write = t.write(&run).await;
    for n in 0..=MAX_PAGE {
        write = write.loses(&format!("wire-{n}"), lost());
    }
    write.done().await;
    assert_eq!(page(t, usize::MAX, None).await.len(), MAX_PAGE);
}
