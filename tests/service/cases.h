/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases of this test program, by file; a shard behind a simulated link, and requests for it. */
#ifndef TESTS_SERVICE_CASES_H
#define TESTS_SERVICE_CASES_H

#include "service/service.h"
#include "tests/rpc/rig.h"
#include "tests/unit.h"

#define SERVICE_CASES(X) \
	/* operations.c */ \
	X(pull_reads_initial_values) \
	X(push_is_seen_by_the_next_pull) \
	X(one_request_holds_many_operations) \
	X(duplicate_keys_are_summed_first) \
	X(read_only_pulls_create_nothing) \
	X(results_are_padded) \
	X(many_pipelined_requests) \
	X(requests_cut_anywhere) \
	X(variables_are_tables_of_blocks) \
	X(objects_are_installed_once) \
	X(tables_count_what_is_done_on_them) \
	X(tables_count_staleness_and_admissions) \
	/* tables.c */ \
	X(rows_are_converted_on_their_way) \
	X(push_and_pull_in_one_trip) \
	X(deleted_rows_start_again) \
	X(only_new_rows_are_sent) \
	X(deletes_beside_conditional_pulls_make_no_rows) \
	X(large_conditional_pulls_are_consistent) \
	X(results_count_the_pushes) \
	X(unadmitted_keys_read_the_filter_value) \
	X(each_operation_counts_once) \
	X(nonfinite_gradients_change_nothing) \
	X(refused_pushes_hold_no_rows) \
	X(lamb_takes_the_whole_tensor) \
	X(gradients_of_whole_variables_are_clipped) \
	X(whole_variables_have_one_home) \
	X(integers_take_no_gradients) \
	X(old_rows_are_swept_in_slices) \
	X(emptied_tables_start_again) \
	/* assign.c */ \
	X(values_are_assigned) \
	/* drop.c */ \
	X(handles_of_dropped_tables_are_refused) \
	X(requests_in_flight_end_or_are_finished) \
	X(dropped_tables_sums_go_too) \
	X(dropped_tables_leave_no_memory_behind) \
	X(dropped_tables_programs_go_too) \
	/* commit.c */ \
	X(sums_are_applied_once) \
	X(sums_have_tags) \
	X(sums_thrown_away_are_not_committed) \
	X(wrong_sums_are_refused) \
	X(random_sums_follow_plain_arrays) \
	X(commits_go_by_slices) \
	X(rows_are_divided_by_the_pushes_to_them) \
	X(what_divides_sums_is_said_when_they_are_opened) \
	X(a_large_push_whose_sums_are_closed_meanwhile_is_in_no_later_ones) \
	/* refusals.c */ \
	X(each_bad_request_is_refused_and_changes_nothing) \
	X(what_is_left_over_or_missing_is_refused) \
	X(operations_and_keys_have_limits) \
	X(stale_layouts_are_refused) \
	X(each_right_is_for_its_operations) \
	X(new_rows_of_a_principal_have_a_quota) \
	X(memory_of_a_principal_has_a_quota) \
	X(a_request_is_refused_whole) \
	X(keys_of_other_shards_are_refused) \
	X(full_memory_refuses_a_request_as_a_whole) \
	/* large.c */ \
	X(largest_requests_over_a_bad_link) \
	X(slices_are_bounded) \
	X(small_requests_are_answered_in_between) \
	X(large_pushes_at_once_all_finish) \
	X(wide_small_pushes_at_once_all_finish) \
	X(dead_streams_finish_what_was_begun) \
	X(deadline_passes_while_another_push_has_the_scratch) \
	X(layout_changes_in_the_middle) \
	X(large_pulls_share_a_small_pool) \
	X(ids_change_their_meaning_between_requests) \
	X(a_stream_may_end_under_a_request) \
	/* marks.c */ \
	X(a_mark_waits_where_nobody_waits_for_it) \
	X(who_is_forgotten_is_told_of_first) \
	/* direct.c */ \
	X(fast_and_general_path_agree) \
	X(fast_and_general_path_agree_in_full_memory) \
	/* pushes.c */ \
	X(parts_of_a_push_count_once) \
	X(a_rate_and_a_scale_of_zero_are_meant) \
	X(gradients_of_one_key_that_overflow_are_refused) \
	X(computed_gradients_of_one_key_that_overflow_are_refused) \
	/* programs.c */ \
	X(unary_steps_are_those_of_plain_c) \
	X(binary_steps_are_those_of_plain_c) \
	X(reductions_are_those_of_plain_c) \
	X(pools_are_sums_by_segment) \
	X(segments_of_one_and_two_bytes_are_those_of_four) \
	X(gradients_of_pools_are_pushed) \
	X(one_run_reads_computes_and_applies) \
	X(rows_may_be_their_own_gradients) \
	X(sums_and_gradients_end_where_a_variable_does) \
	X(lookups_read_what_pulls_read) \
	/* runs.c */ \
	X(bad_runs_are_refused_and_change_nothing) \
	X(computed_gradients_that_are_not_finite_change_nothing) \
	X(large_runs_go_by_slices) \
	X(large_runs_of_dead_streams_are_finished) \
	X(full_memory_refuses_runs_as_a_whole) \
	X(runs_have_limits) \
	X(programs_are_installed_once_and_bound_to_tables) \
	/* kept.c */ \
	X(kept_values_are_those_of_one_run) \
	X(kept_values_belong_to_a_session_and_a_tag) \
	X(kept_values_may_be_kept_and_used_again) \
	X(kept_values_that_are_gone_change_nothing) \
	X(kept_values_have_a_lease) \
	X(kept_values_have_room_and_shares) \
	X(kept_values_go_by_slices) \
	X(runs_that_keep_are_checked) \
	/* snapshot.c */ \
	X(snapshots_while_requests_are_served) \
	X(requests_wait_for_room_and_go_on) \
	X(small_sums_that_waited_are_checked_again) \
	X(snapshots_that_are_waited_for_are_given_up) \
	X(large_pushes_and_instants_wait_for_each_other) \
	X(commits_and_instants_wait_for_each_other) \
	X(large_deletes_and_instants_wait_for_each_other) \
	X(what_waits_is_refused_by_another_layout) \
	X(snapshots_have_an_eighth_of_busy_turns) \
	X(snapshots_and_loads_are_refused) \
	/* model.c */ \
	X(random_requests_follow_the_model)

