/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/filter.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "tensor/elementary.h"

#define LN2 0.69314718055994531
#define BLOOM_SEVERAL (UINT32_C(1) << 31) /* several blocks share a slot */
#define BLOOM_NONE (BLOOM_SEVERAL - 1)

enum {
	SPARE_BITS = 47,   /* of the hash: the bits from here to the tag are not used for anything else */
	RESERVE_SHARE = 8, /* of the arena, reserved for the rows of admitted keys */
};

static struct filter_count *count_of(const struct filter *f, store_row row)
{
	return index_record(&f->index, row);
}

static uint64_t bloom_bytes(const struct filter *f)
{
	return ((uint64_t)f->slots + 1) * FILTER_BLOCK;
}

static uint64_t holds_bytes(uint32_t slots)
{
	return arena_rounded(slots * sizeof(*((struct filter *)NULL)->holds));
}

uint32_t store_filter_bloom_slots(const struct object_spec *spec, double share)
{
	const uint32_t blocks = wire_checkpoint_bloom_blocks(spec);
	/* The blocks at both ends of the shard may be in it in part only. */
	const double slots = floor(blocks * share) + 2;

	return slots < blocks ? (uint32_t)slots : blocks;
}

uint64_t store_filter_bloom_bytes(uint32_t slots)
{
	const struct filter f = { .slots = slots };

	return holds_bytes(slots) + bloom_bytes(&f);
}

static bool bloom_init(struct filter *f, const struct object_spec *spec, double share, struct arena *arena)
{
	const double hashes = -tensor_elementary_log((double)spec->filter_error) / LN2;

	f->blocks_count = wire_checkpoint_bloom_blocks(spec);
	if (!f->blocks_count)
		return false;
	f->slots = store_filter_bloom_slots(spec, share);
	f->hashes = (uint8_t)fmin(FILTER_HASHES_MAX, fmax(1, floor(hashes + 0.5)));
	f->holds = store_arena_take(arena, f->slots * sizeof(*f->holds));
	if (!f->holds)
		return false;
	f->memory = store_arena_take(arena, bloom_bytes(f));
	if (!f->memory)
		return false;
	for (uint32_t i = 0; i < f->slots; i++)
		f->holds[i] = BLOOM_NONE;
	f->blocks = (uint8_t *)(((uintptr_t)f->memory + FILTER_BLOCK - 1) & ~(uintptr_t)(FILTER_BLOCK - 1));
	return true;
}

bool store_filter_init(struct filter *f, const struct object_spec *spec, double share, struct arena *arena,
		       unsigned row_shift, struct store_stats *stats)
{
	*f = (struct filter){ .kind = spec->filter,
			      .frequency = spec->filter_frequency,
			      .name_hash = hash_name(spec->name) };
	if (spec->filter == FILTER_COUNTER) {
		store_pool_init(&f->pool, arena, stats, row_shift, sizeof(struct filter_count));
		f->pool.reserve = arena->end / RESERVE_SHARE;
		return store_index_init(&f->index, arena, row_shift, stats);
	}
	if (spec->filter != FILTER_BLOOM)
		return true;
	f->width = (uint8_t)checkpoint_bloom_width(f->frequency);
	if (!bloom_init(f, spec, share, arena))
		return false;
	stats->memory_bytes += store_filter_bloom_bytes(f->slots);
	return true;
}

bool store_filter_give_back(struct filter *f, struct arena *arena, uint64_t *at, unsigned steps)
{
	uint64_t bytes;
	uint8_t *slab;

	if (f->kind == FILTER_COUNTER) {
		for (; steps; steps--)
			if (!store_pool_drop_slab(&f->pool, &slab, &bytes))
				return store_index_drop(&f->index, at, steps);
		return false;
	}
	if (f->holds)
		store_arena_give(arena, f->holds, f->slots * sizeof(*f->holds));
	if (f->memory)
		store_arena_give(arena, f->memory, bloom_bytes(f));
	return true;
}

/* Where a key's block is, and where in it the key's counters are: five 12-bit values are taken from each hash. */
struct bloom_place {
	uint32_t number, slot;
	uint8_t *block;
	uint16_t at[FILTER_HASHES_MAX];
};

