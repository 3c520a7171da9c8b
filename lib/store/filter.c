/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/filter.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "tensor/elementary.h"

#define LN2 0.69314718055994531
#define BLOCKS_MAX (UINT64_C(1) << 31)

enum {
	SPARE_BITS = 47,   /* of a hash: those from here to the tag pick nothing else */
	RESERVE_SHARE = 8, /* of the arena, left to the rows of keys that are admitted */
};

static struct filter_count *count_of(const struct filter *f, store_row row)
{
	return index_record(&f->index, row);
}

static bool bloom_init(struct filter *f, const struct object_spec *spec, double share, struct arena *arena)
{
	const double keys = fmax(1, (double)spec->filter_keys * share);
	const double counters = ceil(keys * -elementary_log((double)spec->filter_error) / (LN2 * LN2));
	const double blocks = fmax(1, ceil(counters * f->width / FILTER_BLOCK));
	const double hashes = counters / keys * LN2;
	uintptr_t begin;
	uint64_t bits;

	if (!(blocks < (double)BLOCKS_MAX))
		return false;
	f->blocks_count = (uint32_t)blocks;
	f->hashes = (uint8_t)fmin(FILTER_HASHES_MAX, fmax(1, floor(hashes + 0.5)));
	bits = ((uint64_t)f->blocks_count + 63) / 64 * sizeof(*f->touched);
	f->touched = arena_take(arena, bits);
	if (!f->touched)
		return false;
	begin = (uintptr_t)arena_take(arena, ((uint64_t)f->blocks_count + 1) * FILTER_BLOCK);
	if (!begin)
		return false;
	memset(f->touched, 0, bits);
	f->blocks = (uint8_t *)((begin + FILTER_BLOCK - 1) & ~(uintptr_t)(FILTER_BLOCK - 1));
	return true;
}

bool filter_init(struct filter *f, const struct object_spec *spec, double share, struct arena *arena,
		 unsigned row_shift, struct store_stats *stats)
{
	const uint64_t before = arena->low;
	bool done;

	*f = (struct filter){ .kind = spec->filter, .frequency = spec->filter_frequency };
	if (spec->filter == FILTER_COUNTER) {
		pool_init(&f->pool, arena, stats, row_shift, sizeof(struct filter_count));
		f->pool.reserve = arena->high / RESERVE_SHARE;
		return index_init(&f->index, arena, row_shift, stats);
	}
	if (spec->filter != FILTER_BLOOM)
		return true;
	f->width = f->frequency <= UINT8_MAX ? 1 : f->frequency <= UINT16_MAX ? 2 : 4;
	done = bloom_init(f, spec, share, arena);
	stats->memory_bytes += arena->low - before;
	return done;
}

/* A key's block, and where in it the counters are: five of 12 bits are cut from each mixing. */
struct bloom_place {
	uint8_t *block;
	uint16_t at[FILTER_HASHES_MAX];
};

static void bloom_place(const struct filter *f, uint64_t hash, struct bloom_place *p)
{
	const uint32_t mask = FILTER_BLOCK / f->width - 1;
	uint64_t bits = hash_mix(hash ^ UINT64_C(0x6a09e667f3bcc908));

	p->block = f->blocks + (((bits >> 32) * f->blocks_count) >> 32) * FILTER_BLOCK;
	for (unsigned i = 0; i < f->hashes; i++) {
		if (i % 5 == 0)
			bits = hash_mix(bits + 1);
		p->at[i] = (uint16_t)((bits >> (i % 5 * 12) & mask) * f->width);
	}
}

static bool bloom_touched(const struct filter *f, const uint8_t *block)
{
	const uint64_t number = (uint64_t)(block - f->blocks) / FILTER_BLOCK;

	return f->touched[number / 64] >> (number % 64) & 1;
}

