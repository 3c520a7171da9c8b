/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the two nodes of a pair tell each other (docs/availability.rst). Little endian, fixed width, naturally aligned.
 * Pure data.
 *
 * Who connects says a hello, and gets an answer; both begin with a magic and a version, by which another version of the
 * program is known whatever the length of the rest. After one of PAIR_JOIN that was taken both send frames: the primary
 * its catalogue, a snapshot of each reactor, and each reactor's stream as the journal has it (wire/journal.h), from
 * where it begins on; the standby how far it has come.
 */
#ifndef WIRE_PAIR_H
#define WIRE_PAIR_H

#include <stddef.h>
#include <stdint.h>

#include "wire/checkpoint.h"
#include "wire/journal.h"

enum pair_constants {
	PAIR_VERSION = 3,
	PAIR_ADDRESS_MAX = 80, /* with its end */
	PAIR_TEXT_MAX = 256,
	PAIR_PAYLOAD_MAX = CHECKPOINT_PAYLOAD_MAX,
	PAIR_CATALOGUE_MAX = 64 << 20, /* all of it: it goes in as many frames as it takes */
	PAIR_LEASE_MIN_MS = 100,
	PAIR_LEASE_MAX_MS = 60000,
};
#define PAIR_MAGIC UINT64_C(0x5249415052415453) /* "STARPAIR" */
#define PAIR_FRAME_MAGIC 0x4d524650u		/* "PFRM" */
/* The instant of a snapshot for the standby, among those of checkpoints. */
#define PAIR_INSTANT UINT64_MAX

enum pair_intent {
	PAIR_ASK = 1,	 /* what are you? */
	PAIR_JOIN = 2,	 /* I am to be your standby */
	PAIR_DEPOSE = 3, /* I take your place, under this generation */
	PAIR_TAKE = 4,	 /* I was the primary, and have lost what I held: take my place */
};

/* What a node of a pair is. */
enum pair_role {
	PAIR_WAITING = 1,  /* it has begun again, and does not know who serves */
	PAIR_PRIMARY = 2,  /* it serves */
	PAIR_STANDBY = 3,  /* it holds, or is to hold, what the primary does */
	PAIR_DEPOSED = 4,  /* it served, and does not any more */
	PAIR_PROMOTING = 5 /* it is about to serve */
};

struct pair_hello {
	uint64_t magic;
	uint32_t version;
	uint32_t checksum; /* CRC-32 of this struct, in which this field counts as 0 */
	uint32_t intent;
	uint32_t role; /* enum pair_role, of who says it */
	uint64_t generation;
	uint32_t reactors, partitions;
	uint16_t data_port;
	uint16_t durability; /* 1 + enum config_durability of who says it; 0: it says none */
	uint32_t etcd_key;   /* a checksum of standby.etcd_key; 0: no etcd is asked */
	char control[PAIR_ADDRESS_MAX], data_host[PAIR_ADDRESS_MAX]; /* each with an end */
	uint32_t cluster;					     /* a checksum of cluster.ps; 0: it has one task */
	uint32_t data; /* 1 + enum secure_data of who says it; 0: it says none */
};
_Static_assert(sizeof(struct pair_hello) == 216, "pair_hello");

struct pair_answer {
	uint64_t magic;
	uint32_t version;
	uint32_t checksum;
	int32_t status; /* 0, or a negative errno, and text says why */
	uint32_t role;
	uint64_t generation;
	uint32_t
		whole; /* a standby's: it has all that the primary had, up to some moment; a deposed node's: all that it
			 * had was sent */
	uint32_t reactors, partitions;
	uint32_t incarnation, epoch; /* under which it serves, or its primary did */
	uint32_t lease_ms;
	uint64_t silent_ms; /* a standby's: since it has heard of its primary */
	char control[PAIR_ADDRESS_MAX];
	char text[PAIR_TEXT_MAX];
};
_Static_assert(sizeof(struct pair_answer) == 400, "pair_answer");
_Static_assert(offsetof(struct pair_hello, version) == 8 && offsetof(struct pair_answer, version) == 8 &&
		       offsetof(struct pair_hello, checksum) == 12 && offsetof(struct pair_answer, checksum) == 12,
	       "both begin as every version does");

enum pair_kind {
	/* of the primary */
	PAIR_CATALOGUE = 1, /* a part of all objects as JSON; position: bytes of it that are left after this part */
	PAIR_BLOCK = 2,	    /* a reactor's snapshot: runs as checkpoints have them; position 1: the last one */
	PAIR_STREAM = 3,    /* a piece of a reactor's stream, from this position on */
	PAIR_PING = 4,	    /* position: the primary's clock; the standby says it back. reactor 1: it changes nothing
			     * without a lease */
	PAIR_END = 5,	    /* nothing comes after it: the primary has closed */
	/* of the standby */
	PAIR_ACK = 16,	 /* it has a reactor's stream up to this position */
	PAIR_PONG = 17,	 /* position: what the ping had */
	PAIR_WHOLE = 18, /* it has all */
	PAIR_BYE = 19,	 /* it ends, in order */
};

struct pair_frame {
	uint32_t magic;
	uint32_t checksum; /* CRC-32 of this header (in which this field counts as 0) and the payload */
	uint16_t kind;
	uint16_t reactor;
	uint32_t bytes; /* of payload */
	uint64_t position;
};
_Static_assert(sizeof(struct pair_frame) == 24, "pair_frame");

#endif
