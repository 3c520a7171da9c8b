/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/secure/cases.h"
#include "tests/unit.h"

const char *const unit_suite = "secure";
const struct unit_case unit_cases[] = {
#define X(name) { #name, name },
	SECURE_CASES(X)
#undef X
		{ NULL, NULL },
};
