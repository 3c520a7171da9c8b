/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Training examples from files, in batches. Formats:
 *   criteo  the Criteo display advertising challenge's: label, 13 integers, 26 words, separated by tabs; any but the
 *   label may be empty
 *   census  UCI's Census Income ("Adult"): 14 columns, ", " between them, "<=50K" or ">50K"; lines that begin with '|'
 *   are passed over
 *   libsvm  "label index:value index:value ...", '#' begins a comment
 *   text    a sentence a line, of words as vocabulary.h has them; lines without one are passed over, and there are no
 *   labels
 *   histories  label, user, item, category and what the user clicked on before, separated by tabs: "item:category
 *   item:category ...",
 *           the oldest first, or nothing
 *   one's own columns: schema.h (INPUT_SCHEMA)
 * Empty lines are passed over. What does not fit its format is an error with file, line and column.
 *
 * Words become ids by a hash of column and word, so that all columns may live in one table, and a clicked item has the
 * id of the same item in its column; a missing word is a word, but not in histories. Those of a text become ids by a
 * hash, too, or by their place in a vocabulary. Numbers: those of criteo as log(1 + x), 0 where x is missing or
 * negative; those of census as they are.
 *
 * A thread of the reader's own is some batches ahead. Which rows a worker reads, and in which order, depends on the
 * options alone. Threads: one reader, one thread at a time.
 */
#ifndef INPUT_INPUT_H
#define INPUT_INPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "input/plan.h"
#include "input/schema.h"
#include "input/vocabulary.h"
#include "star_error.h"

#pragma GCC visibility push(default) /* of libstartrain.so */
#ifdef __cplusplus
extern "C" {
#endif

enum input_format { INPUT_CRITEO = 1, INPUT_CENSUS, INPUT_LIBSVM, INPUT_TEXT, INPUT_HISTORIES, INPUT_SCHEMA };

enum input_limits {
	INPUT_LINE_MAX = 1 << 20, /* bytes */
	INPUT_IDS_MAX = 65536,	  /* of a row */
	INPUT_BATCH_MAX = 1 << 20,
	INPUT_SHUFFLE_MAX = 1 << 24,
	INPUT_COLUMN_MAX = 65535,
};

/* A slice that a work queue has handed out. */
struct input_slice {
	uint64_t number; /* in its epoch */
	uint32_t epoch;
	uint64_t handle; /* the queue's */
};

/*
 * Where a reader gets its slices from, instead of every workers-th row: a work queue (train/queue.h has one of PS task
 * 0's). plan: of the same files. take: 1; 0: there are no more; -EAGAIN: others have the last ones, of which some may
 * come back: without waiting, or after some time; or an error that ends reading. done: all rows of the slice are in
 * batches that input_finished has named. take is called by the reader's thread, done by any; neither at the same time
 * as itself.
 */
struct input_slices {
	void *arg;
	const struct input_plan *plan;
	uint32_t epochs;
	int (*take)(void *arg, bool wait, struct input_slice *slice, struct star_error *err);
	void (*done)(void *arg, const struct input_slice *slice);
};

struct input_options {
	enum input_format format;
	const char *const *paths;
	uint32_t paths_count;
	uint32_t batch;		  /* rows */
	uint32_t epochs;	  /* passes over the files */
	uint32_t worker, workers; /* of the rows, this worker gets every workers-th, from number worker on */
	uint32_t shuffle;	  /* rows of which the next one is drawn; 0: the files' order */
	uint64_t seed;		  /* of that */
	uint32_t clicks;	  /* of a row's history, the latest this many; 0: all */
	/* Of text: a word's id is its place in there and one, and 0 if it lacks it; NULL: ids by hash. It is only
	 * read. */
	const struct vocabulary *vocabulary;
	const struct input_schema *schema; /* of INPUT_SCHEMA; it is only read */
	const struct input_slices *slices; /* NULL: there is no queue; else epochs, worker and workers are its own */
};

/* What all rows of a format have. */
struct input_shape {
	uint32_t dense;	 /* numbers of a row */
	uint32_t fields; /* ids of a row, without those of its history and lists */
	bool columns;	 /* without them ids are as many as a row has, whatever fields says */
	bool history;	 /* it has one */
	uint32_t lists;
	uint32_t list_ids;    /* of all lists of a row, at most */
	uint32_t more_labels; /* of a row, beyond its first: those of a schema's further tasks */
};

/* The histories of a batch, those of a row together, the oldest click first. */
struct input_clicks {
	uint32_t count;
	int64_t *items, *categories; /* ids */
	int32_t *segments;	     /* of each click: its row in the batch */
	int64_t *first, *lengths;    /* of each row: its first click, and how many it has */
};

/* The lists of a batch, those of a row together. */
struct input_lists {
	uint32_t count; /* ids of all */
	int64_t *ids;
	int32_t *segments; /* of each id: row * lists + the list's number */
	float *lengths;	   /* of each row and list: its ids */
};

/* Rows of one shape: labels [rows], numbers [rows][dense]; and ids, those of a row together. */
struct input_batch {
	uint32_t rows, ids_count;
	uint64_t number; /* of the batch, from 0 */
	uint32_t epoch;	 /* of its last row, from 0 */
	double share;	 /* of all that is to be read, all epochs: 0 to 1; 0 of what has no size, as a pipe */
	float *labels;	 /* 0 or 1; libsvm's -1 is 0 */
	float *dense;
	int64_t *ids;	   /* 0 to 2^63 - 1 */
	float *values;	   /* of each id; of a word 1 */
	int32_t *segments; /* of each id: its row in the batch */
	struct input_clicks clicks;
	struct input_lists lists;
	float *more_labels; /* [more_labels][the options' batch]: those of a task together */
};

struct input;

/* "criteo", "census", "libsvm", "text", "histories"; 0 with a message that lists them. */
enum input_format input_format_parse(const char *name, struct star_error *err);

struct input_shape input_shape(enum input_format format); /* but of INPUT_SCHEMA */
struct input_shape input_schema_shape(const struct input_schema *schema);

/*
 * The column of that name or number, counted from 0 in the file's order, whose words become ids. Names are census's
 * (workclass ...) and those of histories (user, item, category). Format 0: any column's number. -EINVAL with those that
 * there are; of libsvm and text, whose keys are no hashes, always.
 */
int input_column(enum input_format format, const char *text, struct star_error *err);

/* Opens the first file, and begins to read. A file that is named several times is read as often. NULL with err: -EINVAL
 * (the options), -ENOMEM, or the errno of opening. options and paths are copied; a vocabulary is not. */
struct input *input_open(const struct input_options *options, struct star_error *err);

/* The next batch, valid until the next call: 1; or 0: there is none; or a negative errno: -EINVAL (what
 * does not fit the format), -E2BIG (a line or row beyond input_limits), or of reading; it could not be read, nor will
 * be. */
int input_next(struct input *input, const struct input_batch **batch, struct star_error *err);

/* Of a reader with slices: this many of its batches, from the first on, were trained with, and all they came to is
 * pushed. */
void input_finished(struct input *input, uint64_t batches);

void input_close(struct input *input); /* NULL is allowed */

/*
 * The vocabulary of a text: its `most` most frequent words. sentences and words: how many there are in it, rare words
 * counted too. The caller ends the vocabulary with vocabulary_fini. 0 or a negative errno, as input_next.
 */
int input_vocabulary(const char *const *paths, uint32_t paths_count, uint32_t most, struct vocabulary *vocabulary,
		     uint64_t *sentences, uint64_t *words, struct star_error *err);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
