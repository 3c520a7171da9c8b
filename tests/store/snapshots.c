/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/store/snapshots.h"

#include <stdio.h>
#include <stdlib.h>

#include "wire/layout.h"

enum { ARENA = 24 << 20, OUT = 256 << 10, PARTITIONS = 1024 };

static const struct {
	unsigned dtype, optimizer;
	const char *options;
} kinds[SHOT_TABLES] = {
	{ STAR_FLOAT32, OPTIM_ADAM, "versions=1" },
	{ STAR_SCALED_INT8, OPTIM_ADAM, "master=1, versions=1" },
	{ STAR_BFLOAT16, OPTIM_ADAGRAD, "stochastic=1" },
	{ STAR_FLOAT32, OPTIM_ADAGRAD, "rows_max=900, full=evict_lru, versions=1" },
	{ STAR_FLOAT64, OPTIM_SGD, "rows_max=500, full=evict_lfu, steps_to_live=60" },
	{ STAR_FLOAT32, OPTIM_ADAGRAD, "filter=counter, filter_frequency=3" },
	{ STAR_FLOAT16, OPTIM_AMSGRAD, "steps_to_live=25, l2_threshold=0.7" },
	{ STAR_FLOAT32, OPTIM_FTRL, "filter=bloom, filter_frequency=2, filter_keys=20000, filter_error=0.01" },
	{ STAR_INT32, OPTIM_NONE, "" },
};

static void make_tables(struct fixture *f, struct store_table *tables[SHOT_TABLES])
{
	for (unsigned i = 0; i < SHOT_TABLES; i++) {
		char name[16];
		struct object_spec spec;
		struct star_error err = { 0 };

		snprintf(name, sizeof(name), "table %u", i);
		spec = spec_of(name, SHOT_DIM, kinds[i].optimizer);
		spec.dtype = (uint8_t)kinds[i].dtype;
		spec.id = i + 1;
		if (!dtype_is_real(spec.dtype)) {
			spec.initializer = OBJECT_ONES;
			spec.scale = 0;
		}
		if (wire_object_spec_options(&spec, kinds[i].options, &err) < 0)
			unit_fail(__FILE__, __LINE__, "no options: %s", err.text);
		tables[i] = table_from(f, &spec);
	}
}

static void *zeroed(size_t bytes)
{
	void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);

	if (!memory)
		abort();
	memset(memory, 0, bytes);
	return memory;
}

void shots_open(struct shots *s, uint64_t seed, size_t copies_bytes, size_t log_bytes)
{
	struct star_error err = { 0 };

	memset(s, 0, sizeof(*s));
	s->f = fixture_open(ARENA);
	s->store = s->f.store;
	s->marks = zeroed(store_snapshot_memory(ARENA));
	s->copies = zeroed(STORE_SNAPSHOT_COPIES_MIN + log_bytes);
	CHECK_INT(store_snapshot_init(s->store,
				      &(struct store_snapshot_options){ .marks = s->marks,
									.copies = s->copies,
									.copies_bytes =
										STORE_SNAPSHOT_COPIES_MIN + log_bytes,
									.log_bytes = log_bytes },
				      &err),
		  0);
	s->store->snapshot.copies_bytes = copies_bytes;
	make_tables(&s->f, s->tables);
	prng_seed(&s->prng, seed);
	s->push = open_push(SHOT_BATCH, SHOT_BATCH * SHOT_DIM * sizeof(double));
	s->slice_rows = 200;
	for (unsigned k = 0; k < SHOT_KEYS; k++)
		s->keys[k] = k % 2 ? k : prng_next(&s->prng);
}

void shots_close(struct shots *s)
{
	store_push_destroy(s->push);
	fixture_close(&s->f);
	free(s->marks);
	free(s->copies);
}

struct fixture shots_tables(struct store_table *tables[SHOT_TABLES])
{
	struct fixture f = fixture_open(ARENA);

	make_tables(&f, tables);
	return f;
}

