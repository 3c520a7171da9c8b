/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/startrain/key.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "input/input.h"
#include "star.h"

static void print_help(void)
{
	puts("startrain key [--format FORMAT | --schema FILE] COLUMN TEXT... prints the keys of the rows for "
	     "these texts in a column\n"
	     "of examples, one per line. COLUMN counts from 0 in the file's order; with --format census or histories "
	     "it may be a\n"
	     "name, as workclass. `starctl rows get TABLE KEY` shows the row.\n\n"
	     "  --format FORMAT  criteo, census or histories: only columns with keys [any column]\n"
	     "  --schema FILE    for your own files: COLUMN counts the schema's columns, or is a column's name\n"
	     "  --help           this text");
}

/* 0; 1 if --help was printed; or -EINVAL. */
static int parse_key_options(int argc, char **argv, enum input_format *format, const char **schema,
			     struct star_error *err)
{
	static const struct option options[] = { { "format", required_argument, NULL, 'f' },
						 { "schema", required_argument, NULL, 's' },
						 { "help", no_argument, NULL, 'h' },
						 { NULL, 0, NULL, 0 } };
	int option;

	optind = 2;
	opterr = 0;
	while ((option = getopt_long(argc, argv, "+:", options, NULL)) != -1) {
		if (option == 'h') {
			print_help();
			return 1;
		}
		if (option == 's') {
			*schema = optarg;
			continue;
		}
		if (option != 'f')
			return star_error_set(err, -EINVAL,
					      "%s is not an option, or lacks a value: see startrain key --help",
					      argv[optind - 1]);
		*format = input_format_parse(optarg, err);
		if (!*format)
			return -EINVAL;
	}
	if (*format && *schema)
		return star_error_set(err, -EINVAL, "--schema describes the files: omit --format");
	return argc - optind >= 2
		       ? 0
		       : star_error_set(err, -EINVAL, "a column and a text are needed: startrain key COLUMN TEXT...");
}

static int find_column(enum input_format format, const char *file, const char *text, struct star_error *err)
{
	struct input_schema *schema;
	int column;

	if (!file)
		return input_column(format, text, err);
	schema = input_schema_read(file, err);
	column = schema ? input_schema_column(schema, text, err) : -EINVAL;
	input_schema_destroy(schema);
	return column;
}

int key_main(int argc, char **argv)
{
	enum input_format format = 0;
	struct star_error err = { 0 };
	const char *schema = NULL;
	int rc = parse_key_options(argc, argv, &format, &schema, &err), column = rc;

	if (rc > 0)
		return 0;
	if (rc == 0)
		column = find_column(format, schema, argv[optind], &err);
	if (column < 0) {
		fprintf(stderr, "startrain: %s\n", err.text);
		return 2;
	}
	for (int i = optind + 1; i < argc; i++)
		printf("%" PRIu64 "\n", star_key((uint32_t)column, argv[i]));
	return 0;
}
