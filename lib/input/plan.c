/* SPDX-License-Identifier: BSD-3-Clause */
#include "input/plan.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "input/source.h"

enum { USUAL_SLICES = 1000, USUAL_MIN = 64 << 10, USUAL_MAX = 16 << 20 };

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Gets the size of a file, or UINT64_MAX if it is compressed. */
static int look_at(const char *path, uint64_t *bytes, struct star_error *err)
{
	struct star_error why = { 0 };
	struct source source;
	struct stat file;
	int rc;

	if (!strcmp(path, "-") || (stat(path, &file) == 0 && !S_ISREG(file.st_mode)))
		return star_error_set(
			err, -EINVAL,
			"a work queue hands out slices of files, and %s is not a file that can be read again",
			strcmp(path, "-") ? path : "standard input");
	rc = input_source_open(&source, path, &why);
	if (rc < 0)
		return star_error_set(err, rc, "cannot read %s: %s", path, why.text);
	*bytes = source.kind == SOURCE_PLAIN ? (uint64_t)file.st_size : UINT64_MAX;
	input_source_close(&source);
	return 0;
}

static uint64_t usual_bytes(const struct input_plan *plan)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < plan->files; i++)
		sum += plan->bytes[i] == UINT64_MAX ? 0 : plan->bytes[i];
	sum /= USUAL_SLICES;
	return sum < USUAL_MIN ? USUAL_MIN : sum > USUAL_MAX ? USUAL_MAX : sum;
}

static int count_slices(struct input_plan *plan, struct star_error *err)
{
	for (uint32_t i = 0; i < plan->files; i++) {
		const uint64_t bytes = plan->bytes[i];

		plan->first[i] = plan->slices;
		plan->slices += bytes == UINT64_MAX ? 1 : (bytes + plan->slice_bytes - 1) / plan->slice_bytes;
		if (plan->slices > INPUT_SLICES_MAX)
			return star_error_set(err, -E2BIG,
					      "the files have more than %d slices of %" PRIu64
					      " bytes: make the slices larger",
					      INPUT_SLICES_MAX, plan->slice_bytes);
	}
	plan->first[plan->files] = plan->slices;
	return plan->slices ? 0 : star_error_set(err, -ENODATA, "all files are empty");
}

static void describe(struct input_plan *plan, const char *const *paths)
{
	uint64_t digest = hash_mix(plan->slice_bytes ^ plan->seed << 40), bytes = 0;
	char order[40] = "--shuffle 0"; /* written as startrain's options */
	uint32_t packed = 0;

	for (uint32_t i = 0; i < plan->files; i++) {
		digest = hash_mix(digest ^ hash_word(i, base_name(paths[i])));
		digest = hash_mix(digest ^ plan->bytes[i]);
		packed += plan->bytes[i] == UINT64_MAX;
		bytes += plan->bytes[i] == UINT64_MAX ? 0 : plan->bytes[i];
	}
	plan->digest = digest;
	if (plan->seed)
		snprintf(order, sizeof(order), "--shuffle, --seed %" PRIu64, plan->seed);
	snprintf(plan->text, sizeof(plan->text),
		 "%u file%s (first: %.60s), %u compressed, %" PRIu64 " bytes in slices of %" PRIu64 ", %s", plan->files,
		 plan->files == 1 ? "" : "s", base_name(paths[0]), packed, bytes, plan->slice_bytes, order);
}

int input_plan_make(const char *const *paths, uint32_t paths_count, uint64_t slice_bytes, uint64_t seed,
		    struct input_plan *plan, struct star_error *err)
{
	int rc = 0;

	*plan = (struct input_plan){ .files = paths_count, .seed = seed };
	if (!paths_count || (slice_bytes && (slice_bytes < INPUT_SLICE_MIN || slice_bytes > INPUT_SLICE_MAX)))
		return star_error_set(err, -EINVAL, "a work queue needs files, and slices of %d to %d bytes",
				      INPUT_SLICE_MIN, INPUT_SLICE_MAX);
	plan->first = calloc(paths_count + 1, sizeof(*plan->first));
	plan->bytes = calloc(paths_count, sizeof(*plan->bytes));
	if (!plan->first || !plan->bytes)
		rc = star_error_set(err, -ENOMEM, "no memory for a list of slices");
	for (uint32_t i = 0; rc == 0 && i < paths_count; i++)
		rc = look_at(paths[i], &plan->bytes[i], err);
	if (rc == 0) {
		plan->slice_bytes = slice_bytes ? slice_bytes : usual_bytes(plan);
		rc = count_slices(plan, err);
	}
	if (rc == 0)
		describe(plan, paths);
	else
		input_plan_fini(plan);
	return rc;
}

void input_plan_fini(struct input_plan *plan)
{
	free(plan->first);
	free(plan->bytes);
	plan->first = plan->bytes = NULL;
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
	while (b) {
		const uint64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/* The n-th number of a shuffled epoch: n -> a n + b, where a and the number of slices have no common divisor. */
static uint64_t shuffle_number(const struct input_plan *plan, uint64_t number, uint32_t epoch)
{
	const uint64_t drawn = hash_mix(plan->seed ^ hash_mix(epoch + 1)), n = plan->slices;
	uint64_t a = drawn % n | 1;

	while (common_divisor(a, n) != 1)
		a++;
	return (a % n * number + hash_mix(drawn) % n) % n; /* n is at most 2^24 */
}

struct input_piece input_plan_piece(const struct input_plan *plan, uint64_t number, uint32_t epoch)
{
	const uint64_t at = plan->seed ? shuffle_number(plan, number, epoch) : number;
	uint32_t low = 0, high = plan->files;
	struct input_piece piece;

	while (high - low > 1) {
		const uint32_t middle = (low + high) / 2;

		if (plan->first[middle] <= at)
			low = middle;
		else
			high = middle;
	}
	piece.file = low;
	piece.begin = (at - plan->first[low]) * plan->slice_bytes;
	piece.end = piece.begin + plan->slice_bytes;
	if (plan->bytes[low] == UINT64_MAX)
		piece.begin = 0;
	if (plan->bytes[low] == UINT64_MAX || piece.end >= plan->bytes[low])
		piece.end = UINT64_MAX;
	return piece;
}
