/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/wire/cases.h"

#define X(name) { #name, name },
const char *const unit_suite = "wire";
const struct unit_case unit_cases[] = { WIRE_CASES(X){ NULL, NULL } };
