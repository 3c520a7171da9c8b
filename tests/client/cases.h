/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases of tests/client, by file, and what they share. */
#ifndef TESTS_CLIENT_CASES_H
#define TESTS_CLIENT_CASES_H

#include "tests/client/peer.h"
#include "tests/unit.h"

/* A peer, a cluster opened on it, and a table of that dim (created first: object 1). */
struct bench {
	struct peer *peer;
	struct star_cluster *cluster;
	struct star_table *table;
	uint32_t dim;
};

/* A minute: no test waits that long, unless the client hangs. */
#define LONG_US UINT64_C(60000000)

struct bench bench_start(uint32_t nodes, uint32_t reactors, uint32_t dim);
void bench_stop(struct bench *b);
struct star_table *bench_table(struct bench *b, const char *name, uint32_t dim);
uint64_t now_us(void);
void sleep_ms(unsigned ms);
/* Pulls keys 0 to 9 and compares with the initial values. */
bool pull_works(struct bench *b);

/* steering.c */
void source_ports_lead_to_the_reactor(void);

/* An operation as a line. */
#define OP(what, flag, of, which, n, speed, memory, ...) \
	{ \
		.kind = what, .flags = flag, .table = of, .keys = which, .count = n, .rate = speed, .values = memory, \
		__VA_ARGS__ \
	}

/* Refused with -EINVAL and that message, by each way to start it. */
void refuse_op(struct bench *b, struct star_op op, const char *says);

/* opening.c */
void open_waits_for_all_tasks(void);
void who_has_answered_is_asked_first(void);
void who_does_not_answer_leaves_time_for_others(void);
void who_needs_a_layout_has_it_asked_for_at_once(void);
void who_needs_a_layout_leaves_time_for_an_answer(void);
void open_says_what_is_wrong(void);
void open_by_dpdk_says_what_is_wrong(void);
void environment_is_read(void);

/* calls.c */
void operations_have_constructors(void);
void pull_and_push_over_reactors(void);
void a_longer_request_leaves_the_one_before_as_it_was(void);
void one_frame_a_reactor_carries_all_operations(void);
void fields_of_an_operation_arrive(void);
void large_pulls_are_split(void);
void many_operations_are_split(void);
void duplicates_are_summed_in_large_pushes(void);
void too_many_duplicates_are_refused(void);
void a_request_is_as_large_as_the_limit(void);
void nonsense_is_refused_before_it_is_sent(void);
void variables_of_odd_shapes(void);
void tables_are_created_and_found(void);
void bad_definitions_are_refused(void);
void shared_library_exports_the_api_only(void);

/* tables.c */
void values_have_the_type_that_is_asked_for(void);
void tables_are_emptied(void);
void tables_are_dropped(void);
void push_pull_is_one_trip(void);
void deletes_and_conditional_pulls_go_apart(void);
void values_are_assigned(void);
void only_what_is_new_is_written(void);
void rows_of_variables_are_gathered_and_scattered(void);
void whole_variables_go_to_one_reactor(void);
void requests_are_as_large_as_all_nodes_take(void);
void pulled_versions_go_with_pushes(void);
void gradients_are_clipped_by_their_norm(void);
void sizes_are_told(void);
void nonsense_about_types_and_variables_is_refused(void);

/* async.c */
void callbacks_run_once_elsewhere(void);
void pushes_and_pulls_of_a_channel_keep_their_order(void);
void callbacks_may_start_calls_but_not_wait(void);
void many_threads_share_the_channels(void);
void many_threads_share_the_channels_polling(void);
void close_fails_what_is_in_flight(void);

/* reuse.c */
void nothing_of_earlier_calls_is_left(void);
void what_nobody_waits_for_is_sent(void);
void callbacks_keep_calls_going(void);
void requests_are_waited_for_elsewhere(void);
void close_frees_what_nobody_waited_for(void);

