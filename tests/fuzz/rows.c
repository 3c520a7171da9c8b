/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines of training files: the first byte says of which format; the rest are lines. What is accepted keeps its
 * bounds. */
#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "input/row.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	const enum input_format format = bytes ? INPUT_CRITEO + data[0] % 5 : INPUT_CRITEO;
	char *text = malloc(bytes + 1), *at = text, *line;
	struct row row = { 0 };
	struct star_error ignored;
	/* Learns from the lines that are even, and is asked for the words of the others. */
	struct vocabulary words = { 0 };
	bool learn = true;

	if (format == INPUT_TEXT) /* it is large */
		FUZZ_CHECK(vocabulary_init(&words, &ignored) == 0, "no memory");
	FUZZ_CHECK(text, "no memory");
	memcpy(text, data, bytes);
	text[bytes] = 0;
	if (bytes)
		at++;
	while ((line = strsep(&at, "\n"))) {
		struct star_error err = { 0 };
		const int status = format != INPUT_TEXT ? input_row_parse(format, line, &row, &err)
				   : learn		? input_row_text(line, NULL, &words, &row, &err)
							: input_row_text(line, &words, NULL, &row, &err);

		FUZZ_CHECK(status < 0 ? err.code == status && err.text[0] : status <= 1, "status %d", status);
		FUZZ_CHECK(row.count <= INPUT_IDS_MAX && row.count <= row.room, "%u ids", row.count);
		for (uint32_t i = 0; status > 0 && i < row.count; i++)
			FUZZ_CHECK(row.ids[i] >= 0 && isfinite(row.values[i]), "id %u", i);
		for (uint32_t i = 0; status > 0 && i < input_shape(format).dense; i++)
			FUZZ_CHECK(isfinite(row.dense[i]), "number %u", i);
		if (status > 0 && input_shape(format).history)
			FUZZ_CHECK(row.count >= input_shape(format).fields &&
					   (row.count - input_shape(format).fields) % 2 == 0,
				   "%u ids", row.count);
		else if (status > 0 && input_shape(format).fields)
			FUZZ_CHECK(row.count == input_shape(format).fields, "%u ids", row.count);
		for (uint32_t i = 0; format == INPUT_TEXT && i < row.count; i++)
			FUZZ_CHECK(row.ids[i] <= words.size, "word %u", i);
		learn = !learn;
	}
	vocabulary_fini(&words);
	input_row_fini(&row);
	free(text);
	return 0;
}
