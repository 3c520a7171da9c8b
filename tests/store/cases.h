/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases of the store's test program, by file, and what they share. */
#ifndef TESTS_STORE_CASES_H
#define TESTS_STORE_CASES_H

#include "store/push.h"
#include "store/store.h"
#include "tensor/convert.h"
#include "tensor/dtype.h"
#include "tests/unit.h"

#define STORE_CASES(X) \
	/* rows.c */ \
	X(creation_refuses_what_it_must) \
	X(rows_are_made_once_and_found) \
	X(reading_makes_nothing) \
	X(keys_of_every_kind) \
	X(one_batch_with_duplicates_makes_one_row) \
	X(full_arena_refuses_and_serves_the_rest) \
	X(many_tables_share_an_arena) \
	X(small_tables_are_small) \
	X(rows_in_a_huge_arena) \
	X(rows_are_looked_at_while_their_table_grows) \
	/* size.c */ \
	X(sizes_are_what_tables_take) \
	X(sizes_refuse_what_no_store_can_have) \
	/* growth.c */ \
	X(growth_is_bounded_in_moves_and_memory) \
	X(index_counts_agree_at_any_fill) \
	X(index_counts_agree_under_deletion) \
	X(rows_stay_where_they_are) \
	X(crowd_with_one_hash_is_refused) \
	X(crowd_in_one_segment_is_refused) \
	X(keys_in_the_order_of_a_walk_find_room) \
	X(one_row_is_bounded_work_whatever_the_keys) \
	/* initial.c */ \
	X(initial_values_are_golden) \
	X(initial_values_do_not_depend_on_order) \
	X(initial_values_differ_by_everything) \
	X(moments_of_uniform_and_normal) \
	X(slots_have_their_own_first_value) \
	X(truncated_and_scaled_initializers) \
	X(variables_end_with_zeros) \
	/* removal.c */ \
	X(deleted_rows_are_gone) \
	X(deleted_rows_memory_comes_back) \
	X(filling_and_emptying_leaks_nothing) \
	X(given_back_pages_serve_rows) \
	X(walk_meets_what_stays) \
	X(quiet_walk_meets_each_once) \
	X(versions_rise_over_deletion) \
	X(push_holds_the_memory_of_deleted_rows) \
	/* types.c */ \
	X(random_pushes_of_all_types_have_the_scalar_bits) \
	X(rows_are_read_as_any_type) \
	X(master_keeps_small_updates) \
	X(integers_are_held) \
	X(assigned_rows_hold_what_came) \
	X(assigned_values_must_be_finite) \
	X(assigned_values_must_fit_the_type) \
	X(rows_of_all_sizes) \
	/* policy.c */ \
	X(counter_admits_at_its_frequency) \
	X(counter_in_a_full_arena_still_counts) \
	X(frequency_goes_on_from_the_filter) \
	X(bloom_errors_stay_within_the_bound) \
	X(bloom_updates_conservatively) \
	X(bloom_counts_as_far_as_needed) \
	X(bloom_that_does_not_fit_is_refused) \
	X(rows_max_refuses_and_serves_the_rest) \
	X(sampled_eviction_is_near_the_exact) \
	X(full_arena_evicts) \
	X(push_in_flight_is_not_evicted) \
	/* sweep.c */ \
	X(old_rows_are_swept_away) \
	X(keys_that_wait_too_long_are_forgotten) \
	X(light_rows_are_swept_when_asked) \
	X(masters_are_weighed) \
	X(sweep_goes_on_while_rows_come_and_go) \
	X(sweep_under_a_push_in_flight) \
	X(tables_are_emptied_in_slices) \
	X(filters_of_emptied_tables_forget) \
	/* whole.c */ \
	X(non_finite_gradients_are_refused) \
	X(non_finite_gradients_are_clipped_or_passed) \
	X(long_non_finite_gradients_are_counted) \
	X(rates_follow_step_and_staleness) \
	X(parts_are_applied_as_one_push) \
	X(zero_is_a_rate_and_a_scale) \
	X(gradients_are_clipped_by_their_norm) \
	X(clipped_gradients_count_once) \
	X(lamb_in_slices_is_lamb) \
	/* soak.c */ \
	X(large_table_takes_the_memory_it_says) \
	/* snapshot.c */ \
	X(snapshots_are_of_one_instant) \
	X(snapshots_wait_for_room) \
	X(deltas_follow_a_full_snapshot) \
	X(log_overflow_allows_full_snapshots_only) \
	X(snapshots_are_given_up) \
	X(snapshots_are_lost_without_room) \
	X(sweeps_are_put_off) \
	X(emptied_tables_stay_empty_in_deltas) \
	/* journal.c */ \
	X(a_journal_makes_the_same_store) \
	X(rows_of_all_shapes_are_kept) \
	X(what_a_refused_push_used_is_kept) \
	X(a_journal_counts_who_waits) \
	X(versions_of_lost_moments_never_come_again) \
	X(a_row_that_went_under_a_push_stays_away) \
	X(a_large_push_is_there_whole) \
	/* snapshot_load.c */ \
	X(snapshot_memory_is_checked) \
	X(runs_that_do_not_fit_are_refused) \
	X(records_that_no_row_can_be_are_refused) \
	X(variables_are_loaded_by_block) \
	X(loading_into_a_full_store_is_refused) \
	X(what_fills_a_store_fits_again) \
	X(shares_do_not_bind_what_is_loaded) \
	X(rows_at_one_end_of_the_walk_are_trimmed_and_give_way) \
	X(rows_of_the_last_look_up_are_trimmed) \
	X(counts_without_room_are_forgotten) \
	X(counts_are_restored) \
	X(deleted_keys_no_longer_wait) \
	X(versions_rise_over_a_restore) \
	X(no_row_starts_with_version_0) \
	X(what_is_later_than_its_table_is_not_old) \
	X(slices_of_long_rows_are_bounded) \
	/* bloom.c */ \
	X(bloom_counts_follow_their_keys) \
	X(bloom_blocks_that_share_a_slot_are_kept) \
	X(missing_bloom_blocks_are_refused) \
	/* model.c */ \
	X(random_operations_follow_the_model) \
	/* push.c */ \
	X(push_sums_duplicates_in_order) \
	X(sums_are_the_same_before_and_while_rows_change) \
	X(push_of_one_key_many_times) \
	X(push_after_four_billion_keys) \
	X(push_of_all_keys_twice_fills_the_sums) \
	X(operations_are_separate_pushes) \
	X(push_without_op_begins_one) \
	X(push_over_a_limit_is_refused) \
	X(push_into_a_full_store_changes_no_value) \
	X(abandoned_push_changes_no_value) \
	X(random_pushes_follow_plain_sums) \
	/* sums.c */ \
	X(sums_are_applied_as_one_gradient) \
	X(sums_are_thrown_away) \
	X(gradients_that_come_while_sums_go_out_are_applied_once) \
	X(sums_in_a_full_arena_are_refused) \
	X(sums_that_are_not_finite_are_left_out) \
	X(sums_are_as_wide_as_their_object) \
	X(versions_rise_while_sums_go_out) \
	X(sums_are_divided_by_the_pushes_of_each_row) \
	X(sums_are_not_for_all_optimizers) \
	/* drop.c */ \
	X(dropped_tables_memory_is_used_again) \
	X(tables_come_and_go_beside_others) \
	X(dropped_sums_leave_nothing) \
	X(snapshots_know_nothing_of_dropped_tables)

