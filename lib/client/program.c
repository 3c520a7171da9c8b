/* SPDX-License-Identifier: BSD-3-Clause */
/* Building and registering programs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/run.h"

struct star_program_builder {
	struct star_cluster *cluster;
	struct program program;
	const struct star_table *tables[PROGRAM_NODES_MAX]; /* of KEYS nodes */
	struct star_error err;				    /* the first error */
};

struct star_program_builder *star_program_begin(struct star_cluster *cluster)
{
	struct star_program_builder *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->cluster = cluster;
	b->program.version = PROGRAM_VERSION;
	return b;
}

void star_program_abandon(struct star_program_builder *b)
{
	free(b);
}

static int fail_program(struct star_program_builder *b, int code, const char *what, const char *name)
{
	if (!b->err.code)
		star_error_set(&b->err, code, "node %u of the program: %s%.40s", b->program.count, what, name);
	return code;
}

/* For nodes that have them, a and b are numbers of nodes, or errors of earlier calls. */
static int add_program_node(struct star_program_builder *b, unsigned op, int x, int y, struct program_node rest)
{
	if (!b)
		return -ENOMEM;
	if (x < 0 || y < 0 || x >= b->program.count + !b->program.count || y >= b->program.count + !b->program.count)
		return fail_program(b, -EINVAL, "it uses a node that is not there", "");
	if (b->program.count == PROGRAM_NODES_MAX)
		return fail_program(b, -E2BIG, "there are too many", "");
	rest.op = (uint8_t)op;
	rest.a = (uint8_t)x;
	rest.b = (uint8_t)y;
	b->program.nodes[b->program.count] = rest;
	return b->program.count++;
}

static int add_rows(struct star_program_builder *b, unsigned op, int keys, uint32_t dim)
{
	if (b && (dim < 1 || dim > WIRE_DIM_MAX))
		return fail_program(b, -EINVAL, "a row has 1 to 4096 elements", "");
	return add_program_node(b, op, keys, 0, (struct program_node){ .dim = (uint16_t)dim });
}

int star_program_keys(struct star_program_builder *b, const struct star_table *table)
{
	if (b && (!table || table->cluster != b->cluster))
		return fail_program(b, -EINVAL,
				    table ? "its table belongs to another cluster handle" : "its table is NULL", "");
	if (b && b->program.count < PROGRAM_NODES_MAX)
		b->tables[b->program.count] = table;
	return add_program_node(b, PROGRAM_KEYS, 0, 0,
				(struct program_node){ .object = b ? (uint16_t)table->spec.id : 0,
						       .dim = b ? (uint16_t)table->spec.dim : 0,
						       .generation = b ? table->spec.generation : 0 });
}

int star_program_rows(struct star_program_builder *b, int keys, uint32_t dim)
{
	return add_rows(b, PROGRAM_ROWS, keys, dim);
}

int star_program_segments(struct star_program_builder *b, int keys)
{
	return add_program_node(b, PROGRAM_SEGMENTS, keys, 0, (struct program_node){ 0 });
}

int star_program_few_segments(struct star_program_builder *b, int keys, uint32_t most)
{
	if (b && (most < 1 || most > PROGRAM_SEGMENTS_MAX))
		return fail_program(b, -EINVAL, "a run has 1 to 65536 segments", "");
	return add_program_node(b, program_segments_op(most), keys, 0, (struct program_node){ 0 });
}

/* The same for what an earlier run has kept. */
static int add_kept(struct star_program_builder *b, int node, uint32_t place)
{
	if (node < 0)
		return node;
	if (place >= PROGRAM_PLACES_MAX)
		return fail_program(b, -EINVAL, "places are 0 to 7", "");
	b->program.nodes[node].b = (uint8_t)place;
	b->program.nodes[node].flags = PROGRAM_KEPT;
	return node;
}

int star_program_kept_keys(struct star_program_builder *b, const struct star_table *table)
{
	return add_kept(b, star_program_keys(b, table), 0);
}

int star_program_kept_rows(struct star_program_builder *b, int keys, uint32_t dim, uint32_t place)
{
	return add_kept(b, star_program_rows(b, keys, dim), place);
}

int star_program_kept_segments(struct star_program_builder *b, int keys, uint32_t place)
{
	return add_kept(b, star_program_segments(b, keys), place);
}

int star_program_keep(struct star_program_builder *b, int x, uint32_t place)
{
	const int node = add_program_node(b, PROGRAM_KEEP, x, 0, (struct program_node){ 0 });
	const int rc = add_kept(b, node, place);

	if (rc >= 0)
		b->program.nodes[node].flags = 0;
	return rc;
}

int star_program_shared(struct star_program_builder *b, uint32_t dim)
{
	return add_rows(b, PROGRAM_SHARED, 0, dim);
}

int star_program_segment_rows(struct star_program_builder *b, uint32_t dim)
{
	return add_rows(b, PROGRAM_SEGMENT_ROWS, 0, dim);
}

