/* SPDX-License-Identifier: BSD-3-Clause */
/* The thread that reads ahead: lines become rows, rows pass the shuffle pool and become batches, and batches wait in a
 * short queue. */
#include "input/input.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/prng.h"
#include "input/clicks.h"
#include "input/columns.h"
#include "input/lines.h"
#include "input/lists.h"
#include "input/row.h"
#include "input/slices.h"

enum { AHEAD = 4, /* batches that are read ahead, and the one that the caller has */ };

struct input {
	struct input_options options;
	struct input_shape shape;
	struct vocabulary *learns; /* learns the words, or NULL */
	struct columns columns;	   /* if there is a schema */
	char **paths;
	/* used by the thread only */
	struct lines lines;
	uint32_t path; /* index of the open file, or of the next one */
	uint32_t epoch;
	uint64_t line, rows;		 /* in this file; rows in this epoch, of all workers */
	uint64_t bytes_before;		 /* bytes read before this file was opened */
	uint64_t bytes, all_bytes, mine; /* bytes read, and bytes of all epochs; rows of this worker */
	uint64_t batches;
	struct row *pool;    /* the shuffle pool, from which rows are drawn */
	uint32_t pool_count; /* rows in it */
	bool ended;	     /* no more lines */
	/* with a work queue */
	struct slices slices;
	struct input_piece piece; /* of the slice that is being read */
	uint32_t slice;		  /* its index; valid while a file is open */
	uint64_t at;		  /* where the next line begins */
	bool waiting;		  /* for slices that others have: rows read so far are handed out first */
	struct prng prng;
	struct star_error err;
	uint32_t room[AHEAD], clicks_room[AHEAD], lists_room[AHEAD]; /* room for ids in each batch */
	/* shared, under lock; changed is signalled after each change */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct input_batch batches_ahead[AHEAD];
	uint64_t filled, taken, finished; /* numbers of batches */
	bool over;			  /* there will be no more; err has the reason if it is an error */
	bool stop;			  /* the thread must stop */
};

/* ---- lines ---- */

static bool is_stdin(const char *path)
{
	return strcmp(path, "-") == 0;
}

/* The name of the open file, or of the next one. */
static const char *name_of(const struct input *in)
{
	return is_stdin(in->paths[in->path]) ? "standard input" : in->paths[in->path];
}

static int open_next(struct input *in)
{
	const char *path = in->paths[in->path];
	struct star_error why = { 0 };
	const int rc = input_lines_open(&in->lines, path, &why);

	in->line = 0;
	in->bytes_before = in->bytes;
	return rc < 0 ? star_error_set(&in->err, rc, "cannot read %s: %s", name_of(in), why.text) : 0;
}

/* For errors: the number of the line in its file; lines before the slice are counted only now. */
static unsigned long long line_of(const struct input *in)
{
	uint64_t offset = 0, lines = 0;
	struct star_error ignored;
	struct lines counted;
	size_t bytes;
	char *line;

	if (in->piece.begin == 0 || input_lines_init(&counted) < 0)
		return in->line;
	if (input_lines_open(&counted, in->paths[in->path], &ignored) == 0)
		while (offset < in->piece.begin && input_lines_next(&counted, &line, &bytes, &ignored) > 0) {
			offset += bytes + 1;
			lines++;
		}
	input_lines_fini(&counted);
	return in->line + lines;
}

/* Reads the next line of the open file: 1; 0: there is none; or an error. Bytes after a zero byte would be ignored
 * silently. */
static int read_line(struct input *in, char **line)
{
	const char *path = name_of(in);
	struct star_error why = { 0 };
	size_t bytes = 0;
	const int rc = input_lines_next(&in->lines, line, &bytes, &why);

	in->line += rc != 0;
	in->at += bytes + 1;
	/* For compressed files the compressed bytes count, as in the file's size. */
	if (!in->options.slices)
		in->bytes = in->lines.source.kind == SOURCE_PLAIN ? in->bytes + bytes + (rc > 0)
								  : in->bytes_before + in->lines.source.read;
	if (rc == -E2BIG)
		return star_error_set(&in->err, rc, "%s:%llu: the line has more than %d bytes", path, line_of(in),
				      INPUT_LINE_MAX - 1);
	if (rc < 0)
		return star_error_set(&in->err, rc, "cannot read %s after line %llu: %s", path, line_of(in) - 1,
				      why.text);
	if (rc > 0 && memchr(*line, 0, bytes))
		return star_error_set(&in->err, -EINVAL, "%s:%llu: there is a zero byte in the line", path,
				      line_of(in));
	if (rc > 0 && in->line == 1 && in->piece.begin == 0)
		*line += input_byte_order_mark(*line);
	return rc;
}