#define X(name) void name(void);
STORE_CASES(X)
#undef X

/* A store in memory of its own that is filled with garbage first. */
struct fixture {
	void *memory;
	struct store *store;
};

struct fixture fixture_open(size_t arena_bytes);
void fixture_close(struct fixture *f);

/* float32, uniform in [-1, 1), rate 0.1; adagrad with epsilon 1e-8 and initial accumulator 0.125. */
struct object_spec spec_of(const char *name, uint32_t dim, unsigned optimizer);
struct store_table *table_of(struct fixture *f, const char *name, uint32_t dim, unsigned optimizer);
struct store_table *table_from(struct fixture *f, const struct object_spec *spec);
/* The same with options as wire_object_spec_options takes them, on another element type. */
struct store_table *table_with(struct fixture *f, const char *name, uint32_t dim, unsigned optimizer, unsigned dtype,
			       const char *options);

/* One key. */
store_row find_one(struct store_table *table, uint64_t key, enum store_find_mode mode);

/* A read-only look-up; returns how many keys have no row. */
unsigned look_up(struct store_table *table, const uint64_t *keys, unsigned n, store_row *rows);

/* A row's values and its slots, of a table of float32. */
const float *values_of(const struct store_table *table, store_row row);
const float *slots_of(const struct store_table *table, store_row row);

/* A push as the service makes it. */
struct store_push *open_push(uint32_t max_keys, uint32_t max_bytes);

/* All keys of an operation, in slices of `slice`; all its gradients, rows of dtype that lie `stride` bytes apart. */
int add_keys(struct store_push *p, struct store_table *t, const uint64_t *keys, unsigned n, unsigned slice);
int look_at(struct store_push *p, struct store_table *t, const void *gradients, unsigned dtype, size_t stride,
	    unsigned n, unsigned slice);
void add_rows(struct store_push *p, struct store_table *t, const void *gradients, unsigned dtype, size_t stride,
	      unsigned n, unsigned slice, const struct store_push_step *step);

/* One gradient for one key, all at once. */
void push_one(struct store_table *t, uint64_t key, const float *gradient, float rate);

/* The inverse of the index's hash: the key that has it. */
uint64_t key_of_hash(uint64_t hash);

#endif
