/* SPDX-License-Identifier: BSD-3-Clause */
/* Imports rows from files into a table of a running cluster, through libstar as a worker does. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "app/starctl/checkpoints.h"
#include "app/starctl/rows.h"
#include "client/blocks.h"
#include "star.h"
#include "tensor/dtype.h"

enum { IMPORT_KEYS = 1024, IMPORT_BYTES = 1 << 20 };
#define IMPORT_US UINT64_C(60000000)

struct import {
	const struct object_spec *spec;
	struct star_cluster *cluster;
	struct star_table *table;
	struct checkpoint_progress progress;
	struct row_reader *reader;
	unsigned dtype;		/* of values */
	size_t row_bytes, room; /* bytes of a row, and the number of rows for which there is memory */
	uint64_t *keys;
	uint8_t *values;
	uint16_t *narrow; /* for a bfloat16 table that is read as float32: the converted rows; otherwise NULL */
	uint64_t rows;
};

/*
 * Converts the floats of a bfloat16 table to bfloat16, if that is exact, as for a file from an export: when a node
 * rounds, signalling NaNs become quiet ones.
 */
static bool narrow_row(const struct import *m, size_t count, uint16_t *to)
{
	for (size_t i = 0; i < count * m->spec->dim; i++) {
		uint32_t bits;

		memcpy(&bits, m->values + i * sizeof(bits), sizeof(bits));
		if (bits & 0xffff)
			return false;
		to[i] = (uint16_t)(bits >> 16);
	}
	return true;
}

/* Assigns only those blocks of a variable that the file has: workers may push to the others meanwhile. */
static int assign(struct import *m, size_t count, struct star_error *err)
{
	struct star_op op = { .kind = STAR_ASSIGN,
			      .flags = m->spec->kind == OBJECT_VARIABLE ? CLIENT_BLOCKS : 0,
			      .table = m->table,
			      .keys = m->keys,
			      .count = (uint32_t)count,
			      .values = m->values,
			      .dtype = dtype_name(m->dtype) };

	if (m->narrow && narrow_row(m, count, m->narrow)) {
		op.values = m->narrow;
		op.dtype = dtype_name(STAR_BFLOAT16);
	}
	return star_execute(m->cluster, &op, 1, IMPORT_US, err);
}

static size_t rows_of_batch(const struct import *m)
{
	const size_t most = IMPORT_BYTES / m->row_bytes;

	return most > IMPORT_KEYS ? IMPORT_KEYS : most ? most : 1;
}

static int open_rows(struct import *m, enum row_format format, const char *path, struct star_error *err)
{
	bool widened;

	m->reader = row_reader_open(m->spec, format, path, stdin, err);
	if (!m->reader)
		return err->code;
	m->dtype = row_reader_dtype(m->reader);
	widened = m->spec->dtype == STAR_BFLOAT16 && m->dtype == STAR_FLOAT32;
	m->row_bytes = dtype_row_bytes(m->dtype, m->spec->dim);
	m->room = rows_of_batch(m);
	m->keys = calloc(m->room, sizeof(*m->keys));
	m->values = calloc(m->room, m->row_bytes);
	if (widened)
		m->narrow = calloc(m->room * m->spec->dim, sizeof(*m->narrow));
	return m->keys && m->values && (m->narrow || !widened)
		       ? 0
		       : star_error_set(err, -ENOMEM, "out of memory for %zu rows", m->room);
}

static void close_file(struct import *m)
{
	row_reader_close(m->reader);
	free(m->keys);
	free(m->values);
	free(m->narrow);
	m->narrow = NULL;
	m->reader = NULL;
	m->keys = NULL;
	m->values = NULL;
}

/* A variable's last block may have elements beyond the end of the variable. */
static void clear_tail(const struct import *m, uint64_t key, uint8_t *values)
{
	const bool scaled = m->dtype == STAR_SCALED_INT8;
	const uint64_t left = wire_object_elements(m->spec) - key * m->spec->dim;
	const size_t used = (scaled ? sizeof(float) : 0) + left * dtype_bytes(scaled ? STAR_INT8 : m->dtype);

	if (left < m->spec->dim)
		memset(values + used, 0, m->row_bytes - used);
}

