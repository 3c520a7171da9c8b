/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What runs of programs keep on a shard for later runs of their step: entries in an arena of blocks. An entry is found
 * by its client's session and its tag; it has keys, and in places rows or segments of them. It is a request's own while
 * that works on it; it is freed by its last user, or when nobody has asked for it for as long as the lease. A session
 * has a share of the arena and no more.
 *
 * One thread, the reactor's; it allocates at creation only. Figures may be read by any thread.
 */
#ifndef SERVICE_KEPT_H
#define SERVICE_KEPT_H

#include <stdbool.h>
#include <stdint.h>

#include "star_error.h"
#include "wire/program.h"

enum {
	KEPT_BLOCK_BYTES = 2048,
	KEPT_SHARES = 4,		      /* a session's part of the arena is one of this many */
	KEPT_KEYS = PROGRAM_PLACES_MAX,	      /* the keys' place */
	KEPT_PLACES = PROGRAM_PLACES_MAX + 1, /* with that of the keys */
	KEPT_EXPIRE = 8,		      /* entries that are looked at in one go, whether their lease has ended */
};

#define KEPT_NONE UINT32_MAX

struct kept_chain {
	uint32_t first, last; /* blocks */
	uint32_t used;	      /* bytes of the last one */
};

struct kept_entry {
	uint64_t session, tag;
	uint64_t touched_ns;
	const void *owner; /* the request that works on it; NULL: none */
	uint32_t object;   /* whose keys they are */
	uint32_t epoch;	   /* of the layout */
	uint32_t count;	   /* of the keys */
	uint32_t blocks;   /* that it has, or may still take */
	uint32_t spare;	   /* of them those that it may still take */
	uint32_t peer;	   /* its session's share */
	uint32_t next;	   /* with the same hash */
	uint32_t older, newer;
	uint32_t next_owned; /* of the same owner */
	uint16_t have;	     /* places that are there, as bits */
	uint16_t takes;	     /* places that its owner reads, and ... */
	uint16_t grows;	     /* ... those that it fills */
	bool ends;	     /* its owner is the last one */
	uint16_t dims[KEPT_PLACES];
	struct kept_chain chains[KEPT_PLACES];
};

/* Where one reads. */
struct kept_cursor {
	uint32_t block, at;
};

/* X(name, what it is): as it stands now, and since the start. */
#define KEPT_LEVELS(X) \
	X(entries, "values that programs keep for a step") \
	X(bytes, "memory of values that programs keep")
#define KEPT_EVENTS(X) \
	X(refused, "values not kept: there was no room, or the session has its share") \
	X(expired, "values that nobody asked for in time")

struct kept_stats {
#define X(name, text) uint64_t name;
	KEPT_LEVELS(X)
	KEPT_EVENTS(X)
#undef X
};

struct kept;

struct kept *service_kept_create(uint64_t bytes, uint64_t lease_ns, struct star_error *err);
void service_kept_destroy(struct kept *kept);
const struct kept_stats *service_kept_read_stats(const struct kept *kept);

struct kept_entry *service_kept_find(struct kept *kept, uint64_t session, uint64_t tag);

/* A new entry, in the place of one with the same name. NULL: there is no room, or a request works on it. */
struct kept_entry *service_kept_begin(struct kept *kept, uint64_t session, uint64_t tag, uint64_t now_ns);

/* The entry is the owner's until it lets go of all that it has; *owned is the first of those, KEPT_NONE in the
 * beginning. */
void service_kept_own(struct kept *kept, struct kept_entry *entry, const void *owner, uint32_t *owned);
/* done: what it was to fill is there, and what it was to be the last user of is freed; else all is as before, or
 * gone. */
void service_kept_disown(struct kept *kept, uint32_t *owned, bool done, uint64_t now_ns);

/* Its owner will fill a place with n bytes. False: there is no room, or the session has its share. */
bool service_kept_reserve(struct kept *kept, struct kept_entry *entry, unsigned place, uint64_t bytes, uint64_t now_ns);
void service_kept_append(struct kept *kept, struct kept_entry *entry, unsigned place, const void *from, uint32_t bytes);

struct kept_cursor service_kept_cursor(const struct kept_entry *entry, unsigned place);
/* The next bytes, up to the place's end; then zeros. */
void service_kept_read(const struct kept *kept, struct kept_cursor *cursor, void *to, uint32_t bytes);

/* Frees what nobody has asked for within the lease, looking at some at most. */
void service_kept_expire(struct kept *kept, uint64_t now_ns);

#endif
