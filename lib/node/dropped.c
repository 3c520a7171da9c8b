/* SPDX-License-Identifier: BSD-3-Clause */
/* A file beside the checkpoints lists what was dropped since they were written, so that a restart does not bring it
 * back. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "node/checkpoint.h"

int node_dropped_read(void *ctx, uint32_t *generations, struct star_error *err)
{
	const struct node *node = ctx;

	if (node->checkpoint)
		return ckpt_dropped_read(node->config->checkpoint_directory,
					 node_checkpoint_own_lineage(node->checkpoint), generations, err);
	memset(generations, 0, (WIRE_OBJECTS_MAX + 1) * sizeof(*generations));
	return 0;
}

int node_dropped_write(void *ctx, const uint32_t *generations, struct star_error *err)
{
	const struct node *node = ctx;
	int rc;

	if (!node->checkpoint)
		return 0;
	rc = node_checkpoint_claim(node->checkpoint, err);
	return rc < 0 ? rc
		      : ckpt_dropped_add(node_checkpoint_dropped(node->checkpoint), node->config->checkpoint_directory,
					 node_checkpoint_own_lineage(node->checkpoint), generations, err);
}

/* The manifest of a chain's last checkpoint has all of its objects. */
static void tell_who_is_back(const struct ckpt_manifest *manifest, const uint32_t *generations)
{
	for (uint32_t i = 0; i < manifest->objects_count; i++) {
		const struct object_spec *spec = &manifest->objects[i];

		if (spec->generation < generations[spec->id] && spec->kind != OBJECT_PROGRAM)
			log_warn("%s \"%s\" was dropped, and exists again: checkpoint %" PRIu64 " has it",
				 wire_object_kind_name(spec->kind), spec->name, manifest->id);
	}
}

int node_bring_back(void *ctx, uint64_t id, struct star_error *err)
{
	const struct node *node = ctx;
	const char *directory = node->config->checkpoint_directory;
	uint32_t generations[WIRE_OBJECTS_MAX + 1], count = 0;
	struct ckpt_manifest manifest;
	struct star_error why = { 0 };
	char **chain = NULL;
	uint64_t lineage;
	int rc;

	if (!node->checkpoint)
		return 0;
	rc = ckpt_chain(directory, id, &chain, &count, err);
	if (rc == 0)
		rc = ckpt_manifest_read(chain[count - 1], &manifest, err);
	ckpt_chain_free(chain, count);
	if (rc < 0)
		return rc;
	lineage = manifest.lineage;
	if (ckpt_dropped_read(directory, lineage, generations, &why) == 0)
		tell_who_is_back(&manifest, generations);
	ckpt_manifest_free(&manifest);
	node_checkpoint_dropped(node->checkpoint)->known = false;
	return ckpt_dropped_remove(directory, &lineage, err);
}
