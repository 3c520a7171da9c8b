/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader of graph texts, shared by statements (text_parse.c) and values (text_values.c). One thread for each
 * reader. */
#ifndef GRAPH_TEXT_INTERNAL_H
#define GRAPH_TEXT_INTERNAL_H

#include "graph/text.h"

enum { TEXT_NAME_MAX = GRAPH_NAME_MAX, TEXT_STRING_MAX = 4096, TEXT_INTS_MAX = 4096 };

struct reader {
	const char *at, *end, *line_start;
	const char *file;
	unsigned line;
	unsigned nodes; /* number of nodes, in all bodies */
	struct star_error *err;
	bool failed;
};

/* Memory that a statement needs until its node is added. */
struct block {
	struct block *next;
	_Alignas(16) uint8_t data[];
};

void *graph_reader_memory(struct reader *r, struct block **blocks, size_t bytes);

/* Sets the error message, with file and line, if there is none yet. Returns false. */
bool graph_reader_fail(struct reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "expected ..., not 'x'" */
bool graph_reader_expected(struct reader *r, const char *what);

/* Skips spaces and comments; with `lines` also ends of lines. */
void graph_reader_skip(struct reader *r, bool lines);
/* graph_reader_take: whether c comes next; if so it is read. graph_reader_want: the same, and it is an error if not. */
bool graph_reader_take(struct reader *r, char c, bool lines);
bool graph_reader_want(struct reader *r, char c, bool lines);
bool graph_reader_name(struct reader *r, char name[static TEXT_NAME_MAX + 1], const char *what);
bool graph_reader_int(struct reader *r, int64_t *value);

/* Reads an attribute's value. */
bool graph_reader_attr(struct reader *r, struct graph_attr *attr, struct block **blocks);

#endif
