/* SPDX-License-Identifier: BSD-3-Clause */
/* Which checkpoints a restore needs, and which may be pruned. */
#include "tests/ckpt/cases.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/ckpt/support.h"
#include "tests/unit.h"

/* The names of a chain's checkpoints, as "3-full 4-delta". */
static const char *names_of(char *const *chain, uint32_t count, char text[static 512])
{
	size_t used = 0;

	text[0] = 0;
	for (uint32_t i = 0; i < count; i++)
		used += (size_t)snprintf(text + used, 512 - used, "%s%s", i ? " " : "",
					 strrchr(chain[i], '/') + 1 + strspn(strrchr(chain[i], '/') + 1, "0"));
	return text;
}

static const char *chain_text(const char *directory, uint64_t id, char text[static 512], struct star_error *err)
{
	uint32_t count;
	char **chain;

	if (ckpt_chain(directory, id, &chain, &count, err) < 0)
		return "none";
	names_of(chain, count, text);
	ckpt_chain_free(chain, count);
	return text;
}

void chains_are_found(void)
{
	static const struct {
		const char *saved, *destroyed;
		uint64_t id;
		const char *chain, *says;
	} cases[] = {
		{ "", NULL, 0, "none", "has no complete checkpoint" },
		{ "1", NULL, 0, "1-full", NULL },
		{ "1 2<1 3<2", NULL, 0, "1-full 2-delta 3-delta", NULL },
		{ "1 2<1 3<2", NULL, 2, "1-full 2-delta", NULL },
		{ "1 2<1 3<1", NULL, 0, "1-full 3-delta", NULL },
		{ "1 2<1 3 4<3", NULL, 2, "1-full 2-delta", NULL },
		{ "1 2<1 3 4<3", NULL, 9, "none", "has no complete checkpoint 9" },
		{ "1 2<1 3<2", "3-delta", 0, "1-full 2-delta", NULL },
		{ "1 2<1 3<2", "2-delta", 0, "1-full", NULL },
		{ "1 2<1 3<2", "2-delta", 3, "none", "is based on checkpoint 2, which is missing or incomplete" },
		{ "1 2<1 3 4<3", "3-full", 0, "1-full 2-delta", NULL },
		{ "1 2<1", "1-full", 0, "none", "is based on checkpoint 1" },
		{ "1", "1-full", 0, "none", "only unfinished or damaged ones" },
		{ "99999999 100000000<99999999", NULL, 0, "99999999-full 100000000-delta", NULL },
		{ "9223372036854775807", NULL, 0, "9223372036854775807-full", NULL },
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char directory[DIRECTORY_MAX], text[512];
		struct star_error err = { 0 };

		save_and_spoil(directory, cases[i].saved, NULL, cases[i].destroyed);
		if (!CHECK_STR(chain_text(directory, cases[i].id, text, &err), cases[i].chain) ||
		    (cases[i].says && !CHECK_HAS(err.text, cases[i].says)))
			printf("# case %u: %s\n", i, err.text);
		unit_remove(directory);
	}
}

/* The checkpoints that were skipped, as "3-delta: why; "; gives up after this many looks. */
struct passed_over {
	char text[1024];
	unsigned looks;
};

static void pass_over(void *ctx, const char *name, const char *why)
{
	struct passed_over *p = ctx;
	const size_t used = strlen(p->text);

	snprintf(p->text + used, sizeof(p->text) - used, "%s: %s; ", name + strspn(name, "0"), why);
}

static bool look(void *ctx, uint64_t done, uint64_t total)
{
	struct passed_over *p = ctx;

	CHECK(done <= total);
	return p->looks-- > 0;
}

