/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of `starctl graph`, which reads files and calls no node. Single-threaded. */
#ifndef STARCTL_GRAPH_H
#define STARCTL_GRAPH_H

#include "app/starctl/starctl.h"
#include "offload/cut.h"

enum {
	GRAPH_COMPARED = 4, /* grpc++, grpc++ with tensor_fuse, star_server, star_server_lite */
	GRAPH_PICTURE_NODES = 2000,
	GRAPH_TYPE_TEXT = GRAPH_SHAPE_TEXT + 16,
	GRAPH_PLACE_TEXT = 24,
};

/* The command line of `starctl graph explain`. */
struct graph_question {
	const char *file, *svg;
	struct graph_cut_options cut;
	bool compare, check, dot;
};

/* "grpc++, fused" */
const char *graph_cut_title(const struct graph_cut *cut);
/* "worker", "PS task 2", "all PS tasks" */
const char *graph_place_text(int32_t place, char text[static GRAPH_PLACE_TEXT]);
/* "float32 [128, 16]" */
const char *graph_type_text(const struct graph_type *type, char text[static GRAPH_TYPE_TEXT]);

/* graph_text.c: for people */
void graph_print_cut(const struct graph_question *question, const struct graph_cut *cut, FILE *out);
void graph_print_comparison(const struct graph_question *question, struct graph_cut *const cuts[], unsigned count,
			    FILE *out);
/* graph_json.c: for programs */
json_t *graph_cut_json(const struct graph_question *question, const struct graph_cut *cut);
/* graph_dot.c: in Graphviz's language; and as an SVG picture, drawn by its program. 0 or a negative errno. */
void graph_print_dot(const struct graph_question *question, const struct graph_cut *cut, FILE *out);
int graph_draw(const struct graph_question *question, const struct graph_cut *cut, struct star_error *err);

#endif
