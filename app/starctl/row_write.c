/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes rows to files: JSON lines in the format of `checkpoint export`, CSV, or pairs of .npy files. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/starctl/rows.h"
#include "ckpt/element.h"
#include "ckpt/line.h"
#include "tensor/convert.h"
#include "tensor/dtype.h"

enum { NPY_HEADER = 128 }; /* bytes: with room for any number of rows, which is only known at the end */

struct row_writer {
	const struct row_source *source;
	enum row_format format;
	unsigned parts;
	char path[ROW_PATH_MAX]; /* empty: `out` was opened by the caller */
	FILE *out[ROW_PARTS];
	uint64_t rows;
};

/* row_writer_open has checked that it fits. */
static void file_path(const struct row_writer *w, unsigned part, char temporary[static ROW_PATH_MAX],
		      char final[static ROW_PATH_MAX])
{
	row_part_path(w->format, w->path, part, final, NULL);
	strcat(strcpy(temporary, final), ".part");
}

/* Version 1.0 of numpy's format: the dictionary is padded so that the elements are aligned to 64. */
static void npy_header(FILE *out, const char *type, uint64_t rows, uint32_t columns)
{
	char header[NPY_HEADER + 1], shape[64];
	int bytes;

	snprintf(shape, sizeof(shape), columns ? "(%" PRIu64 ", %" PRIu32 ")" : "(%" PRIu64 ",)", rows, columns);
	bytes = snprintf(header, sizeof(header),
			 "%cNUMPY%c%c%c%c{'descr': '%s', 'fortran_order': False, 'shape': %s, }", 0x93, 1, 0, 0, 0,
			 type, shape);
	header[8] = (char)(NPY_HEADER - 10);
	memset(header + bytes, ' ', NPY_HEADER - 1 - (size_t)bytes);
	header[NPY_HEADER - 1] = '\n';
	fwrite(header, 1, NPY_HEADER, out);
}

static void npy_headers(struct row_writer *w)
{
	const struct object_spec *spec = &w->source->spec;
	const char *const types[ROW_PARTS] = { "<u8", row_npy_type(row_npy_dtype(spec)), "<f4" };

	for (unsigned i = 0; i < w->parts; i++) {
		rewind(w->out[i]);
		npy_header(w->out[i], types[i], w->rows, i == 1 ? spec->dim : 0);
	}
}

static void csv_header(struct row_writer *w)
{
	fputs(w->source->spec.dtype == STAR_SCALED_INT8 ? "key,scale" : "key", w->out[0]);
	for (uint32_t i = 0; i < w->source->spec.dim; i++)
		fprintf(w->out[0], ",v%" PRIu32, i);
	fputc('\n', w->out[0]);
}

/* Written as for a complete checkpoint; figures are the maximum over the shards, as far as known. */
static void first_line(struct row_writer *w)
{
	struct checkpoint_table figures = { 0 };

	for (uint32_t i = 0; i < w->source->nodes_count; i++) {
		const struct row_node *node = &w->source->nodes[i];

		figures.pushes = node->pushes > figures.pushes ? node->pushes : figures.pushes;
		figures.step = node->step > figures.step ? node->step : figures.step;
		figures.removed = node->removed > figures.removed ? node->removed : figures.removed;
	}
	ckpt_line_table(w->out[0], &w->source->spec, w->source->partitions, &figures);
}

static void last_line(struct row_writer *w)
{
	fprintf(w->out[0], "{\"rows\": %" PRIu64 ", \"waiting_keys\": 0%s}\n", w->rows,
		w->source->spec.filter == FILTER_BLOOM ? ", \"bloom_blocks\": 0" : "");
}

/* The unfinished files, for a signal that ends the program: a handler cannot ask the writer. */
static char unfinished[ROW_PARTS][ROW_PATH_MAX];

static void end_by_signal(int number)
{
	for (unsigned i = 0; i < ROW_PARTS; i++)
		if (unfinished[i][0])
			unlink(unfinished[i]);
	signal(number, SIG_DFL);
	raise(number);
}