/* small.c */
void small_calls_find_their_rows(void);
void small_calls_say_what_was_asked_for(void);
void bad_replies_to_small_calls_are_refused(void);
void small_calls_go_on_after_faults(void);
void small_calls_survive_lost_connections(void);
void small_calls_follow_the_layout(void);
void threads_make_small_calls_side_by_side(void);
void close_ends_small_calls(void);

/* sealed.c */
void changed_replies_are_asked_for_again(void);
void tickets_that_are_good_no_more_are_replaced(void);
void the_next_ticket_comes_from_who_refused_the_last(void);
void who_gets_no_ticket_is_told_why(void);
void who_is_over_a_quota_is_told_so(void);
void replies_in_clear_are_not_believed(void);

/* keep.c */
void what_is_not_durable_is_sent_again(void);
void what_is_durable_is_let_go(void);
void an_idle_worker_sends_again_by_itself(void);
void who_closes_waits_until_all_is_durable(void);
void what_is_kept_is_bounded(void);
void what_finds_no_memory_waits(void);
void what_orders_workers_waits(void);
void what_is_refused_when_it_comes_again_is_told(void);
void what_is_sent_again_may_outlast_its_layout(void);
void what_is_kept_goes_on_at_the_other_address(void);
void what_the_other_node_has_is_not_sent_again(void);
void who_is_hung_up_on_tries_the_other_address_first(void);
void attempts_at_two_addresses_take_longer_each_time(void);
void two_addresses_are_tried_often_at_first(void);
void connections_end_while_it_is_sent_again(void);
void a_node_that_has_moved_is_looked_for(void);
void both_addresses_change_at_once(void);
void a_silent_node_is_looked_for_elsewhere(void);
void an_attempt_where_a_node_was_swaps_nothing(void);
void what_a_busy_node_has_refused_is_sent_to_the_next(void);
void close_waits_for_no_layout(void);
void deadlines_fire_while_another_call_waits_for_a_layout(void);
void calls_begin_while_their_connection_ends(void);
void each_push_is_there_once(void);

/* views.c */
void views_show_what_a_pull_copies(void);
void views_of_variables_show_their_values(void);
void views_leave_buffers_to_the_transport(void);
void views_are_released_whatever_becomes_of_the_call(void);

/* programs.c */
void programs_go_to_all_reactors(void);
void few_segments_take_fewer_bytes(void);
void few_segments_have_bounds(void);
void runs_follow_the_layout(void);
void runs_that_were_executed_are_not_applied_again(void);
void wrong_results_of_runs_are_refused(void);
void what_is_not_kept_is_brought(void);
void nonsense_about_runs_is_refused(void);

/* faults.c */
void a_bad_node_fails_the_call_and_is_reconnected(void);
void a_lost_connection_is_replaced_in_the_middle_of_calls(void);
void a_dying_channel_fails_all_in_flight_at_once(void);
void other_reactors_go_on(void);
void deadlines_fire(void);
void late_replies_are_dropped(void);
void a_request_half_sent_is_completed(void);
void silent_requests_do_not_pile_up(void);
void a_connection_closed_while_idle_is_replaced(void);
void slow_bytes_are_put_together(void);
void a_refusing_node_is_named(void);
void connecting_gives_up_in_time(void);
void statuses_become_errno(void);
void the_last_try_with_time_says_why(void);
void a_busy_node_is_asked_again(void);
void refused_requests_keep_their_order(void);
void lost_results_are_not_replaced_at_once(void);
void what_was_applied_is_not_applied_by_a_newer_layout(void);
void a_push_whose_results_are_lost_is_applied_whole(void);
void a_cancelled_call_with_a_refused_part_has_failed(void);
void a_queue_goes_on_when_the_last_slice_is_lost(void);
void stale_layouts_are_fetched_again(void);
void an_unpublished_layout_ends_at_the_deadline(void);
void restarts_never_go_unnoticed(void);

#endif