static void bloom_place(const struct filter *f, uint64_t key, struct bloom_place *p)
{
	const uint32_t mask = FILTER_BLOCK / f->width - 1;
	uint64_t bits = hash_key(f->name_hash, key);

	p->number = (uint32_t)(((bits >> 32) * f->blocks_count) >> 32);
	p->slot = p->number % f->slots;
	p->block = f->blocks + (uint64_t)p->slot * FILTER_BLOCK;
	for (unsigned i = 0; i < f->hashes; i++) {
		if (i % 5 == 0)
			bits = hash_mix(bits + 1);
		p->at[i] = (uint16_t)((bits >> (i % 5 * 12) & mask) * f->width);
	}
}

static void bloom_write(const struct filter *f, uint8_t *at, uint32_t count)
{
	switch (f->width) {
	case 1:
		*at = (uint8_t)count;
		break;
	case 2:
		*(uint16_t *)at = (uint16_t)count;
		break;
	default:
		*(uint32_t *)at = count;
	}
}

/* Records that the slot holds this block, perhaps beside others. */
static void bloom_hold(struct filter *f, uint32_t slot, uint32_t number)
{
	uint32_t *holds = &f->holds[slot];

	if (*holds == BLOOM_NONE) {
		memset(f->blocks + (uint64_t)slot * FILTER_BLOCK, 0, FILTER_BLOCK);
		*holds = number;
	} else if (*holds != number) {
		*holds |= BLOOM_SEVERAL;
	}
}

bool store_filter_bloom_clear(struct filter *f, uint32_t *slot, uint32_t slots)
{
	for (; *slot < f->slots && slots > 0; slots--)
		f->holds[(*slot)++] = BLOOM_NONE;
	return *slot >= f->slots;
}

static uint32_t bloom_least(const struct filter *f, const struct bloom_place *p)
{
	uint32_t least = f->frequency;

	if (f->holds[p->slot] == BLOOM_NONE)
		return 0;
	for (unsigned i = 0; i < f->hashes; i++) {
		const uint32_t count = wire_checkpoint_bloom_counter(p->block + p->at[i], f->width);

		least = count < least ? count : least;
	}
	return least;
}

static uint32_t bloom_count(struct filter *f, uint64_t key)
{
	struct bloom_place p;
	uint32_t least;

	bloom_place(f, key, &p);
	bloom_hold(f, p.slot, p.number);
	least = bloom_least(f, &p);
	if (least == f->frequency)
		return least;
	for (unsigned i = 0; i < f->hashes; i++)
		if (wire_checkpoint_bloom_counter(p.block + p.at[i], f->width) == least)
			bloom_write(f, p.block + p.at[i], least + 1);
	return least + 1;
}

uint32_t store_filter_bloom_count(const struct filter *f, uint64_t key)
{
	struct bloom_place p;

	bloom_place(f, key, &p);
	return bloom_least(f, &p);
}

const uint8_t *store_filter_bloom_block(const struct filter *f, uint32_t slot, uint64_t *number)
{
	const uint32_t holds = f->holds[slot];
	const uint64_t first = holds & BLOOM_SEVERAL ? slot : holds,
		       step = holds & BLOOM_SEVERAL ? f->slots : UINT32_MAX;

	if (holds == BLOOM_NONE)
		return NULL;
	*number = *number <= first ? first : first + (*number - first + step - 1) / step * step;
	return *number < f->blocks_count ? f->blocks + (uint64_t)slot * FILTER_BLOCK : NULL;
}

void store_filter_bloom_restore(struct filter *f, const struct checkpoint_bloom *from)
{
	const uint32_t number = (uint32_t)from->number, slot = number % f->slots;
	uint8_t *block = f->blocks + (uint64_t)slot * FILTER_BLOCK;

	bloom_hold(f, slot, number);
	for (unsigned at = 0; at < FILTER_BLOCK; at += f->width) {
		const uint32_t count = wire_checkpoint_bloom_counter(from->counters + at, f->width);

		if (count > wire_checkpoint_bloom_counter(block + at, f->width))
			bloom_write(f, block + at, count);
	}
}

