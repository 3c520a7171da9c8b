/* SPDX-License-Identifier: BSD-3-Clause */
/* A save or a prune that ends, or fails, at each of its writes, syncs and renames: the last good checkpoint is always
 * found. */
#include "tests/ckpt/cases.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/ckpt/shim.h"
#include "tests/ckpt/support.h"
#include "tests/unit.h"

enum { CALLS_MAX = 500 };

static const struct save before[] = {
	{ .id = 1, .files = 1, .rows = 1, .run_rows = 1 },
	{ .id = 2, .parent = 1, .files = 1, .rows = 1, .run_rows = 1 },
	{ .id = 3, .files = 2, .rows = 2, .run_rows = 2 },
	{ .id = 4, .parent = 3, .files = 2, .rows = 2, .run_rows = 2 },
};
enum { BEFORE = sizeof(before) / sizeof(before[0]), NEWEST = BEFORE };
static const struct save next = { .id = 5, .parent = 4, .files = 2, .rows = 3, .run_rows = 2, .run_limit = 2000 };

/* A directory with checkpoints, and what is left of a fifth. */
struct scene {
	char directory[DIRECTORY_MAX], stash[DIRECTORY_MAX];
};

static bool set_up(struct scene *scene)
{
	char path[CKPT_PATH_MAX];
	struct star_error err = { 0 };

	make_memory_directory(scene->directory);
	make_memory_directory(scene->stash);
	for (unsigned i = 0; i < BEFORE; i++)
		if (save_checkpoint(scene->directory, &before[i], &err) < 0)
			return unit_fail(__FILE__, __LINE__, "%s", err.text);
	if (ckpt_begin(scene->directory, next.id, next.parent, path, &err) < 0)
		return unit_fail(__FILE__, __LINE__, "%s", err.text);
	write_file(in(path, "node0-reactor0.star").text, "left over", 9);
	return true;
}

static void tear_down(struct scene *scene)
{
	unit_remove(scene->directory);
	unit_remove(scene->stash);
}

static int save_next(const struct scene *scene, struct star_error *err)
{
	return save_checkpoint(scene->directory, &next, err);
}

static int prune_old(const struct scene *scene, struct star_error *err)
{
	return ckpt_prune(scene->directory, &(struct ckpt_pruning){ .keep = 1 }, err);
}

/* The id of the newest that restores; its whole chain is in order, bit for bit. 0 with failures recorded. */
static uint64_t newest_good(const struct scene *scene)
{
	struct star_error err = { 0 };
	uint64_t id = 0;
	uint32_t count;
	char **chain;

	if (ckpt_chain(scene->directory, 0, &chain, &count, &err) < 0)
		return unit_fail(__FILE__, __LINE__, "%s", err.text);
	for (uint32_t i = 0; i < count; i++) {
		id = strtoull(strrchr(chain[i], '/') + 1, NULL, 10);
		if (!check_saved(chain[i], id == next.id ? &next : &before[id - 1]))
			id = 0;
	}
	ckpt_chain_free(chain, count);
	return id;
}

static unsigned partial_ones(const struct scene *scene)
{
	struct ckpt_entry *entries;
	uint32_t count;
	unsigned partial = 0;

	if (!CHECK_INT(ckpt_list(scene->directory, &entries, &count, NULL), 0))
		return 1000;
	for (uint32_t i = 0; i < count; i++)
		partial += !entries[i].complete;
	free(entries);
	return partial;
}

/* After whatever happened a save and a prune do all that they should. */
static bool goes_on(const struct scene *scene, uint64_t newest)
{
	struct star_error err = { 0 };
	struct ckpt_next after;

	if (!CHECK_INT(ckpt_next_id(scene->directory, false, &after, &err), 0) || !CHECK_UINT(after.id, newest + 1))
		return false;
	if (after.id == next.id && !CHECK_INT(save_next(scene, &err), 0))
		return unit_fail(__FILE__, __LINE__, "%s", err.text);
	if (!CHECK(prune_old(scene, &err) >= 0))
		return unit_fail(__FILE__, __LINE__, "%s", err.text);
	return CHECK_UINT(newest_good(scene), next.id) && CHECK_UINT(partial_ones(scene), 0);
}

