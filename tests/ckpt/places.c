/* SPDX-License-Identifier: BSD-3-Clause */
/* Directories that are full, not to be written, or gone. Mounts are a child process's own. */
#include "tests/ckpt/cases.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/ckpt/shim.h"
#include "tests/ckpt/support.h"
#include "tests/unit.h"

static const struct save small = { .id = 1, .files = 2, .rows = 2, .run_rows = 2 };
static const struct save large = { .id = 2, .files = 2, .rows = 2000, .run_rows = 200 };

void file_systems_without_direct_are_used(void)
{
	static const enum shim_direct where[] = { SHIM_DIRECT_NOT_OPENED, SHIM_DIRECT_NOT_USED };

	for (unsigned i = 0; i < 2; i++) {
		char directory[DIRECTORY_MAX];
		struct star_error err = { 0 };

		make_directory(directory);
		shim_refuse_direct(where[i]);
		if (CHECK_INT(save_checkpoint(directory, &large, &err), 0)) {
			CHECK(check_saved(checkpoint_path(directory, &large).text, &large));
			shim_refuse_direct(SHIM_DIRECT_TAKEN);
			CHECK(check_saved(checkpoint_path(directory, &large).text, &large));
		}
		shim_refuse_direct(SHIM_DIRECT_TAKEN);
		unit_remove(directory);
	}
}

