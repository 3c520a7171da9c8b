/* SPDX-License-Identifier: BSD-3-Clause */
/* `starctl size`: what it is told, and what it answers; that the figures are true is tests/store/size.c's and
 * tests/system/sizing's. */
#include "tests/control/cases.h"
#include "tests/control/starctl.h"
#include "tests/unit.h"

#include <jansson.h>
#include <string.h>

#include "app/starctl/starctl.h"

void sizes_are_asked_for_in_words(void)
{
	static const struct {
		const char *words, *says;
	} cases[] = {
		{ "size dim=4", "rows=N is needed: how many keys the table will have" },
		{ "size rows=5", "one of dim= (a table) and shape= (a variable) is needed" },
		{ "size rows=5 shape=4x4", "the rows of a variable follow from shape=: leave out rows=" },
		{ "size rows=-5 dim=4", "rows is \"-5\": a number from 0 to 1000000000000000 is needed" },
		{ "size rows=5 rows=6 dim=4", "rows is given twice" },
		{ "size rows=5 dim=4 dim=5", "dim is given twice" },
		{ "size rows=5 dim=4 nodes=0", "nodes is \"0\": a number from 1 to 16384 is needed" },
		{ "size rows=5 dim=4 nodes=1000 reactors=17", "are 17000 reactors: a cluster has at most 16384" },
		{ "size rows=1000000000000 dim=4", "use more reactors, or more nodes" },
		{ "size rows=5 dim=4 ratte=1", "there is no option \"ratte\"; did you mean \"rate\"?" },
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct outcome o = starctl("/nonexistent", cases[i].words, "");

		if (!CHECK_INT(o.status, STARCTL_USAGE) || !CHECK_HAS(o.errors, cases[i].says))
			unit_fail(__FILE__, __LINE__, "starctl %s", cases[i].words);
		release(&o);
	}
}

static json_int_t told(const json_t *json, const char *group, const char *name)
{
	return json_integer_value(json_object_get(json_object_get(json, group), name));
}

void sizes_are_added_up(void)
{
	struct outcome o =
		starctl("/nonexistent", "--json size rows=1000000 dim=16 optimizer=adam nodes=2 reactors=2", "");
	json_t *json = json_loads(o.out, 0, NULL);

	CHECK_INT(o.status, STARCTL_OK);
	/* Key and the optimizer's count; 16 values; two slots; to multiples of 8. */
	CHECK_INT(told(json, "row", "row_bytes"), (8 + 4 + 16 * 4 * 3 + 7) / 8 * 8);
	CHECK_INT(told(json, "row", "slot_bytes"), 2 * 16 * 4);
	/* A quarter, and four standard deviations. */
	CHECK_INT(told(json, "reactor", "rows"), 250000 + 4 * 500);
	CHECK_INT(told(json, "node", "memory_bytes"), 2 * told(json, "reactor", "memory_bytes"));
	CHECK(told(json, "node", "parameter_mib") << 20 > told(json, "node", "memory_bytes") * 10 / 9);
	CHECK(told(json, "node", "hugepages_mib") > told(json, "node", "parameter_mib"));
	CHECK_NEAR(json_number_value(json_object_get(json, "checkpoint_bytes")), 208e6, 1);
	json_decref(json);
	release(&o);
	/* All of a whole variable is on one reactor. */
	o = starctl("/nonexistent", "--json size shape=1000x16 whole=1 nodes=2", "");
	json = json_loads(o.out, 0, NULL);
	CHECK_INT(o.status, STARCTL_OK);
	CHECK_INT(told(json, "reactor", "rows"), json_integer_value(json_object_get(json, "rows")));
	json_decref(json);
	release(&o);
	o = starctl("/nonexistent", "help --words size", "");
	CHECK_HAS(o.out, "rows=\nwaiting=\nnodes=\nreactors=\n");
	CHECK_HAS(o.out, "\noptimizer=\n");
	CHECK_HAS(o.out, "\nfilter_keys=\n");
	release(&o);
}
