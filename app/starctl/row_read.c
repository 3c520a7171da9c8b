/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads rows from files, which are not trusted: each error names the file and the line or row. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "app/starctl/rows.h"
#include "ckpt/element.h"
#include "ckpt/keyset.h"
#include "ckpt/line.h"
#include "jsonrpc/member.h"
#include "jsonrpc/object_json.h"
#include "tensor/convert.h"
#include "tensor/dtype.h"

struct row_reader {
	const struct object_spec *spec; /* the table's */
	struct object_spec of_file;	/* the lines' own definition, or the same */
	struct ckpt_row_shape shape;	/* of these */
	enum row_format format;
	unsigned parts, dtype;
	FILE *in[ROW_PARTS];
	char name[ROW_PATH_MAX];
	uint64_t line, rows, total;
	uint64_t expected; /* for .npy: the number in the headers */
	uint64_t done;	   /* bytes */
	bool ended;	   /* the last line was read */
	uint32_t *columns; /* for .csv: the contents of each, as returned by csv_place */
	char *text;
	size_t text_bytes;
	struct keyset keys;
};

/* An error in the current line; for .npy in the current row. */
static int refuse_line(const struct row_reader *r, struct star_error *err, int code, const struct star_error *why)
{
	return star_error_set(err, code, "%.200s:%" PRIu64 ": %.600s", r->name, r->line, why->text);
}

static int check_key(struct row_reader *r, uint64_t key, struct star_error *why)
{
	const int rc = ckpt_keyset_add(&r->keys, key);

	if (rc < 0)
		return star_error_set(why, rc, "out of memory for the keys");
	if (rc == 0)
		return star_error_set(why, -EINVAL, "key %" PRIu64 " was there before", key);
	if (r->spec->kind == OBJECT_VARIABLE && key >= wire_object_blocks(r->spec))
		return star_error_set(why, -EINVAL,
				      "key %" PRIu64 ": variable \"%s\" has %" PRIu64 " blocks, numbered from 0", key,
				      r->spec->name, wire_object_blocks(r->spec));
	return 0;
}

/* 1, 0 at the end, or an error. */
static int next_text(struct row_reader *r, struct star_error *why)
{
	static const char mark[] = "\xef\xbb\xbf"; /* UTF-8's byte order mark, with which spreadsheets begin files */
	ssize_t bytes = getline(&r->text, &r->text_bytes, r->in[0]);

	if (bytes < 0)
		return ferror(r->in[0]) ? star_error_set(why, -EIO, "it cannot be read: %s", strerror(errno)) : 0;
	r->line++;
	r->done += (uint64_t)bytes;
	if (bytes > ROW_LINE_MAX)
		return star_error_set(why, -EINVAL, "the line has more than %d bytes", ROW_LINE_MAX);
	if (memchr(r->text, 0, (size_t)bytes))
		return star_error_set(why, -EINVAL, "there is a zero byte in the line");
	if (bytes && r->text[bytes - 1] == '\n')
		bytes--;
	if (bytes && r->text[bytes - 1] == '\r')
		bytes--;
	r->text[bytes] = 0;
	/* Some programs would treat the rest as another line. */
	if (strchr(r->text, '\r'))
		return star_error_set(why, -EINVAL,
				      "there is a carriage return in the line: lines end in a line feed, with one "
				      "before it at most");
	if (r->line == 1 && strncmp(r->text, mark, strlen(mark)) == 0)
		memmove(r->text, r->text + strlen(mark), strlen(r->text + strlen(mark)) + 1);
	return 1;
}

/* ---- JSON lines ---- */

static int take_definition(struct row_reader *r, const json_t *json, struct star_error *why)
{
	if (r->line != 1)
		return star_error_set(why, -EINVAL, "another table begins here: only the rows of one table are read");
	if (jsonrpc_object_decode(json_object_get(json, "table"), &r->of_file, why) < 0)
		return -EINVAL;
	if (r->of_file.kind != r->spec->kind || r->of_file.dim != r->spec->dim || r->of_file.dtype != r->spec->dtype)
		return star_error_set(why, -EINVAL,
				      "the rows are of a %s of %s, %" PRIu32
				      " elements per row, but \"%s\" is a %s of %s, %" PRIu32,
				      wire_object_kind_name(r->of_file.kind), dtype_name(r->of_file.dtype),
				      r->of_file.dim, r->spec->name, wire_object_kind_name(r->spec->kind),
				      dtype_name(r->spec->dtype), r->spec->dim);
	return ckpt_row_shape(&r->of_file, &r->shape) < 0 ? star_error_set(why, -EINVAL, "it has no rows") : 0;
}

