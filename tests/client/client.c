/* SPDX-License-Identifier: BSD-3-Clause */
#include "secure/ticket.h"
#include "tests/client/cases.h"

#include <stdlib.h>
#include <time.h>

uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

void sleep_ms(unsigned ms)
{
	const struct timespec time = { ms / 1000, (long)(ms % 1000) * 1000000 };

	nanosleep(&time, NULL);
}

struct star_table *bench_table(struct bench *b, const char *name, uint32_t dim)
{
	const struct star_spec spec = { .name = name, .dim = dim };
	struct star_error err = { 0 };
	struct star_table *table = star_table_create(b->cluster, &spec, LONG_US, &err);

	if (!table)
		unit_fail(__FILE__, __LINE__, "table \"%s\": %s", name, err.text);
	return table;
}

struct bench bench_start(uint32_t nodes, uint32_t reactors, uint32_t dim)
{
	struct bench b = { .peer = peer_start(nodes, reactors), .dim = dim };
	struct star_error err = { 0 };

	b.cluster = star_open(b.peer->address, LONG_US, &err);
	if (!b.cluster)
		unit_fail(__FILE__, __LINE__, "star_open: %s", err.text);
	else
		b.table = bench_table(&b, "words", dim);
	if (!b.table)
		exit(EXIT_FAILURE); /* every case would fail for this one reason */
	return b;
}

void bench_stop(struct bench *b)
{
	star_close(b->cluster);
	peer_stop(b->peer);
}

bool pull_works(struct bench *b)
{
	uint64_t keys[10];
	float *rows = calloc(10 * b->dim, sizeof(*rows));
	struct star_error err = { 0 };
	bool good;

	for (uint64_t i = 0; i < 10; i++)
		keys[i] = i;
	good = CHECK_INT(star_pull(b->table, keys, 10, rows, 0, LONG_US, &err), 0) &&
	       CHECK_NEAR(rows[9 * b->dim], peer_initial(1, 9, 0), 0);
	if (err.code)
		unit_fail(__FILE__, __LINE__, "%s", err.text);
	free(rows);
	return good;
}

/* Those in which a node's reactors have a part: over TCP, and over datagrams. */
#define OVER_BOTH(X) \
	X(operations_have_constructors) \
	X(pull_and_push_over_reactors) \
	X(a_longer_request_leaves_the_one_before_as_it_was) \
	X(one_frame_a_reactor_carries_all_operations) \
	X(fields_of_an_operation_arrive) \
	X(large_pulls_are_split) \
	X(many_operations_are_split) \
	X(duplicates_are_summed_in_large_pushes) \
	X(too_many_duplicates_are_refused) \
	X(a_request_is_as_large_as_the_limit) \
	X(variables_of_odd_shapes) \
	X(programs_go_to_all_reactors) \
	X(few_segments_take_fewer_bytes) \
	X(few_segments_have_bounds) \
	X(what_is_not_kept_is_brought) \
	X(runs_follow_the_layout) \
	X(wrong_results_of_runs_are_refused) \
	X(values_have_the_type_that_is_asked_for) \
	X(tables_are_emptied) \
	X(tables_are_dropped) \
	X(push_pull_is_one_trip) \
	X(deletes_and_conditional_pulls_go_apart) \
	X(values_are_assigned) \
	X(only_what_is_new_is_written) \
	X(rows_of_variables_are_gathered_and_scattered) \
	X(whole_variables_go_to_one_reactor) \
	X(requests_are_as_large_as_all_nodes_take) \
	X(pulled_versions_go_with_pushes) \
	X(callbacks_run_once_elsewhere) \
	X(pushes_and_pulls_of_a_channel_keep_their_order) \
	X(callbacks_may_start_calls_but_not_wait) \
	X(many_threads_share_the_channels) \
	X(many_threads_share_the_channels_polling) \
	X(close_fails_what_is_in_flight) \
	X(nothing_of_earlier_calls_is_left) \
	X(what_nobody_waits_for_is_sent) \
	X(callbacks_keep_calls_going) \
	X(requests_are_waited_for_elsewhere) \
	X(close_frees_what_nobody_waited_for) \
	X(small_calls_find_their_rows) \
	X(small_calls_say_what_was_asked_for) \
	X(bad_replies_to_small_calls_are_refused) \
	X(small_calls_go_on_after_faults) \
	X(small_calls_survive_lost_connections) \
	X(small_calls_follow_the_layout) \
	X(threads_make_small_calls_side_by_side) \
	X(close_ends_small_calls) \
	X(a_bad_node_fails_the_call_and_is_reconnected) \
	X(a_lost_connection_is_replaced_in_the_middle_of_calls) \
	X(a_dying_channel_fails_all_in_flight_at_once) \
	X(other_reactors_go_on) \
	X(deadlines_fire) \
	X(late_replies_are_dropped) \
	X(silent_requests_do_not_pile_up) \
	X(a_connection_closed_while_idle_is_replaced) \
	X(slow_bytes_are_put_together) \
	X(a_refusing_node_is_named) \
	X(connecting_gives_up_in_time) \
	X(statuses_become_errno) \
	X(a_busy_node_is_asked_again) \
	X(refused_requests_keep_their_order) \
	X(stale_layouts_are_fetched_again) \
	X(an_unpublished_layout_ends_at_the_deadline) \
	X(restarts_never_go_unnoticed) \
	X(views_show_what_a_pull_copies) \
	X(views_of_variables_show_their_values) \
	X(views_leave_buffers_to_the_transport) \
	X(views_are_released_whatever_becomes_of_the_call)

