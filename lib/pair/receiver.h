/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The standby's end of a connection, as far as bytes go: frames as they come, into what can be applied. Nothing that
 * comes is believed before it was checked. A reactor's stream is held back up to its last mark, since what comes
 * behind that may be a request in part; and all of it until the reactor's snapshot is there. What is held lies in a
 * file of its own, mapped, so that the kernel may write it out; it is bounded. One thread.
 */
#ifndef PAIR_RECEIVER_H
#define PAIR_RECEIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "star_error.h"
#include "wire/pair.h"

/* Each returns 0 or a negative errno with err. */
struct pair_receiver_ops {
	void *ctx;
	/* All objects of the primary, as JSON. */
	int (*catalogue)(void *ctx, const char *text, size_t bytes, struct star_error *err);
	/* Runs of a snapshot, as checkpoints have them; aligned to 8. */
	int (*block)(void *ctx, uint32_t reactor, const void *runs, uint32_t bytes, struct star_error *err);
	/* Whole records, up to a mark; aligned to 8. They may be changed. */
	int (*records)(void *ctx, uint32_t reactor, void *records, size_t bytes, struct star_error *err);
};

struct pair_stream {
	uint64_t position; /* behind what has come; of this life of the primary's stream */
	bool begun;
	bool instant;  /* the snapshot's has come: what was before it is not applied */
	bool loaded;   /* the snapshot is there */
	bool sessions; /* all sessions were written again behind the instant */
	bool whole;    /* and applied */
	bool sums;     /* sums of gradients were opened */
	/* what is held */
	int fd;
	uint8_t *memory;
	size_t mapped, there; /* room; of it, as far as the file has been made */
	size_t used, parsed;  /* bytes; up to where its records are known */
	size_t marked;	      /* behind the last mark */
};

struct pair_receiver;

/* For a primary of this many reactors; held: bytes of each. NULL with err. */
struct pair_receiver *pair_receiver_create(const char *directory, uint32_t reactors, uint64_t held,
					   const struct pair_receiver_ops *ops, struct star_error *err);
void pair_receiver_destroy(struct pair_receiver *receiver);

/* Where the next bytes are to be read into, and how many there is room for: at least one. */
void *pair_receiver_room(struct pair_receiver *receiver, size_t *room);
/* So many came. 0, or a negative errno: the connection is of no use any more. */
int pair_receiver_came(struct pair_receiver *receiver, size_t bytes, struct star_error *err);

const struct pair_stream *pair_receiver_stream(const struct pair_receiver *receiver, uint32_t reactor);
/* All streams are. */
bool pair_receiver_whole(const struct pair_receiver *receiver);
/* The last ping that is not said back yet; 0: there is none. */
uint64_t pair_receiver_ping(struct pair_receiver *receiver);
/* The primary changes nothing without a lease any more. */
bool pair_receiver_leased(const struct pair_receiver *receiver);
/* The primary has said that nothing follows. */
bool pair_receiver_ended(const struct pair_receiver *receiver);

#endif
