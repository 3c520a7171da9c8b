/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random requests of several streams over a bad link, against plain arrays. Each stream has keys of its own, so that
 * its replies do not depend on the others' turns: they are computed when the request is sent, and compared bit by bit.
 */
#include "tests/service/cases.h"

#include <stdio.h>
#include <stdlib.h>

enum { PEERS = 4, KEYS = 150, REQUESTS = 100, IN_FLIGHT = 5, DIM_MAX = 16 };

static const unsigned objects[] = { WORDS, COUNTS, ADAGRAD };

/* A row and Adagrad's state. */
struct row {
	float w[DIM_MAX], a[DIM_MAX];
};

static struct row rows[RTE_DIM(objects)][PEERS][KEYS];

struct expected {
	enum wire_status status;
	uint8_t *bytes;
	uint32_t n, room;
};

struct client {
	struct peer *peer;
	unsigned sent, received;
	struct expected expected[REQUESTS];
};

static uint64_t key_of(unsigned peer, unsigned k)
{
	const uint64_t id = (uint64_t)k * PEERS + peer;

	return k % 3 ? id : hash_mix(id); /* small ones, and any */
}

static void model_init(void)
{
	for (unsigned o = 0; o < RTE_DIM(objects); o++)
		for (unsigned p = 0; p < PEERS; p++)
			for (unsigned k = 0; k < KEYS; k++) {
				initial(objects[o], key_of(p, k), rows[o][p][k].w);
				fill_floats(rows[o][p][k].a, DIM_MAX, 0.25f);
			}
}

static void expect(struct expected *e, const void *bytes, uint32_t n)
{
	if (e->n + n > e->room) {
		e->room = 2 * (e->n + n);
		e->bytes = realloc(e->bytes, e->room);
		if (!e->bytes)
			exit(EXIT_FAILURE);
	}
	memcpy(e->bytes + e->n, bytes, n);
	e->n += n;
}

static void model_apply(unsigned o, struct row *row, const float *g, float rate)
{
	for (unsigned i = 0; i < specs[objects[o]]->dim; i++) {
		if (objects[o] == ADAGRAD) {
			row->a[i] += g[i] * g[i];
			row->w[i] -= (rate * g[i]) / (sqrtf(row->a[i]) + 1e-6f);
		} else {
			row->w[i] -= rate * g[i];
		}
	}
}

/* The gradients of a key are summed in their order, and applied once. */
static void model_push(unsigned o, unsigned p, const unsigned *ks, const float *gradients, uint32_t count, float rate)
{
	const uint32_t dim = specs[objects[o]]->dim;
	static float sums[KEYS][DIM_MAX];
	bool seen[KEYS] = { false };

	for (uint32_t i = 0; i < count; i++)
		for (uint32_t d = 0; d < dim; d++) {
			const float g = gradients[(size_t)i * dim + d];

			sums[ks[i]][d] = seen[ks[i]] ? sums[ks[i]][d] + g : g;
			if (d == dim - 1)
				seen[ks[i]] = true;
		}
	for (unsigned k = 0; k < KEYS; k++)
		if (seen[k])
			model_apply(o, &rows[o][p][k], sums[k], rate);
}

static void add_operation(struct request *r, struct expected *e, unsigned p, struct prng *prng)
{
	static uint64_t keys[4000];
	static unsigned ks[4000];
	static float gradients[4000 * DIM_MAX];
	const unsigned o = prng_below(prng, RTE_DIM(objects));
	const uint32_t dim = specs[objects[o]]->dim;
	const uint32_t count = 1 + prng_below(prng, prng_below(prng, 8) ? 40 : 4000);
	const float rate = prng_below(prng, 2) ? 0 : 0.25f;
	struct wire_result result = { .object = objects[o], .count = count, .dim = dim };

	for (uint32_t i = 0; i < count; i++) {
		ks[i] = prng_below(prng, KEYS);
		keys[i] = key_of(p, ks[i]);
	}
	if (prng_below(prng, 2)) {
		for (uint32_t i = 0; i < count * dim; i++)
			gradients[i] = (float)(prng_unit(prng) - 0.5);
		request_push(r, objects[o], keys, gradients, count, rate);
		expect(e, &result, sizeof(result));
		model_push(o, p, ks, gradients, count, rate == 0 ? 0.5f : rate);
	} else {
		request_pull(r, objects[o], keys, count, prng_below(prng, 2) ? WIRE_READ_ONLY : 0);
		result.body_bytes = count * dim * 4;
		expect(e, &result, sizeof(result));
		for (uint32_t i = 0; i < count; i++)
			expect(e, rows[o][p][ks[i]].w, dim * 4);
		expect(e, "\0\0\0\0\0\0\0", wire_padded(e->n) - e->n);
	}
}

