/* SPDX-License-Identifier: BSD-3-Clause */
/* Graphs as text: there and back, and what is refused where. */
#include <stdlib.h>

#include "graph/build.h"
#include "graph/gradient.h"
#include "graph/text.h"
#include "tests/graph/cases.h"
#include "tests/graph/models.h"
#include "tests/graph/random.h"
#include "tests/unit.h"

static bool same_nodes(const struct graph *a, const struct graph *b);

static bool same_attr(const struct graph_attr *a, const struct graph_attr *b)
{
	if (a->kind != b->kind || strcmp(a->name, b->name) != 0)
		return false;
	switch (a->kind) {
	case GRAPH_INT:
		return a->i == b->i;
	case GRAPH_FLOAT:
		return memcmp(&a->f, &b->f, sizeof(a->f)) == 0;
	case GRAPH_STRING:
		return strcmp(a->s, b->s) == 0;
	case GRAPH_INTS:
		return a->ints_count == b->ints_count && !memcmp(a->ints, b->ints, a->ints_count * sizeof(*a->ints));
	case GRAPH_TENSOR:
		return a->type.dtype == b->type.dtype && graph_shape_same(&a->type.shape, &b->type.shape) &&
		       memcmp(a->data, b->data, graph_type_bytes(&a->type)) == 0;
	}
	return false;
}

static bool same_node(const struct graph_node *a, const struct graph_node *b)
{
	bool same = a->op == b->op && !strcmp(a->name, b->name) && a->inputs_count == b->inputs_count &&
		    a->outputs_count == b->outputs_count && a->controls_count == b->controls_count &&
		    a->attrs_count == b->attrs_count && a->device.job == b->device.job &&
		    a->device.task == b->device.task && !a->body == !b->body;

	for (uint32_t i = 0; same && i < a->inputs_count; i++)
		same = graph_same(a->inputs[i], b->inputs[i]);
	for (uint32_t i = 0; same && i < a->outputs_count; i++)
		same = a->outputs[i].dtype == b->outputs[i].dtype &&
		       graph_shape_same(&a->outputs[i].shape, &b->outputs[i].shape);
	for (uint32_t i = 0; same && i < a->controls_count; i++)
		same = a->controls[i] == b->controls[i];
	for (uint32_t i = 0; same && i < a->attrs_count; i++)
		same = same_attr(&a->attrs[i], &b->attrs[i]);
	return same && (!a->body || (same_nodes(a->body, b->body) && same_nodes(a->cond, b->cond)));
}

static bool same_nodes(const struct graph *a, const struct graph *b)
{
	bool same = a->nodes_count == b->nodes_count && a->results_count == b->results_count;

	for (uint32_t i = 0; same && i < a->nodes_count; i++) {
		same = same_node(a->nodes[i], b->nodes[i]);
		if (!same)
			unit_fail(__FILE__, __LINE__, "node %u, \"%s\", differs", i, a->nodes[i]->name);
	}
	for (uint32_t i = 0; same && i < a->results_count; i++)
		same = graph_same(a->results[i], b->results[i]);
	return same;
}

static void check_round_trip(const struct graph *graph, uint64_t seed)
{
	char *text = graph_print(graph), *again = NULL;
	struct star_error err = { 0 };
	struct graph *read = text ? graph_parse(text, strlen(text), "random", &err) : NULL;

	if (!read)
		unit_fail(__FILE__, __LINE__, "seed %llu: %s in\n%s", (unsigned long long)seed, err.text,
			  text ? text : graph->err.text);
	if (read) {
		again = graph_print(read);
		if (!same_nodes(graph, read) || !again || strcmp(text, again) != 0)
			unit_fail(__FILE__, __LINE__, "seed %llu: what is read differs:\n%s\n%s",
				  (unsigned long long)seed, text, again);
	}
	graph_destroy(read);
	free(text);
	free(again);
}

void models_are_printed_and_read(void)
{
	struct graph *graph = graph_create();
	const struct graph_train_options clip = { .clip_norm = 1 };

	graph_train(graph, model_wide_deep(graph, STAR_FLOAT32), &clip, NULL);
	check_round_trip(graph, 0);
	graph_destroy(graph);
	graph = graph_create();
	graph_train(graph, model_recurrent(graph, STAR_FLOAT64, 4, 10), &clip, NULL);
	check_round_trip(graph, 0);
	graph_destroy(graph);
}