void good_chains_are_found(void)
{
	static const struct {
		const char *saved, *damaged, *destroyed;
		uint64_t newest;
		const char *chain,
			*says[3]; /* of those that are skipped, in this order; of the end where there is no chain */
	} cases[] = {
		{ "1 2<1 3<2", NULL, NULL, 0, "1-full 2-delta 3-delta", { NULL } },
		{ "1 2<1 3<2", NULL, NULL, 2, "1-full 2-delta", { NULL } },
		{ "1 2<1 3<2", "3-delta", NULL, 0, "1-full 2-delta", { "3-delta: ", "node0-reactor0.star: block 0" } },
		{ "1 2<1 3<2",
		  "2-delta",
		  NULL,
		  0,
		  "1-full",
		  { "3-delta: ", "block 0", "2-delta: 00000002-delta is damaged" } },
		{ "1 2<1 3 4<3",
		  "3-full",
		  NULL,
		  0,
		  "1-full 2-delta",
		  { "4-delta: ", "block 0", "3-full: 00000003-full is" } },
		{ "1 2<1 3 4<3", "3-full", NULL, 2, "1-full 2-delta", { NULL } },
		{ "1 2<1 3", NULL, "3-full", 0, "1-full 2-delta", { "3-full: ", "manifest.json" } },
		{ "1 2<1 3", NULL, "1-full", 2, "none", { "2-delta: ", "is based on checkpoint 1", "1-full: " } },
		{ "1", "1-full", NULL, 0, "none", { "1-full: ", "block 0" } },
		{ "", NULL, NULL, 0, "none", { NULL } },
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct passed_over over = { .looks = 1000 };
		const struct ckpt_search search = {
			.newest = cases[i].newest, .progress = look, .refused = pass_over, .ctx = &over
		};
		char directory[DIRECTORY_MAX], text[512];
		struct star_error err = { 0 };
		const char *at = over.text;
		uint32_t count;
		char **chain;
		int rc;

		save_and_spoil(directory, cases[i].saved, cases[i].damaged, cases[i].destroyed);
		rc = ckpt_chain_good(directory, &search, &chain, &count, &err);
		CHECK_STR(rc < 0 ? "none" : names_of(chain, count, text), cases[i].chain);
		if (rc < 0) {
			CHECK_INT(rc, -ENOENT);
			CHECK_HAS(err.text, "no intact checkpoint");
		}
		for (unsigned s = 0; s < 3 && cases[i].says[s]; s++)
			if (CHECK_HAS(at, cases[i].says[s]))
				at = strstr(at, cases[i].says[s]) + 1;
		if (!cases[i].says[0])
			CHECK_STR(over.text, "");
		ckpt_chain_free(chain, count);
		over.looks = 0; /* nobody wants to know any more */
		rc = ckpt_chain_good(directory, &search, &chain, &count, &err);
		if (cases[i].saved[0] && !cases[i].says[0])
			CHECK_INT(rc, -ECANCELED);
		ckpt_chain_free(chain, count);
		unit_remove(directory);
	}
}

/* And with what was never finished. */
static void check_next(const char *directory, uint64_t id, uint64_t with_partial, const char *strange)
{
	struct star_error err = { 0 };
	struct ckpt_next next;

	CHECK_INT(ckpt_next_id(directory, false, &next, &err), 0);
	CHECK_UINT(next.id, id);
	CHECK_INT(ckpt_next_id(directory, true, &next, &err), 0);
	CHECK_UINT(next.id, with_partial);
	CHECK_STR(next.strange, strange);
}

void what_does_not_count_is_listed(void)
{
	static const char *const others[] = { "1-full",
					      "000000001-full",
					      "00000001-half",
					      "00000001-fully",
					      "00000000-full",
					      "lost+found",
					      "00000001-delta.",
					      "+0000001-full",
					      "00000009-full.partial.old",
					      "00000001",
					      "99999999999999999999-full" };
	char directory[DIRECTORY_MAX], path[CKPT_PATH_MAX], text[512];
	struct star_error err = { 0 };
	struct ckpt_entry *entries;
	uint32_t count;

	make_memory_directory(directory);
	check_next(directory, 1, 1, "");
	save_all(directory, "2 3<2 4<3 5");
	destroy_manifest(directory, "5-full");
	CHECK_INT(ckpt_begin(directory, 6, 4, path, &err), 0);
	for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		CHECK_INT(mkdir(in(directory, others[i]).text, 0755), 0);
	/* One under another's name is not what its name says. */
	CHECK_INT(rename(in(directory, "00000004-delta").text, in(directory, "00000001-delta").text), 0);
	CHECK_STR(list_text(directory, text), "1-delta! 2-full 3-delta 5-full! 6-delta.partial");
	CHECK_STR(chain_text(directory, 0, text, &err), "2-full 3-delta");
	CHECK_INT(ckpt_list(directory, &entries, &count, &err), 0);
	CHECK_UINT(count, 5);
	CHECK_UINT(entries[2].parent, 2);
	CHECK_UINT(entries[2].rows, OBJECTS);
	CHECK_UINT(entries[2].deleted, OBJECTS - 1); /* not of the variable */
	CHECK_UINT(entries[2].step, UINT64_MAX - 3);
	free(entries);
	check_next(directory, 6, 7, "");
	/* An id is given once. */
	CHECK_INT(ckpt_begin(directory, 5, 4, path, &err), -EEXIST);
	CHECK_INT(ckpt_begin(directory, 3, 0, path, &err), -EEXIST);
	CHECK_INT(ckpt_begin(directory, 7, 7, path, &err), -EINVAL);
	CHECK_INT(ckpt_begin(directory, 0, 0, path, &err), -EINVAL);
	for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		CHECK_INT(rmdir(in(directory, others[i]).text), 0);
	CHECK(ckpt_list(in(directory, "none").text, &entries, &count, &err) < 0);
	CHECK_HAS(err.text, "none: No such file or directory");
	unit_remove(directory);
}

