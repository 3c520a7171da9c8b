/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks operations before anything is sent. */
#include "client/blocks.h"
#include "client/client.h"
#include "client/run.h"

#include <errno.h>
#include <math.h>

static bool op_has_gradients(const struct star_op *op)
{
	return op->kind == STAR_PUSH || op->kind == STAR_PUSH_PULL || op->kind == STAR_COMMIT;
}

static int check_blocks(const struct star_op *op, uint32_t i, struct star_error *err)
{
	for (uint32_t k = 0; k < op->count; k++)
		if (op->keys[k] >= op->table->blocks)
			return star_error_set(
				err, -EINVAL,
				"operation %u: variable \"%s\" has %llu blocks, the operation names block "
				"%llu",
				i, op->table->spec.name, (unsigned long long)op->table->blocks,
				(unsigned long long)op->keys[k]);
	return 0;
}

static int check_op_keys(const struct star_op *op, uint32_t i, struct star_error *err)
{
	const struct object_spec *spec = &op->table->spec;

	if (!op->count != !op->keys || (!op->count && spec->kind == OBJECT_TABLE))
		return star_error_set(err, -EINVAL, "operation %u on %s \"%s\" %s", i,
				      wire_object_kind_name(spec->kind), spec->name,
				      op->count ? "has a count, but its keys are NULL"
						: "names no keys: its count is 0");
	if (spec->kind == OBJECT_TABLE || !op->count)
		return 0;
	if (op->flags & CLIENT_BLOCKS)
		return check_blocks(op, i, err);
	for (uint32_t k = 0; k < op->count; k++)
		if (op->keys[k] >= spec->shape[0])
			return star_error_set(err, -EINVAL,
					      "operation %u: variable \"%s\" has %llu rows in its first dimension, the "
					      "operation names row %llu",
					      i, spec->name, (unsigned long long)spec->shape[0],
					      (unsigned long long)op->keys[k]);
	if (op->versions)
		return star_error_set(
			err, -EINVAL,
			"operation %u: the versions of variable \"%s\" are those of its blocks, not of rows: "
			"pull all of it",
			i, spec->name);
	return 0;
}

static int check_memory(const struct star_op *op, uint32_t i, struct star_error *err)
{
	const char *name = op->table->spec.name;

	if (op->view && (op->kind != STAR_PULL || op->versions || op->values))
		return star_error_set(err, -EINVAL, "operation %u on \"%s\": a view is for a pull without %s", i, name,
				      op->values ? "values" : "versions");
	if (op->view)
		return 0;
	if (op->kind == STAR_DELETE || op->kind == STAR_COMMIT ? op->values != NULL : !op->values)
		return star_error_set(err, -EINVAL, "operation %u on \"%s\": values is %s", i, name,
				      !op->values		? "NULL"
				      : op->kind == STAR_DELETE ? "not NULL, and a delete has none"
								: "not NULL, and a commit has none");
	if (op->kind == STAR_PUSH_PULL ? !op->results : op->results != NULL)
		return star_error_set(err, -EINVAL, "operation %u on \"%s\": results is %s", i, name,
				      op->results ? "not NULL, and only a push_pull has them" : "NULL");
	return 0;
}

static int check_type(const struct star_op *op, uint32_t i, struct star_error *err)
{
	const struct object_spec *spec = &op->table->spec;
	const unsigned dtype = op->dtype ? dtype_parse(op->dtype) : spec->dtype;

	if (!dtype)
		return star_error_set(
			err, -EINVAL,
			"operation %u on \"%s\": there is no element type \"%.40s\"; possible values are %s", i,
			spec->name, op->dtype, dtype_names());
	if (!dtype_converts(dtype, spec->dtype))
		return star_error_set(
			err, -EINVAL,
			"operation %u on \"%s\": its elements are of type %s, which is not converted %s %s", i,
			spec->name, dtype_name(spec->dtype),
			op_has_gradients(op) || op->kind == STAR_ASSIGN ? "from" : "to", op->dtype);
	return 0;
}

int client_check_step(const struct star_op *op, uint32_t i, const char *name, struct star_error *err)
{
	if (!isfinite(op->rate) || op->rate < 0)
		return star_error_set(err, -EINVAL,
				      "operation %u on \"%s\": the learning rate is %g; 0 or more is possible", i, name,
				      (double)op->rate);
	if (!isfinite(op->scale) || op->scale < 0)
		return star_error_set(err, -EINVAL, "operation %u on \"%s\": the scale is %g; 0 or more is possible", i,
				      name, (double)op->scale);
	if (op->rate != 0 && !(op->flags & STAR_RATE))
		return star_error_set(err, -EINVAL,
				      "operation %u on \"%s\" has a rate of %g, and its flags lack STAR_RATE: without "
				      "it the rate is the table's own",
				      i, name, (double)op->rate);
	if (op->scale != 0 && !(op->flags & STAR_SCALE))
		return star_error_set(err, -EINVAL,
				      "operation %u on \"%s\" has a scale of %g, and its flags lack STAR_SCALE: "
				      "without it gradients are not scaled",
				      i, name, (double)op->scale);
	return 0;
}

