/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/frame.h"

#include "base/crc32.h"

_Static_assert(WIRE_VERSION == 4 && WIRE_PAYLOAD_MAX == 64 << 20, "the messages below name them");

enum wire_status wire_frame_check(const struct wire_frame *frame, const char **why)
{
	const char *reason = NULL;

	if (frame->magic != WIRE_MAGIC)
		reason = "bad magic: this is not a StarServer frame";
	else if (frame->version != WIRE_VERSION)
		reason = "unknown protocol version: this node speaks version 4";
	else if (frame->opcode < WIRE_EXECUTE || frame->opcode > WIRE_PING)
		reason = "unknown opcode";
	else if (frame->payload_bytes > WIRE_PAYLOAD_MAX)
		reason = "payload over the protocol's limit of 64 MiB: split the request";
	if (why)
		*why = reason;
	return reason ? WIRE_BAD_FRAME : WIRE_OK;
}

uint32_t wire_frame_crc(const struct wire_frame *frame)
{
	struct wire_frame copy = *frame;

	copy.checksum = 0;
	return base_crc32(&copy, sizeof(copy));
}

uint32_t wire_checksum(const struct wire_frame *frame, const void *payload, size_t payload_bytes)
{
	const uint32_t header = wire_frame_crc(frame);

	return payload_bytes ? base_crc32_combine(header, base_crc32(payload, payload_bytes), payload_bytes) : header;
}

const char *wire_status_text(unsigned status)
{
	switch (status) {
#define X(name, code, text) \
	case WIRE_##name: \
		return text;
		WIRE_STATUS_LIST(X)
#undef X
	default:
		return "unknown status";
	}
}
