/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The definition of a table, variable or program: an entry of the catalogue, shared by client, control plane and store.
 * Pure data and pure functions.
 *
 * A variable is stored as a table. Its elements, in row-major order, are divided into blocks of `dim` elements (the
 * last one padded with elements that nobody reads), and block b is the row of key b. So a variable is spread over the
 * partitions like any table, and the store only knows rows. A `whole` variable has all its blocks in one home
 * partition, that of its name and key 0.
 *
 * A program (wire/program.h) is an entry of the catalogue too, so that it gets an id, is installed on all nodes, and is
 * in checkpoints, as tables are. Of the members it only has a name, which is derived from its bytes, an id with its
 * generation, and the bytes.
 */
#ifndef WIRE_OBJECT_H
#define WIRE_OBJECT_H

#include <stdbool.h>
#include <stdint.h>

#include "optim/options.h"
#include "star_error.h"
#include "wire/frame.h"
#include "wire/program.h"

enum object_kind { OBJECT_TABLE = 1, OBJECT_VARIABLE = 2, OBJECT_PROGRAM = 3 };

/* X(NAME, number, "name", text). fan_in and fan_out of glorot and he are those of the table: 1 and dim; of a variable:
 * of its last two dimensions, times the product of the others (docs/libstar.rst). */
#define OBJECT_INITIALIZERS(X) \
	X(ZEROS, 1, "zeros", "0") \
	X(CONSTANT, 2, "constant", "scale") \
	X(UNIFORM, 3, "uniform", "mean + [-scale, scale)") \
	X(NORMAL, 4, "normal", "mean and standard deviation scale") \
	X(ONES, 5, "ones", "1") \
	X(TRUNCATED_NORMAL, 6, "truncated_normal", "normal, drawn again beyond two standard deviations") \
	X(GLOROT_UNIFORM, 7, "glorot_uniform", "uniform, sqrt(6 / (fan_in + fan_out))") \
	X(GLOROT_NORMAL, 8, "glorot_normal", "truncated normal of variance 2 / (fan_in + fan_out)") \
	X(HE_UNIFORM, 9, "he_uniform", "uniform, sqrt(6 / fan_in)") \
	X(HE_NORMAL, 10, "he_normal", "truncated normal of variance 2 / fan_in")

enum object_initializer {
#define X(NAME, number, name, text) OBJECT_##NAME = number,
	OBJECT_INITIALIZERS(X)
#undef X
};

/* X(NAME, number, "name", text): the learning rate at a push's step t (from 0), as a factor on rate. Warm-up: first
 * (t + 1) / warmup_steps, then the schedule with t - warmup_steps. Cosine: Loshchilov, Hutter, ICLR 2017. */
#define OBJECT_SCHEDULES(X) \
	X(CONSTANT, 1, "constant", "1") \
	X(EXPONENTIAL, 2, "exponential", "schedule_rate ^ (t / schedule_steps)") \
	X(COSINE, 3, "cosine", "half a cosine from 1 to schedule_rate in schedule_steps, and stays there")

#define OBJECT_FILTERS(X) \
	X(NONE, 1, "none", "every key gets a row at its first use") \
	X(COUNTER, 2, "counter", "a counter for each key: DeepRec's CounterFilter") \
	X(BLOOM, 3, "bloom", "a counting Bloom filter: DeepRec's CBFFilter")

/* What happens if there is no room for a new row. */
#define OBJECT_FULLS(X) \
	X(REFUSE, 1, "refuse", "the request is refused") \
	X(EVICT_LRU, 2, "evict_lru", "the least recently used row is evicted") \
	X(EVICT_LFU, 3, "evict_lfu", "the least frequently used row is evicted")

/* What is done with a gradient that has NaN or infinities; all are counted. */
#define OBJECT_NONFINITES(X) \
	X(REFUSE, 1, "refuse", "the whole request is refused") \
	X(CLIP, 2, "clip", "NaN counts as 0, an infinity as the greatest finite number") \
	X(PASS, 3, "pass", "it is applied")