/* ---- slices ---- */

static void append(struct capture *c, const void *bytes, size_t n)
{
	if (c->n + n > c->room) {
		c->room = 2 * (c->n + n);
		c->bytes = realloc(c->bytes, c->room);
		if (!c->bytes)
			abort();
	}
	memcpy(c->bytes + c->n, bytes, n);
	c->n += n;
}

void capture_free(struct capture *c)
{
	free(c->bytes);
	*c = (struct capture){ 0 };
}

bool shots_begin(struct shots *s, enum store_snapshot_kind kind, struct capture *capture)
{
	while (!store_snapshot_ready(s->store))
		continue;
	if (!store_snapshot_begin(s->store, kind))
		return false;
	*capture = (struct capture){ 0 };
	s->capture = capture;
	memset(s->touched, 0, sizeof(s->touched));
	return true;
}

void shots_slice(struct shots *s)
{
	static uint64_t out[OUT / sizeof(uint64_t)];
	const size_t room = STORE_SNAPSHOT_SLICE_MIN + 8 * prng_below(&s->prng, 2) * prng_below(&s->prng, 10000);
	bool over;
	size_t n;

	if (!s->capture || s->capture->over)
		return;
	n = store_snapshot_slice(s->store, out, room, 1 + prng_below(&s->prng, s->slice_rows), &over);
	CHECK(n <= room && n % 8 == 0);
	if (n)
		append(s->capture, out, n);
	s->capture->over = over;
}

bool shots_finish(struct shots *s)
{
	const bool lost = store_snapshot_lost(s->store);

	while (s->capture && !s->capture->over)
		shots_slice(s);
	s->capture = NULL;
	return !lost;
}

static void sometimes_slice(struct shots *s)
{
	if (prng_below(&s->prng, 3) == 0)
		shots_slice(s);
}

static void await_room(struct shots *s, const struct store_table *t, unsigned n, enum store_find_mode mode)
{
	while (!store_snapshot_room(s->store, store_snapshot_need(t, n, mode)) && CHECK(!s->capture->over)) {
		s->waits++;
		shots_slice(s);
	}
}

/* ---- operations ---- */

struct batch {
	unsigned n;
	uint64_t keys[SHOT_BATCH];
	float gradients[SHOT_BATCH][SHOT_DIM];
};

static void draw(struct shots *s, unsigned table, struct batch *b, unsigned most)
{
	const unsigned range = 1 + prng_below(&s->prng, SHOT_KEYS);

	b->n = 1 + prng_below(&s->prng, most);
	for (unsigned i = 0; i < b->n; i++) {
		const unsigned k = prng_below(&s->prng, range);

		b->keys[i] = s->keys[k];
		s->touched[table][k] = true;
		for (unsigned e = 0; e < SHOT_DIM; e++)
			b->gradients[i][e] = (float)(2 * prng_unit(&s->prng) - 1);
	}
}

static void push(struct shots *s, unsigned table, struct batch *b)
{
	struct store_table *t = s->tables[table];
	const unsigned slice = 1 + prng_below(&s->prng, STORE_BATCH);
	const void *pointers[STORE_BATCH];
	int result = 0;

	draw(s, table, b, SHOT_BATCH);
	store_push_begin(s->push);
	store_push_op(s->push, t, b->n);
	for (unsigned i = 0; i < b->n && !result; i += slice) {
		const unsigned n = b->n - i < slice ? b->n - i : slice;

		await_room(s, t, n, STORE_PUSH);
		result = store_push_keys(s->push, t, b->keys + i, n, s->step);
		sometimes_slice(s);
	}
	/* Some are given up; while one is under way there is no instant. */
	if (result || prng_below(&s->prng, 10) == 0) {
		CHECK(!store_snapshot_begin(s->store, STORE_SNAPSHOT_FULL));
		store_push_begin(s->push);
		return;
	}
	if (store_push_needs_look(t))
		CHECK_INT(look_at(s->push, t, b->gradients, STAR_FLOAT32, sizeof(b->gradients[0]), b->n, slice), 0);
	for (unsigned i = 0; i < b->n; i += slice) {
		const unsigned n = b->n - i < slice ? b->n - i : slice;

		for (unsigned j = 0; j < n; j++)
			pointers[j] = b->gradients[i + j];
		store_push_rows(s->push, t, pointers, STAR_FLOAT32, n);
		sometimes_slice(s);
	}
	CHECK(store_push_finish(s->push, t, 1));
}