#define DATAGRAMS(name) \
	static void name##_by_dpdk(void) \
	{ \
		peer_datagrams = true; \
		name(); \
		peer_datagrams = false; \
	}
OVER_BOTH(DATAGRAMS)

/* Some of them over records: what is special there is in sealed.c. */
#define OVER_RECORDS(X) \
	X(pull_and_push_over_reactors) \
	X(one_frame_a_reactor_carries_all_operations) \
	X(large_pulls_are_split) \
	X(variables_of_odd_shapes) \
	X(programs_go_to_all_reactors) \
	X(pushes_and_pulls_of_a_channel_keep_their_order) \
	X(many_threads_share_the_channels) \
	X(many_threads_share_the_channels_polling) \
	X(close_fails_what_is_in_flight) \
	X(small_calls_find_their_rows) \
	X(small_calls_survive_lost_connections) \
	X(threads_make_small_calls_side_by_side) \
	X(a_lost_connection_is_replaced_in_the_middle_of_calls) \
	X(deadlines_fire) \
	X(late_replies_are_dropped) \
	X(a_connection_closed_while_idle_is_replaced) \
	X(slow_bytes_are_put_together) \
	X(a_busy_node_is_asked_again) \
	X(refused_requests_keep_their_order) \
	X(stale_layouts_are_fetched_again) \
	X(restarts_never_go_unnoticed)

#define RECORDS(name) \
	static void name##_sealed(void) \
	{ \
		peer_data = SECURE_DATA_SEALED; \
		name(); \
		peer_data = SECURE_DATA_OPEN; \
	}
OVER_RECORDS(RECORDS)

#define CASE(name) \
	{ \
#name, name \
	}
#define SEALED(name) CASE(name##_sealed),
#define BOTH(name) CASE(name), CASE(name##_by_dpdk),

const char *const unit_suite = "client";
const struct unit_case unit_cases[] = {
	OVER_BOTH(BOTH) OVER_RECORDS(SEALED) CASE(changed_replies_are_asked_for_again),
	CASE(tickets_that_are_good_no_more_are_replaced),
	CASE(the_next_ticket_comes_from_who_refused_the_last),
	CASE(who_gets_no_ticket_is_told_why),
	CASE(who_is_over_a_quota_is_told_so),
	CASE(replies_in_clear_are_not_believed),
	CASE(the_last_try_with_time_says_why),
	CASE(what_is_not_durable_is_sent_again),
	CASE(what_is_durable_is_let_go),
	CASE(an_idle_worker_sends_again_by_itself),
	CASE(who_closes_waits_until_all_is_durable),
	CASE(what_is_kept_is_bounded),
	CASE(what_finds_no_memory_waits),
	CASE(what_orders_workers_waits),
	CASE(what_is_refused_when_it_comes_again_is_told),
	CASE(what_is_sent_again_may_outlast_its_layout),
	CASE(what_is_kept_goes_on_at_the_other_address),
	CASE(what_the_other_node_has_is_not_sent_again),
	CASE(who_is_hung_up_on_tries_the_other_address_first),
	CASE(attempts_at_two_addresses_take_longer_each_time),
	CASE(two_addresses_are_tried_often_at_first),
	CASE(connections_end_while_it_is_sent_again),
	CASE(a_node_that_has_moved_is_looked_for),
	CASE(both_addresses_change_at_once),
	CASE(a_silent_node_is_looked_for_elsewhere),
	CASE(an_attempt_where_a_node_was_swaps_nothing),
	CASE(what_a_busy_node_has_refused_is_sent_to_the_next),
	CASE(close_waits_for_no_layout),
	CASE(deadlines_fire_while_another_call_waits_for_a_layout),
	CASE(calls_begin_while_their_connection_ends),
	CASE(each_push_is_there_once),
	CASE(nonsense_is_refused_before_it_is_sent),
	CASE(tables_are_created_and_found),
	CASE(bad_definitions_are_refused),
	CASE(open_waits_for_all_tasks),
	CASE(who_has_answered_is_asked_first),
	CASE(who_does_not_answer_leaves_time_for_others),
	CASE(who_needs_a_layout_has_it_asked_for_at_once),
	CASE(who_needs_a_layout_leaves_time_for_an_answer),
	CASE(open_says_what_is_wrong),
	CASE(open_by_dpdk_says_what_is_wrong),
	CASE(environment_is_read),
	CASE(shared_library_exports_the_api_only),
	CASE(gradients_are_clipped_by_their_norm),
	CASE(sizes_are_told),
	CASE(nonsense_about_types_and_variables_is_refused),
	CASE(nonsense_about_runs_is_refused),
	CASE(lost_results_are_not_replaced_at_once),
	CASE(what_was_applied_is_not_applied_by_a_newer_layout),
	CASE(a_push_whose_results_are_lost_is_applied_whole),
	CASE(a_cancelled_call_with_a_refused_part_has_failed),
	CASE(a_queue_goes_on_when_the_last_slice_is_lost),
	CASE(runs_that_were_executed_are_not_applied_again),
	CASE(a_request_half_sent_is_completed),
	CASE(source_ports_lead_to_the_reactor),
	{ NULL, NULL },
};