void store_filter_bloom_raise(struct filter *f, uint64_t key, uint32_t count)
{
	struct bloom_place p;

	bloom_place(f, key, &p);
	bloom_hold(f, p.slot, p.number);
	count = count < f->frequency ? count : f->frequency;
	for (unsigned i = 0; i < f->hashes; i++)
		if (wire_checkpoint_bloom_counter(p.block + p.at[i], f->width) < count)
			bloom_write(f, p.block + p.at[i], count);
}

void store_filter_prefetch(const struct filter *f, uint64_t key, uint64_t hash)
{
	struct bloom_place p;

	if (f->kind == FILTER_COUNTER) {
		__builtin_prefetch(index_home(&f->index, hash));
		return;
	}
	bloom_place(f, key, &p);
	for (unsigned i = 0; i < f->hashes; i++)
		__builtin_prefetch(p.block + p.at[i]);
}

/* There is no memory for a new key's count: takes that of the key with the smallest count in its bucket, or returns
 * STORE_NO_ROW. Of equals the new key's hash selects one, so that keys that return soon have a chance. */
static store_row replace_least(struct filter *f, uint64_t hash)
{
	const struct index_bucket *home = index_home(&f->index, hash);
	const unsigned first = (unsigned)((hash >> SPARE_BITS) % INDEX_ENTRIES);
	store_row least = STORE_NO_ROW;

	for (unsigned i = first; i < first + INDEX_ENTRIES; i++) {
		const store_row row = home->rows[i % INDEX_ENTRIES];

		if (home->tags[i % INDEX_ENTRIES] == 0)
			continue;
		if (least == STORE_NO_ROW || count_of(f, row)->count < count_of(f, least)->count)
			least = row;
	}
	if (least != STORE_NO_ROW) {
		store_index_erase(&f->index, index_hash(count_of(f, least)->key), least);
		f->keys--;
	}
	return least;
}

static store_row make_count(struct filter *f, uint64_t hash, bool (*insert)(struct store_index *, uint64_t, store_row))
{
	store_row row = store_pool_take(&f->pool, f->keys);

	if (row == STORE_NO_ROW)
		row = replace_least(f, hash);
	if (row != STORE_NO_ROW && !insert(&f->index, hash, row)) {
		store_pool_give(&f->pool, row, false);
		row = replace_least(f, hash);
		if (row != STORE_NO_ROW && !insert(&f->index, hash, row)) {
			store_pool_give(&f->pool, row, false);
			row = STORE_NO_ROW;
		}
	}
	f->keys += row != STORE_NO_ROW;
	return row;
}

uint32_t store_filter_count(struct filter *f, uint64_t key, uint64_t hash, uint32_t stamp)
{
	struct filter_count *count;
	store_row row;

	if (f->kind == FILTER_BLOOM)
		return bloom_count(f, key);
	row = store_index_find(&f->index, key, hash);
	if (row == STORE_NO_ROW) {
		row = make_count(f, hash, store_index_insert);
		if (row == STORE_NO_ROW)
			return 0; /* not even memory for one bucket: the key is not counted */
		*count_of(f, row) = (struct filter_count){ .key = key };
	}
	count = count_of(f, row);
	count->count += count->count < UINT32_MAX;
	if (stamp)
		count->seen = stamp;
	return count->count;
}

bool store_filter_restore(struct filter *f, uint64_t hash, const struct filter_count *count)
{
	store_row row = store_index_find(&f->index, count->key, hash);

	if (row == STORE_NO_ROW)
		row = make_count(f, hash, store_index_load);
	if (row != STORE_NO_ROW)
		*count_of(f, row) = *count;
	return row != STORE_NO_ROW;
}

void store_filter_drop(struct filter *f, store_row row)
{
	store_index_erase(&f->index, index_hash(count_of(f, row)->key), row);
	store_pool_give(&f->pool, row, false);
	f->keys--;
}

void store_filter_forget(struct filter *f, uint64_t key, uint64_t hash)
{
	store_row row;

	if (f->kind != FILTER_COUNTER)
		return;
	row = store_index_find(&f->index, key, hash);
	if (row != STORE_NO_ROW)
		store_filter_drop(f, row);
}
