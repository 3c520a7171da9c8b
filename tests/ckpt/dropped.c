/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of what was dropped, beside the checkpoints. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jsonrpc/summed.h"
#include "tests/ckpt/cases.h"
#include "tests/ckpt/shim.h"
#include "tests/ckpt/support.h"
#include "tests/unit.h"

static void refuse(const char *text)
{
	uint32_t generations[WIRE_OBJECTS_MAX + 1];
	struct star_error err = { 0 };

	if (!CHECK_INT(ckpt_dropped_parse(text, strlen(text), 5, generations, &err), -EINVAL) || !CHECK(err.text[0]))
		printf("# %s\n", text);
}

/* A list of that version in which all else is well. */
static int read_version(int version)
{
	json_t *json =
		json_pack("{s:s, s:i, s:[]}", "format", "starserver dropped objects", "version", version, "dropped");
	uint32_t generations[WIRE_OBJECTS_MAX + 1];
	struct star_error err = { 0 };
	size_t bytes;
	char *text = jsonrpc_summed_text(json, JSON_COMPACT, &bytes);
	const int rc = ckpt_dropped_parse(text, bytes, 5, generations, &err);

	free(text);
	json_decref(json);
	return rc;
}

/* A table would be there again, or one that was not dropped would not. */
static void no_flipped_byte_is_believed(const char *path, uint32_t *read)
{
	struct star_error err = { 0 };
	size_t bytes;
	char *text = (char *)read_file(in(path, "dropped.json").text, &bytes);

	for (size_t at = 0; at < bytes; at++) {
		text[at] ^= 1;
		if (!CHECK_INT(ckpt_dropped_parse(text, bytes, 5, read, &err), -EINVAL) || !CHECK(err.text[0]))
			printf("# byte %zu\n", at);
		text[at] ^= 1;
	}
	CHECK_INT(ckpt_dropped_parse(text, bytes, 5, read, &err), 0);
	free(text);
}

/* What would be waited for, or leads elsewhere. A folder is left in its place. */
static void only_a_file_is_read(const char *path)
{
	uint32_t read[WIRE_OBJECTS_MAX + 1];
	struct star_error err = { 0 };

	for (unsigned kind = 0; kind < 3; kind++) {
		CHECK_INT(unlink(in(path, "dropped.json").text), 0);
		if (kind == 0)
			CHECK_INT(mkfifo(in(path, "dropped.json").text, 0600), 0);
		else if (kind == 1)
			CHECK_INT(symlink("/dev/zero", in(path, "dropped.json").text), 0);
		else
			CHECK_INT(mkdir(in(path, "dropped.json").text, 0700), 0);
		CHECK_INT(ckpt_dropped_read(path, 5, read, &err), -EBADMSG);
		CHECK_HAS(err.text, "dropped.json is not a regular file");
	}
}

