/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/program.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "wire/frame.h"
#include "wire/object.h"

/* A check in progress. */
struct check {
	const struct program *program;
	struct program_shape *shape;
	unsigned at;	  /* the current node */
	uint64_t fetched; /* a bit for each node */
};

static const struct program_node *node_of(const struct check *c, unsigned i)
{
	return &c->program->nodes[i];
}

static bool is_op(const struct check *c, unsigned i, unsigned op)
{
	return node_of(c, i)->op == op;
}

static bool is_segments(const struct check *c, unsigned i)
{
	return program_segment_bytes(node_of(c, i)->op) != 0;
}

static struct program_keys *keys_of(const struct check *c, unsigned i)
{
	return &c->shape->keys[c->shape->values[i].keys];
}

static const char *set_shape(struct check *c, unsigned axis, unsigned keys, unsigned dim)
{
	c->shape->values[c->at] =
		(struct program_value){ .axis = (uint8_t)axis, .keys = (uint8_t)keys, .dim = (uint16_t)dim };
	return NULL;
}

/* Fields that the node's operation does not use must be 0. */
static const char *check_fields(const struct program_node *n, unsigned at)
{
	const struct program_op_info *op = wire_program_op(n->op);
	const bool dim = op->uses & PROGRAM_USES_DIM, object = op->uses & PROGRAM_USES_OBJECT;
	const bool constant = op->uses & PROGRAM_USES_CONSTANT;
	const bool a = op->uses & PROGRAM_USES_A, b = op->uses & PROGRAM_USES_B;
	const bool place =
		op->uses & PROGRAM_USES_PLACE || (op->uses & PROGRAM_USES_KEPT_PLACE && n->flags & PROGRAM_KEPT);

	if (dim ? n->dim < 1 || n->dim > WIRE_DIM_MAX : n->dim != 0)
		return dim ? "its rows have no elements, or too many"
			   : "it has a dim, which its operation does not use";
	if (object ? n->object < 1 || n->object > WIRE_OBJECTS_MAX : n->object != 0)
		return object ? "it names no object" : "it names an object, which its operation does not use";
	if (object && n->generation > OBJECT_GENERATION_MAX)
		return "its object has an impossible generation";
	if (n->flags & ~op->flags)
		return "it has flags that its operation does not allow";
	if (!object && (!isfinite(n->constant) || (!constant && n->constant != 0)))
		return constant ? "its constant is not finite" : "it has a constant, which its operation does not use";
	if ((!a && n->a) || (!b && !place && n->b))
		return "it names a node, which its operation does not use";
	if (place && n->b >= PROGRAM_PLACES_MAX)
		return "its place does not exist";
	return (a && n->a >= at) || (b && n->b >= at) ? "it uses a node that does not come before it" : NULL;
}

static const char *check_keys(struct check *c, const struct program_node *n)
{
	struct program_shape *s = c->shape;
	const bool kept = n->flags & PROGRAM_KEPT;

	if (s->keys_count == PROGRAM_KEYS_MAX)
		return "there are too many key feeds";
	if (kept && s->entry != PROGRAM_NONE)
		return "a run can have only one entry";
	if (kept)
		s->entry = (uint8_t)s->keys_count;
	s->keys[s->keys_count] = (struct program_keys){
		.node = (uint8_t)c->at, .lookup = PROGRAM_NONE, .apply = PROGRAM_NONE, .kept = kept
	};
	return set_shape(c, PROGRAM_NO_ROWS, s->keys_count++, 0);
}

/* Checks the place of an entry that a node reads or writes. */
static const char *check_place(struct check *c, unsigned keys, unsigned place, uint16_t *of)
{
	struct program_shape *s = c->shape;

	if (keys != s->entry)
		return "its keys are not the entry's";
	if ((s->takes | s->keeps) >> place & 1)
		return "its place is used for something else";
	*of |= (uint16_t)(1 << place);
	return NULL;
}