static uint32_t bloom_read(const struct filter *f, const uint8_t *at)
{
	switch (f->width) {
	case 1:
		return *at;
	case 2:
		return *(const uint16_t *)at;
	}
	return *(const uint32_t *)at;
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

static uint32_t bloom_count(struct filter *f, uint64_t hash)
{
	struct bloom_place p;
	uint32_t least = f->frequency;

	bloom_place(f, hash, &p);
	if (!bloom_touched(f, p.block)) {
		const uint64_t number = (uint64_t)(p.block - f->blocks) / FILTER_BLOCK;

		memset(p.block, 0, FILTER_BLOCK);
		f->touched[number / 64] |= UINT64_C(1) << (number % 64);
	}
	for (unsigned i = 0; i < f->hashes; i++) {
		const uint32_t count = bloom_read(f, p.block + p.at[i]);

		least = count < least ? count : least;
	}
	if (least == f->frequency)
		return least;
	for (unsigned i = 0; i < f->hashes; i++)
		if (bloom_read(f, p.block + p.at[i]) == least)
			bloom_write(f, p.block + p.at[i], least + 1);
	return least + 1;
}

void filter_prefetch(const struct filter *f, uint64_t hash)
{
	struct bloom_place p;

	if (f->kind == FILTER_COUNTER) {
		__builtin_prefetch(index_home(&f->index, hash));
		return;
	}
	bloom_place(f, hash, &p);
	for (unsigned i = 0; i < f->hashes; i++)
		__builtin_prefetch(p.block + p.at[i]);
}

/* Memory for a new key's count is gone: that of the least counted key of its bucket, or STORE_NO_ROW. Of equals any, as the
 * new key's hash has it, so that those that come again soon have a chance. */
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
		index_erase(&f->index, index_hash(count_of(f, least)->key), least);
		f->keys--;
	}
	return least;
}

static store_row make_count(struct filter *f, uint64_t hash, bool (*insert)(struct store_index *, uint64_t, store_row))
{
	store_row row = pool_take(&f->pool, f->keys);

	if (row == STORE_NO_ROW)
		row = replace_least(f, hash);
	if (row != STORE_NO_ROW && !insert(&f->index, hash, row)) {
		pool_give(&f->pool, row, false);
		row = replace_least(f, hash);
		if (row != STORE_NO_ROW && !insert(&f->index, hash, row)) {
			pool_give(&f->pool, row, false);
			row = STORE_NO_ROW;
		}
	}
	f->keys += row != STORE_NO_ROW;
	return row;
}

uint32_t filter_count(struct filter *f, uint64_t key, uint64_t hash, uint32_t stamp)
{
	struct filter_count *count;
	store_row row;

	if (f->kind == FILTER_BLOOM)
		return bloom_count(f, hash);
	row = index_find(&f->index, key, hash);
	if (row == STORE_NO_ROW) {
		row = make_count(f, hash, index_insert);
		if (row == STORE_NO_ROW)
			return 0; /* not even a bucket's worth of memory: it stays out */
		*count_of(f, row) = (struct filter_count){ .key = key };
	}
	count = count_of(f, row);
	count->count += count->count < UINT32_MAX;
	if (stamp)
		count->seen = stamp;
	return count->count;
}

bool filter_restore(struct filter *f, uint64_t hash, const struct filter_count *count)
{
	store_row row = index_find(&f->index, count->key, hash);

	if (row == STORE_NO_ROW)
		row = make_count(f, hash, index_load);
	if (row != STORE_NO_ROW)
		*count_of(f, row) = *count;
	return row != STORE_NO_ROW;
}

void filter_drop(struct filter *f, store_row row)
{
	index_erase(&f->index, index_hash(count_of(f, row)->key), row);
	pool_give(&f->pool, row, false);
	f->keys--;
}

void filter_forget(struct filter *f, uint64_t key, uint64_t hash)
{
	store_row row;

	if (f->kind != FILTER_COUNTER)
		return;
	row = index_find(&f->index, key, hash);
	if (row != STORE_NO_ROW)
		filter_drop(f, row);
}
