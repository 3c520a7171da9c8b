/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs: which are refused, the shape of a good one, and that no bytes do harm. */
#include "wire/program.h"

#include <errno.h>
#include <stdio.h>

#include "base/prng.h"
#include "tests/wire/cases.h"
#include "wire/object.h"

/* Keys of object 3, 8 wide; rows, segments, shared; two pools and two fetches by key; all kinds of nodes. */
static const struct program good = {
	.version = PROGRAM_VERSION,
	.count = 19,
	.nodes = {
		[0] = { .op = PROGRAM_KEYS, .object = 3, .dim = 8 },
		[1] = { .op = PROGRAM_ROWS, .a = 0, .dim = 8 },
		[2] = { .op = PROGRAM_SEGMENTS, .a = 0 },
		[3] = { .op = PROGRAM_SHARED, .dim = 1 },
		[4] = { .op = PROGRAM_SEGMENT_ROWS, .dim = 8 },
		[5] = { .op = PROGRAM_LOOKUP, .a = 0, .flags = PROGRAM_READ_ONLY },
		[6] = { .op = ELEMENTWISE_MUL, .a = 5, .b = 1 },
		[7] = { .op = ELEMENTWISE_SIGMOID, .a = 6 },
		[8] = { .op = ELEMENTWISE_SCALE, .a = 3, .constant = 0.5f },
		[9] = { .op = ELEMENTWISE_ADD, .a = 7, .b = 8 },
		[10] = { .op = PROGRAM_POOL, .a = 9, .b = 2 },
		[11] = { .op = PROGRAM_UNPOOL, .a = 4, .b = 2 },
		[12] = { .op = PROGRAM_APPLY, .a = 0, .b = 11 },
		[13] = { .op = ELEMENTWISE_DOT, .a = 5, .b = 11 },
		[14] = { .op = PROGRAM_FETCH, .a = 10 },
		[15] = { .op = PROGRAM_FETCH, .a = 13 },
		[16] = { .op = PROGRAM_FETCH, .a = 9 },
		[17] = { .op = PROGRAM_KEYS, .object = 4, .dim = 3 },
		[18] = { .op = PROGRAM_ROWS, .a = 17, .dim = 3 },
	},
};

void programs_have_a_shape(void)
{
	struct program_shape s;
	unsigned node;
	const uint32_t counts[2] = { 5, 3 };

	if (!CHECK(!wire_program_check(&good, &s, &node)))
		printf("# node %u: %s\n", node, wire_program_check(&good, &s, &node));
	CHECK_UINT(s.keys_count, 2);
	CHECK(s.segments && s.applies);
	CHECK_UINT(s.fetches, 3);
	CHECK_UINT(s.once_bytes, 8);
	CHECK_UINT(s.once_elements, 2);
	CHECK_UINT(s.keys[0].lookup, 5);
	CHECK_UINT(s.keys[0].apply, 12);
	CHECK_UINT(s.keys[0].aligned_count, 2);
	CHECK_UINT(s.keys[0].record_bytes, 4 + 32);
	CHECK_UINT(s.keys[0].elements, 8 + 8 + 8 + 4 * 8 + 8 + 8 + 1);
	CHECK_UINT(s.keys[1].lookup, PROGRAM_NONE);
	CHECK_UINT(s.keys[1].record_bytes, 0);
	CHECK_UINT(s.values[9].axis, PROGRAM_BY_KEY);
	CHECK_UINT(s.values[8].axis, PROGRAM_ONCE);
	CHECK_UINT(s.values[10].axis, PROGRAM_POOLED);
	CHECK_UINT(s.values[13].dim, 1);
	CHECK_UINT(wire_program_head_bytes(&good, &s, 7), 8 + 8 + 7 * 32);
	CHECK_UINT(wire_program_request_bytes(&good, &s, counts, 7, false),
		   8 + 8 + 7 * 32 + 5 * 8 + 5 * 32 + 24 + 3 * 8 + 40);
	CHECK_UINT(wire_program_reply_bytes(&good, &s, counts, 7), 184 + 7 * 32);
}

