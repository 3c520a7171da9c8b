/* SPDX-License-Identifier: BSD-3-Clause */
/* Views: what a pull copies, where it lies. */
#include "tests/client/cases.h"

#include <errno.h>
#include <stdlib.h>

#include "base/prng.h"

enum { LARGE_DIM = 4096, LARGE_ROWS = 64, LARGE_BYTES = LARGE_ROWS * LARGE_DIM * 4, VIEWS = 16 };

/* The view's parts are in order, without gaps, and hold those bytes. Returns how many parts. */
static uint32_t check_view(struct star_view *view, const void *expected, uint64_t bytes)
{
	const struct star_view_part *parts = NULL;
	const uint32_t count = star_view_parts(view, &parts);
	uint64_t at = 0;

	for (uint32_t i = 0; i < count; i++) {
		if (!CHECK_UINT(parts[i].offset, at) || !CHECK(parts[i].bytes && parts[i].bytes <= bytes - at))
			return 0;
		CHECK_MEM(parts[i].data, (const char *)expected + at, parts[i].bytes);
		at += parts[i].bytes;
	}
	CHECK_UINT(at, bytes);
	return count;
}

static void check_copies(struct star_view *view, const char *expected, uint64_t bytes, uint64_t seed)
{
	char *copy = malloc(bytes);
	struct prng p;

	prng_seed(&p, seed);
	CHECK_INT(star_view_copy(view, 0, bytes, copy), 0);
	CHECK_MEM(copy, expected, bytes);
	CHECK_INT(star_view_copy(view, bytes, 0, copy), 0);
	CHECK_INT(star_view_copy(view, 0, bytes + 1, copy), -EINVAL);
	CHECK_INT(star_view_copy(view, bytes + 1, 0, copy), -EINVAL);
	CHECK_INT(star_view_copy(view, UINT64_MAX, 2, copy), -EINVAL);
	for (unsigned i = 0; i < 200; i++) {
		const uint64_t offset = prng_below(&p, bytes), n = prng_below(&p, bytes - offset) % 20000;

		CHECK_INT(star_view_copy(view, offset, n, copy), 0);
		CHECK_MEM(copy, expected + offset, n);
	}
	free(copy);
}

static void one_table(uint32_t nodes, uint32_t reactors, uint32_t dim, uint32_t count)
{
	struct bench b = bench_start(nodes, reactors, dim);
	const uint64_t bytes = (uint64_t)count * dim * sizeof(float);
	uint64_t *keys = calloc(count, sizeof(*keys));
	char *rows = calloc(1, bytes);
	struct star_error err = { 0 };
	struct star_view *view = NULL;

	for (uint32_t i = 0; i < count; i++)
		keys[i] = i % 97 * 31; /* some of them twice */
	CHECK_INT(star_pull(b.table, keys, count, rows, 0, LONG_US, &err), 0);
	CHECK_INT(star_pull_view(b.table, keys, count, STAR_READ_ONLY, LONG_US, &view, &err), 0);
	if (CHECK(view != NULL)) {
		const uint32_t parts = check_view(view, rows, bytes);

		/* Over datagrams a reply of several packets is kept where it lies. */
		if (peer_datagrams && dim >= 1000)
			CHECK(parts > bytes / 1500 / 2);
		if (!peer_datagrams)
			CHECK_UINT(parts, 1);
		check_copies(view, rows, bytes, dim);
		star_view_release(view);
	}
	free(keys);
	free(rows);
	bench_stop(&b);
}

void views_show_what_a_pull_copies(void)
{
	one_table(1, 1, 1, 1);
	one_table(1, 1, 4096, 300);
	one_table(1, 3, 1000, 300);
	one_table(2, 2, 1, 1000);
	one_table(1, 4, 333, 500);
}