/* Reads the column names of a file that was just opened: 1; 0: it is empty; or an error. */
static int read_header(struct input *in)
{
	struct star_error why = { 0 };
	char *line;
	int rc;

	if (in->options.format != INPUT_SCHEMA || !in->options.schema->header)
		return 0;
	rc = read_line(in, &line);
	if (rc > 0)
		rc = input_columns_header(&in->columns, line, &why);
	else if (rc == 0)
		return star_error_set(&in->err, -ENODATA,
				      "%s is empty, but the schema says that its first line has the column names",
				      name_of(in));
	if (rc < 0 && !in->err.code)
		return star_error_set(&in->err, rc, "%s:1: %s", name_of(in), why.text);
	return rc < 0 ? rc : 1;
}

/* ---- slices ---- */

static bool is_stopped(struct input *in)
{
	bool stop;

	pthread_mutex_lock(&in->lock);
	stop = in->stop;
	pthread_mutex_unlock(&in->lock);
	return stop;
}

/* 1; 0: there are no more; -EAGAIN; or an error. wait: wait for slices that others have, as long as necessary. */
static int take_slice(struct input *in, bool wait, struct input_slice *slice)
{
	const struct input_slices *queue = in->options.slices;
	struct star_error why = { 0 };
	int rc;

	do
		rc = queue->take(queue->arg, wait, slice, &why);
	while (rc == -EAGAIN && wait && !is_stopped(in));
	return rc < 0 && rc != -EAGAIN ? star_error_set(&in->err, rc, "%s", why.text) : rc;
}

/* Opens the next slice: 1, 0, -EAGAIN or an error. */
static int open_slice(struct input *in, bool wait)
{
	struct input_slice slice;
	struct star_error why = { 0 };
	int rc = take_slice(in, wait, &slice), place;

	if (rc <= 0)
		return rc;
	place = input_slices_add(&in->slices, &slice);
	if (place < 0)
		return star_error_set(&in->err, -ENOMEM, "no memory for a slice");
	in->slice = (uint32_t)place;
	in->piece = input_plan_piece(in->options.slices->plan, slice.number, slice.epoch);
	in->epoch = slice.epoch;
	in->path = in->piece.file;
	in->bytes = slice.epoch * in->options.slices->plan->slices + slice.number + 1;
	if (open_next(in) < 0)
		return in->err.code;
	in->at = 0;
	rc = read_header(in);
	if (rc < 0 || in->piece.begin == 0)
		return rc < 0 ? rc : 1;
	if (rc > 0) { /* the buffer has bytes of another offset */
		input_lines_close(&in->lines);
		if (open_next(in) < 0)
			return in->err.code;
	}
	rc = input_lines_seek(&in->lines, in->piece.begin, &in->at, &why);
	return rc < 0 ? star_error_set(&in->err, rc, "cannot read %s: %s", name_of(in), why.text) : 1;
}

/* Reads the next line of the slices: 1; 0: there is none; -EAGAIN; or an error. */
static int next_line_of_slice(struct input *in, char **line)
{
	for (;;) {
		int rc = input_lines_are_open(&in->lines) ? 1 : open_slice(in, false);

		if (rc <= 0)
			return rc;
		rc = in->at < in->piece.end ? read_line(in, line) : 0;
		if (rc != 0)
			return rc;
		in->slices.of[in->slice].read = true;
		input_lines_close(&in->lines);
	}
}

/* Slices whose rows are all in batches are done when these batches are; empty slices are done with the batches before
 * them. */
