/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The format of a datagram of the data plane: a packet of a session between one client's channel and one reactor, over
 * UDP at the reactor's data port. docs/datagrams.rst describes the protocol. Little endian, fixed width, naturally
 * aligned. Pure data.
 *
 * Each direction of a session is a sequence of numbered packets. Their bodies, in order, are messages, each a
 * wire_frame and its payload. A packet holds one or several whole messages (a bundle), or a part of one message: then
 * every packet of that message but its last is as long as the path allows.
 */
#ifndef WIRE_PACKET_H
#define WIRE_PACKET_H

#include <stddef.h>
#include <stdint.h>

enum wire_packet_constants {
	WIRE_PACKET_MAGIC = 0x5453, /* "ST" */
	/* OPEN and CLOSE have kind, session and token in the same places in all versions */
	WIRE_PACKET_VERSION = 2,
	WIRE_STAMP_NS = 16,		 /* a unit of stamp and echo */
	WIRE_PACKET_SACK_WORDS_MAX = 16, /* in the body of a WIRE_PACKET_ACK */
	/* Credit beyond one packet lapses when a sender has had nothing in flight for this long; a receiver relies on
	 * that after three times as long. */
	WIRE_CREDIT_LAPSE_MS = 10,
	WIRE_ACK_DELAY_US = 100, /* how long an acknowledgement waits for data to be sent with */
	/* Minimum body of a packet that does not end its message, in bytes; all such packets of a message have the same
	 * size. */
	WIRE_PACKET_BODY_MIN = 400,
};

enum wire_packet_kind {
	/* Client to server, body wire_packet_open, session and token 0. By ticket, once there is a cookie, the body is
	 * followed by a secure_hello, that of the answering OPENED by a secure_welcome, and both headers have a tag. It
	 * is answered first by a COOKIE, which is no longer than the OPEN and for which the server remembers nothing;
	 * then, when the cookie comes back, by OPENED, or by CLOSE if it is refused. It is repeated until an answer
	 * arrives. It is also sent on a session that has gone silent, which is then resumed, if the server still has
	 * it. */
	WIRE_PACKET_OPEN = 1,
	WIRE_PACKET_COOKIE = 2, /* body: the wire_packet_open with its cookie; session and token are the client's */
	WIRE_PACKET_OPENED = 3, /* body wire_packet_opened; session and token are the client's */
	WIRE_PACKET_DATA = 4,
	/* No data: acknowledges, and grants credit. Body: further words of the SACK bitmap: bit i of word w is number
	 * ack + 65 + 64 w + i. */
	WIRE_PACKET_ACK = 5,
	WIRE_PACKET_PING = 6, /* answered at once by an ACK */
	/* The sender has ended the session. It is not answered: if it is lost, the lease ends the session. */
	WIRE_PACKET_CLOSE = 7,
	/* The session is unknown: session and token are those of the packet that named it, the rest is 0. It makes the
	 * client whose server has that token send an OPEN, and ends nothing. */
	WIRE_PACKET_UNKNOWN = 8,
};

enum wire_packet_flags {
	/* DATA: a message begins with this packet; a message ends with it. Both: it holds whole messages, each at a
	 * multiple of 8 from the start of the body (with zeros in between). The last one ends with the body. */
	WIRE_PACKET_FIRST = 1 << 0,
	WIRE_PACKET_LAST = 1 << 1,
	WIRE_PACKET_MARKED =
		1 << 2, /* since the last acknowledgement, a packet came with a congestion mark (RFC 3168's CE) */
	WIRE_PACKET_ACK_NOW = 1 << 3, /* the sender cannot continue without an acknowledgement */
	/* In packets with a tag: which of two keys it was sent with; and the phase of the newest packet that has
	 * arrived */
	WIRE_PACKET_PHASE = 1 << 4,
	WIRE_PACKET_PHASE_SEEN = 1 << 5,
};

struct wire_packet {
	uint16_t magic;
	uint8_t version;
	uint8_t kind;
	uint32_t session; /* the receiver's number of the session */
	/* To a server: its token. To a client: wire_packet_pair of both ends' tokens; in COOKIE, OPENED, and a CLOSE
	 * that refuses: the token in its OPEN. In UNKNOWN: that of the packet that it answers. In packets with a tag
	 * only the upper half is the token's; the lower half is that of the packet's number under its key. */
	uint64_t token;
	/* In DATA: this packet's number in its direction, from 1, wrapping; in a CLOSE that refuses: the reason, as
	 * enum wire_status, or 0; otherwise the number of the next DATA packet */
	uint32_t number;
	uint32_t ack;	/* all numbers before this one have arrived */
	uint64_t sack;	/* bit i: number ack + 1 + i has arrived */
	uint32_t edge;	/* credit: numbers before this one may be sent. It is never reduced, but lapses (above). */
	uint32_t stamp; /* the sender's clock when this packet left, in WIRE_STAMP_NS, wrapping */
	uint32_t echo;	/* the newest stamp that has arrived, plus the time since then; 0: none has */
	uint16_t flags;
	uint16_t wants;	 /* packets that wait for credit; 65535: this many or more */
	uint8_t tag[16]; /* 0; for sessions by ticket: the tag of what precedes it and of the body (secure/seal.h) */
};
_Static_assert(sizeof(struct wire_packet) == 64, "wire_packet");
_Static_assert(offsetof(struct wire_packet, tag) == 48, "wire_packet.tag");

struct wire_packet_open {
	uint64_t client; /* random: identifies the session for as long as it may be resumed */
	/* the client's, for packets of the server from now on: a new one each time that the client opens */
	uint64_t token;
	uint64_t cookie;  /* 0 at first */
	uint32_t session; /* the client's number */
	uint32_t edge;	  /* credit for the server's first packets, if the session is new to the server */
};
_Static_assert(sizeof(struct wire_packet_open) == 32, "wire_packet_open");

struct wire_packet_opened {
	uint64_t client;
	uint64_t token;	      /* of the server */
	uint32_t session;     /* the server's number */
	uint32_t incarnation; /* of the node */
	uint32_t lease_ms;    /* the server forgets a session that is silent for this long */
	/* 1: the server had a session of this client. If token and session are those that the client knows, it is the
	 * same session, and both ends continue; otherwise all numbers start from 1 again. */
	uint32_t resumed;
	uint32_t message_max; /* size of the largest message that the server accepts, in bytes */
	uint32_t seal;	      /* 0: packets have no tag; 1: they have; 2: bodies are sealed too; 3: with 256 bits */
};
_Static_assert(sizeof(struct wire_packet_opened) == 40, "wire_packet_opened");

/* The token of packets to a client after it has learned the server's token. A client repeats an OPEN until it is
 * answered, and a server that has given up a session may create another one from such a repeated OPEN. With the
 * client's token alone, late packets of one session would be accepted for the other. */
static inline uint64_t wire_packet_pair(uint64_t client_token, uint64_t server_token)
{
	return client_token ^ server_token;
}

#endif