static int take_end(struct row_reader *r, const json_t *json, struct star_error *why)
{
	uint64_t rows;

	if (jsonrpc_member_u64(json, "rows", &rows, why) < 0)
		return -EINVAL;
	r->ended = true;
	return rows == r->rows
		       ? 0
		       : star_error_set(why, -EINVAL, "it ends after %" PRIu64 " rows, and should have %" PRIu64,
					r->rows, rows);
}

static int read_row_json(struct row_reader *r, const json_t *json, uint64_t *key, void *values, struct star_error *why)
{
	const char *members[CKPT_LINE_MEMBERS];

	ckpt_line_members(&r->of_file, &r->shape, members);
	if (jsonrpc_member_only(json, members, why) < 0 || ckpt_line_read_key(json, "key", key, why) < 0 ||
	    ckpt_line_read_values(json, r->spec, values, why) < 0)
		return -EINVAL;
	return 1;
}

/* 1: a row; 0: a line without a row; or an error. */
static int take_line(struct row_reader *r, uint64_t *key, void *values, struct star_error *why)
{
	json_error_t position;
	json_t *json = json_loads(r->text, JSON_REJECT_DUPLICATES, &position);
	int rc;

	if (!json)
		return star_error_set(why, -EINVAL, "%.200s (column %d)", position.text, position.column);
	if (r->ended)
		rc = star_error_set(why, -EINVAL, "there is text after the last line of the table");
	else if (json_object_get(json, "table"))
		rc = take_definition(r, json, why);
	else if (json_object_get(json, "rows"))
		rc = take_end(r, json, why);
	else if (json_object_get(json, "waiting") || json_object_get(json, "bloom"))
		rc = 0; /* of an admission filter: not a row */
	else
		rc = read_row_json(r, json, key, values, why);
	json_decref(json);
	return rc;
}

/* Hand-written lines need neither a first nor a last line; files that have the first one must have the last one too. */
static int next_line(struct row_reader *r, uint64_t *key, void *values, struct star_error *why)
{
	int rc;

	while ((rc = next_text(r, why)) > 0) {
		if (!*r->text)
			continue;
		rc = take_line(r, key, values, why);
		if (rc != 0)
			return rc;
	}
	if (rc == 0 && r->of_file.name[0] && !r->ended)
		rc = star_error_set(why, -EINVAL, "it is incomplete: its last line, with \"rows\", is missing");
	return rc;
}

/* ---- CSV ---- */

/* What a column can contain: the key, the scale of scaled_int8, or, from CSV_VALUES on, an element. */
enum { CSV_KEY, CSV_SCALE, CSV_VALUES };

static uint32_t csv_columns(const struct row_reader *r)
{
	return 1 + (r->spec->dtype == STAR_SCALED_INT8) + r->spec->dim;
}

/* Interprets a column's name; 0 or -EINVAL. */
static int csv_place(const struct row_reader *r, const char *name, uint32_t *place)
{
	unsigned long element;
	char *end;

	*place = strcmp(name, "key") == 0 ? CSV_KEY : CSV_SCALE;
	if (*place == CSV_KEY || (r->spec->dtype == STAR_SCALED_INT8 && strcmp(name, "scale") == 0))
		return 0;
	/* "v0", not "v00": each element has one name. */
	if (name[0] != 'v' || !isdigit((unsigned char)name[1]) || (name[1] == '0' && name[2]))
		return -EINVAL;
	errno = 0;
	element = strtoul(name + 1, &end, 10);
	if (errno || *end || element >= r->spec->dim)
		return -EINVAL;
	*place = CSV_VALUES + (uint32_t)element;
	return 0;
}

