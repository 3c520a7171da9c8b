/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks each message before anything in it is used. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/crc32.h"
#include "pair/link.h"

static uint32_t sum(const void *bytes, size_t count, size_t at)
{
	static const uint8_t none[sizeof(uint32_t)];
	const uint8_t *from = bytes;
	const size_t behind = at + sizeof(none);
	uint32_t crc = base_crc32(from, at);

	crc = base_crc32_combine(crc, base_crc32(none, sizeof(none)), sizeof(none));
	return base_crc32_combine(crc, base_crc32(from + behind, count - behind), count - behind);
}

static bool ends_within(const char *text, size_t size)
{
	return memchr(text, 0, size) != NULL;
}

static int check_head(uint64_t magic, uint32_t version, struct star_error *err)
{
	if (magic != PAIR_MAGIC)
		return star_error_set(
			err, -EPROTO,
			"the peer is not a node of a pair: check standby.peer and standby.listen of both nodes");
	if (version != PAIR_VERSION)
		return star_error_set(err, -EPROTO,
				      "the other node uses version %u of the protocol between nodes of a pair, this "
				      "one %d: run the same version of starserver on both",
				      version, PAIR_VERSION);
	return 0;
}

void pair_hello_seal(struct pair_hello *hello)
{
	hello->magic = PAIR_MAGIC;
	hello->version = PAIR_VERSION;
	hello->checksum = sum(hello, sizeof(*hello), offsetof(struct pair_hello, checksum));
}

int pair_hello_check(const struct pair_hello *hello, struct star_error *err)
{
	if (check_head(hello->magic, hello->version, err) < 0)
		return err->code;
	if (hello->checksum != sum(hello, sizeof(*hello), offsetof(struct pair_hello, checksum)) ||
	    hello->intent < PAIR_ASK || hello->intent > PAIR_CANNOT || hello->role < PAIR_WAITING ||
	    hello->role > PAIR_PROMOTING || !ends_within(hello->control, sizeof(hello->control)) ||
	    !ends_within(hello->data_host, sizeof(hello->data_host)) || !ends_within(hello->text, sizeof(hello->text)))
		return star_error_set(err, -EPROTO, "the other node's hello is damaged");
	return 0;
}

void pair_answer_seal(struct pair_answer *answer)
{
	answer->magic = PAIR_MAGIC;
	answer->version = PAIR_VERSION;
	answer->checksum = sum(answer, sizeof(*answer), offsetof(struct pair_answer, checksum));
}

int pair_answer_check(const struct pair_answer *answer, struct star_error *err)
{
	if (check_head(answer->magic, answer->version, err) < 0)
		return err->code;
	if (answer->checksum != sum(answer, sizeof(*answer), offsetof(struct pair_answer, checksum)) ||
	    answer->status > 0 || answer->role < PAIR_WAITING || answer->role > PAIR_PROMOTING ||
	    answer->lease_ms < PAIR_LEASE_MIN_MS || answer->lease_ms > PAIR_LEASE_MAX_MS ||
	    !ends_within(answer->control, sizeof(answer->control)) || !ends_within(answer->text, sizeof(answer->text)))
		return star_error_set(err, -EPROTO, "the other node's answer is damaged");
	return 0;
}

uint32_t pair_frame_checksum(const struct pair_frame *frame, const void *payload)
{
	const uint32_t crc = sum(frame, sizeof(*frame), offsetof(struct pair_frame, checksum));

	return base_crc32_combine(crc, base_crc32(payload, frame->bytes), frame->bytes);
}

int pair_frame_check(const struct pair_frame *frame, struct star_error *err)
{
	const bool full = frame->kind == PAIR_CATALOGUE || frame->kind == PAIR_BLOCK || frame->kind == PAIR_STREAM;
	const bool empty = (frame->kind >= PAIR_PING && frame->kind <= PAIR_END) ||
			   (frame->kind >= PAIR_ACK && frame->kind <= PAIR_BYE);

	if (frame->magic != PAIR_FRAME_MAGIC || (!full && !empty) || frame->reactor >= WIRE_REACTORS_MAX ||
	    frame->bytes > (full ? (uint32_t)PAIR_PAYLOAD_MAX : 0))
		return star_error_set(err, -EPROTO, "the other node sent an invalid frame");
	return 0;
}