static const char *check_shared(struct check *c, const struct program_node *n)
{
	c->shape->once_bytes += (uint32_t)program_padded(n->dim * sizeof(float));
	return set_shape(c, PROGRAM_ONCE, 0, n->dim);
}

static const char *check_segment_rows(struct check *c, const struct program_node *n)
{
	c->shape->segments = true;
	return set_shape(c, PROGRAM_BY_SEGMENT, 0, n->dim);
}

/* A feed with a row or a number for each key of another feed. */
static const char *check_aligned(struct check *c, const struct program_node *n)
{
	struct program_shape *s = c->shape;
	struct program_keys *keys;

	if (!is_op(c, n->a, PROGRAM_KEYS))
		return "it is aligned with a node that is not a key feed";
	keys = keys_of(c, n->a);
	if (keys->aligned_count == PROGRAM_ALIGNED_MAX)
		return "too many feeds are aligned with one key feed";
	if (n->flags & PROGRAM_KEPT) {
		const char *why =
			keys->kept ? check_place(c, s->values[n->a].keys, n->b, &s->takes) : "its keys are not kept";

		if (why)
			return why;
	}
	keys->aligned[keys->aligned_count++] = (uint8_t)c->at;
	return NULL;
}

static const char *check_rows(struct check *c, const struct program_node *n)
{
	const char *why = check_aligned(c, n);

	return why ? why : set_shape(c, PROGRAM_BY_KEY, c->shape->values[n->a].keys, n->dim);
}

static const char *check_segments(struct check *c, const struct program_node *n)
{
	const char *why = check_aligned(c, n);

	if (why)
		return why;
	keys_of(c, n->a)->segments = c->shape->segments = true;
	return set_shape(c, PROGRAM_NO_ROWS, c->shape->values[n->a].keys, 0);
}

static const char *check_segments16(struct check *c, const struct program_node *n)
{
	return check_segments(c, n);
}

static const char *check_segments8(struct check *c, const struct program_node *n)
{
	return check_segments(c, n);
}

static const char *check_lookup(struct check *c, const struct program_node *n)
{
	struct program_keys *keys;

	if (!is_op(c, n->a, PROGRAM_KEYS))
		return "what it looks up is not a key feed";
	keys = keys_of(c, n->a);
	if (keys->lookup != PROGRAM_NONE || keys->apply != PROGRAM_NONE)
		return "a key feed can have only one look-up, before its gradients are applied";
	keys->lookup = (uint8_t)c->at;
	return set_shape(c, PROGRAM_BY_KEY, c->shape->values[n->a].keys, node_of(c, n->a)->dim);
}

/* Whether these are rows by key of the same KEYS feed as another node. */
static bool goes_with(const struct check *c, unsigned rows, unsigned other)
{
	return c->shape->values[rows].axis == PROGRAM_BY_KEY &&
	       c->shape->values[rows].keys == c->shape->values[other].keys;
}

static const char *check_apply(struct check *c, const struct program_node *n)
{
	struct program_keys *keys;

	if (!is_op(c, n->a, PROGRAM_KEYS))
		return "what it applies gradients to is not a key feed";
	if (!goes_with(c, n->b, n->a) || c->shape->values[n->b].dim != node_of(c, n->a)->dim)
		return "its gradients are not rows of these keys, as wide as the table's";
	keys = keys_of(c, n->a);
	if (keys->apply != PROGRAM_NONE)
		return "gradients of one key feed are applied twice";
	keys->apply = (uint8_t)c->at;
	c->shape->applies = true;
	return set_shape(c, PROGRAM_NO_ROWS, 0, 0);
}

static const char *check_pool(struct check *c, const struct program_node *n)
{
	if (!is_segments(c, n->b))
		return "its segments are not a segment feed";
	return goes_with(c, n->a, n->b) ? set_shape(c, PROGRAM_POOLED, 0, c->shape->values[n->a].dim)
					: "the segments are not those of these rows' keys";
}

