/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/local.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/spec.h"
#include "train/local_internal.h"
#include "tensor/dtype.h"

enum { STORE_BYTES_LOG2_MAX = 38, PAGES_OF_FOUR = 3 };

/* The process's store. */
static struct {
	void *arena;
	size_t arena_bytes;
	struct store *store;
	struct local_table *tables;
} here;

struct prepared {
	struct local_table **tables; /* by node: the table of a handle */
	struct local_part *parts;
	uint32_t parts_count;
	struct local_scratch scratch;
};

/* ---- variables and tables ---- */

static int make_store(struct star_error *err)
{
	const uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) / 4 * PAGES_OF_FOUR * (uint64_t)sysconf(_SC_PAGESIZE);
	const uint64_t most = UINT64_C(1) << STORE_BYTES_LOG2_MAX;

	here.arena_bytes = memory < most ? memory : most;
	/* Pages are allocated when rows are first stored in them. */
	here.arena = mmap(NULL, here.arena_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			  -1, 0);
	if (here.arena == MAP_FAILED)
		return star_error_set(err, -ENOMEM, "no %zu MiB of address space for parameters",
				      here.arena_bytes >> 20);
	madvise(here.arena, here.arena_bytes, MADV_HUGEPAGE); /* if there are huge pages: only for speed */
	here.store = store_create(here.arena, here.arena_bytes, err);
	if (!here.store)
		munmap(here.arena, here.arena_bytes);
	return here.store ? 0 : err->code;
}

void train_local_forget(void)
{
	struct local_table *next;

	if (!here.store)
		return;
	for (struct local_table *t = here.tables; t; t = next) {
		next = t->next;
		free(t);
	}
	here.tables = NULL;
	store_destroy(here.store);
	here.store = NULL;
	munmap(here.arena, here.arena_bytes);
}

/* The object of that name, if its definition is the same; otherwise it is created. */
static struct local_table *find_or_make(const struct object_spec *spec, struct star_error *err)
{
	struct local_table *t;

	for (t = here.tables; t; t = t->next)
		if (strcmp(t->spec->name, spec->name) == 0)
			return wire_object_spec_same(t->spec, spec, err) == 0 ? t : NULL;
	t = calloc(1, sizeof(*t));
	if (!t) {
		star_error_set(err, -ENOMEM, "no memory for \"%s\"", spec->name);
		return NULL;
	}
	t->store = store_table_create(here.store, spec, 1, err);
	if (!t->store) {
		free(t);
		return NULL;
	}
	t->spec = store_table_spec(t->store);
	t->elements = spec->kind == OBJECT_VARIABLE ? wire_object_elements(spec) : 0;
	t->blocks = spec->kind == OBJECT_VARIABLE ? wire_object_blocks(spec) : 0;
	t->next = here.tables;
	here.tables = t;
	return t;
}

double train_local_scalar(const char *name)
{
	const uint64_t block = 0;
	double values[WIRE_DIM_MAX];
	store_row row;

	for (struct local_table *t = here.tables; t; t = t->next) {
		if (strcmp(t->spec->name, name) != 0 || !t->blocks || !dtype_converts(STAR_FLOAT64, t->spec->dtype))
			continue;
		store_find(t->store, &block, 1, STORE_LOOK, 0, &row);
		store_read(t->store, row, block, STAR_FLOAT64, values);
		return values[0];
	}
	return 0;
}

static int make_objects(const struct graph *graph, struct prepared *p, struct star_error *err)
{
	for (uint32_t i = 0; i < graph->nodes_count; i++) {
		const struct graph_node *node = graph->nodes[i];
		struct template_object object;
		struct object_spec spec;

		if (!node->outputs_count || node->outputs[0].dtype != 0)
			continue;
		if (node->op == GRAPH_IDENTITY) {
			p->tables[i] = p->tables[node->inputs[0].node];
			continue;
		}
		if (offload_template_object(node, &object, err) < 0 ||
		    client_spec_of(&spec, &object.spec, object.is_table ? OBJECT_TABLE : OBJECT_VARIABLE, err) < 0)
			return err->code;
		p->tables[i] = find_or_make(&spec, err);
		if (!p->tables[i])
			return err->code;
	}
	return 0;
}

