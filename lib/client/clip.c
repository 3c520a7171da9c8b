/* SPDX-License-Identifier: BSD-3-Clause */
/* Clips by the norm of a whole step's gradient. Only the worker has all of it. */
#include "client/client.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double square_sum(const float *values, uint64_t n)
{
	double sum = 0;

	for (uint64_t i = 0; i < n; i++)
		sum += (double)values[i] * (double)values[i];
	return sum;
}

/* Computes squares as the node will apply the gradients: the rows of one id are summed in their order. */
static int keyed_squares(const struct star_op *op, uint64_t row, double *squares, struct star_error *err)
{
	uint32_t *order = malloc(op->count * sizeof(*order));
	float *sum = malloc(row * sizeof(*sum));

	if (!order || !sum) {
		free(order);
		free(sum);
		return star_error_set(err, -ENOMEM, "out of memory for the norm of a gradient");
	}
	for (uint32_t i = 0; i < op->count; i++)
		order[i] = i;
	qsort_r(order, op->count, sizeof(*order), client_split_by_key, (void *)(uintptr_t)op->keys);
	for (uint32_t i = 0, next; i < op->count; i = next) {
		const float *rows = op->values;

		memcpy(sum, rows + order[i] * row, row * sizeof(*sum));
		for (next = i + 1; next < op->count && op->keys[order[next]] == op->keys[order[i]]; next++)
			for (uint64_t e = 0; e < row; e++)
				sum[e] += rows[order[next] * row + e];
		*squares += square_sum(sum, row);
	}
	free(order);
	free(sum);
	return 0;
}

static bool op_is_clipped(const struct star_op *op)
{
	return op->kind == STAR_PUSH || op->kind == STAR_PUSH_PULL;
}

static int op_squares(const struct star_op *op, uint32_t i, double *squares, struct star_error *err)
{
	const struct star_table *t = op->table;
	uint64_t row;

	if (!t || client_check_op(t->cluster, op, i, err) < 0)
		return t ? -EINVAL : star_error_set(err, -EINVAL, "operation %u: table is NULL", i);
	if ((op->dtype ? dtype_parse(op->dtype) : t->spec.dtype) != STAR_FLOAT32)
		return star_error_set(err, -EINVAL,
				      "operation %u on \"%s\": the norm is that of float32 gradients, not of %s", i,
				      t->spec.name, op->dtype ? op->dtype : dtype_name(t->spec.dtype));
	row = t->blocks ? t->elements / t->spec.shape[0] : t->elements;
	if (op->count)
		return keyed_squares(op, row, squares, err);
	*squares += square_sum(op->values, t->elements);
	return 0;
}

static double scale_of(const struct star_op *op)
{
	return op->flags & STAR_SCALE ? (double)op->scale : 1;
}

int star_clip_global_norm(struct star_op *ops, uint32_t ops_count, float max_norm, double *norm, struct star_error *err)
{
	double sum = 0, total;
	int rc = 0;

	if (!ops || !ops_count)
		return star_error_set(err, -EINVAL, "there are no operations");
	if (!(max_norm > 0) || !isfinite(max_norm))
		return star_error_set(err, -EINVAL, "max_norm is %g: it must be a number above 0", (double)max_norm);
	for (uint32_t i = 0; i < ops_count && rc == 0; i++) {
		const double scale = scale_of(&ops[i]);
		double squares = 0;

		if (!op_is_clipped(&ops[i]))
			continue;
		rc = op_squares(&ops[i], i, &squares, err);
		sum += squares * scale * scale;
	}
	if (rc < 0)
		return rc;
	total = sqrt(sum);
	if (norm)
		*norm = total;
	/* NaN or infinite: the table decides what happens to such a gradient. */
	for (uint32_t i = 0; i < ops_count && isfinite(total) && total > (double)max_norm; i++)
		if (op_is_clipped(&ops[i])) {
			ops[i].scale = (float)(scale_of(&ops[i]) * ((double)max_norm / total));
			ops[i].flags |= STAR_SCALE;
		}
	return 0;
}
