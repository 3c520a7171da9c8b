/* SPDX-License-Identifier: BSD-3-Clause */
/* Columns of one's own: what a schema says, rows by it, and what is wrong in either. */
#include "input/schema.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "input/columns.h"
#include "tests/input/cases.h"
#include "tests/unit.h"

#define SHOP \
	"# a shop's\n" \
	"separator comma\r\n" \
	"header yes\n" \
	"\n" \
	"ignore \"time stamp\"   # of no use\n" \
	"category user\n" \
	"list genres most=3\n" \
	"number price log\n" \
	"label bought positive=yes negative=no\n" \
	"number height missing=1.5\n" \
	"number age raw\n"

static struct input_schema *parse_text(const char *text, struct star_error *err)
{
	return input_schema_parse(text, strlen(text), "s", err);
}

void a_schema_says_what_rows_have(void)
{
	struct star_error err = { 0 };
	struct input_schema *s = parse_text(SHOP, &err);
	struct input_shape shape;

	if (!s) {
		unit_fail(__FILE__, __LINE__, "%s", err.text);
		return;
	}
	shape = input_schema_shape(s);
	CHECK_UINT(shape.dense, 3);
	CHECK_UINT(shape.fields, 1);
	CHECK_UINT(shape.lists, 1);
	CHECK_UINT(shape.list_ids, 3);
	CHECK(shape.columns && !shape.history);
	CHECK(!input_schema_is_standardized(s, 0) && input_schema_is_standardized(s, 1));
	CHECK(!input_schema_is_standardized(s, 2) && !input_schema_is_standardized(s, 3));
	CHECK_INT(input_schema_column(s, "genres", &err), 2);
	CHECK_INT(input_schema_column(s, "1", &err), 1);
	CHECK_INT(input_schema_column(s, "price", &err), -EINVAL);
	CHECK_INT(input_schema_column(s, "7", &err), -EINVAL);
	CHECK(strstr(err.text, "a number from 0 to 6") != NULL);
	input_schema_destroy(s);
	input_schema_destroy(NULL);
}

/* ---- rows ---- */

/* Columns of a schema, and the row that was parsed last. */
struct table {
	struct input_schema *schema;
	struct columns columns;
	struct row row;
};

static bool table_init(struct table *t, const char *schema)
{
	struct star_error err = { 0 };

	*t = (struct table){ .schema = parse_text(schema, &err) };
	return t->schema ? CHECK_INT(input_columns_init(&t->columns, t->schema), 0)
			 : unit_fail(__FILE__, __LINE__, "%s", err.text);
}

static void table_fini(struct table *t)
{
	input_row_fini(&t->row);
	input_columns_fini(&t->columns);
	input_schema_destroy(t->schema);
}

static int row_of(struct table *t, const char *text, struct star_error *err)
{
	char line[400];

	snprintf(line, sizeof(line), "%s", text);
	return input_columns_row(&t->columns, line, &t->row, err);
}

static int header_of(struct table *t, const char *text, struct star_error *err)
{
	char line[400];

	snprintf(line, sizeof(line), "%s", text);
	return input_columns_header(&t->columns, line, err);
}

void rows_follow_the_header(void)
{
	struct star_error err = { 0 };
	struct table t;
	const struct row *row = &t.row;

	if (!table_init(&t, SHOP))
		return;
	CHECK_INT(header_of(&t, "\xef\xbb\xbfuser,bought,price,genres,time stamp,age,\"height\"\r\n", &err), 0);
	CHECK_INT(row_of(&t, "u1,yes,3.5,a|b,2020,7,\n", &err), 1);
	CHECK_NEAR(row->label, 1, 0);
	CHECK_NEAR(row->dense[0], log1p(3.5), 1e-6);
	CHECK_NEAR(row->dense[1], 1.5, 0);
	CHECK_NEAR(row->dense[2], 7, 0);
	CHECK_UINT(row->count, 3);
	CHECK_UINT((uint64_t)row->ids[0], hash_word(1, "u1"));
	CHECK_UINT((uint64_t)row->ids[1], hash_word(2, "a"));
	CHECK_UINT((uint64_t)row->ids[2], hash_word(2, "b"));
	CHECK_UINT(row->lengths[0], 2);
	CHECK_INT(row_of(&t, " \"u, \"\"1\"\"\" , no , , , \"\" , -1e3 , 2", &err), 1);
	CHECK_NEAR(row->label, 0, 0);
	CHECK_NEAR(row->dense[0], 0, 0);
	CHECK_NEAR(row->dense[2], -1000, 0);
	CHECK_UINT(row->count, 1);
	CHECK_UINT((uint64_t)row->ids[0], hash_word(1, "u, \"1\""));
	CHECK_UINT(row->lengths[0], 0);
	CHECK_INT(row_of(&t, "\r\n", &err), 0);
	table_fini(&t);
}