static int settle(struct input *in)
{
	int rc;

	pthread_mutex_lock(&in->lock);
	rc = input_slices_close(&in->slices);
	input_slices_finish(&in->slices, in->options.slices, in->finished);
	pthread_mutex_unlock(&in->lock);
	return rc < 0 ? star_error_set(&in->err, rc, "no memory for slices") : 0;
}

/* All rows read so far are in batches, so this may wait for slices that others have. */
static int await_slice(struct input *in)
{
	int rc = settle(in);

	if (rc == 0)
		rc = open_slice(in, true);
	in->waiting = false;
	in->ended = rc == 0 || rc == -EAGAIN; /* it is stopped */
	return rc == -EAGAIN ? 0 : rc;
}

/* Reads the next line of all files: 1; 0: all epochs are over; or an error. */
static int next_line(struct input *in, char **line)
{
	for (;;) {
		int rc;

		if (!input_lines_are_open(&in->lines)) {
			if (in->path == in->options.paths_count) {
				if (in->rows == 0)
					return star_error_set(&in->err, -ENODATA, "there are no rows in %s%s",
							      in->paths[0],
							      in->options.paths_count > 1 ? " and the other files"
											  : "");
				in->path = 0;
				in->rows = 0;
				in->epoch++;
			}
			if (in->epoch == in->options.epochs)
				return 0;
			if (open_next(in) < 0 || read_header(in) < 0)
				return in->err.code;
		}
		rc = read_line(in, line);
		if (rc != 0)
			return rc;
		input_lines_close(&in->lines);
		in->path++;
	}
}

static int parse_line(struct input *in, char *line, struct row *row, struct star_error *err)
{
	if (in->options.format == INPUT_SCHEMA)
		return input_columns_row(&in->columns, line, row, err);
	if (in->options.format != INPUT_TEXT)
		return input_row_parse(in->options.format, line, row, err);
	return input_row_text(line, in->options.vocabulary, in->learns, row, err);
}

/* Reads the next row of this worker: 1, 0 or an error. */
static int next_row(struct input *in, struct row *row)
{
	struct star_error err;
	char *line;
	int status;

	for (;;) {
		status = in->options.slices ? next_line_of_slice(in, &line) : next_line(in, &line);
		if (status <= 0)
			return status;
		status = parse_line(in, line, row, &err);
		if (status < 0)
			return star_error_set(&in->err, status, "%s:%llu: %s", name_of(in), line_of(in), err.text);
		row->number = in->epoch;
		row->slice = in->slice;
		if (status > 0 && in->options.slices)
			in->slices.of[in->slice].rows++;
		if (status > 0 && (in->options.slices || in->rows++ % in->options.workers == in->options.worker)) {
			in->mine++;
			return 1;
		}
	}
}

/* ---- batches ---- */

/* Draws a row from the pool, after filling that; NULL: there is none, or an error (err.code). */
static struct row *draw_row(struct input *in)
{
	const uint32_t most = in->options.shuffle ? in->options.shuffle : 1;
	struct row *last, *chosen;
	struct row swap;

	while (!in->ended && !in->waiting && in->pool_count < most) {
		const int status = next_row(in, &in->pool[in->pool_count]);

		if (status == -EAGAIN && !in->err.code) {
			in->waiting = true;
			break;
		}
		if (status < 0)
			return NULL;
		in->pool_count += status > 0;
		in->ended = status == 0;
	}
	if (!in->pool_count)
		return NULL;
	last = &in->pool[--in->pool_count];
	chosen = in->options.shuffle ? &in->pool[prng_below(&in->prng, in->pool_count + 1)] : last;
	swap = *last;
	*last = *chosen;
	*chosen = swap;
	return last;
}

static int grow_ids(struct input *in, unsigned slot, uint32_t need)
{
	struct input_batch *b = &in->batches_ahead[slot];
	uint32_t room = in->room[slot] ? in->room[slot] : 1024;
	int64_t *ids;
	float *values;
	int32_t *segments;

	if (need <= in->room[slot])
		return 0;
	while (room < need)
		room *= 2;
	ids = realloc(b->ids, room * sizeof(*ids));
	b->ids = ids ? ids : b->ids;
	values = realloc(b->values, room * sizeof(*values));
	b->values = values ? values : b->values;
	segments = realloc(b->segments, room * sizeof(*segments));
	b->segments = segments ? segments : b->segments;
	if (!ids || !values || !segments)
		return star_error_set(&in->err, -ENOMEM, "no memory for a batch of %u ids", room);
	in->room[slot] = room;
	return 0;
}

