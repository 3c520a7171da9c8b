/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks and entries are numbers, and their lists are arrays. Every operation on a list takes the same time, however
 * long it is. */
#include "service/kept.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/hash.h"

/* A session that has entries. */
struct peer {
	uint64_t session;
	uint32_t next; /* in its hash bucket; or the next free one */
	uint32_t entries, blocks;
};

struct kept {
	uint64_t lease_ns;
	uint64_t secret; /* so that nobody can choose sessions with equal hashes */
	uint32_t count;	 /* of blocks; there may be as many entries, and as many peers */
	uint32_t mask;	 /* of hash buckets */
	uint32_t share;	 /* blocks per session at most */
	uint32_t free;	 /* blocks that are neither in use nor reserved */
	uint32_t free_block, free_entry, free_peer;
	uint32_t used_entries, used_peers; /* entries and peers from here on have never been touched */
	uint32_t oldest, newest;
	struct kept_stats stats;
	uint32_t *next;		      /* per block */
	uint32_t *entry_of, *peer_of; /* by hash */
	struct kept_entry *entries;
	struct peer *peers;
	uint8_t *blocks;
};

static uint32_t *chain_numbers(uint32_t count)
{
	uint32_t *next = malloc(count * sizeof(*next));

	for (uint32_t i = 0; next && i < count; i++)
		next[i] = i + 1 < count ? i + 1 : KEPT_NONE;
	return next;
}

static uint32_t *no_numbers(uint32_t count)
{
	uint32_t *numbers = malloc(count * sizeof(*numbers));

	if (numbers)
		memset(numbers, 0xff, count * sizeof(*numbers));
	return numbers;
}

struct kept *service_kept_create(uint64_t bytes, uint64_t lease_ns, struct star_error *err)
{
	struct kept *kept = calloc(1, sizeof(*kept));
	uint32_t hashes = 1;

	if (!kept) {
		star_error_set(err, -ENOMEM, "no memory for what programs keep");
		return NULL;
	}
	kept->lease_ns = lease_ns;
	kept->count = kept->free = (uint32_t)(bytes / KEPT_BLOCK_BYTES);
	kept->share = kept->count / KEPT_SHARES;
	while (hashes < kept->count)
		hashes *= 2;
	kept->mask = hashes - 1;
	kept->oldest = kept->newest = KEPT_NONE;
	kept->free_block = kept->count ? 0 : KEPT_NONE;
	kept->free_entry = kept->free_peer = KEPT_NONE;
	kept->next = chain_numbers(kept->count);
	kept->entry_of = no_numbers(hashes);
	kept->peer_of = no_numbers(hashes);
	kept->entries = calloc(kept->count, sizeof(*kept->entries));
	kept->peers = calloc(kept->count, sizeof(*kept->peers));
	kept->blocks = malloc((size_t)kept->count * KEPT_BLOCK_BYTES); /* its memory is touched only when it is used */
	if (!kept->next || !kept->entry_of || !kept->peer_of || !kept->entries || !kept->peers || !kept->blocks ||
	    getrandom(&kept->secret, sizeof(kept->secret), 0) != sizeof(kept->secret)) {
		service_kept_destroy(kept);
		star_error_set(err, -ENOMEM, "no memory for what programs keep: %llu bytes (limits.kept_mib)",
			       (unsigned long long)bytes);
		return NULL;
	}
	return kept;
}

void service_kept_destroy(struct kept *kept)
{
	if (!kept)
		return;
	free(kept->next);
	free(kept->entry_of);
	free(kept->peer_of);
	free(kept->entries);
	free(kept->peers);
	free(kept->blocks);
	free(kept);
}

const struct kept_stats *service_kept_read_stats(const struct kept *kept)
{
	return &kept->stats;
}

static uint32_t number_of(const struct kept *kept, const struct kept_entry *entry)
{
	return (uint32_t)(entry - kept->entries);
}

/* ---- sessions ---- */

static uint32_t *peer_slot(struct kept *kept, uint64_t session)
{
	return &kept->peer_of[hash_mix(session ^ kept->secret) & kept->mask];
}

static uint32_t join_peer(struct kept *kept, uint64_t session)
{
	uint32_t *slot = peer_slot(kept, session), p = *slot;

	while (p != KEPT_NONE && kept->peers[p].session != session)
		p = kept->peers[p].next;
	if (p == KEPT_NONE) { /* there are as many peers as entries, so one is free */
		p = kept->free_peer;
		if (p == KEPT_NONE)
			p = kept->used_peers++;
		else
			kept->free_peer = kept->peers[p].next;
		kept->peers[p] = (struct peer){ .session = session, .next = *slot };
		*slot = p;
	}
	kept->peers[p].entries++;
	return p;
}

