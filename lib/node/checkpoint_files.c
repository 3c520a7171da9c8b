/* SPDX-License-Identifier: BSD-3-Clause */
/* The files of a checkpoint, as nodes have reported them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/ckpt.h"
#include "jsonrpc/member.h"
#include "node/checkpoint.h"

int node_checkpoint_read_files(const json_t *json, struct ckpt_manifest *m, struct star_error *err)
{
	const json_t *file;
	size_t i;

	m->files_count = (uint32_t)json_array_size(json);
	m->files = calloc(m->files_count + 1, sizeof(*m->files));
	if (!m->files)
		return star_error_set(err, -ENOMEM, "out of memory");
	json_array_foreach(json, i, file)
	{
		struct ckpt_file *f = &m->files[i];
		const char *name;
		uint64_t step;

		if (jsonrpc_member_string(file, "name", sizeof(f->name) - 1, &name, err) < 0 ||
		    jsonrpc_member_u32(file, "task", 0, WIRE_NODES_MAX - 1, &f->task, err) < 0 ||
		    jsonrpc_member_u32(file, "reactor", 0, WIRE_REACTORS_MAX - 1, &f->reactor, err) < 0 ||
		    jsonrpc_member_u64(file, "bytes", &f->bytes, err) < 0 ||
		    jsonrpc_member_u64(file, "rows", &f->rows, err) < 0 ||
		    jsonrpc_member_u64(file, "deleted", &f->deleted, err) < 0 ||
		    jsonrpc_member_u32(file, "checksum", 0, UINT32_MAX, &f->checksum, err) < 0 ||
		    jsonrpc_member_u64(file, "step", &step, err) < 0)
			return -EPROTO;
		if (step > m->step)
			m->step = step;
		strcpy(f->name, name);
	}
	return 0;
}