/* In a process of its own; its exit status. */
static int in_child(const struct scene *scene, int (*act)(const struct scene *, struct star_error *),
		    struct shim_plan *plan)
{
	struct star_error err = { 0 };
	int status = -1;
	pid_t pid;

	fflush(stdout);
	plan->stash = scene->stash;
	pid = fork();
	if (pid == 0) {
		shim_arm(plan);
		/* What was reported as done must last, too. */
		shim_end(act(scene, &err) < 0 ? 1 : 0);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Ends at call n; true while there is an n-th call. */
static bool crash_at(unsigned n, int (*act)(const struct scene *, struct star_error *), struct shim_plan plan)
{
	struct scene scene;
	uint64_t newest = 0;
	int status = -1;
	bool good;

	plan.at = n;
	good = set_up(&scene);
	if (good) {
		status = in_child(&scene, act, &plan);
		newest = newest_good(&scene);
		good = CHECK(status == 0 || status == SHIM_EXIT) && CHECK(newest >= NEWEST);
		if (good && status == 0 && act == save_next)
			good = CHECK_UINT(newest, next.id);
		if (good && act == prune_old)
			good = CHECK_UINT(newest, NEWEST);
		good = good && goes_on(&scene, newest);
	}
	if (!good)
		printf("# at call %u, %s, data %s, names %s\n", n, plan.way == SHIM_TEAR ? "torn" : "not begun",
		       plan.lose_data ? "lost" : "kept", plan.lose_names ? "lost" : "kept");
	tear_down(&scene);
	return good && status == SHIM_EXIT;
}

/* At every call; how many there are. */
static unsigned crash_everywhere(int (*act)(const struct scene *, struct star_error *))
{
	static const struct shim_plan plans[] = {
		{ .way = SHIM_CRASH },
		{ .way = SHIM_CRASH, .lose_data = true },
		{ .way = SHIM_CRASH, .lose_names = true },
		{ .way = SHIM_CRASH, .lose_data = true, .lose_names = true },
		{ .way = SHIM_TEAR },
		{ .way = SHIM_TEAR, .lose_names = true },
	};
	unsigned n = 0;

	for (unsigned i = 0; i < sizeof(plans) / sizeof(plans[0]); i++)
		for (n = 0; n < CALLS_MAX && crash_at(n, act, plans[i]); n++)
			;
	return n;
}

/* Removes what was left over, makes a folder, two files of some blocks, a manifest; two renames. */
void save_that_ends_anywhere_leaves_the_last_good_one(void)
{
	CHECK(crash_everywhere(save_next) >= 20);
}

void prune_that_ends_anywhere_leaves_the_last_good_one(void)
{
	CHECK(crash_everywhere(prune_old) >= 8);
}

/* Fails at call n, as a full disk or a bad one does. */
static bool fail_at(unsigned n, int code, unsigned *calls)
{
	const struct shim_plan plan = { .way = SHIM_FAIL, .at = n, .code = code };
	struct shim_plan with_stash = plan;
	struct star_error err = { 0 };
	struct scene scene;
	bool good = set_up(&scene);
	int rc = 0;

	if (good) {
		with_stash.stash = scene.stash;
		shim_arm(&with_stash);
		rc = save_next(&scene, &err);
		*calls = shim_disarm();
		if (n < *calls)
			good = CHECK_INT(rc, -code) && CHECK_HAS(err.text, "cannot ") &&
			       CHECK_HAS(err.text, scene.directory) && CHECK_UINT(newest_good(&scene), NEWEST) &&
			       goes_on(&scene, NEWEST);
		else
			good = CHECK_INT(rc, 0) && goes_on(&scene, next.id);
	}
	if (!good)
		printf("# with error %d at call %u: %d, %s\n", code, n, rc, err.text);
	tear_down(&scene);
	return good;
}

void save_that_fails_anywhere_says_why(void)
{
	static const int codes[] = { ENOSPC, EIO, EROFS, EDQUOT };

	for (unsigned i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		unsigned calls = 1, n = 0;

		while (n <= calls && n < CALLS_MAX && fail_at(n, codes[i], &calls))
			n++;
		CHECK(n >= 20);
	}
}
