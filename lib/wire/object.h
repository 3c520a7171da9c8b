/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a table or a variable is: the catalogue's entry, agreed on by client, control plane and store. Plain data.
 *
 * A variable is kept as a table: its elements, in row-major order, are cut into blocks of block_elements (the last one
 * padded with elements that nobody reads), and block b is the row of key b. So a variable is spread over the
 * partitions like any table, and the store knows rows only.
 */
#ifndef WIRE_OBJECT_H
#define WIRE_OBJECT_H

#include <stdint.h>

#include "star_error.h"
#include "wire/frame.h"

enum object_kind { OBJECT_TABLE = 1, OBJECT_VARIABLE = 2 };

enum object_initializer {
	OBJECT_ZEROS = 1,
	OBJECT_CONSTANT = 2, /* scale everywhere */
	OBJECT_UNIFORM = 3,  /* uniform in [-scale, scale) */
	OBJECT_NORMAL = 4,   /* mean 0, standard deviation scale */
};

enum object_optimizer { OBJECT_SGD = 1, OBJECT_ADAGRAD = 2 };

enum { OBJECT_NDIM_MAX = 8 };

struct object_spec {
	uint32_t id; /* given by the catalogue, from 1 */
	uint8_t kind;
	uint8_t dtype;
	uint8_t initializer;
	uint8_t optimizer;
	uint32_t dim; /* elements of a row; of a variable: of a block */
	uint32_t ndim;
	uint64_t shape[OBJECT_NDIM_MAX]; /* variables */
	uint64_t seed;
	float scale;		   /* of the initializer */
	float rate;		   /* learning rate */
	float epsilon;		   /* Adagrad: stands outside the square root */
	float initial_accumulator; /* Adagrad: the slot's first value */
	char name[WIRE_NAME_MAX + 1];
};

/* Checks names, types, sizes and numbers; fills in a variable's dim. 0, or -EINVAL with a sentence. */
int object_spec_check(struct object_spec *spec, struct star_error *err);

/* Equal but for the id? If not, a sentence with both sides, and -EEXIST. */
int object_spec_same(const struct object_spec *have, const struct object_spec *want, struct star_error *err);

/* Elements and blocks of a variable. */
uint64_t object_elements(const struct object_spec *spec);
uint64_t object_blocks(const struct object_spec *spec);

const char *object_kind_name(unsigned kind);
const char *object_initializer_name(unsigned initializer);
const char *object_optimizer_name(unsigned optimizer);
unsigned object_initializer_parse(const char *name);
unsigned object_optimizer_parse(const char *name);

#endif