/* Blanks that separate columns end what is in quotes, and are not passed over. */
void quotes_may_end_at_a_blank_that_separates(void)
{
	struct star_error err = { 0 };
	struct table t;

	if (!table_init(&t, "separator space\nquotes yes\ncategory a\nlabel b\ncategory c\nnumber d raw\n"))
		return;
	if (CHECK_INT(row_of(&t, "\"x y\" 1  \"2\"", &err), 1)) {
		CHECK_UINT((uint64_t)t.row.ids[0], hash_word(0, "x y"));
		CHECK_UINT((uint64_t)t.row.ids[1], hash_word(2, ""));
		CHECK_NEAR(t.row.label, 1, 0);
		CHECK_NEAR(t.row.dense[0], 2, 0);
	}
	CHECK_INT(row_of(&t, "\"x\"y 1  2", &err), -EINVAL);
	table_fini(&t);
}

void blanks_around_a_list_s_texts_are_no_part_of_them(void)
{
	struct star_error err = { 0 };
	struct table t;

	if (!table_init(&t, "\xef\xbb\xbfseparator space\nquotes yes\nlabel a\nlist b\n"))
		return;
	if (CHECK_INT(row_of(&t, "1 \"u | v|w \"", &err), 1) && CHECK_UINT(t.row.count, 3)) {
		CHECK_UINT((uint64_t)t.row.ids[0], hash_word(1, "u"));
		CHECK_UINT((uint64_t)t.row.ids[1], hash_word(1, "v"));
		CHECK_UINT((uint64_t)t.row.ids[2], hash_word(1, "w"));
	}
	table_fini(&t);
}

void rows_that_do_not_fit_a_schema_are_refused(void)
{
	static const struct {
		const char *line, *has;
	} cases[] = {
		{ "u,yes,1,a,t,1", "the line has 6 columns, but the schema has 7" },
		{ "u;yes;1", "the line has 1 columns, but the schema has 7: is the separator right?" },
		{ "u,yes,1,a,t,1,2,3", "the line has 8 columns" },
		{ "u,1,1,a,t,1,2", "column 2 (bought): the label \"1\" is neither \"yes\" nor \"no\"" },
		{ "u,yes,x,a,t,1,2", "column 3 (price): \"x\" is not a number" },
		{ "u,yes,1e999,a,t,1,2", "is not a number" },
		{ "u,yes,1,a,t,,2",
		  "column 6 (age) is empty: give a default for empty values in the schema, as in missing=0" },
		{ "u,yes,1,a||b,t,1,2", "column 4 (genres): value 2 of the list is empty" },
		{ "u,yes,1,a|,t,1,2", "column 4 (genres): value 2 of the list is empty" },
		{ "u,yes,1,a| |b,t,1,2", "column 4 (genres): value 2 of the list is empty" },
		{ "u,yes,1,|,t,1,2", "column 4 (genres): value 1 of the list is empty" },
		{ "u,yes,1,a|b|c|d,t,1,2", "column 4 (genres): the list has more than 3 values: increase most=" },
		{ "u,yes,1,a,\"t,1,2", "column 5: a quoted value is not closed" },
		{ "u,yes,1,a,\"t\"t,1,2", "column 5: a quoted value is not closed" },
	};
	static const struct {
		const char *line, *has;
	} headers[] = {
		{ "user,bought,price,genres,time stamp,age",
		  "the header has no column \"height\", which line 10 of the schema names" },
		{ "user\tbought\tprice", "column 1: the schema has no \"user\tbought\tprice\"" },
		{ "user,bought,price,genres,time stamp,age,height,width",
		  "column 8: the schema has no \"width\": add it" },
		{ "user,bought,price,genres,time stamp,age,age", "column 7: the header has \"age\" twice" },
		{ "user", "the header has one column only: is the separator right?" },
		{ "", "column 1: the schema has no \"\"" },
	};
	struct star_error err = { 0 };
	struct table t;

	if (!table_init(&t, SHOP))
		return;
	CHECK_INT(header_of(&t, "user,bought,price,genres,time stamp,age,height", &err), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const int status = row_of(&t, cases[i].line, &err);

		if ((status != -EINVAL && status != -E2BIG) || !strstr(err.text, cases[i].has))
			unit_fail(__FILE__, __LINE__, "%s: %d, %s", cases[i].line, status, err.text);
	}
	for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++)
		if (header_of(&t, headers[i].line, &err) != -EINVAL || !strstr(err.text, headers[i].has))
			unit_fail(__FILE__, __LINE__, "%s: %s", headers[i].line, err.text);
	table_fini(&t);
}

