/* SPDX-License-Identifier: BSD-3-Clause */
/* The keys of pushes: looks up or creates their rows, and joins equal ones. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "store/journal_note.h"
#include "store/push_internal.h"

enum {
	KEYS_MAX = 1 << 29,
	ALIGN = 64,
	/* A sum stands for at least two gradients of the request. In float64 it takes less than four times the bytes of
	 * these in scaled_int8, the widest and the narrowest type; other pairs take less. */
	SUMS_SHARE = 4,
	/* Operations of up to this many keys are checked for ascending keys. If one turns out not to be ascending, all
	 * earlier keys get their cells at once, in about 20 us. */
	ORDERED_MAX = 4096,
};

/* The smallest power of two that leaves three quarters of the cells free: each further probe of a search costs a branch
 * misprediction. */
static uint32_t cells_for(uint32_t keys)
{
	return 2u << (32 - __builtin_clz(2 * keys - 1));
}

static uint64_t aligned(uint64_t bytes)
{
	return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static void forget_positions(struct store_push *p)
{
	memset(p->cells, 0, p->cells_count * sizeof(*p->cells));
	p->origin = 1;
}

struct store_push *store_push_create(uint32_t max_keys, uint32_t max_bytes, struct star_error *err)
{
	uint64_t head_bytes, entries_bytes, cells_bytes, sums_bytes, bytes;
	struct store_push *p;
	uint8_t *memory;

	if (max_keys < 1 || max_keys > KEYS_MAX) {
		star_error_set(err, -EINVAL, "a push of up to %u keys was asked for: 1 to %d are possible", max_keys,
			       KEYS_MAX);
		return NULL;
	}
	head_bytes = aligned(sizeof(*p));
	cells_bytes = aligned((uint64_t)cells_for(max_keys) * sizeof(*p->cells));
	entries_bytes = aligned((uint64_t)max_keys * sizeof(struct push_entry));
	sums_bytes = aligned((uint64_t)max_bytes * SUMS_SHARE);
	bytes = aligned(head_bytes + cells_bytes + entries_bytes + sums_bytes);
	memory = aligned_alloc(ALIGN, bytes);
	if (!memory) {
		star_error_set(err, -ENOMEM, "no memory for pushes: %llu bytes", (unsigned long long)bytes);
		return NULL;
	}
	p = (struct store_push *)memory;
	*p = (struct store_push){ .max_keys = max_keys, .sums_bytes = sums_bytes };
	p->cells = (uint32_t *)(memory + head_bytes);
	p->cells_count = cells_for(max_keys);
	p->entries = (struct push_entry *)(memory + head_bytes + cells_bytes);
	p->sums = memory + head_bytes + cells_bytes + entries_bytes;
	p->salt = hash_mix((uintptr_t)memory ^ clock_cycles());
	forget_positions(p);
	return p;
}

void store_push_destroy(struct store_push *p)
{
	free(p);
}

static void open_op(struct push_op *op)
{
	struct store_table *t = op->table;

	/* Pins the rows of the next look-up, and of all later ones. */
	if (t->pushes_open++ == 0)
		t->pinned = t->tick + TABLE_TICK;
	op->open = true;
}

void store_push_close(struct push_op *op)
{
	if (!op->open)
		return;
	op->open = false;
	if (--op->table->pushes_open == 0)
		store_pool_settle(&op->table->pool);
}

/* For an operation that is abandoned: its rows were used anyway. */
static void journal_given_up(const struct store_push *p, const struct push_op *op)
{
	if (op->open && journal_is_on(op->table) && op->table->policies)
		for (uint32_t i = op->first; i < op->first + op->keys; i++)
			store_journal_rows(op->table, &p->entries[i].row, 1);
}

void store_push_begin(struct store_push *p)
{
	for (uint32_t i = 0; i < p->ops_count; i++) {
		journal_given_up(p, &p->ops[i]);
		store_push_close(&p->ops[i]);
	}
	p->origin += p->keys;
	if (p->origin > UINT32_MAX - p->max_keys)
		forget_positions(p);
	p->keys = 0;
	p->sums_used = 0;
	p->ops_count = p->look = p->run = 0;
}

void store_push_op(struct store_push *p, struct store_table *table, uint32_t count)
{
	const uint32_t room = p->max_keys - p->keys;
	struct push_op *op;

	if (p->ops_count == WIRE_OPS_MAX)
		return;
	/* An operation over the limit is refused when the first keys over it arrive. */
	if (count > room)
		count = room;
	op = &p->ops[p->ops_count++];
	*op = (struct push_op){
		.table = table, .first = p->keys, .end = p->keys + count, .ordered = count <= ORDERED_MAX
	};
	p->op_mask = count ? cells_for(count) - 1 : 0;
	open_op(op);
}

void store_push_assign(struct store_push *p, struct store_table *table, uint32_t count)
{
	const uint32_t ops = p->ops_count;

	store_push_op(p, table, count);
	if (p->ops_count > ops)
		p->ops[ops].assign = true;
}

/* Gets memory for the sum of one row's gradients. */
static bool take_sum(struct store_push *p, struct push_entry *first, const struct store_table *t)
{
	const uint64_t bytes = (t->dim * (t->wide ? sizeof(double) : sizeof(float)) + PUSH_SUM_ALIGN - 1) &
			       ~(uint64_t)(PUSH_SUM_ALIGN - 1);

	if (bytes > p->sums_bytes - p->sums_used)
		return false;
	first->sum = (uint32_t)(p->sums_used / PUSH_SUM_ALIGN);
	p->sums_used += bytes;
	return true;
}

/*
 * The entry in a row's cell. If the row has none yet in this operation, it becomes the entry at position `self`. The
 * search ends, since most of the operation's cells are free, and ends soon, since the salt distributes the rows.
 */
static inline __attribute__((always_inline)) uint32_t first_of(struct store_push *p, const struct push_op *op,
							       uint32_t self, store_row row)
{
	const uint32_t origin = p->origin, op_origin = origin + op->first, mask = p->op_mask;
	uint32_t cell = (uint32_t)hash_mix(row ^ p->salt) & mask, position;

	while ((position = p->cells[cell]) >= op_origin && p->entries[position - origin].row != row)
		cell = (cell + 1) & mask;
	if (position >= op_origin)
		return position - origin;
	p->cells[cell] = origin + self;
	return self;
}

/* Appends an entry for each row, joined to the first entry of its row; false: there is no memory for sums. */
static bool enter(struct store_push *p, struct push_op *op, const store_row *rows, unsigned n)
{
	struct push_entry *const entries = p->entries;
	uint32_t self = p->keys;
	bool summable = true;

	for (unsigned i = 0; i < n; i++, self++) {
		uint32_t first;

		entries[self] = (struct push_entry){ .row = rows[i], .first = self, .left = 1, .sum = PUSH_NO_SUM };
		if (rows[i] == STORE_UNADMITTED)
			continue;
		first = first_of(p, op, self, rows[i]);
		if (first == self)
			continue;
		entries[self].first = first;
		if (entries[first].left++ == 1 && !op->assign) {
			summable &= take_sum(p, &entries[first], op->table);
			op->sums = true;
		}
	}
	p->keys = self;
	return summable;
}

/* Whether the next n keys are ascending, too. */
static bool keys_go_on(const struct push_op *op, const uint64_t *keys, unsigned n)
{
	bool on = op->keys == 0 || n == 0 || keys[0] > op->last;

	for (unsigned i = 1; i < n; i++)
		on &= keys[i] > keys[i - 1];
	return on;
}

/* The same as enter, for ascending keys: no two are equal, so there is nothing to join. Workers that have joined
 * duplicates send such keys. */
static void enter_ordered(struct store_push *p, struct push_op *op, const uint64_t *keys, const store_row *rows,
			  unsigned n)
{
	for (unsigned i = 0; i < n; i++, p->keys++)
		p->entries[p->keys] =
			(struct push_entry){ .row = rows[i], .first = p->keys, .left = 1, .sum = PUSH_NO_SUM };
	op->last = n ? keys[n - 1] : op->last;
}

/* The keys are not ascending after all: the entries so far, all of different rows, get their cells. */
static void end_order(struct store_push *p, struct push_op *op)
{
	op->ordered = false;
	for (uint32_t at = op->first; at < p->keys; at++)
		if (p->entries[at].row != STORE_UNADMITTED)
			first_of(p, op, at, p->entries[at].row);
}

int store_push_keys(struct store_push *p, struct store_table *table, const uint64_t *keys, unsigned n, uint64_t step)
{
	struct push_op *op = p->ops_count ? &p->ops[p->ops_count - 1] : NULL;
	store_row rows[STORE_BATCH];
	bool summable = true;

	assert(n <= STORE_BATCH);
	if (!op || op->table != table) {
		store_push_op(p, table, p->max_keys);
		op = &p->ops[p->ops_count - 1];
	}
	if (table->optim.options.kind == OPTIM_NONE && !op->assign)
		return -EOPNOTSUPP;
	if (op->table != table || n > op->end - op->first - op->keys)
		return -EOVERFLOW;
	if (store_find(table, keys, n, STORE_PUSH, step, rows))
		return -ENOSPC;
	if (op->ordered && !keys_go_on(op, keys, n))
		end_order(p, op);
	if (op->ordered)
		enter_ordered(p, op, keys, rows, n);
	else
		summable = enter(p, op, rows, n);
	op->keys += n;
	return summable ? 0 : -EOVERFLOW;
}
