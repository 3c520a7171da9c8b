/* SPDX-License-Identifier: BSD-3-Clause */
/* Readers whose slices come from a queue: each line once, wherever slices begin, and whichever worker waits for
 * another. */
#include "input/input.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "tests/input/cases.h"
#include "tests/unit.h"

enum { LINES = 3000, FILES = 3 };

/* A queue of one worker, or of two by turns. */
struct queue {
	struct input_plan plan;
	uint64_t next, total, taken, others; /* others: the last slices that somebody else has for some time */
	_Atomic(uint64_t) done;
	bool waited;
	unsigned char *is_done;
};

static int take(void *arg, bool wait, struct input_slice *slice, struct star_error *err)
{
	struct queue *q = arg;

	if (q->next == q->total && q->others) {
		/* they wait until all that was read here is done: a worker that keeps some of it waits for ever */
		q->waited |= wait;
		if (wait)
			usleep(1000);
		q->others -= wait && q->done == q->taken;
		return q->others ? -EAGAIN : 0;
	}
	if (q->next == q->total)
		return 0;
	slice->number = q->next % q->plan.slices;
	slice->epoch = (uint32_t)(q->next / q->plan.slices);
	slice->handle = q->next++;
	q->taken++;
	return 1;
}

static void done(void *arg, const struct input_slice *slice)
{
	struct queue *q = arg;

	CHECK(!q->is_done[slice->handle]);
	q->is_done[slice->handle] = 1;
	q->done++;
}

static char paths[FILES][UNIT_FOLDER];
static const char *const files[FILES] = { paths[0], paths[1], paths[2] };

/* Line i is "1 i:1", of three lengths; files end with and without '\n', and one is packed. */
static void write_files(bool packed)
{
	for (unsigned f = 0; f < FILES; f++) {
		const int fd = unit_file(paths[f], "slices");
		char line[400];

		if (packed && f == 1) {
			gzFile gz = gzdopen(fd, "w");

			for (unsigned i = f; i < LINES; i += FILES)
				gzprintf(gz, "1 %u:1\n", i);
			gzclose(gz);
			continue;
		}
		for (unsigned i = f; i < LINES; i += FILES) {
			const int n = snprintf(line, sizeof(line), "1 %u:1%*s%s", i, (int)(i % 300), "",
					       i + FILES < LINES || f ? "\n" : "");

			CHECK_INT(write(fd, line, (size_t)n), n);
		}
		close(fd);
	}
}

static void remove_files(void)
{
	for (unsigned f = 0; f < FILES; f++)
		unlink(paths[f]);
}

static void read_all(uint64_t slice_bytes, uint64_t seed, uint32_t epochs, uint32_t shuffle, uint64_t others)
{
	static unsigned seen[LINES];
	struct queue q = { .others = others };
	struct input_slices slices = { &q, &q.plan, epochs, take, done };
	const struct input_options options = { .format = INPUT_LIBSVM,
					       .paths = files,
					       .paths_count = FILES,
					       .batch = 32,
					       .shuffle = shuffle,
					       .seed = seed,
					       .slices = &slices };
	const struct input_batch *batch;
	struct star_error err = { 0 };
	struct input *in;
	uint64_t batches = 0;
	int rc = 1;

	memset(seen, 0, sizeof(seen));
	if (!CHECK_INT(input_plan_make(files, FILES, slice_bytes, seed, &q.plan, &err), 0))
		return;
	q.total = q.plan.slices * epochs;
	q.is_done = calloc(q.total, 1);
	in = input_open(&options, &err);
	while (in && (rc = input_next(in, &batch, &err)) > 0) {
		for (uint32_t i = 0; i < batch->ids_count; i++)
			seen[batch->ids[i] % LINES]++;
		input_finished(in, ++batches);
	}
	CHECK_INT(rc, 0);
	input_close(in);
	for (unsigned i = 0; i < LINES; i++)
		if (seen[i] != epochs)
			unit_fail(__FILE__, __LINE__, "line %u was seen %u times in %u epochs, in slices of %llu", i,
				  seen[i], epochs, (unsigned long long)slice_bytes);
	CHECK_UINT(q.done, q.total);
	CHECK(q.waited == (others > 0));
	free(q.is_done);
	input_plan_fini(&q.plan);
}

