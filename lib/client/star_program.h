/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs: what a step computes on the reactors, beside the rows, in the same round trip as its pulls and pushes
 * (docs/programs.rst). A program is put together once, registered, and then run by STAR_RUN operations of star_execute:
 *
 *     struct star_program_builder *b = star_program_begin(cluster);
 *     int keys = star_program_keys(b, table), bags = star_program_segments(b, keys);
 *
 *     star_program_fetch(b, star_program_pool(b, star_program_lookup(b, keys, 0), bags));
 *     program = star_program_register(b, 0, &err);
 *
 * Every call between begin and register adds a node, and returns its number, from 0, for later ones; or a negative
 * errno, after which register fails with the reason: -EINVAL (a node, name, flag or place that there is not, a table of
 * another cluster handle, a dim that is not 1 to 4096), -E2BIG (more than 64 nodes), -ENOMEM (the builder is NULL).
 * What can be checked on the whole program only, register refuses. Rows are float32. A builder is one thread's;
 * programs are anybody's, as tables are. Of a key that a run names several times a look-up gives the row for each, pool
 * counts each, and apply sums the gradients first and applies them once.
 */
#ifndef STAR_PROGRAM_H
#define STAR_PROGRAM_H

#include "star.h"

#ifdef __cplusplus
extern "C" {
#endif

struct star_program;
struct star_program_builder;

/* NULL: out of memory (then the other calls do nothing, and register says so). cluster must stay open. */
STAR_API struct star_program_builder *star_program_begin(struct star_cluster *cluster);

/* ---- feeds: what each run carries, in the order of these calls ---- */

/* Keys of a table, or numbers of a variable's blocks (0 to star_blocks - 1). Each reactor gets those that it owns.
 * Duplicates are allowed. */
STAR_API int star_program_keys(struct star_program_builder *b, const struct star_table *table);
/* For each of these keys a row of dim elements. */
STAR_API int star_program_rows(struct star_program_builder *b, int keys, uint32_t dim);
/* For each of these keys the number of a segment (uint32_t), below star_run.segments: a bag, an example of the
 * batch. */
STAR_API int star_program_segments(struct star_program_builder *b, int keys);
/* The same of runs with `most` segments at most, 1 to 65536: a number takes one byte up to 256 of them, else two, where
 * star_program_segments takes four. The run's feed is uint32_t all the same. A run with more than 256 segments of a
 * program that was made for 256 or fewer is refused with -EINVAL. */
STAR_API int star_program_few_segments(struct star_program_builder *b, int keys, uint32_t most);
/* One row, which every reactor gets. */
STAR_API int star_program_shared(struct star_program_builder *b, uint32_t dim);
/* A row for each segment, which every reactor gets. */
STAR_API int star_program_segment_rows(struct star_program_builder *b, uint32_t dim);

/*
 * What an earlier run has kept on each reactor, so that it need not be sent again: keys, and what is aligned with them,
 * in a place of 0 to 7. The run's feeds have the same keys nevertheless, in the same order: libstar cuts by them. Of
 * the others a run may give the data, or NULL: what is not there any more, or found no room, libstar then sends itself,
 * or the run fails with -ENODATA.
 */
STAR_API int star_program_kept_keys(struct star_program_builder *b, const struct star_table *table);
STAR_API int star_program_kept_rows(struct star_program_builder *b, int keys, uint32_t dim, uint32_t place);
STAR_API int star_program_kept_segments(struct star_program_builder *b, int keys, uint32_t place);

/* ---- steps ---- */

/* The rows of these keys, as a pull reads them before anything is applied to them; flags: STAR_READ_ONLY. One for each
 * keys feed. */
STAR_API int star_program_lookup(struct star_program_builder *b, int keys, uint32_t flags);
/* Element by element, or, of row_sum, row_mean and row_max, a row's elements to one (of row_sum64 to two, the bytes of
 * a float64): docs/programs.rst has the names. constant: of scale and offset, else 0. */
STAR_API int star_program_unary(struct star_program_builder *b, const char *name, int x, float constant);
/* Rows of the same keys, or what is shared; equally wide, or one of them of one element. dot: to one element. */
STAR_API int star_program_binary(struct star_program_builder *b, const char *name, int x, int y);
/* For each segment the sum of its rows. It can be fetched, and no more: each reactor has its part of the sum only. */
STAR_API int star_program_pool(struct star_program_builder *b, int rows, int segments);
/* For each key the row of its segment: how a pool's gradient goes back to its rows. */
STAR_API int star_program_unpool(struct star_program_builder *b, int segment_rows, int segments);
/* Pushes these rows as the keys' gradients. One for each keys feed. */
STAR_API int star_program_apply(struct star_program_builder *b, int keys, int gradients);
/* Rows by key, or a pool, are among a run's results, in the order of these calls. */
STAR_API int star_program_fetch(struct star_program_builder *b, int x);
/* Keeps keys (place 0), and rows by key or segments of these keys in places of 0 to 7, for later runs with the same
 * tag: docs/programs.rst. */
STAR_API int star_program_keep(struct star_program_builder *b, int x, uint32_t place);

/*
 * Registers the program with the cluster, and frees the builder, also if that fails. Workers that register the same
 * nodes in the same order share one program. NULL with -EINVAL (a node that cannot be, and why), -ENOSPC (there are too
 * many programs), or as star_table_create. The handle lives as long as the cluster.
 */
STAR_API struct star_program *star_program_register(struct star_program_builder *b, uint64_t deadline_us,
						    struct star_error *err);
/* Frees a builder without registering. NULL is allowed. */
STAR_API void star_program_abandon(struct star_program_builder *b);

/* One run: star_op.run of a STAR_RUN. */
struct star_feed {
	/* Keys: count of them, uint64_t. Aligned with keys: as many rows of float, or segments of uint32_t. Shared: a
	 * row; segment rows: a row for each segment. */
	const void *data;
	uint32_t count; /* of keys feeds: how many, perhaps 0, but not of all; of others it is not looked at */
};

struct star_run {
	struct star_program *program;
	const struct star_feed *feeds; /* all, in the order in which they were added */
	uint32_t feeds_count;
	/* Of each fetch, in order, where it goes: a row for each key in the keys' order, or for each segment the sum
	 * over all reactors, those of the first one first. Each has room for as many rows of dim floats (row_sum64: of
	 * two), without gaps. After a failed run what stands there is undefined. */
	float *const *fetches;
	uint32_t fetches_count;
	uint32_t segments; /* 1 to 65536; 0 of a program without */
	/* Of a program that keeps, or takes what was kept: what belongs together has the same tag, which no other step
	 * of this cluster handle has at the time; not 0. last: no later run takes it. */
	uint64_t tag;
	uint32_t last;
};

#ifdef __cplusplus
}
#endif
#endif
