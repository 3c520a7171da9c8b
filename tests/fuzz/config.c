/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A configuration: lines that begin with ! are what --set gives, the rest is the file. What is accepted is printed as a
 * file that means the same.
 */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include <sanitizer/lsan_interface.h>

#include "config/config.h"

enum { OVERRIDES_MAX = 8 };

static char *print(const struct config *config, size_t *bytes)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, bytes);

	config_print(config, out);
	fclose(out);
	return text;
}

static void check_print(const struct config *config)
{
	struct star_error err = { 0 };
	size_t bytes, bytes_again;
	char *text = print(config, &bytes), *again;
	struct config *copy = config_load(fuzz_file(text, bytes), NULL, 0, &err);

	FUZZ_CHECK(copy, "what was printed is refused: %s\n%s", err.text, text);
	again = print(copy, &bytes_again);
	FUZZ_CHECK(strcmp(text, again) == 0, "printed as\n%s\nand read back as\n%s", text, again);
	config_free(copy);
	free(again);
	free(text);
}

/* Takes the lines of overrides off the front; they are cut in place. */
static unsigned take_overrides(char **text, struct config_override *overrides)
{
	unsigned count = 0;

	while (**text == '!' && count < OVERRIDES_MAX) {
		char *line = strsep(text, "\n") + 1, *equals = strchr(line, '=');

		if (!*text)
			*text = line + strlen(line);
		if (!equals)
			continue;
		*equals = 0;
		overrides[count++] = (struct config_override){ line, equals + 1 };
	}
	return count;
}

/* libconfig 1.5 forgets the beginning of a string that is not closed; a node that cannot read its file stops anyway. */
const char *__lsan_default_suppressions(void)
{
	return "leak:libconfig.so";
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct config_override overrides[OVERRIDES_MAX];
	char *text = malloc(bytes + 1), *rest = text;
	struct star_error err = { 0 };
	struct config *config;
	unsigned count;

	memcpy(text, data, bytes);
	text[bytes] = 0;
	count = take_overrides(&rest, overrides);
	config = config_load(fuzz_file(rest, (size_t)(text + bytes - rest)), overrides, count, &err);
	if (config)
		check_print(config);
	else
		FUZZ_CHECK(err.code && err.text[0], "refused without a message");
	config_free(config);
	free(text);
	return 0;
}