/* The next rows, as many as are assigned together; 0: there are none left, or an error. */
static int read_batch(struct import *m, struct star_error *err)
{
	uint64_t done, total;
	size_t n = 0;
	int rc = 1;

	while (n < m->room && rc > 0) {
		rc = row_reader_next(m->reader, &m->keys[n], m->values + n * m->row_bytes, err);
		if (rc <= 0)
			break;
		if (m->spec->kind == OBJECT_VARIABLE)
			clear_tail(m, m->keys[n], m->values + n * m->row_bytes);
		n++;
	}
	row_reader_share(m->reader, &done, &total);
	checkpoint_progress_report(&m->progress, done < total ? done : total, total);
	return rc < 0 ? rc : (int)n;
}

/* Checks the whole file without assigning anything, so that a bad file changes nothing. */
static int look_through(struct import *m, enum row_format format, const char *path, struct star_error *err)
{
	int rc = open_rows(m, format, path, err);

	if (rc == 0)
		while ((rc = read_batch(m, err)) > 0)
			;
	close_file(m);
	return rc;
}

static int assign_all(struct import *m, enum row_format format, const char *path, struct star_error *err)
{
	struct star_error why = { 0 };
	int rc = open_rows(m, format, path, err);

	while (rc == 0) {
		const int n = read_batch(m, &why);

		if (n <= 0) {
			rc = n;
			break;
		}
		rc = assign(m, (size_t)n, &why);
		m->rows += rc == 0 ? (uint64_t)n : 0;
	}
	close_file(m);
	return rc < 0 && why.code ? star_error_set(err, rc, "%.400s (%" PRIu64 " rows before that were assigned)",
						   why.text, m->rows)
				  : rc;
}

/* Refuses what an assignment would drop silently. */
static int check_import_table(const struct object_spec *spec, struct star_error *err)
{
	if (spec->filter == FILTER_NONE)
		return 0;
	return star_error_set(err, -EINVAL,
			      "\"%s\" has an admission filter, which excludes new keys: import "
			      "into a checkpoint (checkpoint import), and start from that",
			      spec->name);
}

static int import(struct import *m, const struct row_source *source, enum row_format format, const char *path,
		  struct star_error *err)
{
	int rc = check_import_table(&source->spec, err);

	m->spec = &source->spec;
	if (rc == 0 && path)
		rc = look_through(m, format, path, err);
	if (rc < 0)
		return rc;
	m->cluster = star_open(source->ps, IMPORT_US, err);
	m->table = m->cluster ? star_lookup(m->cluster, source->spec.name, IMPORT_US, err) : NULL;
	rc = m->table ? assign_all(m, format, path, err) : err->code;
	star_close(m->cluster);
	return rc;
}

int run_tables_import(const struct invocation *invocation)
{
	const char *path = invocation->argc > 1 && strcmp(invocation->argv[1], "-") != 0 ? invocation->argv[1] : NULL;
	struct row_source source = { 0 };
	struct import m = { 0 };
	struct star_error err = { 0 };
	const enum row_format format = row_format_of(path, &err);
	int rc;

	if (!format)
		return fail(invocation, &err, STARCTL_USAGE);
	checkpoint_progress_begin(&m.progress, invocation, "import");
	rc = row_source_open(&source, invocation, invocation->argv[0], &err);
	if (rc == 0)
		rc = import(&m, &source, format, path, &err);
	checkpoint_progress_end(&m.progress);
	row_source_close(&source);
	if (rc < 0)
		return fail(invocation, &err, STARCTL_FAILED);
	if (invocation->json)
		print_json(json_pack("{s:s, s:I}", "table", invocation->argv[0], "rows", (json_int_t)m.rows),
			   invocation->out);
	else
		fprintf(invocation->out, "%" PRIu64 " rows of %s were assigned\n", m.rows, invocation->argv[0]);
	return STARCTL_OK;
}