static void pull(struct shots *s, unsigned table, struct batch *b)
{
	const enum store_find_mode mode = prng_below(&s->prng, 4) ? STORE_PULL : STORE_LOOK;
	store_row rows[STORE_BATCH];

	draw(s, table, b, STORE_BATCH);
	await_room(s, s->tables[table], b->n, mode);
	store_find(s->tables[table], b->keys, b->n, mode, s->step, rows);
}

void shots_grow(struct shots *s)
{
	const unsigned table = prng_below(&s->prng, SHOT_TABLES), first = prng_below(&s->prng, SHOT_KEYS / 2);
	store_row rows[STORE_BATCH];

	for (unsigned k = first; k + STORE_BATCH <= SHOT_KEYS; k += STORE_BATCH) {
		await_room(s, s->tables[table], STORE_BATCH, STORE_PULL);
		store_find(s->tables[table], s->keys + k, STORE_BATCH, STORE_PULL, s->step, rows);
		memset(s->touched[table] + k, true, STORE_BATCH);
		sometimes_slice(s);
	}
}

void shots_shrink(struct shots *s)
{
	const unsigned table = prng_below(&s->prng, SHOT_TABLES), first = prng_below(&s->prng, SHOT_KEYS / 2);

	for (unsigned k = first; k + STORE_BATCH <= SHOT_KEYS; k += STORE_BATCH) {
		await_room(s, s->tables[table], STORE_BATCH, STORE_PUSH);
		store_delete(s->tables[table], s->keys + k, STORE_BATCH);
		memset(s->touched[table] + k, true, STORE_BATCH);
		sometimes_slice(s);
	}
}

void shots_operate(struct shots *s)
{
	static struct batch b;
	const unsigned table = prng_below(&s->prng, SHOT_TABLES), kind = prng_below(&s->prng, 40);

	s->step += prng_below(&s->prng, 4) == 0;
	if (kind < 18 && table != SHOT_TABLES - 1) {
		push(s, table, &b);
	} else if (kind < 30) {
		pull(s, table, &b);
	} else if (kind < 34) {
		draw(s, table, &b, STORE_BATCH);
		await_room(s, s->tables[table], b.n, STORE_PUSH);
		store_delete(s->tables[table], b.keys, b.n);
	} else if (kind == 34) {
		store_sweep_begin(s->tables[table]);
	} else if (kind < 38) {
		store_sweep(s->store, 1 + prng_below(&s->prng, 2000));
	} else if (prng_below(&s->prng, 4) == 0) {
		(kind == 38 ? shots_grow : shots_shrink)(s);
	}
	sometimes_slice(s);
}

/* ---- images ---- */