/* ---- schemas ---- */

static void more_labels_than_there_may_be_are_refused(void)
{
	char text[(INPUT_SCHEMA_LABELS_MAX + 1) * 16 + 32];
	struct input_schema *s;
	struct star_error err;
	size_t bytes = 0;

	for (unsigned i = 0; i <= INPUT_SCHEMA_LABELS_MAX; i++) {
		bytes += (size_t)sprintf(text + bytes, "label l%u\n", i);
		if (i + 1 < INPUT_SCHEMA_LABELS_MAX)
			continue;
		strcpy(text + bytes, "number x\n");
		s = input_schema_parse(text, strlen(text), "s", &err);
		CHECK(!s == (i == INPUT_SCHEMA_LABELS_MAX));
		input_schema_destroy(s);
	}
	CHECK_HAS(err.text, "s:17:1: there are more than 16 labels");
}

void wrong_schemas_are_refused(void)
{
	static const struct {
		const char *text, *has;
	} cases[] = {
		{ "", "s: there is no label: add a line \"label NAME\"" },
		{ "label a\n", "s: there are no features" },
		{ "label a\nnumber b\nnumber c\ncategory b\n", "s:4:1: there is already a column \"b\" in line 2" },
		{ "label a\n  numbre b\n", "s:2:3: \"numbre\": a line must begin with separator, header," },
		{ "label\n", "s:1:1: label must be followed by the column's name" },
		{ "label \"\"\n", "s:1:1: label must be followed by the column's name" },
		{ "label a b\n", "s:1:9: \"b\": the name of a label may be followed by positive=TEXT" },
		{ "label a negative=x\n", "negative= needs positive= with another text" },
		{ "label a negative=x positive=x\n", "negative= needs positive= with another text" },
		{ "number a logs\n", "s:1:10: \"logs\": the name of a number may be followed by standard, log or raw" },
		{ "number a missing=\n", "s:1:10: missing=: give a number" },
		{ "number a missing=nan\n", "give a number" },
		{ "list a most=0\n", "most=0 is out of range; allowed: 1 to 4096" },
		{ "list a most=4097\n", "is out of range; allowed: 1 to 4096" },
		{ "list a most=99999999999999999999999\n", "is out of range; allowed: 1 to 4096" },
		{ "list a of=3\n", "the name of a list may be followed by separator=CHARACTER and most=COUNT" },
		{ "list a separator=ab\n", "s:1:8: \"ab\" cannot be a separator" },
		{ "separator bar\nlist a\nlabel b\n", "s:2:1: the list's separator also separates columns" },
		{ "separator \"\n", "s:1:11: the quote is not closed in this line" },
		{ "separator x\n", "\"x\" cannot be a separator: write tab, comma" },
		{ "separator comma tab\n", "s:1:1: separator must be followed by one word" },
		{ "header maybe\n", "s:1:8: header must be yes or no, not \"maybe\"" },
		{ "category a few words\n",
		  "nothing may follow the name of such a column; write a name with blanks in" },
		{ "a b c d e f g h i\n", "the line has more than 8 words" },
		{ "label a\nnumber b\rlog\n", "s:2: there is a carriage return within the line" },
		{ "label a\rnumber b\r", "s:1: there is a carriage return within the line" },
		{ "separator tab\nseparator tab\n", "s:2:1: separator was set in an earlier line" },
		{ "header no\nquotes no\nheader yes\n", "s:3:1: header was set in an earlier line" },
		{ "quotes no\nquotes yes\n", "s:2:1: quotes was set in an earlier line" },
		{ "number a log raw\n", "s:1:14: \"raw\" conflicts with \"log\"" },
		{ "number a missing=1 log missing=2\n", "s:1:24: \"missing=2\" conflicts with \"missing=1\"" },
		{ "list a most=3 separator=+ most=3\n", "s:1:27: \"most=3\" conflicts with \"most=3\"" },
		{ "label a positive=x positive=y\n", "\"positive=y\" conflicts with \"positive=x\"" },
	};
	struct star_error err = { 0 };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct input_schema *s = parse_text(cases[i].text, &err);

		if (s || err.code != -EINVAL || !strstr(err.text, cases[i].has))
			unit_fail(__FILE__, __LINE__, "%s: %s", cases[i].text, err.text);
		input_schema_destroy(s);
	}
	CHECK(!input_schema_parse("label a\nnum\0ber b\n", 18, "s", &err));
	CHECK_STR(err.text, "s:2: there is a zero byte: a schema must be plain text");
	CHECK(!input_schema_read("/nowhere/schema", &err));
	CHECK_STR(err.text, "cannot read the schema /nowhere/schema: No such file or directory");
	more_labels_than_there_may_be_are_refused();
}

