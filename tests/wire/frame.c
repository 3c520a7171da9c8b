/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/frame.h"

#include <stdio.h>

#include "base/crc32.h"
#include "base/prng.h"
#include "tests/wire/cases.h"

static struct wire_frame good(void)
{
	return (struct wire_frame){ .magic = WIRE_MAGIC,
				    .version = WIRE_VERSION,
				    .opcode = WIRE_EXECUTE,
				    .session = 0x0123456789abcdef,
				    .sequence = 7,
				    .epoch = 3,
				    .incarnation = 5,
				    .deadline_us = 1000,
				    .payload_bytes = 64 };
}

void good_headers_pass(void)
{
	static const uint32_t lengths[] = { 0, 1, WIRE_PAYLOAD_MAX };
	struct wire_frame frame = good();
	const char *why = "untouched";

	for (uint8_t opcode = WIRE_EXECUTE; opcode <= WIRE_PING; opcode++)
		for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
			frame.opcode = opcode;
			frame.payload_bytes = lengths[i];
			CHECK_INT(wire_frame_check(&frame, &why), WIRE_OK);
			CHECK(!why);
			CHECK_INT(wire_frame_check(&frame, NULL), WIRE_OK);
		}
	/* The first bytes of a stream read as text. */
	CHECK_MEM(&frame, "STAR", 4);
}

void each_bad_field_is_refused(void)
{
	struct wire_frame cases[8];
	static const char *const sentences[8] = {
		"bad magic",	  "bad magic",	    "unknown protocol version", "unknown protocol version",
		"unknown opcode", "unknown opcode", "limit of 64 MiB",		"limit of 64 MiB",
	};
	const char *why = NULL;

	for (int i = 0; i < 8; i++)
		cases[i] = good();
	cases[0].magic ^= 1;
	cases[1].magic = __builtin_bswap32(WIRE_MAGIC);
	cases[2].version = 0;
	cases[3].version = WIRE_VERSION + 1;
	cases[4].opcode = 0;
	cases[5].opcode = WIRE_PING + 1;
	cases[6].payload_bytes = WIRE_PAYLOAD_MAX + 1;
	cases[7].payload_bytes = UINT32_MAX;
	for (int i = 0; i < 8; i++) {
		if (!CHECK_INT(wire_frame_check(&cases[i], &why), WIRE_BAD_FRAME) || !CHECK(why))
			printf("# case %d\n", i);
		else
			CHECK_HAS(why, sentences[i]);
		CHECK_INT(wire_frame_check(&cases[i], NULL), WIRE_BAD_FRAME);
	}
}

/* Against one CRC over the bytes as they leave. */
void checksum_is_the_crc_of_the_frame(void)
{
	static const size_t lengths[] = { 0, 1, 7, 8, 63, 64, 1000, 65537 };
	static uint8_t bytes[sizeof(struct wire_frame) + 65537];
	struct wire_frame frame = good();
	struct prng p;

	prng_seed(&p, 3);
	for (size_t i = sizeof(frame); i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)prng_next(&p);
	for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		frame.payload_bytes = (uint32_t)lengths[i];
		frame.checksum = 0;
		memcpy(bytes, &frame, sizeof(frame));
		/* What the field held before does not matter. */
		frame.checksum = (uint32_t)prng_next(&p);
		CHECK_UINT(wire_checksum(&frame, bytes + sizeof(frame), lengths[i]),
			   base_crc32(bytes, sizeof(frame) + lengths[i]));
	}
	CHECK_UINT(wire_frame_crc(&frame), wire_checksum(&frame, NULL, 0));
	CHECK_UINT(wire_frame_crc(&frame), base_crc32(bytes, sizeof(frame)));
}

void checksum_covers_every_bit(void)
{
	uint8_t payload[40] = { 1, 2, 3 };
	struct wire_frame frame = good();
	const uint32_t sum = wire_checksum(&frame, payload, sizeof(payload));

	for (unsigned bit = 0; bit < 8 * offsetof(struct wire_frame, checksum); bit++) {
		((uint8_t *)&frame)[bit / 8] ^= (uint8_t)(1 << bit % 8);
		if (!CHECK(wire_checksum(&frame, payload, sizeof(payload)) != sum))
			printf("# bit %u of the header\n", bit);
		((uint8_t *)&frame)[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	for (unsigned bit = 0; bit < 8 * sizeof(payload); bit++) {
		payload[bit / 8] ^= (uint8_t)(1 << bit % 8);
		if (!CHECK(wire_checksum(&frame, payload, sizeof(payload)) != sum))
			printf("# bit %u of the payload\n", bit);
		payload[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	CHECK_UINT(wire_checksum(&frame, payload, sizeof(payload)), sum);
}

void body_sizes_do_not_overflow(void)
{
	struct wire_op op = { .kind = WIRE_PUSH, .dtype = STAR_FLOAT64, .count = WIRE_KEYS_MAX, .dim = WIRE_DIM_MAX };

	CHECK_UINT(wire_op_bytes(&op), (UINT64_C(1) << 31) + (1 << 19));
	CHECK_UINT(wire_op_result_bytes(&op), 0);
	op.kind = WIRE_PUSH_PULL;
	op.dtype = STAR_SCALED_INT8;
	op.result_dtype = STAR_FLOAT16;
	op.dim = 5;
	op.count = 3;
	CHECK_UINT(wire_op_bytes(&op), 3 * 8 + 3 * (4 + 8));
	CHECK_UINT(wire_op_result_bytes(&op), 3 * 5 * 2);
	op.kind = WIRE_PULL;
	CHECK_UINT(wire_op_bytes(&op), 3 * 8);
	op.flags = WIRE_VERSIONS;
	CHECK_UINT(wire_op_bytes(&op), 3 * 8 + 16);
	CHECK_UINT(wire_op_result_bytes(&op), 16 + 3 * 5 * 2);
	op.kind = WIRE_DELETE;
	op.flags = 0;
	CHECK_UINT(wire_op_bytes(&op), 3 * 8);
	CHECK_UINT(wire_op_result_bytes(&op), 0);
	for (uint32_t n = 0; n < 64; n++) {
		CHECK_UINT(wire_padded(n) % 8, 0);
		CHECK(wire_padded(n) >= n && wire_padded(n) < n + 8);
	}
}

void every_status_has_a_message(void)
{
	for (unsigned status = WIRE_OK; status <= WIRE_CLOSED; status++)
		CHECK(strcmp(wire_status_text(status), "unknown status") != 0);
	CHECK_STR(wire_status_text(WIRE_WRONG_DIM), "the row size does not match the table's");
	CHECK_STR(wire_status_text(WIRE_QUOTA_MEMORY + 1), "unknown status");
	CHECK_STR(wire_status_text(UINT32_MAX), "unknown status");
}