/* Runs act with a small tmpfs at directory, which the child alone sees. */
static void on_small_tmpfs(bool (*act)(const char *directory))
{
	char directory[DIRECTORY_MAX];
	int status = -1;
	pid_t pid;

	make_directory(directory);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		bool good = (unshare(CLONE_NEWNS) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0) &&
			    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
			    mount("none", directory, "tmpfs", 0, "size=256k") == 0;

		if (!good)
			printf("# no mount: %s\n", strerror(errno));
		good = good && act(directory);
		fflush(stdout);
		_exit(good ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	CHECK_INT(status, 0);
	rmdir(directory);
}

static bool fill(const char *directory)
{
	struct star_error err = { 0 };
	struct ckpt_entry *entries;
	uint32_t count;

	if (!CHECK_INT(save_checkpoint(directory, &small, &err), 0))
		return unit_fail(__FILE__, __LINE__, "%s", err.text);
	if (!CHECK_INT(save_checkpoint(directory, &large, &err), -ENOSPC) || !CHECK_HAS(err.text, "cannot write ") ||
	    !CHECK_HAS(err.text, "node0-reactor0.star: No space left on device: free space there"))
		return false;
	/* What it took is given back, and the first one is as it was. */
	if (!CHECK_INT(ckpt_list(directory, &entries, &count, &err), 0) || !CHECK_UINT(count, 1))
		return false;
	free(entries);
	return check_saved(checkpoint_path(directory, &small).text, &small);
}

void full_file_system_is_told(void)
{
	on_small_tmpfs(fill);
}

static bool write_protect(const char *directory)
{
	struct star_error err = { 0 };

	if (!CHECK_INT(save_checkpoint(directory, &small, &err), 0) ||
	    !CHECK_INT(mount("none", directory, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0))
		return false;
	return CHECK_INT(save_checkpoint(directory, &large, &err), -EROFS) &&
	       CHECK_HAS(err.text, "00000002-full.partial: Read-only file system: mount it for writing") &&
	       check_saved(checkpoint_path(directory, &small).text, &small) &&
	       CHECK_INT(ckpt_verify(checkpoint_path(directory, &small).text, NULL, NULL, &err), 0) &&
	       CHECK_INT(ckpt_prune(directory, &(struct ckpt_pruning){ .keep = 1 }, &err), 0);
}

void read_only_directory_is_told(void)
{
	on_small_tmpfs(write_protect);
}

/* Goes away before the writer, while it writes, and before the end. */
void vanished_directory_is_told(void)
{
	for (unsigned stage = 0; stage < 4; stage++) {
		const struct ckpt_writer_options options = { .header = { .id = 1, .partitions = 1 } };
		uint8_t *block = aligned_alloc(CHECKPOINT_ALIGN, CHECKPOINT_BLOCK_MAX);
		char directory[DIRECTORY_MAX], path[CKPT_PATH_MAX];
		struct star_error err = { 0 };
		struct ckpt_writer *writer = NULL;
		struct ckpt_file file = { 0 };
		struct ckpt_manifest manifest = {
			.id = 1, .partitions = 1, .tasks = 1, .reactors = 1, .files_count = 1, .files = &file
		};
		int rc = 0;

		memset(block, 0, CHECKPOINT_ALIGN);
		make_directory(directory);
		if (stage == 0)
			unit_remove(directory);
		rc = ckpt_begin(directory, 1, 0, path, &err);
		if (stage == 1)
			unit_remove(directory);
		if (rc == 0 && !(writer = ckpt_writer_create(path, "a.star", &options, &err)))
			rc = err.code;
		if (stage == 2)
			unit_remove(directory);
		/* An open file can still be written where its name is gone. */
		if (rc == 0 && CHECK_INT(ckpt_writer_block(writer, block, 8, 0, 0, &err), 0) &&
		    CHECK_INT(ckpt_writer_finish(writer, &file, &err), 0)) {
			if (stage == 3)
				unit_remove(directory);
			rc = ckpt_commit(path, &manifest, &err);
		}
		CHECK_INT(rc, -ENOENT);
		CHECK_HAS(err.text, "No such file or directory: make the directory, or mount what it lies on");
		CHECK_HAS(err.text, directory);
		ckpt_abandon(path);
		CHECK(access(directory, F_OK) < 0);
		ckpt_writer_destroy(writer);
		free(block);
	}
}

static bool vanish(const char *directory)
{
	struct ckpt_claim claim;
	struct star_error err = { 0 };
	bool good;

	ckpt_claim_init(&claim, directory);
	good = CHECK_INT(umount(directory), 0) && CHECK_INT(ckpt_claim_take(&claim, directory, &err), -ENODEV) &&
	       CHECK_HAS(err.text, "is not mounted any more: mount it again") &&
	       CHECK_INT(mount("none", directory, "tmpfs", 0, "size=256k"), 0) &&
	       CHECK_INT(ckpt_claim_take(&claim, directory, &err), 0) &&
	       CHECK_INT(ckpt_claim_take(&claim, directory, &err), 0) &&
	       /* The same when it was taken: it goes although it is held. */
	       CHECK_INT(umount2(directory, MNT_DETACH), 0) &&
	       CHECK_INT(ckpt_claim_take(&claim, directory, &err), -ENODEV) &&
	       CHECK_INT(mount("none", directory, "tmpfs", 0, "size=256k"), 0) &&
	       CHECK_INT(ckpt_claim_take(&claim, directory, &err), 0);
	ckpt_claim_fini(&claim);
	return good;
}

void vanished_mount_is_told(void)
{
	on_small_tmpfs(vanish);
}

void directory_of_another_cluster_is_told(void)
{
	struct ckpt_claim ours, others;
	char directory[DIRECTORY_MAX], said[2 * DIRECTORY_MAX];
	struct star_error err = { 0 };

	make_memory_directory(directory);
	ckpt_claim_init(&ours, directory);
	ckpt_claim_init(&others, directory);
	CHECK_INT(ckpt_claim_holder(directory), 0);
	CHECK_INT(ckpt_claim_take(&ours, directory, &err), 0);
	CHECK_INT(ckpt_claim_holder(directory), getpid());
	CHECK_INT(ckpt_claim_take(&others, directory, &err), -EBUSY);
	snprintf(said, sizeof(said), "another cluster writes its checkpoints to %s (process %d): give each", directory,
		 (int)getpid());
	CHECK_HAS(err.text, said);
	CHECK_INT(ckpt_claim_take(&ours, directory, &err), 0);
	ckpt_claim_fini(&ours);
	CHECK_INT(ckpt_claim_take(&others, directory, &err), 0);
	/* Another one in its place. */
	unit_remove(directory);
	CHECK_INT(ckpt_claim_take(&others, directory, &err), -ENOENT);
	CHECK_INT(mkdir(directory, 0755), 0);
	CHECK_INT(ckpt_claim_take(&others, directory, &err), 0);
	CHECK_INT(ckpt_claim_take(&ours, directory, &err), -EBUSY);
	ckpt_claim_fini(&others);
	unit_remove(directory);
}
