/* SPDX-License-Identifier: BSD-3-Clause */
/* What requests mean. */
#include "tests/service/cases.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

void pull_reads_initial_values(void)
{
	static const uint64_t keys[] = { 0, 1, 2, UINT64_MAX, UINT64_C(1) << 63, 0xdeadbeef, 1 };
	float rows[RTE_DIM(keys) * 16], expected[16];
	struct peer *peer = shard_simple(1);

	pull(peer, WORDS, keys, RTE_DIM(keys), 0, rows);
	for (unsigned i = 0; i < RTE_DIM(keys); i++) {
		initial(WORDS, keys[i], expected);
		CHECK_MEM(rows + 16 * i, expected, sizeof(expected));
	}
	CHECK(rows[0] != rows[16]);
	CHECK_UINT(shard_rows(), RTE_DIM(keys) - 1);
	CHECK_UINT(service_counters(shard.service)->pulls, 1);
	CHECK_UINT(service_counters(shard.service)->rows_pulled, RTE_DIM(keys));
	shard_stop();
}

void push_is_seen_by_the_next_pull(void)
{
	static const uint64_t keys[] = { 5, 7, 6 };
	float before[3 * 16], gradients[3 * 16], after[3 * 16];
	struct peer *peer = shard_simple(2);
	struct request r = { 0 };

	for (unsigned i = 0; i < RTE_DIM(gradients); i++)
		gradients[i] = (float)i - 20;
	pull(peer, WORDS, keys, 3, WIRE_READ_ONLY, before);
	push(peer, WORDS, keys, gradients, 3); /* makes the rows */
	pull(peer, WORDS, keys, 3, 0, after);
	for (unsigned i = 0; i < RTE_DIM(after); i++) {
		before[i] -= 0.5f * gradients[i];
		CHECK_NEAR(after[i], before[i], 0);
	}
	/* The request's own rate; 0 is the table's. */
	request_push(&r, WORDS, keys, gradients, 3, 0.125f);
	request_good(&r, peer);
	pull(peer, WORDS, keys, 3, 0, after);
	for (unsigned i = 0; i < RTE_DIM(after); i++)
		CHECK_NEAR(after[i], before[i] - 0.125f * gradients[i], 0);
	CHECK_UINT(shard_rows(), 3);
	CHECK_UINT(service_counters(shard.service)->pushes, 2);
	CHECK_UINT(service_counters(shard.service)->rows_pushed, 6);
	shard_stop();
}

/* Executed in their order: a pull sees the pushes before it, and not those behind it. */
void one_request_holds_many_operations(void)
{
	static const uint64_t a[] = { 1, 2 }, b[] = { 9 };
	static const float ones[16] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
	struct peer *peer = shard_simple(3);
	struct request r = { 0 };
	struct reply reply;
	float first[16];

	initial(WORDS, 9, first);
	request_pull(&r, COUNTS, a, 2, 0);
	request_push(&r, COUNTS, a, ones, 2, 1);
	request_pull(&r, COUNTS, a, 2, 0);
	request_push(&r, WORDS, b, ones, 1, 2);
	request_push(&r, COUNTS, a, ones, 2, 3);
	request_pull(&r, WORDS, b, 1, 0);
	request_pull(&r, COUNTS, a, 1, WIRE_READ_ONLY);
	reply = request_run(&r, peer);
	CHECK_NEAR(result_rows(&reply, 0, COUNTS, 2)[1], 0, 0);
	result_rows(&reply, 1, COUNTS, 2);
	CHECK_NEAR(result_rows(&reply, 2, COUNTS, 2)[1], -1, 0);
	result_rows(&reply, 3, WORDS, 1);
	result_rows(&reply, 4, COUNTS, 2);
	CHECK_NEAR(result_rows(&reply, 5, WORDS, 1)[15], first[15] - 2, 0);
	CHECK_NEAR(result_rows(&reply, 6, COUNTS, 1)[0], -4, 0);
	/* Pushes have results without rows. */
	CHECK_UINT(reply.frame.payload_bytes, 7 * sizeof(struct wire_result) + 8 + 8 + 64 + 8);
	/* As many as there may be. */
	for (unsigned i = 0; i < WIRE_OPS_MAX; i++)
		request_push(&r, COUNTS, b, ones, 1, 1);
	request_good(&r, peer);
	CHECK_NEAR(pull_one(peer, COUNTS, 9), -WIRE_OPS_MAX, 0);
	shard_stop();
}

