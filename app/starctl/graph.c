/* SPDX-License-Identifier: BSD-3-Clause */
/* starctl graph explain: how a graph is cut, without a node. */
#include "app/starctl/graph.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "graph/text.h"
#include "offload/compile.h"
#include "offload/cut.h"
#include "offload/traffic.h"

enum { BATCH_MAX = 1 << 30, REACTORS_MAX = 1024 };

static const struct {
	const char *name;
	bool is_switch; /* it takes no value */
} graph_options[] = {
	{ "protocol", false }, { "fuse", true }, { "compare", true }, { "ps-tasks", false }, { "batch", false },
	{ "reactors", false }, { "svg", false }, { "dot", true },     { "check", true },     { NULL, false },
};

bool graph_option_is_switch(const char *name)
{
	for (unsigned i = 0; graph_options[i].name; i++)
		if (!strcmp(name, graph_options[i].name))
			return graph_options[i].is_switch;
	return false;
}

void print_graph_options(FILE *out)
{
	for (unsigned i = 0; graph_options[i].name; i++)
		fprintf(out, "--%s\n", graph_options[i].name);
}

/* ---- terms that all files of the command use ---- */

const char *graph_cut_title(const struct graph_cut *cut)
{
	return cut->fuse ? "grpc++, fused" : graph_protocol_name(cut->protocol);
}

const char *graph_place_text(int32_t place, char text[static GRAPH_PLACE_TEXT])
{
	if (place >= 0)
		snprintf(text, GRAPH_PLACE_TEXT, "PS task %d", place);
	else
		snprintf(text, GRAPH_PLACE_TEXT, "%s", place == GRAPH_PLACE_ALL ? "all PS tasks" : "worker");
	return text;
}

const char *graph_type_text(const struct graph_type *type, char text[static GRAPH_TYPE_TEXT])
{
	char shape[GRAPH_SHAPE_TEXT];

	snprintf(text, GRAPH_TYPE_TEXT, "%s %s", type->dtype ? dtype_name(type->dtype) : "handle",
		 graph_shape_text(&type->shape, shape));
	return text;
}

/* ---- the command line ---- */

static int read_graph_number(const struct option_word *option, int64_t most, int64_t *number, struct star_error *err)
{
	char *end;

	errno = 0;
	*number = strtoll(option->value, &end, 10);
	if (*end || end == option->value || errno || *number < 1 || *number > most)
		return star_error_set(err, -EINVAL, "--%s is a number from 1 to %lld, not \"%.40s\"", option->name,
				      (long long)most, option->value);
	return 0;
}

static int read_option(const struct option_word *option, struct graph_question *question, struct star_error *err)
{
	int64_t number = 0;
	int rc = 0;

	if (!strcmp(option->name, "protocol")) {
		question->cut.protocol = graph_protocol_parse(option->value, err);
		return question->cut.protocol ? 0 : -EINVAL;
	}
	if (!strcmp(option->name, "fuse")) {
		question->cut.fuse = true;
	} else if (!strcmp(option->name, "compare")) {
		question->compare = true;
	} else if (!strcmp(option->name, "check")) {
		question->check = true;
	} else if (!strcmp(option->name, "dot")) {
		question->dot = true;
	} else if (!strcmp(option->name, "svg")) {
		question->svg = option->value;
	} else if (!strcmp(option->name, "ps-tasks")) {
		rc = read_graph_number(option, GRAPH_TASKS_MAX, &number, err);
		question->cut.ps_tasks = (uint32_t)number;
	} else if (!strcmp(option->name, "reactors")) {
		rc = read_graph_number(option, REACTORS_MAX, &number, err);
		question->cut.reactors = (uint32_t)number;
	} else if (!strcmp(option->name, "batch")) {
		rc = read_graph_number(option, BATCH_MAX, &number, err);
		question->cut.batch = number;
	} else {
		rc = star_error_set(err, -EINVAL, "there is no option --%.40s of \"graph explain\"; did you mean --%s?",
				    option->name, nearest_name(option->name, graph_options, sizeof(graph_options[0])));
	}
	return rc;
}