/* The names of the columns that a table has: "key, v0 to v15". */
static const char *csv_names(const struct row_reader *r, char text[static 48])
{
	const int used = snprintf(text, 48, "key%s, v0", r->spec->dtype == STAR_SCALED_INT8 ? ", scale" : "");

	if (r->spec->dim > 1)
		snprintf(text + used, 48 - (size_t)used, " to v%" PRIu32, r->spec->dim - 1);
	return text;
}

/* Columns are identified by their names, in any order. */
static int csv_header(struct row_reader *r, struct star_error *why)
{
	const uint32_t columns = csv_columns(r);
	char *at, *name, names[48];
	uint32_t n = 0;
	int rc;

	r->columns = calloc(columns, sizeof(*r->columns));
	if (!r->columns)
		return star_error_set(why, -ENOMEM, "out of memory");
	rc = next_text(r, why);
	if (rc <= 0)
		return rc < 0 ? rc
			      : star_error_set(why, -EINVAL, "the first line, with the columns' names, is missing");
	at = r->text;
	while ((name = strsep(&at, ","))) {
		uint32_t place;

		if (csv_place(r, name, &place) < 0)
			return star_error_set(why, -EINVAL,
					      "column %" PRIu32 " is called \"%.60s\": \"%s\" has %s, in any order",
					      n + 1, name, r->spec->name, csv_names(r, names));
		for (uint32_t i = 0; i < n; i++)
			if (r->columns[i] == place)
				return star_error_set(why, -EINVAL,
						      "columns %" PRIu32 " and %" PRIu32 " are both \"%s\"", i + 1,
						      n + 1, name);
		r->columns[n++] = place; /* each name once, so there are no more than columns */
	}
	if (n < columns)
		return star_error_set(why, -EINVAL, "it has %" PRIu32 " columns of %" PRIu32 ": \"%s\" has %s", n,
				      columns, r->spec->name, csv_names(r, names));
	return 0;
}

/* Converts a cell for ckpt_element_parse. */
static json_t *cell_json(const char *cell, bool real)
{
	const char *digits = cell + (*cell == '-' || *cell == '+');
	char *end;

	if (real && (strncmp(cell, "nan:", 4) == 0 || strcmp(cell, "inf") == 0 || strcmp(cell, "-inf") == 0))
		return json_string(cell);
	if (!isdigit((unsigned char)*digits) && !(real && *digits == '.'))
		return NULL;
	errno = 0;
	if (real) {
		const double number = strtod(cell, &end);

		return *end || strpbrk(cell, "xX") || !isfinite(number) ? NULL : json_real(number);
	}
	const long long number = strtoll(cell, &end, 10);

	return *end || errno ? NULL : json_integer(number);
}

static int read_cell(const char *cell, uint32_t column, unsigned dtype, void *to, struct star_error *why)
{
	json_t *json = cell_json(cell, dtype_is_real(dtype));
	const bool ok = json && ckpt_element_parse(dtype, json, to);

	json_decref(json);
	return ok ? 0
		  : star_error_set(why, -EINVAL, "column %" PRIu32 ": \"%.40s\" is not a valid %s", column, cell,
				   dtype_name(dtype));
}

static int read_key(const char *cell, uint32_t column, uint64_t *key, struct star_error *why)
{
	return row_key_parse(cell, key)
		       ? 0
		       : star_error_set(why, -EINVAL,
					"column %" PRIu32 ": \"%.40s\" is not a key, a number from -2^63 "
					"to 2^64 - 1",
					column, cell);
}

