/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads training examples from files, in batches. Formats:
 *
 * - criteo: that of the Criteo display advertising challenge: label, 13 integers, 26 words, separated by tabs; all but
 *   the label may be empty
 * - census: UCI's Census Income ("Adult"): 14 columns, separated by ", ", then "<=50K" or ">50K"; lines that begin with
 *   '|' are skipped
 * - libsvm: "label index:value index:value ..."; '#' begins a comment
 * - text: a sentence per line, with words as in vocabulary.h; lines without words are skipped; there are no labels
 * - histories: label, user, item, category and what the user clicked on before, separated by tabs: "item:category
 *   item:category ...", the oldest first, or empty
 * - columns of your own: schema.h (INPUT_SCHEMA)
 *
 * Empty lines are skipped. A line that does not match its format is an error with file, line and column.
 *
 * Words become ids by a hash of column and word, so all columns may share one table, and a clicked item has the id of
 * the same item in its column. A missing word is a word too, except in histories. Words of a text become ids by a hash
 * too, or by their place in a vocabulary. Numbers: in criteo log(1 + x), 0 if x is missing or negative; in census as
 * they are.
 *
 * A thread of the reader keeps some batches ready. Which rows a worker reads, and in which order, depends only on the
 * options. Threads: a reader is used by one thread at a time.
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
	INPUT_IDS_MAX = 65536,	  /* per row */
	INPUT_BATCH_MAX = 1 << 20,
	INPUT_SHUFFLE_MAX = 1 << 24,
	INPUT_COLUMN_MAX = 65535,
};

/* A slice that a work queue has assigned. */
struct input_slice {
	uint64_t number; /* in its epoch */
	uint32_t epoch;
	uint64_t handle; /* the queue's */
};

/*
 * The source of a reader's slices, instead of every workers-th row: a work queue (train/queue.h has that of PS task 0).
 * plan: of the same files. take: 1; 0: there are no more; -EAGAIN: other workers have the last ones, some of which may
 * come back (returned at once, or if `wait` after some time); or an error that ends reading. done: all rows of the
 * slice are in batches that were passed to input_finished. take is called by the reader's thread, done by any; neither
 * is called concurrently with itself.
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
	uint32_t epochs;	  /* number of passes over the files */
	uint32_t worker, workers; /* this worker reads every workers-th row, starting with row number worker */
	uint32_t shuffle;	  /* number of buffered rows from which the next one is drawn; 0: the files' order */
	uint64_t seed;		  /* for shuffling */
	uint32_t clicks;	  /* the number of latest clicks to read of a row's history; 0: all */
	/* For text: a word's id is its place in the vocabulary plus one, or 0 if it is not in it; NULL: ids by hash.
	 * Only read. */
	const struct vocabulary *vocabulary;
	const struct input_schema *schema; /* for INPUT_SCHEMA; only read */
	const struct input_slices *slices; /* NULL: no queue; otherwise epochs, worker and workers are the queue's */
};

/* The shape of all rows of a format. */
struct input_shape {
	uint32_t dense;	 /* numbers per row */
	uint32_t fields; /* ids per row, without those of its history and lists */
	bool columns;	 /* if false, the number of ids varies from row to row, whatever fields says */
	bool history;	 /* rows have a history */
	uint32_t lists;
	uint32_t list_ids;    /* maximum of ids in all lists of a row */
	uint32_t more_labels; /* labels per row after the first: those of a schema's further tasks */
};

/* The histories of a batch, row by row, the oldest click first. */
struct input_clicks {
	uint32_t count;
	int64_t *items, *categories; /* ids */
	int32_t *segments;	     /* for each click: its row in the batch */
	int64_t *first, *lengths;    /* for each row: its first click, and the number of its clicks */
};

/* The lists of a batch, row by row. */
struct input_lists {
	uint32_t count; /* total number of ids */
	int64_t *ids;
	int32_t *segments; /* for each id: row * lists + the list's number */
	float *lengths;	   /* for each row and list: the number of its ids */
};

/* Rows of one shape: labels [rows], numbers [rows][dense], and ids, row by row. */
struct input_batch {
	uint32_t rows, ids_count;
	uint64_t number; /* of the batch, from 0 */
	uint32_t epoch;	 /* that of its last row, from 0 */
	/* fraction of all epochs that has been read: 0 to 1; 0 for input without a size, such as a pipe */
	double share;
	float *labels; /* 0 or 1; -1 of libsvm becomes 0 */
	float *dense;
	int64_t *ids;	   /* 0 to 2^63 - 1 */
	float *values;	   /* for each id; 1 for words */
	int32_t *segments; /* for each id: its row in the batch */
	struct input_clicks clicks;
	struct input_lists lists;
	float *more_labels; /* [more_labels][the options' batch]: task by task */
};

struct input;

/* "criteo", "census", "libsvm", "text", "histories"; 0 with a message that lists them. */
enum input_format input_format_parse(const char *name, struct star_error *err);

struct input_shape input_shape(enum input_format format); /* not for INPUT_SCHEMA */
struct input_shape input_schema_shape(const struct input_schema *schema);

/*
 * The column of the given name or number, counted from 0 in the file's order, whose words become ids. census (workclass
 * ...) and histories (user, item, category) have names. Format 0: any column's number. -EINVAL with the existing ones;
 * always for libsvm and text, whose keys are not hashes of columns.
 */
int input_column(enum input_format format, const char *text, struct star_error *err);

/* Opens the first file and starts to read. A file that is named several times is read as often. NULL with err: -EINVAL
 * (the options), -ENOMEM, or the errno of opening. options and paths are copied; a vocabulary is not. */
struct input *input_open(const struct input_options *options, struct star_error *err);

/* Gets the next batch, which is valid until the next call. 1; 0: there are no more; or a negative errno: -EINVAL (the
 * input does not match the format), -E2BIG (a line or row beyond input_limits), or that of reading. Errors are
 * permanent. */
int input_next(struct input *input, const struct input_batch **batch, struct star_error *err);

/* For a reader with slices: the first `batches` of its batches were used for training, and all their results are
 * pushed. */
void input_finished(struct input *input, uint64_t batches);

void input_close(struct input *input); /* NULL is allowed */

/*
 * Makes the vocabulary of a text: its `most` most frequent words. sentences and words: their numbers in the text, rare
 * words included. The caller frees the vocabulary with vocabulary_fini. 0 or a negative errno, as input_next.
 */
int input_vocabulary(const char *const *paths, uint32_t paths_count, uint32_t most, struct vocabulary *vocabulary,
		     uint64_t *sentences, uint64_t *words, struct star_error *err);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
