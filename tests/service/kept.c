/* SPDX-License-Identifier: BSD-3-Clause */
/* What programs keep from one run to the next: the same bits as in one, whose it is, how long it is there, and how much
 * of it. */
#include "tests/service/programs.h"

#include <stdio.h>

#include "service/kept.h"

enum { KEEPER = 100, USER = 101, GROWER = 102, OTHER = 103, N = 300, DIM = 16, SEGMENTS = 11, TAG = 5 };

static uint64_t keys[N];
static uint32_t segments[N];
static float gradients[N * DIM], rows[N * DIM];

/* Keeps keys, segments (place 1), rows (0) and their squares (7). */
static struct program keeping_program(void)
{
	struct program p = { 0 };
	const unsigned k = node_keys(&p, WORDS), s = node(&p, PROGRAM_SEGMENTS, k, 0),
		       l = node(&p, PROGRAM_LOOKUP, k, 0);
	const unsigned square = node(&p, ELEMENTWISE_SQUARE, l, 0);

	node(&p, PROGRAM_KEEP, k, 0);
	node(&p, PROGRAM_KEEP, s, 1);
	node(&p, PROGRAM_KEEP, l, 0);
	node(&p, PROGRAM_KEEP, square, 7);
	return p;
}

static unsigned node_kept(struct program *p, unsigned op, unsigned keys_node, unsigned place, uint32_t dim)
{
	const unsigned n = node_rows(p, op, keys_node, dim);

	p->nodes[n].b = (uint8_t)place;
	p->nodes[n].flags = PROGRAM_KEPT;
	return n;
}

/* Applies what a run brings, fetches its sum with the rows as they were, and pools the squares. */
static struct program user(unsigned object)
{
	struct program p = { 0 };
	const unsigned k = node_keys(&p, object), s = node_kept(&p, PROGRAM_SEGMENTS, k, 1, 0);
	const unsigned l = node_kept(&p, PROGRAM_ROWS, k, 0, DIM), square = node_kept(&p, PROGRAM_ROWS, k, 7, DIM);
	const unsigned g = node_rows(&p, PROGRAM_ROWS, k, DIM);

	p.nodes[k].flags = PROGRAM_KEPT;
	node(&p, PROGRAM_FETCH, node(&p, ELEMENTWISE_ADD, l, g), 0);
	node(&p, PROGRAM_FETCH, node(&p, PROGRAM_POOL, square, s), 0);
	node(&p, PROGRAM_APPLY, k, node(&p, ELEMENTWISE_ADD, g, g));
	return p;
}

/* Uses the entry, and keeps something more in it (place 2). */
static struct program grower(void)
{
	struct program p = { 0 };
	const unsigned k = node_keys(&p, WORDS), l = node_kept(&p, PROGRAM_ROWS, k, 0, DIM);

	p.nodes[k].flags = PROGRAM_KEPT;
	node(&p, PROGRAM_KEEP, node(&p, ELEMENTWISE_ROW_SUM, l, 0), 2);
	return p;
}

static struct program reader(void)
{
	struct program p = { 0 };
	const unsigned k = node_keys(&p, WORDS), sums = node_kept(&p, PROGRAM_ROWS, k, 2, 1);

	p.nodes[k].flags = PROGRAM_KEPT;
	node(&p, PROGRAM_FETCH, node(&p, ELEMENTWISE_NEG, sums, 0), 0);
	return p;
}

static struct program programs[4];

static struct peer *begin(uint64_t seed)
{
	struct peer *peer = shard_simple(seed);

	for (unsigned i = 0; i < N; i++) {
		keys[i] = i % 9 ? hash_mix(i) : i % 4;
		segments[i] = i * i % SEGMENTS;
	}
	for (unsigned i = 0; i < N * DIM; i++)
		gradients[i] = (float)(int)(i * 7 % 31) / 8 - 1.5f;
	pull(peer, WORDS, keys, N, 0, rows);
	programs[0] = keeping_program();
	programs[1] = user(WORDS);
	programs[2] = grower();
	programs[3] = reader();
	for (unsigned i = 0; i < 4; i++)
		install_good(KEEPER + i, &programs[i]);
	return peer;
}

static struct body keep_body(uint64_t tag, uint32_t n)
{
	struct body b;

	body_begin(&b, KEEPER, &programs[0], &n, SEGMENTS);
	b.op.version = tag;
	body_part(&b, keys, n * sizeof(*keys));
	body_part(&b, segments, n * sizeof(*segments));
	return b;
}

static struct body use_body(uint64_t tag, uint32_t n, unsigned flags)
{
	struct body b;

