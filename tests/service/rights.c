/* SPDX-License-Identifier: BSD-3-Clause */
/* Each operation with each set of rights. */
#include "tests/service/cases.h"

#include <stdio.h>

#include "secure/rights.h"
#include "service/service.h"
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

/* A request with a forbidden operation is refused as a whole, and nothing is revealed about other tables. */
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

/* ---- quotas ---- */

static struct secure_account account;
static struct peer *limited; /* whose requests have it */
static unsigned over[2];

static struct secure_account *account_of(const struct rpc_request *request)
{
	return request->frame.session == limited->session ? &account : NULL;
}

static void over_quota(const struct rpc_request *request, enum wire_status status)
{
	over[status == WIRE_QUOTA_MEMORY]++;
}

static struct peer *begin_quotas(uint64_t seed, bool general)
{
	memset((void *)held, SECURE_RIGHTS, sizeof(held));
	memset(&account, 0, sizeof(account));
	memset(over, 0, sizeof(over));
	shard_init(seed, 0);
	shard.general = general;
	shard.rights = rights_of;
	shard.account = account_of;
	shard.over_quota = over_quota;
	shard_start(0);
	limited = rig_peer(&shard.rig, 0);
	return rig_peer(&shard.rig, 1);
}

/* Existing rows cost nothing, those that a request makes are deducted, and a principal with none left makes none. */
void new_rows_of_a_principal_have_a_quota(void)
{
	for (int general = 0; general < 2; general++) {
		struct peer *other = begin_quotas(903, general);
		struct request r = { 0 };
		uint64_t keys[300];
		float rows[300];

		fill_keys(keys, 300, 1);
		fill_floats(rows, 300, 1);
		account.rows_limited = true;
		account.rows.left = 5;
		pull(limited, COUNTS, keys, 2, 0, rows);
		CHECK_INT(account.rows.left, 3);
		pull(limited, COUNTS, keys, 2, 0, rows);
		CHECK_INT(account.rows.left, 3);
		pull(limited, COUNTS, keys + 50, 2, WIRE_READ_ONLY, rows);
		CHECK_INT(account.rows.left, 3);
		push(limited, COUNTS, keys, rows, 3); /* of one key, in the middle of others */
		CHECK_INT(account.rows.left, 2);
		push(limited, COUNTS, keys, rows, 300); /* in slices: what is too much is owed */
		CHECK_INT(account.rows.left, 2 - 297);
		request_pull(&r, COUNTS, keys, 1, 0);
		request_refused(&r, limited, WIRE_QUOTA_NEW_ROWS, "limit ... new_rows=");
		request_push(&r, WORDS, keys, (const float[16]){ 0 }, 1, 0);
		request_refused(&r, limited, WIRE_QUOTA_NEW_ROWS, "\"words\" accepts no new rows");
		CHECK_UINT(over[0], 2);
		request_pull(&r, COUNTS, keys, 1, WIRE_READ_ONLY);
		request_good(&r, limited);
		/* Others are not hurt. */
		pull(other, COUNTS, (const uint64_t[]){ 5000, 5001 }, 2, 0, rows);
		CHECK_INT(account.rows.left, 2 - 297);
		account.rows.left = 1;
		pull(limited, WORDS, keys, 1, 0, (float[16]){ 0 });
		CHECK_INT(account.rows.left, 0);
		shard_stop();
	}
}

/* Of the tables in which the principal may make rows, and no others. */
void memory_of_a_principal_has_a_quota(void)
{
	struct peer *other = begin_quotas(904, false);
	struct request r = { 0 };
	uint64_t keys[300], before;
	float rows[300];

	fill_keys(keys, 300, 1);
	fill_floats(rows, 300, 1);
	for (unsigned i = 0; i < SECURE_TABLES; i++)
		held[i] = SECURE_PULL | SECURE_PUSH;
	held[specs[COUNTS]->id] = SECURE_RIGHTS;
	pull(limited, COUNTS, keys, 1, 0, rows);
	before = 0;
	{
		struct store_stats sum = { 0 };

		service_table_stats(shard.service, specs[COUNTS]->id, &sum);
		before = sum.memory_bytes;
	}
	account.now_ns = 1;
	account.memory_max = before + 1;
	pull(limited, COUNTS, keys, 1, 0, rows);
	account.memory_max = before;
	account.now_ns += 20000000;
	request_pull(&r, COUNTS, keys + 1, 1, 0);
	request_refused(&r, limited, WIRE_QUOTA_MEMORY, "limit ... memory=");
	CHECK_UINT(over[1], 1);
	request_pull(&r, COUNTS, keys, 1, WIRE_READ_ONLY);
	request_good(&r, limited);
	pull(other, COUNTS, keys, 200, 0, rows);
	/* Tables that it may only read do not count. */
	held[specs[COUNTS]->id] = SECURE_PULL | SECURE_PUSH;
	held[specs[NUMBERS]->id] = SECURE_RIGHTS;
	account.now_ns += 20000000;
	request_pull(&r, COUNTS, keys, 1, 0);
	request_refused(&r, limited, WIRE_NOT_ALLOWED, "create");
	{
		struct wire_op op = pull_op(NUMBERS, 1, 0);

		op.result_dtype = STAR_INT32;
		request_op(&r, op, keys, NULL);
		request_good(&r, limited);
	}
	shard_stop();
}
