/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagram sessions with tickets (secure/ticket.h, docs/datagrams.rst). The OPEN with a cookie has a hello, OPENED a
 * welcome. From then on each packet is sealed (encrypted) or guarded (authenticated) when it is sent, under a number
 * that no other packet has, and nothing in a packet is used before its tag has been verified. On the stack's thread.
 */
#ifndef RPC_DGRAM_SEAL_H
#define RPC_DGRAM_SEAL_H

#include "rpc/dgram_internal.h"
#include "secure/ticket.h"

/* This half of the token field in a packet's header is the token; the other half has the low bits of the packet's
 * number. */
#define DGRAM_TOKEN_MASK UINT64_C(0xffffffff00000000)
/* How long packets under the previous key are still accepted. A sender waits twice as long before it changes its key
 * again. */
#define DGRAM_KEY_HOLD_NS (2000 * DGRAM_MS)
#define DGRAM_KEY_AGE_NS (3600000 * DGRAM_MS)

/* How the packets that follow OPENED are protected. */
enum dgram_seal_mode {
	DGRAM_SEAL_NONE, /* not at all, as without tickets */
	DGRAM_SEAL_CHECKED,
	DGRAM_SEAL_SEALED,
	DGRAM_SEAL_SEALED_256,
};

/* The keys of a session: for each direction two, by phase, of which one is current. */
struct dgram_seal {
	struct secure_direction in[2], out[2];
	struct secure_window window; /* of numbers received */
	uint64_t sent;		     /* the number of the packet sent last */
	uint64_t renewed_ns;	     /* when the key for sending was last changed */
	uint64_t held_until_ns;	     /* in[] has the previous key until then; 0: it does not */
	uint32_t renewed;	     /* DATA packets with earlier numbers may be sealed with the previous key */
	uint8_t in_phase, out_phase;
	uint8_t seen;  /* the phase that our peer has confirmed last */
	uint8_t ready; /* in[] has the next key */
	/* opening; on a server: the values with which it was opened */
	uint8_t random[SECURE_RANDOM_BYTES]; /* of the client */
	uint64_t welcome;		     /* server: the number of its welcome */
	struct secure_guest guest;	     /* server: who the client is */
	struct dgram_ticket by;		     /* client */
	bool has_ticket;
};

#endif
