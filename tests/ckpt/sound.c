/* SPDX-License-Identifier: BSD-3-Clause */
/* What is reported about incomplete checkpoints, and what is not taken for one. */
#include "tests/ckpt/cases.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/lines.h"
#include "tests/ckpt/support.h"
#include "tests/unit.h"

/* As "1-full, 2-delta: why, ". */
static void note(void *ctx, const struct ckpt_entry *entry, const char *why)
{
	char *text = ctx;
	const size_t used = strlen(text);

	snprintf(text + used, 1024 - used, "%s%s%s, ", entry->name + strspn(entry->name, "0"), why ? ": " : "",
		 why ? why : "");
}

/* "3-full 9-full": the first is called the second from now on. */
static void rename_one(const char *directory, const char *names)
{
	char from[32], to[32];
	unsigned long ids[2];
	char kinds[2][8];

	CHECK_INT(sscanf(names, "%lu-%7s %lu-%7s", &ids[0], kinds[0], &ids[1], kinds[1]), 4);
	snprintf(from, sizeof(from), "%08lu-%s", ids[0], kinds[0]);
	snprintf(to, sizeof(to), "%08lu-%s", ids[1], kinds[1]);
	CHECK_INT(rename(in(directory, from).text, in(directory, to).text), 0);
}

void what_nodes_refuse_is_told(void)
{
	static const struct {
		const char *saved, *damaged, *destroyed, *renamed;
		uint64_t id;
		int wrong;
		const char *says[4]; /* in this order */
	} cases[] = {
		{ "1 2<1 3", NULL, NULL, NULL, 0, 0, { "1-full, 2-delta, 3-full, " } },
		{ "1 2<1 3", NULL, NULL, NULL, 2, 0, { "1-full, 2-delta, " } },
		{ "1 2",
		  NULL,
		  NULL,
		  "1-full 50-full",
		  0,
		  1,
		  { "2-full, 50-full: ", "than its directory's name says" } },
		{ "1 2", NULL, NULL, "1-full 50-full", 50, 1, { "50-full: ", "than its directory's name says" } },
		{ "1 2", NULL, NULL, "1-full 50-full", 1, -ENOENT, { NULL } },
		{ "1 2<1 3",
		  NULL,
		  "1-full",
		  NULL,
		  0,
		  2,
		  { "1-full: ", "2-delta: ", "is based on checkpoint 1, which is missing", "3-full, " } },
		{ "1 2<1 3", NULL, "1-full", NULL, 2, 1, { "2-delta: ", "is based on checkpoint 1" } },
		{ "1 2<1 3",
		  "1-full",
		  NULL,
		  NULL,
		  0,
		  2,
		  { "1-full: ", "block 0", "2-delta: 00000001-full is damaged" } },
		{ "1 2<1 3", "3-full", NULL, NULL, 2, 0, { "1-full, 2-delta, " } },
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char directory[DIRECTORY_MAX], text[1024] = "";
		const struct ckpt_search search = { .ctx = text };
		struct star_error err = { 0 };
		const char *at = text;

		save_and_spoil(directory, cases[i].saved, cases[i].damaged, cases[i].destroyed);
		if (cases[i].renamed)
			rename_one(directory, cases[i].renamed);
		CHECK_INT(ckpt_check(directory, cases[i].id, &search, note, &err), cases[i].wrong);
		for (unsigned s = 0; s < 4 && cases[i].says[s]; s++)
			if (CHECK_HAS(at, cases[i].says[s]))
				at = strstr(at, cases[i].says[s]) + 1;
		unit_remove(directory);
	}
}

/* Without an id the newest is meant, and an error says if that cannot be restored. */
void no_older_one_is_exported_without_a_word(void)
{
	static const struct {
		const char *saved, *destroyed;
		uint64_t id;
		int rc;
		const char *says[3];
	} cases[] = {
		{ "1 2<1 3", NULL, 0, 0, { NULL } },
		{ "1 2<1 3",
		  "3-full",
		  0,
		  -ENOENT,
		  { "00000003-full has no manifest", "name it: ", "/00000002-delta" } },
		{ "1 2<1 3", "3-full", 2, 0, { NULL } },
		{ "1 2 3<2", "2-full", 0, -ENOENT, { "is based on checkpoint 2", "name it: ", "/00000001-full" } },
		{ "1",
		  "1-full",
		  0,
		  -ENOENT,
		  { "the newest checkpoint is damaged or incomplete: ", "has no manifest" } },
		{ "", NULL, 0, -ENOENT, { "has no complete checkpoint" } },
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char directory[DIRECTORY_MAX], *lines = NULL;
		struct star_error err = { 0 };
		size_t bytes;
		FILE *out = open_memstream(&lines, &bytes);

		save_and_spoil(directory, cases[i].saved, NULL, cases[i].destroyed);
		CHECK_INT(ckpt_export(directory, cases[i].id, sample_objects()[0].name, out, NULL, NULL, &err),
			  cases[i].rc);
		fclose(out);
		CHECK_INT(bytes > 0, cases[i].rc == 0);
		for (unsigned s = 0; s < 3 && cases[i].says[s]; s++)
			CHECK_HAS(err.text, cases[i].says[s]);
		free(lines);
		unit_remove(directory);
	}
}

