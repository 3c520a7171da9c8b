/* SPDX-License-Identifier: BSD-3-Clause */
/* How much memory and storage a table takes, without a node. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "app/starctl/starctl.h"
#include "machine/machine.h"
#include "store/size.h"
#include "wire/object.h"

enum {
	MIB = 1 << 20,
	WORDS_MAX = 64,
	PARTITIONS = 16384, /* cluster.partitions, unless the configuration sets it */
	SHARDS_MAX = PARTITIONS,
	FULL_PERCENT = 90, /* from which on `health` warns */
};

/* X(name, minimum, maximum, default): facts about the cluster, besides the table's own options. */
#define SIZE_WORDS(X) \
	X(rows, 0, 1e15, 0) \
	X(waiting, 0, 1e15, 0) \
	X(nodes, 1, SHARDS_MAX, 1) \
	X(reactors, 1, 1024, 1) \
	X(mbufs, 1023, (1 << 20) - 1, 16383) \
	X(mtu, 68, 9600, 1500)

struct sizing {
#define X(name, least, most, standard) uint64_t name;
	SIZE_WORDS(X)
#undef X
	bool has_rows;
	struct object_spec spec;
	struct store_size shard; /* of the fullest one */
	uint64_t shard_rows;	 /* the maximum number that it should have */
	uint64_t node_bytes;	 /* of a node if all of its shards are that full */
	uint64_t parameter_mib;	 /* such that `health` does not warn */
	uint64_t hugepages_mib;	 /* including packet buffers */
	double checkpoint_bytes; /* of all nodes */
};

static const struct {
	const char *name;
	size_t offset;
	double least, most;
	uint64_t standard;
} size_words[] = {
#define X(name, least, most, standard) { #name, offsetof(struct sizing, name), least, most, standard },
	SIZE_WORDS(X)
#undef X
};

enum { SIZE_WORDS_COUNT = sizeof(size_words) / sizeof(size_words[0]) };

void print_size_words(FILE *out)
{
	for (unsigned i = 0; i < SIZE_WORDS_COUNT; i++)
		fprintf(out, "%s=\n", size_words[i].name);
	fputs("dim=\nshape=\ndtype=\noptimizer=\n", out);
	for (const struct object_option *o = wire_object_options; o->name; o++)
		fprintf(out, "%s=\n", o->name);
}

static uint64_t *size_member(struct sizing *s, unsigned i)
{
	return (uint64_t *)((char *)s + size_words[i].offset);
}

/* 1: it was one of size_words. */
static int take_size_word(struct sizing *s, const char *word, unsigned *seen, struct star_error *err)
{
	const size_t bytes = strcspn(word, "=");
	unsigned i = 0;
	char *end;

	while (i < SIZE_WORDS_COUNT &&
	       (strlen(size_words[i].name) != bytes || memcmp(size_words[i].name, word, bytes) != 0))
		i++;
	if (i == SIZE_WORDS_COUNT || !word[bytes])
		return 0;
	if (*seen >> i & 1)
		return star_error_set(err, -EINVAL, "%s is given twice", size_words[i].name);
	*seen |= 1u << i;
	word += bytes + 1;
	errno = 0;
	*size_member(s, i) = strtoull(word, &end, 10);
	if (*word < '0' || *word > '9' || *end || errno || (double)*size_member(s, i) < size_words[i].least ||
	    (double)*size_member(s, i) > size_words[i].most)
		return star_error_set(err, -EINVAL, "%s is \"%.40s\": a number from %.0f to %.0f is needed",
				      size_words[i].name, word, size_words[i].least, size_words[i].most);
	s->has_rows |= i == 0;
	return 1;
}

static int read_sizing(const struct invocation *invocation, struct sizing *s, struct star_error *err)
{
	char *words[WORDS_MAX];
	unsigned seen = 0;
	int count = 0;

	*s = (struct sizing){ 0 };
	for (unsigned i = 0; i < SIZE_WORDS_COUNT; i++)
		*size_member(s, i) = size_words[i].standard;
	for (int i = 0; i < invocation->argc; i++) {
		const int rc = take_size_word(s, invocation->argv[i], &seen, err);

		if (rc < 0)
			return rc;
		if (rc == 0)
			words[count++] = invocation->argv[i];
	}
	if (spec_read("table", count, words, &s->spec, err) < 0)
		return -EINVAL;
	if (s->spec.kind == OBJECT_VARIABLE && s->has_rows)
		return star_error_set(err, -EINVAL, "the rows of a variable follow from shape=: leave out rows=");
	if (s->spec.kind == OBJECT_TABLE && !s->has_rows)
		return star_error_set(err, -EINVAL, "rows=N is needed: how many keys the table will have");
	if (s->nodes * s->reactors > SHARDS_MAX)
		return star_error_set(err, -EINVAL,
				      "nodes=%" PRIu64 " with reactors=%" PRIu64 " are %" PRIu64
				      " reactors: a cluster has at most %d, one for each partition",
				      s->nodes, s->reactors, s->nodes * s->reactors, SHARDS_MAX);
	if (s->spec.kind == OBJECT_VARIABLE)
		s->rows = wire_object_blocks(&s->spec);
	return 0;
}

/* The fullest shard's share of n keys: it may have one partition more than others, and keys are distributed at random
 * (four standard deviations). */
