/* SPDX-License-Identifier: BSD-3-Clause */
/* The predicted size of a table, compared with its real size. */
#include "store/size.h"

#include <errno.h>
#include <string.h>

#include "tests/store/cases.h"

enum { LEAST_SLACK = 128 << 10 };

/* Never less than it is; and beyond a few pages at most 8 % more. */
static void check_size(const struct store_table *t, const char *what, uint64_t waiting)
{
	const struct store_stats *stats = store_table_stats(t);
	struct star_error err = { 0 };
	struct store_size size;

	if (!CHECK_INT(store_size(store_table_spec(t), 1, stats->rows, waiting, &size, &err), 0))
		return;
	if (stats->memory_bytes > size.total_bytes ||
	    (double)size.total_bytes > 1.08 * (double)stats->memory_bytes + LEAST_SLACK)
		unit_fail(__FILE__, __LINE__, "%s: %llu rows take %llu bytes, and are said to take %llu", what,
			  (unsigned long long)stats->rows, (unsigned long long)stats->memory_bytes,
			  (unsigned long long)size.total_bytes);
}

static void grow_and_check(const char *what, uint32_t dim, unsigned optimizer, const char *options, uint64_t most)
{
	struct fixture f = fixture_open((size_t)200 << 20);
	struct object_spec spec = spec_of("t", dim, optimizer);
	struct star_error err = { 0 };
	struct store_table *t;
	store_row rows[STORE_BATCH];
	uint64_t next = 1;

	if (!CHECK_INT(wire_object_spec_options(&spec, options, &err), 0))
		unit_fail(__FILE__, __LINE__, "%s", err.text);
	t = table_from(&f, &spec);
	check_size(t, what, 0);
	for (uint64_t key = 0; key < most; key++) {
		if (!CHECK_UINT(store_find(t, &key, 1, STORE_PULL, 0, rows), 0))
			break;
		if (key == next || key + 1 == most) {
			check_size(t, what, spec.filter == FILTER_COUNTER ? key + 1 - store_table_stats(t)->rows : 0);
			next += next / 7 + 1;
		}
	}
	fixture_close(&f);
}

void sizes_are_what_tables_take(void)
{
	grow_and_check("sgd", 4, OPTIM_SGD, "", 1500000);
	grow_and_check("adam", 16, OPTIM_ADAM, "", 300000);
	grow_and_check("ftrl, policies", 1, OPTIM_FTRL, "full=evict_lfu, steps_to_live=100, versions=1", 500000);
	grow_and_check("long rows", 2000, OPTIM_ADAM, "", 5000);
	grow_and_check("very long rows", WIRE_DIM_MAX, OPTIM_ADAGRAD, "", 200);
	grow_and_check("counter", 8, OPTIM_SGD, "filter=counter, filter_frequency=2", 500000);
	grow_and_check("bloom", 8, OPTIM_SGD, "filter=bloom, filter_frequency=1, filter_keys=100000, filter_error=0.01",
		       100000);
}

void sizes_refuse_what_no_store_can_have(void)
{
	struct object_spec spec = spec_of("t", 128, OPTIM_ADAM);
	struct star_error err = { 0 };
	struct store_size size;

	CHECK_INT(store_size(&spec, 1, 100000000, 0, &size, &err), 0);
	/* 1,536 bytes and the key: beyond 128 GiB in units of 64 bytes. */
	CHECK_UINT(size.head_bytes, 8 + 4);
	CHECK_UINT(size.value_bytes + size.slot_bytes, 3 * 128 * 4);
	CHECK_UINT(size.row_bytes % 64, 0);
	CHECK_INT(store_size(&spec, 1, 1000000000, 0, &size, &err), -EINVAL);
	CHECK(strstr(err.text, "use more reactors") != NULL);
	CHECK_INT(store_size(&spec, 1, UINT64_MAX, 0, &size, &err), -EINVAL);
	CHECK_INT(store_size(&spec, 1, 0, UINT64_MAX, &size, &err), -EINVAL);
	CHECK_INT(store_size(&spec, 0, 1, 0, &size, &err), -EINVAL);
	/* No more rows than the table may have. */
	spec.rows_max = 1000;
	CHECK_INT(store_size(&spec, 1, UINT64_C(1) << 30, 0, &size, &err), 0);
	CHECK(size.total_bytes < 4 << 20);
}
