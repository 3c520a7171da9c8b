/* SPDX-License-Identifier: BSD-3-Clause */
/* The rows of a table of a running cluster: the nodes that have them, and the files that they are written to or read
 * from. Single-threaded. */
#ifndef STARCTL_ROWS_H
#define STARCTL_ROWS_H

#include "app/starctl/starctl.h"
#include "ckpt/row.h"
#include "jsonrpc/jsonrpc.h"
#include "wire/object.h"

/* ---- nodes.c: a table on all PS tasks of its cluster ---- */

struct row_node {
	struct jsonrpc_client *client;
	uint32_t reactors;
	uint64_t rows, step;	  /* the table's figures on this node, ... */
	uint64_t pushes, removed; /* ... and those of the shard with the most */
};

struct row_source {
	struct object_spec spec;
	struct ckpt_row_shape shape;
	uint32_t partitions, nodes_count;
	struct row_node *nodes;
	char *ps; /* their control addresses, as star_open takes them */
};

/* Connects to all nodes. -ENOENT: there is no such table; the message suggests the most similar name. */
int row_source_open(struct row_source *source, const struct invocation *invocation, const char *table,
		    struct star_error *err);
void row_source_close(struct row_source *source); /* also after a failure, or of zeros */

/* Called for each of n keys of a node, in their order, with the row in the format of checkpoints, or NULL if there is
 * none. 0, or a negative errno, which ends the reading. */
typedef int row_consumer(void *ctx, uint64_t key, const uint8_t *record, struct star_error *err);
int row_source_read(struct row_source *source, uint32_t node, const uint64_t *keys, size_t n, row_consumer *take,
		    void *ctx, struct star_error *err);
/* All rows of all nodes, once each. */
int row_source_walk(struct row_source *source, row_consumer *take, void *ctx, struct star_error *err);

/* ---- row_file.c: rows in files ---- */

enum row_format { ROW_LINES = 1, ROW_CSV, ROW_NPY };

/* From the ending of the name: .jsonl, .json, .csv or .npy; NULL and "-" mean lines. 0 with err: unknown. */
enum row_format row_format_of(const char *path, struct star_error *err);

enum { ROW_PARTS = 3, ROW_PATH_MAX = 4096, ROW_LINE_MAX = 16 << 20 };

/* The path of a part: "words.keys.npy", "words.values.npy" or "words.scales.npy" for "words.npy"; the other formats
 * have only part 0, which is the path itself. */
int row_part_path(enum row_format format, const char *path, unsigned part, char to[static ROW_PATH_MAX],
		  struct star_error *err);
/* The number of files; scales of scaled_int8 have their own. */
unsigned row_parts(enum row_format format, const struct object_spec *spec);

/* Parses a key, decimal or hexadecimal with 0x; a negative k stands for 2^64 + k, as in int64. */
bool row_key_parse(const char *text, uint64_t *key);

/* NumPy's name of an element type, little endian: "<f4"; NULL: NumPy does not have it. */
const char *row_npy_type(unsigned dtype);
/* The element type of a .npy file of values: float32 for bfloat16, int8 for scaled_int8. */
unsigned row_npy_dtype(const struct object_spec *spec);

/* ---- row_write.c, row_read.c ---- */

struct row_writer;

/* Files get their final names when they are complete. out: where lines without a path go. NULL with err. */
struct row_writer *row_writer_open(const struct row_source *source, enum row_format format, const char *path, FILE *out,
				   struct star_error *err);
int row_writer_put(struct row_writer *writer, const uint8_t *record, struct star_error *err);
/* good: keep the file. Frees the writer. 0, or a negative errno with err. */
int row_writer_close(struct row_writer *writer, bool good, struct star_error *err);

struct row_reader;

/* in: where lines without a path come from. Errors name the file and the line. NULL with err. */
struct row_reader *row_reader_open(const struct object_spec *spec, enum row_format format, const char *path, FILE *in,
				   struct star_error *err);
/* The next row: its key, and its values of type row_reader_dtype. 1; 0: the end, in good order; or an error. */
int row_reader_next(struct row_reader *reader, uint64_t *key, void *values, struct star_error *err);
unsigned row_reader_dtype(const struct row_reader *reader); /* of wire/object.h; known from the start */
void row_reader_share(const struct row_reader *reader, uint64_t *done, uint64_t *total); /* bytes; total 0: unknown */
void row_reader_close(struct row_reader *reader);					 /* NULL is allowed */

#endif