static int check_push(const struct star_op *op, uint32_t i, struct star_error *err)
{
	const struct object_spec *spec = &op->table->spec;

	if (!op_has_gradients(op))
		return op->rate == 0 && op->scale == 0 && !(op->flags & (STAR_RATE | STAR_SCALE))
			       ? 0
			       : star_error_set(err, -EINVAL,
						"operation %u on \"%s\" has a rate or a scale, but is not a push", i,
						spec->name);
	if (spec->optim.kind == OPTIM_NONE)
		return star_error_set(err, -EINVAL,
				      "operation %u: \"%s\" has no optimizer (element type %s), and takes no pushes", i,
				      spec->name, dtype_name(spec->dtype));
	if (spec->optim.kind == OPTIM_LAMB && op->count)
		return star_error_set(
			err, -EINVAL,
			"operation %u: variable \"%s\" has optimizer lamb, which works on the whole tensor: "
			"push all of it, not rows",
			i, spec->name);
	return client_check_step(op, i, spec->name, err);
}

static uint32_t flags_of(enum star_op_kind kind)
{
	return kind == STAR_PULL	? STAR_READ_ONLY
	       : kind == STAR_PUSH	? STAR_ACCUMULATE | STAR_RATE | STAR_SCALE
	       : kind == STAR_PUSH_PULL ? STAR_RATE | STAR_SCALE | STAR_AT_ONCE
	       : kind == STAR_COMMIT	? STAR_OPEN | STAR_RATE | STAR_SCALE | STAR_BY_ROW
					: 0;
}

/* Checks gradients that are summed up. */
static int check_sums(const struct star_op *op, uint32_t i, struct star_error *err)
{
	const bool sums = op->kind == STAR_COMMIT || op->flags & STAR_ACCUMULATE;
	const struct object_spec *spec = &op->table->spec;

	if (sums != (op->tag != 0) || op->tag == UINT64_MAX)
		return star_error_set(err, -EINVAL, "operation %u on \"%s\" has %s", i, spec->name,
				      !sums	? "a tag, and nothing to do with sums"
				      : op->tag ? "the last tag there is"
						: "no tag of sums");
	if (sums && (spec->optim.kind == OPTIM_LAMB || spec->clip_global_norm > 0))
		return star_error_set(
			err, -EINVAL,
			"operation %u: gradients of \"%s\" cannot be summed up for a commit: %s needs all of "
			"a gradient at once",
			i, spec->name, spec->optim.kind == OPTIM_LAMB ? "optimizer lamb" : "clip_global_norm");
	if (op->flags & STAR_ACCUMULATE && op->flags & STAR_RATE)
		return star_error_set(err, -EINVAL,
				      "operation %u on \"%s\" is summed up: the learning rate is its commit's", i,
				      spec->name);
	if (op->kind == STAR_COMMIT && (op->keys || op->count))
		return star_error_set(err, -EINVAL, "operation %u on \"%s\" is a commit: it names no keys", i,
				      spec->name);
	return 0;
}

static int check_pull(const struct star_op *op, uint32_t i, struct star_error *err)
{
	const struct object_spec *spec = &op->table->spec;

	if (op->flags & ~flags_of(op->kind) &&
	    !(op->kind == STAR_ASSIGN && op->flags == CLIENT_BLOCKS && op->table->blocks && op->count))
		return star_error_set(err, -EINVAL,
				      "operation %u: flags are %#x; a pull may have STAR_READ_ONLY, a push "
				      "STAR_ACCUMULATE, a commit STAR_OPEN and STAR_BY_ROW, a push-pull STAR_AT_ONCE, "
				      "and what applies "
				      "gradients STAR_RATE and STAR_SCALE",
				      i, op->flags);
	if (op->versions && op->kind != STAR_PULL)
		return star_error_set(err, -EINVAL, "operation %u on \"%s\" has versions: only a pull may", i,
				      spec->name);
	if (op->versions && !spec->versions)
		return star_error_set(err, -EINVAL,
				      "operation %u: the rows of \"%s\" have no versions: create it with versions=1", i,
				      spec->name);
	return 0;
}

int client_check_op(const struct star_cluster *cluster, const struct star_op *op, uint32_t i, struct star_error *err)
{
	if (op->kind == STAR_RUN)
		return client_run_check_op(cluster, op, i, err);
	if (op->kind < STAR_PULL || op->kind > STAR_COMMIT)
		return star_error_set(err, -EINVAL,
				      "operation %u is not one of STAR_PULL, STAR_PUSH, STAR_PUSH_PULL, STAR_DELETE, "
				      "STAR_ASSIGN, STAR_RUN and STAR_COMMIT: its kind is %d",
				      i, (int)op->kind);
	if (!op->table)
		return star_error_set(err, -EINVAL, "operation %u: table is NULL", i);
	if (op->table->cluster != cluster)
		return star_error_set(err, -EINVAL, "operation %u: table \"%s\" belongs to another cluster handle", i,
				      op->table->spec.name);
	if (op->kind == STAR_DELETE && op->table->blocks)
		return star_error_set(err, -EINVAL, "operation %u: \"%s\" is a variable: its rows cannot be deleted", i,
				      op->table->spec.name);
	if (check_pull(op, i, err) < 0 || check_push(op, i, err) < 0 || check_memory(op, i, err) < 0 ||
	    check_type(op, i, err) < 0 || check_sums(op, i, err) < 0)
		return -EINVAL;
	return op->kind == STAR_COMMIT ? 0 : check_op_keys(op, i, err);
}