void segments_take_the_bytes_of_their_feed(void)
{
	static const struct {
		unsigned op, bytes;
	} cases[] = { { PROGRAM_SEGMENTS, 4 }, { PROGRAM_SEGMENTS16, 2 }, { PROGRAM_SEGMENTS8, 1 } };
	const uint32_t counts[2] = { 9, 3 };

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct program p = good;
		struct program_shape s;
		unsigned node;

		p.nodes[2].op = (uint8_t)cases[i].op;
		CHECK(!wire_program_check(&p, &s, &node));
		CHECK(s.segments && s.keys[0].segments);
		CHECK_UINT(wire_program_request_bytes(&p, &s, counts, 7, false),
			   8 + 8 + 7 * 32 + 9 * 8 + 9 * 32 + program_padded(9 * cases[i].bytes) + 3 * 8 + 40);
		p.nodes[2].dim = 1;
		CHECK(wire_program_check(&p, &s, &node) && node == 2);
	}
	CHECK_UINT(program_segments_op(1), PROGRAM_SEGMENTS8);
	CHECK_UINT(program_segments_op(256), PROGRAM_SEGMENTS8);
	CHECK_UINT(program_segments_op(257), PROGRAM_SEGMENTS16);
	CHECK_UINT(program_segments_op(PROGRAM_SEGMENTS_MAX), PROGRAM_SEGMENTS16);
}

#define NODE(i, ...) (p.nodes[i] = (struct program_node){ __VA_ARGS__ })

static void refuse(int line, const struct program *p, unsigned at, const char *why)
{
	struct object_spec spec = { .kind = OBJECT_PROGRAM, .program = *p, .name = "program:x" };
	struct program_shape s;
	struct star_error err;
	unsigned node;
	const char *said = wire_program_check(p, &s, &node);

	if (!said || !strstr(said, why) || node != at)
		unit_fail(__FILE__, line, "node %u: \"%s\", not node %u: \"%s\"", node, said ? said : "good", at, why);
	CHECK_INT(wire_object_spec_check(&spec, &err), -EINVAL);
}

#define REFUSE(at, why, change) \
	do { \
		struct program p = good; \
		change; \
		refuse(__LINE__, &p, at, why); \
	} while (0)

void bad_programs_are_refused_by_node(void)
{
	REFUSE(PROGRAM_NONE, "its version is not supported", p.version = 2);
	REFUSE(PROGRAM_NONE, "its version is not supported", p.reserved = 1);
	REFUSE(PROGRAM_NONE, "no nodes, or too many", p.count = 0);
	REFUSE(PROGRAM_NONE, "no nodes, or too many", p.count = PROGRAM_NODES_MAX + 1);
	REFUSE(PROGRAM_NONE, "fetches, applies and keeps nothing", p.count = 10);
	REFUSE(0, "its operation is unknown", p.nodes[0].op = 0);
	REFUSE(7, "its operation is unknown", p.nodes[7].op = 255);
	REFUSE(0, "it names no object", p.nodes[0].object = 0);
	REFUSE(0, "it names no object", p.nodes[0].object = WIRE_OBJECTS_MAX + 1);
	REFUSE(1, "it names an object, which its operation does not use", p.nodes[1].object = 3);
	REFUSE(0, "its rows have no elements, or too many", p.nodes[0].dim = 0);
	REFUSE(1, "its rows have no elements, or too many", p.nodes[1].dim = WIRE_DIM_MAX + 1);
	REFUSE(6, "it has a dim", p.nodes[6].dim = 8);
	REFUSE(5, "it has flags", p.nodes[5].flags = PROGRAM_KEPT);
	REFUSE(3, "it has flags", p.nodes[3].flags = PROGRAM_KEPT);
	REFUSE(0, "it has flags", p.nodes[0].flags = 1);
	REFUSE(6, "it has flags", p.nodes[6].flags = 1);
	REFUSE(8, "its constant is not finite", p.nodes[8].constant = NAN);
	REFUSE(7, "it has a constant", p.nodes[7].constant = 1);
	REFUSE(0, "it names a node, which its operation does not use", p.nodes[0].a = 1);
	REFUSE(7, "it names a node, which its operation does not use", p.nodes[7].b = 1);
	REFUSE(1, "a node that does not come before it", p.nodes[1].a = 1);
	REFUSE(6, "a node that does not come before it", p.nodes[6].b = 255);
	REFUSE(14, "a node that does not come before it", p.nodes[14].a = 64);
	REFUSE(1, "aligned with a node that is not a key feed", NODE(0, .op = PROGRAM_SHARED, .dim = 8));
	REFUSE(18, "aligned with a node that is not a key feed", p.nodes[18].a = 16);
	REFUSE(5, "what it looks up is not a key feed", p.nodes[5].a = 2);
	REFUSE(6, "only one look-up", NODE(6, .op = PROGRAM_LOOKUP));
	REFUSE(13, "before its gradients are applied",
	       (p.nodes[5] = p.nodes[1], NODE(13, .op = PROGRAM_LOOKUP), p.nodes[13].a = 0));
	REFUSE(12, "what it applies gradients to is not a key feed", p.nodes[12].a = 1);
	REFUSE(12, "its gradients are not rows of these keys", p.nodes[12].b = 4);
	REFUSE(12, "its gradients are not rows of these keys", p.nodes[12].b = 8);
	REFUSE(13, "are applied twice", NODE(13, .op = PROGRAM_APPLY, .a = 0, .b = 1));
	REFUSE(10, "its segments are not a segment feed", p.nodes[10].b = 1);
	REFUSE(10, "the segments are not those of these rows' keys", p.nodes[10].a = 8);
	REFUSE(11, "what it hands back are not rows by segment", p.nodes[11].a = 1);
	REFUSE(14, "only rows by key, and pools", p.nodes[14].a = 0);
	REFUSE(14, "only rows by key, and pools", p.nodes[14].a = 8);
	REFUSE(16, "it was fetched before", p.nodes[16].a = 13);
	REFUSE(13, "a pool only has the sums of one reactor", p.nodes[13].a = 10);
	REFUSE(9, "a pool only has the sums", (NODE(9, .op = ELEMENTWISE_NEG, .a = 4), p.nodes[10].a = 7));
	REFUSE(7, "its operand has no rows", p.nodes[7].a = 2);
	REFUSE(10, "it is never fetched", p.nodes[14].a = 6);
	REFUSE(6, "rows differ in width", p.nodes[1].dim = 7);
	REFUSE(13, "rows differ in width", (p.nodes[13].b = 3));
	REFUSE(19, "its operands are rows of different keys",
	       (p.count = 20, NODE(19, .op = ELEMENTWISE_ADD, .a = 18, .b = 13)));
}

