/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What runs of programs keep on a shard for later runs of the same step: entries in an arena of blocks. An entry is
 * identified by its client's session and a tag. It has keys, and in numbered places rows or segments for these keys.
 * While a request works on an entry it owns it. The last user frees the entry; so does the end of its lease, if nobody
 * asks for it. A session gets at most its share of the arena.
 *
 * One thread, the reactor's. Memory is allocated only at creation. Statistics may be read by any thread.
 */
#ifndef SERVICE_KEPT_H
#define SERVICE_KEPT_H

#include <stdbool.h>
#include <stdint.h>

#include "service/counters.h"
#include "star_error.h"
#include "wire/program.h"

enum {
	KEPT_BLOCK_BYTES = 2048,
	KEPT_SHARES = 4,		      /* a session may use 1/KEPT_SHARES of the arena */
	KEPT_KEYS = PROGRAM_PLACES_MAX,	      /* the place of the keys */
	KEPT_PLACES = PROGRAM_PLACES_MAX + 1, /* places, with that of the keys */
	KEPT_EXPIRE = 8,		      /* entries whose lease is checked in one call */
};

#define KEPT_NONE UINT32_MAX

struct kept_chain {
	uint32_t first, last; /* block numbers */
	uint32_t used;	      /* bytes used of the last one */
};

struct kept_entry {
	uint64_t session, tag;
	uint64_t touched_ns;
	const void *owner; /* the request that works on it; NULL: none */
	uint32_t object;   /* the table of the keys, as requests name it */
	uint32_t epoch;	   /* of the layout */
	uint32_t count;	   /* of keys */
	uint32_t blocks;   /* that it has or has reserved */
	uint32_t spare;	   /* of these, those that are only reserved */
	uint32_t peer;	   /* index of its session's share */
	uint32_t next;	   /* with the same hash */
	uint32_t older, newer;
	uint32_t next_owned; /* next entry of the same owner */
	uint16_t have;	     /* places that are filled, as bits */
	uint16_t takes;	     /* places that its owner reads */
	uint16_t grows;	     /* places that its owner fills */
	bool ends;	     /* its owner is its last user: it is freed then */
	uint16_t dims[KEPT_PLACES];
	struct kept_chain chains[KEPT_PLACES];
};

/* A position for reading. */
struct kept_cursor {
	uint32_t block, at;
};

struct kept;

struct kept *service_kept_create(uint64_t bytes, uint64_t lease_ns, struct star_error *err);
void service_kept_destroy(struct kept *kept);
const struct kept_stats *service_kept_read_stats(const struct kept *kept);

struct kept_entry *service_kept_find(struct kept *kept, uint64_t session, uint64_t tag);

/* Creates an entry; one with the same session and tag is replaced. NULL: there is no room, or a request owns that
 * one. */
struct kept_entry *service_kept_begin(struct kept *kept, uint64_t session, uint64_t tag, uint64_t now_ns);

/* Makes the owner own the entry, until service_kept_disown. *owned is the first in the list of its entries, KEPT_NONE
 * at the beginning. */
void service_kept_own(struct kept *kept, struct kept_entry *entry, const void *owner, uint32_t *owned);
/* Ends the ownership of all its entries. done: the places that it had to fill are valid now, and entries whose last
 * user it was are freed. Otherwise entries are as they were before, or freed. */
void service_kept_disown(struct kept *kept, uint32_t *owned, bool done, uint64_t now_ns);

/* Reserves room for a place that the owner will fill with this many bytes. false: there is no room, or the session has
 * used its share. */
bool service_kept_reserve(struct kept *kept, struct kept_entry *entry, unsigned place, uint64_t bytes, uint64_t now_ns);
void service_kept_append(struct kept *kept, struct kept_entry *entry, unsigned place, const void *from, uint32_t bytes);

struct kept_cursor service_kept_cursor(const struct kept_entry *entry, unsigned place);
/* Reads the next bytes; beyond the place's end they are zeros. */
void service_kept_read(const struct kept *kept, struct kept_cursor *cursor, void *to, uint32_t bytes);

/* Frees entries whose lease has ended; checks at most KEPT_EXPIRE of them. */
void service_kept_expire(struct kept *kept, uint64_t now_ns);

#endif
