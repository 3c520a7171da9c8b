/* SPDX-License-Identifier: BSD-3-Clause */
/* Files that are not as they were written. */
#include "tests/ckpt/cases.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/ckpt/support.h"
#include "tests/unit.h"

/* Two blocks of rows, and the last: each kind of byte that there is. */
static const struct save small = { .id = 7, .parent = 6, .files = 1, .rows = 2, .run_rows = 2, .run_limit = 3000 };
static const char *const files[] = { "node0-reactor0.star", "manifest.json" };

static bool refused(const char *path, const char *what, size_t at)
{
	struct star_error err = { 0 };
	const int rc = ckpt_verify(path, NULL, NULL, &err);

	if (rc == -EBADMSG && strstr(err.text, "/") && strstr(err.text, ": "))
		return true;
	return unit_fail(__FILE__, __LINE__, "%s, byte %zu: %d, \"%s\"", what, at, rc, err.text);
}

void no_flipped_byte_is_accepted(void)
{
	const unsigned bits = getenv("STAR_SOAK") ? 8 : 1;
	char directory[DIRECTORY_MAX];
	struct star_error err = { 0 };
	struct path path;
	bool good = true;

	make_memory_directory(directory);
	path = checkpoint_path(directory, &small);
	save_bare(directory, &(struct bare){ .id = small.parent });
	good = CHECK_INT(save_checkpoint(directory, &small, &err), 0);
	for (unsigned i = 0; i < 2 && good; i++) {
		const struct path name = in(path.text, files[i]);
		const int fd = open(name.text, O_WRONLY);
		size_t bytes;
		uint8_t *data = read_file(name.text, &bytes);

		for (size_t at = 0; at < bytes && good; at++)
			for (unsigned bit = 0; bit < bits && good; bit++) {
				const uint8_t flipped = (uint8_t)(data[at] ^ 1 << (at + bit) % 8);

				good = CHECK_INT(pwrite(fd, &flipped, 1, (off_t)at), 1) &&
				       refused(path.text, files[i], at) &&
				       CHECK_INT(pwrite(fd, &data[at], 1, (off_t)at), 1);
			}
		close(fd);
		free(data);
	}
	/* And it was the flipped byte that did it. */
	if (good)
		CHECK(check_saved(path.text, &small));
	unit_remove(directory);
}

void no_cut_file_is_accepted(void)
{
	static const uint8_t zeros[CHECKPOINT_ALIGN];
	char directory[DIRECTORY_MAX];
	struct star_error err = { 0 };
	struct path path;
	bool good;

	make_memory_directory(directory);
	path = checkpoint_path(directory, &small);
	save_bare(directory, &(struct bare){ .id = small.parent });
	good = CHECK_INT(save_checkpoint(directory, &small, &err), 0);
	for (unsigned i = 0; i < 2 && good; i++) {
		const struct path name = in(path.text, files[i]);
		size_t bytes;
		uint8_t *data = read_file(name.text, &bytes);

		for (size_t at = 0; at < bytes && good; at += 512) {
			write_file(name.text, data, at);
			good = refused(path.text, "cut", at);
		}
		for (size_t more = 1; more <= sizeof(zeros) && good; more *= 4) {
			uint8_t *longer = memcpy(malloc(bytes + more), data, bytes);

			memcpy(longer + bytes, zeros, more);
			write_file(name.text, longer, bytes + more);
			free(longer);
			good = refused(path.text, "longer", bytes + more);
		}
		write_file(name.text, data, bytes);
		free(data);
	}
	if (good)
		CHECK(check_saved(path.text, &small));
	unit_remove(directory);
}

/* A good checkpoint, one of whose files something else stands in for. */
struct foreign {
	char directory[DIRECTORY_MAX], other[DIRECTORY_MAX];
	struct path checkpoint, name;
	struct path theirs; /* the same file of another checkpoint of the same id */
};

static const struct save two = { .id = 7, .parent = 6, .files = 2, .rows = 3, .run_rows = 2 };

static void is_missing(struct foreign *f)
{
}

static void is_empty(struct foreign *f)
{
	write_file(f->name.text, "", 0);
}

static void is_text(struct foreign *f)
{
	static char text[3 * CHECKPOINT_ALIGN];

	memset(text, 'x', sizeof(text));
	write_file(f->name.text, text, sizeof(text));
}

static void is_folder(struct foreign *f)
{
	mkdir(f->name.text, 0755);
}

static void is_pipe(struct foreign *f)
{
	mkfifo(f->name.text, 0644);
}

static void is_link(struct foreign *f)
{
	CHECK_INT(symlink(f->theirs.text, f->name.text), 0);
}

static void is_of_another_save(struct foreign *f)
{
	size_t bytes;
	uint8_t *data = read_file(f->theirs.text, &bytes);

	write_file(f->name.text, data, bytes);
	free(data);
}

static void is_of_another_reactor(struct foreign *f)
{
	const struct path neighbour = in(f->checkpoint.text, "node0-reactor0.star");
	size_t bytes;
	uint8_t *data = read_file(neighbour.text, &bytes);

	write_file(f->name.text, data, bytes);
	free(data);
}

void foreign_files_are_refused(void)
{
	static const struct {
		void (*make)(struct foreign *f);
		const char *says;
	} cases[] = {
		{ is_missing, "it is missing" },
		{ is_empty, "it has 0 bytes" },
		{ is_text, "it has 12288 bytes" },
		{ is_folder, "it is not a regular file" },
		{ is_pipe, "it is not a regular file" },
		{ is_link, "symbolic link" },
		{ is_of_another_save, "it is not the file of this manifest" },
		{ is_of_another_reactor, "it is another file than the manifest says" },
	};
	struct save other = two; /* the same shape, other rows */
	struct star_error err = { 0 };
	struct foreign f;

	other.seed = 1;
	make_memory_directory(f.directory);
	make_memory_directory(f.other);
	f.checkpoint = checkpoint_path(f.directory, &two);
	f.name = in(f.checkpoint.text, "node0-reactor1.star");
	f.theirs = in(checkpoint_path(f.other, &two).text, "node0-reactor1.star");
	save_bare(f.other, &(struct bare){ .id = other.parent });
	save_bare(f.directory, &(struct bare){ .id = two.parent });
	CHECK_INT(save_checkpoint(f.other, &other, &err), 0);
	CHECK_INT(save_checkpoint(f.directory, &two, &err), 0);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		unlink(f.name.text);
		cases[i].make(&f);
		CHECK(ckpt_verify(f.checkpoint.text, NULL, NULL, &err) < 0);
		CHECK_HAS(err.text, cases[i].says);
		CHECK_HAS(err.text, "node0-reactor1.star");
		rmdir(f.name.text);
	}
	unit_remove(f.other);
	unit_remove(f.directory);
}