static const char *check_unpool(struct check *c, const struct program_node *n)
{
	if (!is_segments(c, n->b))
		return "its segments are not a segment feed";
	return is_op(c, n->a, PROGRAM_SEGMENT_ROWS)
		       ? set_shape(c, PROGRAM_BY_KEY, c->shape->values[n->b].keys, c->shape->values[n->a].dim)
		       : "what it hands back are not rows by segment";
}

static const char *check_fetch(struct check *c, const struct program_node *n)
{
	const struct program_value *v = &c->shape->values[n->a];

	if (v->axis != PROGRAM_BY_KEY && v->axis != PROGRAM_POOLED)
		return "only rows by key, and pools, can be fetched";
	if (c->fetched >> n->a & 1)
		return "it was fetched before";
	c->fetched |= UINT64_C(1) << n->a;
	c->shape->fetches++;
	if (v->axis == PROGRAM_BY_KEY)
		keys_of(c, n->a)->record_bytes += v->dim * (uint32_t)sizeof(float);
	return set_shape(c, PROGRAM_NO_ROWS, 0, 0);
}

static const char *check_keep(struct check *c, const struct program_node *n)
{
	struct program_shape *s = c->shape;
	const struct program_value *v = &s->values[n->a];
	const char *why;

	if (is_op(c, n->a, PROGRAM_KEYS)) {
		if (s->entry != PROGRAM_NONE || n->b)
			return n->b ? "keys cannot have a place" : "a run can have only one entry";
		s->entry = v->keys;
		s->begins = true;
		return set_shape(c, PROGRAM_NO_ROWS, 0, 0);
	}
	if (v->axis != PROGRAM_BY_KEY && !is_segments(c, n->a))
		return "only keys, and rows and segments of them, can be kept";
	why = check_place(c, v->keys, n->b, &s->keeps);
	return why ? why : set_shape(c, PROGRAM_NO_ROWS, 0, 0);
}

/* Whether elementwise steps may use it. */
static bool has_rows(const struct check *c, unsigned i)
{
	return c->shape->values[i].axis == PROGRAM_BY_KEY || c->shape->values[i].axis == PROGRAM_ONCE;
}

static const char *check_one(struct check *c, const struct program_node *n, unsigned dim)
{
	const struct program_value *v = &c->shape->values[n->a];

	if (!has_rows(c, n->a))
		return "its operand has no rows that it may use (a pool only has the sums of one reactor)";
	return set_shape(c, v->axis, v->keys, dim);
}

static const char *check_unary(struct check *c, const struct program_node *n)
{
	return check_one(c, n, c->shape->values[n->a].dim);
}

static const char *check_reduction(struct check *c, const struct program_node *n)
{
	return check_one(c, n, elementwise_reduced(n->op));
}

static const char *check_two(struct check *c, const struct program_node *n, bool reduced)
{
	const struct program_value *a = &c->shape->values[n->a], *b = &c->shape->values[n->b];
	const struct program_value *wide = a->axis == PROGRAM_BY_KEY ? a : b;

	if (!has_rows(c, n->a) || !has_rows(c, n->b))
		return "its operand has no rows that it may use (a pool only has the sums of one reactor)";
	if (a->axis == PROGRAM_BY_KEY && b->axis == PROGRAM_BY_KEY && a->keys != b->keys)
		return "its operands are rows of different keys";
	if (a->dim != b->dim && (reduced || (a->dim != 1 && b->dim != 1)))
		return "its operands' rows differ in width, and neither has a single element";
	return set_shape(c, wide->axis, wide->keys,
			 reduced	   ? elementwise_reduced(n->op)
			 : a->dim > b->dim ? a->dim
					   : b->dim);
}

static const char *check_binary(struct check *c, const struct program_node *n)
{
	return check_two(c, n, false);
}

static const char *check_product(struct check *c, const struct program_node *n)
{
	return check_two(c, n, true);
}

/* ---- the table of operations ---- */

struct op_entry {
	struct program_op_info info;
	const char *(*check)(struct check *c, const struct program_node *n);
};

