/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/control/cases.h"
#include "tests/unit.h"

const char *const unit_suite = "control";
const struct unit_case unit_cases[] = {
#define X(name) { #name, name },
	CONTROL_CASES(X)
#undef X
		{ NULL, NULL },
};
