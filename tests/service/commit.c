/* SPDX-License-Identifier: BSD-3-Clause */
/* Gradients that are summed up, and applied once by a commit. */
#include "tests/service/cases.h"

#include <math.h>

#include "store/push.h"
#include "tensor/dtype.h"

/* The same push to the twin, and what its rows are then. */
static void twin(unsigned object, const uint64_t *keys, const float *gradients, uint32_t n, const uint64_t *all,
		 uint32_t count, float *rows)
{
	struct store_push *p = store_push_create(64, 1 << 16, NULL);
	struct store_table *t = shard.twins[object];
	const uint32_t dim = specs[object]->dim;
	const void *each[64];
	store_row found[64];

	for (uint32_t i = 0; i < n; i++)
		each[i] = gradients + (size_t)i * dim;
	store_push_begin(p);
	CHECK_INT(store_push_keys(p, t, keys, n, 0), 0);
	store_push_rows(p, t, each, STAR_FLOAT32, n);
	CHECK(store_push_finish(p, t, n));
	store_push_destroy(p);
	store_find(t, all, count, STORE_LOOK, 0, found);
	for (uint32_t i = 0; i < count; i++)
		store_read(t, found[i], all[i], STAR_FLOAT32, rows + (size_t)i * dim);
}

static void add_sums(struct request *r, unsigned object, uint64_t tag, const uint64_t *keys, const float *gradients,
		     uint32_t count, float scale)
{
	struct wire_op op = push_op(object, count, 0);

	op.flags = WIRE_ACCUMULATE | (scale != 0 ? WIRE_SCALE : 0);
	op.version = tag;
	op.scale = scale;
	request_op(r, op, keys, gradients);
}

static void add_commit(struct request *r, unsigned object, uint64_t tag, unsigned flags, float scale)
{
	struct wire_op op = { .kind = WIRE_COMMIT,
			      .flags = flags | (scale != 0 ? WIRE_SCALE : 0),
			      .object = object,
			      .count = 1,
			      .dim = specs[object]->dim,
			      .body_bytes = sizeof(uint64_t),
			      .version = tag,
			      .scale = scale };

	request_op(r, op, (const uint64_t[]){ 0 }, NULL);
}

static void open_sums(struct peer *peer, unsigned object, uint64_t tag)
{
	struct request r = { 0 };

	add_commit(&r, object, tag, WIRE_OPEN, 0);
	request_good(&r, peer);
}

static void commit(struct peer *peer, unsigned object, uint64_t tag, float scale)
{
	struct request r = { 0 };

	add_commit(&r, object, tag, 0, scale);
	request_good(&r, peer);
}

/* As one push of the sums, by an optimizer that would not make the same of two; also of a variable, and of narrow
 * rows. */