static int next_csv(struct row_reader *r, uint64_t *key, void *values, struct star_error *why)
{
	const bool scaled = r->spec->dtype == STAR_SCALED_INT8;
	const unsigned dtype = scaled ? STAR_INT8 : r->spec->dtype;
	uint8_t *const elements = (uint8_t *)values + (scaled ? sizeof(float) : 0);
	const uint32_t columns = csv_columns(r);
	char *at;
	int rc;

	do
		rc = next_text(r, why);
	while (rc > 0 && !*r->text);
	if (rc <= 0)
		return rc;
	at = r->text;
	for (uint32_t i = 0; rc >= 0 && i < columns; i++) {
		const char *cell = strsep(&at, ",");
		const uint32_t place = r->columns[i];

		if (!cell)
			rc = star_error_set(why, -EINVAL, "there are %" PRIu32 " columns only", i);
		else if (place == CSV_KEY)
			rc = read_key(cell, i + 1, key, why);
		else if (place == CSV_SCALE)
			rc = read_cell(cell, i + 1, STAR_FLOAT32, values, why);
		else
			rc = read_cell(cell, i + 1, dtype, elements + (size_t)(place - CSV_VALUES) * dtype_bytes(dtype),
				       why);
	}
	if (rc >= 0 && at)
		rc = star_error_set(why, -EINVAL, "there are more than %" PRIu32 " columns", columns);
	return rc < 0 ? rc : 1;
}

/* ---- .npy ---- */

/* The value after 'NAME': in a header's dictionary; NULL: it does not exist. */
static const char *npy_value(const char *header, const char *name)
{
	char quoted[32];
	const char *at;

	snprintf(quoted, sizeof(quoted), "'%s':", name);
	at = strstr(header, quoted);
	return at ? at + strlen(quoted) + strspn(at + strlen(quoted), " ") : NULL;
}

struct npy_header {
	char type[8];
	uint64_t rows, columns; /* columns 0: it has one dimension */
};

/* As NumPy writes it, in versions 1 to 3; sizes are plain digits. */
static int read_npy_header(FILE *in, struct npy_header *header, struct star_error *why)
{
	uint8_t begin[12];
	const char *type, *order, *shape;
	char text[4096];
	size_t bytes, more;
	int used = 0;

	if (fread(begin, 1, 10, in) != 10 || memcmp(begin, "\x93NUMPY", 6) != 0 || begin[6] < 1 || begin[6] > 3)
		return star_error_set(why, -EINVAL, "it does not begin like a .npy file");
	more = begin[6] > 1 ? 2 : 0;
	if (fread(begin + 10, 1, more, in) != more)
		return star_error_set(why, -EINVAL, "it ends in its header");
	bytes = begin[8] | (size_t)begin[9] << 8 | (more ? (size_t)begin[10] << 16 | (size_t)begin[11] << 24 : 0);
	if (bytes >= sizeof(text) || fread(text, 1, bytes, in) != bytes)
		return star_error_set(why, -EINVAL, "its header has %zu bytes, or it ends there", bytes);
	text[bytes] = 0;
	type = npy_value(text, "descr");
	order = npy_value(text, "fortran_order");
	shape = npy_value(text, "shape");
	if (!type || sscanf(type, "'%7[^']'", header->type) != 1 || !order || !shape)
		return star_error_set(why, -EINVAL, "its header has no descr, fortran_order and shape");
	if (strncmp(order, "False", 5) != 0)
		return star_error_set(why, -EINVAL, "it is in Fortran order: save its numpy.ascontiguousarray");
	header->rows = header->columns = 0;
	if (sscanf(shape, "(%" SCNu64 ",%n", &header->rows, &used) < 1 || !used ||
	    (shape[used] != ')' && sscanf(shape + used, "%" SCNu64 ")", &header->columns) != 1))
		return star_error_set(why, -EINVAL, "its shape is \"%.40s\": one or two sizes are needed", shape);
	return 0;
}

/* The file of values, in a type that can be assigned to the table's rows. */
static int npy_values(struct row_reader *r, const struct npy_header *header, struct star_error *why)
{
	static const unsigned reals[] = { STAR_FLOAT16, STAR_FLOAT32, STAR_FLOAT64 };
	const unsigned own = row_npy_dtype(r->spec);

	if (header->columns != r->spec->dim)
		return star_error_set(why, -EINVAL, "it has rows of %" PRIu64 " elements, but \"%s\" of %" PRIu32,
				      header->columns, r->spec->name, r->spec->dim);
	if (strcmp(header->type, row_npy_type(own)) == 0) {
		r->dtype = r->spec->dtype == STAR_BFLOAT16 ? STAR_FLOAT32 : r->spec->dtype;
		return 0;
	}
	for (unsigned i = 0; dtype_is_real(r->spec->dtype) && i < 3; i++)
		if (strcmp(header->type, row_npy_type(reals[i])) == 0) {
			r->dtype = reals[i];
			return 0;
		}
	return star_error_set(why, -EINVAL, "it has elements of type '%s', but \"%s\" has type %s ('%s')", header->type,
			      r->spec->name, dtype_name(r->spec->dtype), row_npy_type(own));
}