	body_begin(&b, USER, &programs[1], &n, SEGMENTS);
	b.op.version = tag;
	b.op.flags = (uint8_t)flags;
	body_part(&b, gradients, (size_t)n * DIM * sizeof(float));
	return b;
}

static struct body small_body(unsigned id, uint64_t tag, uint32_t n)
{
	struct body b;

	body_begin(&b, id, &programs[id - KEEPER], &n, 0);
	b.op.version = tag;
	return b;
}

static void good(struct body b, struct peer *peer)
{
	struct request r = { 0 };

	body_into(&b, &r);
	request_good(&r, peer);
}

static void refused(struct body b, struct peer *peer, enum wire_status status, const char *part)
{
	struct request r = { 0 };

	body_into(&b, &r);
	request_refused(&r, peer, status, part);
}

static const struct kept_stats *stats(void)
{
	return service_kept_stats(shard.service);
}

/* What a user of the first n keys returns, of the rows as they were kept. */
static void check_used(struct body b, struct peer *peer, uint32_t n, const float *from)
{
	static float sums[SEGMENTS * DIM];
	struct reply reply;
	const float *at = body_run(&b, peer, &reply);

	memset(sums, 0, sizeof(sums));
	for (uint32_t i = 0; i < n; i++)
		for (unsigned d = 0; d < DIM; d++) {
			CHECK_NEAR(at[i * DIM + d], from[i * DIM + d] + gradients[i * DIM + d], 0);
			sums[segments[i] * DIM + d] += from[i * DIM + d] * from[i * DIM + d];
		}
	CHECK_MEM(at + (size_t)n * DIM, sums, sizeof(sums));
}

/* The second run brings neither keys nor rows nor segments; what it applies is pushed. */
void kept_values_are_those_of_one_run(void)
{
	static const uint32_t counts[] = { 1, 5, 64, 65, N };
	static float before[N * DIM], after[N * DIM], expected[N * DIM];

	for (unsigned c = 0; c < RTE_DIM(counts); c++) {
		struct peer *peer = begin(c + 1);
		const uint32_t n = counts[c];
		struct request r = { 0 };
		struct body b;

		pull(peer, WORDS, keys, n, 0, before);
		good(keep_body(TAG, n), peer);
		CHECK_UINT(stats()->entries, 1);
		CHECK(stats()->bytes >= n * (8 + 4 + 2 * DIM * 4));
		b = use_body(TAG, n, WIRE_LAST);
		CHECK_UINT(b.op.body_bytes, 8 + n * DIM * 4);
		check_used(b, peer, n, before);
		CHECK_UINT(stats()->entries, 0);
		CHECK_UINT(stats()->bytes, 0);
		pull(peer, WORDS, keys, n, 0, after);
		shard_stop();

		peer = begin(c + 1);
		for (unsigned i = 0; i < n * DIM; i++)
			expected[i] = 2 * gradients[i];
		request_push(&r, WORDS, keys, expected, n, 0);
		request_good(&r, peer);
		pull(peer, WORDS, keys, n, 0, expected);
		CHECK_MEM(after, expected, n * DIM * sizeof(float));
		CHECK(after[0] != before[0]);
		shard_stop();
	}
}

void kept_values_belong_to_a_session_and_a_tag(void)
{
	static float second[N * DIM];
	struct peer *peer = begin(1), *other = rig_peer(&shard.rig, 1);

	good(keep_body(TAG, N), peer);
	refused(use_body(TAG, N, 0), other, WIRE_GONE, "nothing is there");
	refused(use_body(TAG + 1, N, 0), peer, WIRE_GONE, "nothing is there");
	push(other, WORDS, keys, gradients, N);
	pull(other, WORDS, keys, N, 0, second);
	good(keep_body(TAG, N), other);
	CHECK_UINT(stats()->entries, 2);
	check_used(use_body(TAG, N, WIRE_LAST), peer, N, rows);
	check_used(use_body(TAG, N, WIRE_LAST), other, N, second);
	CHECK_UINT(stats()->entries, 0);
	shard_stop();
}

/* A request that is sent again is executed again if it changes nothing: the entry is there once, with what the last one
 * has kept. */
