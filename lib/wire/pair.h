/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The protocol between the two nodes of a pair (docs/availability-design.rst). Little endian, fixed width, naturally
 * aligned. Pure data.
 *
 * The node that connects sends a hello, and gets an answer. Both begin with a magic and a version, by which another
 * version of the program is recognized whatever the length of the rest. After an accepted PAIR_JOIN both nodes send
 * frames: the primary its catalogue, a snapshot of each reactor, and each reactor's stream in the format of the journal
 * (wire/journal.h); the standby its progress.
 */
#ifndef WIRE_PAIR_H
#define WIRE_PAIR_H

#include <stddef.h>
#include <stdint.h>

#include "wire/checkpoint.h"
#include "wire/journal.h"

enum pair_constants {
	PAIR_VERSION = 6,
	PAIR_ADDRESS_MAX = 80, /* with the terminating zero */
	PAIR_TEXT_MAX = 256,
	PAIR_PAYLOAD_MAX = CHECKPOINT_PAYLOAD_MAX,
	PAIR_CATALOGUE_MAX = 64 << 20, /* the whole catalogue, which is sent in as many frames as necessary */
	PAIR_LEASE_MIN_MS = 100,
	PAIR_LEASE_MAX_MS = 60000,
};
#define PAIR_MAGIC UINT64_C(0x5249415052415453) /* "STARPAIR" */
#define PAIR_FRAME_MAGIC 0x4d524650u		/* "PFRM" */
/* The instant of a standby's snapshot, in place of a checkpoint's. */
#define PAIR_INSTANT UINT64_MAX

enum pair_intent {
	PAIR_ASK = 1,	 /* asks for the node's role */
	PAIR_JOIN = 2,	 /* wants to become the node's standby */
	PAIR_DEPOSE = 3, /* takes the node's place, with this generation */
	PAIR_TAKE = 4,	 /* was the primary, and has lost its state: take its place */
	PAIR_CANNOT = 5, /* a standby that cannot follow: text says why */
};

/* The role of a node of a pair. */
enum pair_role {
	PAIR_WAITING = 1,  /* it has restarted, and does not know which node serves */
	PAIR_PRIMARY = 2,  /* it serves */
	PAIR_STANDBY = 3,  /* it has, or receives, the primary's state */
	PAIR_DEPOSED = 4,  /* it served, and no longer does */
	PAIR_PROMOTING = 5 /* it is about to serve */
};

struct pair_hello {
	uint64_t magic;
	uint32_t version;
	uint32_t checksum; /* CRC-32 of this struct, with this field taken as 0 */
	uint32_t intent;
	uint32_t role; /* enum pair_role of the sender */
	uint64_t generation;
	uint32_t reactors, partitions;
	uint16_t data_port;
	uint16_t durability; /* 1 + enum config_durability of the sender; 0: not specified */
	uint32_t etcd_key;   /* a checksum of standby.etcd_key; 0: no etcd */
	char control[PAIR_ADDRESS_MAX], data_host[PAIR_ADDRESS_MAX]; /* each with a terminating zero */
	uint32_t cluster;					     /* a checksum of cluster.ps; 0: it has one task */
	uint16_t data;		    /* 1 + enum secure_data of the sender; 0: not specified */
	uint16_t journal;	    /* 1: the sender keeps one, in a cluster of several tasks; otherwise 0 */
	uint32_t request_mib, zero; /* limits.request_mib of the sender */
	char text[PAIR_TEXT_MAX];   /* of PAIR_CANNOT; else empty */
};
_Static_assert(sizeof(struct pair_hello) == 480, "pair_hello");

struct pair_answer {
	uint64_t magic;
	uint32_t version;
	uint32_t checksum;
	int32_t status; /* 0, or a negative errno, and text says why */
	uint32_t role;
	uint64_t generation;
	uint32_t
		/* from a standby: it has everything that the primary had up to some moment; from a deposed node:
		 * everything that it had was sent */
		whole;
	uint32_t reactors, partitions;
	uint32_t incarnation, epoch; /* with which it serves, or its primary did */
	uint32_t lease_ms;
	uint64_t silent_ms; /* from a standby: time since it last heard from its primary */
	char control[PAIR_ADDRESS_MAX];
	char text[PAIR_TEXT_MAX];
};
_Static_assert(sizeof(struct pair_answer) == 400, "pair_answer");
_Static_assert(offsetof(struct pair_hello, version) == 8 && offsetof(struct pair_answer, version) == 8 &&
		       offsetof(struct pair_hello, checksum) == 12 && offsetof(struct pair_answer, checksum) == 12,
	       "both begin as in every version");

enum pair_kind {
	/* from the primary */
	PAIR_CATALOGUE = 1, /* a part of all objects as JSON; position: number of bytes that remain after this part */
	PAIR_BLOCK = 2,	    /* a reactor's snapshot: runs in the format of checkpoints; position 1: the last one */
	PAIR_STREAM = 3,    /* a piece of a reactor's stream, starting at this position */
	/* position: the primary's clock, which the standby returns. reactor 1: the primary changes nothing without a
	 * lease */
	PAIR_PING = 4,
	PAIR_END = 5, /* the last frame: the primary has closed */
	/* from the standby */
	PAIR_ACK = 16,	 /* it has a reactor's stream up to this position */
	PAIR_PONG = 17,	 /* position: that of the ping */
	PAIR_WHOLE = 18, /* it has everything */
	PAIR_BYE = 19,	 /* it ends normally */
};

struct pair_frame {
	uint32_t magic;
	uint32_t checksum; /* CRC-32 of this header (with this field taken as 0) and the payload */
	uint16_t kind;
	uint16_t reactor;
	uint32_t bytes; /* of payload */
	uint64_t position;
};
_Static_assert(sizeof(struct pair_frame) == 24, "pair_frame");

#endif