#define X(name) void name(void);
SERVICE_CASES(X)
#undef X

/* The tables of a shard; the first ones have a rate of 0.5. */
enum {
	WORDS = 1,     /* dim 16, SGD, uniform */
	COUNTS = 2,    /* dim 1, SGD, zeros */
	WIDE = 3,      /* dim 4096, SGD, normal */
	ADAGRAD = 4,   /* dim 7, Adagrad, uniform */
	EIGHTS = 5,    /* dim 8, SGD, zeros */
	VARIABLE = 7,  /* of 100 x 64: blocks of 16 rows, 7 of them */
	HALVES = 8,    /* dim 4, float16, SGD, uniform, versions */
	LAMB = 9,      /* variable of 100 x 64, whole */
	CLIPPED = 10,  /* the same, SGD with a rate of 1, gradients clipped to a norm of 2 */
	FILTERED = 11, /* dim 2, a row from the third time on, before it reads 0.5; first value 1 */
	LIVING = 12,   /* dim 2, SGD, rows live for 10 steps */
	NUMBERS = 13,  /* dim 2, int32, -7 */
	OBJECTS = NUMBERS,
	PARTITIONS = 1024,
	KEPT_BYTES = 1 << 20, /* what programs may keep; a session a quarter of it, ... */
	KEPT_LEASE_S = 10,    /* ... for so long */
};

struct shard {
	struct rig rig;
	void *arena, *marks, *copies;
	struct store *store, *twin_store;
	struct service *service;
	bool general; /* set before the start: requests have no fast path */
	/* the same: as service_options has it */
	const _Atomic(uint8_t) *(*rights)(const struct rpc_request *request);
	struct secure_account *(*account)(const struct rpc_request *request);
	void (*over_quota)(const struct rpc_request *request, enum wire_status status);
	struct store_table *twins[OBJECTS + 1]; /* the same tables in another store */
};

extern struct shard shard;
extern const struct object_spec *specs[OBJECTS + 1]; /* by id; NULL where there is none */

/* rig_init; then the shard with its tables and all partitions. arena_bytes 0: plenty. */
void shard_init(uint64_t seed, unsigned server_mbufs);
void shard_start(size_t arena_bytes);
void shard_stop(void);
/* init, start, and peer 0. */
struct peer *shard_simple(uint64_t seed);
uint64_t shard_rows(void);

/* A request's payload. */
struct request {
	uint8_t *bytes;
	uint32_t n, room;
};

void request_free(struct request *r);
/* Appends an operation as it is, then its body, padded. */
void request_op(struct request *r, struct wire_op op, const void *keys, const void *rest);
void request_append(struct request *r, const void *bytes, size_t n);
void request_zeros(struct request *r, uint32_t n); /* at most 512 */
/* A good header of an operation. */
struct wire_op pull_op(unsigned object, uint32_t count, unsigned flags);
struct wire_op push_op(unsigned object, uint32_t count, float rate);
void request_pull(struct request *r, unsigned object, const uint64_t *keys, uint32_t count, unsigned flags);
void request_push(struct request *r, unsigned object, const uint64_t *keys, const float *gradients, uint32_t count,
		  float rate);
/* Sends it as the peer's next request, and empties it. */
void request_send(struct request *r, struct peer *peer);
/* Sends it, and awaits its reply. */
struct reply request_run(struct request *r, struct peer *peer);
/* Runs it, and expects a refusal. */
void request_refused(struct request *r, struct peer *peer, enum wire_status status, const char *part);
/* Runs it, and expects no refusal. */
void request_good(struct request *r, struct peer *peer);

/* The i-th result of a good reply and its body; NULL when there is none. */
const uint8_t *result_of(const struct reply *reply, unsigned i, struct wire_result *result);
/* Its rows, checked against what was asked. */
const float *result_rows(const struct reply *reply, unsigned i, unsigned object, uint32_t count);

void pull(struct peer *peer, unsigned object, const uint64_t *keys, uint32_t count, unsigned flags, float *rows);
void push(struct peer *peer, unsigned object, const uint64_t *keys, const float *gradients, uint32_t count);
float pull_one(struct peer *peer, unsigned object, uint64_t key);
/* What a row begins with, by the twin. */
void initial(unsigned object, uint64_t key, float *row);

/* keys[i] = first + i; gradients all the same. */
void fill_keys(uint64_t *keys, uint32_t count, uint64_t first);
void fill_floats(float *to, size_t n, float value);

#endif