/* ---- parts ---- */

/* How rows of a variable's first dimension lie in its blocks. */
static int place_rows(struct local_op *o, struct star_error *err)
{
	const struct object_spec *spec = o->table->spec;
	const uint64_t row = o->table->elements / spec->shape[0];

	if (row % spec->dim == 0)
		o->blocks_a_row = (uint32_t)(row / spec->dim);
	else if (spec->dim % row == 0)
		o->rows_a_block = (uint32_t)(spec->dim / row);
	else
		return star_error_set(
			err, -EINVAL,
			"variable \"%s\" has rows of %llu elements, which are split across its blocks of %u: read "
			"and apply the whole variable, or make the row's length a multiple of %u",
			spec->name, (unsigned long long)row, spec->dim, spec->dim);
	return 0;
}

static int check_push(const struct local_op *o, struct star_error *err)
{
	const struct object_spec *spec = o->table->spec;

	if (o->template.op.kind == STAR_PULL || o->template.op.kind == STAR_ASSIGN)
		return 0;
	if (spec->optim.kind == OPTIM_NONE)
		return star_error_set(err, -EINVAL,
				      "\"%s\" has no optimizer (element type %s), and accepts no gradients", spec->name,
				      dtype_name(spec->dtype));
	if (spec->optim.kind == OPTIM_LAMB && o->template.keys != TEMPLATE_NOT_THERE)
		return star_error_set(err, -EINVAL,
				      "variable \"%s\" has optimizer lamb, which needs the whole tensor: apply all "
				      "of it, not rows",
				      spec->name);
	return 0;
}

/* The maximum of an operation: keys of the store, and bytes of gradients. */
static int plan_op(const struct graph_ps_plan *plan, const struct graph_part *from, struct local_op *o, uint64_t *keys,
		   uint64_t *bytes, struct star_error *err)
{
	const struct object_spec *spec = o->table->spec;
	const bool pushes = o->template.op.kind != STAR_PULL;
	uint64_t given = o->table->blocks, count = given;

	o->blocks_a_row = o->rows_a_block = 1;
	if (check_push(o, err) < 0)
		return err->code;
	if (o->template.keys != TEMPLATE_NOT_THERE) {
		if (o->table->blocks && place_rows(o, err) < 0)
			return err->code;
		given = (uint64_t)graph_elements(&graph_ps_type(plan, from->feeds[o->template.keys])->shape);
		count = given * o->blocks_a_row;
	}
	if (pushes && o->rows_a_block > 1) {
		o->summed = malloc((given + 1) * sizeof(*o->summed));
		o->sums = malloc(o->table->blocks * spec->dim * sizeof(double));
		if (!o->summed || !o->sums)
			return star_error_set(err, -ENOMEM, "no memory for gradients of \"%s\"", spec->name);
		if (count > o->table->blocks)
			count = o->table->blocks;
	}
	*keys += pushes ? count : 0;
	*bytes += pushes ? count * spec->dim * sizeof(double) : 0;
	return 0;
}

static int prepare_part(const struct graph_ps_plan *plan, struct prepared *p, uint32_t index, uint64_t *keys,
			uint64_t *bytes, struct star_error *err)
{
	struct local_part *part = &p->parts[index];
	struct request_template *templates;
	uint32_t count;
	int rc = offload_template_part(plan, index, &templates, &count, err);

	*keys = *bytes = 0;
	if (rc == 0 && count) {
		part->ops = calloc(count, sizeof(*part->ops));
		part->now = calloc(count, sizeof(struct local_op *));
		if (!part->ops || !part->now)
			rc = star_error_set(err, -ENOMEM, "no memory for a plan");
	}
	for (uint32_t i = 0; rc == 0 && i < count; i++) {
		part->ops[i].template = templates[i];
		part->ops[i].table = p->tables[templates[i].handle];
		part->count++;
		rc = plan_op(plan, &plan->parts[index], &part->ops[i], keys, bytes, err);
	}
	free(templates);
	return rc;
}

