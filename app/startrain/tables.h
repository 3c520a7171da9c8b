/* SPDX-License-Identifier: BSD-3-Clause */
/* The model's parameters on a StarServer cluster: the tables words-in and words-out, with word ids as keys.
 * One thread. */
#ifndef STARTRAIN_TABLES_H
#define STARTRAIN_TABLES_H

#include "app/startrain/options.h"
#include "app/startrain/quality.h"
#include "star.h"

struct tables {
	struct star_cluster *cluster;
	struct star_table *side[SIDES];
	uint64_t deadline_us;
	const char *wire; /* element type of rows and gradients on the wire, by name and number; NULL: float32 */
	unsigned wire_dtype;
	uint32_t dim;
};

/* Opens the cluster as this worker of the job, and creates the tables unless they exist. 0 or a negative errno. */
int tables_open(struct tables *t, const struct options *o, uint32_t worker, struct star_error *err);
void tables_close(struct tables *t);

/* Bytes of `count` rows on the wire; 0: they are sent as float32, and need no buffer of their own. */
size_t tables_wire_bytes(const struct tables *t, uint32_t count);

/* Converts received rows from the wire's type, and gradients to it. No-ops if that is float32. */
void tables_unpack(const struct tables *t, float *rows, const void *wire, uint32_t count);
void tables_pack(const struct tables *t, void *wire, const float *rows, uint32_t count);

/* Reads rows, and creates none. For struct reader, with ctx a struct tables. */
int tables_read(void *ctx, enum side side, const uint64_t *keys, uint32_t count, float *rows, struct star_error *err);

#endif
