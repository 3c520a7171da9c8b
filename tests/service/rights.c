/* SPDX-License-Identifier: BSD-3-Clause */
/* Each operation with each set of rights. */
#include "tests/service/cases.h"

#include <stdio.h>

#include "secure/rights.h"
#include "secure/ticket.h"

enum { COLUMNS_MAX = 16 };

static _Atomic(uint8_t) held[SECURE_TABLES];

static const _Atomic(uint8_t) *rights_of(const struct rpc_request *request)
{
	return held;
}

static const struct {
	enum wire_op_kind kind;
	unsigned flags;
	uint8_t needs;
	bool makes; /* rows */
} operations[] = {
	{ WIRE_PULL, WIRE_READ_ONLY, SECURE_PULL, false },
	{ WIRE_PULL, 0, SECURE_PULL | SECURE_CREATE, true },
	{ WIRE_PUSH, 0, SECURE_PUSH | SECURE_CREATE, true },
	{ WIRE_PUSH_PULL, 0, SECURE_PUSH | SECURE_PULL | SECURE_CREATE, true },
	{ WIRE_ASSIGN, 0, SECURE_ASSIGN | SECURE_CREATE, true },
	{ WIRE_DELETE, 0, SECURE_DELETE, false },
	{ WIRE_COMMIT, WIRE_OPEN, SECURE_COMMIT, false },
};

static void add_operation(struct request *r, unsigned i, const uint64_t *key)
{
	static const float row[COLUMNS_MAX] = { 1, 2, 3 };
	const bool rows = operations[i].needs & (SECURE_PUSH | SECURE_ASSIGN);
	struct wire_op op = rows ? push_op(WORDS, 1, 0) : pull_op(WORDS, 1, operations[i].flags);

	op.kind = (uint8_t)operations[i].kind;
	op.flags = operations[i].flags;
	if (operations[i].kind == WIRE_PUSH_PULL)
		op.result_dtype = STAR_FLOAT32;
	if (operations[i].kind == WIRE_ASSIGN || operations[i].kind == WIRE_DELETE || operations[i].kind == WIRE_COMMIT)
		op.result_dtype = 0;
	op.body_bytes = (uint32_t)wire_op_bytes(&op);
	request_op(r, op, key, rows ? row : NULL);
}

static void try_all(uint64_t seed, bool general)
{
	struct peer *peer;
	uint64_t key = 1000;

	shard_init(seed, 0);
	shard.general = general;
	shard.rights = rights_of;
	shard_start(0);
	peer = rig_peer(&shard.rig, 0);
	for (unsigned i = 0; i < RTE_DIM(operations); i++)
		for (unsigned may = 0; may <= SECURE_RIGHTS; may++) {
			const bool allowed = (operations[i].needs & ~may) == 0;
			const uint64_t rows = shard_rows();
			struct request r = { 0 };

			key++;
			held[specs[WORDS]->id] = (uint8_t)may;
			add_operation(&r, i, &key);
			if (allowed) {
				const struct reply reply = request_run(&r, peer);

				if (!CHECK(reply.frame.status != WIRE_NOT_ALLOWED))
					printf("# operation %u, rights %#x\n", i, may);
				continue;
			}
			request_refused(&r, peer, WIRE_NOT_ALLOWED, "\" to \"words\" (security.rights");
			if (!CHECK_UINT(shard_rows(), rows))
				printf("# operation %u, rights %#x\n", i, may);
		}
	shard_stop();
}

void each_right_is_for_its_operations(void)
{
	for (unsigned i = 0; i < RTE_DIM(operations); i++)
		CHECK(operations[i].makes == !!(operations[i].needs & SECURE_CREATE));
	memset((void *)held, SECURE_RIGHTS, sizeof(held));
	try_all(900, false);
	try_all(901, true);
}

/* What is not allowed is refused with all that stands beside it, and of other tables nothing is said. */
void a_request_is_refused_whole(void)
{
	struct request r = { 0 };
	struct peer *peer;
	uint64_t key = 7;

	memset((void *)held, SECURE_RIGHTS, sizeof(held));
	shard_init(902, 0);
	shard.rights = rights_of;
	shard_start(0);
	peer = rig_peer(&shard.rig, 0);
	held[specs[COUNTS]->id] = SECURE_PULL;
	request_pull(&r, WORDS, &key, 1, 0);
	request_pull(&r, COUNTS, &key, 1, 0);
	request_refused(&r, peer, WIRE_NOT_ALLOWED, "the right \"create\" to \"counts\"");
	CHECK_UINT(shard_rows(), 0);
	request_pull(&r, WORDS, &key, 1, 0);
	request_pull(&r, COUNTS, &key, 1, WIRE_READ_ONLY);
	request_good(&r, peer);
	held[specs[COUNTS]->id] = 0; /* from the next request on */
	request_pull(&r, COUNTS, &key, 1, WIRE_READ_ONLY);
	request_refused(&r, peer, WIRE_NOT_ALLOWED, "the right \"pull\" to \"counts\"");
	shard_stop();
}