/* "3-full": its data file is gone, cut off, or grown. */
enum harm { NONE, MISSING, CUT, GROWN, FLIPPED };
static void harm_data(const char *directory, const char *short_name, enum harm harm)
{
	char name[64];
	struct path path;
	struct stat status;

	if (harm == FLIPPED)
		damage_data(directory, short_name);
	snprintf(name, sizeof(name), "%08lu%s/node0-reactor0.star", strtoul(short_name, NULL, 10),
		 strchr(short_name, '-'));
	path = in(directory, name);
	CHECK_INT(stat(path.text, &status), 0);
	if (harm == MISSING)
		CHECK_INT(unlink(path.text), 0);
	else if (harm == CUT || harm == GROWN)
		CHECK_INT(truncate(path.text, status.st_size + (harm == CUT ? -1 : 1)), 0);
}

static void hear(void *ctx, const char *name, const char *why)
{
	char *text = ctx;

	snprintf(text, 512, "%s: %s", name, why);
}

void prune_counts_what_is_whole(void)
{
	static const struct {
		const char *saved, *harmed;
		enum harm harm;
		uint32_t keep;
		bool read;
		uint64_t began, since;
		int removed;
		const char *left;
	} cases[] = {
		{ "1 2 3", NULL, NONE, 1, false, 0, 0, 2, "3-full" },
		{ "1 2 3", "3-full", MISSING, 1, false, 0, 0, 1, "2-full 3-full!" },
		{ "1 2 3", "3-full", CUT, 1, false, 0, 0, 1, "2-full 3-full!" },
		{ "1 2 3", "3-full", GROWN, 1, false, 0, 0, 1, "2-full 3-full!" },
		{ "1 2 3 4", "3-full", MISSING, 2, false, 0, 0, 1, "2-full 3-full! 4-full" },
		{ "1 2 3 4", "1-full", MISSING, 2, false, 0, 0, 2, "3-full 4-full" },
		/* As long as there are fewer, nothing is removed. */
		{ "1 2 3", "1-full", MISSING, 3, false, 0, 0, 0, "1-full! 2-full 3-full" },
		{ "1", "1-full", MISSING, 1, false, 0, 0, 0, "1-full!" },
		/* Sizes do not show a changed byte; reading the file does. */
		{ "1 2 3", "3-full", FLIPPED, 1, false, 0, 0, 2, "3-full" },
		{ "1 2 3", "3-full", FLIPPED, 1, true, 0, 0, 1, "2-full 3-full" },
		{ "1 2 3", "3-full", MISSING, 1, true, 0, 0, 1, "2-full 3-full!" },
		{ "1 2 3", "1-full", FLIPPED, 1, true, 0, 0, 2, "3-full" },
		/* What it began with, until as many of its own count. */
		{ "1 2 3 4", NULL, NONE, 2, false, 1, 4, 1, "1-full 3-full 4-full" },
		{ "1 2 3 4", NULL, NONE, 2, false, 1, 3, 2, "3-full 4-full" },
		{ "1 2 3 4", NULL, NONE, 2, false, 1, 0, 1, "1-full 3-full 4-full" },
		{ "1 2<1 3 4 5", NULL, NONE, 1, false, 2, 0, 2, "1-full 2-delta 5-full" },
		{ "1 2<1 3 4 5", NULL, NONE, 1, false, 2, 5, 4, "5-full" },
		{ "1 2 3", "3-full", CUT, 1, false, 1, 3, 0, "1-full 2-full 3-full!" },
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char directory[DIRECTORY_MAX], text[512], heard[512] = "";
		const struct ckpt_pruning pruning = { .keep = cases[i].keep,
						      .began = cases[i].began,
						      .since = cases[i].since,
						      .refused = cases[i].read ? hear : NULL,
						      .ctx = heard };
		struct star_error err = { 0 };

		make_memory_directory(directory);
		save_all(directory, cases[i].saved);
		if (cases[i].harmed)
			harm_data(directory, cases[i].harmed, cases[i].harm);
		if (!CHECK_INT(ckpt_prune(directory, &pruning, &err), cases[i].removed) ||
		    !CHECK_STR(list_text(directory, text), cases[i].left))
			printf("# case %u: %s\n", i, err.text);
		if (cases[i].read && strstr(cases[i].left, cases[i].harmed))
			CHECK_HAS(heard, "node0-reactor0.star");
		unit_remove(directory);
	}
}