/* Only signals that are not ignored: nohup ignores one. */
static void remove_at_signals(void)
{
	static const int ending[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction act = { .sa_handler = end_by_signal }, before;

	for (unsigned i = 0; i < sizeof(ending) / sizeof(ending[0]); i++)
		sigaddset(&act.sa_mask, ending[i]);
	for (unsigned i = 0; i < sizeof(ending) / sizeof(ending[0]); i++)
		if (sigaction(ending[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL)
			sigaction(ending[i], &act, NULL);
}

static int open_files(struct row_writer *w, FILE *out, struct star_error *err)
{
	char temporary[ROW_PATH_MAX], final[ROW_PATH_MAX];

	if (!w->path[0]) {
		w->out[0] = out;
		return 0;
	}
	remove_at_signals();
	for (unsigned i = 0; i < w->parts; i++) {
		file_path(w, i, temporary, final);
		strcpy(unfinished[i], temporary);
		w->out[i] = fopen(temporary, "we");
		if (!w->out[i])
			return star_error_set(err, -errno, "cannot write %.300s: %s", temporary, strerror(errno));
	}
	return 0;
}

struct row_writer *row_writer_open(const struct row_source *source, enum row_format format, const char *path, FILE *out,
				   struct star_error *err)
{
	struct row_writer *w = calloc(1, sizeof(*w));
	char ignored[ROW_PATH_MAX];

	if (!w) {
		star_error_set(err, -ENOMEM, "out of memory");
		return NULL;
	}
	w->source = source;
	w->format = format;
	w->parts = row_parts(format, &source->spec);
	if (path && strcmp(path, "-") != 0) {
		if (row_part_path(format, path, 0, ignored, err) < 0) {
			free(w);
			return NULL;
		}
		strcpy(w->path, path);
	}
	if (open_files(w, out, err) < 0) {
		row_writer_close(w, false, NULL);
		return NULL;
	}
	if (format == ROW_NPY)
		npy_headers(w);
	else if (format == ROW_CSV)
		csv_header(w);
	else
		first_line(w);
	return w;
}

/* Without the quotes that JSON lines have around infinities and NaNs. */
static void put_cell(FILE *out, unsigned dtype, const void *element)
{
	char text[ELEMENT_TEXT];
	const int bytes = ckpt_element_print(dtype, element, text);
	const int quotes = text[0] == '"';

	fprintf(out, ",%.*s", bytes - 2 * quotes, text + quotes);
}

static void put_csv(const struct row_writer *w, uint64_t key, const uint8_t *values)
{
	const struct object_spec *spec = &w->source->spec;
	const bool scaled = spec->dtype == STAR_SCALED_INT8;
	const unsigned dtype = scaled ? STAR_INT8 : spec->dtype;

	fprintf(w->out[0], "%" PRIu64, key);
	if (scaled)
		put_cell(w->out[0], STAR_FLOAT32, values);
	values += scaled ? sizeof(float) : 0;
	for (uint32_t i = 0; i < spec->dim; i++)
		put_cell(w->out[0], dtype, values + (size_t)i * dtype_bytes(dtype));
	fputc('\n', w->out[0]);
}

static void put_npy(const struct row_writer *w, uint64_t key, const uint8_t *values)
{
	const struct object_spec *spec = &w->source->spec;
	float wide[WIRE_DIM_MAX];

	fwrite(&key, sizeof(key), 1, w->out[0]);
	if (spec->dtype == STAR_SCALED_INT8) {
		fwrite(values, sizeof(float), 1, w->out[2]);
		fwrite(values + sizeof(float), 1, spec->dim, w->out[1]);
	} else if (spec->dtype == STAR_BFLOAT16) {
		tensor_convert_find(STAR_BFLOAT16, CONVERT_SCALAR)->to_float(wide, values, spec->dim);
		fwrite(wide, sizeof(float), spec->dim, w->out[1]);
	} else {
		fwrite(values, dtype_bytes(spec->dtype), spec->dim, w->out[1]);
	}
}

int row_writer_put(struct row_writer *w, const uint8_t *record, struct star_error *err)
{
	const struct row_source *source = w->source;
	const uint8_t *values = record + source->shape.values;
	uint64_t key;

	memcpy(&key, record, sizeof(key));
	w->rows++;
	if (w->format == ROW_LINES)
		ckpt_line_row(w->out[0], &source->spec, &source->shape, 0, record);
	else if (w->format == ROW_CSV)
		put_csv(w, key, values);
	else
		put_npy(w, key, values);
	for (unsigned i = 0; i < w->parts; i++)
		if (ferror(w->out[i]))
			return star_error_set(err, -EIO, "the rows cannot be written: %s",
					      errno ? strerror(errno) : "the disk is full or the reader has gone");
	return 0;
}

/* The file is synced before it gets its name. */
static int finish_part(struct row_writer *w, unsigned part, bool good, struct star_error *err)
{
	char temporary[ROW_PATH_MAX], final[ROW_PATH_MAX];
	FILE *out = w->out[part];
	bool written = out && fflush(out) == 0 && !ferror(out), named;

	if (!w->path[0])
		return written ? 0 : star_error_set(err, -EIO, "the rows cannot be written: %s", strerror(errno));
	file_path(w, part, temporary, final);
	written = written && (!good || fsync(fileno(out)) == 0);
	if (out && fclose(out) != 0)
		written = false;
	named = good && written && rename(temporary, final) == 0;
	if (good && !named)
		star_error_set(err, -errno, "cannot write %.300s: %s", final, strerror(errno));
	if (!named)
		unlink(temporary);
	unfinished[part][0] = 0;
	return named || !good ? 0 : -EIO;
}

int row_writer_close(struct row_writer *w, bool good, struct star_error *err)
{
	int rc = 0;

	if (good && w->format == ROW_LINES)
		last_line(w);
	else if (good && w->format == ROW_NPY)
		npy_headers(w);
	for (unsigned i = 0; i < w->parts; i++)
		if (finish_part(w, i, good && rc == 0, err) < 0)
			rc = -EIO;
	free(w);
	return rc;
}