void strange_numbers_stop_no_save(void)
{
	static const char *const far[] = { "9223372036854775807-full",		"9223372036854775807-delta",
					   "9223372036854775807-full.partial",	"9223372036854775806-full",
					   "9223372036854775807-delta.partial", "4294967296-full",
					   "9223372036854775808-full",		"18446744073709551616-full",
					   "09223372036854775807-full" };
	char directory[DIRECTORY_MAX], path[CKPT_PATH_MAX], text[512];
	struct star_error err = { 0 };
	struct ckpt_next next;

	make_memory_directory(directory);
	for (unsigned i = 0; i < sizeof(far) / sizeof(far[0]); i++) {
		const struct save save = { .id = i + 1, .files = 1, .rows = 1, .run_rows = 1 };
		const bool is_name = i < 6; /* of a checkpoint: the others are not numbers of checkpoints */

		/* A folder or a file. */
		if (i % 2)
			CHECK_INT(mkdir(in(directory, far[i]).text, 0755), 0);
		else
			write_file(in(directory, far[i]).text, "x", 1);
		check_next(directory, i + 1, i + 1, is_name ? far[i] : "");
		CHECK_INT(save_checkpoint(directory, &save, &err), 0);
		CHECK_INT(ckpt_prune(directory, &(struct ckpt_pruning){ .keep = 1 }, &err), i ? 1 : 0);
		snprintf(text, sizeof(text), "%u-full", i + 1);
		CHECK_STR(chain_text(directory, 0, text, &err), text);
		CHECK(access(in(directory, far[i]).text, F_OK) == 0);
		CHECK_INT(remove(in(directory, far[i]).text), 0);
	}
	/* Checkpoints with such ids may have been moved elsewhere, and come back: later ones must be newer than they
	 * are. */
	CHECK_INT(mkdir(in(directory, "00000020-full").text, 0755), 0);
	CHECK_INT(mkdir(in(directory, "00000031-delta.partial").text, 0755), 0);
	CHECK_INT(mkdir(in(directory, "9223372036854775807-full").text, 0755), 0);
	check_next(directory, 21, 32, "9223372036854775807-full");
	/* One that is whole is not skipped: a restore would take it for the newest. */
	CHECK_INT(rmdir(in(directory, "9223372036854775807-full").text), 0);
	save_bare(directory, &(struct bare){ .id = INT64_MAX });
	CHECK_INT(ckpt_next_id(directory, true, &next, &err), -EOVERFLOW);
	CHECK_HAS(err.text, "/9223372036854775807-full has the highest number");
	CHECK_HAS(err.text, "move it to another directory");
	CHECK_INT(ckpt_begin(directory, next.id, 0, path, &err), -EINVAL);
	unit_remove(directory);
}