/* Within an operation; Adagrad tells a sum from two pushes. */
void duplicate_keys_are_summed_first(void)
{
	static const uint64_t keys[] = { 3, 4, 3, 3 };
	float gradients[4 * 7], w[2][7], rows[2 * 7];
	struct peer *peer = shard_simple(4);
	struct request r = { 0 };

	for (unsigned i = 0; i < RTE_DIM(gradients); i++)
		gradients[i] = (float)(i * i % 11) - 4.5f;
	initial(ADAGRAD, 3, w[0]);
	initial(ADAGRAD, 4, w[1]);
	push(peer, ADAGRAD, keys, gradients, 4);
	for (unsigned i = 0; i < 7; i++) {
		const float sums[2] = { gradients[i] + gradients[14 + i] + gradients[21 + i], gradients[7 + i] };

		for (unsigned k = 0; k < 2; k++) {
			const float a = 0.25f + sums[k] * sums[k];

			w[k][i] -= (0.5f * sums[k]) / (sqrtf(a) + 1e-6f);
		}
	}
	pull(peer, ADAGRAD, keys, 2, 0, rows);
	CHECK_MEM(rows, w, sizeof(rows));
	/* Two operations are two pushes. */
	request_push(&r, ADAGRAD, &keys[1], gradients, 1, 0);
	request_push(&r, ADAGRAD, &keys[1], gradients, 1, 0);
	request_good(&r, peer);
	for (unsigned i = 0; i < 7; i++) {
		float a = 0.25f + gradients[7 + i] * gradients[7 + i];

		for (unsigned k = 0; k < 2; k++) {
			a += gradients[i] * gradients[i];
			w[1][i] -= (0.5f * gradients[i]) / (sqrtf(a) + 1e-6f);
		}
	}
	pull(peer, ADAGRAD, &keys[1], 1, 0, rows);
	CHECK_MEM(rows, w[1], sizeof(w[1]));
	shard_stop();
}

void read_only_pulls_create_nothing(void)
{
	enum { N = 1000 };
	static uint64_t keys[N];
	static float first[N * 7], then[N * 7], last[N * 7];
	struct peer *peer = shard_simple(5);

	fill_keys(keys, N, 12345);
	pull(peer, ADAGRAD, keys, N, WIRE_READ_ONLY, first);
	CHECK_UINT(shard_rows(), 0);
	pull(peer, ADAGRAD, keys, N / 2, 0, then);
	CHECK_UINT(shard_rows(), N / 2);
	CHECK_MEM(then, first, sizeof(first) / 2);
	pull(peer, ADAGRAD, keys, N, WIRE_READ_ONLY, then); /* half of them are there */
	CHECK_MEM(then, first, sizeof(first));
	CHECK_UINT(shard_rows(), N / 2);
	pull(peer, ADAGRAD, keys, N, 0, last);
	CHECK_MEM(last, first, sizeof(first));
	CHECK_UINT(shard_rows(), N);
	shard_stop();
}

void results_are_padded(void)
{
	uint64_t keys[9];
	struct peer *peer = shard_simple(6);
	struct request r = { 0 };
	struct reply reply;
	float ones[9];

	fill_keys(keys, 9, 0);
	fill_floats(ones, 9, -2);
	push(peer, COUNTS, keys, ones, 9);
	for (uint32_t n = 1; n <= 9; n++) {
		const uint8_t *body;

		request_pull(&r, COUNTS, keys, n, 0);
		request_pull(&r, COUNTS, keys, n, 0);
		reply = request_run(&r, peer);
		CHECK_UINT(reply.frame.payload_bytes, 2 * (sizeof(struct wire_result) + wire_padded(4 * n)));
		CHECK_NEAR(result_rows(&reply, 1, COUNTS, n)[n - 1], 1, 0);
		body = reply.payload + sizeof(struct wire_result);
		if (n % 2)
			CHECK_MEM(body + 4 * n, "\0\0\0\0", 4);
	}
	shard_stop();
}

void many_pipelined_requests(void)
{
	enum { REQUESTS = 1000 };
	static const uint64_t keys[] = { 1, 2, 3 };
	static const float ones[] = { 2, 2, 2 };
	struct peer *peer = shard_simple(7);
	struct request r = { 0 };
	struct reply reply;

	for (unsigned i = 0; i < REQUESTS; i++) {
		request_push(&r, COUNTS, keys, ones, 1 + i % 3, 0);
		request_pull(&r, COUNTS, keys, 3, 0);
		request_send(&r, peer);
	}
	for (unsigned i = 0; i < REQUESTS; i++) {
		const float *rows;

		peer_await(peer, &reply);
		CHECK_UINT(reply.frame.sequence, i + 1);
		rows = result_rows(&reply, 1, COUNTS, 3);
		if (!CHECK_NEAR(rows[0], -(float)(i + 1), 0) || !CHECK_NEAR(rows[2], -(float)((i + 1) / 3), 0))
			break;
	}
	CHECK_UINT(rpc_counters(shard.rig.server)->requests, REQUESTS);
	shard_stop();
}