void what_was_dropped_is_written_down(void)
{
	uint32_t generations[WIRE_OBJECTS_MAX + 1] = { 0 }, read[WIRE_OBJECTS_MAX + 1];
	struct ckpt_entry *entries = NULL;
	struct star_error err = { 0 };
	char path[DIRECTORY_MAX];
	uint32_t count = 1;

	make_directory(path);
	/* Without a file nothing was. */
	CHECK_INT(ckpt_dropped_read(path, 5, read, &err), 0);
	CHECK_MEM(read, generations, sizeof(read));
	generations[1] = 1;
	generations[7] = OBJECT_GENERATION_MAX + 1;
	generations[WIRE_OBJECTS_MAX] = 3;
	for (unsigned again = 0; again < 2; again++) {
		CHECK_INT(ckpt_dropped_write(path, 5, generations, &err), 0);
		CHECK_INT(ckpt_dropped_read(path, 5, read, &err), 0);
		CHECK_MEM(read, generations, sizeof(read));
		generations[1]++;
	}
	no_flipped_byte_is_believed(path, read);
	/* It is not a checkpoint. */
	CHECK_INT(ckpt_list(path, &entries, &count, &err), 0);
	CHECK_UINT(count, 0);
	free(entries);
	CHECK_INT(ckpt_dropped_remove(path, NULL, &err), 0);
	CHECK_INT(ckpt_dropped_remove(path, NULL, &err), 0);
	CHECK_INT(ckpt_dropped_read(path, 5, read, &err), 0);
	CHECK_UINT(read[1], 0);
	unit_write_text(in(path, "dropped.json").text, "{\"format\"");
	CHECK_INT(ckpt_dropped_read(path, 5, read, &err), -EBADMSG);
	CHECK_HAS(err.text, "dropped.json is damaged: it is not valid JSON");
	only_a_file_is_read(path);
	refuse("");
	refuse("[]");
	refuse("{}");
#define HEAD "{\"format\": \"starserver dropped objects\", \"version\": 1, \"dropped\": "
	refuse(HEAD "{}}");
	refuse(HEAD "[7]}");
	refuse(HEAD "[{\"lineage\": 5, \"id\": 7}]}");
	refuse(HEAD "[{\"lineage\": 5, \"id\": 0, \"next_generation\": 1}]}");
	refuse(HEAD "[{\"lineage\": 5, \"id\": 16385, \"next_generation\": 1}]}");
	refuse(HEAD "[{\"lineage\": 5, \"id\": 1, \"next_generation\": 0}]}");
	refuse(HEAD "[{\"lineage\": 5, \"id\": 1, \"next_generation\": 2097153}]}");
	refuse(HEAD "[{\"lineage\": 5, \"id\": 1, \"next_generation\": 1, \"more\": 1}]}");
	refuse(HEAD "[{\"id\": 1, \"next_generation\": 1}]}");
	refuse(HEAD "[{\"lineage\": -1, \"id\": 1, \"next_generation\": 1}]}");
	refuse(HEAD "[], \"more\": 1}");
	refuse("{\"format\": \"another\", \"version\": 1, \"dropped\": []}");
	refuse("{\"format\": \"starserver dropped objects\", \"version\": 2, \"dropped\": []}");
	CHECK_INT(read_version(2), 0); /* as earlier programs wrote it */
	CHECK_INT(read_version(3), 0);
	CHECK_INT(read_version(4), -EINVAL);
	/* As earlier programs wrote it. */
	CHECK_INT(rmdir(in(path, "dropped.json").text), 0);
	unit_write_text(in(path, "dropped.json").text, HEAD "[{\"lineage\": 5, \"id\": 7, \"next_generation\": 3}]}");
	CHECK_INT(ckpt_dropped_read(path, 5, read, &err), 0);
	CHECK_UINT(read[7], 3);
	unit_remove(path);
}

static uint64_t written_bytes; /* by add_one */

static void add_one(struct ckpt_dropped *last, const char *path, uint64_t lineage, uint32_t *generations)
{
	const size_t before = last->bytes;
	const ino_t inode = last->inode;
	uint32_t read[WIRE_OBJECTS_MAX + 1];
	struct star_error err = { 0 };

	CHECK_INT(ckpt_dropped_add(last, path, lineage, generations, &err), 0);
	CHECK_INT(ckpt_dropped_read(path, lineage, read, &err), 0);
	CHECK_MEM(read, generations, sizeof(read));
	written_bytes += last->inode == inode ? last->bytes - before : last->bytes;
}