void prune_keeps_chains_whole(void)
{
	static const struct {
		const char *saved, *destroyed;
		uint64_t partial;
		uint32_t keep;
		int removed;
		const char *left;
	} cases[] = {
		{ "", NULL, 0, 1, 0, "" },
		{ "1 2<1 3<2", NULL, 0, 1, 0, "1-full 2-delta 3-delta" },
		{ "1 2<1 3 4<3 5<4 6 7<6", NULL, 0, 1, 5, "6-full 7-delta" },
		{ "1 2<1 3 4<3 5<4 6 7<6", NULL, 0, 2, 2, "3-full 4-delta 5-delta 6-full 7-delta" },
		{ "1 2<1 3 4<3 5<4 6 7<6", NULL, 0, 9, 0, "1-full 2-delta 3-full 4-delta 5-delta 6-full 7-delta" },
		/* A delta that does not go on from the latest full one: what it needs stays. */
		{ "1 2<1 3 4<2", NULL, 0, 1, 0, "1-full 2-delta 3-full 4-delta" },
		{ "1 2<1 3<2 4 5<2", NULL, 0, 1, 1, "1-full 2-delta 4-full 5-delta" },
		/* A damaged one does not count as kept; one from after the last good one is left for people to look
		 * at. */
		{ "1 2<1 3 4", "4-full", 0, 1, 2, "3-full 4-full!" },
		{ "1 2 3", "1-full", 0, 2, 1, "2-full 3-full" },
		{ "1 2<1", "1-full", 0, 1, 0, "1-full! 2-delta" },
		/* Unfinished ones: the newest may be one that is being written. */
		{ "1 2<1", NULL, 3, 1, 0, "1-full 2-delta 3-full.partial" },
		{ "1 3", NULL, 2, 2, 1, "1-full 3-full" },
	};
	struct star_error err = { 0 };

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char directory[DIRECTORY_MAX], path[CKPT_PATH_MAX], text[512];

		save_and_spoil(directory, cases[i].saved, NULL, cases[i].destroyed);
		if (cases[i].partial) {
			CHECK_INT(ckpt_begin(directory, cases[i].partial, 0, path, &err), 0);
			write_file(in(path, "a.star").text, "x", 1);
		}
		if (!CHECK_INT(ckpt_prune(directory, &(struct ckpt_pruning){ .keep = cases[i].keep }, &err),
			       cases[i].removed) ||
		    !CHECK_STR(list_text(directory, text), cases[i].left))
			printf("# case %u: %s\n", i, err.text);
		unit_remove(directory);
	}
	CHECK_INT(ckpt_prune("/", &(struct ckpt_pruning){ .keep = 0 }, &err), -EINVAL);
}

/* A folder within a checkpoint that is to go; names of unfinished ones that are links and files. */
void prune_goes_past_what_is_not_ours(void)
{
	char directory[DIRECTORY_MAX], outside[DIRECTORY_MAX], text[512];
	struct star_error err = { 0 };

	make_memory_directory(directory);
	make_memory_directory(outside);
	write_file(in(outside, "file").text, "x", 1);
	save_all(directory, "1 2<1 3 6 7<6");
	CHECK_INT(mkdir(in(directory, "00000003-full/notes").text, 0755), 0);
	CHECK_INT(symlink(outside, in(directory, "00000004-full.partial").text), 0);
	write_file(in(directory, "00000005-delta.partial").text, "x", 1);
	CHECK_INT(ckpt_prune(directory, &(struct ckpt_pruning){ .keep = 1 }, &err), -EISDIR);
	CHECK_HAS(err.text, "cannot remove ");
	CHECK_HAS(err.text, "00000003-full.partial: Is a directory");
	CHECK_STR(list_text(directory, text), "3-full.partial 6-full 7-delta");
	CHECK(access(in(outside, "file").text, F_OK) == 0);
	CHECK(access(in(directory, "00000003-full.partial/notes").text, F_OK) == 0);
	/* A save that finds such a name in its way. */
	CHECK_INT(symlink(outside, in(directory, "00000008-full.partial").text), 0);
	save_all(directory, "8");
	CHECK_STR(list_text(directory, text), "3-full.partial 6-full 7-delta 8-full");
	CHECK(access(in(outside, "file").text, F_OK) == 0);
	rmdir(in(directory, "00000003-full.partial/notes").text);
	CHECK_INT(ckpt_prune(directory, &(struct ckpt_pruning){ .keep = 1 }, &err), 3);
	unit_remove(directory);
	unit_remove(outside);
}

/* While a prune reads: a cluster that went back to checkpoint 1 goes on from that. */
static bool save_meanwhile(void *ctx, uint64_t done, uint64_t total)
{
	char text[512];

	if (!strstr(list_text(ctx, text), "4-delta"))
		save_all(ctx, "4<1");
	return true;
}

static void refuse_none(void *ctx, const char *name, const char *why)
{
	unit_fail(__FILE__, __LINE__, "%s: %s", name, why);
}