/* Adds ids first to end - 1 of a row to the batch's row b->rows. */
static int add_ids(struct input *in, unsigned slot, const struct row *row, uint32_t end)
{
	struct input_batch *b = &in->batches_ahead[slot];

	if (b->ids_count + (uint64_t)end > UINT32_MAX / 2)
		return star_error_set(&in->err, -E2BIG, "a batch of %u rows has more than 2^31 ids: make it smaller",
				      in->options.batch);
	if (grow_ids(in, slot, b->ids_count + end) < 0)
		return in->err.code;
	for (uint32_t i = 0; i < end; i++, b->ids_count++) {
		b->ids[b->ids_count] = row->ids[i];
		b->values[b->ids_count] = row->values[i];
		b->segments[b->ids_count] = (int32_t)b->rows;
	}
	return 0;
}

static int add_row(struct input *in, unsigned slot, const struct row *row)
{
	struct input_batch *b = &in->batches_ahead[slot];
	int status = add_ids(in, slot, row, in->shape.columns ? in->shape.fields : row->count);

	if (status == 0 && in->shape.lists)
		status = input_lists_add(&b->lists, &in->lists_room[slot], b->rows, row, &in->shape, &in->err);
	if (status == 0 && in->shape.history)
		status = input_clicks_add(&b->clicks, &in->clicks_room[slot], b->rows, row, in->shape.fields,
					  in->options.clicks, &in->err);
	if (status < 0)
		return status;
	b->labels[b->rows] = row->label;
	for (uint32_t i = 0; i < in->shape.more_labels; i++)
		b->more_labels[(size_t)i * in->options.batch + b->rows] = row->more_labels[i];
	if (in->shape.dense)
		memcpy(b->dense + (size_t)b->rows * in->shape.dense, row->dense, in->shape.dense * sizeof(float));
	b->rows++;
	b->epoch = row->number;
	if (in->options.slices) {
		in->slices.of[row->slice].rows--;
		in->slices.of[row->slice].batches = in->batches + 1;
	}
	return 0;
}

/* The rows in the pool have been read, but not handed out. */
static double share_of_workers(const struct input *in)
{
	if (!in->all_bytes || !in->mine)
		return 0;
	return fmin(1, (double)in->bytes / (double)in->all_bytes) * (double)(in->mine - in->pool_count) /
	       (double)in->mine;
}

/* 1, 0 (nothing is left) or an error. */
static int fill_slot(struct input *in, unsigned slot)
{
	struct input_batch *b = &in->batches_ahead[slot];

	b->rows = 0;
	b->ids_count = 0;
	b->clicks.count = 0;
	b->lists.count = 0;
	while (b->rows < in->options.batch) {
		const struct row *row = draw_row(in);

		if (row && add_row(in, slot, row) < 0)
			return in->err.code;
		if (!row && (!in->waiting || b->rows || await_slice(in) < 0))
			break;
	}
	if (in->options.slices && !in->err.code)
		settle(in);
	b->number = in->batches++;
	b->share = share_of_workers(in);
	return in->err.code ? in->err.code : b->rows > 0;
}

static void *read_ahead(void *arg)
{
	struct input *in = arg;
	int status = 1;

	pthread_mutex_lock(&in->lock);
	while (status > 0) {
		while (!in->stop && in->filled - in->taken == AHEAD - 1)
			pthread_cond_wait(&in->changed, &in->lock);
		if (in->stop)
			break;
		pthread_mutex_unlock(&in->lock);
		status = fill_slot(in, in->filled % AHEAD);
		pthread_mutex_lock(&in->lock);
		in->filled += status > 0;
		in->over = status <= 0;
		pthread_cond_signal(&in->changed);
	}
	pthread_mutex_unlock(&in->lock);
	return NULL;
}

