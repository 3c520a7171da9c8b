/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of a table of a running cluster: the nodes that have them, and what they are written to and read from. One
 * thread. */
#ifndef STARCTL_ROWS_H
#define STARCTL_ROWS_H

#include "app/starctl/starctl.h"
#include "ckpt/row.h"
#include "jsonrpc/jsonrpc.h"
#include "wire/object.h"

/* ---- nodes.c: a table, and all PS tasks of its cluster ---- */

struct row_node {
	struct jsonrpc_client *client;
	uint32_t reactors;
	uint64_t rows, pushes, removed, step; /* its figures of the table */
};

struct row_source {
	struct object_spec spec;
	struct ckpt_row_shape shape;
	uint32_t partitions, nodes_count;
	struct row_node *nodes;
	char *ps; /* their control addresses, as star_open takes them */
};

/* Connects to all of them; the table is there, or -ENOENT with the nearest name. */
int row_source_open(struct row_source *source, const struct invocation *invocation, const char *table,
		    struct star_error *err);
void row_source_close(struct row_source *source); /* also after a failure; zeros are allowed */

/* Is told each of n keys of a node, in their order: its row as a checkpoint has it, or NULL. 0, or a negative errno,
 * which ends it. */
typedef int row_consumer(void *ctx, uint64_t key, const uint8_t *record, struct star_error *err);
int row_source_read(struct row_source *source, uint32_t node, const uint64_t *keys, size_t n, row_consumer *take,
		    void *ctx, struct star_error *err);
/* All rows of all nodes, each once. */
int row_source_walk(struct row_source *source, row_consumer *take, void *ctx, struct star_error *err);

/* ---- row_file.c: rows in files ---- */

enum row_format { ROW_LINES = 1, ROW_CSV, ROW_NPY };

/* By how the name ends: .jsonl, .json, .csv or .npy; NULL and "-" are lines. 0 with a message. */
enum row_format row_format_of(const char *path, struct star_error *err);

enum { ROW_PARTS = 3, ROW_PATH_MAX = 4096, ROW_LINE_MAX = 16 << 20 };

/* "words.npy" to "words.keys.npy", and .values and .scales; part 0 of the other formats is the path itself. */
int row_part_path(enum row_format format, const char *path, unsigned part, char to[static ROW_PATH_MAX],
		  struct star_error *err);
/* How many files there are: of scaled_int8 the scales have one of their own. */
unsigned row_parts(enum row_format format, const struct object_spec *spec);

/* A key in decimal digits, or in hexadecimal ones behind 0x; a negative one k stands for 2^64 + k, as int64 has it. */
bool row_key_parse(const char *text, uint64_t *key);

/* The type of a .npy file's elements, little endian: "<f4"; NULL: numpy has it not. And back: 0, or an error. */
const char *row_npy_type(unsigned dtype);
/* What is in a .npy file of values: float32 for bfloat16, int8 for scaled_int8. */
unsigned row_npy_dtype(const struct object_spec *spec);

/* ---- row_write.c, row_read.c ---- */

struct row_writer;

/* Files get their names when they are complete; out: for lines without a path. NULL with err. */
struct row_writer *row_writer_open(const struct row_source *source, enum row_format format, const char *path, FILE *out,
				   struct star_error *err);
int row_writer_put(struct row_writer *writer, const uint8_t *record, struct star_error *err);
/* good: it is to be kept. Frees the writer. 0 or why it could not be written. */
int row_writer_close(struct row_writer *writer, bool good, struct star_error *err);

struct row_reader;

/* in: for lines without a path. An error names file and line. NULL with err. */
struct row_reader *row_reader_open(const struct object_spec *spec, enum row_format format, const char *path, FILE *in,
				   struct star_error *err);
/* The next row: its key and values, of the type row_reader_dtype. 1; 0: there are no more, and it ended as it should;
 * or an error. */
int row_reader_next(struct row_reader *reader, uint64_t *key, void *values, struct star_error *err);
unsigned row_reader_dtype(const struct row_reader *reader); /* as wire/object.h has them; known from the beginning */
void row_reader_share(const struct row_reader *reader, uint64_t *done, uint64_t *total); /* bytes; total 0: unknown */
void row_reader_close(struct row_reader *reader);					 /* NULL is allowed */

#endif