void random_graphs_are_printed_and_read(void)
{
	uint64_t nodes = 0;

	for (uint64_t seed = 1; seed <= 1000; seed++) {
		struct graph *graph;
		struct prng p;

		prng_seed(&p, seed);
		graph = random_graph(&p, 30, true);
		CHECK_STR(graph->err.text, "");
		nodes += graph->nodes_count;
		check_round_trip(graph, seed);
		graph_destroy(graph);
	}
	CHECK(nodes > 20000);
}

void text_is_as_documented(void)
{
	static const char text[] = "star 1\n"
				   "words = table() dtype=\"float32\" dim=8 rate=0.1 @/job:ps/task:0\n"
				   "ids = feed() dtype=\"int64\" shape=[-1, 5]\n"
				   "rows = lookup(words, ids)\n"
				   "c = const() value=float32[2]{1, 0.1}\n"
				   "i = const() value=int64[]{0}\n"
				   "parts = split(rows) axis=1 sizes=[2, 3] @/job:worker after(c, i)\n"
				   "n = while(i, c) carried=1 most=7 {\n"
				   "  cond {\n"
				   "    i = feed() dtype=\"int64\" shape=[]\n"
				   "    c = feed() dtype=\"float32\" shape=[2]\n"
				   "    more = equal(i, i)\n"
				   "    results more\n"
				   "  }\n"
				   "  body {\n"
				   "    i = feed() dtype=\"int64\" shape=[]\n"
				   "    c = feed() dtype=\"float32\" shape=[2]\n"
				   "    results i, c\n"
				   "  }\n"
				   "}\n"
				   "results parts:1, n:2\n";
	static const char free_hand[] = "# what is written by hand\r\n\n"
					"star 1\n"
					"a=feed( ) shape=[2,\n 3] dtype=\"float32\"# two\n"
					"  b = add ( a,\n\t a ) after ( a )\n"
					"results b";
	static const char tidy[] = "star 1\n"
				   "a = feed() shape=[2, 3] dtype=\"float32\"\n"
				   "b = add(a, a) after(a)\n"
				   "results b\n";
	static const char *const rows[][2] = { { text, text }, { free_hand, tidy } };

	for (unsigned i = 0; i < 2; i++) {
		struct star_error err = { 0 };
		struct graph *graph = graph_parse(rows[i][0], strlen(rows[i][0]), "x", &err);
		char *printed = graph ? graph_print(graph) : NULL;

		CHECK_STR(printed ? printed : err.text, rows[i][1]);
		free(printed);
		graph_destroy(graph);
	}
}

/* A variable outside and in a branch. */
#define SHARED(definition) \
	"star 1\n" \
	"v = variable() dtype=\"float32\" shape=[2] @/job:ps/task:0\n" \
	"c = const() value=int32[]{1}\n" \
	"k = cond(c) { then {\n" \
	"  v = variable() " definition " @/job:ps/task:0\n" \
	"  r = read(v)\n" \
	"  results r\n" \
	"} else {\n" \
	"  x = const() value=float32[2]{1, 2}\n" \
	"  results x\n" \
	"} }\n"