int input_next(struct input *in, const struct input_batch **batch, struct star_error *err)
{
	int status = 1;

	pthread_mutex_lock(&in->lock);
	while (in->filled == in->taken && !in->over)
		pthread_cond_wait(&in->changed, &in->lock);
	if (in->filled > in->taken) { /* its slot is not refilled before AHEAD - 1 more batches are taken */
		*batch = &in->batches_ahead[in->taken++ % AHEAD];
		pthread_cond_signal(&in->changed);
	} else {
		*batch = NULL;
		status = in->err.code;
		if (err && status < 0)
			*err = in->err;
	}
	pthread_mutex_unlock(&in->lock);
	return status;
}

void input_finished(struct input *in, uint64_t batches)
{
	pthread_mutex_lock(&in->lock);
	in->finished = batches;
	if (in->options.slices)
		input_slices_finish(&in->slices, in->options.slices, batches);
	pthread_mutex_unlock(&in->lock);
}

/* ---- opening and closing ---- */

static int check_input_options(const struct input_options *o, struct star_error *err)
{
	if (!o->paths_count)
		return star_error_set(err, -EINVAL, "no file to read is given");
	if ((o->format == INPUT_SCHEMA) != (o->schema != NULL))
		return star_error_set(err, -EINVAL,
				      "the format INPUT_SCHEMA needs a schema, and other formats take none");
	if (o->schema && (uint64_t)o->batch * o->schema->shape.lists > INT32_MAX)
		return star_error_set(err, -EINVAL, "a batch of %u rows has too many lists: make it smaller", o->batch);
	if (!o->batch || o->batch > INPUT_BATCH_MAX || (!o->epochs && !o->slices) || o->shuffle > INPUT_SHUFFLE_MAX)
		return star_error_set(err, -EINVAL,
				      "a batch must have 1 to %d rows, there must be at least 1 epoch, and at most %d "
				      "rows can be shuffled",
				      INPUT_BATCH_MAX, INPUT_SHUFFLE_MAX);
	if (o->slices)
		return 0;
	if (o->worker >= o->workers)
		return star_error_set(err, -EINVAL, "worker %u is out of range: with %u workers, numbers start at 0",
				      o->worker, o->workers);
	for (uint32_t i = 0; i < o->paths_count; i++)
		if (is_stdin(o->paths[i]) && (o->epochs > 1 || o->workers > 1 || o->paths_count > 1))
			return star_error_set(err, -EINVAL,
					      "standard input can be read only once and by one worker: use one epoch, "
					      "one worker and no other files");
	return 0;
}

/* How many bytes all epochs will read; 0: the size of a file is unknown. */
static uint64_t count_bytes(const struct input_options *o)
{
	uint64_t bytes = 0;

	if (o->slices)
		return o->slices->plan->slices * o->slices->epochs;
	for (uint32_t i = 0; i < o->paths_count; i++) {
		struct stat file;

		if (is_stdin(o->paths[i]) || stat(o->paths[i], &file) < 0 || !S_ISREG(file.st_mode))
			return 0;
		bytes += (uint64_t)file.st_size;
	}
	return bytes * o->epochs;
}

static int allocate_input(struct input *in)
{
	const struct input_options *o = &in->options;
	bool ok = input_lines_init(&in->lines) == 0;

	if (o->schema)
		ok = input_columns_init(&in->columns, o->schema) == 0 && ok;
	in->pool = calloc(o->shuffle ? o->shuffle : 1, sizeof(*in->pool));
	in->paths = calloc(o->paths_count, sizeof(*in->paths));
	for (uint32_t i = 0; in->paths && i < o->paths_count; i++)
		ok = (in->paths[i] = strdup(o->paths[i])) && ok;
	for (unsigned i = 0; i < AHEAD; i++) {
		in->batches_ahead[i].labels = malloc(o->batch * sizeof(float));
		in->batches_ahead[i].dense = malloc((size_t)o->batch * in->shape.dense * sizeof(float) + 1);
		in->batches_ahead[i].more_labels = malloc((size_t)o->batch * in->shape.more_labels * sizeof(float) + 1);
		ok = ok && in->batches_ahead[i].labels && in->batches_ahead[i].dense &&
		     in->batches_ahead[i].more_labels;
		ok = ok && input_lists_init(&in->batches_ahead[i].lists, o->batch, in->shape.lists) == 0;
		if (in->shape.history)
			ok = ok && input_clicks_init(&in->batches_ahead[i].clicks, o->batch, &in->err) == 0;
	}
	return ok && in->pool && in->paths ? 0 : star_error_set(&in->err, -ENOMEM, "no memory for reading");
}

