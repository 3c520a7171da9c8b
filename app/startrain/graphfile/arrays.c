/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/startrain/graphfile/arrays.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct arrays {
	const char *path;
	char *data;
	size_t bytes, at;
	uint64_t count; /* read so far */
};

enum { HEADER_MAX = 1024 /* bytes; NumPy's own limit is 10000, for records */ };
#define ELEMENTS_MAX (INT64_C(1) << 30) /* so that a product of two fits */

struct arrays *arrays_open(const char *path, struct star_error *err)
{
	struct arrays *arrays = calloc(1, sizeof(*arrays));
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat file = { 0 };
	void *data = NULL;

	if (fd >= 0 && fstat(fd, &file) == 0 && file.st_size > 0)
		data = mmap(NULL, (size_t)file.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (!arrays || fd < 0 || data == MAP_FAILED)
		star_error_set(err, arrays ? -errno : -ENOMEM, "cannot read %s: %s", path,
			       strerror(arrays ? errno : ENOMEM));
	else if (!data)
		star_error_set(err, -EINVAL, "%s is empty, or not a regular file", path);
	if (fd >= 0)
		close(fd);
	if (!arrays || !data || data == MAP_FAILED) {
		free(arrays);
		return NULL;
	}
	*arrays = (struct arrays){ .path = path, .data = data, .bytes = (size_t)file.st_size };
	return arrays;
}

void arrays_close(struct arrays *arrays)
{
	if (arrays)
		munmap(arrays->data, arrays->bytes);
	free(arrays);
}

void arrays_rewind(struct arrays *arrays)
{
	arrays->at = 0;
	arrays->count = 0;
}

double arrays_share(const struct arrays *arrays)
{
	return (double)arrays->at / (double)arrays->bytes;
}

/* ---- a header: "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }" ---- */

/* Skips the text if it comes next, after spaces. */
static bool take_text(const char **at, const char *text)
{
	const char *from = *at + strspn(*at, " \n");

	if (strncmp(from, text, strlen(text)) != 0)
		return false;
	*at = from + strlen(text);
	return true;
}

static bool take_dtype(const char **at, uint8_t *dtype)
{
	*dtype = take_text(at, "'<f4'")	  ? STAR_FLOAT32
		 : take_text(at, "'<f8'") ? STAR_FLOAT64
		 : take_text(at, "'<i4'") ? STAR_INT32
		 : take_text(at, "'<i8'") ? STAR_INT64
					  : 0;
	return *dtype != 0;
}

/* "()", "(3,)", "(3, 2)" */
static bool take_shape(const char **at, struct graph_shape *shape)
{
	int64_t size, elements = 1;

	if (!take_text(at, "("))
		return false;
	while (!take_text(at, ")")) {
		const char *digits = *at + strspn(*at, " ");
		char *end;

		if (!isdigit((unsigned char)*digits) || shape->ndim == GRAPH_DIMS_MAX)
			return false;
		errno = 0;
		size = strtoll(digits, &end, 10);
		*at = end;
		if (errno || size > ELEMENTS_MAX || (elements *= size) > ELEMENTS_MAX ||
		    (!take_text(at, ",") && **at != ')'))
			return false;
		/* Sizes after a 0 are limited too, so that their product does not overflow. */
		shape->dims[shape->ndim++] = size;
		elements = elements ? elements : 1;
	}
	return true;
}

static bool parse_header(const char *at, struct graph_type *type)
{
	bool order = false, shape = false;

	if (!take_text(&at, "{"))
		return false;
	while (!take_text(&at, "}")) {
		if (take_text(&at, "'descr':") && !type->dtype) {
			if (!take_dtype(&at, &type->dtype))
				return false;
		} else if (take_text(&at, "'fortran_order':") && !order) {
			order = take_text(&at, "False");
		} else if (take_text(&at, "'shape':") && !shape) {
			shape = take_shape(&at, &type->shape);
		} else {
			return false;
		}
		if (!take_text(&at, ",") && *at != '}')
			return false;
	}
	return type->dtype && order && shape && at[strspn(at, " \n")] == 0;
}

/* Finds the beginning and the length of the header: 0, or -EINVAL. */
static int find_header(const struct arrays *a, size_t *begin, size_t *bytes)
{
	static const char magic[6] = { (char)0x93, 'N', 'U', 'M', 'P', 'Y' };
	const unsigned char *from = (const unsigned char *)a->data + a->at;
	const size_t left = a->bytes - a->at;

	if (left < 12 || memcmp(from, magic, sizeof(magic)) != 0 || from[6] < 1 || from[6] > 2)
		return -EINVAL;
	*begin = a->at + (from[6] == 1 ? 10 : 12);
	*bytes = from[8] | (size_t)from[9] << 8;
	if (from[6] == 2)
		*bytes |= (size_t)from[10] << 16 | (size_t)from[11] << 24;
	return *bytes > HEADER_MAX || *bytes > a->bytes - *begin ? -EINVAL : 0;
}

int arrays_next(struct arrays *a, struct graph_tensor *tensor, struct star_error *err)
{
	char header[HEADER_MAX + 1];
	size_t begin, bytes;
	uint64_t size;

	*tensor = (struct graph_tensor){ 0 };
	if (a->at == a->bytes)
		return 0;
	if (find_header(a, &begin, &bytes) < 0)
		return star_error_set(
			err, -EINVAL,
			"%s: array %llu, at byte %zu, is not in the format of numpy.save(), or incomplete", a->path,
			(unsigned long long)a->count, a->at);
	memcpy(header, a->data + begin, bytes);
	header[bytes] = 0;
	if (strlen(header) != bytes || !parse_header(header, &tensor->type))
		return star_error_set(
			err, -EINVAL,
			"%s: array %llu, at byte %zu, is %.60s...: a graph takes float32, float64, int32 and "
			"int64, little endian, in C order, with at most %d dimensions",
			a->path, (unsigned long long)a->count, a->at, header, GRAPH_DIMS_MAX);
	begin += bytes;
	size = graph_elements(&tensor->type.shape) < 0 ? UINT64_MAX : graph_type_bytes(&tensor->type);
	if (size > a->bytes - begin)
		return star_error_set(err, -EINVAL, "%s: array %llu is incomplete: the file ends at byte %zu", a->path,
				      (unsigned long long)a->count, a->bytes);
	tensor->data = a->data + begin;
	a->at = begin + size;
	a->count++;
	return 1;
}