void sums_are_applied_once(void)
{
	static const unsigned objects[] = { ADAGRAD, VARIABLE, HALVES, WORDS };
	static float gradients[3 * 1024], expected[4 * 1024], rows[3 * 1024];
	struct peer *peer = shard_simple(31);
	struct request r = { 0 };

	for (unsigned o = 0; o < RTE_DIM(objects); o++) {
		const unsigned object = objects[o];
		const uint32_t dim = specs[object]->dim;
		const uint64_t keys[3] = { 1, 2, 3 }, later[3] = { 3, 4, 1 }, order[4] = { 1, 2, 3, 4 };

		for (uint32_t i = 0; i < 3 * dim; i++)
			gradients[i] = (float)(i % 13) - 6;
		/* What 1, 2, 3 and then 3, 4, 1 come to, halved: pushed to the twins. */
		for (uint32_t i = 0; i < dim; i++) {
			const float *g = gradients + i;

			expected[i] = (g[0] + 2 * g[2 * dim]) / 2;
			expected[dim + i] = g[dim] / 2;
			expected[2 * dim + i] = (g[2 * dim] + 2 * g[0]) / 2;
			expected[3 * dim + i] = g[dim];
		}
		open_sums(peer, object, 100);
		pull(peer, object, keys, 3, 0, rows);
		add_sums(&r, object, 100, keys, gradients, 3, 0);
		request_good(&r, peer);
		add_sums(&r, object, 100, later, gradients, 3, 2);
		request_good(&r, peer);
		CHECK_NEAR(pull_one(peer, object, 1), rows[0], 0); /* nothing yet */
		commit(peer, object, 100, 0.5f);
		pull(peer, object, keys, 3, WIRE_READ_ONLY, rows);
		twin(object, order, expected, 4, keys, 3, expected);
		CHECK_MEM(rows, expected, 3 * dim * sizeof(float));
		commit(peer, object, 100, 0.5f); /* asked for again: done already */
		pull(peer, object, keys, 3, WIRE_READ_ONLY, rows);
		CHECK_MEM(rows, expected, 3 * dim * sizeof(float));
		/* The next ones begin at zero, and rows that nobody pushed to are left alone. */
		add_sums(&r, object, 101, keys + 1, gradients, 1, 0);
		request_good(&r, peer);
		commit(peer, object, 101, 0);
		pull(peer, object, keys, 3, WIRE_READ_ONLY, rows);
		twin(object, keys + 1, gradients, 1, keys, 3, expected);
		CHECK_MEM(rows, expected, 3 * dim * sizeof(float));
	}
	CHECK_UINT(service_counters(shard.service)->commits, 2 * RTE_DIM(objects));
	CHECK_UINT(service_counters(shard.service)->late, 0);
	shard_stop();
}

void sums_have_tags(void)
{
	const uint64_t key = 7;
	const float one = 1;
	struct peer *peer = shard_simple(32);
	struct request r = { 0 };

	add_sums(&r, COUNTS, 5, &key, &one, 1, 0);
	request_refused(&r, peer, WIRE_CLOSED, "the sums 5 of \"counts\" are not open: none were yet");
	add_commit(&r, COUNTS, 5, 0, 0);
	request_refused(&r, peer, WIRE_CLOSED, "none were yet");
	open_sums(peer, COUNTS, 5);
	add_sums(&r, COUNTS, 5, &key, &one, 1, 0);
	request_good(&r, peer);
	add_sums(&r, COUNTS, 4, &key, &one, 1, 0);
	request_refused(&r, peer, WIRE_CLOSED, "the sums 4 of \"counts\" are not open: others are (5)");
	add_sums(&r, COUNTS, 6, &key, &one, 1, 0);
	request_refused(&r, peer, WIRE_CLOSED, "others are (5)");
	add_commit(&r, COUNTS, 6, 0, 0);
	request_refused(&r, peer, WIRE_CLOSED, "others are (5)");
	open_sums(peer, COUNTS, 5); /* they are open, and keep what they have */
	commit(peer, COUNTS, 5, 0);
	CHECK_NEAR(pull_one(peer, COUNTS, key), -0.5, 0);
	add_sums(&r, COUNTS, 6, &key, &one, 1, 0);
	request_good(&r, peer);
	add_commit(&r, COUNTS, 4, WIRE_OPEN, 0);
	request_refused(&r, peer, WIRE_CLOSED, "the sums 4 of \"counts\" are not open: others are (6)");
	open_sums(peer, COUNTS, 9); /* those of 6 are gone */
	add_sums(&r, COUNTS, 6, &key, &one, 1, 0);
	request_refused(&r, peer, WIRE_CLOSED, "others are (9)");
	add_sums(&r, COUNTS, 9, &key, &one, 1, 4);
	request_good(&r, peer);
	commit(peer, COUNTS, 9, 0);
	CHECK_NEAR(pull_one(peer, COUNTS, key), -2.5, 0);
	/* Sums are neither rows of the table nor pushes to it. */
	CHECK_UINT(service_counters(shard.service)->commits, 2);
	CHECK_UINT(service_counters(shard.service)->late, 4);
	CHECK_UINT(shard_rows(), 1);
	shard_stop();
}