static void leave_peer(struct kept *kept, uint32_t p)
{
	uint32_t *at = peer_slot(kept, kept->peers[p].session);

	if (--kept->peers[p].entries)
		return;
	while (*at != p)
		at = &kept->peers[*at].next;
	*at = kept->peers[p].next;
	kept->peers[p].next = kept->free_peer;
	kept->free_peer = p;
}

/* ---- by age ---- */

static void unlink_age(struct kept *kept, struct kept_entry *entry)
{
	*(entry->older != KEPT_NONE ? &kept->entries[entry->older].newer : &kept->oldest) = entry->newer;
	*(entry->newer != KEPT_NONE ? &kept->entries[entry->newer].older : &kept->newest) = entry->older;
}

static void link_newest(struct kept *kept, struct kept_entry *entry, uint64_t now_ns)
{
	const uint32_t i = number_of(kept, entry);

	entry->touched_ns = now_ns;
	entry->older = kept->newest;
	entry->newer = KEPT_NONE;
	*(kept->newest != KEPT_NONE ? &kept->entries[kept->newest].newer : &kept->oldest) = i;
	kept->newest = i;
}

/* ---- entries ---- */

static uint32_t *entry_slot(struct kept *kept, uint64_t session, uint64_t tag)
{
	return &kept->entry_of[hash_mix(hash_mix(session ^ kept->secret) ^ tag) & kept->mask];
}

struct kept_entry *service_kept_find(struct kept *kept, uint64_t session, uint64_t tag)
{
	uint32_t i = *entry_slot(kept, session, tag);

	while (i != KEPT_NONE && (kept->entries[i].session != session || kept->entries[i].tag != tag))
		i = kept->entries[i].next;
	return i == KEPT_NONE ? NULL : &kept->entries[i];
}

static void count_blocks(struct kept *kept, struct kept_entry *entry, uint32_t blocks, bool more)
{
	const uint32_t change = more ? blocks : -blocks;

	entry->blocks += change;
	kept->peers[entry->peer].blocks += change;
	kept->free -= change;
	kept->stats.bytes = (uint64_t)(kept->count - kept->free) * KEPT_BLOCK_BYTES;
}

static void free_chain(struct kept *kept, struct kept_chain *chain)
{
	if (chain->first != KEPT_NONE) {
		kept->next[chain->last] = kept->free_block;
		kept->free_block = chain->first;
	}
	*chain = (struct kept_chain){ KEPT_NONE, KEPT_NONE, KEPT_BLOCK_BYTES };
}

static void free_entry(struct kept *kept, struct kept_entry *entry)
{
	const uint32_t i = number_of(kept, entry);
	uint32_t *at = entry_slot(kept, entry->session, entry->tag);

	for (unsigned place = 0; place < KEPT_PLACES; place++)
		free_chain(kept, &entry->chains[place]);
	count_blocks(kept, entry, entry->blocks, false);
	leave_peer(kept, entry->peer);
	unlink_age(kept, entry);
	while (*at != i)
		at = &kept->entries[*at].next;
	*at = entry->next;
	entry->next = kept->free_entry;
	kept->free_entry = i;
	kept->stats.entries--;
}

void service_kept_expire(struct kept *kept, uint64_t now_ns)
{
	for (unsigned i = 0; i < KEPT_EXPIRE && kept->oldest != KEPT_NONE; i++) {
		struct kept_entry *entry = &kept->entries[kept->oldest];

		if (now_ns - entry->touched_ns < kept->lease_ns)
			return;
		if (entry->owner) {
			unlink_age(kept, entry);
			link_newest(kept, entry, now_ns);
			continue;
		}
		free_entry(kept, entry);
		kept->stats.expired++;
	}
}

static uint32_t take_entry(struct kept *kept)
{
	const uint32_t i = kept->free_entry;

	if (i == KEPT_NONE)
		return kept->used_entries < kept->count ? kept->used_entries++ : KEPT_NONE;
	kept->free_entry = kept->entries[i].next;
	return i;
}

struct kept_entry *service_kept_begin(struct kept *kept, uint64_t session, uint64_t tag, uint64_t now_ns)
{
	struct kept_entry *entry;
	uint32_t i, *slot;