static struct input_schema *many(const char *kind, unsigned count, struct star_error *err)
{
	char *text = malloc(count * 32 + 32);
	size_t bytes = (size_t)sprintf(text, "label a\n");
	struct input_schema *s;

	for (unsigned i = 0; i < count; i++)
		bytes += (size_t)sprintf(text + bytes, "%s c%u%s\n", kind, i, *kind == 'l' ? " most=4096" : "");
	s = input_schema_parse(text, bytes, "s", err);
	free(text);
	return s;
}

void schemas_are_bounded(void)
{
	struct star_error err = { 0 };
	struct input_schema *s = many("category", INPUT_SCHEMA_COLUMNS_MAX - 1, &err);

	CHECK(s && input_schema_shape(s).fields == INPUT_SCHEMA_COLUMNS_MAX - 1);
	input_schema_destroy(s);
	CHECK(!many("category", 10000, &err));
	CHECK(strstr(err.text, "s:4097:1: there are more than 4096 columns") != NULL);
	CHECK(!many("list", 17, &err));
	CHECK(strstr(err.text,
		     "s:18:1: the categories, and the lists at their longest, have more than 65536 values together"));
}

void a_schema_is_a_file_that_has_an_end(void)
{
	struct star_error err = { 0 };
	char folder[UNIT_FOLDER], file[UNIT_FOLDER + 8];
	int fd;

	if (!CHECK(unit_folder(folder, "schema")))
		return;
	snprintf(file, sizeof(file), "%s/schema", folder);
	CHECK(!input_schema_read(folder, &err));
	CHECK_INT(err.code, -EISDIR);
	CHECK(!input_schema_read("/dev/zero", &err));
	CHECK_INT(err.code, -EMEDIUMTYPE);
	/* Nobody ever writes to it. */
	CHECK_INT(mkfifo(file, 0600), 0);
	CHECK(!input_schema_read(file, &err));
	CHECK(strstr(err.text, "/schema: it is a pipe, a socket or a device, and not a regular file") != NULL);
	unlink(file);
	fd = open(file, O_WRONLY | O_CREAT, 0600);
	CHECK_INT(ftruncate(fd, INPUT_SCHEMA_BYTES_MAX + 1), 0);
	close(fd);
	CHECK(!input_schema_read(file, &err));
	CHECK_INT(err.code, -E2BIG);
	unlink(file);
	rmdir(folder);
}

