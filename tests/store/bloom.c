/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts of Bloom filters over checkpoints: on another number of shards, too, no key's count is lower than before. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/prng.h"
#include "store/snapshot.h"
#include "store/table.h"
#include "tests/store/cases.h"
#include "wire/checkpoint.h"
#include "wire/layout.h"

enum { PARTITIONS = 256, SHARDS_MAX = 16, KEYS = 4000, ARENA = 2 << 20, OUT = STORE_SNAPSHOT_SLICE_MIN };

/* Shards that a table is cut over; their stores can be saved. */
struct cut {
	unsigned shards;
	struct fixture f[SHARDS_MAX];
	struct store_table *tables[SHARDS_MAX];
	void *marks[SHARDS_MAX], *copies[SHARDS_MAX];
};

static struct object_spec bloom_spec(const char *options)
{
	struct object_spec spec = spec_of("kept", 4, OPTIM_ADAGRAD);
	struct star_error err = { 0 };

	if (wire_object_spec_options(&spec, options, &err) < 0)
		unit_fail(__FILE__, __LINE__, "no options: %s", err.text);
	return spec;
}

/* smaller: by how much the announced share of a shard is less than the real one. */
static void cut_open(struct cut *cut, const struct object_spec *spec, unsigned shards, double smaller)
{
	cut->shards = shards;
	for (unsigned i = 0; i < shards; i++) {
		const uint32_t partitions =
			layout_first(PARTITIONS, shards, i + 1) - layout_first(PARTITIONS, shards, i);
		struct store_snapshot_options options = { .copies_bytes = STORE_SNAPSHOT_COPIES_MIN };

		cut->f[i] = fixture_open(ARENA);
		options.marks = cut->marks[i] = calloc(1, store_snapshot_memory(ARENA));
		options.copies = cut->copies[i] = aligned_alloc(64, STORE_SNAPSHOT_COPIES_MIN);
		CHECK_INT(store_snapshot_init(cut->f[i].store, &options, NULL), 0);
		cut->tables[i] = store_table_create(cut->f[i].store, spec, partitions / (PARTITIONS * smaller), NULL);
		if (!cut->tables[i])
			abort();
	}
}

static void cut_close(struct cut *cut)
{
	for (unsigned i = 0; i < cut->shards; i++) {
		fixture_close(&cut->f[i]);
		free(cut->marks[i]);
		free(cut->copies[i]);
	}
}

static struct store_table *table_for(const struct cut *cut, uint64_t key)
{
	const uint64_t hash = hash_key(hash_name("kept"), key);

	return cut->tables[layout_owner(PARTITIONS, cut->shards, layout_partition(hash, PARTITIONS))];
}

static void load_block(const struct cut *to, const struct object_spec *spec, const struct checkpoint_run *run,
		       const struct checkpoint_bloom *block)
{
	uint64_t first, last;

	if (!CHECK(wire_checkpoint_bloom_hashes(spec, block->number, &first, &last)))
		return;
	first = layout_owner(PARTITIONS, to->shards, layout_partition(first, PARTITIONS));
	last = layout_owner(PARTITIONS, to->shards, layout_partition(last, PARTITIONS));
	for (uint64_t shard = first; shard <= last; shard++)
		CHECK_INT(store_load(to->tables[shard], run, block, 1, NULL), 0);
}

/* A full checkpoint of one shard, into those of another cut. Returns the blocks of its filter. */
static unsigned load_shard(struct store *from, const struct cut *to, const struct object_spec *spec)
{
	static uint64_t out[OUT / sizeof(uint64_t)];
	unsigned blocks = 0;
	bool over = false;

	while (!store_snapshot_ready(from))
		continue;
	CHECK(store_snapshot_begin(from, STORE_SNAPSHOT_FULL));
	while (!over) {
		const size_t n = store_snapshot_slice(from, out, sizeof(out), 50, &over);

		for (size_t at = 0; at < n;) {
			const struct checkpoint_run *run = (const void *)((const uint8_t *)out + at);
			const struct checkpoint_bloom *records = (const void *)(run + 1);

			for (unsigned i = 0; run->kind == CHECKPOINT_BLOOM && i < run->count; i++, blocks++)
				load_block(to, spec, run, &records[i]);
			at += sizeof(*run) + (size_t)run->count * run->row_bytes;
		}
	}
	store_snapshot_end(from, true);
	return blocks;
}

/* Each key comes up to four times, in no order; a look-up counts it in a cut and, as if there were but one shard, in a
 * whole. */
static void count_keys(const struct cut *cut, const struct cut *whole, uint32_t *came)
{
	struct prng prng;

	prng_seed(&prng, 5);
	for (unsigned i = 0; i < 2 * KEYS; i++) {
		const uint32_t key = prng_below(&prng, KEYS);

		if (came[key] == 4)
			continue;
		came[key]++;
		find_one(table_for(cut, key), key, STORE_PULL);
		find_one(table_for(whole, key), key, STORE_PULL);
	}
}

