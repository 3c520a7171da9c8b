/* SPDX-License-Identifier: BSD-3-Clause */
/* The file that a node leaves behind: what was written is read, and what is damaged is refused. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "recorder/file.h"
#include "tests/unit.h"

const char *const unit_suite = "recorder";

enum { HZ = 1000000000, PATH = 64, OLD = RECORDER_PATH_MAX + 2 };

static struct observe *create(void)
{
	struct star_error err = { 0 };
	struct observe *o = observe_create(HZ, &err);

	CHECK(o != NULL);
	return o;
}

/* Number i, which took i ns more than 1,000, from a peer at 198.18.0.1. */
static void serve(struct observe *o, uint64_t i)
{
	const uint64_t arrived_ns = 1000000 + i * 10000;
	struct observe_record *r = observe_next(o);

	observe_turn(o, arrived_ns);
	*r = (struct observe_record){ .arrived_ns = arrived_ns,
				      .what = observe_what((uint32_t)(i % 1000) + 1, 0, OBSERVE_PULL),
				      .peer = 7,
				      .object = 3 };
	observe_commit(o);
	observe_sent(o, 0, 1000 + i);
}

/* The reactor that goes on while its records are written, and its next number. With the third call it has not come to
 * those that are written first, and with the fourth it has written over those that were not counted yet. Or it does
 * nothing until those are written, and then writes over the others. */
enum { WHILE_WRITTEN = 300, CALLS_BEFORE = 4, THEN = 1200 };
static struct observe *running;
static uint64_t running_at;
static bool goes_on_late;
static unsigned calls;

static void go_on(unsigned n)
{
	for (unsigned i = 0; running && i < n; i++)
		serve(running, running_at++);
}

/* In the place of the C library's, for all of this program. */
ssize_t write(int fd, const void *bytes, size_t n)
{
	ssize_t written;

	go_on(goes_on_late ? 0 : WHILE_WRITTEN);
	written = syscall(SYS_write, fd, bytes, n);
	go_on(goes_on_late && ++calls > CALLS_BEFORE ? THEN : 0);
	return written;
}

static void path_of(char path[static PATH])
{
	snprintf(path, PATH, "/tmp/star-recorder-%d", getpid());
}

static void remove_files(const char *path)
{
	char old[OLD];

	snprintf(old, sizeof(old), "%s.1", path);
	unlink(path);
	unlink(old);
}

static void dump_init(struct recorder_dump *dump, struct observe *const *of, unsigned reactors)
{
	*dump = (struct recorder_dump){ .node = "ps:3", .incarnation = 99, .signal = 11, .stuck = -1 };
	path_of(dump->path);
	dump->reactors = reactors;
	for (unsigned i = 0; i < reactors; i++)
		dump->of[i] = of[i];
	dump->objects = WIRE_OBJECTS_MAX;
	dump->names[3] = "words";
	dump->now[reactors - 1].turns = 12345;
}

