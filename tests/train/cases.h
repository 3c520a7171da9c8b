/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases, by file. */
#ifndef TESTS_SESSION_CASES_H
#define TESTS_SESSION_CASES_H

/* summary.c */
void crc32c_is_the_published_one(void);
void summaries_refuse_what_they_cannot_write(void);
void summaries_that_do_not_fit_leave_nothing_behind(void);
void summaries_that_are_taken_away_are_started_again(void);
void auc_is_that_of_all_pairs(void);
void auc_needs_both_kinds(void);

/* metrics.c */
void metrics_are_those_of_their_definitions(void);
void metrics_that_do_not_apply_are_nan(void);
void what_is_sure_and_wrong_costs_no_more_than_it_may(void);

/* steps.c */
void steps_are_counted_from_a_sessions_first(void);
void a_resumed_job_counts_on(void);
void wrong_sessions_are_refused(void);
void a_session_goes_on_without_its_summaries(void);
void a_session_without_ps_tasks_ends_with_an_error(void);

/* flight.c */
void as_many_steps_are_in_flight_as_are_asked_for(void);
void each_step_in_flight_is_applied_once(void);
void steps_that_failed_are_made_again_and_others_are_not(void);
void an_error_ends_what_is_in_flight_behind_it(void);
void fewer_steps_are_in_flight_when_nodes_have_no_room(void);
void a_hooks_error_ends_what_is_in_flight_behind_it(void);
void steps_in_flight_are_ended_when_the_session_is_closed(void);
void a_session_of_one_step_at_a_time_is_submitted_to_as_well(void);
void nothing_is_submitted_beyond_the_last_step(void);
void counts_that_come_in_another_order_do_not_go_back(void);

/* compile.c */
void rows_are_kept_for_later_parts(void);
void ids_and_segments_are_sent_once(void);
void a_variable_goes_by_its_blocks(void);
void staleness_needs_pulls_and_pushes(void);
void what_cannot_be_kept_is_told(void);
void an_unsupported_gradient_names_what_it_is_of(void);
void a_cut_is_compiled_once(void);

/* local.c */
void a_local_variable_gives_and_takes_rows(void);
void local_tables_stay_until_they_are_forgotten(void);
void a_local_step_that_is_refused_changes_nothing(void);
void local_plans_that_cannot_be_are_refused(void);

/* peers.c */
void a_worker_is_so_many_steps_ahead_at_most(void);
void an_index_is_of_one_worker(void);
void a_worker_sees_who_was_told_otherwise(void);
void who_only_seems_to_live_may_be_of_a_run_before(void);
void a_worker_that_was_alone_sees_others_come_back(void);
void a_worker_that_comes_late_goes_on_with_the_slowest(void);
void a_job_has_as_many_workers_as_it_may(void);

/* sync.c */
void steps_are_whole_whoever_leads_and_stands_still(void);
void steps_are_whole_when_replies_are_lost(void);
void a_round_that_leaders_differ_about_is_not_committed(void);

/* dedup.c */
void ids_go_once_and_their_rows_to_all_places(void);
void ids_that_differ_go_as_they_are(void);

/* estimator.c */
void a_model_has_thousands_of_feeds(void);
void each_head_is_evaluated_by_itself(void);
void wrong_heads_are_refused(void);
void gradients_are_clipped_together(void);
void batch_norm_evaluates_by_running_statistics(void);
void more_feeds_than_there_may_be_are_refused(void);

/* cluster.c */
void tf_config_is_read(void);
void a_tf_config_without_a_cluster_says_nothing(void);
void wrong_tf_configs_are_refused(void);
void clusters_are_made_of_lists(void);
void a_program_that_says_nothing_is_told_by_the_environment(void);
void wrong_environments_are_refused(void);
void an_estimator_takes_its_place_from_the_environment(void);

#endif
