/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases of the store's test program, by file, and what they share. */
#ifndef TESTS_STORE_CASES_H
#define TESTS_STORE_CASES_H

#include "store/store.h"
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
	/* growth.c */ \
	X(growth_is_bounded_in_moves_and_memory) \
	X(index_counts_agree_at_any_fill) \
	X(rows_stay_where_they_are) \
	X(crowd_with_one_hash_is_refused) \
	X(crowd_in_one_segment_is_refused) \
	/* initial.c */ \
	X(philox_known_answers) \
	X(log_and_sine_are_near_the_libraries) \
	X(initial_values_are_golden) \
	X(initial_values_do_not_depend_on_order) \
	X(initial_values_differ_by_everything) \
	X(moments_of_uniform_and_normal) \
	X(slots_have_their_own_first_value) \
	/* model.c */ \
	X(random_operations_follow_the_model) \
	/* push.c */ \
	X(push_sums_duplicates_in_order) \
	X(push_of_one_key_many_times) \
	X(push_of_all_keys_twice_fills_the_sums) \
	X(operations_are_separate_pushes) \
	X(push_without_op_begins_one) \
	X(push_over_a_limit_is_refused) \
	X(push_into_a_full_store_changes_no_value) \
	X(abandoned_push_changes_no_value) \
	X(random_pushes_follow_plain_sums)

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

/* float32, uniform in [-1, 1), rate 0.1, epsilon 1e-8, initial accumulator 0.125. */
struct object_spec spec_of(const char *name, uint32_t dim, unsigned optimizer);
struct store_table *table_of(struct fixture *f, const char *name, uint32_t dim, unsigned optimizer);

/* One key. */
store_row find_one(struct store_table *table, uint64_t key, int create);

/* The inverse of the index's hash: the key that has it. */
uint64_t key_of_hash(uint64_t hash);

#endif
