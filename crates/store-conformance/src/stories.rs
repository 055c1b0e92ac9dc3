//! Stories: tests of the engine's entities on every store, in the store's own table and in a user's table:
//! `entity_suite!(make_store);`.

mod claiming;
mod effects;
mod entity_scene;
mod people;
mod recovering;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use hapax_engine::clock::ManualClock;

use crate::Candidate;
use entity_scene::{EntityScene, TableKind};

/// Calls a macro with its arguments and the list of all stories.
#[doc(hidden)]
#[macro_export]
macro_rules! with_every_story {
    ($($called:ident)::+ ! ($($argument:tt)*)) => {
        $($called)::+! {
            ($($argument)*)
            claiming {
                of_many_callers_one_enters_the_action
                without_a_claim_both_act_and_one_is_recorded
                a_failed_action_is_reverted_at_once
                a_rejected_action_is_reverted_at_once
                a_panicking_action_is_reverted_at_once
                a_validation_rejects_before_anything_is_claimed
                the_requester_decides_whether_a_step_is_claimed
                after_effects_follow_the_commit_and_no_other_way
                writes_of_the_action_share_the_commit_of_the_status
                work_that_fails_leaves_neither_writes_nor_status
                an_operation_ends_when_its_run_ends
            }
            recovering {
                a_claim_left_by_a_crash_is_freed_after_the_window
                a_slow_living_action_is_not_reverted
                a_holder_that_returns_after_the_revert_writes_nothing
                a_holder_that_returns_with_the_result_settles_the_doubt
                an_operation_to_hold_is_left_to_people
                a_second_try_under_the_same_key_is_the_same_operation
                a_run_continues_after_its_caller_crashes
                a_row_that_nothing_holds_is_a_stray
                a_claim_that_nobody_would_free_is_refused
            }
            effects {
                an_unknown_outcome_is_tried_again_under_the_same_key
                an_unknown_outcome_continues_under_its_key_in_the_next_operation
                a_step_that_is_not_idempotent_is_held_in_doubt
                the_operation_after_a_crash_has_the_same_effect_key
                a_ruling_that_it_did_not_happen_frees_an_irreversible_step
                once_means_once_also_where_it_leads_back
                the_janitor_waits_for_requests_in_flight
                a_probe_settles_a_doubt_when_it_is_old_enough
                a_replaced_document_is_in_force_on_every_node
                a_claim_that_is_open_must_be_covered
                a_step_may_require_a_key
            }
            people {
                a_double_click_gets_the_recorded_result
                each_transition_returns_what_it_gave
                steps_are_listed_with_reasons
                repeating_an_irreversible_step_needs_a_manager
                support_may_remark_while_it_is_pending
                a_step_on_a_stale_version_is_refused
            }
        }
    };
}

/// One test for every story. An async function makes the store for the given clock.
#[macro_export]
macro_rules! entity_suite {
    ($make_store:expr) => {
        $crate::with_every_story! { $crate::one_test_per_story!($make_store) }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! one_test_per_story {
    (($make_store:expr) $($topic:ident { $($name:ident)* })*) => {
        mod entity_stories {
            #[allow(unused_imports)]
            use super::*;
            $(
                mod $topic {
                    #[allow(unused_imports)]
                    use super::*;
                    $(
                        #[test]
                        fn $name() {
                            $crate::run_story(stringify!($name), $make_store);
                        }
                    )*
                }
            )*
        }
    };
}

type StoryFuture = Pin<Box<dyn Future<Output = ()>>>;

macro_rules! stories {
    (() $($topic:ident { $($name:ident)* })*) => {
        const STORIES: &[(&str, fn(EntityScene) -> StoryFuture)] = &[$($((stringify!($name), |scene| Box::pin($topic::$name(scene)))),*),*];
    };
}
with_every_story! { stories!() }

/// Runs one story for each kind of table that the store has.
#[doc(hidden)]
pub fn run_story<F: Future<Output = Candidate>>(name: &str, make_store: impl Fn(Arc<ManualClock>) -> F) {
    let (_, story) = STORIES.iter().find(|(known, _)| *known == name).expect("the story exists");
    crate::suite::block_on(async {
        for home in TableKind::ALL {
            let clock = Arc::new(ManualClock::default());
            let candidate = make_store(clock.clone()).await;
            if let Some(scene) = EntityScene::set(candidate, clock, home).await {
                story(scene).await;
            }
        }
    });
}
