/* SPDX-License-Identifier: BSD-3-Clause */
#include "input/input.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "input/row.h"
#include "tests/input/cases.h"
#include "tests/unit.h"

/* ---- lines ---- */

#define CRITEO_TAIL \
	"\t1\t\t-" \
	"3\t4\t5\t6\t7\t8\t9\t10\t11\t12\t13\ta\tb\t\td\te\tf\tg\th\ti\tj\tk\tl\tm\tn\to\tp\tq\tr\ts\tt\tu\tv\tw\tx\t" \
	"y\tz"
#define CENSUS \
	"39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, " \
	"?, "

static int parse(enum input_format format, const char *text, struct row *row, struct star_error *err)
{
	char line[1024];

	snprintf(line, sizeof(line), "%s", text);
	return input_row_parse(format, line, row, err);
}

static void rows_of_each_format_are_parsed(void)
{
	struct star_error err = { 0 };
	struct row row = { 0 }, other = { 0 };

	CHECK_INT(parse(INPUT_CRITEO, "1" CRITEO_TAIL "\n", &row, &err), 1);
	CHECK_NEAR(row.label, 1, 0);
	CHECK_NEAR(row.dense[0], log(2), 1e-6);
	CHECK_NEAR(row.dense[1], 0, 0);
	CHECK_NEAR(row.dense[2], 0, 0);
	CHECK_NEAR(row.dense[12], log(14), 1e-6);
	CHECK_UINT(row.count, 26);
	for (unsigned i = 0; i < 26; i++)
		for (unsigned k = 0; k < i; k++)
			CHECK(row.ids[i] != row.ids[k] && row.ids[i] >= 0);
	CHECK_INT(parse(INPUT_CRITEO, "0" CRITEO_TAIL, &other, &err), 1);
	CHECK_MEM(other.ids, row.ids, 26 * sizeof(row.ids[0]));

	CHECK_INT(parse(INPUT_CENSUS, CENSUS ">50K.\r\n", &row, &err), 1);
	CHECK_NEAR(row.label, 1, 0);
	CHECK_NEAR(row.dense[0], 39, 0);
	CHECK_NEAR(row.dense[5], 40, 0);
	CHECK_UINT(row.count, 8);
	CHECK_INT(parse(INPUT_CENSUS, CENSUS "<=50K", &row, &err), 1);
	CHECK_NEAR(row.label, 0, 0);

	CHECK_INT(parse(INPUT_LIBSVM, "-1 7:0.5  9:-2 # 3:4", &row, &err), 1);
	CHECK_NEAR(row.label, 0, 0);
	CHECK_UINT(row.count, 2);
	CHECK_INT(row.ids[1], 9);
	CHECK_NEAR(row.values[1], -2, 0);
	CHECK_INT(parse(INPUT_LIBSVM, "+1.0", &row, &err), 1);
	CHECK_NEAR(row.label, 1, 0);
	CHECK_UINT(row.count, 0);
	CHECK_INT(parse(INPUT_LIBSVM, "0", &row, &err), 1);
	CHECK_NEAR(row.label, 0, 0);

	CHECK_INT(parse(INPUT_HISTORIES, "1\tu\ti\tc\ti:c j:u\n", &row, &err), 1);
	CHECK_NEAR(row.label, 1, 0);
	CHECK_UINT(row.count, 3 + 2 * 2);
	CHECK_INT(row.ids[3], row.ids[1]); /* the candidate was clicked on before */
	CHECK_INT(row.ids[4], row.ids[2]);
	CHECK(row.ids[6] != row.ids[0]); /* a category is not a user */
	CHECK_INT(parse(INPUT_HISTORIES, "0\tu\ti\tc\t", &row, &err), 1);
	CHECK_NEAR(row.label, 0, 0);
	CHECK_UINT(row.count, 3);
	input_row_fini(&row);
	input_row_fini(&other);
}

