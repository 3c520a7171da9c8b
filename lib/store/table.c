/* SPDX-License-Identifier: BSD-3-Clause */
/* Creating tables, and reading their properties. */
#include "store/table.h"

#include <errno.h>
#include <math.h>

#include "base/hash.h"
#include "store/push.h"
#include "tensor/dtype.h"

enum {
	/* Rows of up to this many cache lines are prefetched completely. Of longer ones only the first lines are: the
	 * rest is better loaded on the way. */
	LOAD_LINES_MAX = 8,
	LONG_LOAD_LINES = 2,
	ROW_ALIGN = 8,
	/* Values and slots of rows of this size or more are aligned to cache lines, which costs them few bytes: a
	 * vector that spans two lines costs twice. */
	LONG_ROW_BYTES = 4096,
	UNDO_STEPS = 64, /* a table without rows has no more to free */
};

/* How many cache lines the first bytes of a row may touch, wherever it begins. */
static uint32_t lines(uint32_t bytes)
{
	return (TABLE_LINE - ROW_ALIGN + bytes - 1) / TABLE_LINE + 1;
}

static uint16_t lines_to_load(uint32_t bytes)
{
	return (uint16_t)(lines(bytes) > LOAD_LINES_MAX ? LONG_LOAD_LINES : lines(bytes));
}

static uint16_t take_word(uint32_t *end, bool wanted)
{
	const uint32_t at = *end;

	if (!wanted)
		return 0;
	*end += sizeof(uint32_t);
	return (uint16_t)at;
}

static void lay_out(struct store_table *t)
{
	const struct object_spec *spec = &t->spec;
	const uint32_t width = t->wide ? sizeof(double) : sizeof(float);
	const bool is_long = (uint64_t)spec->dim * width * (1u + t->optim.slots) >= LONG_ROW_BYTES;
	const uint32_t align = is_long ? TABLE_LINE : dtype_alignment(spec->dtype),
		       slots_align = is_long ? TABLE_LINE : width;
	uint32_t end = sizeof(uint64_t), values_end;

	t->is_long = is_long;
	t->at.version = take_word(&end, spec->versions || spec->kind == OBJECT_VARIABLE);
	t->at.rounds = take_word(&end, spec->stochastic);
	t->at.frequency = take_word(&end, spec->full == FULL_EVICT_LFU);
	t->at.used = take_word(&end, t->evicts);
	t->at.seen = take_word(&end, spec->steps_to_live != 0);
	t->at.words = (uint16_t)end;
	end += t->optim.words * (uint32_t)sizeof(uint32_t);
	end = (end + align - 1) / align * align;
	t->at.values = (uint16_t)end;
	end += (uint32_t)dtype_row_bytes(spec->dtype, spec->dim);
	values_end = end;
	end = (end + slots_align - 1) / slots_align * slots_align;
	if (spec->master) {
		t->at.master = end;
		end += (spec->dim * (uint32_t)sizeof(float) + slots_align - 1) / slots_align * slots_align;
	}
	t->at.slots = end;
	end += t->optim.slots * spec->dim * width;
	t->at.bytes = is_long ? (end + TABLE_LINE - 1) / TABLE_LINE * TABLE_LINE : end;
	t->at.record_head = t->at.words + t->optim.words * (uint32_t)sizeof(uint32_t);
	t->at.record = (t->at.record_head + (uint32_t)dtype_row_bytes(spec->dtype, spec->dim) +
			(spec->master ? spec->dim * (uint32_t)sizeof(float) : 0) + t->optim.slots * spec->dim * width +
			ROW_ALIGN - 1) /
		       ROW_ALIGN * ROW_ALIGN;
	/* No gap, and none at the end: memory that was used before is not 0 there, as padding must be. */
	t->at.as_it_lies = !t->at.used && !spec->master && t->at.values == t->at.record_head &&
			   t->at.slots == values_end && end == t->at.record;
	t->value_lines = (uint16_t)lines(values_end);
	t->find_lines = lines_to_load(values_end);
	t->row_lines = lines_to_load(end);
}