void image_take(const struct shots *s, struct store_table *const tables[SHOT_TABLES], struct image *image)
{
	memset(image, 0, sizeof(*image));
	for (unsigned i = 0; i < SHOT_TABLES; i++) {
		const struct store_table *t = tables[i];

		image->step[i] = t->step;
		image->pushes[i] = t->stats.pushes;
		image->counts += t->filter.keys;
		CHECK(t->at.bytes <= SHOT_ROW_MAX);
		for (unsigned k = 0; k < SHOT_KEYS; k++) {
			const store_row row = store_index_find(&t->index, s->keys[k], index_hash(s->keys[k]));
			struct image_row *to = &image->rows[i][k];

			if (row == STORE_NO_ROW)
				continue;
			to->there = true;
			/* Without the bytes between its members, which are padding. */
			memcpy(to->bytes, table_row(t, row), t->at.record_head);
			memcpy(to->bytes + t->at.values, table_row(t, row) + t->at.values,
			       dtype_row_bytes(t->spec.dtype, SHOT_DIM));
			memcpy(to->bytes + t->at.slots, table_row(t, row) + t->at.slots, t->at.bytes - t->at.slots);
			if (t->at.master)
				memcpy(to->bytes + t->at.master, table_row(t, row) + t->at.master,
				       SHOT_DIM * sizeof(float));
			if (t->at.used)
				*row_word(to->bytes, t->at.used) =
					(t->tick | 1) - (*row_word(to->bytes, t->at.used) | 1);
		}
	}
}

bool image_is(const struct shots *s, const struct image *image, const struct image *found)
{
	for (unsigned i = 0; i < SHOT_TABLES; i++)
		for (unsigned k = 0; k < SHOT_KEYS; k++) {
			const struct image_row *want = &image->rows[i][k], *have = &found->rows[i][k];

			if (want->there == have->there && memcmp(want->bytes, have->bytes, SHOT_ROW_MAX) == 0)
				continue;
			CHECK_MEM(have->bytes, want->bytes, s->tables[i]->at.bytes);
			return unit_fail(__FILE__, __LINE__, "table %u, key %u: there %d, not %d", i, k, have->there,
					 want->there);
		}
	return true;
}

/* ---- captures ---- */

const struct checkpoint_run *capture_next(const struct capture *c, size_t *at, const uint8_t **records)
{
	const struct checkpoint_run *run = (const struct checkpoint_run *)(c->bytes + *at);

	if (*at == c->n || !CHECK(c->n - *at > sizeof(*run)))
		return NULL;
	*records = (const uint8_t *)(run + 1);
	*at += sizeof(*run) + (size_t)run->count * run->row_bytes;
	return CHECK(*at <= c->n && run->count > 0 && run->row_bytes % 8 == 0) ? run : NULL;
}

unsigned capture_shard(const struct store_table *table, uint64_t key, unsigned shards)
{
	return layout_owner(PARTITIONS, shards, layout_partition(hash_key(store_name_hash(table), key), PARTITIONS));
}

/* Those that are asked for keys which a block of a Bloom filter counts. */
static void shards_of_block(const struct store_table *table, uint64_t number, unsigned shards, unsigned *first,
			    unsigned *last)
{
	uint64_t from = 0, to = 0;

	CHECK(wire_checkpoint_bloom_hashes(&table->spec, number, &from, &to));
	*first = layout_owner(PARTITIONS, shards, layout_partition(from, PARTITIONS));
	*last = layout_owner(PARTITIONS, shards, layout_partition(to, PARTITIONS));
}

void capture_load(const struct shots *s, const struct capture *c, struct store_table *(*tables)[SHOT_TABLES],
		  unsigned shards)
{
	const struct checkpoint_run *run;
	struct star_error err = { 0 };
	const uint8_t *records;
	size_t at = 0;

	while ((run = capture_next(c, &at, &records))) {
		if (!CHECK(run->object >= 1 && run->object <= SHOT_TABLES))
			return;
		for (uint32_t i = 0; i < run->count; i++, records += run->row_bytes) {
			const unsigned table = run->object - 1;
			unsigned first = 0, last = shards - 1;

			if (run->kind == CHECKPOINT_BLOOM)
				shards_of_block(s->tables[table], row_key(records), shards, &first, &last);
			else if (run->kind != CHECKPOINT_TABLE)
				first = last = capture_shard(s->tables[table], row_key(records), shards);
			for (unsigned shard = first; shard <= last; shard++)
				if (!CHECK_INT(store_load(tables[shard][table], run, records, 1, &err), 0)) {
					printf("# %s\n", err.text);
					return;
				}
		}
	}
}