void kept_values_may_be_kept_and_used_again(void)
{
	static float second[N * DIM];
	struct peer *peer = begin(1);
	struct reply reply;
	struct body b;
	const float *at;
	uint64_t bytes;

	good(keep_body(TAG, N), peer);
	bytes = stats()->bytes;
	push(peer, WORDS, keys, gradients, N);
	pull(peer, WORDS, keys, N, 0, second);
	good(keep_body(TAG, N), peer);
	CHECK_UINT(stats()->bytes, bytes);
	check_used(use_body(TAG, N, 0), peer, N, second);
	check_used(use_body(TAG, N, WIRE_APPLIED), peer, N, second);
	for (unsigned i = 0; i < 3; i++) {
		good(small_body(GROWER, TAG, N), peer);
		CHECK_UINT(stats()->bytes, bytes + KEPT_BLOCK_BYTES);
	}
	CHECK_UINT(stats()->entries, 1);
	/* In one request some may take from the entry, and another one add to it, but not what they take, nor two the
	 * same. */
	for (unsigned i = 0; i < 3; i++) {
		static const unsigned seconds[] = { USER, OTHER, GROWER };
		struct request r = { 0 };

		b = small_body(GROWER, TAG, N);
		body_into(&b, &r);
		b = seconds[i] == USER ? use_body(TAG, N, WIRE_APPLIED) : small_body(seconds[i], TAG, N);
		body_into(&b, &r);
		if (seconds[i] == USER)
			request_good(&r, peer);
		else
			request_refused(&r, peer, WIRE_GONE, i == 1 ? "are missing" : "another one works on it");
		good(small_body(GROWER, TAG, N), peer);
	}
	{
		struct request r = { 0 };

		b = small_body(OTHER, TAG, N);
		body_into(&b, &r);
		b = small_body(GROWER, TAG, N);
		body_into(&b, &r);
		request_refused(&r, peer, WIRE_GONE, "another one works on it");
	}
	b = small_body(OTHER, TAG, N);
	b.op.flags = WIRE_LAST;
	at = body_run(&b, peer, &reply);
	for (unsigned i = 0; i < N; i++) {
		double sum = 0;

		for (unsigned d = 0; d < DIM; d++)
			sum += (double)second[i * DIM + d];
		CHECK_NEAR(at[i], -sum, 1e-5);
	}
	CHECK_UINT(stats()->bytes, 0);
	shard_stop();
}

/* Behind a push that would change rows; and what is refused for another reason leaves the entry where it is. */
void kept_values_that_are_gone_change_nothing(void)
{
	static float after[N * DIM];
	struct peer *peer = begin(1);
	struct program foreign = user(EIGHTS);
	struct wire_frame frame;
	struct request r = { 0 };
	struct reply reply;
	struct body b;

	for (unsigned i = 0; i < foreign.count; i++)
		foreign.nodes[i].dim = foreign.nodes[i].dim == DIM ? 8 : foreign.nodes[i].dim;
	install_good(104, &foreign);
	good(keep_body(TAG, N), peer);
	b = use_body(TAG + 1, N, WIRE_LAST);
	request_push(&r, WORDS, keys, gradients, N, 0);
	body_into(&b, &r);
	request_refused(&r, peer, WIRE_GONE, "run the step again");
	refused(use_body(TAG, N - 1, WIRE_LAST), peer, WIRE_GONE, "other keys");
	b = small_body(OTHER, TAG, N);
	refused(b, peer, WIRE_GONE, "are missing");
	body_begin(&b, 104, &foreign, (uint32_t[]){ N }, SEGMENTS);
	b.op.version = TAG;
	body_part(&b, gradients, N * 8 * sizeof(float));
	refused(b, peer, WIRE_GONE, "another table");
	b = use_body(TAG, N, WIRE_LAST);
	body_into(&b, &r);
	request_push(&r, LIVING, keys, (float[]){ 1, NAN }, 1, 0);
	request_refused(&r, peer, WIRE_NOT_FINITE, "NaN");
	pull(peer, WORDS, keys, N, 0, after);
	CHECK_MEM(after, rows, sizeof(after));
	CHECK_UINT(stats()->entries, 1);
	check_used(use_body(TAG, N, 0), peer, N, rows);
	/* Another layout: the client may have cut its keys in another way. */
	service_set_layout(shard.service, RIG_EPOCH + 1, 0, PARTITIONS);
	b = use_body(TAG, N, WIRE_LAST);
	body_into(&b, &r);
	frame = peer_frame(peer, WIRE_EXECUTE);
	frame.epoch = RIG_EPOCH + 1;
	peer_send(peer, frame, r.bytes, r.n);
	request_free(&r);
	peer_await(peer, &reply);
	CHECK_STATUS(reply, WIRE_GONE, "another layout");
	CHECK_UINT(stats()->entries, 1);
	shard_stop();
}

static void sweep(void)
{
	service_sweep(shard.service, shard.rig.link.now_ns);
}