/* What an open has thrown away was not committed, though the next tag is open, and nobody is told so. What was
 * committed stays so, whatever has been opened since. */
void sums_thrown_away_are_not_committed(void)
{
	static const struct {
		uint64_t mine, other;
	} tags[] = { { 4, 5 }, { 10, 15 }, { 20, 21 } };
	const uint64_t key = 7;
	const float one = 1;
	struct peer *peer = shard_simple(39), *other = rig_peer(&shard.rig, 1);
	struct request r = { 0 };
	float there = 0;

	for (unsigned i = 0; i < RTE_DIM(tags); i++) {
		open_sums(peer, COUNTS, tags[i].mine);
		add_sums(&r, COUNTS, tags[i].mine, &key, &one, 1, 0);
		request_good(&r, peer);
		open_sums(other, COUNTS, tags[i].other);
		add_commit(&r, COUNTS, tags[i].mine, 0, 0);
		request_refused(&r, peer, WIRE_CLOSED, "are not open: others are");
		CHECK_NEAR(pull_one(peer, COUNTS, key), there, 0);
		commit(other, COUNTS, tags[i].other, 0); /* of no gradients */
		open_sums(peer, COUNTS, tags[i].other + 2);
		commit(other, COUNTS, tags[i].other, 0);
		add_commit(&r, COUNTS, tags[i].other + 1, 0, 0);
		request_refused(&r, peer, WIRE_CLOSED, "are not open: others are");
		add_sums(&r, COUNTS, tags[i].other + 2, &key, &one, 1, 0);
		request_good(&r, peer);
		commit(other, COUNTS, tags[i].other + 2, 0);
		commit(peer, COUNTS, tags[i].other + 2, 0);
		there -= 0.5f;
		CHECK_NEAR(pull_one(peer, COUNTS, key), there, 0);
	}
	shard_stop();
}

void wrong_sums_are_refused(void)
{
	static float gradients[7 * 1024];
	const uint64_t keys[7] = { 0, 1, 2, 3, 4, 5, 6 };
	struct peer *peer = shard_simple(33);
	struct request r = { 0 };
	struct wire_op op;

	for (unsigned i = 0; i < 3; i++) {
		static const unsigned objects[] = { LAMB, CLIPPED, NUMBERS };
		static const char *const said[] = { "optimizer lamb needs all", "clip_global_norm needs all",
						    "it has no optimizer" };

		add_commit(&r, objects[i], 5, WIRE_OPEN, 0);
		request_refused(&r, peer, WIRE_WRONG_TYPE, said[i]);
	}
	add_sums(&r, LAMB, 5, keys, gradients, 7, 0);
	request_refused(&r, peer, WIRE_WRONG_TYPE, "optimizer lamb needs all");
	add_commit(&r, COUNTS, 0, WIRE_OPEN, 0);
	request_refused(&r, peer, WIRE_BAD_REQUEST, "a tag that is neither 0 nor the last");
	add_commit(&r, COUNTS, UINT64_MAX, WIRE_OPEN, 0);
	request_refused(&r, peer, WIRE_BAD_REQUEST, "a tag that is neither 0 nor the last");
	add_commit(&r, COUNTS, 5, WIRE_OPEN, NAN);
	request_refused(&r, peer, WIRE_BAD_REQUEST, "is not a finite number of 0 or more");
	op = push_op(COUNTS, 1, 1);
	op.flags |= WIRE_ACCUMULATE;
	op.version = 5;
	request_op(&r, op, keys, gradients);
	request_refused(&r, peer, WIRE_BAD_REQUEST, "is their commit's");
	op = push_op(COUNTS, 1, 0);
	op.flags = WIRE_OPEN;
	request_op(&r, op, keys, gradients);
	request_refused(&r, peer, WIRE_BAD_REQUEST, "has flags that it cannot have");
	request_push(&r, COUNTS, keys, gradients, 1, 0);
	add_commit(&r, COUNTS, 5, WIRE_OPEN, 0);
	request_refused(&r, peer, WIRE_BAD_REQUEST, "has deletes or commits as well");
	open_sums(peer, ADAGRAD, 5);
	gradients[0] = NAN;
	add_sums(&r, ADAGRAD, 5, keys, gradients, 1, 0);
	request_refused(&r, peer, WIRE_NOT_FINITE, "a gradient for \"adagrad\" has NaN or infinities");
	service_set_layout(shard.service, RIG_EPOCH, 0, PARTITIONS / 2);
	for (unsigned owned = 0, i = 0; i < 2; i++) { /* one of the halves has not key 0 */
		struct reply reply;

		service_set_layout(shard.service, RIG_EPOCH, i ? PARTITIONS / 2 : 0, i ? PARTITIONS : PARTITIONS / 2);
		add_commit(&r, COUNTS, 5, WIRE_OPEN, 0);
		reply = request_run(&r, peer);
		owned += reply.frame.status == WIRE_OK;
		CHECK(reply.frame.status == WIRE_OK || reply.frame.status == WIRE_WRONG_SHARD);
		if (i)
			CHECK_UINT(owned, 1);
	}
	shard_stop();
}