/* Blocks of odd lengths, and rows that lie inside of blocks. */
void views_of_variables_show_their_values(void)
{
	for (uint32_t reactors = 1; reactors <= 3; reactors += 2) {
		struct bench b = bench_start(1, reactors, 4);
		const uint64_t shape[] = { 1001, 16 }, rows[] = { 7, 1000, 0, 7 };
		const struct star_spec spec = {
			.name = "v", .ndim = 2, .shape = shape, .initializer = "uniform", .scale = 1
		};
		struct star_error err = { 0 };
		struct star_table *v = star_variable_create(b.cluster, &spec, LONG_US, &err);
		float *values = calloc(1001 * 16, sizeof(*values)), some[4 * 16];
		struct star_view *view = NULL;

		CHECK_INT(star_variable_pull(v, values, LONG_US, &err), 0);
		CHECK_INT(star_pull_view(v, NULL, 0, 0, LONG_US, &view, &err), 0);
		check_view(view, values, 1001 * 16 * sizeof(float));
		check_copies(view, (const char *)values, 1001 * 16 * sizeof(float), 7);
		star_view_release(view);
		CHECK_INT(star_pull(v, rows, 4, some, 0, LONG_US, &err), 0);
		CHECK_INT(star_pull_view(v, rows, 4, 0, LONG_US, &view, &err), 0);
		check_view(view, some, sizeof(some));
		star_view_release(view);
		free(values);
		bench_stop(&b);
	}
}

static void *release_all(void *views)
{
	for (unsigned i = 0; i < VIEWS; i++)
		star_view_release(((struct star_view **)views)[i]);
	return NULL;
}

/* As many views as are asked for: what is too much for the packet buffers is copied, and the transport goes on. */
void views_leave_buffers_to_the_transport(void)
{
	struct bench b = bench_start(1, 1, LARGE_DIM);
	struct star_view *views[VIEWS];
	uint64_t keys[LARGE_ROWS];
	char *rows = malloc(LARGE_BYTES);
	struct star_error err = { 0 };
	pthread_t thread;

	for (uint64_t i = 0; i < LARGE_ROWS; i++)
		keys[i] = i;
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < VIEWS; i++)
			CHECK_INT(star_pull_view(b.table, keys, LARGE_ROWS, 0, LONG_US, &views[i], &err), 0);
		CHECK_INT(star_pull(b.table, keys, LARGE_ROWS, rows, 0, LONG_US, &err), 0);
		for (unsigned i = 0; i < VIEWS; i++) {
			const uint32_t parts = check_view(views[i], rows, LARGE_BYTES);

			if (peer_datagrams && i == 0)
				CHECK(parts > LARGE_BYTES / 1500);
			if (i == VIEWS - 1)
				CHECK_UINT(parts, 1);
		}
		pthread_create(&thread, NULL, release_all, views);
		pthread_join(thread, NULL);
	}
	free(rows);
	bench_stop(&b);
}

/* A view outlives its cluster, comes from asynchronous calls too, and is given back by calls that fail. */
void views_are_released_whatever_becomes_of_the_call(void)
{
	struct bench b = bench_start(1, 1, LARGE_DIM);
	struct star_view *view = NULL, *other = NULL;
	uint64_t keys[LARGE_ROWS];
	char *rows = malloc(LARGE_BYTES);
	struct star_op op = { .kind = STAR_PULL, .table = b.table, .keys = keys, .count = LARGE_ROWS, .view = &view };
	struct star_error err = { 0 };
	struct star_request *request;

	for (uint64_t i = 0; i < LARGE_ROWS; i++)
		keys[i] = 3 * i;
	CHECK_INT(star_pull(b.table, keys, LARGE_ROWS, rows, 0, LONG_US, &err), 0);
	request = star_execute_async(b.cluster, &op, 1, LONG_US, NULL, NULL, &err);
	CHECK_INT(star_request_wait(request, &err), 0);
	peer_answer(b.peer, WIRE_NO_MEMORY, "full", 1);
	CHECK_INT(star_pull_view(b.table, keys, LARGE_ROWS, 0, LONG_US, &other, &err), -ENOSPC);
	CHECK(other == NULL);
	star_view_release(other);
	refuse_op(&b, (struct star_op){ .kind = STAR_PUSH, .table = b.table, .keys = keys, .count = 1, .view = &other },
		  "a view is for a pull");
	refuse_op(
		&b,
		(struct star_op){
			.kind = STAR_PULL, .table = b.table, .keys = keys, .count = 1, .values = rows, .view = &other },
		"without values");
	CHECK(other == NULL);
	CHECK_INT(star_pull_view(NULL, keys, 1, 0, LONG_US, &other, &err), -EINVAL);
	CHECK_INT(star_pull_view(b.table, keys, 1, 0, LONG_US, NULL, &err), -EINVAL);
	bench_stop(&b);
	check_view(view, rows, LARGE_BYTES);
	star_view_release(view);
	free(rows);
}
