/* SPDX-License-Identifier: BSD-3-Clause */
/* A program that does everything, and runs of it. */
#include <string.h>

#include "tests/fuzz/rpc_world.h"

const struct program rpc_program = {
	.version = PROGRAM_VERSION,
	.count = 19,
	.nodes = {
		[0] = { .op = PROGRAM_KEYS, .object = WILD, .dim = WILD_DIM },
		[1] = { .op = PROGRAM_ROWS, .a = 0, .dim = WILD_DIM },
		[2] = { .op = PROGRAM_SEGMENTS, .a = 0 },
		[3] = { .op = PROGRAM_SHARED, .dim = 1 },
		[4] = { .op = PROGRAM_SEGMENT_ROWS, .dim = WILD_DIM },
		[5] = { .op = PROGRAM_LOOKUP, .a = 0 },
		[6] = { .op = ELEMENTWISE_MUL, .a = 5, .b = 1 },
		[7] = { .op = ELEMENTWISE_TANH, .a = 6 },
		[8] = { .op = ELEMENTWISE_SCALE, .a = 3, .constant = 0.5f },
		[9] = { .op = ELEMENTWISE_ADD, .a = 7, .b = 8 },
		[10] = { .op = PROGRAM_POOL, .a = 9, .b = 2 },
		[11] = { .op = PROGRAM_UNPOOL, .a = 4, .b = 2 },
		[12] = { .op = PROGRAM_APPLY, .a = 0, .b = 11 },
		[13] = { .op = ELEMENTWISE_DOT, .a = 5, .b = 11 },
		[14] = { .op = PROGRAM_FETCH, .a = 10 },
		[15] = { .op = PROGRAM_FETCH, .a = 13 },
		[16] = { .op = PROGRAM_KEYS, .object = WILD, .dim = WILD_DIM },
		[17] = { .op = PROGRAM_LOOKUP, .a = 16, .flags = PROGRAM_READ_ONLY },
		[18] = { .op = PROGRAM_FETCH, .a = 17 },
	},
};

const struct program rpc_keeper = {
	.version = PROGRAM_VERSION,
	.count = 8,
	.nodes = {
		[0] = { .op = PROGRAM_KEYS, .object = WILD, .dim = WILD_DIM },
		[1] = { .op = PROGRAM_SEGMENTS, .a = 0 },
		[2] = { .op = PROGRAM_ROWS, .a = 0, .dim = 1 },
		[3] = { .op = PROGRAM_LOOKUP, .a = 0 },
		[4] = { .op = PROGRAM_KEEP, .a = 0 },
		[5] = { .op = PROGRAM_KEEP, .a = 1, .b = 1 },
		[6] = { .op = PROGRAM_KEEP, .a = 3, .b = 7 },
		[7] = { .op = PROGRAM_FETCH, .a = 3 },
	},
};

const struct program rpc_taker = {
	.version = PROGRAM_VERSION,
	.count = 10,
	.nodes = {
		[0] = { .op = PROGRAM_KEYS, .object = WILD, .dim = WILD_DIM, .flags = PROGRAM_KEPT },
		[1] = { .op = PROGRAM_SEGMENTS, .a = 0, .b = 1, .flags = PROGRAM_KEPT },
		[2] = { .op = PROGRAM_ROWS, .a = 0, .b = 7, .dim = WILD_DIM, .flags = PROGRAM_KEPT },
		[3] = { .op = PROGRAM_ROWS, .a = 0, .dim = 1 },
		[4] = { .op = ELEMENTWISE_MUL, .a = 2, .b = 3 },
		[5] = { .op = PROGRAM_KEEP, .a = 4, .b = 2 },
		[6] = { .op = PROGRAM_POOL, .a = 4, .b = 1 },
		[7] = { .op = PROGRAM_FETCH, .a = 6 },
		[8] = { .op = PROGRAM_FETCH, .a = 2 },
		[9] = { .op = PROGRAM_APPLY, .a = 0, .b = 4 },
	},
};

static uint32_t put(uint8_t *to, const void *bytes, uint32_t n)
{
	memcpy(to, bytes, n);
	return n;
}

uint32_t rpc_run_write(uint8_t *to, struct input *in)
{
	const uint8_t how = take8(in), many = take8(in), segments = take8(in), key = take8(in), wrong = take8(in);
	static const struct program *const programs[] = { &rpc_program, &rpc_program, &rpc_keeper, &rpc_taker };
	const struct program *program = programs[how >> 2 & 3];
	const uint32_t counts[2] = { many & 7, program == &rpc_program ? many >> 3 : 0 };
	struct wire_op op = { .kind = WIRE_RUN,
			      .flags = how & 1 && program != &rpc_keeper ? WIRE_APPLIED : 0,
			      .object = program == &rpc_keeper	? KEEPER
					: program == &rpc_taker ? TAKER
								: PROGRAM,
			      .count = counts[0] + counts[1],
			      .dim = 1 + segments % 70,
			      .step = how >> 4 };
	struct program_shape shape;
	unsigned node;
	uint32_t n, all;

	FUZZ_CHECK(!wire_program_check(program, &shape, &node), "no program");
	if (program_has_entry(&shape) && wrong & 4)
		op.flags |= WIRE_ALONE;
	else if (program_has_entry(&shape))
		op.version = 1 + (wrong & 3);
	if (program == &rpc_taker && (wrong & 12) == 8)
		op.flags |= WIRE_LAST;
	op.body_bytes = all =
		(uint32_t)wire_program_request_bytes(program, &shape, counts, op.dim, op.flags & WIRE_ALONE);
	if (wrong >= 0xe0)
		((uint8_t *)&op)[take8(in) % sizeof(op)] ^= (uint8_t)(1 + take8(in) % 255);
	n = put(to, &op, sizeof(op));
	n += put(to + n, counts, sizeof(counts)); /* of one feed the second is the padding */
	for (uint32_t i = sizeof(counts); i < all; i += 8) {
		const uint64_t number = how & 2 ? key * UINT64_C(0x0101010101010101) : (uint64_t)(key % 16 + i / 8 % 4);

		n += put(to + n, &number, sizeof(number));
	}
	return n;
}