void prune_leaves_what_comes_meanwhile(void)
{
	char directory[DIRECTORY_MAX], text[512];
	struct ckpt_pruning pruning = { .keep = 1, .refused = refuse_none, .progress = save_meanwhile };
	struct star_error err = { 0 };

	make_memory_directory(directory);
	save_all(directory, "1 2 3");
	pruning.ctx = directory;
	CHECK_INT(ckpt_prune(directory, &pruning, &err), 1);
	CHECK_STR(list_text(directory, text), "1-full 3-full 4-delta");
	CHECK_STR(chain_text(directory, 4, text, &err), "1-full 4-delta");
	unit_remove(directory);
}

static void count_in_use(void *ctx, const char *name, pid_t holder)
{
	CHECK_STR(name, "00000002-delta");
	CHECK_INT(holder, getpid());
	++*(unsigned *)ctx;
}

/* A cluster has nothing else to begin with again than what it began with; its own saves know that. */
void prune_leaves_what_is_in_use(void)
{
	const uint64_t lineage = 0;
	unsigned told = 0;
	struct ckpt_pruning pruning = { .keep = 1, .in_use = count_in_use, .ctx = &told };
	char directory[DIRECTORY_MAX], text[512];
	struct star_error err = { 0 };
	int used;

	make_memory_directory(directory);
	save_all(directory, "1 2<1 3<2 4 5");
	CHECK_INT(ckpt_use(directory, 6), -ENOENT);
	used = ckpt_use(directory, 2);
	CHECK(used >= 0);
	CHECK_INT(ckpt_prune(directory, &pruning, &err), 2);
	CHECK_STR(list_text(directory, text), "1-full 2-delta 5-full");
	CHECK_UINT(told, 1);
	CHECK_INT(ckpt_prune(directory, &pruning, &err), 0);
	pruning.lineage = &lineage;
	CHECK_INT(ckpt_prune(directory, &pruning, &err), 2);
	CHECK_STR(list_text(directory, text), "5-full");
	CHECK_UINT(told, 2);
	close(used);
	unit_remove(directory);
}

void a_save_and_a_prune_wait_for_each_other(void)
{
	const struct ckpt_pruning pruning = { .keep = 1, .wait_us = 100000 };
	char directory[DIRECTORY_MAX], path[CKPT_PATH_MAX], text[512], pid[32];
	struct star_error err = { 0 };
	struct ckpt_claim claim;
	int prune;

	make_memory_directory(directory);
	save_all(directory, "1 2");
	snprintf(pid, sizeof(pid), "(process %d)", (int)getpid());
	ckpt_claim_init(&claim, directory);
	ckpt_claim_written(&claim); /* it was none */
	CHECK_INT(ckpt_claim_write(&claim, directory, 0, &err), 0);
	CHECK_INT(ckpt_claim_write(&claim, directory, 0, &err), 0);
	CHECK_INT(ckpt_begin(directory, 3, 1, path, &err), 0);
	CHECK_INT(ckpt_prune(directory, &pruning, &err), -EBUSY);
	CHECK_HAS(err.text, "a checkpoint is being written to ");
	CHECK_HAS(err.text, pid);
	CHECK_STR(list_text(directory, text), "1-full 2-full 3-delta.partial");
	ckpt_abandon(path);
	ckpt_claim_written(&claim);
	CHECK_INT(ckpt_prune(directory, &pruning, &err), 1);
	CHECK_STR(list_text(directory, text), "2-full");
	/* The other way round. */
	prune = open(in(directory, "starserver-saves.lock").text, O_RDONLY | O_CLOEXEC);
	CHECK_INT(flock(prune, LOCK_EX | LOCK_NB), 0);
	CHECK_INT(ckpt_claim_write(&claim, directory, 100000, &err), -EBUSY);
	CHECK_HAS(err.text, "checkpoints are being removed from ");
	CHECK_INT(ckpt_prune(directory, &pruning, &err), -EBUSY);
	close(prune);
	CHECK_INT(ckpt_claim_write(&claim, directory, 0, &err), 0);
	ckpt_claim_fini(&claim);
	CHECK_INT(ckpt_prune(directory, &pruning, &err), 0);
	unit_remove(directory);
}