/* Keys and scales. NumPy's default integers are signed: a negative key k is 2^64 + k. */
static int npy_column(unsigned part, const struct npy_header *header, struct star_error *why)
{
	if (!header->columns &&
	    (strcmp(header->type, part ? "<f4" : "<u8") == 0 || (part == 0 && strcmp(header->type, "<i8") == 0)))
		return 0;
	return star_error_set(why, -EINVAL, "it has elements of type '%s' in %d dimensions: needed are '%s' in one",
			      header->type, header->columns ? 2 : 1, part ? "<f4" : "<u8");
}

static int npy_open(struct row_reader *r, const char *path, struct star_error *err)
{
	struct star_error why = { 0 };

	r->parts = 3;
	for (unsigned i = 0; i < r->parts; i++) {
		struct npy_header header;
		int rc = row_part_path(ROW_NPY, path, i, r->name, err);

		if (rc < 0)
			return rc;
		r->in[i] = fopen(r->name, "re");
		if (!r->in[i])
			return star_error_set(err, -errno, "cannot read %.300s: %s", r->name, strerror(errno));
		rc = read_npy_header(r->in[i], &header, &why);
		if (rc == 0 && i == 1)
			rc = npy_values(r, &header, &why);
		else if (rc == 0)
			rc = npy_column(i, &header, &why);
		if (rc == 0 && i && header.rows != r->expected)
			rc = star_error_set(&why, -EINVAL, "it has %" PRIu64 " rows, but there are %" PRIu64 " keys",
					    header.rows, r->expected);
		if (rc < 0)
			return star_error_set(err, rc, "%.300s: %.400s", r->name, why.text);
		r->expected = header.rows;
		if (i == 1)
			r->parts = r->dtype == STAR_SCALED_INT8 ? 3 : 2;
	}
	row_part_path(ROW_NPY, path, 1, r->name, err);
	return 0;
}

static int next_npy(struct row_reader *r, uint64_t *key, void *values, struct star_error *why)
{
	const bool scaled = r->dtype == STAR_SCALED_INT8;
	const unsigned dtype = scaled ? STAR_INT8 : r->dtype;
	const size_t bytes = (size_t)r->spec->dim * dtype_bytes(dtype);
	uint8_t *to = values;

	if (r->rows == r->expected) {
		for (unsigned i = 0; i < r->parts; i++)
			if (fgetc(r->in[i]) != EOF)
				return star_error_set(why, -EINVAL, "one of the files continues after its last row");
		return 0;
	}
	r->line++;
	if (fread(key, sizeof(*key), 1, r->in[0]) != 1 || (scaled && fread(to, sizeof(float), 1, r->in[2]) != 1) ||
	    fread(to + (scaled ? sizeof(float) : 0), 1, bytes, r->in[1]) != bytes)
		return star_error_set(why, -EINVAL, "the files are incomplete: they should have %" PRIu64 " rows",
				      r->expected);
	r->done += sizeof(*key) + bytes;
	return 1;
}

/* ---- all formats ---- */

/* The first element of a row of real numbers that is not finite; dim: all are finite. */
static uint32_t not_finite(unsigned dtype, const void *row, uint32_t dim)
{
	double wide[WIRE_DIM_MAX];
	float scratch[WIRE_DIM_MAX];
	uint32_t i = 0;

	if (dtype == STAR_FLOAT64)
		memcpy(wide, row, dim * sizeof(*wide));
	else
		tensor_convert_row(scratch, STAR_FLOAT32, row, dtype, dim, NULL);
	while (i < dim && isfinite(dtype == STAR_FLOAT64 ? wide[i] : (double)scratch[i]))
		i++;
	return i;
}