void wrong_texts_are_refused(void)
{
	static const char *const rows[][2] = {
		{ "", "x:1:1: expected \"star 1\", but the text ends" },
		{ "moon 1\n", "x:1:5: a graph must begin with \"star 1\"" },
		{ "star 2\n", "x:1:7: version 2 is not supported" },
		{ "star 1\na = fed()\n", "x:2:8: there is no operation \"fed\"" },
		{ "star 1\na = feed(\n", "x:3:1: expected the name of a node, but the text ends" },
		{ "star 1\na = neg(b)\n", "x:2:10: no node \"b\" is defined before this line" },
		{ "star 1\na = neg()\n", "x:2:4: node \"a\": neg takes 1 to 1 inputs, not 0" },
		{ "star 1\na = const() value=float32[2]{1}\n", "x:2:31: expected ',', not '}'" },
		{ "star 1\na = const() value=int32[1]{3000000000}\n", "expected an int32, not 3000000000" },
		{ "star 1\na = const() value=float32[1]<0000803>\n", "expected two hexadecimal digits, not '3'" },
		{ SHARED("dtype=\"float32\" shape=[3]"),
		  ":5:6: node \"v\": its shape differs from its definition in another body" },
		{ SHARED("dtype=\"float32\" shape=[2] rate=1"), "node \"v\": its rate differs" },
		{ "star 1\na = const() value=float32[1000000, 1000000]{}\n", "the text is too short for a tensor" },
		{ "star 1\na = const() value=float16[1]{1}\n", "expected a tensor of float32" },
		{ "star 1\na = const() value=float32[-1]{1}\n", "the text is too short" },
		{ "star 1\na = const() value=\n", "x:2:19: expected a value, but the line ends" },
		{ "star 1\na = const() value\n", "expected '=' after the name of an attribute" },
		{ "star 1\na = feed() dtype=\"float32\n", "expected '\"', but the line ends" },
		{ "star 1\na = feed() dtype=\"\\q\"\n", "expected \\\", \\\\ or \\x" },
		{ "star 1\na = feed() dtype=\"\\x0\n", "expected \\\", \\\\ or \\x" },
		{ "star 1\na = feed() dtype=\"\\x", "expected \\\", \\\\ or \\x" },
		{ "star 1\na = feed() dtype=\"\\", "expected \\\", \\\\ or \\x" },
		{ "star 1\na = feed() shape=[1, x]\n", "expected an integer of 64 bits, not x" },
		{ "star 1\na = feed() shape=[99999999999999999999]\n", "expected an integer of 64 bits" },
		{ "star 1\na = table() @/job:gpu\n", "a device must be" },
		{ "star 1\na = table() @ x\n", "expected a device" },
		{ "star 1\na = unique(a:1)\n", "no node \"a\"" },
		{ "star 1\na = const() value=int64[1]{1}\nb = unique(a:1)\n",
		  "node \"a\" has 1 outputs, not an output 1" },
		{ "star 1\na = const() value=int64[1]{1} b = 2 }\n", "node \"a\": const: it has no attribute \"b\"" },
		{ "star 1\na = const() value=int64[1]{1} }\n", "x:2:31: expected the name of a node" },
		{ "star 1\na = const() value=int64[1]{1}\na = neg(a)\n", "another node already has this name" },
		{ "star 1\na = const() value=int64[1]{1}\nresults a\nresults a\n", "one line of results only" },
		{ "star 1\na = const() value=int64[1]{1}\nb = while(a) carried=1 most=1\n",
		  "expected '{', but the line ends" },
		{ "star 1\na = const() value=int64[1]{1}\nb = while(a) carried=1 most=1 { then {\n} }\n",
		  "expected body and cond, each once, not \"then\"" },
		{ "star 1\na = const() value=int64[1]{1}\nb = while(a) carried=1 most=1 { body { }\n }\n",
		  "node \"b\": while needs two bodies" },
		{ "star 1\n\x01", "x:2:1: expected the name of a node, or results, not byte 0x01" },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct star_error err = { 0 };
		struct graph *graph = graph_parse(rows[i][0], strlen(rows[i][0]), "x", &err);

		if (!CHECK(!graph) || !strstr(err.text, rows[i][1]))
			unit_fail(__FILE__, __LINE__, "%s: \"%s\" without \"%s\"", rows[i][0], err.text, rows[i][1]);
		graph_destroy(graph);
	}
}

/* What is cut off, and what has a wrong byte, is refused or read; never more than that. */
void damaged_texts_do_no_harm(void)
{
	struct graph *graph = graph_create();
	char *text, *copy;
	size_t length;
	unsigned refused = 0;
	struct prng p;

	prng_seed(&p, 5);
	model_recurrent(graph, STAR_FLOAT32, 4, 10);
	text = graph_print(graph);
	length = strlen(text);
	for (size_t i = 0; i < 2 * length; i++) {
		const size_t kept = i < length ? i : length;
		struct graph *read;

		copy = malloc(kept + 1); /* its exact size, so that a sanitizer sees a byte too far */
		memcpy(copy, text, kept);
		if (i >= length)
			copy[i - length] = (char)(' ' + prng_below(&p, 95));
		read = graph_parse(copy, kept, "damaged", NULL);
		refused += !read;
		graph_destroy(read);
		free(copy);
	}
	CHECK(refused > length);
	graph_destroy(graph);
	free(text);
}

void nesting_is_bounded(void)
{
	char text[4096] = "star 1\na = const() value=int32[]{1}\n";
	struct star_error err = { 0 };

	for (unsigned i = 0; i <= GRAPH_DEPTH_MAX; i++)
		strcat(text, "b = cond(a) { then { a = const() value=int32[]{1}\n");
	CHECK(!graph_parse(text, strlen(text), "x", &err));
	CHECK_HAS(err.text, "nested more than 8 deep");
}
