/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs and runs of them, put together by hand. */
#ifndef TESTS_SERVICE_PROGRAMS_H
#define TESTS_SERVICE_PROGRAMS_H

#include "tests/service/cases.h"

unsigned node(struct program *p, unsigned op, unsigned a, unsigned b);
unsigned node_keys(struct program *p, unsigned object);
/* ROWS, SHARED, SEGMENT_ROWS. */
unsigned node_rows(struct program *p, unsigned op, unsigned a, uint32_t dim);

int install_program(unsigned id, const struct program *p, struct star_error *err);
void install_good(unsigned id, const struct program *p);

/* A run's header, and its body as it grows. */
struct body {
	struct wire_op op;
	struct request r;
};

/* The header, and the counts of the KEYS feeds. */
void body_begin(struct body *b, unsigned id, const struct program *p, const uint32_t *counts, uint32_t segments);
/* Appends a feed, padded. */
void body_part(struct body *b, const void *bytes, size_t n);
/* Appends it to a request, and empties it. */
void body_into(struct body *b, struct request *r);
/* Runs it alone; the values of its result, up to the next call. */
const float *body_run(struct body *b, struct peer *peer, struct reply *reply);

#endif