/*
 * Random sums of many rows by several workers, against plain arrays, with commits that go over many slices, pulls in
 * between, commits that are asked for twice while they are at work, and sums that are thrown away.
 */
void random_sums_follow_plain_arrays(void)
{
	enum { KEYS = 6000, ROUNDS = 12, DIM = 8 };
	static float rows[KEYS][DIM], sums[KEYS][DIM], gradients[KEYS * DIM], pulled[KEYS * DIM];
	static uint64_t keys[KEYS], all[KEYS];
	struct peer *peer = shard_simple(34), *other = rig_peer(&shard.rig, 1);
	struct request r = { 0 };
	struct reply reply;
	struct prng prng;
	uint64_t tag = 1;

	prng_seed(&prng, 8);
	for (unsigned i = 0; i < KEYS; i++)
		all[i] = hash_mix(i);
	open_sums(peer, EIGHTS, tag);
	for (unsigned round = 0; round < ROUNDS; round++) {
		const bool thrown = prng_below(&prng, 4) == 0;

		memset(sums, 0, sizeof(sums));
		for (unsigned worker = 0; worker < 3; worker++) {
			const uint32_t n = 1 + prng_below(&prng, worker ? KEYS : 20);

			for (uint32_t i = 0; i < n; i++) {
				const uint32_t at = prng_below(&prng, KEYS);

				keys[i] = all[at];
				for (uint32_t d = 0; d < DIM; d++) { /* whole numbers: in any order the same sums */
					gradients[i * DIM + d] = (float)(int)prng_below(&prng, 9) - 4;
					sums[at][d] += gradients[i * DIM + d];
				}
			}
			add_sums(&r, EIGHTS, tag, keys, gradients, n, 0);
			request_good(&r, peer);
		}
		if (thrown) {
			tag += 3;
			add_commit(&r, EIGHTS, tag, WIRE_OPEN, 0);
			request_send(&r, peer);
			add_commit(&r, EIGHTS, tag, WIRE_OPEN, 0);
			request_good(&r, other);
		} else {
			for (unsigned i = 0; i < KEYS; i++)
				for (unsigned d = 0; d < DIM; d++)
					rows[i][d] -= 0.5f * (0.25f * sums[i][d]);
			add_commit(&r, EIGHTS, tag, 0, 0.25f);
			request_send(&r, peer);
			add_commit(&r, EIGHTS, tag, 0, 0.25f);
			request_good(&r, other);
			tag++;
		}
		peer_await(peer, &reply);
		CHECK_UINT(reply.frame.status, WIRE_OK);
		pull(peer, EIGHTS, all, KEYS, WIRE_READ_ONLY, pulled);
		CHECK_MEM(pulled, rows, sizeof(rows));
	}
	/* Their memory is used again. */
	CHECK(service_store_stats(shard.service).memory_bytes < 8 << 20);
	shard_stop();
}

