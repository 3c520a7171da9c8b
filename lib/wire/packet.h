/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes of a datagram of the data plane: a packet of a session between one client's channel and one reactor, over
 * UDP at the reactor's data port. docs/datagrams.rst says what they mean. Little endian, fixed width, naturally
 * aligned. Pure data.
 *
 * A direction of a session is a sequence of numbered packets; their bodies, in order, are messages, one after the
 * other: each message is a wire_frame and its payload. A packet holds whole messages, one or several (a bundle), or a
 * part of one message: then every packet of that message but its last is as long as the path allows.
 */
#ifndef WIRE_PACKET_H
#define WIRE_PACKET_H

#include <stddef.h>
#include <stdint.h>

enum wire_packet_constants {
	WIRE_PACKET_MAGIC = 0x5453,	 /* "ST" */
	WIRE_PACKET_VERSION = 2,	 /* OPEN and CLOSE have kind, session and token in the same places in all */
	WIRE_STAMP_NS = 16,		 /* a unit of stamp and echo */
	WIRE_PACKET_SACK_WORDS_MAX = 16, /* of the body of a WIRE_PACKET_ACK */
	/* Credit beyond one packet lapses when a sender has had nothing in flight for so long; a receiver counts on it
	 * after three times that. */
	WIRE_CREDIT_LAPSE_MS = 10,
	WIRE_ACK_DELAY_US = 100, /* an acknowledgement waits no longer for data to ride on */
	/* Bytes of body of a packet that does not end its message, at least; all such packets of a message are of one
	 * size. */
	WIRE_PACKET_BODY_MIN = 400,
};

enum wire_packet_kind {
	/* Client to server, body wire_packet_open, session and token 0; by ticket, once there is a cookie, a
	 * secure_hello behind it, and a secure_welcome behind the wire_packet_opened that answers it, and a tag in both
	 * headers. Answered by a COOKIE, which is no longer than
	 * it and costs the server nothing to remember, then, when the cookie comes back, by OPENED, or by CLOSE:
	 * refused. Sent again until one comes; and on a session that has gone silent: it is then resumed, where the
	 * server still has it. */
	WIRE_PACKET_OPEN = 1,
	WIRE_PACKET_COOKIE = 2, /* body: the wire_packet_open with its cookie; session and token are the client's */
	WIRE_PACKET_OPENED = 3, /* body wire_packet_opened; session and token are the client's */
	WIRE_PACKET_DATA = 4,
	/* No data: acknowledges, grants credit. Body: further words of the SACK bitmap: bit i of word w: number ack +
	 * 65 + 64 w + i. */
	WIRE_PACKET_ACK = 5,
	WIRE_PACKET_PING = 6, /* answered at once by an ACK */
	/* The sender has forgotten the session. It is not answered: where it is lost, the lease ends the session. */
	WIRE_PACKET_CLOSE = 7,
	/* There is no such session here: session and token are those of the packet that named it, the rest is 0. It
	 * makes the client whose server's they are send an OPEN, and ends nothing. */
	WIRE_PACKET_UNKNOWN = 8,
};

enum wire_packet_flags {
	/* DATA: a message begins, and one ends, with this packet. Both: it holds whole messages, one after the other,
	 * each at a multiple of 8 from the body's beginning (zeros between them). The last one ends with the body. */
	WIRE_PACKET_FIRST = 1 << 0,
	WIRE_PACKET_LAST = 1 << 1,
	WIRE_PACKET_MARKED =
		1 << 2, /* a packet since the last acknowledgement came with a congestion mark (RFC 3168's CE) */
	WIRE_PACKET_ACK_NOW = 1 << 3, /* the sender can go no further before it hears */
	/* Of packets with a tag: under which of two keys it was sent; and the phase of the newest that has come */
	WIRE_PACKET_PHASE = 1 << 4,
	WIRE_PACKET_PHASE_SEEN = 1 << 5,
};

struct wire_packet {
	uint16_t magic;
	uint8_t version;
	uint8_t kind;
	uint32_t session; /* the receiver's number of the session */
	/* To a server: its token. To a client: wire_packet_pair of both ends' tokens; but of COOKIE, OPENED, and a
	 * CLOSE that refuses: the one in its OPEN. UNKNOWN: what the packet had that it answers. Of packets with a tag
	 * the upper half alone is the token's; the lower one is that of the packet's number under its key. */
	uint64_t token;
	/* DATA: of this packet in its direction, from 1, wrapping; of a CLOSE that refuses: why, as enum wire_status
	 * has it, or 0; else the next one that will be sent */
	uint32_t number;
	uint32_t ack;	/* all numbers before this one have come */
	uint64_t sack;	/* bit i: number ack + 1 + i has come */
	uint32_t edge;	/* credit: numbers before this one may be sent. It is not taken back, but lapses (above). */
	uint32_t stamp; /* the sender's clock when this packet left, in WIRE_STAMP_NS, wrapping */
	uint32_t echo;	/* the newest stamp that has come, and the time since then added; 0: nothing has come */
	uint16_t flags;
	uint16_t wants;	 /* packets that wait for credit: 65535 is this many or more */
	uint8_t tag[16]; /* 0; of sessions by ticket: of what stands before it, and of the body (secure/seal.h) */
};
_Static_assert(sizeof(struct wire_packet) == 64, "wire_packet");
_Static_assert(offsetof(struct wire_packet, tag) == 48, "wire_packet.tag");

struct wire_packet_open {
	uint64_t client; /* random: whose session; the same for as long as it is to be resumed */
	/* of the client, for what the server sends from now on: a new one each time that it opens again */
	uint64_t token;
	uint64_t cookie;  /* 0 at first */
	uint32_t session; /* the client's number */
	uint32_t edge;	  /* credit for the server's first packets, if the session is new to it */
};
_Static_assert(sizeof(struct wire_packet_open) == 32, "wire_packet_open");

struct wire_packet_opened {
	uint64_t client;
	uint64_t token;	      /* of the server */
	uint32_t session;     /* the server's number */
	uint32_t incarnation; /* of the node */
	uint32_t lease_ms;    /* the server forgets a session that is silent for so long */
	/* 1: the server had a session of this client. It is the one that the client knows if token and session are the
	 * same: then both go on where they were; else everything begins with number 1. */
	uint32_t resumed;
	uint32_t message_max; /* bytes of the largest message that it takes */
	uint32_t seal;	      /* 0: packets have no tag; 1: they have; 2: and their bodies are sealed; 3: by 256 bits */
};
_Static_assert(sizeof(struct wire_packet_opened) == 40, "wire_packet_opened");

/* What packets to a client are under once it has been told the server's token. A client repeats an OPEN until it hears,
 * and a server that has given up a session may make another one of it: under the client's token alone, what is late of
 * the one would pass for the other's. */
static inline uint64_t wire_packet_pair(uint64_t client_token, uint64_t server_token)
{
	return client_token ^ server_token;
}

#endif