#define X(NAME, number, name, text) SCHEDULE_##NAME = number,
enum object_schedule { OBJECT_SCHEDULES(X) };
#undef X
#define X(NAME, number, name, text) FILTER_##NAME = number,
enum object_filter { OBJECT_FILTERS(X) };
#undef X
#define X(NAME, number, name, text) FULL_##NAME = number,
enum object_full { OBJECT_FULLS(X) };
#undef X
#define X(NAME, number, name, text) NONFINITE_##NAME = number,
enum object_nonfinite { OBJECT_NONFINITES(X) };
#undef X

enum { OBJECT_NDIM_MAX = 8 };

/*
 * Ids are reused after a table was dropped, each time with the next generation. Requests contain both (wire_op.object),
 * so a worker's handle of a dropped table never refers to another table.
 */
enum {
	OBJECT_ID_BITS = 15,
	OBJECT_IDS = 1 << OBJECT_ID_BITS,
	OBJECT_GENERATION_MAX = (1 << (32 - OBJECT_ID_BITS)) - 1
};
_Static_assert((int)WIRE_OBJECTS_MAX < (int)OBJECT_IDS, "an id has its bits");

struct object_spec {
	uint32_t id;	     /* assigned by the catalogue, from 1 */
	uint32_t generation; /* of the id; assigned by the catalogue too */
	uint8_t kind;
	uint8_t dtype; /* as stored */
	uint8_t initializer;
	uint8_t schedule;
	uint8_t filter;
	uint8_t full;
	uint8_t nonfinite;
	uint8_t whole;	    /* variables: all blocks in one home partition */
	uint8_t master;	    /* narrow types: float32 values beside them, for the optimizer */
	uint8_t stochastic; /* narrow types: stochastic rounding instead of to nearest */
	uint8_t versions;   /* rows count their pushes; variables always do */
	/* rate / max(1, pushes that the shard's table had since the worker last pulled): ElasticDL's */
	uint8_t staleness;
	uint32_t dim; /* elements of a row; for a variable, of a block */
	uint32_t ndim;
	uint64_t shape[OBJECT_NDIM_MAX]; /* variables */
	uint64_t seed;
	float scale, mean; /* of the initializer */
	struct optim_options optim;
	uint64_t warmup_steps, schedule_steps;
	float schedule_rate;
	float clip_global_norm; /* whole variables: limit for the norm of the whole gradient; 0: none */
	/* Admission: a key gets a row at its filter_frequency-th pull or push; before that it reads as filter_value. */
	uint32_t filter_frequency;
	float filter_value;
	uint64_t filter_keys; /* Bloom: the number of distinct keys for which it is sized */
	float filter_error;   /* and the share of keys that it admits too early then */
	/* Eviction. */
	uint64_t steps_to_live; /* rows not pushed or pulled for this many training steps are removed; 0: never */
	float l2_threshold; /* rows with half a sum of squares below it are removed; 0: none (l2_weight_threshold) */
	uint64_t rows_max;  /* of the table, over all shards; 0: only memory limits it */
	char name[WIRE_NAME_MAX + 1];
	struct program program; /* of programs */
};

/* The id and generation as in requests, and the id from that. */
static inline uint32_t object_wire_id(const struct object_spec *spec)
{
	return spec->generation << OBJECT_ID_BITS | spec->id;
}
static inline uint32_t object_id_of(uint32_t wire_id)
{
	return wire_id & (OBJECT_IDS - 1);
}

/* Whether a program uses an object. */
static inline bool object_is_used_by(const struct object_spec *spec, const struct object_spec *program)
{
	return program->kind == OBJECT_PROGRAM && wire_program_uses(&program->program, spec->id, spec->generation);
}

