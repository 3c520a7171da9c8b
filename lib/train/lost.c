/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/lost.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/star.h"

/* A variable's blocks, and how many of them were updated at least once. */
struct blocks {
	uint64_t all, updated;
};

/* Other operations may update single rows. */
static bool is_only_read(const struct graph *graph, const struct graph_node *variable)
{
	bool read = false;

	for (uint32_t i = variable->id + 1; i < graph->nodes_count; i++) {
		const struct graph_node *node = graph->nodes[i];

		for (uint32_t k = 0; k < node->inputs_count; k++) {
			if (node->inputs[k].node != variable->id)
				continue;
			if (node->op != GRAPH_READ && node->op != GRAPH_APPLY)
				return false;
			read |= node->op == GRAPH_READ;
		}
	}
	return read;
}

static int count_blocks(struct star_cluster *cluster, struct star_table *variable, uint64_t deadline_us,
			struct blocks *blocks, struct star_error *err)
{
	void *values = malloc(star_bytes(variable, NULL));
	struct star_op op = star_op_pull(variable, NULL, 0, values);
	int rc = -ENOMEM;

	*blocks = (struct blocks){ .all = star_blocks(variable) };
	op.flags = STAR_READ_ONLY;
	op.versions = calloc(blocks->all, sizeof(*op.versions));
	if (!values || !op.versions)
		star_error_set(err, rc, "no memory for the values of a variable");
	else
		rc = star_execute(cluster, &op, 1, deadline_us, err);
	for (uint64_t i = 0; rc == 0 && i < blocks->all; i++)
		blocks->updated += op.versions[i] != 0;
	free(op.versions);
	free(values);
	return rc;
}

int train_lost_check(struct star_cluster *cluster, const struct graph *graph, uint64_t deadline_us,
		     struct star_error *err)
{
	const struct graph_node *never = NULL, *updated = NULL;

	for (uint32_t i = 0; i < graph->nodes_count; i++) {
		const struct graph_node *node = graph->nodes[i];
		struct star_table *variable;
		struct blocks blocks;
		int rc;

		if (node->op != GRAPH_VARIABLE || !graph_attr_int(node, "trainable", 1) || !is_only_read(graph, node))
			continue;
		variable = star_lookup(cluster, node->name, deadline_us, err);
		if (!variable)
			return err->code;
		rc = count_blocks(cluster, variable, deadline_us, &blocks, err);
		if (rc < 0)
			return rc;
		if (blocks.updated && blocks.updated < blocks.all)
			return star_error_set(
				err, -ENOTRECOVERABLE,
				"the PS tasks have lost a part of \"%.200s\": %" PRIu64 " of its %" PRIu64
				" blocks were never updated, and the others were; a PS task was restarted empty: "
				"restore a checkpoint (starctl checkpoint restore), or drop the model (starctl "
				"tables drop) and train it again",
				node->name, blocks.all - blocks.updated, blocks.all);
		if (blocks.updated)
			updated = node;
		else
			never = node;
	}
	if (never && updated)
		fprintf(stderr,
			"\"%s\" was never updated, but \"%s\" was: if both are trained, a PS task was restarted empty, "
			"and training continues with only a part of the model\n",
			never->name, updated->name);
	return 0;
}