void programs_are_bounded(void)
{
	struct program p = { .version = PROGRAM_VERSION, .count = PROGRAM_KEYS_MAX + 1 };

	for (unsigned i = 0; i <= PROGRAM_KEYS_MAX; i++)
		NODE(i, .op = PROGRAM_KEYS, .object = 1, .dim = 1);
	refuse(__LINE__, &p, PROGRAM_KEYS_MAX, "too many key feeds");
	p.count = PROGRAM_ALIGNED_MAX + 2;
	for (unsigned i = 1; i < p.count; i++)
		NODE(i, .op = PROGRAM_ROWS, .dim = 1);
	refuse(__LINE__, &p, PROGRAM_ALIGNED_MAX + 1, "too many feeds are aligned");
	/* A row of 4096 and seven more of them; and an exp of one, which counts as four. */
	p.count = 10;
	NODE(1, .op = PROGRAM_ROWS, .dim = WIRE_DIM_MAX);
	for (unsigned i = 2; i < p.count; i++)
		NODE(i, .op = ELEMENTWISE_NEG, .a = (uint8_t)(i - 1));
	refuse(__LINE__, &p, 9, "a row takes too long");
	NODE(5, .op = ELEMENTWISE_EXP, .a = 4);
	refuse(__LINE__, &p, 6, "a row takes too long");
	p.count = 7;
	NODE(0, .op = PROGRAM_SHARED, .dim = WIRE_DIM_MAX);
	for (unsigned i = 1; i < p.count; i++)
		NODE(i, .op = ELEMENTWISE_EXP, .a = (uint8_t)(i - 1));
	refuse(__LINE__, &p, 2, "a row takes too long");
}