static void what_was_written_is_read(void)
{
	static const uint64_t counts[] = { 0, 1, 1000, 65536, 200000 };
	static const uint8_t address[16] = { [10] = 0xff, [11] = 0xff, [12] = 198, [13] = 18, [15] = 1 };
	struct recorder_dump dump;
	struct star_error err = { 0 };

	for (unsigned c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
		struct observe *of[2] = { create(), create() };
		const struct recorder_slow which = { .reactor = 1, .limit = 2, .seconds = 3600 };
		struct recorder_file *file;
		json_t *slow, *first, *live;

		observe_peer(of[1], 7, address, 4711, 1);
		for (uint64_t i = 0; i < counts[c]; i++)
			serve(of[1], i);
		dump_init(&dump, of, 2);
		CHECK_INT(recorder_write(&dump), 0);
		file = recorder_open(dump.path, &err);
		if (!CHECK(file != NULL)) {
			printf("# %s\n", err.text);
			return;
		}
		CHECK_STR(file->node, "ps:3");
		CHECK_INT(file->signal, 11);
		CHECK_INT(file->stuck, -1);
		CHECK_UINT(file->incarnation, 99);
		CHECK_UINT(file->recorder.reactors, 2);
		CHECK_UINT(file->now[1].turns, 12345);
		CHECK(file->written_s > 1700000000);
		/* All that a running node would tell of. */
		slow = recorder_slow(&file->recorder, &which);
		observe_idle(of[1]);
		live = recorder_slow(&(struct recorder){ .reactors = 2,
							 .of = { of[0], of[1] },
							 .now_ns = file->recorder.now_ns,
							 .name = file->recorder.name,
							 .ctx = file->recorder.ctx },
				     &which);
		CHECK(json_equal(slow, live));
		json_decref(live);
		json_decref(slow);
		slow = recorder_trace(&file->recorder, 1, 0);
		first = json_array_get(json_object_get(slow, "records"), 0);
		CHECK_UINT(json_array_size(json_object_get(slow, "records")),
			   counts[c] < RECORDER_TRACE_PAGE ? counts[c] : RECORDER_TRACE_PAGE);
		if (counts[c]) {
			CHECK_STR(json_string_value(json_array_get(first, 5)), "words");
			CHECK_STR(json_string_value(json_array_get(first, 7)), "198.18.0.1:4711");
		}
		json_decref(slow);
		recorder_close(file);
		for (unsigned i = 0; i < 2; i++)
			observe_destroy(of[i]);
	}
	remove_files(dump.path);
}

/* Of a node of which another reactor is stuck: what was timed when its turn came is there, each record once. */
static void a_reactor_that_goes_on_is_written_as_it_was(void)
{
	static const struct {
		uint64_t count;
		bool late;
	} cases[] = { { 7, false },   { 1000, false },	    { 65536 + 15, false }, { 200000, false },
		      { 1000, true }, { 65536 + 15, true }, { 200000, true } };

	for (unsigned c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		struct observe_record *records = malloc(OBSERVE_RECORDS * sizeof(*records));
		struct star_error err = { 0 };
		struct recorder_dump dump;
		struct recorder_file *file;
		uint64_t from = 0, first;
		size_t n;

		running = create();
		goes_on_late = cases[c].late;
		calls = 0;
		for (running_at = 0; running_at < cases[c].count;)
			serve(running, running_at++);
		dump_init(&dump, &running, 1);
		CHECK_INT(recorder_write(&dump), 0);
		observe_destroy(running);
		running = NULL;
		file = recorder_open(dump.path, &err);
		if (!CHECK(file != NULL))
			return;
		n = observe_copy(file->recorder.of[0], &from, records, OBSERVE_RECORDS);
		first = (records[0].arrived_ns - 1000000) / 10000;
		/* The head of the file and its only name were written before. */
		CHECK_UINT(first + n, cases[c].count + (cases[c].late ? 0 : 2 * WHILE_WRITTEN));
		CHECK_UINT(n, first ? OBSERVE_RECORDS - 2 * OBSERVE_TURN_MAX : first + n);
		for (size_t i = 0; i < n; i++)
			if (!CHECK_UINT(records[i].arrived_ns, 1000000 + (first + i) * 10000))
				break;
		recorder_close(file);
		free(records);
		remove_files(dump.path);
	}
}

static long size_of(const char *path)
{
	FILE *file = fopen(path, "r");
	long size = -1;

	if (file && fseek(file, 0, SEEK_END) == 0)
		size = ftell(file);
	if (file)
		fclose(file);
	return size;
}