void kept_values_have_a_lease(void)
{
	struct peer *peer = begin(1);

	good(keep_body(TAG, N), peer);
	good(keep_body(TAG + 1, N), peer);
	rig_wait(&shard.rig, KEPT_LEASE_S * RIG_S * 2 / 3);
	check_used(use_body(TAG, N, 0), peer, N, rows); /* from here on it is counted again */
	rig_wait(&shard.rig, KEPT_LEASE_S * RIG_S / 2);
	sweep();
	CHECK_UINT(stats()->entries, 1);
	CHECK_UINT(stats()->expired, 1);
	refused(use_body(TAG + 1, N, WIRE_LAST), peer, WIRE_GONE, "nothing is there");
	rig_wait(&shard.rig, KEPT_LEASE_S * RIG_S);
	sweep();
	CHECK_UINT(stats()->entries, 0);
	CHECK_UINT(stats()->bytes, 0);
	CHECK_UINT(stats()->expired, 2);
	CHECK_UINT(stats()->refused, 0);
	shard_stop();
}

/* A session has its share and no more; when all is taken others get nothing, until a lease ends. */
void kept_values_have_room_and_shares(void)
{
	struct peer *peer = begin(1);
	const uint64_t each = (uint64_t)N * (8 + 4 + 2 * DIM * 4);
	uint64_t tag = 0, had;

	for (unsigned i = 0; i < KEPT_SHARES; i++) {
		peer = i ? rig_peer(&shard.rig, i) : peer;
		had = stats()->bytes;
		for (uint64_t k = 1; k <= KEPT_BYTES / KEPT_SHARES / (each + 4 * KEPT_BLOCK_BYTES); k++)
			good(keep_body(++tag, N), peer);
		while (stats()->refused == i) {
			struct body b = keep_body(++tag, N);
			struct request r = { 0 };

			body_into(&b, &r);
			request_run(&r, peer);
			CHECK(stats()->bytes - had <= KEPT_BYTES / KEPT_SHARES);
		}
		refused(keep_body(++tag, N), peer, WIRE_NOT_KEPT, "limits.kept_mib");
		CHECK_UINT(stats()->refused, i + 2);
		check_used(use_body(tag - 3, N, WIRE_APPLIED), peer, N, rows);
		/* The counter goes by one a session. */
		((struct kept_stats *)(uintptr_t)stats())->refused = i + 1;
	}
	CHECK(stats()->bytes <= KEPT_BYTES);
	had = stats()->entries;
	rig_wait(&shard.rig, (KEPT_LEASE_S + 1) * RIG_S);
	sweep();
	CHECK_UINT(stats()->expired, KEPT_EXPIRE);
	good(keep_body(++tag, N), peer);
	for (uint64_t i = 0; i < had; i += KEPT_EXPIRE)
		sweep();
	CHECK_UINT(stats()->expired, had);
	CHECK_UINT(stats()->entries, 1);
	shard_stop();
}

static bool has_rows(void *ctx)
{
	return shard_rows() >= *(const uint64_t *)ctx;
}

/* Pools rows; of keys and segments that it keeps, or that were kept. */
static struct program pooler(bool takes)
{
	struct program p = { 0 };
	const unsigned k = node_keys(&p, WORDS);
	const unsigned s = takes ? node_kept(&p, PROGRAM_SEGMENTS, k, 1, 0) : node(&p, PROGRAM_SEGMENTS, k, 0);

	node(&p, PROGRAM_FETCH, node(&p, PROGRAM_POOL, node(&p, PROGRAM_LOOKUP, k, 0), s), 0);
	if (takes) {
		p.nodes[k].flags = PROGRAM_KEPT;
	} else {
		node(&p, PROGRAM_KEEP, k, 0);
		node(&p, PROGRAM_KEEP, s, 1);
	}
	return p;
}

/* Large requests: what one keeps another one takes; and what is begun for a peer that goes away is finished, and has
 * its lease. */