/* Refuses values that the node would refuse or change: at that time other nodes and reactors would have assigned
 * theirs. */
static int check_values(const struct row_reader *r, uint64_t key, const void *values, struct star_error *why)
{
	const struct object_spec *spec = r->spec;
	double stored[WIRE_DIM_MAX]; /* of any type */
	float scratch[WIRE_DIM_MAX];
	uint32_t at;

	if (!dtype_is_real(spec->dtype))
		return 0;
	at = not_finite(r->dtype, values, spec->dim);
	if (at < spec->dim)
		return spec->nonfinite == NONFINITE_PASS
			       ? 0
			       : star_error_set(why, -EDOM,
						"key %" PRIu64 ": element %" PRIu32
						" is a NaN or an infinity, which \"%s\" would take with nonfinite=pass "
						"alone",
						key, at, spec->name);
	if (r->dtype == spec->dtype)
		return 0;
	tensor_convert_row(stored, spec->dtype, values, r->dtype, spec->dim, scratch);
	at = not_finite(spec->dtype, stored, spec->dim);
	return at == spec->dim
		       ? 0
		       : star_error_set(why, -ERANGE, "key %" PRIu64 ": element %" PRIu32 " is too large for %s", key,
					at, dtype_name(spec->dtype));
}

struct row_reader *row_reader_open(const struct object_spec *spec, enum row_format format, const char *path, FILE *in,
				   struct star_error *err)
{
	struct row_reader *r = calloc(1, sizeof(*r));
	struct star_error why = { 0 };
	struct stat status;
	int rc = r ? 0 : star_error_set(err, -ENOMEM, "out of memory");

	if (rc < 0)
		return NULL;
	r->spec = spec;
	r->format = format;
	r->parts = 1;
	r->dtype = spec->dtype;
	ckpt_row_shape(spec, &r->shape);
	r->of_file = *spec;
	r->of_file.name[0] = 0;
	if (format == ROW_NPY) {
		rc = npy_open(r, path, err);
		r->total = r->expected *
			   (sizeof(uint64_t) +
			    (uint64_t)spec->dim * dtype_bytes(r->dtype == STAR_SCALED_INT8 ? STAR_INT8 : r->dtype));
	} else {
		snprintf(r->name, sizeof(r->name), "%s", path ? path : "standard input");
		r->in[0] = path ? fopen(path, "re") : in;
		if (!r->in[0])
			rc = star_error_set(err, -errno, "cannot read %.300s: %s", path, strerror(errno));
		else if (fstat(fileno(r->in[0]), &status) == 0 && S_ISREG(status.st_mode))
			r->total = (uint64_t)status.st_size;
	}
	if (rc == 0 && format == ROW_CSV && csv_header(r, &why) < 0)
		rc = refuse_line(r, err, -EINVAL, &why);
	if (rc == 0)
		return r;
	row_reader_close(r);
	return NULL;
}

int row_reader_next(struct row_reader *r, uint64_t *key, void *values, struct star_error *err)
{
	struct star_error why = { 0 };
	int rc = r->format == ROW_NPY	? next_npy(r, key, values, &why)
		 : r->format == ROW_CSV ? next_csv(r, key, values, &why)
					: next_line(r, key, values, &why);

	if (rc > 0 && (check_key(r, *key, &why) < 0 || check_values(r, *key, values, &why) < 0))
		rc = why.code;
	r->rows += rc > 0;
	return rc < 0 ? refuse_line(r, err, rc, &why) : rc;
}

unsigned row_reader_dtype(const struct row_reader *r)
{
	return r->dtype;
}

void row_reader_share(const struct row_reader *r, uint64_t *done, uint64_t *total)
{
	*done = r->done;
	*total = r->total;
}

void row_reader_close(struct row_reader *r)
{
	if (!r)
		return;
	for (unsigned i = 0; i < ROW_PARTS; i++)
		if (r->in[i] && r->in[i] != stdin)
			fclose(r->in[i]);
	ckpt_keyset_fini(&r->keys);
	free(r->columns);
	free(r->text);
	free(r);
}