static int read_question(const struct invocation *invocation, struct graph_question *question, struct star_error *err)
{
	*question = (struct graph_question){ .file = invocation->argv[0],
					     .cut = { .may_move = offload_compile_may_move,
						      .count = offload_traffic_count } };
	for (unsigned i = 0; i < invocation->options_count; i++) {
		const int rc = read_option(&invocation->options[i], question, err);

		if (rc < 0)
			return rc;
	}
	if (question->compare && (question->cut.protocol || question->svg || question->dot))
		return star_error_set(err, -EINVAL,
				      "--compare shows all protocols: give no --protocol, --svg or --dot");
	if (question->dot && question->svg)
		return star_error_set(err, -EINVAL, "give --svg or --dot, not both");
	if (question->dot && invocation->json)
		return star_error_set(err, -EINVAL,
				      "--dot prints Graphviz's language, not JSON: give only one of them");
	if (!question->cut.protocol)
		question->cut.protocol = GRAPH_STAR_SERVER;
	if (question->cut.fuse && question->cut.protocol != GRAPH_GRPCPP && !question->compare)
		return star_error_set(err, -EINVAL,
				      "--fuse is for grpc++: %s always combines messages; add "
				      "--protocol grpc++, or omit it",
				      graph_protocol_name(question->cut.protocol));
	return 0;
}

/* ---- the output ---- */

static int cut_all(const struct graph_question *question, const struct graph *graph, struct graph_cut **cuts,
		   unsigned *count, struct star_error *err)
{
	static const struct {
		enum graph_protocol protocol;
		bool fuse;
	} all[GRAPH_COMPARED] = { { GRAPH_GRPCPP, false },
				  { GRAPH_GRPCPP, true },
				  { GRAPH_STAR_SERVER, false },
				  { GRAPH_STAR_SERVER_LITE, false } };

	while (*count < (question->compare ? GRAPH_COMPARED : 1)) {
		struct graph_cut_options options = question->cut;

		if (question->compare) {
			options.protocol = all[*count].protocol;
			options.fuse = all[*count].fuse;
		}
		cuts[*count] = graph_cut_create(graph, &options, err);
		if (!cuts[*count])
			return err->code;
		++*count;
		if (question->check && graph_cut_check(cuts[*count - 1], err) < 0)
			return err->code;
	}
	return 0;
}

static void answer_json(const struct graph_question *question, struct graph_cut *const *cuts, unsigned count, FILE *out)
{
	json_t *list = json_array(), *answer = json_object();

	for (unsigned i = 0; i < count; i++)
		json_array_append_new(list, graph_cut_json(question, cuts[i]));
	json_object_set_new(answer, "file", json_string(question->file));
	if (question->check)
		json_object_set_new(answer, "checked", json_true());
	if (question->svg)
		json_object_set_new(answer, "svg", json_string(question->svg));
	if (question->compare)
		json_object_set_new(answer, "protocols", list);
	else
		json_object_set_new(answer, "cut", json_incref(json_array_get(list, 0)));
	if (!question->compare)
		json_decref(list);
	print_json(answer, out);
}

static int answer_question(const struct invocation *invocation, const struct graph_question *question,
			   struct graph_cut *const *cuts, unsigned count)
{
	struct star_error err = { 0 };

	if (question->svg && graph_draw(question, cuts[0], &err) < 0)
		return fail(invocation, &err, STARCTL_FAILED);
	if (question->dot) {
		graph_print_dot(question, cuts[0], invocation->out);
		return STARCTL_OK;
	}
	if (invocation->json) {
		answer_json(question, cuts, count, invocation->out);
		return STARCTL_OK;
	}
	if (question->compare)
		graph_print_comparison(question, cuts, count, invocation->out);
	else
		graph_print_cut(question, cuts[0], invocation->out);
	if (question->check)
		fprintf(invocation->out, "checked: %s\n", count > 1 ? "all cuts are correct" : "the cut is correct");
	if (question->svg)
		fprintf(invocation->out, "the picture is in %s\n", question->svg);
	return STARCTL_OK;
}

int run_graph_explain(const struct invocation *invocation)
{
	struct graph_cut *cuts[GRAPH_COMPARED] = { NULL };
	struct graph_question question;
	struct star_error err = { 0 };
	struct graph *graph;
	unsigned count = 0;
	int status;

	if (read_question(invocation, &question, &err) < 0)
		return fail(invocation, &err, STARCTL_USAGE);
	graph = graph_load(question.file, &err);
	if (!graph || cut_all(&question, graph, cuts, &count, &err) < 0)
		status = fail(invocation, &err, STARCTL_USAGE);
	else
		status = answer_question(invocation, &question, cuts, count);
	while (count-- > 0)
		graph_cut_destroy(cuts[count]);
	graph_destroy(graph);
	return status;
}