/* While a commit of many rows is at work, small requests are answered: slices are bounded. */
void commits_go_by_slices(void)
{
	enum { KEYS = 50000, DIM = 8 };
	static float gradients[KEYS * DIM];
	static uint64_t keys[KEYS];
	struct peer *peer = shard_simple(35), *other = rig_peer(&shard.rig, 1);
	struct request r = { 0 };
	unsigned answered = 0;
	uint64_t slices;
	struct reply reply;

	fill_keys(keys, KEYS, 1);
	fill_floats(gradients, KEYS * DIM, 1);
	open_sums(peer, EIGHTS, 1);
	add_sums(&r, EIGHTS, 1, keys, gradients, KEYS, 0);
	request_good(&r, peer);
	slices = shard.rig.slices;
	add_commit(&r, EIGHTS, 1, 0, 0);
	request_send(&r, peer);
	while (!peer_has_reply(peer)) {
		request_pull(&r, COUNTS, keys, 1, WIRE_READ_ONLY);
		request_good(&r, other);
		answered++;
		/* Not open to anybody while they are emptied. */
		if (answered == 2) {
			add_sums(&r, EIGHTS, 1, keys, gradients, 1, 0);
			request_refused(&r, other, WIRE_CLOSED, "others are being committed");
		}
	}
	peer_await(peer, &reply);
	CHECK_UINT(reply.frame.status, WIRE_OK);
	CHECK(answered > 2);
	CHECK(shard.rig.slices - slices >= KEYS / 256); /* rows of a slice */
	CHECK_NEAR(pull_one(peer, EIGHTS, keys[KEYS - 1]), -0.5, 0);
	CHECK_UINT(service_counters(shard.service)->commits, 1);
	shard_stop();
}

/*
 * Two workers' pushes, the first of which is large, and waits in slices: rows have one of them or both. Commits go on
 * counting; what was thrown away is not counted.
 */
void rows_are_divided_by_the_pushes_to_them(void)
{
	enum { KEYS = 30000, FEW = 100, DIM = 8 };
	static float gradients[KEYS * DIM], pulled[KEYS * DIM];
	static uint64_t keys[KEYS];
	struct peer *peer = shard_simple(36), *other = rig_peer(&shard.rig, 1);
	struct request r = { 0 };
	float expected = 0;

	for (unsigned i = 0; i < KEYS * DIM; i++)
		gradients[i] = 1;
	fill_keys(keys, KEYS, 1);
	for (uint64_t tag = 1; tag < 6; tag++) {
		struct reply reply;
		unsigned wrong = 0;

		if (tag != 3) { /* which follows the commit of 2 */
			add_commit(&r, EIGHTS, tag, WIRE_OPEN | WIRE_BY_ROW, 0);
			request_good(&r, peer);
		}
		add_sums(&r, EIGHTS, tag, keys, gradients, KEYS, 0);
		request_send(&r, peer);
		add_sums(&r, EIGHTS, tag, keys, gradients, FEW, 0);
		request_good(&r, other);
		peer_await(peer, &reply);
		CHECK_UINT(reply.frame.status, WIRE_OK);
		if (tag == 4)
			continue;
		add_commit(&r, EIGHTS, tag, WIRE_BY_ROW, 0);
		request_good(&r, peer);
		add_commit(&r, EIGHTS, tag, WIRE_BY_ROW, 0); /* asked for again */
		request_good(&r, other);
		expected -= 0.5f;
		pull(peer, EIGHTS, keys, KEYS, WIRE_READ_ONLY, pulled);
		for (unsigned i = 0; i < KEYS * DIM; i++)
			wrong += pulled[i] != expected;
		CHECK_UINT(wrong, 0);
	}
	shard_stop();
}