/* Each is there when it is told, and all together write no more than some times what the last file has. */
void drops_one_after_the_other_are_added(void)
{
	/* So many that the whole is written some times: when 4 KiB of lines follow it, and later as many as it has. */
	const uint32_t drops = getenv("STAR_SOAK") ? 2000 : 600;
	static struct ckpt_dropped last, another;
	uint32_t generations[WIRE_OBJECTS_MAX + 1] = { 0 }, read[WIRE_OBJECTS_MAX + 1];
	struct star_error err = { 0 };
	char path[DIRECTORY_MAX];
	size_t bytes;
	char *text;

	make_directory(path);
	last = another = (struct ckpt_dropped){ .known = false };
	written_bytes = 0;
	for (uint32_t i = 0; i < drops; i++) {
		generations[1 + i * 7 % WIRE_OBJECTS_MAX] = i % 3 + 1;
		if (i % 100 == 99) /* again, and two at once */
			generations[1] = generations[2] = i;
		add_one(&last, path, 5, generations);
	}
	if (written_bytes > 6 * last.bytes)
		unit_fail(__FILE__, __LINE__, "%llu bytes for a file of %zu", (unsigned long long)written_bytes,
			  last.bytes);
	/* Another process has written the file meanwhile, with what this one knows nothing of; another lineage is
	 * another list. */
	generations[10] = 5;
	add_one(&another, path, 5, generations);
	generations[10] = 0;
	generations[9] = 77;
	add_one(&last, path, 5, generations);
	generations[9] = 78;
	add_one(&last, path, 6, generations);
	/* One byte less is not a state that a line could be undone to. */
	generations[9] = 0;
	add_one(&last, path, 6, generations);
	add_one(&last, path, 5, generations);
	for (unsigned i = 0; i < 3; i++) {
		generations[20]++;
		add_one(&last, path, 5, generations);
	}
	text = (char *)read_file(in(path, "dropped.json").text, &bytes);
	CHECK_INT(ckpt_dropped_parse(text, bytes, 5, read, &err), 0);
	CHECK_UINT(read[20], generations[20]);
	/* The last line, cut: it is as it was before. Its other bytes are believed no more than those of the rest. */
	for (size_t cut = bytes; text[cut - 2] != '\n'; cut--) {
		CHECK_INT(ckpt_dropped_parse(text, cut - 1, 5, read, &err), 0);
		CHECK_UINT(read[20], generations[20] - 1);
	}
	for (size_t at = bytes - 400; at < bytes - 1; at++) {
		text[at] ^= 1;
		if (!CHECK_INT(ckpt_dropped_parse(text, bytes, 5, read, &err), -EINVAL) || !CHECK(err.text[0]))
			printf("# byte %zu of %zu\n", at, bytes);
		text[at] ^= 1;
	}
	free(text);
	unit_remove(path);
}

/* Whichever call fails: the drop is told as what it is, and the next one is added all the same. */
void a_drop_that_is_not_added_leaves_nothing(void)
{
	static struct ckpt_dropped last;
	uint32_t generations[WIRE_OBJECTS_MAX + 1] = { [1] = 1 }, read[WIRE_OBJECTS_MAX + 1];
	struct star_error err = { 0 };
	char path[DIRECTORY_MAX], stash[DIRECTORY_MAX];
	unsigned calls;

	make_directory(path);
	make_directory(stash);
	last = (struct ckpt_dropped){ .known = false };
	CHECK_INT(ckpt_dropped_add(&last, path, 5, generations, &err), 0);
	generations[1]++;
	shim_arm(&(struct shim_plan){ .way = SHIM_COUNT, .stash = stash });
	CHECK_INT(ckpt_dropped_add(&last, path, 5, generations, &err), 0);
	calls = shim_disarm();
	CHECK(calls >= 2);
	CHECK(last.bytes > last.whole);
	for (unsigned at = 0; at < calls; at++) {
		int rc;

		generations[1]++;
		shim_arm(&(struct shim_plan){ .way = SHIM_FAIL, .at = at, .code = ENOSPC, .stash = stash });
		rc = ckpt_dropped_add(&last, path, 5, generations, &err);
		shim_disarm();
		CHECK_INT(ckpt_dropped_read(path, 5, read, &err), 0);
		CHECK(read[1] == generations[1] || (rc < 0 && read[1] < generations[1]));
		generations[1]++;
		CHECK_INT(ckpt_dropped_add(&last, path, 5, generations, &err), 0);
		CHECK_INT(ckpt_dropped_read(path, 5, read, &err), 0);
		CHECK_UINT(read[1], generations[1]);
		CHECK_INT(ckpt_dropped_add(&last, path, 5, generations, &err), 0);
	}
	/* A disk that stays full, as some file systems first say when they sync: the table is there, and stays. */
	for (unsigned at = 0; at < calls; at++) {
		generations[1]++;
		CHECK_INT(ckpt_dropped_add(&last, path, 5, generations, &err), 0);
		generations[1]++;
		CHECK_INT(ckpt_dropped_add(&last, path, 5, generations, &err), 0);
		CHECK(last.bytes > last.whole);
		generations[1]++;
		shim_arm(&(struct shim_plan){ .way = SHIM_FULL, .at = at, .code = EDQUOT, .stash = stash });
		CHECK_INT(ckpt_dropped_add(&last, path, 5, generations, &err), -EDQUOT);
		shim_disarm();
		CHECK_INT(ckpt_dropped_read(path, 5, read, &err), 0);
		CHECK_UINT(read[1], generations[1] - 1);
		CHECK_INT(access(in(path, "dropped.json.partial").text, F_OK), -1);
	}
	unit_remove(path);
	unit_remove(stash);
}