/* They are part of what people have in tables: the same for ever. */
static void keys_of_words_are_golden(void)
{
	struct star_error err = { 0 };
	struct row row = { 0 };

	CHECK_UINT(hash_word(1, "State-gov"), UINT64_C(9150532560656723636));
	CHECK_INT(parse(INPUT_CENSUS, CENSUS "<=50K", &row, &err), 1);
	CHECK_UINT((uint64_t)row.ids[0], hash_word(1, "State-gov"));
	CHECK_INT(input_column(INPUT_CENSUS, "workclass", &err), 1);
	CHECK_INT(input_column(INPUT_CENSUS, "native-country", &err), 13);
	CHECK_INT(input_column(INPUT_HISTORIES, "category", &err), 3);
	CHECK_INT(input_column(0, "0", &err), 0);
	CHECK_INT(input_column(0, "65535", &err), 65535);
	CHECK_INT(input_column(0, "65536", &err), -EINVAL);
	/* A label, numbers, words. */
	CHECK_INT(input_column(INPUT_CRITEO, "13", &err), -EINVAL);
	CHECK_HAS(err.text, "a number from 14 to 39");
	CHECK_INT(input_column(INPUT_CRITEO, "14", &err), 14);
	CHECK_INT(input_column(INPUT_CRITEO, "39", &err), 39);
	CHECK_INT(input_column(INPUT_CRITEO, "40", &err), -EINVAL);
	CHECK_INT(input_column(INPUT_TEXT, "0", &err), -EINVAL);
	CHECK_INT(input_column(INPUT_LIBSVM, "0", &err), -EINVAL);
	CHECK_INT(input_column(INPUT_CENSUS, "label", &err), -EINVAL);
	CHECK_INT(input_column(INPUT_CENSUS, "9", &err), 9);
	CHECK_INT(input_column(INPUT_CENSUS, "0", &err), -EINVAL); /* a number */
	CHECK_INT(input_column(INPUT_CENSUS, "15", &err), -EINVAL);
	CHECK_HAS(err.text, "there is no categorical column \"15\"; the columns are workclass, ");
	CHECK_INT(input_column(INPUT_HISTORIES, "1", &err), 1);
	CHECK_INT(input_column(INPUT_HISTORIES, "4", &err), -EINVAL);
	CHECK_INT(input_column(INPUT_CRITEO, "65536", &err), -EINVAL);
	CHECK_INT(input_column(INPUT_CRITEO, "1x", &err), -EINVAL);
	input_row_fini(&row);
}

static void empty_lines_are_passed_over(void)
{
	struct star_error err = { 0 };
	struct row row = { 0 };

	CHECK_INT(parse(INPUT_CRITEO, "\n", &row, &err), 0);
	CHECK_INT(parse(INPUT_CENSUS, " \r\n", &row, &err), 0);
	CHECK_INT(parse(INPUT_CENSUS, "|1x3 Cross validator\n", &row, &err), 0);
	CHECK_INT(parse(INPUT_LIBSVM, "# nothing\n", &row, &err), 0);
	input_row_fini(&row);
}