void what_divides_sums_is_said_when_they_are_opened(void)
{
	static const char not_so[] = "the sums 5 of \"counts\" were not opened to be divided by row: is mean_by_row";
	const uint64_t key = 7;
	const float two = 2;
	struct peer *peer = shard_simple(37);
	struct request r = { 0 };
	struct wire_op op = push_op(COUNTS, 1, 0);

	open_sums(peer, COUNTS, 5);
	add_commit(&r, COUNTS, 5, WIRE_OPEN | WIRE_BY_ROW, 0);
	request_refused(&r, peer, WIRE_BAD_REQUEST, not_so);
	add_sums(&r, COUNTS, 5, &key, &two, 1, 0);
	request_good(&r, peer);
	add_commit(&r, COUNTS, 5, WIRE_BY_ROW, 0);
	request_refused(&r, peer, WIRE_BAD_REQUEST, not_so);
	add_commit(&r, COUNTS, 6, WIRE_OPEN | WIRE_BY_ROW, 0);
	request_good(&r, peer);
	add_commit(&r, COUNTS, 6, WIRE_OPEN, 0);
	request_refused(&r, peer, WIRE_BAD_REQUEST,
			"the sums 6 of \"counts\" were opened to be divided by row: is mean_by_row");
	for (unsigned i = 0; i < 2; i++) {
		add_sums(&r, COUNTS, 6, &key, &two, 1, 0);
		request_good(&r, peer);
	}
	/* Counted, and not asked for. */
	commit(peer, COUNTS, 6, 0);
	CHECK_NEAR(pull_one(peer, COUNTS, key), -2, 0);
	op.flags = WIRE_BY_ROW;
	request_op(&r, op, &key, &two);
	request_refused(&r, peer, WIRE_BAD_REQUEST, "has flags that it cannot have");
	shard_stop();
}

struct moment {
	struct peer *peer;
	uint64_t slices;
};

static bool has_come(void *ctx)
{
	const struct moment *moment = ctx;

	return shard.rig.slices >= moment->slices || peer_has_reply(moment->peer);
}

/* At any moment of it: other sums are opened by somebody who has given up waiting. */
void a_large_push_whose_sums_are_closed_meanwhile_is_in_no_later_ones(void)
{
	enum { KEYS = 20000, DIM = 8 };
	static float gradients[KEYS * DIM], pulled[KEYS * DIM];
	static uint64_t keys[KEYS];
	struct peer *peer = shard_simple(38), *other = rig_peer(&shard.rig, 1);
	unsigned refused = 0, lost = 0;
	uint64_t tag = 1;

	for (unsigned i = 0; i < KEYS * DIM; i++)
		gradients[i] = 1;
	fill_keys(keys, KEYS, 1);
	for (unsigned slices = 1; slices < 10000; slices += 1 + slices / 8) {
		struct request r = { 0 };
		struct reply reply;
		struct moment moment;
		unsigned changed = 0;

		open_sums(peer, EIGHTS, tag);
		moment = (struct moment){ peer, shard.rig.slices + slices };
		add_sums(&r, EIGHTS, tag, keys, gradients, KEYS, 0);
		request_send(&r, peer);
		CHECK(rig_run(&shard.rig, 10 * RIG_S, has_come, &moment));
		if (peer_reply(peer, &reply))
			break;
		tag += 2;
		open_sums(other, EIGHTS, tag);
		peer_await(peer, &reply);
		refused += reply.frame.status == WIRE_CLOSED;
		lost += reply.frame.status == WIRE_OK;
		commit(other, EIGHTS, tag, 0);
		pull(other, EIGHTS, keys, KEYS, WIRE_READ_ONLY, pulled);
		for (unsigned i = 0; i < KEYS * DIM; i++)
			changed += pulled[i] != 0;
		CHECK_UINT(changed, 0);
		tag += 2;
	}
	CHECK(refused > 0 && lost > 0);
	shard_stop();
}
