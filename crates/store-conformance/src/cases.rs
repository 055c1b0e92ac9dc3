//! All cases by topic. This list defines what a store promises.
//!
//! The suite is built from this list alone. A case that is missing here is unused code, and the build refuses it.

mod advancing;
mod announcing;
mod audit;
mod catalog;
mod children;
mod claim_races;
mod claiming;
mod claims;
mod comparing;
mod concurrency;
mod continuing;
mod doubts;
mod entities;
mod evidence;
mod families;
mod finishing;
mod inbound_events;
mod janitors;
mod journal;
mod keyed_starts;
mod keys;
mod leases;
mod listing;
mod operation_effects;
mod operation_evidence;
mod operation_keys;
mod operation_lists;
mod outbox;
mod own_writes;
mod promise_keys;
mod promises;
mod purging;
mod purging_operations;
mod racing;
mod requests;
mod signals;
mod starting;
mod steering;
mod subjects;
mod transacting;
mod waiting;

use std::future::Future;
use std::pin::Pin;

use crate::fixture::TestStore;

/// Calls a macro with its arguments and the list of all cases.
#[doc(hidden)]
#[macro_export]
macro_rules! with_every_case {
    ($($called:ident)::+ ! ($($argument:tt)*)) => {
        $($called)::+! {
            ($($argument)*)
            starting {
                a_new_run_waits_to_be_claimed
                a_run_offered_to_its_starter_is_born_leased
                an_offer_for_other_workflows_is_not_taken
                a_delayed_run_is_not_granted_early
                the_facts_of_a_run_are_kept_as_given
                inputs_are_kept_byte_for_byte
                a_run_is_seen_only_in_its_workspace
                an_id_of_another_workspace_is_refused
                a_missing_run_is_not_found
            }
            keys {
                the_same_key_finds_the_same_run
                without_a_key_every_start_is_a_new_run
                a_key_with_another_input_is_a_conflict
                the_same_key_in_two_workspaces_is_two_keys
                a_key_says_what_it_stands_for
                keys_are_compared_exactly
                a_key_never_expires_while_its_run_is_open
                a_key_outlives_its_run_by_its_retention
                a_key_without_a_retention_never_expires
                a_failed_run_keeps_its_key
                a_failed_or_cancelled_run_frees_its_key_if_so_declared
                a_run_cancelled_from_outside_frees_its_key_if_so_declared
                a_reassigned_key_is_not_changed_by_its_first_run
                the_key_of_a_purged_run_still_stands
                an_expired_key_is_there_until_it_is_purged
                keys_are_listed_in_order
                a_retention_beyond_all_time_is_kept
            }
            subjects {
                a_subject_has_one_open_run
                a_run_that_rests_holds_its_subject
                the_end_of_a_run_frees_its_subject
                subjects_are_told_apart_by_workspace_and_workflow
                a_key_decides_before_a_subject
            }
            claiming {
                a_claim_grants_a_lease
                runs_are_granted_in_order
                runs_of_several_workflows_are_granted_in_one_order
                a_run_is_granted_when_it_is_due
                only_served_workflows_are_granted
                due_runs_are_found_among_hundreds_of_workflows
                only_served_workspaces_are_granted
                runs_of_every_workspace_are_granted
                a_claim_says_when_to_come_again
                resting_runs_are_not_due
                only_an_ended_lease_is_taken_over
                an_owner_takes_over_from_itself_under_a_new_fence
                a_released_run_is_granted_at_once
                a_run_that_keeps_losing_its_worker_is_quarantined
                a_quarantined_run_with_a_pause_pending_continues_when_resumed
                progress_forgives_lost_leases
                a_timer_wakes_a_waiting_run
                the_most_overdue_run_is_known_for_every_workflow
            }
            leases {
                a_renewed_lease_ends_later
                a_write_does_not_shorten_a_renewed_lease
                an_ended_lease_that_nobody_took_is_prolonged
                a_lease_that_was_taken_is_lost
                a_released_lease_is_not_renewed
                each_lease_is_judged_by_itself
                too_many_renewals_are_refused
            }
            advancing {
                a_step_takes_two_versions
                records_read_back_in_the_order_they_started
                every_kind_of_step_is_kept
                a_record_is_replaced_as_its_step_moves_on
                an_older_version_writes_nothing
                no_transition_is_made_under_an_older_version
                a_paused_worker_cannot_write_after_a_takeover
                a_released_lease_writes_nothing
                a_closed_run_is_not_written
                a_run_that_is_not_there_is_not_written
                an_ended_lease_that_nobody_took_still_writes
                the_holder_gets_a_request_at_its_next_write
                the_last_step_and_the_end_are_one_write
                a_failed_run_says_why
                a_write_does_not_forget_arrivals
                a_write_does_not_change_the_facts
                a_write_may_carry_many_records
            }
            own_writes {
                a_start_sent_again_finds_its_own_run
                a_start_sent_again_after_the_end_finds_the_end
                a_write_sent_again_takes_effect_once
                a_write_sent_again_after_others_changed_the_run_is_still_its_own
                an_older_write_sent_again_is_refused
                a_write_that_gave_the_lease_back_is_known_again
                an_end_sent_again_is_one_arrival
                a_command_sent_again_changes_nothing
                an_arrival_sent_again_arrives_once
            }
            promise_keys {
                a_promise_is_found_and_settled_by_its_key
                a_key_names_a_promise_only_in_its_workspace_and_exactly
                a_run_and_a_promise_may_have_the_same_key
                a_run_learns_which_promise_holds_its_key
                a_promise_that_lost_its_key_is_judged_anew
                an_expired_key_is_given_to_the_next_promise
                a_key_never_expires_before_its_promise
                a_settlement_that_comes_first_is_kept_for_its_promise
                a_driven_run_gets_an_early_settlement
                an_unused_early_settlement_is_purged
                a_settlement_is_kept_only_if_asked_for
                a_key_goes_with_its_promise
                a_promise_key_is_freed_by_people
                a_promise_can_be_standalone
                a_standalone_promise_takes_an_early_settlement
                many_runs_wait_for_one_promise
                a_waiting_run_learns_the_deadline
                promises_are_listed_as_they_stand
                a_token_is_for_one_promise
                settled_standalone_promises_are_purged
                of_many_makings_under_one_key_one_wins
                settling_by_key_and_waiting_never_miss_each_other
            }
            inbound_events {
                an_event_is_taken_in_once
                of_many_deliveries_at_once_one_is_new
                the_outcome_of_an_event_is_recorded_once
                events_are_listed_newest_first
                unprocessed_events_are_found_and_old_ones_forgotten
                unprocessed_events_are_listed_page_by_page
            }
            announcing {
                a_command_that_ends_a_run_notifies_subscribers
                children_that_end_with_their_parent_notify_subscribers
                a_dead_announcement_can_be_deleted
            }
            waiting {
                an_arrival_before_the_park_is_not_lost
                an_arrival_after_the_park_wakes
                the_end_of_a_child_names_the_parent_it_wakes
                a_park_sleeps_only_if_it_has_seen_everything
                an_arrival_and_a_timer_wake_at_the_earlier
                the_caller_that_delivers_an_arrival_may_drive_the_run
                an_offer_is_taken_only_for_a_waiting_run_that_is_served
                arrivals_during_a_pause_are_kept
            }
            signals {
                a_signal_is_kept_before_anybody_waits_for_it
                signals_are_kept_in_order
                without_an_id_every_sending_is_a_signal
                an_id_that_was_seen_is_a_duplicate_for_ever
                the_same_id_at_two_runs_is_two_signals
                a_signal_to_an_ended_run_is_refused
                a_consumed_signal_is_gone_and_the_others_stay
                a_run_holds_only_so_many_signals
            }
            promises {
                a_promise_is_opened_with_its_step
                the_first_settlement_stands
                a_rejection_is_a_settlement
                a_settlement_outlasts_the_deadline
                a_promise_times_out_by_the_clock_alone
                a_timeout_is_written_with_its_step
                a_timeout_loses_to_an_earlier_settlement
                an_unknown_promise_does_not_time_out
                a_promise_may_open_and_time_out_in_one_write
                opening_a_promise_again_leaves_it_as_it_is
                a_promise_of_an_ended_run_can_be_settled
                each_promise_is_settled_by_itself
            }
            families {
                descendants_know_their_root
                a_root_has_so_many_descendants_and_no_more
                a_write_sent_again_counts_its_children_once
                a_root_that_continues_as_new_begins_a_new_count
                a_stale_writer_learns_only_that_it_is_stale
                no_child_starts_in_a_cancelled_family
                a_sweep_reaches_every_member_of_a_cancelled_family
                the_family_of_an_ended_root_is_cancelled_as_well
                only_the_family_of_a_root_is_cancelled
                a_family_is_forgotten_with_its_last_member
            }
            children {
                a_child_is_started_with_its_step
                a_child_that_is_not_due_is_not_named
                a_child_is_started_once
                a_parent_reads_what_its_child_ended_with
                a_failed_child_tells_its_parent
                a_child_cancelled_from_outside_tells_its_parent
                the_end_of_a_parent_cancels_a_child_that_never_ran
                the_end_of_a_parent_asks_living_children_to_cancel
                the_end_of_a_parent_changes_nothing_where_nothing_is_left_to_ask
                an_abandoned_child_goes_on
                the_end_of_a_parent_reaches_grandchildren
                a_run_cancelled_from_outside_takes_its_children_along
                a_child_started_by_the_last_write_of_its_parent_is_cancelled
                a_child_that_could_be_refused_is_refused_with_the_write
            }
            steering {
                a_resting_run_is_paused_at_once
                a_driven_run_is_asked_to_pause
                a_resume_withdraws_a_pending_pause
                a_run_that_never_ran_is_cancelled_at_once
                a_run_that_has_run_is_woken_to_cancel
                a_driven_run_is_asked_to_cancel
                an_ended_run_is_not_changed
                a_command_on_an_older_version_is_refused
                a_retry_reopens_a_failed_run
                a_retry_from_a_step_runs_again_what_came_after
                a_run_whose_steps_were_undone_is_not_retried
                a_retry_does_not_take_a_key_that_another_run_has
                a_retry_does_not_take_a_subject_that_another_run_has
                a_retry_takes_back_a_purged_key
                a_retry_does_not_make_a_key_younger
                a_quarantined_run_can_be_cancelled
            }
            continuing {
                a_run_continues_with_a_new_input_and_no_records
                records_of_one_write_fall_to_their_generations
                a_promise_opened_while_continuing_stays
                unconsumed_signals_wait_for_the_next_generation
                a_run_may_continue_and_park_in_one_write
                a_refused_continuation_deletes_nothing
            }
            purging {
                an_old_closed_run_goes_with_all_its_rows
                only_what_closed_before_goes
                without_an_instant_only_keys_go
                a_child_stays_while_its_parent_is_open
                a_child_goes_after_its_parent
                a_purge_is_bounded_and_says_where_to_go_on
                a_purge_that_just_fits_has_reached_the_end
                expired_keys_go_the_longest_expired_first
                a_purged_run_leaves_no_trace_in_claims
            }
            listing {
                runs_are_listed_newest_first
                a_page_shows_inputs_and_results
                lists_are_narrowed
                narrowed_pages_go_on_where_they_ended
                lists_are_filtered_by_subject_key_version_and_time
                lists_are_filtered_by_current_step_and_wait
                combined_filters_go_on_page_by_page
                a_filter_needs_a_workspace
                a_history_is_read_from_any_version_on
                a_long_history_comes_in_pages
                everything_is_cut_to_its_limit
            }
            audit {
                every_filter_of_the_audit_log_finds_what_it_names
                the_audit_log_is_paged_by_time
                a_stored_signal_is_in_the_audit_log
                a_settlement_by_key_names_its_promise_in_the_audit_log
                an_issued_token_is_in_the_audit_log
                a_step_taken_by_a_person_is_in_the_audit_log_once
                an_override_that_was_not_needed_is_in_the_audit_log
            }
            journal {
                a_write_brings_its_notes
                a_refused_write_notes_nothing
                a_write_sent_again_notes_nothing_twice
                only_what_settles_a_promise_is_noted
                only_a_command_that_is_carried_out_is_noted
                notes_are_appended_without_a_guard
                notes_are_read_in_order_and_in_pages
                the_journal_is_narrowed
                notes_outlive_their_generation
                actions_of_people_outlive_the_run
                a_place_is_never_given_twice
                a_page_of_the_journal_is_cut_to_its_limit
            }
            evidence {
                the_strongest_evidence_of_each_attempt_counts
                an_effect_that_is_found_by_its_key_is_one_of_its_attempts
                effects_of_one_workspace_are_counted_apart
                a_step_tried_again_leaves_evidence_and_a_clean_one_none
                a_retry_keeps_what_is_known_of_the_records_it_drops
                a_retry_does_not_learn_from_a_record_that_only_the_key_proves
                evidence_goes_with_its_run
            }
            doubts {
                a_doubt_says_since_when_and_why
                the_longest_in_doubt_comes_first
                doubts_are_narrowed_to_a_workspace
                a_settled_doubt_is_gone
                an_ended_run_may_leave_a_doubt
                a_retry_does_not_run_again_what_is_in_doubt
                a_page_of_doubts_is_cut_to_its_limit
            }
            outbox {
                an_after_effect_comes_with_its_step
                a_refused_write_leaves_no_after_effect
                a_write_sent_again_leaves_nothing_twice
                an_after_effect_that_is_there_stays_as_it_is
                the_longest_due_is_claimed_first
                each_target_has_room_of_its_own
                a_claim_of_after_effects_says_when_to_come_again
                an_ended_claim_is_due_again
                only_the_holder_says_how_it_went
                an_ended_claim_that_nobody_took_still_counts
                a_delivery_is_done_retried_or_abandoned
                the_most_overdue_after_effect_is_known_for_every_target
                a_settled_after_effect_can_be_redelivered
                after_effects_are_listed_in_order
                a_run_stays_while_its_after_effects_are_under_way
                a_redelivery_keeps_its_run
                claims_and_pages_are_cut_to_their_limits
            }
            requests {
                the_first_is_worked_on_and_the_second_waits
                a_request_is_kept_as_it_came
                a_begin_sent_again_prolongs_its_own_hold
                a_takeover_keeps_the_operation
                a_hold_that_ended_and_that_nobody_took_still_answers
                another_request_is_a_conflict_in_flight_and_answered
                an_answer_is_given_again_byte_for_byte
                an_answer_expires_and_then_its_key_is_free
                without_grace_a_key_is_free_at_once
                spans_beyond_all_time_are_kept
                a_request_that_began_nothing_leaves_its_key_free
                only_the_holder_says_how_it_ended_and_only_once
                the_same_key_of_another_caller_is_another_key
                request_keys_are_compared_exactly
                a_request_key_is_no_run_key
                a_released_key_may_be_used_for_something_else
                an_expired_key_can_be_released
                a_request_in_progress_keeps_its_key
                a_free_key_is_not_released
                the_key_of_a_run_is_released_once_it_is_over
                the_key_of_a_purged_run_is_released
                uses_add_up
                keys_that_are_not_there_are_not_counted
                a_reassigned_key_starts_a_new_count
                a_retried_run_keeps_the_counts_of_its_key
                too_many_counts_are_refused
                only_free_requests_are_purged
                an_abandoned_request_is_purged
                the_longest_free_are_purged_first
                the_oldest_request_is_known
            }
            keyed_starts {
                the_key_the_run_and_the_answer_are_one_write
                sent_again_it_finds_its_own_run_and_answer
                a_request_key_in_use_is_left_as_it_is
                a_run_that_may_not_start_leaves_the_request_key_free
                a_free_key_starts_a_new_run
                of_many_at_once_one_starts
                of_many_for_one_run_key_one_starts
                a_run_of_another_request_is_refused
            }
            catalog {
                an_item_is_made_once
                an_item_is_replaced_only_over_its_latest_version
                a_missing_item_is_not_replaced
                a_name_is_taken_once
                every_kind_of_item_is_kept
                a_catalog_change_is_in_the_journal_if_it_took_effect
                bodies_are_kept_byte_for_byte
                names_are_compared_exactly
                a_name_that_cannot_be_kept_is_refused
                items_are_listed_in_order
                a_page_of_items_is_bounded
                changed_items_are_listed
            }
            concurrency {
                starts_with_one_key_make_one_run
                starts_with_one_key_and_many_inputs_conflict
                starts_on_one_subject_make_one_run
                claims_never_grant_one_run_twice
                of_writes_on_one_version_one_wins
                one_write_sent_many_times_takes_effect_once
                of_many_settlements_one_wins
                after_effects_are_never_claimed_twice
                signals_each_have_their_place
                a_park_never_sleeps_over_a_racing_signal
                of_many_offers_one_is_taken
                a_cancellation_races_with_the_end
                a_start_races_with_the_purge_of_its_key
                two_purges_at_once_delete_everything_once
            }
            racing {
                of_identical_requests_one_begins
                of_different_requests_one_begins
                of_takeovers_one_wins
                a_free_key_is_given_to_one
                requests_under_many_keys_are_all_worked_on
                of_ends_of_one_request_one_counts
                counts_that_come_at_once_are_all_added
                of_puts_of_one_item_one_makes_it
                of_items_with_one_name_one_is_made
                of_puts_over_one_version_one_takes_effect
            }
            entities {
                an_entity_is_made_once
                making_an_entity_again_shows_how_it_stands
                a_missing_entity_is_not_found
                data_of_entities_is_kept_byte_for_byte
                ids_of_entities_are_compared_exactly
                entities_are_told_apart_by_workspace_and_kind
                entities_are_listed_in_order
                entities_are_listed_by_status
                a_page_of_entities_is_bounded
                a_row_in_the_users_table_is_an_entity
                a_table_that_is_not_there_is_refused
                a_table_that_lacks_a_column_is_refused
                statuses_are_compared_exactly
            }
            claims {
                a_claim_flips_the_status_before_the_action
                all_that_was_asked_for_is_recorded
                the_second_caller_learns_who_won
                a_caller_that_saw_an_older_version_looks_again
                a_step_that_does_not_apply_is_not_begun
                a_step_applies_in_each_of_its_statuses
                a_transient_status_without_an_operation_is_a_claim
                nothing_is_begun_on_what_is_not_there
                without_a_claim_the_first_to_finish_wins
                without_a_claim_every_change_counts
                without_a_claim_nobody_is_kept_away
                a_claim_holds_one_entity
                a_row_that_the_user_changed_is_judged_as_it_is
                workspaces_do_not_share_claims
            }
            finishing {
                success_flips_to_the_status_after_it
                failure_gives_the_claim_back
                success_lays_data_over_what_is_known
                data_that_is_not_an_object_is_refused
                after_effects_and_notes_come_with_the_end
                an_after_effect_that_is_there_stays
                an_end_sent_again_stands
                another_end_than_the_one_that_stands_is_lost
                only_the_holder_of_an_operation_writes
                a_zombie_persists_nothing
                a_zombie_of_an_earlier_attempt_persists_nothing
                a_row_that_others_moved_is_not_updated
                a_row_that_was_changed_in_its_transient_status_is_updated
                an_ended_operation_holds_nothing
            }
            operation_effects {
                an_operation_that_may_have_happened_keeps_its_effect_key
                a_known_end_begins_a_new_effect
                a_doubt_is_passed_on_over_known_failures
                a_ruling_that_it_did_not_happen_frees_the_step
                a_once_step_happens_once_and_an_each_step_repeats
                a_holder_may_try_again_and_nobody_else
                a_late_result_settles_a_doubt_only_as_happened
                an_operation_begins_only_under_the_document_as_it_is
                replacing_a_document_is_serialised_with_starts
                operations_in_doubt_are_listed_by_module
                open_claims_are_listed_once_each
                the_holder_and_the_newest_of_each_step_are_found
            }
            operation_evidence {
                an_action_with_a_known_end_leaves_no_evidence
                a_reverted_action_may_have_happened
                each_try_of_an_action_leaves_evidence
                a_refused_end_leaves_no_evidence
                a_ruling_is_evidence_about_every_try_under_the_key
                a_late_result_changes_the_counts_alone
                a_late_result_and_a_found_key_may_be_one_effect
                no_two_tries_under_a_key_have_the_same_number
                tries_side_by_side_have_numbers_of_their_own
                evidence_is_listed_by_effect_in_pages
                evidence_outlives_its_operation
            }
            operation_keys {
                the_same_key_finds_the_same_operation
                the_key_of_an_operation_in_doubt_finds_it
                a_key_that_stands_for_something_else_is_a_conflict
                keys_of_operations_are_told_apart
                a_reverted_operation_is_retried_under_its_key
                another_attempt_is_judged_like_the_first
                a_beginning_sent_again_finds_its_own
                an_unclaimed_beginning_sent_again_finds_its_own
                a_repeated_call_gets_the_recorded_result
                the_newest_operation_of_the_step_answers
                a_step_that_was_not_done_has_no_result
                an_irreversible_step_that_may_have_happened_needs_an_override
                a_step_that_did_not_happen_needs_no_override
                only_the_same_step_on_the_same_entity_needs_an_override
                operations_in_other_workspaces_do_not_matter
                an_irreversible_step_in_progress_needs_an_override
                another_attempt_of_an_irreversible_step_needs_an_override
            }
            janitors {
                a_heartbeat_keeps_an_operation_alive
                a_holder_learns_what_it_lost
                too_many_heartbeats_are_refused
                a_janitor_finds_operations_without_a_heartbeat
                a_janitor_looks_after_every_workspace_in_bounds
                a_janitor_reverts_abandoned_operations
                a_holder_whose_heartbeat_arrives_in_time_keeps_its_claim
                an_operation_that_must_not_repeat_is_left_to_people
                people_resolve_operations_in_doubt
                a_run_says_how_its_operation_ended
                an_unclaimed_operation_is_reverted_without_a_change
                a_janitor_does_not_change_a_row_that_others_moved
                stray_rows_are_reverted
                stray_rows_are_reverted_in_bounded_batches
            }
            operation_lists {
                operations_are_listed_by_what_is_asked_for
                operations_are_seen_in_their_workspace_and_kind
                operations_are_listed_page_by_page
                notes_on_entities_are_kept
                notes_on_entities_are_listed_page_by_page
                what_people_did_is_audited
            }
            purging_operations {
                all_but_the_newest_of_a_step_go_with_their_keys
                only_a_newer_one_of_the_same_step_and_entity_takes_its_place
                operations_that_ended_later_stay
                open_operations_stay
                failed_operations_are_purged_like_successful_ones
                after_effects_go_with_their_operation_once_they_are_settled
                notes_outlive_their_operation
                a_pass_is_bounded_and_goes_on_where_it_stopped
            }
            transacting {
                work_and_the_end_are_one_commit
                work_that_fails_leaves_nothing
                work_whose_end_is_refused_leaves_nothing
                an_end_that_cannot_be_written_leaves_nothing
                the_work_of_a_zombie_leaves_nothing
                the_losers_work_leaves_nothing
                work_sent_again_stands_once
                of_payments_at_once_one_is_credited
                a_store_without_transactions_says_so
            }
            claim_races {
                of_500_callers_one_wins
                of_100_callers_with_one_key_one_wins
                of_unclaimed_operations_with_one_key_one_begins
                of_different_requests_with_one_key_one_wins
                one_beginning_sent_many_times_is_one
                of_those_who_try_again_one_does
                operations_on_many_entities_all_go_on
                of_unclaimed_ends_one_wins
                one_end_sent_many_times_is_written_once
                an_end_races_with_janitors
                a_heartbeat_races_with_the_janitor
                a_beginning_races_with_the_janitor
                a_beginning_races_with_the_sweep_for_strays
                sweeps_at_once_give_each_stray_back_once
                of_those_who_make_one_entity_one_does
            }
            comparing {
                random_requests_are_answered_as_by_the_memory_store
            }
        }
    };
}

/// One behaviour that a store must have.
pub(crate) struct Case {
    pub(crate) topic: &'static str,
    pub(crate) name: &'static str,
    pub(crate) run: for<'a> fn(&'a TestStore) -> Pin<Box<dyn Future<Output = ()> + 'a>>,
}

macro_rules! table {
    (() $($topic:ident { $($name:ident)* })*) => {
        pub(crate) const CASES: &[Case] = &[$($(
            Case { topic: stringify!($topic), name: stringify!($name), run: |stage| Box::pin($topic::$name(stage)) },
        )*)*];
    };
}

with_every_case!(table!());
