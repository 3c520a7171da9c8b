/* SPDX-License-Identifier: BSD-3-Clause */
/* An audit log that somebody hands in. The first byte says whether each line is told the hash of the one before it. */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "control/audit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct audit_check check = { 0 };
	struct star_error err = { 0 };
	FILE *file;
	int rc;

	if (bytes < 2)
		return 0;
	if (data[0] & 1) {
		for (size_t at = 1, number = 1; at < bytes; number++) {
			const uint8_t *end = memchr(data + at, '\n', bytes - at);
			const size_t length = end ? (size_t)(end - data) - at : bytes - at;
			char line[AUDIT_LINE_MAX * 2];
			int used = length < AUDIT_LINE_MAX
					   ? snprintf(line, sizeof(line), "{\"n\":%zu,\"previous\":\"%s\",\"x\":%.*s}",
						      number,
						      check.lines ? check.ends
								  : "0000000000000000000000000000000"
								    "000000000000000000000000000000000",
						      (int)length, data + at)
					   : 0;

			rc = control_audit_verify_line(line, (size_t)used, "input", number, &check, &err);
			FUZZ_CHECK(rc == 0 || err.text[0], "refused without a message");
			if (rc < 0)
				return 0;
			FUZZ_CHECK(check.lines == number && strlen(check.ends) == AUDIT_HASH_TEXT - 1, "a bad count");
			at += length + 1;
		}
		return 0;
	}
	file = fmemopen((void *)(uintptr_t)(data + 1), bytes - 1, "r");
	rc = control_audit_verify(file, "input", &check, &err);
	fclose(file);
	FUZZ_CHECK(rc == 0 || (err.code && err.text[0]), "refused without a message");
	FUZZ_CHECK(rc < 0 || (check.lines && check.last >= check.first), "%llu lines", (unsigned long long)check.lines);
	return 0;
}