static void wrong_lines_are_refused(void)
{
	static const struct {
		enum input_format format;
		const char *line, *has;
	} cases[] = {
		{ INPUT_CRITEO, "2" CRITEO_TAIL, "column 1: the label must be 0 or 1, not \"2\"" },
		{ INPUT_CRITEO, "1\tx", "column 2: \"x\" is not a number" },
		{ INPUT_CRITEO, "1\tnan", "column 2: \"nan\" is not a number" },
		{ INPUT_CRITEO, "1\t1e999", "is not a number" },
		{ INPUT_CRITEO, "1\t 7", "is not a number" },
		{ INPUT_CRITEO, "1\t7", "the line has 2 columns, not 40" },
		{ INPUT_CRITEO, "1" CRITEO_TAIL "\tmore", "the line has 41 columns" },
		{ INPUT_CENSUS, CENSUS "50K", "column 15 (label): \"50K\"" },
		{ INPUT_CENSUS, CENSUS "<=50K, 3", "the line has 16 columns" },
		{ INPUT_CENSUS, "old, State-gov", "column 1 (age): \"old\" is not a number" },
		{ INPUT_CENSUS, "39", "the line has 1 columns" },
		{ INPUT_LIBSVM, "yes 1:2", "the label must be 0 or 1 (-1 counts as 0), not \"yes\"" },
		{ INPUT_LIBSVM, "2 1:2", "the label must be 0 or 1 (-1 counts as 0), not \"2\"" },
		{ INPUT_LIBSVM, "0.5 1:2", "not \"0.5\"" },
		{ INPUT_LIBSVM, "-2 1:2", "not \"-2\"" },
		{ INPUT_LIBSVM, "nan 1:2", "not \"nan\"" },
		{ INPUT_LIBSVM, "1 2", "\"2\" is not index:value" },
		{ INPUT_LIBSVM, "1 -2:3", "\"-2:3\" is not index:value" },
		{ INPUT_LIBSVM, "1 2:", "\"2:\" is not index:value" },
		{ INPUT_LIBSVM, "1 2:x", "\"2:x\" is not index:value" },
		{ INPUT_LIBSVM, "1 2:inf", "is not index:value" },
		{ INPUT_LIBSVM, "1 9223372036854775808:1", "is not index:value" },
		{ INPUT_LIBSVM, "1 qid:3", "is not index:value" },
		{ INPUT_LIBSVM, "1 2:3\r0 4:5\r",
		  "\"2:3?0\" is not index:value" }, /* of an old Macintosh: all is one line */
		{ INPUT_HISTORIES, "2\tu\ti\tc\t", "column 1: the label must be 0 or 1" },
		{ INPUT_HISTORIES, "1\tu\t\tc\t", "column 3 is empty" },
		{ INPUT_HISTORIES, "1\tu\ti\tc", "the line has 4 columns, not 5" },
		{ INPUT_HISTORIES, "1\tu\ti\tc\ta:b\td", "the line has 6 columns" },
		{ INPUT_HISTORIES, "1\tu\ti\tc\ta", "column 5: \"a\" is not item:category" },
		{ INPUT_HISTORIES, "1\tu\ti\tc\ta:b :d", "column 5: \":d\" is not item:category" },
		{ INPUT_HISTORIES, "1\tu\ti\tc\ta:b d:", "\"d:\" is not item:category" },
		{ INPUT_HISTORIES, "1\tu\ti\tc\ta:b:d", "\"a:b:d\" is not item:category" },
		{ INPUT_HISTORIES, "1\tu\ti\tc\ta:b  c:d", "\"\" is not item:category" },
		{ INPUT_HISTORIES, "1\tu\ti\tc\ta:b ", "\"\" is not item:category" },
	};
	struct row row = { 0 };

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct star_error err = { 0 };

		CHECK_INT(parse(cases[i].format, cases[i].line, &row, &err), -EINVAL);
		CHECK_HAS(err.text, cases[i].has);
	}
	input_row_fini(&row);
}

