/* SPDX-License-Identifier: BSD-3-Clause */
/* A cut as JSON: names, not numbers; parts by their position in the list. */
#include "app/starctl/graph.h"
#include "offload/cut.h"

static json_t *names(const struct graph *graph, const uint32_t *nodes, uint32_t count)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < count; i++)
		json_array_append_new(list, json_string(graph->nodes[nodes[i]]->name));
	return list;
}

/* bytes: what is sent for each; stays: what is there already. NULL: none. */
static json_t *values(const struct graph_question *question, const struct graph *graph,
		      const struct graph_value *values, uint32_t count, const uint64_t *bytes, const bool *stays)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < count; i++) {
		const uint64_t once = graph_cut_bytes(graph, values[i], question->cut.batch);
		char type[GRAPH_TYPE_TEXT];
		json_t *value =
			json_pack("{s:s, s:i, s:s, s:I}", "node", graph->nodes[values[i].node]->name, "output",
				  (int)values[i].output, "type", graph_type_text(graph_type(graph, values[i]), type),
				  "bytes", (json_int_t)(bytes ? bytes[i] : once));

		if (stays)
			json_object_set_new(value, "stays", json_boolean(stays[i]));
		json_array_append_new(list, value);
	}
	return list;
}

static json_t *part_json(const struct graph_question *question, const struct graph_cut *cut,
			 const struct graph_part *part)
{
	const struct graph_traffic *traffic = &cut->traffic[part - cut->parts];
	char place[GRAPH_PLACE_TEXT];
	json_t *after = json_array();

	for (uint32_t i = 0; i < part->after_count; i++)
		json_array_append_new(after, json_integer(part->after[i]));
	return json_pack("{s:i, s:s, s:o, s:o, s:o, s:o, s:o, s:I, s:I}", "wave", (int)part->wave, "place",
			 graph_place_text(part->place, place), "nodes",
			 names(cut->graph, part->nodes, part->nodes_count), "feeds",
			 values(question, cut->graph, part->feeds, part->feeds_count, traffic->feeds, traffic->stays),
			 "fetches",
			 values(question, cut->graph, part->fetches, part->fetches_count, traffic->fetches, NULL),
			 "kept", values(question, cut->graph, part->kept, part->kept_count, NULL, NULL), "after", after,
			 "to_ps_bytes", (json_int_t)traffic->to_ps, "from_ps_bytes", (json_int_t)traffic->from_ps);
}

json_t *graph_cut_json(const struct graph_question *question, const struct graph_cut *cut)
{
	json_t *parts = json_array(), *warnings = json_array(), *bodies = json_array();

	for (uint32_t i = 0; i < cut->parts_count; i++)
		json_array_append_new(parts, part_json(question, cut, &cut->parts[i]));
	for (uint32_t i = 0; i < cut->warnings_count; i++)
		json_array_append_new(warnings, json_string(cut->warnings[i]));
	for (uint32_t i = 0; i < cut->bodies_count; i++)
		json_array_append_new(bodies,
				      json_pack("{s:s, s:o, s:o}", "node", cut->graph->nodes[cut->bodies[i].node]->name,
						"body", graph_cut_json(question, cut->bodies[i].body), "cond",
						graph_cut_json(question, cut->bodies[i].cond)));
	return json_pack("{s:s, s:b, s:i, s:i, s:I, s:I, s:o, s:o, s:o, s:o, s:s?}", "protocol",
			 graph_protocol_name(cut->protocol), "tensor_fuse", cut->fuse, "rounds", (int)cut->rounds,
			 "requests", (int)cut->requests, "to_ps_bytes", (json_int_t)cut->to_ps_bytes, "from_ps_bytes",
			 (json_int_t)cut->from_ps_bytes, "parts", parts, "moved",
			 names(cut->graph, cut->moved, cut->moved_count), "warnings", warnings, "bodies", bodies,
			 "undone", cut->unsupported);
}
