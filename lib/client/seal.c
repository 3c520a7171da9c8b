/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/seal.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "secure/memory.h"

enum { HELLO_BYTES = sizeof(struct wire_frame) + sizeof(struct secure_hello) };

static struct secure_place channel_place(const struct channel *ch)
{
	const in_port_t port = ch->address.ss_family == AF_INET
				       ? ((const struct sockaddr_in *)&ch->address)->sin_port
				       : ((const struct sockaddr_in6 *)&ch->address)->sin6_port;

	return (struct secure_place){ .incarnation = ch->incarnation, .port = ntohs(port) };
}

int client_seal_prepare(struct channel *ch)
{
	if (!ch->cluster->tickets)
		return 0;
	if (!ch->seal)
		ch->seal = secure_alloc(sizeof(*ch->seal));
	if (!ch->seal)
		return ENOMEM;
	return client_tickets_take(ch->cluster, ch->task, &ch->seal->by) ? 0 : ENOKEY;
}

int client_seal_greet(struct channel *ch)
{
	struct channel_seal *seal = ch->seal;
	struct wire_frame frame = {
		.magic = WIRE_MAGIC,
		.version = WIRE_VERSION,
		.opcode = WIRE_HELLO,
		.session = ch->session,
		.incarnation = ch->incarnation,
		.payload_bytes = sizeof(seal->hello),
	};

	if (!seal)
		return 0;
	if (!client_channel_reserve(ch, HELLO_BYTES))
		return ENOMEM;
	seal->hello.ticket = seal->by.ticket;
	if (getrandom(seal->hello.random, sizeof(seal->hello.random), 0) != (ssize_t)sizeof(seal->hello.random))
		return EIO;
	secure_hello_tag(seal->by.secret, channel_place(ch), &frame, sizeof(frame), &seal->hello, frame.auth_tag);
	memcpy(ch->out, &frame, sizeof(frame));
	memcpy(ch->out + sizeof(frame), &seal->hello, sizeof(seal->hello));
	ch->out_kept = NULL;
	ch->out_bytes = HELLO_BYTES;
	ch->out_sent = 0;
	seal->stage = SEAL_GREETING;
	return 0;
}

bool client_seal_welcome(struct channel *ch, const struct wire_frame *frame, const char *payload)
{
	struct channel_seal *seal = ch->seal;
	struct wire_frame header = *frame;
	struct secure_welcome welcome;
	uint8_t right[SECURE_TAG_BYTES];

	if (frame->status != WIRE_OK || frame->payload_bytes != sizeof(welcome))
		return false;
	memcpy(&welcome, payload, sizeof(welcome));
	memset(header.auth_tag, 0, sizeof(header.auth_tag));
	secure_welcome_tag(seal->by.secret, &seal->hello, &header, sizeof(header), &welcome, right);
	if (!secure_same(right, frame->auth_tag, sizeof(right)))
		return false;
	secure_connection_keys(seal->by.secret, channel_place(ch), &seal->hello, &welcome, seal->by.cipher,
			       &seal->to_node, &seal->from_node);
	explicit_bzero(seal->by.secret, sizeof(seal->by.secret));
	seal->stage = SEAL_ON;
	return true;
}

void client_seal_request(struct channel *ch)
{
	struct secure_direction *d = &ch->seal->to_node;

	secure_seal_begin(d, ch->out, sizeof(struct wire_frame));
	secure_seal_update(d, ch->out + sizeof(struct wire_frame), ch->out_bytes - sizeof(struct wire_frame));
	secure_seal_end(d, (uint8_t *)ch->out + offsetof(struct wire_frame, auth_tag));
}

bool client_seal_open(struct channel *ch, const struct wire_frame *frame, char *payload)
{
	struct secure_direction *d = &ch->seal->from_node;
	struct wire_frame header = *frame;

	memset(header.auth_tag, 0, sizeof(header.auth_tag));
	secure_open_begin(d, &header, sizeof(header));
	secure_open_update(d, payload, frame->payload_bytes);
	return secure_open_end(d, frame->auth_tag);
}

void client_seal_close(struct channel *ch)
{
	if (ch->seal)
		explicit_bzero(ch->seal, sizeof(*ch->seal));
}

void client_seal_free(struct channel *ch)
{
	secure_free(ch->seal);
	ch->seal = NULL;
}