/* One lineage's newest full ones are kept, and another's all. */
void prune_leaves_what_others_wrote(void)
{
	static const struct bare saves[] = {
		{ .id = 1, .lineage = 5 },
		{ .id = 2, .parent = 1, .lineage = 5 },
		{ .id = 3, .lineage = 6 },
		{ .id = 4, .lineage = 6 },
		{ .id = 5 },
		{ .id = 6, .lineage = 5 },
		{ .id = 7, .lineage = UINT64_MAX },
		{ .id = 8, .parent = 6, .lineage = 5 },
		{ .id = 9, .lineage = 5 },
	};
	static const struct {
		uint64_t lineage;
		uint32_t keep;
		int removed;
		const char *left;
	} steps[] = {
		{ 4, 1, 0, "1-full 2-delta 3-full 4-full 5-full 6-full 7-full 8-delta 9-full" },
		{ 5, 2, 2, "3-full 4-full 5-full 6-full 7-full 8-delta 9-full" },
		{ 6, 1, 1, "4-full 5-full 6-full 7-full 8-delta 9-full" },
		{ 5, 1, 2, "4-full 5-full 7-full 9-full" },
		{ 0, 1, 0, "4-full 5-full 7-full 9-full" },
		{ UINT64_MAX, 1, 0, "4-full 5-full 7-full 9-full" },
	};
	char directory[DIRECTORY_MAX], text[512];
	struct star_error err = { 0 };

	make_memory_directory(directory);
	for (unsigned i = 0; i < sizeof(saves) / sizeof(saves[0]); i++)
		save_bare(directory, &saves[i]);
	for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		CHECK_INT(ckpt_prune(directory,
				     &(struct ckpt_pruning){ .keep = steps[i].keep, .lineage = &steps[i].lineage },
				     &err),
			  steps[i].removed);
		CHECK_STR(list_text(directory, text), steps[i].left);
	}
	/* A checkpoint that cannot be read may be of any cluster; a prune by hand removes it too. */
	destroy_manifest(directory, "4-full");
	save_bare(directory, &(struct bare){ .id = 10, .lineage = 6 });
	CHECK_INT(ckpt_prune(directory, &(struct ckpt_pruning){ .keep = 1, .lineage = &(uint64_t){ 6 } }, &err), 0);
	CHECK_INT(ckpt_prune(directory, &(struct ckpt_pruning){ .keep = 1 }, &err), 4);
	CHECK_STR(list_text(directory, text), "10-full");
	unit_remove(directory);
}

/* Earlier programs wrote chains without a bound. */
void long_chains_are_read(void)
{
	enum { LENGTH = CKPT_CHAIN_MAX + 76 };
	struct passed_over over = { .looks = 10 * LENGTH };
	const struct ckpt_search search = { .progress = look, .refused = pass_over, .ctx = &over };
	const struct save one_more = { .id = LENGTH + 1, .parent = LENGTH, .files = 1, .rows = 1, .run_rows = 1 };
	char directory[DIRECTORY_MAX];
	struct star_error err = { 0 };
	uint32_t count = 0;
	char **chain;

	make_memory_directory(directory);
	for (uint64_t id = 1; id <= LENGTH; id++)
		save_bare(directory, &(struct bare){ .id = id, .parent = id - 1 });
	if (!CHECK_INT(ckpt_chain(directory, 0, &chain, &count, &err), 0))
		printf("# %s\n", err.text);
	CHECK_UINT(count, LENGTH);
	CHECK(count && strstr(chain[0], "00000001-full"));
	ckpt_chain_free(chain, count);
	CHECK_INT(ckpt_chain_good(directory, &search, &chain, &count, &err), 0);
	CHECK_UINT(count, LENGTH);
	ckpt_chain_free(chain, count);
	CHECK_STR(over.text, "");
	CHECK_INT(ckpt_chain_length(directory, LENGTH, 1024, &err), LENGTH);
	/* And none becomes longer. */
	CHECK_INT(save_checkpoint(directory, &one_more, &err), -EAGAIN);
	CHECK_HAS(err.text, "its chain would have 1100 checkpoints before it: 1023 are the most");
	CHECK_INT(ckpt_chain(directory, one_more.id, &chain, &count, &err), -ENOENT);
	unit_remove(directory);
}

