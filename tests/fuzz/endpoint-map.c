/* SPDX-License-Identifier: BSD-3-Clause */
/* An endpoint map's file. What is accepted reads back the same when it is written line by line. */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "config/config.h"

/* The map as lines; to be freed. */
static char *write_map(const struct config_endpoint *endpoints, uint32_t count, size_t *bytes)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, bytes);

	for (uint32_t i = 0; i < count; i++)
		fprintf(out, "%s:%u=%s:%u\n", endpoints[i].control.host, endpoints[i].control.port,
			endpoints[i].data.host, endpoints[i].data.port);
	fclose(out);
	return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct config_endpoint *endpoints = NULL, *again = NULL;
	uint32_t count = 0, count_again = 0;
	struct star_error err = { 0 };
	char *text;

	if (config_read_endpoint_map(fuzz_file(data, bytes), &endpoints, &count, &err) < 0) {
		FUZZ_CHECK(err.code && err.text[0] && !endpoints, "refused without a message");
		return 0;
	}
	text = write_map(endpoints, count, &bytes);
	FUZZ_CHECK(config_read_endpoint_map(fuzz_file(text, bytes), &again, &count_again, &err) == 0, "%s", err.text);
	FUZZ_CHECK(count == count_again && (!count || !memcmp(endpoints, again, count * sizeof(*endpoints))),
		   "%u entries read back as %u", count, count_again);
	free(text);
	free(endpoints);
	free(again);
	return 0;
}