/* One in ten has something bad at its end, and so changes nothing. */
static void send_random(struct client *c, unsigned p, struct prng *prng)
{
	static struct row saved[RTE_DIM(objects)][KEYS];
	struct expected *e = &c->expected[c->sent++];
	const unsigned operations = 1 + prng_below(prng, 5);
	struct request r = { 0 };

	for (unsigned o = 0; o < RTE_DIM(objects); o++)
		memcpy(saved[o], rows[o][p], sizeof(saved[o]));
	for (unsigned i = 0; i < operations; i++)
		add_operation(&r, e, p, prng);
	if (prng_below(prng, 10) == 0) {
		struct wire_op bad = pull_op(WORDS, 1, 0);

		bad.dim++;
		request_op(&r, bad, NULL, NULL);
		request_zeros(&r, 8);
		e->status = WIRE_WRONG_DIM;
		for (unsigned o = 0; o < RTE_DIM(objects); o++)
			memcpy(rows[o][p], saved[o], sizeof(saved[o]));
	}
	request_send(&r, c->peer);
}

/* The reply as expected, but for the versions: those count the pushes of all streams. */
static bool same_results(const struct reply *reply, const struct expected *e)
{
	static uint8_t bytes[WIRE_PAYLOAD_DEFAULT];
	uint32_t at = 0;

	if (!CHECK_UINT(reply->frame.payload_bytes, e->n))
		return false;
	memcpy(bytes, reply->payload, e->n);
	while (at < e->n) {
		struct wire_result result;

		memcpy(&result, bytes + at, sizeof(result));
		memset(bytes + at + offsetof(struct wire_result, version), 0, sizeof(result.version));
		at += (uint32_t)sizeof(result) + wire_padded(result.body_bytes);
	}
	return CHECK_UINT(at, e->n) && CHECK_MEM(bytes, e->bytes, e->n);
}

static bool check_reply(struct client *c)
{
	const struct expected *e = &c->expected[c->received++];
	struct reply reply;

	return peer_await(c->peer, &reply) && CHECK_UINT(reply.frame.sequence, c->received) &&
	       CHECK_UINT(reply.frame.status, e->status) && (e->status != WIRE_OK || same_results(&reply, e));
}

static bool run_model(uint64_t seed)
{
	static struct client clients[PEERS];
	struct prng *prng = &shard.rig.link.prng;
	bool good = true;

	memset(clients, 0, sizeof(clients));
	shard_init(seed, seed % 3 ? 0 : 2047);
	shard.rig.link.loss = prng_below(prng, 30);
	shard.rig.link.reorder = prng_below(prng, 200);
	shard.rig.link.duplicate = prng_below(prng, 30);
	shard.rig.link.corrupt = prng_below(prng, 20);
	shard_start(0);
	model_init();
	for (unsigned p = 0; p < PEERS; p++) {
		clients[p].peer = rig_peer(&shard.rig, p);
		clients[p].peer->segment_max = prng_below(prng, 2) ? 0 : 300 + prng_below(prng, 1160);
	}
	for (unsigned i = 0; i < PEERS * REQUESTS * 2 && good; i++) {
		const unsigned p = prng_below(prng, PEERS);
		struct client *c = &clients[p];

		if (c->sent < REQUESTS && c->sent - c->received < IN_FLIGHT && prng_below(prng, 3))
			send_random(c, p, prng);
		else if (c->received < c->sent)
			good = check_reply(c);
	}
	for (unsigned p = 0; p < PEERS; p++) {
		while (clients[p].received < clients[p].sent && good)
			good = check_reply(&clients[p]);
		for (unsigned i = 0; i < REQUESTS; i++)
			free(clients[p].expected[i].bytes);
	}
	CHECK(shard_rows() <= RTE_DIM(objects) * PEERS * KEYS);
	shard_stop();
	return good;
}

void random_requests_follow_the_model(void)
{
	for (uint64_t seed = 1; seed <= 24; seed++)
		if (!run_model(seed))
			printf("# seed %llu\n", (unsigned long long)seed);
}
