//! Decisions about an operation whose action failed, as a table.

use super::*;
use crate::model::transition::example_operation;
use crate::model::{EntityStep, OperationState, PerRequester, Timestamp};

fn view(idempotent: Option<bool>, recovery: Option<Recovery>) -> StepView {
    let step = EntityStep::new(10, "charge", &["approved"], "charged").unwrap();
    let step = step.doing(Action::handler("charge").unwrap());
    let step = EntityStep {
        idempotent: idempotent.map(PerRequester::All),
        recovery: recovery.map(PerRequester::All),
        ..step
    };
    step.view(None).unwrap()
}

fn claimed() -> Operation {
    example_operation(OperationState::Pending { heard_at: Timestamp::EPOCH })
}

fn word(view: &StepView, operation: &Operation, failure: &Failure, tries: u32) -> &'static str {
    match decide_after_failure(view, operation, failure, tries) {
        AfterFailure::TryAgain { .. } => "try again",
        AfterFailure::Doubt => "doubt",
        AfterFailure::Release => "release",
    }
}

#[test]
fn an_unknown_outcome_is_tried_again_under_its_key_or_held_in_doubt() {
    let lost = Failure::unknown("the connection was cut");
    // Columns: declared idempotent, declared recovery, result of the first failure, result after all
    // attempts.
    let cases = [
        (None, None, "try again", "release"),
        (Some(true), None, "try again", "release"),
        (Some(true), Some(Recovery::Hold), "try again", "doubt"),
        (None, Some(Recovery::Hold), "try again", "doubt"),
        (Some(false), None, "doubt", "doubt"),
        (Some(false), Some(Recovery::Hold), "doubt", "doubt"),
        (Some(false), Some(Recovery::Revert), "doubt", "doubt"),
    ];
    for (idempotent, recovery, first, last) in cases {
        let view = view(idempotent, recovery);
        assert_eq!(word(&view, &claimed(), &lost, 1), first, "{idempotent:?} {recovery:?}");
        assert_eq!(word(&view, &claimed(), &lost, MAX_ACTION_TRIES), last, "{idempotent:?} {recovery:?}");
    }
}

/// CONTRACT 8: any 5xx is an unknown outcome, even if a document calls it retryable.
#[test]
fn a_5xx_that_the_document_calls_retryable_is_still_an_unknown_outcome() {
    let declared = Failure::retryable("the answer was 503").that_may_have_happened();
    assert_eq!(word(&view(Some(false), None), &claimed(), &declared, 1), "doubt");
    assert_eq!(word(&view(None, None), &claimed(), &declared, 1), "try again");
    assert_eq!(word(&view(None, Some(Recovery::Hold)), &claimed(), &declared, MAX_ACTION_TRIES), "doubt");
    let state = OperationState::Failed { at: Timestamp::EPOCH, failure: declared };
    assert!(Operation { state, ..claimed() }.leaves_doubt(), "the next operation keeps the effect key");
}

#[test]
fn a_rejection_of_a_later_try_says_nothing_about_the_first() {
    let no = || Failure::permanent("declined");
    let states = [
        OperationState::Rejected { at: Timestamp::EPOCH, failure: no() },
        OperationState::Failed { at: Timestamp::EPOCH, failure: no() },
    ];
    for state in states {
        assert!(!Operation { state: state.clone(), tries: 1, ..claimed() }.leaves_doubt());
        assert!(Operation { state, tries: 2, ..claimed() }.leaves_doubt());
    }
}

#[test]
fn what_is_known_not_to_have_happened_is_released_at_once() {
    for failure in [Failure::retryable("refused"), Failure::permanent("declined")] {
        assert_eq!(word(&view(Some(false), None), &claimed(), &failure, 1), "release");
        assert_eq!(word(&view(None, None), &claimed(), &failure, 1), "release");
    }
    let panicked = Failure::unknown("it panicked").with_code(PANICKED);
    assert_eq!(word(&view(Some(false), None), &claimed(), &panicked, 1), "release");
}

#[test]
fn what_happened_without_a_usable_answer_and_what_a_run_did_is_for_people() {
    let unusable = Failure::unknown("no such field").with_code(ANSWER_UNUSABLE);
    assert_eq!(word(&view(Some(true), None), &claimed(), &unusable, 1), "doubt");
    let by_run = StepView {
        action: Some(Action::Workflow(crate::model::Name::new("workflow", "pay").unwrap())),
        ..view(None, None)
    };
    assert_eq!(word(&by_run, &claimed(), &Failure::unknown("lost"), 0), "doubt");
}

#[test]
fn what_shares_the_transaction_of_its_record_did_not_happen() {
    let in_transaction = Operation { tries: 0, ..claimed() };
    let failed = Failure::unknown("any error of the work");
    assert_eq!(word(&view(None, None), &in_transaction, &failed, 0), "release");
    let state = OperationState::Failed { at: Timestamp::EPOCH, failure: failed.clone() };
    assert!(!Operation { state: state.clone(), ..in_transaction }.leaves_doubt());
    assert!(Operation { state, ..claimed() }.leaves_doubt());
}

#[test]
fn an_unclaimed_operation_cannot_be_held() {
    let unclaimed = Operation { claim: None, ..claimed() };
    let lost = Failure::unknown("the connection was cut");
    assert_eq!(word(&view(Some(false), None), &unclaimed, &lost, 1), "release");
}

#[test]
fn a_pause_doubles_and_a_provider_may_ask_for_a_longer_one_up_to_a_limit() {
    let pause = |failure: &Failure, tries| match decide_after_failure(
        &view(None, None),
        &claimed(),
        failure,
        tries,
    ) {
        AfterFailure::TryAgain { after } => after,
        other => panic!("{other:?}"),
    };
    let lost = Failure::unknown("the connection was cut");
    assert_eq!(pause(&lost, 1), ACTION_PAUSE);
    assert_eq!(pause(&lost, 3), ACTION_PAUSE * 4);
    assert_eq!(pause(&lost.clone().retry_after(Duration::from_secs(7)), 1), Duration::from_secs(7));
    assert_eq!(pause(&lost.retry_after(Duration::from_secs(3600)), 1), MAX_ACTION_PAUSE);
}
