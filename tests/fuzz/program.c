/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs as they come in a registration: refused with a message, or what follows from their shape is within
 * bounds. */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "wire/object.h"

static void check_good(const struct program *p, const struct program_shape *s)
{
	uint32_t counts[PROGRAM_KEYS_MAX];
	uint64_t fetched = 0;

	FUZZ_CHECK(s->keys_count >= 1 && s->keys_count <= PROGRAM_KEYS_MAX, "the number of key feeds");
	FUZZ_CHECK(s->once_elements <= PROGRAM_ELEMENTS_MAX, "rows that there are once");
	for (unsigned k = 0; k < s->keys_count; k++) {
		counts[k] = WIRE_KEYS_MAX;
		fetched += s->keys[k].record_bytes;
		FUZZ_CHECK(s->keys[k].node < p->count && s->keys[k].elements <= PROGRAM_ELEMENTS_MAX, "a key feed");
	}
	for (unsigned i = 0; i < p->count; i++) {
		const struct program_node *n = &p->nodes[i];

		const bool place = n->op == PROGRAM_KEEP || n->flags & PROGRAM_KEPT;

		FUZZ_CHECK(n->a < i || n->a == 0, "a node uses a later one");
		FUZZ_CHECK(place ? n->b < PROGRAM_PLACES_MAX && program_has_entry(s) : n->b < i || n->b == 0,
			   "a node uses a later one, or a place that is not there");
		FUZZ_CHECK(s->values[i].dim <= WIRE_DIM_MAX, "a row is too long");
		FUZZ_CHECK(s->values[i].axis != PROGRAM_BY_KEY || s->values[i].keys < s->keys_count,
			   "no such key feed");
	}
	FUZZ_CHECK(!program_has_entry(s) || s->entry < s->keys_count, "an entry of no key feed");
	FUZZ_CHECK(!(s->takes & s->keeps), "a place with two uses");
	FUZZ_CHECK(wire_program_request_bytes(p, s, counts, 1, false) <=
			   wire_program_request_bytes(p, s, counts, 1, true),
		   "more without what is kept");
	FUZZ_CHECK(wire_program_reply_bytes(p, s, counts, PROGRAM_SEGMENTS_MAX) >= fetched * WIRE_KEYS_MAX, "a reply");
	FUZZ_CHECK(wire_program_request_bytes(p, s, counts, PROGRAM_SEGMENTS_MAX, true) >= 8 * WIRE_KEYS_MAX,
		   "a request");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct object_spec spec = { .kind = OBJECT_PROGRAM };
	struct program_shape shape, again;
	struct star_error err;
	unsigned node;
	const char *why = wire_program_read(data, size, &spec.program, &shape, &node);

	FUZZ_CHECK(node == PROGRAM_NONE || (why && node < PROGRAM_NODES_MAX), "a node that is not there");
	if (!why) {
		check_good(&spec.program, &shape);
		FUZZ_CHECK(program_bytes(&spec.program) == size, "its length");
		wire_program_name(&spec.program, spec.name);
		FUZZ_CHECK(wire_object_spec_check(&spec, &err) == 0, "its entry of the catalogue");
		FUZZ_CHECK(!wire_program_check(&spec.program, &again, &node) &&
				   memcmp(&shape, &again, sizeof(shape)) == 0,
			   "another shape");
	}
	return 0;
}