int star_program_lookup(struct star_program_builder *b, int keys, uint32_t flags)
{
	if (b && flags & ~(uint32_t)STAR_READ_ONLY)
		return fail_program(b, -EINVAL, "a look-up's flags may be STAR_READ_ONLY", "");
	return add_program_node(b, PROGRAM_LOOKUP, keys, 0,
				(struct program_node){ .flags = flags & STAR_READ_ONLY ? PROGRAM_READ_ONLY : 0 });
}

/* The number of a computation with one operand, or two, by name; 0: there is none. */
static unsigned find_step(const char *name, bool two)
{
	const unsigned op = name ? wire_program_op_find(name) : 0;
	const struct program_op_info *info = wire_program_op(op);

	return info->kind >= PROGRAM_KIND_UNARY && !!(info->uses & PROGRAM_USES_B) == two ? op : 0;
}

int star_program_unary(struct star_program_builder *b, const char *name, int x, float constant)
{
	const unsigned op = find_step(name, false);

	if (b && !op)
		return fail_program(b, -EINVAL, "there is no step of one operand called ", name ? name : "NULL");
	return add_program_node(b, op, x, 0, (struct program_node){ .constant = constant });
}

int star_program_binary(struct star_program_builder *b, const char *name, int x, int y)
{
	const unsigned op = find_step(name, true);

	if (b && !op)
		return fail_program(b, -EINVAL, "there is no step of two operands called ", name ? name : "NULL");
	return add_program_node(b, op, x, y, (struct program_node){ 0 });
}

int star_program_pool(struct star_program_builder *b, int rows, int segments)
{
	return add_program_node(b, PROGRAM_POOL, rows, segments, (struct program_node){ 0 });
}

int star_program_unpool(struct star_program_builder *b, int segment_rows, int segments)
{
	return add_program_node(b, PROGRAM_UNPOOL, segment_rows, segments, (struct program_node){ 0 });
}

int star_program_apply(struct star_program_builder *b, int keys, int gradients)
{
	return add_program_node(b, PROGRAM_APPLY, keys, gradients, (struct program_node){ 0 });
}

int star_program_fetch(struct star_program_builder *b, int x)
{
	return add_program_node(b, PROGRAM_FETCH, x, 0, (struct program_node){ 0 });
}

/* Finds the handle of that object, or creates it. */
static struct star_program *remember_program(const struct star_program_builder *b, struct star_table *object,
					     struct star_error *err)
{
	struct star_cluster *cluster = b->cluster;
	struct star_program *program, *made = calloc(1, sizeof(*made));
	unsigned node;

	if (!made) {
		star_error_set(err, -ENOMEM, "out of memory for a program");
		return NULL;
	}
	made->object = object;
	wire_program_check(&object->spec.program, &made->shape, &node); /* cannot fail after wire_object_spec_check */
	made->carries_all = true;
	for (unsigned i = 0; i < object->spec.program.count; i++) {
		const struct program_node *n = &object->spec.program.nodes[i];

		if (n->op == PROGRAM_KEYS)
			made->tables[made->shape.values[i].keys] = b->tables[i];
		if (n->op == PROGRAM_KEEP &&
		    wire_program_op(object->spec.program.nodes[n->a].op)->kind != PROGRAM_KIND_FEED)
			made->carries_all = false;
		if (n->op == PROGRAM_FETCH)
			made->fetches[made->fetches_count++] = n->a;
		if (wire_program_op(n->op)->kind != PROGRAM_KIND_FEED)
			continue;
		made->feed_of[i] = made->feeds_count;
		made->feeds[made->feeds_count++] = (uint8_t)i;
	}
	pthread_mutex_lock(&cluster->lock);
	for (program = cluster->programs; program && program->object != object; program = program->next)
		;
	if (!program) {
		made->next = cluster->programs;
		cluster->programs = program = made;
		made = NULL;
	}
	pthread_mutex_unlock(&cluster->lock);
	free(made);
	return program;
}

static struct star_program *ask_program(const struct star_program_builder *b, uint64_t deadline_us,
					struct star_error *err)
{
	struct object_spec spec = { .kind = OBJECT_PROGRAM, .dtype = STAR_FLOAT32, .program = b->program };
	struct star_table *object;

	wire_program_name(&spec.program, spec.name);
	if (wire_object_spec_check(&spec, err) < 0)
		return NULL;
	object = client_table_ask(b->cluster, "create", jsonrpc_object_encode(&spec), &spec, deadline_us, err);
	return object ? remember_program(b, object, err) : NULL;
}

struct star_program *star_program_register(struct star_program_builder *b, uint64_t deadline_us, struct star_error *err)
{
	struct star_program *program = NULL;
	struct star_error ignored;

	if (!err)
		err = &ignored;
	if (!b) {
		star_error_set(err, -ENOMEM, "out of memory for a program");
		return NULL;
	}
	if (b->err.code)
		*err = b->err;
	else if (client_cluster_enter(b->cluster, true, err) == 0) {
		program = ask_program(b, deadline_us, err);
		client_cluster_leave(b->cluster);
	}
	free(b);
	return program;
}

void client_program_free_all(struct star_cluster *cluster)
{
	struct star_program *program;

	while ((program = cluster->programs)) {
		cluster->programs = program->next;
		free(program);
	}
}
