/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the fuzz targets share: an input that is read from its front, and checks that stop the program. One thread.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* What must hold whatever the input; the message says what did not. */
#define FUZZ_CHECK(condition, ...) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: not so: %s: ", __FILE__, __LINE__, #condition); \
			fprintf(stderr, __VA_ARGS__); \
			fputc('\n', stderr); \
			abort(); \
		} \
	} while (0)

/* Bytes that are taken from the front; zeros when they are used up. */
struct input {
	const uint8_t *at, *end;
};

static inline size_t input_left(const struct input *in)
{
	return (size_t)(in->end - in->at);
}

static inline uint8_t take8(struct input *in)
{
	return in->at < in->end ? *in->at++ : 0;
}

static inline uint16_t take16(struct input *in)
{
	const uint16_t high = take8(in);

	return (uint16_t)(high << 8 | take8(in));
}

static inline uint32_t take32(struct input *in)
{
	const uint32_t high = take16(in);

	return high << 16 | take16(in);
}

/* A file without a name that holds these bytes; returns its path, good for this process until the next call. */
static inline const char *fuzz_file(const void *bytes, size_t count)
{
	static char path[32];
	static int fd = -1;

	if (fd < 0) {
		fd = memfd_create("fuzz", 0);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	}
	FUZZ_CHECK(ftruncate(fd, 0) == 0 && pwrite(fd, bytes, count, 0) == (ssize_t)count, "no memory file");
	return path;
}

#endif