/* 64 reactors whose records are all there; and two files at most, whatever happens how often. */
static void the_file_is_bounded(void)
{
	struct observe *o = create(), *of[WIRE_REACTORS_MAX];
	struct star_error err = { 0 };
	struct recorder_dump dump;
	struct recorder_file *file;
	char old[OLD];
	uint64_t from = 0;

	for (uint64_t i = 0; i < 100000; i++)
		serve(o, i);
	for (unsigned i = 0; i < WIRE_REACTORS_MAX; i++)
		of[i] = o;
	dump_init(&dump, of, WIRE_REACTORS_MAX);
	for (unsigned i = 0; i < 3; i++) {
		dump.signal = (int)i;
		CHECK_INT(recorder_write(&dump), 0);
	}
	CHECK(size_of(dump.path) > RECORDER_RECORDS_BYTES / 2 && size_of(dump.path) <= RECORDER_FILE_MAX);
	file = recorder_open(dump.path, &err);
	if (CHECK(file != NULL)) {
		struct observe_record *records = malloc(OBSERVE_RECORDS * sizeof(*records));
		const size_t n = observe_copy(file->recorder.of[63], &from, records, OBSERVE_RECORDS);

		CHECK_UINT(n, RECORDER_RECORDS_BYTES / 64 / 32);
		/* The newest. */
		CHECK_UINT(records[n - 1].arrived_ns, 1000000 + UINT64_C(99999) * 10000);
		CHECK_INT(file->signal, 2);
		free(records);
	}
	recorder_close(file);
	snprintf(old, sizeof(old), "%s.1", dump.path);
	file = recorder_open(old, &err);
	CHECK(file && file->signal == 1);
	recorder_close(file);
	remove_files(dump.path);
	observe_destroy(o);
}

static void what_is_damaged_is_refused(void)
{
	struct observe *of[1] = { create() };
	struct star_error err = { 0 };
	struct recorder_dump dump;
	uint8_t *bytes;
	FILE *file;
	size_t n;

	for (uint64_t i = 0; i < 100; i++)
		serve(of[0], i);
	dump_init(&dump, of, 1);
	CHECK_INT(recorder_write(&dump), 0);
	n = (size_t)size_of(dump.path);
	bytes = malloc(n);
	file = fopen(dump.path, "r");
	CHECK_UINT(fread(bytes, 1, n, file), n);
	fclose(file);
	for (size_t cut = 0; cut < n; cut += cut < 300 ? 1 : 997) {
		err.text[0] = 0;
		CHECK(recorder_read(bytes, cut, "x", &err) == NULL);
		CHECK_HAS(err.text, "x is not a valid record of a node's last requests");
	}
	/* Each byte of the head, and of the name: what is read is then within its bounds. */
	for (size_t at = 0; at < 400; at++) {
		struct recorder_file *read;

		bytes[at] ^= 0xff;
		read = recorder_read(bytes, n, "x", &err);
		if (read) {
			const struct recorder_slow which = { .reactor = -1, .limit = 100, .seconds = 1u << 31 };
			json_t *slow = recorder_slow(&read->recorder, &which);

			CHECK(slow != NULL);
			json_decref(slow);
		}
		recorder_close(read);
		bytes[at] ^= 0xff;
	}
	free(bytes);
	CHECK(recorder_open("/nonexistent/file", &err) == NULL);
	CHECK_HAS(err.text, "/nonexistent/file cannot be read: No such file");
	CHECK(recorder_open("/tmp", &err) == NULL);
	CHECK_HAS(err.text, "it is not a regular file");
	strcpy(dump.path, "/nonexistent/file");
	CHECK_INT(recorder_write(&dump), -ENOENT);
	path_of(dump.path);
	remove_files(dump.path);
	observe_destroy(of[0]);
}

const struct unit_case unit_cases[] = {
	{ "what_was_written_is_read", what_was_written_is_read },
	{ "a_reactor_that_goes_on_is_written_as_it_was", a_reactor_that_goes_on_is_written_as_it_was },
	{ "the_file_is_bounded", the_file_is_bounded },
	{ "what_is_damaged_is_refused", what_is_damaged_is_refused },
	{ NULL, NULL },
};
