/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files that may be packed. The first byte says how: the rest as it is; or packed here by gzip or zstd, cut off and
 * changed in a byte, so that what unpacks gets far. What is read is then what was packed, up to where it goes wrong;
 * and no more than is allowed of it.
 */
#include "tests/fuzz/fuzz.h"

#include <stdbool.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "input/source.h"

static size_t pack(bool zstd, const uint8_t *data, size_t bytes, uint8_t *to, size_t room)
{
	z_stream z = {
		.next_in = (uint8_t *)(uintptr_t)data, .avail_in = (uInt)bytes, .next_out = to, .avail_out = (uInt)room
	};

	if (zstd)
		return ZSTD_compress(to, room, data, bytes, 1);
	FUZZ_CHECK(deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK &&
			   deflate(&z, Z_FINISH) == Z_STREAM_END,
		   "no gzip stream");
	deflateEnd(&z);
	return room - z.avail_out;
}

/* expected: what must come out, or NULL; whole: all of it. */
static void read_file(const char *path, size_t piece, const uint8_t *expected, size_t bytes, bool whole)
{
	struct star_error err = { 0 };
	struct source source;
	uint8_t buffer[4096];
	uint64_t all = 0;
	int64_t n = input_source_open(&source, path, &err);

	while (n == 0 && (n = input_source_read(&source, buffer, piece, &err)) > 0) {
		FUZZ_CHECK((uint64_t)n <= piece, "%ld bytes", (long)n);
		FUZZ_CHECK(!expected || (all + (uint64_t)n <= bytes && !memcmp(expected + all, buffer, (size_t)n)),
			   "other bytes at %lu", (unsigned long)all);
		all += (uint64_t)n;
		FUZZ_CHECK(all <= SOURCE_UNPACKED_FREE + piece || all / SOURCE_RATIO_MAX <= source.read + 1,
			   "%lu bytes", (unsigned long)all);
		n = 0;
	}
	FUZZ_CHECK(n == 0 || (n == err.code && err.text[0]), "status %ld", (long)n);
	FUZZ_CHECK(!whole || (n == 0 && all == bytes), "%lu of %zu bytes: %s", (unsigned long)all, bytes, err.text);
	input_source_close(&source);
	input_source_close(&source);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct input in = { data, data + bytes };
	const uint8_t how = take8(&in);
	const size_t piece = how & 4 ? 4096 : 7;
	uint16_t cut, where;
	size_t room, n;
	uint8_t *packed;

	if (how % 4 == 0) {
		read_file(fuzz_file(in.at, input_left(&in)), piece, NULL, 0, false);
		return 0;
	}
	cut = take16(&in);
	where = take16(&in);
	room = ZSTD_compressBound(input_left(&in)) + 64;
	packed = malloc(room);
	FUZZ_CHECK(packed, "no memory");
	n = pack(how % 4 == 1, in.at, input_left(&in), packed, room);
	if (how & 8) /* changed: gzip's sum comes at the end, and zstd has none here */
		packed[where % n] ^= (uint8_t)(1 + (cut & 0x7f));
	else if (how & 16)
		n = cut % n;
	read_file(fuzz_file(packed, n), piece, how & 8 || (how & 16 && n < 4) ? NULL : in.at, input_left(&in),
		  !(how & 24));
	free(packed);
	return 0;
}
