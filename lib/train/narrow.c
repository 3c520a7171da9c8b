/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/narrow.h"

#include <errno.h>
#include <stddef.h>

#include "tensor/convert.h"
#include "tensor/dtype.h"

int train_narrow_parse(const char *name, struct star_error *err)
{
	const unsigned dtype = name ? dtype_parse(name) : STAR_FLOAT32;

	if (dtype == STAR_FLOAT16 || dtype == STAR_BFLOAT16 || dtype == STAR_SCALED_INT8)
		return (int)dtype;
	return dtype == STAR_FLOAT32 ? 0
				     : star_error_set(err, -EINVAL,
						      "wire = %.40s: rows and gradients can be sent as float32, "
						      "float16, bfloat16 or scaled_int8",
						      name);
}

void train_narrow_set(struct narrow_rows *narrow, unsigned wire, const struct graph_ps_plan *plan,
		      const struct graph_part *from, const struct request_template *d)
{
	const bool pull = d->op.kind == STAR_PULL;
	const uint32_t rows = pull ? d->fetch : d->values;
	const struct graph_node *node;
	uint64_t bytes;

	if (!wire || d->keys == TEMPLATE_NOT_THERE || rows == TEMPLATE_NOT_THERE || (!pull && d->op.kind != STAR_PUSH))
		return;
	for (node = plan->graph->nodes[d->handle]; node->op == GRAPH_IDENTITY;)
		node = plan->graph->nodes[node->inputs[0].node];
	if (node->op != GRAPH_TABLE || node->outputs[0].element != STAR_FLOAT32)
		return;
	bytes = star_bytes(d->op.table, "float32");
	narrow->dtype = wire;
	narrow->dim = (uint32_t)(bytes / sizeof(float));
	narrow->bytes = graph_type_bytes(graph_ps_type(plan, pull ? from->fetches[rows] : from->feeds[rows])) / bytes *
			dtype_row_bytes(wire, narrow->dim);
}

void train_narrow_to_wire(const struct narrow_rows *narrow, struct narrow_call *call, struct star_op *op)
{
	const uint64_t bytes = dtype_row_bytes(narrow->dtype, narrow->dim);
	const float *rows = op->values;

	call->rows = NULL;
	call->count = op->count;
	if (op->kind == STAR_PULL)
		call->rows = op->values;
	else
		for (uint32_t i = 0; i < op->count; i++)
			tensor_convert_row((char *)call->memory + i * bytes, narrow->dtype,
					   rows + (uint64_t)i * narrow->dim, STAR_FLOAT32, narrow->dim, NULL);
	op->values = call->memory;
	op->dtype = dtype_name(narrow->dtype);
}

void train_narrow_from_wire(const struct narrow_rows *narrow, const struct narrow_call *call)
{
	const uint64_t bytes = dtype_row_bytes(narrow->dtype, narrow->dim);

	for (uint32_t i = 0; i < call->count; i++)
		tensor_convert_row(call->rows + (uint64_t)i * narrow->dim, STAR_FLOAT32,
				   (const char *)call->memory + i * bytes, narrow->dtype, narrow->dim, NULL);
}