static void release_local(void *ctx, void *prepared)
{
	struct prepared *p = prepared;

	(void)ctx;
	if (!p)
		return;
	for (uint32_t i = 0; p->parts && i < p->parts_count; i++) {
		for (uint32_t k = 0; k < p->parts[i].count; k++) {
			free(p->parts[i].ops[k].sums);
			free(p->parts[i].ops[k].summed);
		}
		free(p->parts[i].ops);
		free(p->parts[i].now);
	}
	free(p->parts);
	free(p->tables);
	store_push_destroy(p->scratch.push);
	free(p);
}

static int prepare_parts(const struct graph_ps_plan *plan, struct prepared *p, struct star_error *err)
{
	uint64_t keys_max = 1, bytes_max = 1;

	for (uint32_t i = 0; i < plan->parts_count; i++) {
		uint64_t keys, bytes;

		if (prepare_part(plan, p, i, &keys, &bytes, err) < 0)
			return err->code;
		keys_max = keys > keys_max ? keys : keys_max;
		bytes_max = bytes > bytes_max ? bytes : bytes_max;
	}
	if (keys_max > UINT32_MAX || bytes_max > UINT32_MAX)
		return star_error_set(err, -E2BIG, "a step's gradients are more than 4 GiB");
	p->scratch.push = store_push_create((uint32_t)keys_max, (uint32_t)bytes_max, err);
	return p->scratch.push ? 0 : err->code;
}

static int prepare_local(void *ctx, const struct graph_ps_plan *plan, void **prepared, struct star_error *err)
{
	struct prepared *p = calloc(1, sizeof(*p));
	int rc;

	(void)ctx;
	*prepared = NULL;
	if (!p)
		return star_error_set(err, -ENOMEM, "no memory for a plan");
	p->parts_count = plan->parts_count;
	p->parts = calloc(plan->parts_count + UINT64_C(1), sizeof(*p->parts));
	p->tables = calloc(plan->graph->nodes_count + UINT64_C(1), sizeof(struct local_table *));
	rc = p->parts && p->tables ? make_objects(plan->graph, p, err)
				   : star_error_set(err, -ENOMEM, "no memory for a plan");
	if (rc == 0)
		rc = prepare_parts(plan, p, err);
	if (rc < 0)
		release_local(ctx, p);
	else
		*prepared = p;
	return rc;
}

/* ---- calls ---- */

enum { SWEPT_ROWS = 64 /* examined for eviction after each call */ };

static int start_local_part(void *ctx, const struct graph_ps_call *call, void **token, struct star_error *err)
{
	struct prepared *p = call->prepared;
	const int rc = train_local_run(&p->scratch, &p->parts[call->part], call, err);

	(void)ctx;
	store_sweep(here.store, SWEPT_ROWS);
	*token = NULL;
	return rc;
}

static int wait_local_part(void *ctx, const struct graph_ps_call *call, void *token, struct star_error *err)
{
	(void)ctx;
	(void)call;
	(void)token;
	(void)err;
	return 0;
}

struct graph_ps *train_local_create(struct star_error *err)
{
	struct graph_ps *ps = malloc(sizeof(*ps));

	if (!ps)
		star_error_set(err, -ENOMEM, "no memory for a session");
	else if (!here.store && make_store(err) < 0) {
		free(ps);
		ps = NULL;
	} else {
		*ps = (struct graph_ps){ .prepare = prepare_local,
					 .release = release_local,
					 .start = start_local_part,
					 .wait = wait_local_part };
	}
	return ps;
}

void train_local_destroy(struct graph_ps *ps)
{
	free(ps);
}