/* A member of a spec, for JSON, star_spec.options, help and comparison: all members after `dim` and `shape`, except the
 * optimizer's kind, on which the optimizer's own members depend. */
enum object_option_type { OPTION_FLOAT, OPTION_U32, OPTION_U64, OPTION_SWITCH, OPTION_NAME };
struct object_option {
	const char *name;
	uint8_t type;
	uint8_t of_optimizer; /* its default, and whether it applies, depend on the optimizer */
	uint16_t offset;      /* in object_spec */
	double least, most, standard;
	const char *(*name_of)(unsigned number); /* OPTION_NAME: numbers from 1 on; NULL beyond the last */
	const char *text;
};
extern const struct object_option wire_object_options[]; /* ended by one without a name */
extern const unsigned wire_object_options_count;

/* An option's value: _whole for all types except OPTION_FLOAT, _float for that. _set uses `whole` or `number`
 * accordingly. */
uint64_t wire_object_option_whole(const struct object_option *option, const struct object_spec *spec);
float wire_object_option_float(const struct object_option *option, const struct object_spec *spec);
void wire_object_option_set(const struct object_option *option, struct object_spec *spec, uint64_t whole, float number);

/* Whether the member applies to a spec with this optimizer. */
bool wire_object_option_used(const struct object_option *option, unsigned optimizer);

/* The number of a name of an OPTION_NAME; 0 for none. */
unsigned wire_object_option_parse(const struct object_option *option, const char *name);

/* Writes an option's value as wire_object_spec_options accepts it ("0.1", "cosine"); or the possible values ("0 to 1",
 * "constant, cosine"). Return text. */
enum { OBJECT_OPTION_TEXT = 160 };
const char *wire_object_option_text(const struct object_option *option, const struct object_spec *spec,
				    char text[static OBJECT_OPTION_TEXT]);
const char *wire_object_option_possible(const struct object_option *option, char text[static OBJECT_OPTION_TEXT]);

/* The shortest decimal number that reads back as this float: "0.1", not "0.100000001". */
const char *wire_object_float_text(float number, char text[static OBJECT_OPTION_TEXT]);

/* Sets the optimizer's kind, and all options to their defaults. */
void wire_object_spec_defaults(struct object_spec *spec, unsigned optimizer);

/* Parses text such as "beta1=0.8, filter=counter" into spec. The error for an unknown name suggests the most similar
 * one. text NULL: does nothing. */
int wire_object_spec_options(struct object_spec *spec, const char *text, struct star_error *err);

/* Checks names, types, sizes, numbers and their combinations; sets derived members: a variable's dim, and that its rows
 * have versions. 0, or -EINVAL with err. */
int wire_object_spec_check(struct object_spec *spec, struct star_error *err);

/* Whether the gradient of a variable that is needed as a whole (optimizer lamb, clip_global_norm) fits into a request
 * of payload_max bytes. 0, or -EINVAL with err. */
int wire_object_check_whole(const struct object_spec *spec, uint32_t payload_max, struct star_error *err);

/* 0 if two specs are equal except for id and generation; else -EEXIST with err, which has both sides. */
int wire_object_spec_same(const struct object_spec *have, const struct object_spec *want, struct star_error *err);

/* Elements and blocks of a variable. */
uint64_t wire_object_elements(const struct object_spec *spec);
uint64_t wire_object_blocks(const struct object_spec *spec);

/* The learning rate of a push at a step (from 1, as in pushes): rate with schedule and warm-up. The same bits
 * everywhere. */
float wire_object_rate(const struct object_spec *spec, float rate, uint64_t step);

/* The key that determines a row's partition. */
static inline uint64_t object_partition_key(const struct object_spec *spec, uint64_t key)
{
	return spec->whole ? 0 : key;
}

const char *wire_object_kind_name(unsigned kind);
const char *wire_object_initializer_name(unsigned initializer);
unsigned wire_object_initializer_parse(const char *name);

#endif