static void counts_move(const char *options, unsigned from_shards, unsigned to_shards)
{
	const struct object_spec spec = bloom_spec(options);
	static struct cut from, whole, to;
	static uint32_t came[KEYS];
	unsigned rose = 0, blocks = 0;

	memset(came, 0, sizeof(came));
	cut_open(&from, &spec, from_shards, 1);
	cut_open(&whole, &spec, 1, 1);
	cut_open(&to, &spec, to_shards, 1);
	count_keys(&from, &whole, came);
	for (unsigned i = 0; i < from_shards; i++)
		blocks += load_shard(from.f[i].store, &to, &spec);
	CHECK(blocks >= 1 && blocks <= whole.tables[0]->filter.blocks_count + from_shards);
	for (uint64_t key = 0; key < KEYS; key++) {
		const uint32_t before = store_filter_bloom_count(&table_for(&from, key)->filter, key),
			       after = store_filter_bloom_count(&table_for(&to, key)->filter, key),
			       at_most = store_filter_bloom_count(&whole.tables[0]->filter, key);

		rose += after > before;
		if (!CHECK(came[key] <= before && before <= after && after <= at_most)) {
			printf("# %u to %u shards, %s: key %u came %u times, %u before, %u after, at most %u\n",
			       from_shards, to_shards, options, (unsigned)key, came[key], before, after, at_most);
			break;
		}
	}
	/* Only those in blocks at an edge. */
	if (whole.tables[0]->filter.blocks_count > 40)
		CHECK(rose < KEYS / 50);
	if (from_shards == 1)
		CHECK_UINT(rose, 0);
	cut_close(&from);
	cut_close(&whole);
	cut_close(&to);
}

void bloom_counts_follow_their_keys(void)
{
	static const char *const options[] = {
		/* 94 blocks, 6, and 1; counters of one, two and four bytes */
		"filter=bloom, filter_frequency=5, filter_keys=40000, filter_error=0.01",
		"filter=bloom, filter_frequency=300, filter_keys=1000, filter_error=0.003",
		"filter=bloom, filter_frequency=70000, filter_keys=200, filter_error=0.1",
	};
	static const unsigned shards[] = { 1, 2, 5, 16 };

	for (unsigned o = 0; o < 3; o++)
		for (unsigned from = 0; from < 4; from++)
			for (unsigned to = 0; to < 4; to++)
				counts_move(options[o], shards[from], shards[to]);
}

/* Two shards that were told a third and a fourth of their real shares, since the layout was not known yet. */
void bloom_blocks_that_share_a_slot_are_kept(void)
{
	const struct object_spec spec =
		bloom_spec("filter=bloom, filter_frequency=5, filter_keys=40000, filter_error=0.01");
	static struct cut from, whole, to;
	static uint32_t came[KEYS];

	memset(came, 0, sizeof(came));
	cut_open(&from, &spec, 2, 3.5);
	cut_open(&whole, &spec, 1, 1);
	cut_open(&to, &spec, 5, 1);
	CHECK(from.tables[0]->filter.slots < whole.tables[0]->filter.blocks_count / 5);
	count_keys(&from, &whole, came);
	for (unsigned i = 0; i < 2; i++)
		load_shard(from.f[i].store, &to, &spec);
	for (uint64_t key = 0; key < KEYS; key++) {
		const uint32_t before = store_filter_bloom_count(&table_for(&from, key)->filter, key),
			       after = store_filter_bloom_count(&table_for(&to, key)->filter, key);

		if (!CHECK(came[key] <= before && before <= after))
			break;
	}
	cut_close(&from);
	cut_close(&whole);
	cut_close(&to);
}

void missing_bloom_blocks_are_refused(void)
{
	static struct checkpoint_bloom block;
	const struct object_spec spec =
		bloom_spec("filter=bloom, filter_frequency=300, filter_keys=1000, filter_error=0.003");
	struct fixture f = fixture_open(1 << 20);
	struct store_table *t = table_from(&f, &spec), *other = table_of(&f, "other", 4, OPTIM_SGD);
	struct checkpoint_run run = { .kind = CHECKPOINT_BLOOM, .count = 1, .row_bytes = sizeof(block) };
	const uint32_t blocks = t->filter.blocks_count;
	uint64_t first, last;

	CHECK(blocks > 1 && blocks < 10);
	block.number = blocks - 1;
	((uint16_t *)block.counters)[FILTER_BLOCK / 2 - 1] = 300;
	CHECK_INT(store_load(t, &run, &block, 1, NULL), 0);
	CHECK_INT(store_load(other, &run, &block, 1, NULL), -EINVAL);
	((uint16_t *)block.counters)[FILTER_BLOCK / 2 - 1] = 301;
	CHECK_INT(store_load(t, &run, &block, 1, NULL), -EINVAL);
	memset(block.counters, 0, sizeof(block.counters));
	for (unsigned i = 0; i < 3; i++) {
		block.number = (const uint64_t[]){ blocks, UINT64_C(1) << 32, UINT64_MAX }[i];
		CHECK_INT(store_load(t, &run, &block, 1, NULL), -EINVAL);
		CHECK(!wire_checkpoint_bloom_hashes(&spec, block.number, &first, &last));
	}
	run.row_bytes -= 8;
	block.number = 0;
	CHECK_INT(store_load(t, &run, &block, 1, NULL), -EINVAL);
	/* Every hash is one block's. */
	CHECK(wire_checkpoint_bloom_hashes(&spec, 0, &first, &last) && first == 0);
	for (uint64_t number = 1; number < blocks; number++) {
		const uint64_t end = last;

		CHECK(wire_checkpoint_bloom_hashes(&spec, number, &first, &last));
		CHECK_UINT(first, end + 1);
	}
	CHECK_UINT(last, UINT64_MAX);
	CHECK(!wire_checkpoint_bloom_hashes(store_table_spec(other), 0, &first, &last));
	fixture_close(&f);
}