/* It is not damaged: to begin with an older one would leave it to the next prune. */
void what_may_not_be_read_is_not_passed_over(void)
{
	struct passed_over over = { .looks = 10 };
	const struct ckpt_search search = { .progress = look, .refused = pass_over, .ctx = &over };
	char directory[DIRECTORY_MAX];
	struct star_error err = { 0 };
	uint32_t count = 0;
	char **chain;

	if (geteuid() != 0) /* who cannot become somebody else */
		return;
	make_directory(directory);
	CHECK_INT(chmod(directory, 0755), 0);
	save_bare(directory, &(struct bare){ .id = 1 });
	save_bare(directory, &(struct bare){ .id = 2 });
	for (unsigned id = 1; id <= 2; id++) {
		char folder[32], manifest[64];

		snprintf(folder, sizeof(folder), "%08u-full", id);
		snprintf(manifest, sizeof(manifest), "%s/manifest.json", folder);
		CHECK_INT(chmod(in(directory, folder).text, 0755), 0);
		CHECK_INT(chmod(in(directory, manifest).text, id == 1 ? 0644 : 0600), 0);
	}
	CHECK_INT(seteuid(65534), 0);
	CHECK_INT(ckpt_chain_good(directory, &search, &chain, &count, &err), -EACCES);
	CHECK_INT(seteuid(0), 0);
	CHECK_HAS(err.text, "00000002-full");
	CHECK_STR(over.text, "");
	unit_remove(directory);
}

void deltas_that_could_not_be_restored_are_refused(void)
{
	const struct save delta = { .id = 9, .parent = 3, .files = 1, .rows = 1, .run_rows = 1 };
	const struct save longest = {
		.id = CKPT_CHAIN_MAX + 20, .parent = CKPT_CHAIN_MAX + 18, .files = 1, .rows = 1, .run_rows = 1
	};
	char directory[DIRECTORY_MAX];
	struct star_error err = { 0 };

	make_memory_directory(directory);
	CHECK_INT(save_checkpoint(directory, &delta, &err), -EAGAIN);
	CHECK_HAS(err.text, "checkpoint 3 in ");
	CHECK_HAS(err.text, "is missing or incomplete");
	save_bare(directory, &(struct bare){ .id = 2, .partitions = 64 });
	save_bare(directory, &(struct bare){ .id = 3, .parent = 2 });
	CHECK_INT(save_checkpoint(directory, &delta, &err), -EAGAIN);
	CHECK_HAS(err.text, "has 64 partitions, not 1024");
	destroy_manifest(directory, "2-full");
	CHECK_INT(save_checkpoint(directory, &delta, &err), -EAGAIN);
	CHECK_HAS(err.text, "checkpoint 2 in ");
	/* The longest chain that is written. */
	save_bare(directory, &(struct bare){ .id = 20 });
	for (uint64_t id = 21; id < 20 + CKPT_CHAIN_MAX - 1; id++)
		save_bare(directory, &(struct bare){ .id = id, .parent = id - 1 });
	if (!CHECK_INT(save_checkpoint(directory, &longest, &err), 0))
		printf("# %s\n", err.text);
	CHECK_INT(ckpt_chain_length(directory, longest.id, 1024, &err), CKPT_CHAIN_MAX);
	unit_remove(directory);
}

void files_are_not_for_everybody(void)
{
	static const struct {
		const char *name;
		mode_t mode;
	} files[] = { { "00000001-full", 0750 },
		      { "00000001-full/manifest.json", 0640 },
		      { "00000001-full/node0-reactor0.star", 0640 },
		      { "dropped.json", 0640 } };
	const uint32_t generations[WIRE_OBJECTS_MAX + 1] = { [3] = 1 };
	const mode_t mask = umask(0);

	for (unsigned buffered = 0; buffered < 2; buffered++) {
		const struct save save = { .id = 1, .files = 1, .rows = 1, .run_rows = 1, .buffered = buffered };
		char directory[DIRECTORY_MAX];
		struct star_error err = { 0 };
		struct stat status;

		make_directory(directory);
		CHECK_INT(save_checkpoint(directory, &save, &err), 0);
		CHECK_INT(ckpt_dropped_write(directory, 5, generations, &err), 0);
		for (unsigned i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
			CHECK_INT(stat(in(directory, files[i].name).text, &status), 0);
			CHECK_INT(status.st_mode & 07777, files[i].mode);
		}
		unit_remove(directory);
	}
	umask(mask);
}
