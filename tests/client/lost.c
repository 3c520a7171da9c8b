/* SPDX-License-Identifier: BSD-3-Clause */
/* What a caller is told about a push that was applied, but whose results are lost. */
#include "client/client.h"
#include "tests/client/cases.h"

#include <errno.h>

enum { DIM = 4, KEYS = 64 };

static uint64_t keys[KEYS];

static struct star_op push_pull_of_ones(struct bench *b)
{
	static float rows[KEYS * DIM], gradients[KEYS * DIM];

	for (uint64_t i = 0; i < KEYS; i++)
		keys[i] = i;
	for (uint32_t i = 0; i < KEYS * DIM; i++)
		gradients[i] = 1;
	return (struct star_op){ .kind = STAR_PUSH_PULL,
				 .table = b->table,
				 .keys = keys,
				 .count = KEYS,
				 .values = gradients,
				 .results = rows };
}

/* The reply to a push-pull is lost: its rows are read again, or, where they must be those of that moment, it fails. */
void lost_results_are_not_replaced_at_once(void)
{
	struct bench b = bench_start(1, 1, DIM);
	struct star_op op = push_pull_of_ones(&b);
	struct star_error err = { 0 };
	uint32_t applied = 0;
	float first;

	b.peer->repeats = true;
	for (unsigned i = 0; i < 2; i++) {
		op.flags = i ? STAR_AT_ONCE : 0;
		peer_misbehave(b.peer, FAULT_CLOSE, 0, 1);
		CHECK_INT(star_execute(b.cluster, &op, 1, LONG_US, &err), i ? -EREMOTEIO : 0);
		CHECK(peer_find(b.peer, 1, 17, &applied, &first));
		CHECK_UINT(applied, i + 1);
		/* The rows were counted when it was executed: for a filter or an eviction policy they are not again. */
		if (i == 0) {
			CHECK_UINT(peer_last_op(b.peer).kind, WIRE_PULL);
			CHECK(peer_last_op(b.peer).flags & WIRE_READ_ONLY);
		}
	}
	CHECK_HAS(err.text, "has applied a push");
	bench_stop(&b);
}

/* The same, and the layout changes before they are read, as when a standby takes over: the push was applied. */
void what_was_applied_is_not_applied_by_a_newer_layout(void)
{
	struct bench b = bench_start(1, 1, DIM);
	struct star_op op = push_pull_of_ones(&b);
	struct star_error err = { 0 };
	uint32_t applied = 0;
	float first;

	b.peer->repeats = b.peer->moves = true;
	peer_misbehave(b.peer, FAULT_CLOSE, 0, 1);
	if (!CHECK_INT(star_execute(b.cluster, &op, 1, LONG_US, &err), 0))
		unit_fail(__FILE__, __LINE__, "%s", err.text);
	CHECK(!b.peer->moves);
	CHECK(peer_find(b.peer, 1, 17, &applied, &first));
	CHECK_UINT(applied, 1);
	CHECK_NEAR(((const float *)op.results)[17 * DIM], first, 0);
	bench_stop(&b);
}

/* One node has applied its part, and its results are lost; the other one refuses its part, since the layout has changed
 * by then. A caller that is told that the push was applied can rely on all of it. */
void a_push_whose_results_are_lost_is_applied_whole(void)
{
	struct bench b = bench_start(2, 2, DIM);
	struct star_op op = push_pull_of_ones(&b);
	struct star_error err = { 0 };
	uint32_t applied = 0;
	float first;

	op.flags = STAR_AT_ONCE;
	b.peer->repeats = b.peer->moves_soon = true;
	peer_misbehave(b.peer, FAULT_CLOSE, 0, 1);
	CHECK_INT(star_execute(b.cluster, &op, 1, LONG_US, &err), -EREMOTEIO);
	CHECK(!b.peer->moves_soon);
	for (uint64_t key = 0; key < KEYS; key++)
		if (!CHECK(peer_find(b.peer, 1, key, &applied, &first)) || !CHECK_UINT(applied, 1))
			break;
	bench_stop(&b);
}

/* A call is cancelled while the last replies are being copied, and another part of it was refused by an old layout. */
void a_cancelled_call_with_a_refused_part_has_failed(void)
{
	struct channel channel = { .label = "PS task 1" };
	struct part part = { .channel = &channel };
	struct call call = { .error = { .code = 0 } };
	const struct star_error lost = { .code = -EREMOTEIO }, worse = { .code = -EPROTO };

	TAILQ_INIT(&call.stale);
	CHECK(!client_call_goes_on(&call));
	TAILQ_INSERT_TAIL(&call.stale, &part, link);
	CHECK(client_call_goes_on(&call));
	call.cancelled = -ETIMEDOUT;
	CHECK(!client_call_goes_on(&call));
	CHECK_INT(call.error.code, -ETIMEDOUT);
	CHECK_HAS(call.error.text, "PS task 1 has refused a part of the call");
	/* Of two errors the worse one: lost results are those of a push that was applied. */
	call.cancelled = 0;
	call.error.code = 0;
	client_call_fail(&call, &lost);
	CHECK(client_call_goes_on(&call));
	client_call_fail(&call, &worse);
	client_call_fail(&call, &lost);
	client_call_fail(&call, NULL);
	CHECK_INT(call.error.code, -EPROTO);
	CHECK(!client_call_goes_on(&call));
}