void programs_are_the_same_by_name(void)
{
	struct object_spec spec = { .kind = OBJECT_PROGRAM, .program = good }, other;
	char name[PROGRAM_NAME_BYTES];
	struct star_error err;

	wire_program_name(&good, spec.name);
	CHECK_UINT(strlen(spec.name), PROGRAM_NAME_BYTES - 1);
	CHECK_INT(wire_object_spec_check(&spec, &err), 0);
	other = spec;
	CHECK_INT(wire_object_spec_same(&spec, &other, &err), 0);
	other.program.nodes[8].constant = 0.25f;
	CHECK_INT(wire_object_spec_same(&spec, &other, &err), -EEXIST);
	CHECK_HAS(err.text, "exists as another program");
	CHECK_INT(wire_object_spec_check(&other, &err), -EINVAL);
	CHECK_HAS(err.text, "the program's name is \"program:");
	wire_program_name(&other.program, name);
	CHECK(strcmp(name, spec.name) != 0);
	/* Nodes that are not there do not count. */
	other.program = good;
	other.program.nodes[60].op = 1;
	wire_program_name(&other.program, name);
	CHECK_STR(name, spec.name);
	other.program.nodes[12].b = 63;
	CHECK_INT(wire_object_spec_check(&other, &err), -EINVAL);
	CHECK_HAS(err.text, "node 12 of the program, a apply: it uses a node that does not come before it");
}

/* Every operation has its entry, by number and by name; what has none is refused. */
void programs_have_one_table(void)
{
	static char page[65536];
	FILE *file = fopen("docs/programs.rst", "r"); /* tests run in the project's folder */
	unsigned known = 0, unknown = 0;
	char quoted[64];

	if (!CHECK(file))
		return;
	page[fread(page, 1, sizeof(page) - 1, file)] = 0;
	fclose(file);

	for (unsigned op = 0; op < 1000; op++) {
		const struct program_op_info *info = wire_program_op(op);

		if (info->kind == PROGRAM_KIND_NONE) {
			struct program p = good;

			CHECK(!info->name && info->uses == 0 && info->flags == 0);
			unknown++;
			if (op > UINT8_MAX)
				continue;
			p.nodes[7].op = (uint8_t)op;
			refuse(__LINE__, &p, 7, "its operation is unknown");
			continue;
		}
		known++;
		CHECK_UINT(wire_program_op_find(info->name), op);
		snprintf(quoted, sizeof(quoted), "``%s``", info->name);
		if (!strstr(page, quoted))
			unit_fail(__FILE__, __LINE__, "docs/programs.rst does not say what %s does: add it", quoted);
		CHECK(info->cost >= 1);
		/* What b is, is one thing. */
		CHECK(!(info->uses & PROGRAM_USES_B) || !(info->uses & (PROGRAM_USES_PLACE | PROGRAM_USES_KEPT_PLACE)));
		CHECK(info->kind < PROGRAM_KIND_SPREAD || info->uses & PROGRAM_USES_A);
	}
#define X(...) +1
	CHECK_UINT(known, 7 + 6 ELEMENTWISE_UNARIES(X) ELEMENTWISE_CONSTANTS(X) ELEMENTWISE_BINARIES(X)
					  ELEMENTWISE_REDUCTIONS(X) ELEMENTWISE_PRODUCTS(X));
#undef X
	CHECK_UINT(known + unknown, 1000);
	CHECK_UINT(wire_program_op_find("relu"), ELEMENTWISE_RELU);
	CHECK_UINT(wire_program_op_find("segment_rows"), PROGRAM_SEGMENT_ROWS);
	CHECK_UINT(wire_program_op_find(""), 0);
	CHECK_UINT(wire_program_op_find("relux"), 0);
	CHECK(wire_program_op(ELEMENTWISE_EXP)->cost > wire_program_op(ELEMENTWISE_NEG)->cost);
}

