/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations that assign values. */
#include "tests/service/cases.h"

#include <math.h>

static void add(struct request *r, struct wire_op op, const uint64_t *keys, const void *rest)
{
	op.body_bytes = (uint32_t)wire_op_bytes(&op);
	request_op(r, op, keys, rest);
}

static struct wire_op assign_op(unsigned object, uint32_t count)
{
	struct wire_op op = push_op(object, count, 0);

	op.kind = WIRE_ASSIGN;
	op.dtype = (uint8_t)specs[object]->dtype;
	return op;
}

/* To whole numbers, to a variable whose optimizer takes pushes of the whole alone, beside a push in one request, in
 * many slices; and what is refused changes nothing. */
void values_are_assigned(void)
{
	enum { MANY = 5000 };
	static const int32_t numbers[6] = { 1, -2, INT32_MAX, INT32_MIN, 5, 6 };
	static uint64_t keys[MANY] = { 5, 6, 5 };
	static float values[MANY * 8], rows[MANY * 8];
	struct peer *peer = shard_simple(13);
	struct request r = { 0 };
	struct wire_result result;
	struct reply reply;
	const uint8_t *body;
	struct wire_op op;

	add(&r, assign_op(NUMBERS, 3), keys, numbers);
	op = pull_op(NUMBERS, 3, 0);
	op.result_dtype = STAR_INT32;
	add(&r, op, keys, NULL);
	reply = request_run(&r, peer);
	CHECK(result_of(&reply, 0, &result) && result.count == 3 && result.body_bytes == 0 && result.version == 1);
	body = result_of(&reply, 1, &result);
	if (body) {
		CHECK_MEM(body, numbers + 4, 8);
		CHECK_MEM(body + 8, numbers + 2, 8);
		CHECK_MEM(body + 16, numbers + 4, 8);
	}
	fill_floats(values, 1024, 0.25f);
	add(&r, assign_op(LAMB, 1), (const uint64_t[]){ 3 }, values);
	request_push(&r, COUNTS, keys, (const float[]){ 1, 1, 1 }, 3, 0);
	request_good(&r, peer);
	CHECK_NEAR(pull_one(peer, LAMB, 3), 0.25, 0);
	CHECK_NEAR(pull_one(peer, COUNTS, 5), -1, 0);
	fill_keys(keys, MANY, 100);
	for (unsigned i = 0; i < MANY * 8; i++)
		values[i] = (float)i;
	add(&r, assign_op(EIGHTS, MANY), keys, values);
	request_good(&r, peer);
	pull(peer, EIGHTS, keys, MANY, WIRE_READ_ONLY, rows);
	CHECK_MEM(rows, values, sizeof(rows));
	add(&r, assign_op(ADAGRAD, MANY), keys, values);
	request_good(&r, peer);
	values[0] = -1;
	values[7 * MANY - 1] = NAN;
	add(&r, assign_op(ADAGRAD, MANY), keys, values);
	request_refused(&r, peer, WIRE_NOT_FINITE, "a value for \"adagrad\" has NaN or infinities");
	CHECK_NEAR(pull_one(peer, ADAGRAD, 100), 0, 0);
	op = assign_op(EIGHTS, 1);
	op.rate = 1;
	add(&r, op, keys, values);
	request_refused(&r, peer, WIRE_BAD_REQUEST, "is not a push: its rate, scale and version must be 0");
	op = assign_op(EIGHTS, 1);
	op.dtype = STAR_INT32;
	add(&r, op, keys, values);
	request_refused(&r, peer, WIRE_WRONG_TYPE, "\"eights\" has elements of type float32, the request has int32");
	shard_stop();
}
