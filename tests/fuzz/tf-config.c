/* SPDX-License-Identifier: BSD-3-Clause */
/* The text of TF_CONFIG. What is accepted lists as many PS tasks as it says, and has this task among those. */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "config/cluster_spec.h"

enum { TEXT_MAX = 1 << 16 };

static uint32_t count_members(const char *list)
{
	uint32_t count = *list != 0;

	for (; *list; list++)
		count += *list == ',';
	return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static char text[TEXT_MAX + 1];
	struct star_error err = { 0 };
	struct cluster_spec spec;
	int rc;

	if (bytes > TEXT_MAX)
		return 0;
	memcpy(text, data, bytes);
	text[bytes] = 0;
	rc = cluster_spec_parse(text, &spec, &err);
	FUZZ_CHECK(rc == 0 || (err.code == rc && err.text[0]), "an error without a message");
	if (rc == 0 && spec.ps) {
		FUZZ_CHECK(!strncmp(spec.ps, "tcp:", 4) && count_members(spec.ps + 4) == spec.ps_count, "PS tasks");
		FUZZ_CHECK(count_members(spec.workers) <= spec.workers_count, "workers");
		FUZZ_CHECK(spec.job != CLUSTER_PS || spec.task < spec.ps_count, "a PS task that is not there");
		FUZZ_CHECK(spec.job != CLUSTER_WORKER || spec.task < spec.workers_count, "a worker that is not there");
	}
	cluster_spec_fini(&spec);
	return 0;
}