/* What is kept is an entry of one KEYS feed, and has places. */
void programs_have_one_entry(void)
{
	struct program p = good, begins, takes;
	struct program_shape s;
	const uint32_t counts[2] = { 5, 3 };
	unsigned node;

	p.count = 22;
	NODE(19, .op = PROGRAM_KEEP, .a = 0);
	NODE(20, .op = PROGRAM_KEEP, .a = 2, .b = 3);
	NODE(21, .op = PROGRAM_KEEP, .a = 9, .b = 7);
	begins = p;
	CHECK(!wire_program_check(&p, &s, &node));
	CHECK(s.begins && program_has_entry(&s));
	CHECK_UINT(s.entry, 0);
	CHECK_UINT(s.keeps, 1 << 3 | 1 << 7);
	CHECK_UINT(s.takes, 0);
	p.nodes[0].flags = p.nodes[1].flags = p.nodes[2].flags = PROGRAM_KEPT;
	p.nodes[1].b = 1;
	p.nodes[2].b = 2;
	p.count = 19;
	takes = p;
	CHECK(!wire_program_check(&p, &s, &node));
	CHECK(!s.begins && s.keys[0].kept && !s.keys[1].kept);
	CHECK_UINT(s.takes, 1 << 1 | 1 << 2);
	CHECK_UINT(wire_program_request_bytes(&p, &s, counts, 7, false), 8 + 8 + 7 * 32 + 3 * 8 + 40);
	CHECK_UINT(wire_program_request_bytes(&p, &s, counts, 7, true),
		   8 + 8 + 7 * 32 + 5 * 8 + 5 * 32 + 24 + 3 * 8 + 40);
	CHECK(!wire_program_check(&good, &s, &node) && !program_has_entry(&s));

#define REFUSE_OF(from, at, why, change) (p = from, change, refuse(__LINE__, &p, at, why))
	REFUSE_OF(begins, 19, "keys cannot have a place", p.nodes[19].b = 1);
	REFUSE_OF(begins, 19, "its place does not exist", p.nodes[19].b = PROGRAM_PLACES_MAX);
	REFUSE_OF(begins, 20, "a run can have only one entry", p.nodes[20] = p.nodes[19]);
	REFUSE_OF(begins, 20, "its keys are not the entry's", p.nodes[19].a = 17);
	REFUSE_OF(begins, 20, "only keys, and rows and segments", p.nodes[20].a = 10);
	REFUSE_OF(begins, 20, "only keys, and rows and segments", p.nodes[20].a = 8);
	REFUSE_OF(begins, 21, "its place is used for something else", p.nodes[21].b = 3);
	REFUSE_OF(begins, 19, "its keys are not the entry's", p.nodes[19] = p.nodes[20]);
	REFUSE_OF(begins, 1, "its keys are not kept", p.nodes[1].flags = PROGRAM_KEPT);
	REFUSE_OF(takes, 2, "its place is used for something else", p.nodes[2].b = 1);
	REFUSE_OF(takes, 1, "its place does not exist", p.nodes[1].b = PROGRAM_PLACES_MAX);
	REFUSE_OF(takes, 17, "a run can have only one entry", p.nodes[17].flags = PROGRAM_KEPT);
	REFUSE_OF(takes, 19, "a run can have only one entry", (p.count = 20, p.nodes[19] = begins.nodes[19]));
	REFUSE_OF(takes, 19, "its place is used for something else",
		  (p.count = 20, p.nodes[19] = begins.nodes[20], p.nodes[19].b = 2));
	REFUSE_OF(takes, 0, "it names a node, which its operation does not use", p.nodes[0].b = 1);
	/* Nothing but what is kept. */
	p = (struct program){ .version = PROGRAM_VERSION, .count = 2 };
	NODE(0, .op = PROGRAM_KEYS, .object = 1, .dim = 1);
	NODE(1, .op = PROGRAM_KEEP);
	CHECK(!wire_program_check(&p, &s, &node));
}

/* Any change of any byte, and any length: refused, or again a program whose shape fits its nodes. */
void no_bytes_do_harm(void)
{
	const uint32_t all = program_bytes(&good);
	uint8_t bytes[PROGRAM_BYTES_MAX];
	struct program_shape s;
	struct program p;
	struct prng prng;
	unsigned node, passed = 0;

	for (uint32_t n = 0; n <= all; n++)
		CHECK(!wire_program_read(&good, n, &p, &s, &node) == (n == all));
	CHECK(wire_program_read(&good, all + 1, &p, &s, &node));
	CHECK(wire_program_read(&good, sizeof(good), &p, &s, &node));
	prng_seed(&prng, 1);
	for (unsigned i = 0; i < 200000; i++) {
		memcpy(bytes, &good, all);
		for (unsigned k = prng_below(&prng, 3) + 1; k; k--)
			bytes[prng_below(&prng, all)] =
				(uint8_t)(prng_below(&prng, 4) ? prng_below(&prng, 24) : prng_below(&prng, 256));
		if (wire_program_read(bytes, all, &p, &s, &node))
			continue;
		passed++;
		CHECK(s.keys_count <= PROGRAM_KEYS_MAX && p.count <= PROGRAM_NODES_MAX);
		for (unsigned k = 0; k < s.keys_count; k++)
			CHECK(s.keys[k].elements <= PROGRAM_ELEMENTS_MAX);
	}
	CHECK(passed > 1000);
}
