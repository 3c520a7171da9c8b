/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases of all files here, once. */
#ifndef TESTS_CONTROL_CASES_H
#define TESTS_CONTROL_CASES_H

#define CONTROL_CASES(X) \
	X(object_round_trips) \
	X(options_round_trip) \
	X(the_longest_catalogue_fits_in_a_request) \
	X(each_malformed_member_of_an_object_is_named) \
	X(each_malformed_shape_of_a_variable_is_refused) \
	X(layout_round_trips) \
	X(each_malformed_member_of_a_layout_is_named) \
	X(nearest_name_is_found) \
	X(each_malformed_request_gets_its_code) \
	X(errors_say_what_is_wrong) \
	X(notifications_get_no_reply) \
	X(pipelined_requests_are_answered_in_order) \
	X(hostile_bytes_harm_nobody) \
	X(random_bytes_harm_nobody) \
	X(half_lines_wait_and_the_end_of_the_stream_ends_a_line) \
	X(half_lines_are_no_stall) \
	X(a_line_over_the_limit_is_skipped) \
	X(shutdown_is_for_the_unix_socket) \
	X(status_tells_node_and_figures) \
	X(endpoint_map_is_told) \
	X(status_answers_while_the_executor_is_busy) \
	X(a_stop_answers_what_is_queued) \
	X(administrators_have_connections_of_their_own) \
	X(long_replies_go_out_in_pieces) \
	X(a_reader_that_takes_nothing_is_closed) \
	X(who_does_not_finish_a_line_is_closed) \
	X(the_admin_socket_is_for_its_owner) \
	X(a_stale_socket_is_replaced) \
	X(what_lives_at_the_path_is_left_alone) \
	X(an_address_in_use_is_named) \
	X(what_cannot_be_reached_is_named) \
	X(mad_replies_are_refused) \
	X(a_mute_peer_costs_the_deadline_and_no_more) \
	X(a_call_can_be_interrupted) \
	X(one_connection_serves_many_calls) \
	X(a_cluster_of_one_node_has_its_layout_at_once) \
	X(create_and_lookup) \
	X(a_failed_install_leaves_nothing_behind) \
	X(the_catalogue_has_an_end) \
	X(three_nodes_join_in_any_order) \
	X(waiting_names_the_tasks_that_are_missing) \
	X(creators_at_the_same_moment_agree) \
	X(what_belongs_to_task_0_is_passed_on) \
	X(a_peer_that_is_down_is_named_and_a_retry_completes) \
	X(a_peer_that_cannot_install_is_named_and_mended) \
	X(a_node_that_does_not_fit_is_refused_with_the_reason) \
	X(malformed_joins_are_refused) \
	X(malformed_installs_are_refused) \
	X(sweeps_go_to_every_node) \
	X(a_restarted_node_gets_the_catalogue_and_all_a_new_layout) \
	X(a_node_may_come_back_with_other_reactors) \
	X(a_restarted_task_0_gets_its_catalogue_from_the_others) \
	X(who_keeps_the_catalogue_shares_it) \
	X(heartbeats_are_answered_while_the_executor_is_busy) \
	X(all_restarted_start_afresh) \
	X(a_layout_that_is_refused_is_tried_again) \
	X(a_node_stops_quickly_while_task_0_is_mute) \
	X(wrong_usage_is_explained) \
	X(every_command_has_its_help_and_words) \
	X(a_node_that_is_not_there_is_status_1) \
	X(nodes_are_shown) \
	X(tables_are_made_shown_and_swept) \
	X(a_full_status_is_laid_out) \
	X(connections_are_shown_as_ss_does) \
	X(filters_of_connections_are_checked) \
	X(counters_are_shown_as_nstat_does) \
	X(a_wide_table_continues_below) \
	X(a_strange_status_is_no_harm) \
	X(numbers_are_for_people) \
	X(ports_are_added_listed_and_removed) \
	X(files_are_checked_without_a_node) \
	X(checkpoints_are_looked_at_without_a_node) \
	X(shutdown_waits_until_the_node_is_gone) \
	X(checkpoints_wait_for_nodes_that_load) \
	X(all_nodes_go_back_or_none)

#define X(name) void name(void);
CONTROL_CASES(X)
#undef X

#endif