static void release_input(struct input *in)
{
	input_lines_fini(&in->lines);
	input_columns_fini(&in->columns);
	for (unsigned i = 0; i < AHEAD; i++) {
		input_lists_fini(&in->batches_ahead[i].lists);
		free(in->batches_ahead[i].labels);
		free(in->batches_ahead[i].more_labels);
		free(in->batches_ahead[i].dense);
		free(in->batches_ahead[i].ids);
		free(in->batches_ahead[i].values);
		free(in->batches_ahead[i].segments);
		input_clicks_fini(&in->batches_ahead[i].clicks);
	}
	for (uint32_t i = 0; in->pool && i < (in->options.shuffle ? in->options.shuffle : 1); i++)
		input_row_fini(&in->pool[i]);
	for (uint32_t i = 0; in->paths && i < in->options.paths_count; i++)
		free(in->paths[i]);
	input_slices_fini(&in->slices);
	free(in->paths);
	free(in->pool);
	free(in);
}

static struct input *open_input(const struct input_options *options, struct vocabulary *learns, struct star_error *err)
{
	struct input *in;
	int status = check_input_options(options, err);

	if (status < 0)
		return NULL;
	in = calloc(1, sizeof(*in));
	if (!in) {
		star_error_set(err, -ENOMEM, "no memory for reading");
		return NULL;
	}
	in->options = *options;
	in->learns = learns;
	in->shape = options->schema ? input_schema_shape(options->schema) : input_shape(options->format);
	in->all_bytes = count_bytes(options);
	prng_seed(&in->prng, options->seed);
	pthread_mutex_init(&in->lock, NULL);
	pthread_cond_init(&in->changed, NULL);
	status = allocate_input(in);
	if (status == 0 && !options->slices)
		status = open_next(in);
	if (status == 0 && !options->slices)
		status = read_header(in) < 0 ? in->err.code : 0;
	if (status == 0) {
		status = -pthread_create(&in->thread, NULL, read_ahead, in);
		if (status < 0)
			star_error_set(&in->err, status, "cannot start a thread: %s", strerror(-status));
	}
	if (status < 0) {
		if (err)
			*err = in->err;
		release_input(in);
		return NULL;
	}
	return in;
}

struct input *input_open(const struct input_options *options, struct star_error *err)
{
	return open_input(options, NULL, err);
}

void input_close(struct input *in)
{
	if (!in)
		return;
	pthread_mutex_lock(&in->lock);
	in->stop = true;
	pthread_cond_signal(&in->changed);
	pthread_mutex_unlock(&in->lock);
	pthread_join(in->thread, NULL);
	release_input(in);
}

int input_vocabulary(const char *const *paths, uint32_t paths_count, uint32_t most, struct vocabulary *vocabulary,
		     uint64_t *sentences, uint64_t *words, struct star_error *err)
{
	const struct input_options options = { .format = INPUT_TEXT,
					       .paths = paths,
					       .paths_count = paths_count,
					       .batch = 1024,
					       .epochs = 1,
					       .workers = 1 };
	const struct input_batch *batch;
	struct input *in = NULL;
	int rc = vocabulary_init(vocabulary, err);

	*sentences = *words = 0;
	if (rc < 0)
		return rc;
	in = open_input(&options, vocabulary, err);
	rc = in ? 1 : err->code;
	while (rc > 0 && (rc = input_next(in, &batch, err)) > 0) {
		*sentences += batch->rows;
		*words += batch->ids_count;
	}
	input_close(in);
	if (rc == 0)
		rc = vocabulary_rank(vocabulary, 1, most, NULL, err);
	if (rc < 0)
		vocabulary_fini(vocabulary);
	return rc;
}
