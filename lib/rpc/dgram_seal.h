/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sessions by ticket (secure/ticket.h, docs/datagrams.rst): the OPEN with a cookie carries a hello, OPENED a welcome,
 * and from then on each packet is sealed, or guarded, as it leaves, under a number that no other packet has; nothing
 * of a packet is believed before its tag.
 */
#ifndef RPC_DGRAM_SEAL_H
#define RPC_DGRAM_SEAL_H

#include "rpc/dgram_internal.h"
#include "secure/ticket.h"

/* Of the token in a packet's header, this half is the token; the other is the end of the packet's number. */
#define DGRAM_TOKEN_MASK UINT64_C(0xffffffff00000000)
/* For so long what was sent under the key before is taken; and a sender waits twice as long before it takes another. */
#define DGRAM_KEY_HOLD_NS (2000 * DGRAM_MS)
#define DGRAM_KEY_AGE_NS (3600000 * DGRAM_MS)

/* What OPENED says of the packets that follow. */
enum dgram_seal_mode {
	DGRAM_SEAL_NONE, /* they are as without tickets */
	DGRAM_SEAL_CHECKED,
	DGRAM_SEAL_SEALED,
	DGRAM_SEAL_SEALED_256,
};

/* A key of each direction by phase, of which one is current. */
struct dgram_seal {
	struct secure_direction in[2], out[2];
	struct secure_window window; /* of what has come */
	uint64_t sent;		     /* the number of the packet sent last */
	uint64_t renewed_ns;	     /* when the key for sending was taken */
	uint64_t held_until_ns;	     /* in[] has the key before until then; 0: it does not */
	uint32_t renewed;	     /* DATA of numbers before it may be sealed by the key before */
	uint8_t in_phase, out_phase;
	uint8_t seen;  /* the phase that our peer has seen last */
	uint8_t ready; /* in[] has the next key */
	/* opening; of a server: as it was opened */
	uint8_t random[SECURE_RANDOM_BYTES]; /* of the client */
	uint64_t welcome;		     /* of a server: the number of its welcome */
	struct secure_guest guest;	     /* of a server: who it is */
	struct dgram_ticket by;		     /* of a client */
	bool has_ticket;
};

#endif