void store_table_settle(struct store_table *t, double share)
{
	const struct object_spec *spec = &t->spec;
	uint64_t rounding;

	t->dim = spec->dim;
	t->journal_object = object_wire_id(spec);
	t->name_hash = hash_name(spec->name);
	t->wide = spec->dtype == STAR_FLOAT64;
	t->narrow = dtype_is_real(spec->dtype) && !t->wide && spec->dtype != STAR_FLOAT32;
	t->evicts = spec->full != FULL_REFUSE;
	t->filtered = spec->filter != FILTER_NONE;
	t->policies = t->filtered || t->evicts || spec->steps_to_live;
	t->converter = tensor_convert_find(spec->dtype, CONVERT_BEST);
	rounding = hash_mix(hash_mix(spec->seed ^ t->name_hash) + 1);
	t->rounding_key[0] = (uint32_t)rounding;
	t->rounding_key[1] = (uint32_t)(rounding >> 32);
	t->rows_max = spec->rows_max ? (uint64_t)ceil((double)spec->rows_max * share) : UINT64_MAX;
	lay_out(t);
	t->plain = spec->dtype == STAR_FLOAT32 && !t->at.version && !t->optim.whole;
	store_initial_init(&t->initial, spec);
}

/* Creates index, pool and filter in the arena. */
static bool settle_memory(struct store_table *t, double share)
{
	struct store *store = t->store;

	store_pool_init(&t->pool, store->memory, &t->stats, store->row_shift, t->at.bytes);
	return store_filter_init(&t->filter, &t->spec, share, store->memory, store->row_shift, &t->stats) &&
	       store_index_init(&t->index, store->memory, store->row_shift, &t->stats);
}

/* Dropped tables leave their struct behind for reuse, so another thread that reads statistics always finds those of
 * some table. */
static struct store_table *take_table(struct arena *memory)
{
	struct store_table *t = memory->spare;

	if (!t)
		return store_arena_take(memory, sizeof(*t));
	memory->spare = t->next;
	return t;
}

static void undo(struct store_table *t, bool fresh)
{
	struct arena *memory = t->store->memory;

	while (!store_table_give_back(t, UNDO_STEPS))
		;
	if (fresh) {
		store_arena_give(memory, t, sizeof(*t));
		return;
	}
	t->next = memory->spare;
	memory->spare = t;
}

struct store_table *store_table_create(struct store *store, const struct object_spec *spec, double share,
				       struct star_error *err)
{
	struct object_spec checked = *spec;
	const bool fresh = !store->memory->spare;
	struct store_table *t;

	if (wire_object_spec_check(&checked, err) < 0)
		return NULL;
	if (!(share > 0 && share <= 1)) {
		star_error_set(err, -EINVAL, "\"%s\": a share of %g of the partitions", checked.name, share);
		return NULL;
	}
	t = take_table(store->memory);
	if (!t)
		goto full;
	*t = (struct store_table){ .spec = checked, .store = store };
	t->stats.memory_bytes = arena_rounded(sizeof(*t));
	if (optim_init(&t->optim, &checked.optim, OPTIM_BEST) < 0) {
		star_error_set(err, -EINVAL, "\"%s\": the store has no optimizer %u", checked.name, checked.optim.kind);
		undo(t, fresh);
		return NULL;
	}
	store_table_settle(t, share);
	if (!settle_memory(t, share)) {
		undo(t, fresh);
		goto full;
	}
	t->next = store->tables;
	store->tables = t;
	return t;
full:
	star_error_set(err, -ENOMEM,
		       "no parameter memory left for \"%s\": %llu bytes of this shard's are free; give it more memory",
		       checked.name, (unsigned long long)arena_for_new(store->memory));
	return NULL;
}

const struct object_spec *store_table_spec(const struct store_table *table)
{
	return &table->spec;
}

const struct store_stats *store_table_stats(const struct store_table *table)
{
	return &table->stats;
}

uint64_t store_table_step(const struct store_table *table)
{
	return __atomic_load_n(&table->step, __ATOMIC_RELAXED);
}

struct store_stats *store_table_counters(struct store_table *table)
{
	return &table->stats;
}

uint64_t store_name_hash(const struct store_table *table)
{
	return table->name_hash;
}
