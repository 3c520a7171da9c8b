/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Graphs as text (".star"): readable, with one node per line, so that diff shows what changed. docs/graph.rst has the
 * grammar.
 *
 *	star 1
 *	words = table() dtype="float32" dim=8 @/job:ps/task:0
 *	ids = feed() dtype="int64" shape=[-1, 5]
 *	rows = lookup(words, ids)
 *	results rows
 *
 * graph_parse reads what graph_print writes into the same graph (floats bit by bit, except for the payload of a NaN),
 * which prints as the same text again. A text is not trusted: every length is bounded, and what graph_add refuses is
 * refused. Thread rule: no state. Control path only.
 */
#ifndef GRAPH_TEXT_H
#define GRAPH_TEXT_H

#include "graph/graph.h"

#pragma GCC visibility push(default) /* of libstartrain.so */
#ifdef __cplusplus
extern "C" {
#endif

enum { GRAPH_TEXT_VERSION = 1, GRAPH_TEXT_MAX = 64 << 20 /* bytes */ };

/* The text, for the caller to free; NULL: no memory, or the graph has an error. */
char *graph_print(const struct graph *graph);

/* NULL with "file:line:column: what is wrong" (-EINVAL), -EFBIG (more than GRAPH_TEXT_MAX) or -ENOMEM. The text need
 * not end with a zero byte. A name or attribute that occurs twice is an error. */
struct graph *graph_parse(const char *text, size_t bytes, const char *file, struct star_error *err);

/* Reads a file. NULL: as graph_parse, or the errno of reading. */
struct graph *graph_load(const char *path, struct star_error *err);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
