/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "app/starctl/starctl.h"
#include "base/text.h"

static const char *cell(const struct table *table, unsigned row, unsigned column)
{
	const char *text = table->cells[row * TABLE_COLUMNS_MAX + column];

	return text ? text : "-";
}

static void need_memory(const void *got)
{
	if (got)
		return;
	fprintf(stderr, "starctl: out of memory\n");
	exit(STARCTL_FAILED);
}

static void set_cell(struct table *table, unsigned row, unsigned column, const char *text)
{
	char **to = &table->cells[row * TABLE_COLUMNS_MAX + column];

	free(*to);
	*to = strdup(text);
	need_memory(*to);
}

/* Row 0 has the titles. */
void table_init(struct table *table)
{
	*table = (struct table){ 0 };
	table_row(table);
}

void table_fini(struct table *table)
{
	for (unsigned i = 0; i < table->rows * TABLE_COLUMNS_MAX; i++)
		free(table->cells[i]);
	free(table->cells);
}

void table_row(struct table *table)
{
	if (table->rows == table->rows_max) {
		table->rows_max = table->rows_max ? table->rows_max * 2 : 16;
		table->cells =
			reallocarray(table->cells, (size_t)table->rows_max * TABLE_COLUMNS_MAX, sizeof(*table->cells));
		need_memory(table->cells);
	}
	for (unsigned column = 0; column < TABLE_COLUMNS_MAX; column++)
		table->cells[table->rows * TABLE_COLUMNS_MAX + column] = NULL;
	table->rows++;
}

void table_column(struct table *table, const char *title, bool right)
{
	if (table->columns == TABLE_COLUMNS_MAX)
		return;
	table->right[table->columns] = right;
	set_cell(table, 0, table->columns++, title);
}

void table_set(struct table *table, unsigned column, const char *format, ...)
{
	char text[TABLE_CELL_MAX];
	va_list args;

	if (column >= table->columns)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	set_cell(table, table->rows - 1, column, text);
}

/* The number of characters: continuation bytes of UTF-8 do not count. */
static int width(const char *text)
{
	int count = 0;

	for (; *text; text++)
		count += ((unsigned char)*text & 0xc0) != 0x80;
	return count;
}

void print_text(const char *text, FILE *out)
{
	for (; *text; text++)
		fputc(base_printable(*text), out);
}

/* Prints the first column, which identifies the row, and the columns in [from, to). */
static void print_row(const struct table *table, unsigned row, const int *widths, unsigned from, unsigned to, FILE *out)
{
	for (unsigned column = 0; column < to; column = column ? column + 1 : from) {
		const char *text = cell(table, row, column);
		const int padding = widths[column] - width(text);

		fprintf(out, "%s%*s", column ? "  " : "", table->right[column] ? padding : 0, "");
		print_text(text, out);
		if (!table->right[column] && column + 1 < to)
			fprintf(out, "%*s", padding, "");
	}
	fputc('\n', out);
}

/* The end of the columns from `from` on that fit on a line with the first one; at least one does. */
static unsigned fitting(const struct table *table, const int *widths, unsigned from)
{
	int used = widths[0];
	unsigned to = from;

	while (to < table->columns && (to == from || used + 2 + widths[to] <= TABLE_WIDTH))
		used += 2 + widths[to++];
	return to;
}

void table_print(const struct table *table, FILE *out)
{
	int widths[TABLE_COLUMNS_MAX] = { 0 };
	unsigned from = 1, to;

	for (unsigned row = 0; row < table->rows; row++)
		for (unsigned column = 0; column < table->columns; column++)
			if (width(cell(table, row, column)) > widths[column])
				widths[column] = width(cell(table, row, column));
	do {
		to = table->columns > 1 ? fitting(table, widths, from) : table->columns;
		if (from > 1)
			fputc('\n', out);
		for (unsigned row = 0; row < table->rows && table->columns; row++)
			print_row(table, row, widths, from, to, out);
		from = to;
	} while (to < table->columns);
}

/* Three digits and a suitable prefix. */
static char *scaled(double number, double step, const char *const *prefixes, unsigned last, char *text)
{
	unsigned i = 0;

	while (i < last && number >= step) {
		number /= step;
		i++;
	}
	snprintf(text, 24, "%.*f %s", i == 0 || number >= 99.95 ? 0 : number >= 9.995 ? 1 : 2, number, prefixes[i]);
	return text;
}

char *human_count(double number, char text[static 24])
{
	static const char *const prefixes[] = { "", "k", "M", "G", "T", "P", "E" };

	if (number < 100000) {
		snprintf(text, 24, "%.*f", number == floor(number) ? 0 : 1, number);
		return text;
	}
	return scaled(number, 1000, prefixes, 6, text);
}

char *human_bytes(double bytes, char text[static 24])
{
	static const char *const prefixes[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };

	return scaled(bytes, 1024, prefixes, 6, text);
}

char *human_time(double seconds, char text[static 24])
{
	const unsigned long whole = seconds > 0 && seconds < 1e15 ? (unsigned long)seconds : 0;
	const unsigned long days = whole / 86400, hours = whole / 3600 % 24, minutes = whole / 60 % 60;

	if (days)
		snprintf(text, 24, "%lu d %02lu h", days, hours);
	else if (hours)
		snprintf(text, 24, "%lu h %02lu min", hours, minutes);
	else if (minutes)
		snprintf(text, 24, "%lu min %02lu s", minutes, whole % 60);
	else
		snprintf(text, 24, "%lu s", whole);
	return text;
}

char *human_us(double us, char text[static 24])
{
	if (us < 1000)
		snprintf(text, 24, "%.3g us", us);
	else if (us < 1e6)
		snprintf(text, 24, "%.3g ms", us / 1e3);
	else
		snprintf(text, 24, "%.3g s", us / 1e6);
	return text;
}