/* ---- files ---- */

enum { ROWS = 500 };

static char path[2][UNIT_FOLDER];

/* The second one has its columns in another order. */
static void write_tables(void)
{
	for (unsigned f = 0; f < 2; f++) {
		FILE *file = fdopen(unit_file(path[f], "table"), "w");

		fprintf(file, f ? "one more,tags,y,x,z\n" : "x,z,tags,y,one more\n");
		for (unsigned i = f; i < ROWS; i += 2) {
			const char *const tags[] = { "", "a", "a|b" };

			if (f)
				fprintf(file, "%u,%s,%u,%u,%u\n", (i + 1) % 2, tags[i % 3], i % 2, i, i % 3);
			else
				fprintf(file, "%u,%u,%s,%u,%u\n", i, i % 3, tags[i % 3], i % 2, (i + 1) % 2);
		}
		fclose(file);
	}
}

/* x, and what follows from it: a list of x % 3, and three labels. */
enum { TABLE_BATCH = 7 };

static const char table_schema[] = "separator comma\nheader yes\nnumber x raw\nlist tags\nlabel y\nlabel z positive=2\n"
				   "label \"one more\" positive=0 negative=1\n";

static void look_at(const struct input_batch *b, unsigned *seen)
{
	uint32_t id = 0;

	for (uint32_t row = 0; row < b->rows; row++) {
		const unsigned number = (unsigned)b->dense[row];

		if (number >= ROWS || !(b->labels[row] == (float)(number % 2)) ||
		    !(b->more_labels[row] == (float)(number % 3 == 2)) ||
		    !(b->more_labels[TABLE_BATCH + row] == (float)(number % 2)) ||
		    !(b->lists.lengths[row] == (float)(number % 3))) {
			unit_fail(__FILE__, __LINE__, "row %u: label %g, list of %g", number, (double)b->labels[row],
				  (double)b->lists.lengths[row]);
			return;
		}
		seen[number]++;
		for (unsigned i = 0; i < number % 3; i++, id++) {
			CHECK_INT(b->lists.segments[id], row);
			CHECK_UINT((uint64_t)b->lists.ids[id], hash_word(1, i ? "b" : "a"));
		}
	}
	CHECK_UINT(id, b->lists.count);
	CHECK_UINT(b->ids_count, 0);
}

static int take_next(void *arg, bool wait, struct input_slice *slice, struct star_error *err)
{
	struct input_slices *q = arg;
	static uint64_t next;

	(void)wait, (void)err;
	*slice = (struct input_slice){ .number = next };
	if (next == q->plan->slices) {
		next = 0;
		return 0;
	}
	next++;
	return 1;
}

static void slice_done(void *arg, const struct input_slice *slice)
{
	(void)arg, (void)slice;
}