/* A request of several operations, as two segments, cut at every byte. Pieces over 512 bytes stay apart. */
void requests_cut_anywhere(void)
{
	enum { KEYS = 60 };
	uint64_t keys[KEYS];
	float gradients[KEYS * 16], expected = 0;
	struct peer *peer = shard_simple(8);
	uint32_t total = 1;

	fill_keys(keys, KEYS, 100);
	for (uint32_t i = 0; i < RTE_DIM(gradients); i++)
		gradients[i] = (float)i / 64;
	for (uint32_t cut = 0; cut < total; cut++) {
		struct request r = { 0 };
		struct wire_frame frame = peer_frame(peer, WIRE_EXECUTE);
		struct reply reply;
		const float *rows;
		uint8_t *bytes;

		request_push(&r, COUNTS, keys, gradients, 7, 1);
		request_push(&r, WORDS, keys, gradients, cut % 2 ? 20 : 10, 1);
		request_pull(&r, COUNTS, keys, KEYS, 0);
		frame.payload_bytes = r.n;
		frame.checksum = wire_checksum(&frame, r.bytes, r.n);
		total = (uint32_t)sizeof(frame) + r.n;
		bytes = malloc(total);
		memcpy(bytes, &frame, sizeof(frame));
		memcpy(bytes + sizeof(frame), r.bytes, r.n);
		peer_write(peer, bytes, cut);
		peer_write(peer, bytes + cut, total - cut);
		free(bytes);
		request_free(&r);
		peer_await(peer, &reply);
		rows = result_rows(&reply, 2, COUNTS, KEYS);
		expected -= gradients[6];
		if (!CHECK_NEAR(rows[6], expected, 1e-3) || !CHECK_NEAR(rows[7], 0, 0)) {
			printf("# cut at %u of %u\n", cut, total);
			break;
		}
	}
	shard_stop();
}

void variables_are_tables_of_blocks(void)
{
	static const uint64_t blocks[] = { 0, 6 };
	static float rows[2 * 1024], gradients[2 * 1024];
	struct peer *peer = shard_simple(9);

	fill_floats(gradients, RTE_DIM(gradients), 2);
	push(peer, VARIABLE, blocks, gradients, 2);
	pull(peer, VARIABLE, blocks, 2, 0, rows);
	for (unsigned i = 0; i < 1024 + 256; i++) /* block 6 holds the last 4 rows; nobody reads the rest of it */
		if (!CHECK_NEAR(rows[i], 2, 0))
			break;
	shard_stop();
}

static struct store_stats stats_of(unsigned object)
{
	struct store_stats stats = { 0 };

	service_table_stats(shard.service, object, &stats);
	return stats;
}

