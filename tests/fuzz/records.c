/* SPDX-License-Identifier: BSD-3-Clause */
/* What a node has left behind of its last requests, that somebody hands in: it is refused with a message, or told.
 * Peers take most of it: they are put in, and the input is what comes before them and behind. */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "recorder/format.h"

enum { BEFORE = sizeof(struct recorder_head) + sizeof(struct recorder_name) + sizeof(struct recorder_reactor_head) };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	const size_t peers = OBSERVE_PEERS * sizeof(struct observe_peer);
	const size_t before = bytes < BEFORE ? bytes : BEFORE;
	const struct recorder_slow which = { .reactor = -1, .limit = RECORDER_SLOW_MAX, .seconds = UINT32_MAX };
	struct star_error err = { 0 };
	struct recorder_file *file;
	uint8_t *whole = calloc(1, bytes + peers);

	if (!whole)
		return 0;
	memcpy(whole, data, before);
	memcpy(whole + before + peers, data + before, bytes - before);
	file = recorder_read(whole, bytes + peers, "input", &err);
	FUZZ_CHECK(file || (err.code && err.text[0]), "refused without a message");
	if (file) {
		json_t *slow = recorder_slow(&file->recorder, &which);

		FUZZ_CHECK(slow && json_array_size(json_object_get(slow, "requests")) <= RECORDER_SLOW_MAX, "not told");
		json_decref(slow);
		for (unsigned i = 0; i < file->recorder.reactors; i++) {
			json_t *trace = recorder_trace(&file->recorder, i, 0);

			FUZZ_CHECK(trace, "not told");
			json_decref(trace);
		}
	}
	recorder_close(file);
	free(whole);
	return 0;
}
