/* SPDX-License-Identifier: BSD-3-Clause */
/* The model's parameters on a StarServer cluster: the tables words-in and words-out, with word ids as keys. */
#ifndef STARTRAIN_TABLES_H
#define STARTRAIN_TABLES_H

#include "app/startrain/options.h"
#include "app/startrain/quality.h"
#include "star.h"

struct tables {
	struct star_cluster *cluster;
	struct star_table *side[SIDES];
	uint64_t deadline_us;
	const char *wire; /* the type of rows and gradients on their way */
	unsigned wire_dtype;
	uint32_t dim;
};

/* Opens the cluster, as this worker of the job, and creates the tables or finds them. 0 or a negative errno. */
int tables_open(struct tables *t, const struct options *o, uint32_t worker, struct star_error *err);
void tables_close(struct tables *t);

/* Bytes of count rows on their way; 0: they travel as float32, and need no other memory than that. */
size_t tables_wire_bytes(const struct tables *t, uint32_t count);

/* Rows that have come, and gradients that are to go. Nothing is done when they travel as float32. */
void tables_unpack(const struct tables *t, float *rows, const void *wire, uint32_t count);
void tables_pack(const struct tables *t, void *wire, const float *rows, uint32_t count);

/* Reads rows and creates none; the function of a struct reader, whose ctx is the struct tables. */
int tables_read(void *ctx, enum side side, const uint64_t *keys, uint32_t count, float *rows, struct star_error *err);

#endif
