//! States: a colour, a shape and a word each, so that nobody needs the colour.

use hapax_api::{OperationStatus, RunStatus, StepStatus};
use maud::{Markup, html};

/// Meaning of a state for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// It is done and well.
    Good,
    /// It is under way.
    Active,
    /// It waits for something.
    Waiting,
    /// People must look at it.
    Doubt,
    /// It stands still because people wanted it to.
    Held,
    /// It went wrong.
    Bad,
    /// It is over, and does not matter any more.
    Gone,
}

/// The shape that goes with a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape(&'static str);

impl State {
    pub(crate) fn class(self) -> &'static str {
        match self {
            State::Good => "good",
            State::Active => "active",
            State::Waiting => "waiting",
            State::Doubt => "doubt",
            State::Held => "held",
            State::Bad => "bad",
            State::Gone => "gone",
        }
    }

    fn shape(self) -> Shape {
        Shape(match self {
            State::Good => "M6 1a5 5 0 1 0 0 10A5 5 0 0 0 6 1zM3.8 6.1l1.6 1.6 2.9-3.2",
            State::Active => "M6 1a5 5 0 0 1 0 10M6 1a5 5 0 0 0 0 10zM6 1v10",
            State::Waiting => "M6 1a5 5 0 1 0 0 10A5 5 0 0 0 6 1zM6 3.4V6l1.7 1.3",
            State::Doubt => "M6 .8L11.2 6 6 11.2.8 6zM6 3.6v2.9M6 8.3v.2",
            State::Held => "M3.8 2v8M8.2 2v8",
            State::Bad => "M6 1a5 5 0 1 0 0 10A5 5 0 0 0 6 1zM4.2 4.2l3.6 3.6M7.8 4.2L4.2 7.8",
            State::Gone => "M6 1a5 5 0 1 0 0 10A5 5 0 0 0 6 1zM3.6 6h4.8",
        })
    }
}

/// A state with its shape.
pub(crate) fn badge(state: State, word: &str) -> Markup {
    html! {
        span.badge.(state.class()) {
            svg viewBox="0 0 12 12" aria-hidden="true" { path d=(state.shape().0) {} }
            (word)
        }
    }
}

/// The shape of a state alone, beside a word that says the same.
pub(crate) fn dot(state: State, word: &str) -> Markup {
    html! {
        svg.dot.(state.class()) viewBox="0 0 12 12" role="img" aria-label=(word) { title { (word) } path d=(state.shape().0) {} }
    }
}

/// The status of a run.
pub(crate) fn run_badge(status: RunStatus) -> Markup {
    let (state, word) = match status {
        RunStatus::Pending => (State::Waiting, "Pending"),
        RunStatus::Running => (State::Active, "Running"),
        RunStatus::Waiting => (State::Waiting, "Waiting"),
        RunStatus::Paused => (State::Held, "Paused"),
        RunStatus::Completed => (State::Good, "Completed"),
        RunStatus::Failed => (State::Bad, "Failed"),
        RunStatus::Cancelled => (State::Gone, "Cancelled"),
    };
    badge(state, word)
}

/// State and label for the status of a step.
pub(crate) fn state(status: StepStatus) -> (State, &'static str) {
    match status {
        StepStatus::Pending => (State::Waiting, "Retrying"),
        StepStatus::Running => (State::Active, "Running"),
        StepStatus::Waiting => (State::Waiting, "Waiting"),
        StepStatus::Completed => (State::Good, "Completed"),
        StepStatus::Failed => (State::Bad, "Failed"),
        StepStatus::Skipped => (State::Gone, "Skipped"),
        StepStatus::Cancelled => (State::Gone, "Cancelled"),
        StepStatus::InDoubt => (State::Doubt, "In doubt"),
    }
}

/// The status of a step.
pub(crate) fn step_badge(status: StepStatus) -> Markup {
    let (state, word) = state(status);
    badge(state, word)
}

/// The status of an operation on an entity.
pub(crate) fn operation_badge(status: OperationStatus) -> Markup {
    let (state, word) = match status {
        OperationStatus::Pending => (State::Active, "Pending"),
        OperationStatus::Done => (State::Good, "Done"),
        OperationStatus::Rejected => (State::Gone, "Rejected"),
        OperationStatus::Failed => (State::Bad, "Failed"),
        OperationStatus::Reverted => (State::Held, "Reverted"),
        OperationStatus::InDoubt => (State::Doubt, "In doubt"),
    };
    badge(state, word)
}