/* Whether the request goes the direct way or the general one (here: two operations), and beside it another table. */
void tables_count_what_is_done_on_them(void)
{
	static const uint64_t keys[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 };
	enum { OP = sizeof(struct wire_op), RESULT = sizeof(struct wire_result) };
	struct peer *peer = shard_simple(12);
	struct request r = { 0 };
	struct store_stats s;
	float ones[10], rows[10];

	fill_floats(ones, 10, 1);
	push(peer, COUNTS, keys, ones, 4);
	s = stats_of(COUNTS);
	CHECK_UINT(s.pushes, 1);
	CHECK_UINT(s.rows_pushed, 4);
	CHECK_UINT(s.missed, 4);
	CHECK_UINT(s.bytes_in, OP + 4 * 8 + 4 * 4);
	CHECK_UINT(s.bytes_out, RESULT);
	pull(peer, COUNTS, keys, 6, 0, rows);		    /* two are new */
	pull(peer, COUNTS, keys, 10, WIRE_READ_ONLY, rows); /* four are not there, and stay so */
	s = stats_of(COUNTS);
	CHECK_UINT(s.pulls, 2);
	CHECK_UINT(s.rows_pulled, 16);
	CHECK_UINT(s.missed, 4 + 2 + 4);
	CHECK_UINT(s.created, 6);
	CHECK_UINT(s.bytes_in, 3 * OP + 4 * 8 + 4 * 4 + 16 * 8);
	CHECK_UINT(s.bytes_out, 3 * RESULT + 16 * 4);
	request_pull(&r, COUNTS, keys, 7, WIRE_READ_ONLY);
	request_push(&r, COUNTS, &keys[8], ones, 2, 1);
	request_pull(&r, WORDS, keys, 1, 0);
	request_good(&r, peer);
	s = stats_of(COUNTS);
	CHECK_UINT(s.pulls, 3);
	CHECK_UINT(s.rows_pulled, 23);
	CHECK_UINT(s.rows_pushed, 6);
	CHECK_UINT(s.missed, 10 + 1 + 2);
	CHECK_UINT(s.bytes_in, 5 * OP + 4 * 8 + 4 * 4 + 16 * 8 + 7 * 8 + 2 * 8 + 2 * 4);
	CHECK_UINT(s.bytes_out, 5 * RESULT + 16 * 4 + 8 * 4);
	CHECK_UINT(stats_of(WORDS).rows_pulled, 1);
	CHECK_UINT(stats_of(WORDS).missed, 1);
	CHECK_UINT(stats_of(WORDS).bytes_out, RESULT + 64);
	/* What is refused counts at the table that it fails at. */
	request_pull(&r, COUNTS, keys, 1, 0);
	request_pull(&r, WORDS, keys, 0, 0);
	request_refused(&r, peer, WIRE_NO_KEYS, "names no keys");
	CHECK_UINT(stats_of(COUNTS).requests_refused, 0);
	CHECK_UINT(stats_of(WORDS).requests_refused, 1);
	CHECK_UINT(stats_of(COUNTS).rows_pulled, 23);
	shard_stop();
}

void tables_count_staleness_and_admissions(void)
{
	static const uint64_t keys[] = { 1, 2 };
	static const float ones[] = { 1, 1, 1, 1 };
	struct peer *peer = shard_simple(13);
	struct request r = { 0 };
	struct store_stats s;
	float rows[4];

	for (unsigned i = 0; i < 5; i++)
		push(peer, COUNTS, keys, ones, 1);
	for (uint64_t version = 2; version <= 6; version += 2) { /* 3, then 2 pushes since; then one of the future */
		struct wire_op op = { .kind = WIRE_PUSH,
				      .dtype = STAR_FLOAT32,
				      .object = COUNTS,
				      .count = version == 4 ? 2 : 1,
				      .dim = 1,
				      .flags = WIRE_PULLED,
				      .version = version == 6 ? 100 : version };

		op.body_bytes = (uint32_t)wire_op_bytes(&op);
		request_op(&r, op, keys, ones);
		request_good(&r, peer);
	}
	s = stats_of(COUNTS);
	CHECK_UINT(s.pushes, 8);
	CHECK_UINT(s.versioned, 3);
	CHECK_UINT(s.staleness, 3 + 2);
	/* The filter lets a key in that was asked for three times. */
	for (unsigned i = 0; i < 3; i++)
		pull(peer, FILTERED, keys, 1, 0, rows);
	pull(peer, FILTERED, keys, 2, 0, rows);
	s = stats_of(FILTERED);
	CHECK_UINT(s.missed, 3 + 1);
	CHECK_UINT(s.unadmitted, 2 + 1);
	CHECK_UINT(s.admitted, 1);
	CHECK_UINT(s.created, 1);
	shard_stop();
}

void objects_are_installed_once(void)
{
	struct peer *peer = shard_simple(10);
	struct object_spec spec = *specs[WORDS];
	struct star_error err = { 0 };
	const uint64_t before = service_store_stats(shard.service).memory_bytes;

	CHECK_INT(service_install(shard.service, &spec, &err), 0);
	CHECK_UINT(service_store_stats(shard.service).memory_bytes, before);
	spec.id = 0;
	CHECK_INT(service_install(shard.service, &spec, &err), -EINVAL);
	CHECK_HAS(err.text, "\"words\" has the id 0: 1 to 16384 are possible");
	spec.id = WIRE_OBJECTS_MAX + 1;
	CHECK_INT(service_install(shard.service, &spec, &err), -EINVAL);
	CHECK_HAS(err.text, "has the id 16385");
	spec.id = WIRE_OBJECTS_MAX;
	spec.dim = 0;
	CHECK_INT(service_install(shard.service, &spec, &err), -EINVAL);
	CHECK_HAS(err.text, "dim is 0");
	spec.dim = 3;
	CHECK_INT(service_install(shard.service, &spec, &err), 0);
	CHECK(service_store_stats(shard.service).memory_bytes > before);
	pull_one(peer, WORDS, 1);
	shard_stop();
}