/* Whichever call of it fails: the file is the old one or the new one, and nothing is beside it. */
void a_drop_that_is_not_written_leaves_nothing(void)
{
	uint32_t generations[WIRE_OBJECTS_MAX + 1] = { 0 }, read[WIRE_OBJECTS_MAX + 1];
	struct star_error err = { 0 };
	char path[DIRECTORY_MAX], stash[DIRECTORY_MAX];
	unsigned calls;

	make_directory(path);
	make_directory(stash);
	generations[1] = 1;
	shim_arm(&(struct shim_plan){ .way = SHIM_COUNT, .stash = stash });
	CHECK_INT(ckpt_dropped_write(path, 5, generations, &err), 0);
	calls = shim_disarm();
	CHECK(calls > 4);
	for (unsigned at = 0; at < calls; at++) {
		int rc;

		generations[1]++;
		shim_arm(&(struct shim_plan){ .way = SHIM_FAIL, .at = at, .code = ENOSPC, .stash = stash });
		rc = ckpt_dropped_write(path, 5, generations, &err);
		shim_disarm();
		CHECK_INT(access(in(path, "dropped.json.partial").text, F_OK), -1);
		CHECK_INT(ckpt_dropped_read(path, 5, read, &err), 0);
		CHECK(read[1] == generations[1] || (rc < 0 && read[1] < generations[1]));
	}
	/* Of a writer that was killed; what leads elsewhere is not followed. */
	for (unsigned kind = 0; kind < 2; kind++) {
		if (kind == 0)
			write_file(in(path, "dropped.json.partial").text, "{", 1);
		else
			CHECK_INT(symlink("dropped.json", in(path, "dropped.json.partial").text), 0);
		ckpt_dropped_clean(path);
		CHECK_INT(access(in(path, "dropped.json.partial").text, F_OK), -1);
		CHECK_INT(ckpt_dropped_read(path, 5, read, &err), 0);
		CHECK_UINT(read[1], generations[1]);
	}
	ckpt_dropped_clean(path);
	unit_remove(path);
	unit_remove(stash);
}

