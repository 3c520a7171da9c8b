/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/graph/cases.h"
#include "tests/unit.h"

const char *const unit_suite = "graph";
const struct unit_case unit_cases[] = {
#define X(name) { #name, name },
	GRAPH_CASES(X)
#undef X
		{ NULL, NULL },
};