	service_kept_expire(kept, now_ns);
	entry = service_kept_find(kept, session, tag);
	if (entry && entry->owner)
		return NULL;
	if (entry)
		free_entry(kept, entry);
	i = take_entry(kept);
	if (i == KEPT_NONE) {
		kept->stats.refused++;
		return NULL;
	}
	entry = &kept->entries[i];
	slot = entry_slot(kept, session, tag);
	*entry = (struct kept_entry){ .session = session, .tag = tag, .next = *slot, .next_owned = KEPT_NONE };
	for (unsigned place = 0; place < KEPT_PLACES; place++)
		entry->chains[place] = (struct kept_chain){ KEPT_NONE, KEPT_NONE, KEPT_BLOCK_BYTES };
	*slot = i;
	entry->peer = join_peer(kept, session);
	link_newest(kept, entry, now_ns);
	kept->stats.entries++;
	return entry;
}

void service_kept_own(struct kept *kept, struct kept_entry *entry, const void *owner, uint32_t *owned)
{
	if (entry->owner)
		return;
	entry->owner = owner;
	entry->next_owned = *owned;
	*owned = number_of(kept, entry);
}

void service_kept_disown(struct kept *kept, uint32_t *owned, bool done, uint64_t now_ns)
{
	while (*owned != KEPT_NONE) {
		struct kept_entry *entry = &kept->entries[*owned];

		*owned = entry->next_owned;
		entry->owner = NULL;
		if (done)
			entry->have |= entry->grows;
		entry->takes = entry->grows = 0;
		count_blocks(kept, entry, entry->spare, false); /* reserved by a request that was refused */
		entry->spare = 0;
		if (!(entry->have >> KEPT_KEYS & 1) || (done && entry->ends)) {
			free_entry(kept, entry);
			continue;
		}
		entry->ends = false;
		unlink_age(kept, entry);
		link_newest(kept, entry, now_ns);
	}
}

/* ---- bytes ---- */

static uint32_t blocks_of(uint64_t bytes)
{
	return (uint32_t)((bytes + KEPT_BLOCK_BYTES - 1) / KEPT_BLOCK_BYTES);
}

bool service_kept_reserve(struct kept *kept, struct kept_entry *entry, unsigned place, uint64_t bytes, uint64_t now_ns)
{
	const uint32_t blocks = blocks_of(bytes);

	service_kept_expire(kept, now_ns);
	if (entry->have >> place & 1) { /* by the same request, when it was sent before */
		const uint64_t had = (uint64_t)entry->count * program_kept_bytes(entry->dims[place]);

		free_chain(kept, &entry->chains[place]);
		count_blocks(kept, entry, blocks_of(had), false);
		entry->have &= (uint16_t) ~(1 << place);
	}
	if (bytes > (uint64_t)kept->share * KEPT_BLOCK_BYTES ||
	    kept->peers[entry->peer].blocks + blocks > kept->share || blocks > kept->free) {
		kept->stats.refused++;
		return false;
	}
	count_blocks(kept, entry, blocks, true);
	entry->spare += blocks;
	entry->grows |= (uint16_t)(1 << place);
	return true;
}

void service_kept_append(struct kept *kept, struct kept_entry *entry, unsigned place, const void *from, uint32_t bytes)
{
	struct kept_chain *chain = &entry->chains[place];

	while (bytes) {
		uint32_t n = KEPT_BLOCK_BYTES - chain->used;

		if (n == 0) { /* one of the reserved ones */
			const uint32_t block = kept->free_block;

			kept->free_block = kept->next[block];
			kept->next[block] = KEPT_NONE;
			*(chain->last != KEPT_NONE ? &kept->next[chain->last] : &chain->first) = block;
			chain->last = block;
			chain->used = 0;
			entry->spare--;
			continue;
		}
		n = n < bytes ? n : bytes;
		memcpy(kept->blocks + (size_t)chain->last * KEPT_BLOCK_BYTES + chain->used, from, n);
		chain->used += n;
		from = (const uint8_t *)from + n;
		bytes -= n;
	}
}

struct kept_cursor service_kept_cursor(const struct kept_entry *entry, unsigned place)
{
	return (struct kept_cursor){ .block = entry->chains[place].first };
}

void service_kept_read(const struct kept *kept, struct kept_cursor *cursor, void *to, uint32_t bytes)
{
	while (bytes && cursor->block != KEPT_NONE) {
		uint32_t n = KEPT_BLOCK_BYTES - cursor->at;

		if (n == 0) {
			*cursor = (struct kept_cursor){ .block = kept->next[cursor->block] };
			continue;
		}
		n = n < bytes ? n : bytes;
		memcpy(to, kept->blocks + (size_t)cursor->block * KEPT_BLOCK_BYTES + cursor->at, n);
		cursor->at += n;
		to = (uint8_t *)to + n;
		bytes -= n;
	}
	memset(to, 0, bytes);
}