static void words_of_a_line_have_ids(void)
{
	static const char line[] = "00001740 03 n 01 entity 0 | That \xc3\xa9t\xc3\xa9: a  long-lived THAT\r\n";
	struct row row = { 0 }, other = { 0 };
	struct star_error err = { 0 };
	struct vocabulary v;
	char most[256];

	CHECK_INT(input_row_text(line, NULL, NULL, &row, &err), 1);
	CHECK_UINT(row.count, 6); /* that t a long lived that: bytes beyond ASCII part words */
	CHECK_INT(row.ids[0], row.ids[5]);
	for (unsigned i = 0; i < 5; i++)
		for (unsigned k = 0; k < i; k++)
			CHECK(row.ids[i] != row.ids[k] && row.ids[i] >= 0);
	CHECK_INT(input_row_text("that", NULL, NULL, &other, &err), 1);
	CHECK_INT(other.ids[0], row.ids[0]);
	CHECK_INT(input_row_text("  a licence", NULL, NULL, &row, &err), 0);
	CHECK_INT(input_row_text("12 , 3", NULL, NULL, &row, &err), 0);
	CHECK_INT(input_row_text("", NULL, NULL, &row, &err), 0);

	/* A word of 31 letters is a word; one of 32 is not. */
	snprintf(most, sizeof(most), "%.31s %.32s b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
		 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
	CHECK_INT(input_row_text(most, NULL, NULL, &row, &err), 1);
	CHECK_UINT(row.count, 2);

	CHECK_INT(vocabulary_init(&v, &err), 0);
	CHECK_INT(input_row_text("b a c a b a", NULL, &v, &row, &err), 1);
	CHECK_UINT(row.count, 6);
	CHECK_INT(row.ids[0], 1);
	CHECK_INT(row.ids[5], 2);
	CHECK_INT(vocabulary_rank(&v, 1, 2, NULL, &err), 0);
	CHECK_UINT(v.size, 2);
	CHECK_UINT(v.count, 5);
	CHECK_INT(input_row_text("b a c d", &v, NULL, &row, &err), 1);
	CHECK_INT(row.ids[0], 2);
	CHECK_INT(row.ids[1], 1);
	CHECK_INT(row.ids[2], 0);
	CHECK_INT(row.ids[3], 0);
	vocabulary_fini(&v);
	input_row_fini(&row);
	input_row_fini(&other);
}

static void a_line_of_too_many_words_is_refused(void)
{
	char *line = malloc(2 * INPUT_IDS_MAX + 3);
	struct star_error err = { 0 };
	struct row row = { 0 };

	for (unsigned i = 0; line && i <= INPUT_IDS_MAX; i++)
		memcpy(line + 2 * i, "a ", 3);
	if (line) {
		CHECK_INT(input_row_text(line, NULL, NULL, &row, &err), -E2BIG);
		CHECK_HAS(err.text, "more than 65536 ids");
		line[2 * INPUT_IDS_MAX] = 0;
		CHECK_INT(input_row_text(line, NULL, NULL, &row, &err), 1);
		CHECK_UINT(row.count, INPUT_IDS_MAX);
	}
	free(line);
	input_row_fini(&row);
}

/* ---- files ---- */

static char folder[UNIT_FOLDER];

/* A libsvm file of rows first to end - 1, whose first id is the number and whose label is its last bit, with number % 3
 * ids more. */
static const char *write_file(const char *name, unsigned first, unsigned end)
{
	static char path[2][128];
	static unsigned turn;
	char *at = path[turn ^= 1];
	FILE *file;

	if (!folder[0])
		unit_folder(folder, "input");
	snprintf(at, sizeof(path[0]), "%s/%s", folder, name);
	file = fopen(at, "w");
	for (unsigned i = first; file && i < end; i++)
		fprintf(file, "%u %u:1%s%s\n", i % 2, i, i % 3 > 0 ? " 5:1" : "", i % 3 > 1 ? " 6:1" : "");
	CHECK(file && fclose(file) == 0);
	return at;
}

static void clean(void)
{
	unit_remove(folder);
	folder[0] = 0;
}

/* The numbers of all rows that a reader gives, in order; returns how many, or the error. */
static int read_all(struct input_options options, float *numbers, unsigned most, struct star_error *err)
{
	struct input *input = input_open(&options, err);
	const struct input_batch *batch;
	unsigned n = 0, batches = 0;
	double share = 0;
	int status;

	if (!input)
		return err->code;
	while ((status = input_next(input, &batch, err)) > 0) {
		CHECK_UINT(batch->number, batches++);
		CHECK(batch->rows > 0 && batch->rows <= options.batch);
		CHECK(batch->share >= share && batch->share <= 1);
		share = batch->share;
		for (uint32_t row = 0, id = 0; row < batch->rows && n < most; row++) {
			const unsigned number = (unsigned)batch->ids[id];

			numbers[n++] = (float)number;
			CHECK_NEAR(batch->labels[row], number % 2, 0);
			for (unsigned k = 0; k <= number % 3; k++)
				CHECK_INT(batch->segments[id++], row);
			if (row + 1 == batch->rows)
				CHECK_UINT(id, batch->ids_count);
		}
	}
	CHECK_INT(input_next(input, &batch, err), status);
	input_close(input);
	CHECK(status < 0 || share > 0.9); /* behind the last batch may be other workers' rows */
	return status < 0 ? status : (int)n;
}

static void every_row_comes_once_an_epoch(void)
{
	const char *paths[] = { write_file("a", 0, 700), write_file("b", 700, 1000) };
	struct star_error err = { 0 };
	float labels[3000], again[3000];

	for (uint32_t workers = 1; workers <= 3; workers++)
		for (uint32_t shuffle = 0; shuffle <= 100; shuffle += 100) {
			unsigned seen[1000] = { 0 };

			for (uint32_t worker = 0; worker < workers; worker++) {
				const struct input_options options = { .format = INPUT_LIBSVM,
								       .paths = paths,
								       .paths_count = 2,
								       .batch = 64,
								       .epochs = 3,
								       .worker = worker,
								       .workers = workers,
								       .shuffle = shuffle,
								       .seed = 7 };
				const int n = read_all(options, labels, 3000, &err);

				CHECK_INT(n, 3 * (1000 / workers + (worker < 1000 % workers)));
				for (int i = 0; i < n; i++)
					seen[(unsigned)labels[i]]++;
				CHECK_INT(read_all(options, again, 3000, &err), n);
				CHECK_MEM(again, labels, (size_t)n * sizeof(labels[0]));
				if (workers == 1 && !shuffle)
					for (int i = 0; i < n; i++)
						CHECK_NEAR(labels[i], i % 1000, 0);
				if (shuffle)
					CHECK(labels[0] != 0 || labels[1] != 1 || labels[2] != 2);
			}
			for (unsigned i = 0; i < 1000; i++)
				CHECK_UINT(seen[i], 3);
		}
	clean();
}

static void errors_name_file_and_line(void)
{
	const char *paths[] = { write_file("good", 0, 10), write_file("bad", 10, 12) };
	struct input_options options = {
		.format = INPUT_LIBSVM, .paths = paths, .paths_count = 2, .batch = 4, .epochs = 1, .workers = 1
	};
	const char *gone[] = { "/tmp/no-such-file.txt" };
	struct star_error err = { 0 };
	float labels[32];
	FILE *file = fopen(paths[1], "a");

	fprintf(file, "\n1 x\n");
	fclose(file);
	CHECK_INT(read_all(options, labels, 32, &err), -EINVAL);
	CHECK_HAS(err.text, "/bad:4: \"x\" is not index:value");

	file = fopen(paths[1], "w");
	for (unsigned i = 0; i < INPUT_LINE_MAX + 10; i++)
		fputc('1', file);
	fclose(file);
	CHECK_INT(read_all(options, labels, 32, &err), -E2BIG);
	CHECK_HAS(err.text, "/bad:1: the line has more than");

	for (unsigned longer = 0; longer < 4;
	     longer++) { /* the longest line, and one more byte; with its end and without */
		const unsigned bytes = INPUT_LINE_MAX - 1 + longer / 2;

		file = fopen(paths[1], "w");
		fprintf(file, "1 11:1 5:1 6:1%*s%s", (int)bytes - 14, "", longer % 2 ? "" : "\n");
		fclose(file);
		CHECK_INT(read_all(options, labels, 32, &err), longer < 2 ? 11 : -E2BIG);
	}
	CHECK_HAS(err.text, "/bad:1: the line has more than 1048575 bytes");

	file = fopen(paths[1], "w");
	fwrite("1 2:3\n1 2:3\0 4:5\n", 1, 18, file);
	fclose(file);
	CHECK_INT(read_all(options, labels, 32, &err), -EINVAL);
	CHECK_HAS(err.text, "/bad:2: there is a zero byte");

	file = fopen(paths[1], "w");
	fwrite("1 2:3\n1 2:3\0 4:5", 1, 17, file); /* and no end of the line behind it */
	fclose(file);
	CHECK_INT(read_all(options, labels, 32, &err), -EINVAL);
	CHECK_HAS(err.text, "/bad:2: there is a zero byte");

	write_file("good", 0, 0);
	write_file("bad", 0, 0);
	CHECK_INT(read_all(options, labels, 32, &err), -ENODATA);
	CHECK_HAS(err.text, "no rows in");
	options.paths = gone;
	options.paths_count = 1;
	CHECK_INT(read_all(options, labels, 32, &err), -ENOENT);
	CHECK_HAS(err.text, "no-such-file.txt");
	gone[0] = folder;
	CHECK_INT(read_all(options, labels, 32, &err), -EISDIR);
	CHECK_HAS(err.text, folder);
	clean();
}

/* Lines of all lengths, so that each place of a line is once where the buffer ends; the last one has no end. */
static void lines_may_lie_anywhere(void)
{
	const char *path = write_file("lines", 0, 0);
	const struct input_options options = {
		.format = INPUT_LIBSVM, .paths = &path, .paths_count = 1, .batch = 1000, .epochs = 2, .workers = 1
	};
	const unsigned most = INPUT_LINE_MAX - 2,
		       lengths[] = { 1, most, 70, most - 1, 3, most / 2, most / 2 + 7, most };
	const unsigned count = sizeof(lengths) / sizeof(lengths[0]);
	const struct input_batch *batch;
	struct star_error err = { 0 };
	FILE *file = fopen(path, "w");
	struct input *input;

	for (unsigned i = 0; file && i < count + 2000; i++)
		fprintf(file, "%u%*s%s", i % 3 == 0, i < count ? (int)lengths[i] - 1 : (int)(i % 900), "",
			i + 1 < count + 2000 ? i % 2 ? "\r\n" : "\n" : "");
	CHECK(file && fclose(file) == 0);
	input = input_open(&options, &err);
	for (unsigned i = 0, rows; CHECK(input) && i < 2 * (count + 2000); i += rows) {
		if (!CHECK_INT(input_next(input, &batch, &err), 1))
			break;
		rows = batch->rows;
		for (unsigned k = 0; k < rows; k++)
			CHECK_NEAR(batch->labels[k], (i + k) % (count + 2000) % 3 == 0, 0);
	}
	input_close(input);
	clean();
}

/* Row i has i % 4 clicks, on items i + 1, i + 2 ... of category i: but of each only the latest two are kept. */
static void histories_come_with_their_rows(void)
{
	const char *path = write_file("histories", 0, 0);
	FILE *file = fopen(path, "w");
	const struct input_options options = { .format = INPUT_HISTORIES,
					       .paths = &path,
					       .paths_count = 1,
					       .batch = 7,
					       .epochs = 1,
					       .workers = 1,
					       .clicks = 2 };
	struct star_error err = { 0 };
	struct row row = { 0 };
	const struct input_batch *b;
	struct input *input;
	unsigned i = 0;

	for (; i < 100; i++) {
		fprintf(file, "%u\tu%u\ti%u\tc%u\t", i % 2, i, i, i);
		for (unsigned k = 0; k < i % 4; k++)
			fprintf(file, "%si%u:c%u", k ? " " : "", i + 1 + k, i);
		fputc('\n', file);
	}
	CHECK(fclose(file) == 0);
	input = input_open(&options, &err);
	for (i = 0; CHECK(input) && input_next(input, &b, &err) > 0;) {
		const struct input_clicks *clicks = &b->clicks;
		uint32_t at = 0;

		CHECK_UINT(b->ids_count, 3 * b->rows);
		for (uint32_t r = 0; r < b->rows; r++, i++) {
			char line[64];

			CHECK_NEAR(b->labels[r], i % 2, 0);
			CHECK_INT(clicks->first[r], at);
			CHECK_INT(clicks->lengths[r], i % 4 < 2 ? i % 4 : 2);
			for (uint32_t k = i % 4 == 3; k < i % 4; k++, at++) {
				snprintf(line, sizeof(line), "0\tu%u\ti%u\tc%u\t", i, i + 1 + k, i);
				CHECK_INT(input_row_parse(INPUT_HISTORIES, line, &row, &err), 1);
				CHECK_INT(b->ids[3 * r], row.ids[0]);
				CHECK_INT(clicks->items[at], row.ids[1]);
				CHECK_INT(clicks->categories[at], row.ids[2]);
				CHECK_INT(clicks->segments[at], r);
			}
		}
		CHECK_UINT(at, clicks->count);
	}
	CHECK_UINT(i, 100);
	input_close(input);
	input_row_fini(&row);
	clean();
}

/* A line of INPUT_LINE_MAX bytes has room for more clicks than a row may have. */
static void histories_are_bounded(void)
{
	char *line = malloc(INPUT_LINE_MAX), *copy = malloc(INPUT_LINE_MAX);
	struct star_error err = { 0 };
	struct row row = { 0 };
	size_t at = 0;

	at += (size_t)sprintf(line, "1\tu\ti\tc\ta:b");
	for (unsigned clicks = 2; clicks <= (INPUT_IDS_MAX - 3) / 2; clicks++)
		at += (size_t)sprintf(line + at, " a:b");
	strcpy(copy, line); /* parsing changes a line */
	CHECK_INT(input_row_parse(INPUT_HISTORIES, copy, &row, &err), 1);
	CHECK_UINT(row.count, INPUT_IDS_MAX - 1);
	sprintf(line + at, " a:b");
	CHECK_INT(input_row_parse(INPUT_HISTORIES, line, &row, &err), -E2BIG);
	input_row_fini(&row);
	free(copy);
	free(line);
}

static void a_text_is_read_by_its_vocabulary(void)
{
	const char *path = write_file("text", 0, 0);
	struct input_options options = {
		.format = INPUT_TEXT, .paths = &path, .paths_count = 1, .batch = 2, .epochs = 1, .workers = 1
	};
	static const int64_t ids[] = { 1, 2, 1, 0, 2, 1, 0 };
	static const int32_t segments[] = { 0, 0, 0, 0, 1, 1, 1 };
	const struct input_batch *batch;
	struct star_error err = { 0 };
	uint64_t sentences, words;
	struct vocabulary v;
	struct input *input;
	FILE *file = fopen(path, "w");

	fprintf(file, "The cat, the hat.\n\n1 2 3\nCat! The mat\nDog the end");
	fclose(file);
	CHECK_INT(input_vocabulary(&path, 1, 2, &v, &sentences, &words, &err), 0);
	CHECK_UINT(sentences, 3);
	CHECK_UINT(words, 10);
	CHECK_UINT(v.size, 2);
	CHECK_UINT(v.count, 6);
	CHECK_STR(v.words[0].text, "the");
	options.vocabulary = &v;
	input = input_open(&options, &err);
	CHECK(input && input_next(input, &batch, &err) == 1);
	CHECK_UINT(batch->rows, 2);
	CHECK_UINT(batch->ids_count, 7);
	CHECK_MEM(batch->ids, ids, sizeof(ids));
	CHECK_MEM(batch->segments, segments, sizeof(segments));
	CHECK_INT(input_next(input, &batch, &err), 1);
	CHECK_UINT(batch->rows, 1);
	CHECK_INT(input_next(input, &batch, &err), 0);
	input_close(input);
	vocabulary_fini(&v);

	file = fopen(path, "w");
	fwrite("a b\na \0 b\n", 1, 11, file);
	fclose(file);
	CHECK_INT(input_vocabulary(&path, 1, 2, &v, &sentences, &words, &err), -EINVAL);
	CHECK_HAS(err.text, "/text:2: there is a zero byte");
	file = fopen(path, "w");
	fprintf(file, "1 2 3\n");
	fclose(file);
	CHECK_INT(input_vocabulary(&path, 1, 2, &v, &sentences, &words, &err), -ENODATA);
	CHECK_HAS(err.text, "no rows in");
	clean();
}

static void wrong_options_are_refused(void)
{
	static const struct input_options wrong[] = {
		{ .batch = 1, .epochs = 1, .workers = 1 },
		{ .paths_count = 1, .epochs = 1, .workers = 1 },
		{ .paths_count = 1, .batch = INPUT_BATCH_MAX + 1, .epochs = 1, .workers = 1 },
		{ .paths_count = 1, .batch = 1, .workers = 1 },
		{ .paths_count = 1, .batch = 1, .epochs = 1, .worker = 2, .workers = 2 },
		{ .paths_count = 1, .batch = 1, .epochs = 1, .workers = 1, .shuffle = INPUT_SHUFFLE_MAX + 1 },
	};
	struct star_error err = { 0 };

	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		CHECK(!input_open(&wrong[i], &err) && err.code == -EINVAL);
	CHECK_INT(input_format_parse("csv", &err), 0);
	CHECK_HAS(err.text, "criteo, census, libsvm, text or histories");
}

static void a_reader_may_be_closed_at_any_time(void)
{
	const char *path = write_file("a", 0, 2000);
	const struct input_options options = {
		.format = INPUT_LIBSVM, .paths = &path, .paths_count = 1, .batch = 10, .epochs = 5, .workers = 1
	};
	const struct input_batch *batch;
	struct star_error err = { 0 };

	for (unsigned taken = 0; taken < 20; taken++) {
		struct input *input = input_open(&options, &err);

		for (unsigned i = 0; input && i < taken; i++)
			CHECK_INT(input_next(input, &batch, &err), 1);
		input_close(input);
	}
	input_close(NULL);
	clean();
}

const char *const unit_suite = "input";
const struct unit_case unit_cases[] = {
	{ "each line is in one slice", each_line_is_in_one_slice },
	{ "readers hand out what they have before they wait", readers_hand_out_what_they_have_before_they_wait },
	{ "all workers come to the same plan", all_workers_come_to_the_same_plan },
	{ "errors in slices name file and line", errors_in_slices_name_file_and_line },
	{ "rows of each format are parsed", rows_of_each_format_are_parsed },
	{ "keys of words are golden", keys_of_words_are_golden },
	{ "empty lines are passed over", empty_lines_are_passed_over },
	{ "wrong lines are refused", wrong_lines_are_refused },
	{ "words of a line have ids", words_of_a_line_have_ids },
	{ "a line of too many words is refused", a_line_of_too_many_words_is_refused },
	{ "a text is read by its vocabulary", a_text_is_read_by_its_vocabulary },
	{ "every row comes once an epoch, in an order that repeats", every_row_comes_once_an_epoch },
	{ "errors name file and line", errors_name_file_and_line },
	{ "lines may lie anywhere", lines_may_lie_anywhere },
	{ "histories come with their rows", histories_come_with_their_rows },
	{ "histories are bounded", histories_are_bounded },
	{ "wrong options are refused", wrong_options_are_refused },
	{ "a reader may be closed at any time", a_reader_may_be_closed_at_any_time },
	{ "packed files are read as they were", packed_files_are_read_as_they_were },
	{ "streams that are cut are refused", streams_that_are_cut_are_refused },
	{ "streams that are damaged are refused", streams_that_are_damaged_are_refused },
	{ "what unpacks to too much is refused", what_unpacks_to_too_much_is_refused },
	{ "standard input is read once", standard_input_is_read_once },
	{ "errors of packed files name file and line", errors_of_packed_files_name_file_and_line },
	{ "a schema says what rows have", a_schema_says_what_rows_have },
	{ "rows follow the header", rows_follow_the_header },
	{ "quotes may end at a blank that separates", quotes_may_end_at_a_blank_that_separates },
	{ "a byte order mark is no value", a_byte_order_mark_is_no_value },
	{ "blanks around a list's texts are no part of them", blanks_around_a_list_s_texts_are_no_part_of_them },
	{ "rows that do not fit a schema are refused", rows_that_do_not_fit_a_schema_are_refused },
	{ "wrong schemas are refused", wrong_schemas_are_refused },
	{ "schemas are bounded", schemas_are_bounded },
	{ "a schema is a file that has an end", a_schema_is_a_file_that_has_an_end },
	{ "each file has a header", each_file_has_a_header },
	{ "errors of tables name file and line", errors_of_tables_name_file_and_line },
	{ NULL, NULL },
};