void each_file_has_a_header(void)
{
	const char *const paths[] = { path[0], path[1] };
	struct star_error err = { 0 };
	struct input_schema *s = parse_text(table_schema, &err);
	struct input_plan plan;
	struct input_slices queue = {
		.arg = &queue, .plan = &plan, .epochs = 1, .take = take_next, .done = slice_done
	};
	struct input_options options = { .format = INPUT_SCHEMA,
					 .schema = s,
					 .paths = paths,
					 .paths_count = 2,
					 .batch = TABLE_BATCH,
					 .epochs = 1,
					 .workers = 1 };

	write_tables();
	CHECK(s != NULL);
	CHECK_UINT(input_schema_shape(s).more_labels, 2);
	CHECK_STR(input_schema_label(s, 0), "y");
	CHECK_STR(input_schema_label(s, 2), "one more");
	CHECK(!input_schema_label(s, 3));
	CHECK_INT(input_plan_make(paths, 2, INPUT_SLICE_MIN, 0, &plan, &err), 0);
	for (unsigned use = 0; use < 2; use++) {
		const struct input_batch *batch;
		unsigned seen[ROWS] = { 0 };
		struct input *in;
		int rc;

		plan.slice_bytes = 100; /* many begin in the middle of a line; and in no header twice */
		plan.first[1] = (plan.bytes[0] + 99) / 100;
		plan.first[2] = plan.slices = plan.first[1] + (plan.bytes[1] + 99) / 100;
		options.slices = use ? &queue : NULL;
		in = input_open(&options, &err);
		while (in && (rc = input_next(in, &batch, &err)) > 0)
			look_at(batch, seen);
		CHECK(in && rc == 0);
		input_close(in);
		for (unsigned i = 0; i < ROWS; i++)
			if (seen[i] != 1) {
				unit_fail(__FILE__, __LINE__, "use %u: row %u came %u times: %s", use, i, seen[i],
					  err.text);
				break;
			}
	}
	input_plan_fini(&plan);
	input_schema_destroy(s);
	unlink(path[0]);
	unlink(path[1]);
}

void a_byte_order_mark_is_no_value(void)
{
	struct star_error err = { 0 };
	struct input_schema *s = parse_text("separator comma\ncategory c\nlabel y\n", &err);
	const char *const paths[] = { path[0] };
	const struct input_options options = { .format = INPUT_SCHEMA,
					       .schema = s,
					       .paths = paths,
					       .paths_count = 1,
					       .batch = 2,
					       .epochs = 1,
					       .workers = 1 };
	FILE *file = fdopen(unit_file(path[0], "mark"), "w");
	const struct input_batch *batch;
	struct input *in;

	fprintf(file, "\xef\xbb\xbf"
		      "a,1\na,0\n");
	fclose(file);
	in = input_open(&options, &err);
	if (in && input_next(in, &batch, &err) > 0) {
		CHECK_UINT(batch->ids_count, 2);
		CHECK_UINT((uint64_t)batch->ids[0], hash_word(0, "a"));
		CHECK_UINT((uint64_t)batch->ids[1], hash_word(0, "a"));
	} else {
		unit_fail(__FILE__, __LINE__, "%s", err.text);
	}
	input_close(in);
	input_schema_destroy(s);
	unlink(path[0]);
}

void errors_of_tables_name_file_and_line(void)
{
	static const struct {
		const char *text, *has;
	} cases[] = {
		{ "", " is empty, but the schema says that its first line has the column names" },
		{ "x,z,y\n", ":1: column 2: the schema has no \"z\"" },
		{ "x,tags,y\n1,a,1\n1,a,2\n", ":3: column 3 (y): the label must be 0 or 1, not \"2\"" },
		{ "x,tags,y\n", "there are no rows in " },
	};
	struct star_error err = { 0 };
	struct input_schema *s = parse_text("separator comma\nheader yes\nnumber x raw\nlist tags\nlabel y\n", &err);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *const paths[] = { path[0] };
		struct input_options options = { .format = INPUT_SCHEMA,
						 .schema = s,
						 .paths = paths,
						 .paths_count = 1,
						 .batch = 7,
						 .epochs = 1,
						 .workers = 1 };
		const struct input_batch *batch;
		struct input *in;
		int rc = 1, fd = unit_file(path[0], "table");

		CHECK_INT(write(fd, cases[i].text, strlen(cases[i].text)), (int)strlen(cases[i].text));
		close(fd);
		in = input_open(&options, &err);
		while (in && (rc = input_next(in, &batch, &err)) > 0)
			continue;
		input_close(in);
		CHECK(!in || rc < 0);
		if (!strstr(err.text, cases[i].has) || !strstr(err.text, path[0]))
			unit_fail(__FILE__, __LINE__, "%s: %s", cases[i].text, err.text);
		unlink(path[0]);
	}
	input_schema_destroy(s);
}