void kept_values_go_by_slices(void)
{
	enum { MANY = 20000 };
	static uint64_t many[MANY];
	static uint32_t numbers[MANY];
	static float sums[SEGMENTS * DIM];
	struct peer *dead = begin(1), *peer = rig_peer(&shard.rig, 1);
	const struct program keeps = pooler(false), takes = pooler(true);
	const uint32_t count = MANY;
	uint64_t until = shard_rows() + 5000;
	struct request r = { 0 };
	struct reply reply;
	struct body b;

	install_good(104, &keeps);
	install_good(105, &takes);
	for (unsigned i = 0; i < MANY; i++) {
		many[i] = 1000 + i;
		numbers[i] = i % SEGMENTS;
	}
	shard.rig.slices_per_turn = 1;
	for (unsigned i = 0; i < 2; i++) {
		body_begin(&b, 104, &keeps, &count, SEGMENTS);
		b.op.version = TAG;
		body_part(&b, many, sizeof(many));
		body_part(&b, numbers, sizeof(numbers));
		if (i == 0) {
			body_into(&b, &r);
			request_send(&r, dead);
			CHECK(rig_run(&shard.rig, 60 * RIG_S, has_rows, &until));
			tcp_abort(dead->conn);
		} else {
			memcpy(sums, body_run(&b, peer, &reply), sizeof(sums));
		}
	}
	CHECK_UINT(stats()->entries, 2);
	body_begin(&b, 105, &takes, &count, SEGMENTS);
	b.op.version = TAG;
	b.op.flags = WIRE_LAST;
	CHECK_MEM(body_run(&b, peer, &reply), sums, sizeof(sums));
	CHECK(sums[0] != 0);
	CHECK_UINT(stats()->entries, 1);
	rig_wait(&shard.rig, (KEPT_LEASE_S + 1) * RIG_S);
	sweep();
	CHECK_UINT(stats()->entries, 0);
	CHECK_UINT(stats()->bytes, 0);
	shard_stop();
}

void runs_that_keep_are_checked(void)
{
	struct peer *peer = begin(1);
	struct body b = keep_body(0, 5);
	struct request r = { 0 };
	struct wire_frame frame;
	struct reply reply;
	float after[5 * DIM], before[5 * DIM];

	refused(b, peer, WIRE_BAD_REQUEST, "lacks a tag");
	b = keep_body(TAG, 5);
	b.op.flags = WIRE_LAST;
	refused(b, peer, WIRE_BAD_REQUEST, "flags that it cannot have");
	b = keep_body(TAG, 5);
	b.op.flags = WIRE_ALONE;
	refused(b, peer, WIRE_BAD_REQUEST, "a tag");
	refused(use_body(TAG, 5, WIRE_LAST | WIRE_ALONE), peer, WIRE_BAD_REQUEST, "flags that it cannot have");
	refused(use_body(0, 5, WIRE_ALONE), peer, WIRE_BAD_REQUEST, "has a body of");
	/* Two in one request: the first one begins the entry, and nobody uses it before it is done. */
	b = keep_body(TAG, 5);
	body_into(&b, &r);
	b = use_body(TAG, 5, WIRE_LAST);
	body_into(&b, &r);
	request_refused(&r, peer, WIRE_GONE, "are missing");
	b = keep_body(TAG, 5);
	body_into(&b, &r);
	b = keep_body(TAG, 5);
	body_into(&b, &r);
	request_refused(&r, peer, WIRE_NOT_KEPT, "no room");
	CHECK_UINT(stats()->entries, 0);
	CHECK_UINT(stats()->bytes, 0);
	/* Nobody's session keeps anything. */
	b = keep_body(TAG, 5);
	body_into(&b, &r);
	frame = peer_frame(peer, WIRE_EXECUTE);
	frame.session = 0;
	peer_send(peer, frame, r.bytes, r.n);
	request_free(&r);
	peer_await(peer, &reply);
	CHECK_STATUS(reply, WIRE_BAD_REQUEST, "a tag");
	/* Alone: it brings all, and keeps nothing. */
	b = keep_body(0, 5);
	b.op.flags = WIRE_ALONE;
	good(b, peer);
	CHECK_UINT(stats()->entries, 0);
	pull(peer, WORDS, keys, 5, 0, before);
	{
		struct program_shape shape;
		unsigned node;

		wire_program_check(&programs[1], &shape, &node);
		b = use_body(0, 5, WIRE_ALONE);
		request_free(&b.r);
		b.op.body_bytes =
			(uint32_t)wire_program_request_bytes(&programs[1], &shape, (uint32_t[]){ 5 }, SEGMENTS, true);
		body_part(&b, (uint32_t[]){ 5 }, sizeof(uint32_t));
		body_part(&b, keys, 5 * sizeof(*keys));
		body_part(&b, segments, 5 * sizeof(*segments));
		body_part(&b, before, sizeof(before));
		for (unsigned i = 0; i < 5 * DIM; i++)
			after[i] = before[i] * before[i];
		body_part(&b, after, sizeof(after));
		body_part(&b, gradients, 5 * DIM * sizeof(float));
		check_used(b, peer, 5, before);
	}
	pull(peer, WORDS, keys, 5, 0, after);
	CHECK(memcmp(before, after, sizeof(after)) != 0);
	shard_stop();
}