/* Each counts its ids for itself: what one dropped under an id says nothing of another's. */
void drops_are_of_one_lineage(void)
{
	uint32_t generations[WIRE_OBJECTS_MAX + 1] = { 0 }, read[WIRE_OBJECTS_MAX + 1];
	const uint64_t third = 3;
	struct star_error err = { 0 };
	char path[DIRECTORY_MAX];

	make_directory(path);
	save_bare(path, &(struct bare){ .id = 1, .lineage = 3 });
	save_bare(path, &(struct bare){ .id = 2, .lineage = 5 });
	generations[1] = 1;
	CHECK_INT(ckpt_dropped_write(path, 3, generations, &err), 0);
	CHECK_INT(ckpt_dropped_read(path, 5, read, &err), 0);
	CHECK_UINT(read[1], 0);
	generations[1] = 4;
	generations[2] = 2;
	CHECK_INT(ckpt_dropped_write(path, 5, generations, &err), 0);
	CHECK_INT(ckpt_dropped_write(path, 7, generations, &err), 0);
	CHECK_INT(ckpt_dropped_read(path, 3, read, &err), 0);
	CHECK_UINT(read[1], 1);
	CHECK_UINT(read[2], 0);
	CHECK_INT(ckpt_dropped_read(path, 7, read, &err), 0);
	CHECK_UINT(read[1], 4);
	/* Of one without any checkpoint nothing is kept by the next write. */
	CHECK_INT(ckpt_dropped_remove(path, &third, &err), 0);
	CHECK_INT(ckpt_dropped_read(path, 7, read, &err), 0);
	CHECK_UINT(read[1], 0);
	CHECK_INT(ckpt_dropped_read(path, 3, read, &err), 0);
	CHECK_UINT(read[1], 0);
	CHECK_INT(ckpt_dropped_read(path, 5, read, &err), 0);
	CHECK_UINT(read[1], 4);
	CHECK_UINT(read[2], 2);
	unit_remove(path);
}

/* A list of earlier programs, which has no sum: of the most clusters, each of which has dropped all that it may. */
static void prepare_lists(const char *path, unsigned lineages)
{
	FILE *file = fopen(in(path, "dropped.json").text, "w");

	if (!CHECK(file))
		return;
	fputs(HEAD "[", file);
	for (unsigned i = 0; i < lineages; i++)
		for (uint32_t id = 1; id <= WIRE_OBJECTS_MAX; id++)
			fprintf(file, "%s{\"lineage\": %llu, \"id\": %u, \"next_generation\": %u}",
				i + id > 1 ? ", " : "", (unsigned long long)(UINT64_MAX / 2 - i), id,
				OBJECT_GENERATION_MAX + 1);
	fputs("]}", file);
	CHECK_INT(fclose(file), 0);
}

/* Of many clusters, each of which has dropped much: it is refused, and the list stays as it was. */
void no_list_of_drops_is_written_that_is_not_read(void)
{
	enum { PREPARED = 13, LINEAGES = 20 };
	uint32_t generations[WIRE_OBJECTS_MAX + 1], read[WIRE_OBJECTS_MAX + 1];
	struct star_error err = { 0 };
	char path[DIRECTORY_MAX];
	uint64_t last = 0;
	int rc = 0;

	make_memory_directory(path);
	for (uint32_t id = 0; id <= WIRE_OBJECTS_MAX; id++)
		generations[id] = id ? OBJECT_GENERATION_MAX + 1 : 0;
	for (unsigned i = 0; i < PREPARED; i++)
		save_bare(path, &(struct bare){ .id = i + 1, .lineage = UINT64_MAX / 2 - i });
	prepare_lists(path, PREPARED);
	for (unsigned i = PREPARED; rc == 0 && CHECK(i < LINEAGES); i++) {
		save_bare(path, &(struct bare){ .id = i + 1, .lineage = UINT64_MAX / 2 - i });
		rc = ckpt_dropped_write(path, UINT64_MAX / 2 - i, generations, &err);
		last = rc == 0 ? UINT64_MAX / 2 - i : last;
	}
	CHECK_INT(rc, -EFBIG);
	CHECK(last); /* one was written */
	CHECK_HAS(err.text, "starctl checkpoint prune");
	/* The largest that was written: of the smaller ones other cases read some. */
	if (!CHECK_INT(ckpt_dropped_read(path, last, read, &err), 0))
		printf("# %s\n", err.text);
	CHECK_MEM(read, generations, sizeof(read));
	CHECK_INT(ckpt_dropped_read(path, UINT64_MAX / 2, read, &err), 0);
	CHECK_MEM(read, generations, sizeof(read));
	CHECK_INT(access(in(path, "dropped.json.partial").text, F_OK), -1);
	unit_remove(path);
}