static const struct op_entry op_entries[] = {
#define X(NAME, number, op, what, fields, allowed, text) \
	[number] = { { .name = #op, .kind = PROGRAM_KIND_##what, .uses = fields, .flags = allowed, .cost = 1 }, \
		     check_##op },
	PROGRAM_FEEDS(X) PROGRAM_STEPS(X)
#undef X
#define ELEMENTWISE(number, op, price, what, fields, checked) \
	[number] = { { .name = #op, .kind = PROGRAM_KIND_##what, .uses = fields, .cost = price }, checked },
#define X(NAME, number, op, price, text) ELEMENTWISE(number, op, price, UNARY, PROGRAM_USES_A, check_unary)
		ELEMENTWISE_UNARIES(X)
#undef X
#define X(NAME, number, op, price, text) \
	ELEMENTWISE(number, op, price, UNARY, PROGRAM_USES_A | PROGRAM_USES_CONSTANT, check_unary)
			ELEMENTWISE_CONSTANTS(X)
#undef X
#define X(NAME, number, op, price, text) \
	ELEMENTWISE(number, op, price, BINARY, PROGRAM_USES_A | PROGRAM_USES_B, check_binary)
				ELEMENTWISE_BINARIES(X)
#undef X
#define X(NAME, number, op, price, text) ELEMENTWISE(number, op, price, REDUCTION, PROGRAM_USES_A, check_reduction)
					ELEMENTWISE_REDUCTIONS(X)
#undef X
#define X(NAME, number, op, price, text) \
	ELEMENTWISE(number, op, price, REDUCTION, PROGRAM_USES_A | PROGRAM_USES_B, check_product)
						ELEMENTWISE_PRODUCTS(X)
#undef X
#undef ELEMENTWISE
};
enum { OP_ENTRIES = sizeof(op_entries) / sizeof(op_entries[0]) };

const struct program_op_info *wire_program_op(unsigned op)
{
	return &op_entries[op < OP_ENTRIES ? op : 0].info; /* entry 0 stands for no operation */
}

unsigned wire_program_op_find(const char *name)
{
	for (unsigned op = 0; op < OP_ENTRIES; op++)
		if (op_entries[op].info.name && strcmp(op_entries[op].info.name, name) == 0)
			return op;
	return 0;
}

static const char *check_node(struct check *c)
{
	const struct program_node *n = node_of(c, c->at);
	const char *why;

	if (wire_program_op(n->op)->kind == PROGRAM_KIND_NONE)
		return "its operation is unknown";
	why = check_fields(n, c->at);
	return why ? why : op_entries[n->op].check(c, n);
}

/* Adds the cost of the node's rows. NULL: the program's cost is still allowed. */
static const char *weigh(struct check *c)
{
	struct program_shape *s = c->shape;
	const struct program_value *v = &s->values[c->at];
	const uint32_t elements = v->dim * wire_program_op(node_of(c, c->at)->op)->cost;

	if (v->axis == PROGRAM_BY_KEY)
		s->keys[v->keys].elements += elements;
	else if (v->axis == PROGRAM_ONCE)
		s->once_elements += elements;
	return s->once_elements > PROGRAM_ELEMENTS_MAX ||
			       (v->axis == PROGRAM_BY_KEY && s->keys[v->keys].elements > PROGRAM_ELEMENTS_MAX)
		       ? "with it a row takes too long: split the program"
		       : NULL;
}

const char *wire_program_check(const struct program *program, struct program_shape *shape, unsigned *node)
{
	struct check c = { .program = program, .shape = shape };
	const char *why;

	*shape = (struct program_shape){ .entry = PROGRAM_NONE };
	*node = PROGRAM_NONE;
	if (program->version != PROGRAM_VERSION || program->reserved)
		return "its version is not supported";
	if (program->count < 1 || program->count > PROGRAM_NODES_MAX)
		return "it has no nodes, or too many";
	for (c.at = 0; c.at < program->count; c.at++) {
		why = check_node(&c);
		why = why ? why : weigh(&c);
		if (why) {
			*node = c.at;
			return why;
		}
	}
	for (unsigned i = 0; i < program->count; i++)
		if (program->nodes[i].op == PROGRAM_POOL && !(c.fetched >> i & 1)) {
			*node = i;
			return "it is never fetched";
		}
	return shape->keys_count && (shape->fetches || shape->applies || shape->keeps || shape->begins)
		       ? NULL
		       : "it fetches, applies and keeps nothing";
}

const char *wire_program_read(const void *bytes, size_t n, struct program *program, struct program_shape *shape,
			      unsigned *node)
{
	*program = (struct program){ 0 };
	*node = PROGRAM_NONE;
	if (n < PROGRAM_HEAD_BYTES || n > sizeof(*program))
		return "its length is not that of a program";
	memcpy(program, bytes, n);
	if (program->count > PROGRAM_NODES_MAX || n != program_bytes(program))
		return "its length is not that of its nodes";
	return wire_program_check(program, shape, node);
}

void wire_program_name(const struct program *program, char name[static PROGRAM_NAME_BYTES])
{
	const uint8_t *bytes = (const uint8_t *)program;
	uint64_t hash = program_bytes(program);

	for (uint32_t i = 0; i < program_bytes(program); i++)
		hash = hash_mix(hash ^ bytes[i]) + i;
	snprintf(name, PROGRAM_NAME_BYTES, "program:%016llx", (unsigned long long)hash);
}

uint64_t wire_program_segment_bytes(const struct program *program, const struct program_shape *shape, unsigned op,
				    uint32_t segments)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < program->count; i++)
		if (program->nodes[i].op == op)
			bytes += program_padded((uint64_t)segments * shape->values[i].dim * sizeof(float));
	return bytes;
}

uint64_t wire_program_head_bytes(const struct program *program, const struct program_shape *shape, uint32_t segments)
{
	return program_padded(shape->keys_count * sizeof(uint32_t)) + shape->once_bytes +
	       wire_program_segment_bytes(program, shape, PROGRAM_SEGMENT_ROWS, segments);
}

uint64_t wire_program_keys_bytes(const struct program *program, const struct program_shape *shape, unsigned keys,
				 uint32_t count, bool alone)
{
	const struct program_keys *k = &shape->keys[keys];
	uint64_t bytes = k->kept && !alone ? 0 : (uint64_t)count * sizeof(uint64_t);

	for (unsigned i = 0; i < k->aligned_count; i++) {
		const struct program_node *n = &program->nodes[k->aligned[i]];

		if (alone || !(n->flags & PROGRAM_KEPT))
			bytes += program_padded((uint64_t)count * program_aligned_bytes(n));
	}
	return bytes;
}

uint64_t wire_program_record_bytes(const struct program_shape *shape, unsigned keys, uint32_t count)
{
	return program_padded((uint64_t)count * shape->keys[keys].record_bytes);
}

uint64_t wire_program_request_bytes(const struct program *program, const struct program_shape *shape,
				    const uint32_t *counts, uint32_t segments, bool alone)
{
	uint64_t bytes = wire_program_head_bytes(program, shape, segments);

	for (unsigned k = 0; k < shape->keys_count; k++)
		bytes += wire_program_keys_bytes(program, shape, k, counts[k], alone);
	return bytes;
}

uint64_t wire_program_reply_bytes(const struct program *program, const struct program_shape *shape,
				  const uint32_t *counts, uint32_t segments)
{
	uint64_t bytes = wire_program_segment_bytes(program, shape, PROGRAM_POOL, segments);

	for (unsigned k = 0; k < shape->keys_count; k++)
		bytes += wire_program_record_bytes(shape, k, counts[k]);
	return bytes;
}

bool wire_program_uses(const struct program *program, uint32_t object, uint32_t generation)
{
	for (unsigned i = 0; i < program->count; i++)
		if (program->nodes[i].op == PROGRAM_KEYS && program->nodes[i].object == object &&
		    program->nodes[i].generation == generation)
			return true;
	return false;
}
