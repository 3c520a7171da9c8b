/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of cases; each starts without the caller's environment, and leaves no file behind. */
#include "tests/config/support.h"

#define X(name) \
	static void run_##name(void) \
	{ \
		support_clear_environment(); \
		name(); \
		support_clear_environment(); \
		support_clean(); \
	}
CASES(X)
#undef X

const char *const unit_suite = "config";
const struct unit_case unit_cases[] = {
#define X(name) { #name, run_##name },
	CASES(X)
#undef X
		{ NULL, NULL },
};
