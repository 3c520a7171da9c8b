/* SPDX-License-Identifier: BSD-3-Clause */
/* A graph's text. What is accepted is printed; that reads back, and is printed the same. */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "graph/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct star_error err = { 0 };
	struct graph *graph = graph_parse((const char *)data, bytes, "fuzz", &err), *copy;
	char *text, *again;

	if (!graph) {
		FUZZ_CHECK(err.code && err.text[0], "refused without a message");
		return 0;
	}
	text = graph_print(graph);
	FUZZ_CHECK(text, "what was read cannot be printed");
	copy = graph_parse(text, strlen(text), "printed", &err);
	FUZZ_CHECK(copy, "what was printed is refused: %s\n%s", err.text, text);
	again = graph_print(copy);
	FUZZ_CHECK(strcmp(text, again) == 0, "printed as\n%s\nand read back as\n%s", text, again);
	graph_destroy(graph);
	graph_destroy(copy);
	free(text);
	free(again);
	return 0;
}