static uint64_t fullest(uint64_t n, double share)
{
	const double mean = (double)n * share, most = ceil(mean + 4 * sqrt(mean));

	return most < (double)n ? (uint64_t)most : n;
}

static int work_out(struct sizing *s, struct star_error *err)
{
	const uint64_t shards = s->nodes * s->reactors;
	const double share = ceil((double)PARTITIONS / (double)shards) / PARTITIONS;
	const double kept = s->spec.rows_max && (double)s->spec.rows_max < (double)s->rows ? (double)s->spec.rows_max
											   : (double)s->rows;
	const bool one_home = s->spec.whole;

	s->rows = (uint64_t)kept;
	s->shard_rows = one_home ? s->rows : fullest(s->rows, share);
	if (store_size(&s->spec, share, s->shard_rows, fullest(s->waiting, share), &s->shard, err) < 0)
		return -EINVAL;
	s->node_bytes = s->shard.total_bytes * s->reactors;
	s->parameter_mib = (s->node_bytes / FULL_PERCENT * 100 + MIB - 1) / MIB;
	/* Each reactor has a share, in pages of 2 MiB, and a store needs some at the start. */
	s->parameter_mib = (s->parameter_mib / s->reactors / 2 + 1) * 2 * s->reactors;
	s->hugepages_mib =
		machine_hugepages_mib(s->parameter_mib, (uint32_t)s->reactors, (uint32_t)s->mbufs, (uint32_t)s->mtu);
	s->checkpoint_bytes = kept * s->shard.record_bytes + (double)s->shard.filter_record * (double)shards;
	return 0;
}

static json_t *sizing_json(const struct sizing *s)
{
	const struct store_size *z = &s->shard;

#define INT(value) ((json_int_t)(value))
	return json_pack("{s:I, s:{s:I, s:I, s:I, s:I, s:I}, s:{s:I, s:I, s:I, s:I, s:I}, s:{s:I, s:I, s:I}, s:f}",
			 "rows", INT(s->rows), "row", "head_bytes", INT(z->head_bytes), "value_bytes",
			 INT(z->value_bytes), "master_bytes", INT(z->master_bytes), "slot_bytes", INT(z->slot_bytes),
			 "row_bytes", INT(z->row_bytes), "reactor", "rows", INT(s->shard_rows), "rows_bytes",
			 INT(z->rows_bytes), "index_bytes", INT(z->index_bytes), "filter_bytes", INT(z->filter_bytes),
			 "memory_bytes", INT(z->total_bytes), "node", "memory_bytes", INT(s->node_bytes),
			 "parameter_mib", INT(s->parameter_mib), "hugepages_mib", INT(s->hugepages_mib),
			 "checkpoint_bytes", s->checkpoint_bytes);
#undef INT
}

static void __attribute__((format(printf, 4, 5)))
add_size(struct table *table, const char *name, const char *value, const char *format, ...)
{
	char text[TABLE_CELL_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	table_row(table);
	table_set(table, 0, "%s", name);
	table_set(table, 1, "%s", value);
	table_set(table, 2, "%s", text);
}

static void show_sizing(const struct sizing *s, FILE *out)
{
	const struct store_size *z = &s->shard;
	struct table table;
	char text[24];

	table_init(&table);
	table_column(&table, "WHAT", false);
	table_column(&table, "SIZE", true);
	table_column(&table, "NOTE", false);
	snprintf(text, sizeof(text), "%u B", z->row_bytes);
	add_size(&table, "a row", text, "key and counts %u, values %u, masters %u, slots %u, and padding",
		 z->head_bytes, z->value_bytes, z->master_bytes, z->slot_bytes);
	add_size(&table, "rows of a reactor", human_bytes((double)z->rows_bytes, text),
		 "%" PRIu64 " rows, on the fullest of %" PRIu64, s->shard_rows, s->nodes * s->reactors);
	add_size(&table, "their index", human_bytes((double)z->index_bytes, text), "6 to 10.5 bytes per row");
	if (z->filter_bytes)
		add_size(&table, "filter", human_bytes((double)z->filter_bytes, text), "that admits keys");
	add_size(&table, "a node", human_bytes((double)s->node_bytes, text), "its reactors together");
	snprintf(text, sizeof(text), "%" PRIu64 " MiB", s->parameter_mib);
	add_size(&table, "memory.parameter_mib", text, "of a node with this table alone; %d %% full then",
		 FULL_PERCENT);
	snprintf(text, sizeof(text), "%" PRIu64 " MiB", s->hugepages_mib);
	add_size(&table, "hugepages of a node", text, "with packet buffers: scripts/hugepages reserve %" PRIu64 "M",
		 s->hugepages_mib);
	add_size(&table, "a full checkpoint", human_bytes(s->checkpoint_bytes, text), "of all nodes together");
	table_print(&table, out);
	table_fini(&table);
}

int run_size(const struct invocation *invocation)
{
	struct star_error err = { 0 };
	struct sizing s;

	if (read_sizing(invocation, &s, &err) < 0 || work_out(&s, &err) < 0)
		return fail(invocation, &err, STARCTL_USAGE);
	if (invocation->json)
		print_json(sizing_json(&s), invocation->out);
	else
		show_sizing(&s, invocation->out);
	return STARCTL_OK;
}
