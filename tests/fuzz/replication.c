/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a primary sends, as somebody would who has got its place: frames of any kind and length, mostly with the
 * checksum that belongs to them, cut anywhere. What reaches the node is whole records up to a mark, aligned and within
 * bounds, and only after a snapshot's end; a refusal has a message.
 */
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "pair/link.h"
#include "pair/receiver.h"

enum { REACTORS = 2, HELD = 1 << 20, PAYLOAD = 600 };

static bool loaded[REACTORS];

static int take_catalogue(void *ctx, const char *text, size_t bytes, struct star_error *err)
{
	uint8_t sum = 0;

	(void)ctx;
	for (size_t i = 0; i < bytes; i++)
		sum |= (uint8_t)text[i];
	return sum == 0xff ? star_error_set(err, -EBADMSG, "a catalogue that the node does not take") : 0;
}

static int take_block(void *ctx, uint32_t reactor, const void *runs, uint32_t bytes, struct star_error *err)
{
	(void)ctx;
	(void)err;
	FUZZ_CHECK(reactor < REACTORS && bytes && bytes <= PAIR_PAYLOAD_MAX && (uintptr_t)runs % 8 == 0, "a block");
	return 0;
}

static int take_records(void *ctx, uint32_t reactor, void *records, size_t bytes, struct star_error *err)
{
	uint16_t last = 0;

	(void)ctx;
	(void)err;
	FUZZ_CHECK(reactor < REACTORS && loaded[reactor] && (uintptr_t)records % 8 == 0, "records of reactor %u",
		   reactor);
	for (size_t at = 0; at < bytes;) {
		struct journal_record *record = (struct journal_record *)((uint8_t *)records + at);

		FUZZ_CHECK(bytes - at >= sizeof(*record) && record->bytes >= sizeof(*record) &&
				   record->bytes <= bytes - at && record->bytes % 8 == 0,
			   "a record of %u bytes", record->bytes);
		memset(record + 1, 0, record->bytes - sizeof(*record)); /* it may be changed */
		last = record->kind;
		at += record->bytes;
	}
	FUZZ_CHECK(last == JOURNAL_MARK || last == JOURNAL_INSTANT, "the last record is of kind %u", last);
	return 0;
}

/* Some records, or bytes. */
static uint32_t draw_payload(struct input *in, uint8_t *payload)
{
	uint32_t used = 0;

	for (unsigned n = take8(in) % 8; n; n--) {
		const uint8_t how = take8(in);
		struct journal_record record = { .bytes = (uint32_t)sizeof(record) + (how >> 4) * 8, .kind = how & 7 };
		const uint64_t id = how & 8 ? PAIR_INSTANT : 1;

		if (record.kind == JOURNAL_INSTANT || record.kind == JOURNAL_SESSIONS)
			record.bytes = sizeof(record) + sizeof(id);
		if ((how & 7) == 0)
			record.bytes = take32(in);
		if (used + sizeof(record) + 15 * 8 > PAYLOAD)
			break;
		memcpy(payload + used, &record, sizeof(record));
		memset(payload + used + sizeof(record), how, 15 * 8);
		memcpy(payload + used + sizeof(record), &id, sizeof(id));
		used += (how & 7) == 0 ? (uint32_t)sizeof(record) : record.bytes;
	}
	return used;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static const struct pair_receiver_ops ops = { .catalogue = take_catalogue,
						      .block = take_block,
						      .records = take_records };
	static struct {
		struct pair_frame frame;
		uint8_t payload[PAYLOAD];
	} out __attribute__((aligned(8)));
	struct input in = { data, data + bytes };
	struct star_error err = { 0 };
	struct pair_receiver *r = pair_receiver_create("/tmp", REACTORS, HELD, &ops, &err);
	uint64_t position[REACTORS] = { 0 };
	int rc = 0;

	FUZZ_CHECK(r, "%s", err.text);
	memset(loaded, 0, sizeof(loaded));
	while (rc == 0 && input_left(&in)) {
		const uint8_t how = take8(&in), kind = take8(&in);
		const uint16_t reactor = how & 1;
		size_t count;

		out.frame = (struct pair_frame){ .magic = PAIR_FRAME_MAGIC,
						 .kind = kind & 0x80 ? kind & 0x1f : 1 + kind % 5,
						 .reactor = reactor };
		if (out.frame.kind < PAIR_PING)
			out.frame.bytes = draw_payload(&in, out.payload);
		out.frame.position = out.frame.kind == PAIR_STREAM  ? position[reactor]
				     : out.frame.kind == PAIR_BLOCK ? how >> 1 & 1
								    : 0;
		if (how & 0x10)
			((uint8_t *)&out.frame)[take8(&in) % sizeof(out.frame)] ^= take8(&in);
		count = sizeof(out.frame) + (out.frame.bytes < PAYLOAD ? out.frame.bytes : PAYLOAD);
		if (!(how & 0x20) && out.frame.bytes <= PAYLOAD)
			out.frame.checksum = pair_frame_checksum(&out.frame, out.payload);
		if (out.frame.kind == PAIR_BLOCK && out.frame.position == 1 && out.frame.reactor < REACTORS)
			loaded[out.frame.reactor] = true;
		for (size_t at = 0; rc == 0 && at < count;) {
			size_t room;
			void *to = pair_receiver_room(r, &room);

			FUZZ_CHECK(room, "no room");
			room = room < count - at ? room : count - at;
			room = room < 1u + how ? room : 1u + how;
			memcpy(to, (const uint8_t *)&out + at, room);
			at += room;
			rc = pair_receiver_came(r, room, &err);
		}
		if (out.frame.kind == PAIR_STREAM)
			position[reactor] += out.frame.bytes;
	}
	FUZZ_CHECK(rc == 0 || (rc < 0 && err.text[0]), "refused with %d, \"%s\"", rc, err.text);
	pair_receiver_destroy(r);
	return 0;
}
