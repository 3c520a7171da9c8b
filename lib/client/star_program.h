/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs: computation on the reactors, where the rows are, in the same round trip as a step's pulls and pushes
 * (docs/programs.rst). A program is built once, registered, and then run by STAR_RUN operations of star_execute:
 *
 *     struct star_program_builder *b = star_program_begin(cluster);
 *     int keys = star_program_keys(b, table), bags = star_program_segments(b, keys);
 *
 *     star_program_fetch(b, star_program_pool(b, star_program_lookup(b, keys, 0), bags));
 *     program = star_program_register(b, 0, &err);
 *
 * Every call between begin and register adds a node, and returns its number, from 0, for use in later calls; or a
 * negative errno, after which register fails with the reason: -EINVAL (no such node, name, flag or place; a table of
 * another cluster handle; a dim that is not 1 to 4096), -E2BIG (more than 64 nodes), -ENOMEM (the builder is NULL).
 * Errors that only show in the whole program are returned by register. Rows are float32. A builder may be used by one
 * thread; programs may be used by any, as tables. If a run names a key several times, a look-up returns its row each
 * time, pool adds it each time, and apply sums its gradients and applies the sum once.
 */
#ifndef STAR_PROGRAM_H
#define STAR_PROGRAM_H

#include "star.h"

#ifdef __cplusplus
extern "C" {
#endif

struct star_program;
struct star_program_builder;

/* NULL: out of memory. Then the other calls return -ENOMEM, and register fails. The cluster must stay open. */
STAR_API struct star_program_builder *star_program_begin(struct star_cluster *cluster);

/* ---- feeds: the inputs of each run, in the order of these calls ---- */

/* Keys of a table, or numbers of a variable's blocks (0 to star_blocks - 1). Each reactor gets those that it owns.
 * Repeated keys are allowed. */
STAR_API int star_program_keys(struct star_program_builder *b, const struct star_table *table);
/* A row of dim elements for each of these keys. */
STAR_API int star_program_rows(struct star_program_builder *b, int keys, uint32_t dim);
/* The number of a segment (uint32_t) for each of these keys, below star_run.segments. A segment is a bag, or an example
 * of the batch. */
STAR_API int star_program_segments(struct star_program_builder *b, int keys);
/* The same for runs with at most `most` segments, 1 to 65536. On the wire a number then takes one byte if most is at
 * most 256, else two, instead of the four of star_program_segments. The run's feed is uint32_t in any case. If most is
 * at most 256, a run with more than 256 segments fails with -EINVAL. */
STAR_API int star_program_few_segments(struct star_program_builder *b, int keys, uint32_t most);
/* One row, which is sent to every reactor. */
STAR_API int star_program_shared(struct star_program_builder *b, uint32_t dim);
/* A row for each segment; all are sent to every reactor. */
STAR_API int star_program_segment_rows(struct star_program_builder *b, uint32_t dim);

/*
 * What an earlier run has kept on each reactor, so that it need not be sent again: keys, and rows or segments for them
 * in places 0 to 7. The run's keys feed must have the same keys in the same order, because libstar splits the run by
 * them. The data of the other feeds may be NULL. If it is given, libstar sends it when a reactor no longer has it, or
 * had no room for it; otherwise the run then fails with -ENODATA.
 */
STAR_API int star_program_kept_keys(struct star_program_builder *b, const struct star_table *table);
STAR_API int star_program_kept_rows(struct star_program_builder *b, int keys, uint32_t dim, uint32_t place);
STAR_API int star_program_kept_segments(struct star_program_builder *b, int keys, uint32_t place);

/* ---- steps ---- */

/* The rows of these keys, as a pull would read them before this run applies anything. flags: 0 or STAR_READ_ONLY. At
 * most one for each keys feed. */
STAR_API int star_program_lookup(struct star_program_builder *b, int keys, uint32_t flags);
/* An operation on each element; or, for row_sum, row_mean and row_max, from a row's elements to one (row_sum64: to two,
 * the bytes of a float64). docs/programs.rst lists the names. constant: for scale and offset; else 0. */
STAR_API int star_program_unary(struct star_program_builder *b, const char *name, int x, float constant);
/* An operation on rows of the same keys, or on shared rows. Both have the same dim, or one of them has dim 1. The
 * result of dot has one element. */
STAR_API int star_program_binary(struct star_program_builder *b, const char *name, int x, int y);
/* The sum of the rows of each segment. It can only be fetched, because each reactor has only a part of the sum. */
STAR_API int star_program_pool(struct star_program_builder *b, int rows, int segments);
/* The row of its segment for each key: for propagating a pool's gradient to rows. */
STAR_API int star_program_unpool(struct star_program_builder *b, int segment_rows, int segments);
/* Pushes these rows as the keys' gradients. At most one for each keys feed. */
STAR_API int star_program_apply(struct star_program_builder *b, int keys, int gradients);
/* Adds rows by key, or a pool, to a run's results, in the order of these calls. */
STAR_API int star_program_fetch(struct star_program_builder *b, int x);
/* Keeps keys (place must be 0), or rows by key or segments of these keys in a place of 0 to 7, for later runs with the
 * same tag (docs/programs.rst). */
STAR_API int star_program_keep(struct star_program_builder *b, int x, uint32_t place);

/*
 * Registers the program with the cluster, and frees the builder, also if that fails. Workers that register the same
 * nodes in the same order share one program. NULL with err: -EINVAL (an invalid node, and why), -ENOSPC (there are too
 * many programs), or as star_table_create. The handle is valid as long as the cluster is open.
 */
STAR_API struct star_program *star_program_register(struct star_program_builder *b, uint64_t deadline_us,
						    struct star_error *err);
/* Frees a builder without registering. NULL is allowed. */
STAR_API void star_program_abandon(struct star_program_builder *b);

/* One run: star_op.run of a STAR_RUN. */
struct star_feed {
	/* Keys: `count` of uint64_t. Rows and segments by key: as many rows of float, or numbers of uint32_t. Shared:
	 * one row. Segment rows: a row for each segment. */
	const void *data;
	uint32_t count; /* for keys feeds: their number; 0 is allowed, but not for all. Ignored for other feeds */
};

struct star_run {
	struct star_program *program;
	const struct star_feed *feeds; /* all feeds, in the order in which they were added */
	uint32_t feeds_count;
	/* Where each fetch is written, in order: a row for each key, in the keys' order; or for each segment the sum
	 * over all reactors, added in the reactors' order. Each must have room for that many rows of dim floats
	 * (row_sum64: two), without gaps. After a failed run the contents are undefined. */
	float *const *fetches;
	uint32_t fetches_count;
	uint32_t segments; /* 1 to 65536; 0 if the program has none */
	/* For programs that keep values or use kept ones: runs that belong together have the same tag, which is not 0,
	 * and which no other step of this cluster handle has at the time. last: not 0 if no later run uses what was
	 * kept. */
	uint64_t tag;
	uint32_t last;
};

#ifdef __cplusplus
}
#endif
#endif