void each_line_is_in_one_slice(void)
{
	static const uint64_t sizes[] = { INPUT_SLICE_MIN, 4099, 5000, 65536, INPUT_SLICE_MAX };

	for (unsigned packed = 0; packed < 2; packed++) {
		write_files(packed);
		for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			read_all(sizes[i], 0, 1, 0, 0);
			read_all(sizes[i], i + 1, 2, 100, 0);
		}
		remove_files();
	}
}

void readers_hand_out_what_they_have_before_they_wait(void)
{
	write_files(false);
	read_all(8192, 3, 1, 2000, 3);
	read_all(8192, 0, 1, 0, 1);
	remove_files();
}

void all_workers_come_to_the_same_plan(void)
{
	struct input_plan one, other;
	struct star_error err;
	const char *missing[] = { "/nowhere/file" }, *standard[] = { "-" }, *folder[] = { "/tmp" };

	write_files(true);
	CHECK_INT(input_plan_make(files, FILES, 4096, 5, &one, &err), 0);
	CHECK_INT(input_plan_make(files, FILES, 4096, 5, &other, &err), 0);
	CHECK(one.digest == other.digest && one.slices == other.slices && one.slices > 10);
	input_plan_fini(&other);
	CHECK_INT(input_plan_make(files, FILES, 4097, 5, &other, &err), 0);
	CHECK(one.digest != other.digest);
	input_plan_fini(&other);
	CHECK_INT(input_plan_make(files, FILES - 1, 4096, 5, &other, &err), 0);
	CHECK(one.digest != other.digest);
	input_plan_fini(&other);
	/* What differs is named as users know it. */
	CHECK_INT(input_plan_make(files, FILES, 4096, 0, &other, &err), 0);
	CHECK(one.digest != other.digest);
	CHECK_HAS(one.text, ", --shuffle, --seed 5");
	CHECK_HAS(other.text, ", --shuffle 0");
	input_plan_fini(&other);
	for (uint32_t epoch = 0; epoch < 3; epoch++) {
		unsigned char *seen = calloc(one.slices, 1);

		for (uint64_t i = 0; i < one.slices; i++) {
			const struct input_piece p = input_plan_piece(&one, i, epoch);
			const uint64_t at = one.first[p.file] + p.begin / one.slice_bytes;

			CHECK(p.file < FILES && p.begin < p.end && at < one.slices && !seen[at]);
			seen[at] = 1;
		}
		free(seen);
	}
	input_plan_fini(&one);
	remove_files();
	CHECK_INT(input_plan_make(missing, 1, 0, 0, &one, &err), -ENOENT);
	CHECK_HAS(err.text, "/nowhere/file");
	CHECK_INT(input_plan_make(standard, 1, 0, 0, &one, &err), -EINVAL);
	CHECK_HAS(err.text, "standard input is not a file that can be read again");
	CHECK_INT(input_plan_make(folder, 1, 0, 0, &one, &err), -EINVAL);
	CHECK_INT(input_plan_make(files, FILES, 5, 0, &one, &err), -EINVAL);
}

void errors_in_slices_name_file_and_line(void)
{
	struct queue q = { .others = 0 };
	struct input_slices slices = { &q, &q.plan, 1, take, done };
	char path[UNIT_FOLDER], said[100 + UNIT_FOLDER];
	const char *const one[] = { path };
	const struct input_options options = {
		.format = INPUT_LIBSVM, .paths = one, .paths_count = 1, .batch = 8, .slices = &slices
	};
	const struct input_batch *batch;
	const int fd = unit_file(path, "slices");
	struct star_error err = { 0 };
	struct input *in;
	int rc = 1;

	for (unsigned i = 1; i <= 2000; i++)
		CHECK(dprintf(fd, i == 1777 ? "1 x:1\n" : "1 %u:1\n", i) > 0);
	close(fd);
	CHECK_INT(input_plan_make(one, 1, INPUT_SLICE_MIN, 0, &q.plan, &err), 0);
	q.total = q.plan.slices;
	q.is_done = calloc(q.total, 1);
	in = input_open(&options, &err);
	while (in && (rc = input_next(in, &batch, &err)) > 0)
		continue;
	CHECK_INT(rc, -EINVAL);
	snprintf(said, sizeof(said), "%s:1777: \"x:1\" is not index:value", path);
	CHECK_HAS(err.text, said);
	CHECK(q.done < q.total);
	input_close(in);
	free(q.is_done);
	input_plan_fini(&q.plan);
	unlink(path);
}