static int save_delta(const char *directory, uint64_t id, uint64_t parent, struct star_error *err)
{
	const struct save save = { .id = id, .parent = parent, .files = 1, .rows = 1, .run_rows = 1 };

	return save_checkpoint(directory, &save, err);
}

void deltas_go_on_from_what_is_whole(void)
{
	static const char *const whose[] = { "1-full", "2-delta" };
	char directory[DIRECTORY_MAX];
	struct star_error err = { 0 };

	for (enum harm harm = NONE; harm <= GROWN; harm++)
		for (unsigned i = 0; i < 2; i++) {
			make_memory_directory(directory);
			save_all(directory, "1 2<1");
			harm_data(directory, whose[i], harm);
			CHECK_INT(save_delta(directory, 3, 2, &err), harm == NONE ? 0 : -EAGAIN);
			if (harm != NONE) {
				CHECK_HAS(err.text, i ? "checkpoint 2 in " : "checkpoint 1 in ");
				CHECK_HAS(err.text, "incomplete: ");
				CHECK_HAS(err.text, "node0-reactor0.star");
			}
			unit_remove(directory);
		}
}

/* A checkpoint is put in the place of another one. */
static void put(const char *from, const char *to, const char *name)
{
	unit_remove(in(to, name).text);
	CHECK_INT(rename(in(from, name).text, in(to, name).text), 0);
}

/* Two histories of one directory: each has checkpoints of the same ids. */
void deltas_know_what_they_go_on_from(void)
{
	const struct save other = { .id = 1, .files = 1, .rows = 1, .run_rows = 1, .seed = 7 };
	char directory[DIRECTORY_MAX], aside[DIRECTORY_MAX], text[1024] = "";
	const struct ckpt_search search = { .ctx = text };
	struct star_error err = { 0 };
	uint32_t count;
	char **chain;

	make_memory_directory(directory);
	make_memory_directory(aside);
	save_all(directory, "1 2<1");
	CHECK_INT(save_checkpoint(aside, &other, &err), 0);
	put(aside, directory, "00000001-full");
	CHECK_INT(ckpt_chain(directory, 2, &chain, &count, &err), -ENOENT);
	ckpt_chain_free(chain, count);
	CHECK_HAS(err.text, "00000002-delta is based on another save's checkpoint 1 than the one that is there");
	CHECK_INT(ckpt_check(directory, 0, &search, note, &err), 1);
	CHECK_HAS(text, "1-full, 2-delta: ");
	CHECK_INT(save_delta(directory, 3, 2, &err), -EAGAIN);
	CHECK_HAS(err.text, "another save than the one that the delta is based on");
	/* The right one of two with the same id. */
	unit_remove(directory);
	make_memory_directory(directory);
	save_all(directory, "1 2<1 3<2 4<3");
	CHECK_INT(rename(in(directory, "00000003-delta").text, in(aside, "00000003-delta").text), 0);
	save_all(directory, "3");
	put(aside, directory, "00000003-delta");
	if (CHECK_INT(ckpt_chain(directory, 4, &chain, &count, &err), 0)) {
		if (CHECK_UINT(count, 4))
			CHECK(strstr(chain[2], "00000003-delta"));
		ckpt_chain_free(chain, count);
	}
	unit_remove(directory);
	unit_remove(aside);
}

/* And of those that were written before they did, which lineage they are of. */
void deltas_are_of_their_parents_lineage(void)
{
	static const struct {
		uint64_t parent, child;
		bool fits;
	} cases[] = { { 5, 5, true }, { 5, 6, false }, { 0, 6, true }, { 5, 0, true } };

	for (unsigned i = 0; i < 4; i++) {
		char directory[DIRECTORY_MAX];
		struct star_error err = { 0 };
		uint32_t count;
		char **chain;

		make_memory_directory(directory);
		save_bare(directory, &(struct bare){ .id = 1, .lineage = cases[i].parent });
		save_bare(directory, &(struct bare){ .id = 2, .parent = 1, .lineage = cases[i].child });
		CHECK_INT(ckpt_chain(directory, 2, &chain, &count, &err), cases[i].fits ? 0 : -ENOENT);
		ckpt_chain_free(chain, count);
		unit_remove(directory);
	}
}
