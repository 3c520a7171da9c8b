/* SPDX-License-Identifier: BSD-3-Clause */
/* What summaries write is read by another decoder in tests/system/summaries.test; here the rest. */
#include "train/summary.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/prng.h"
#include "train/auc.h"
#include "train/crc32c.h"
#include "tests/train/cases.h"
#include "tests/unit.h"

void crc32c_is_the_published_one(void)
{
	uint8_t bytes[32];

	CHECK_UINT(crc32c("123456789", 9), 0xe3069283);
	/* RFC 3720, B.4 */
	memset(bytes, 0, sizeof(bytes));
	CHECK_UINT(crc32c(bytes, sizeof(bytes)), 0x8a9136aa);
	memset(bytes, 0xff, sizeof(bytes));
	CHECK_UINT(crc32c(bytes, sizeof(bytes)), 0x62a8ab43);
	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)i;
	CHECK_UINT(crc32c(bytes, sizeof(bytes)), 0x46dd794e);
}

void summaries_refuse_what_they_cannot_write(void)
{
	static char longer[200];
	const struct summary_scalar good = { "loss", 1 }, bad[] = { { "", 1 }, { longer, 1 }, { "a\nb", 1 } };
	char directory[UNIT_FOLDER];
	struct star_error err = { 0 };
	struct summary *summary;

	CHECK(!summary_create("/proc/no-such-folder", &err));
	CHECK_HAS(err.text, "/proc/no-such-folder");
	if (!unit_folder(directory, "summary"))
		return;
	memset(longer, 'x', sizeof(longer) - 1);
	summary = summary_create(directory, &err);
	if (!CHECK(summary))
		return;
	CHECK_INT(summary_write(summary, 1, &good, 1, &err), 0);
	CHECK_INT(summary_write(summary, 1, &good, 0, &err), -EINVAL);
	CHECK_INT(summary_write(summary, 1, &good, SUMMARY_SCALARS_MAX + 1, &err), -EINVAL);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK_INT(summary_write(summary, 1, &bad[i], 1, &err), -EINVAL);
	summary_destroy(summary);
	CHECK_UINT(unit_entries(directory), 4); /* with . and .. */
	unit_remove(directory);
}

/* All of a file of the directory whose name begins so; returns its bytes. */
static size_t read_file(const char *directory, const char *name, uint8_t *bytes, size_t most)
{
	DIR *dir = opendir(directory);
	struct dirent *entry;
	size_t n = 0;

	while (dir && (entry = readdir(dir))) {
		char path[512];
		FILE *file;

		if (strncmp(entry->d_name, name, strlen(name)) != 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name);
		file = fopen(path, "r");
		n = file ? fread(bytes, 1, most, file) : 0;
		if (file)
			fclose(file);
	}
	if (dir)
		closedir(dir);
	return n;
}

/* Whole records, to the end; how many. */
static unsigned count_records(const uint8_t *bytes, size_t n)
{
	unsigned count = 0;
	size_t at = 0;

	while (at < n) {
		uint64_t length;
		uint32_t crc;

		if (!CHECK(n - at > 16))
			return count;
		memcpy(&length, bytes + at, sizeof(length));
		memcpy(&crc, bytes + at + 8, sizeof(crc));
		if (!CHECK_UINT(crc, crc32c_masked(&length, sizeof(length))) || !CHECK(length <= n - at - 16))
			return count;
		memcpy(&crc, bytes + at + 12 + length, sizeof(crc));
		CHECK_UINT(crc, crc32c_masked(bytes + at + 12, length));
		at += 16 + length;
		count++;
	}
	return count;
}

static unsigned count_lines(const uint8_t *bytes, size_t n)
{
	unsigned count = 0;

	for (size_t i = 0; i < n; i++)
		count += bytes[i] == '\n';
	CHECK(n == 0 || bytes[n - 1] == '\n');
	return count;
}

/* A file may not grow beyond this. Of a full disk it is another number, and the same. */
static void limit_files(rlim_t bytes)
{
	struct rlimit limit;

	signal(SIGXFSZ, SIG_IGN);
	CHECK_INT(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = bytes;
	CHECK_INT(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* Summaries in a new directory, the first of which is written; NULL: there are none, which has been reported. */
static struct summary *begin(char directory[static UNIT_FOLDER], const struct summary_scalar *first)
{
	struct star_error err = { 0 };
	struct summary *summary = unit_folder(directory, "summary") ? summary_create(directory, &err) : NULL;

	if (CHECK(summary))
		CHECK_INT(summary_write(summary, 1, first, 1, &err), 0);
	return summary;
}

/* What fits in part is taken back: a reader of events goes no further than a record that is cut off. */
void summaries_that_do_not_fit_leave_nothing_behind(void)
{
	const struct summary_scalar scalar = { "loss", 1 };
	char directory[UNIT_FOLDER];
	static uint8_t bytes[4096];
	struct star_error err = { 0 };
	struct summary *summary;
	unsigned written = 1, failed = 0;

	summary = begin(directory, &scalar);
	if (!summary)
		return;
	/* Byte by byte more: each record and each line is cut off everywhere. */
	for (rlim_t room = 20; room < 400; room++) {
		limit_files(room);
		if (summary_write(summary, room, &scalar, 1, &err) < 0) {
			CHECK_INT(err.code, -EFBIG);
			CHECK_HAS(err.text, directory);
			failed++;
		} else {
			written++;
		}
	}
	limit_files(RLIM_INFINITY);
	CHECK(failed > 100 && written > 3);
	CHECK_INT(summary_write(summary, 1000, &scalar, 1, &err), 0);
	/* A version, and what was written; a line may be missing of an event that is there. */
	CHECK(count_records(bytes, read_file(directory, "events.", bytes, sizeof(bytes))) >= written + 2);
	CHECK_UINT(count_lines(bytes, read_file(directory, "summaries.jsonl", bytes, sizeof(bytes))), written + 1);
	summary_destroy(summary);
	unit_remove(directory);
}

void summaries_that_are_taken_away_are_started_again(void)
{
	const struct summary_scalar scalar = { "loss", 1 };
	char directory[UNIT_FOLDER];
	static uint8_t bytes[4096];
	struct star_error err = { 0 };
	struct summary *summary;
	FILE *file;

	summary = begin(directory, &scalar);
	if (!summary)
		return;
	unit_remove(directory);
	CHECK_INT(summary_write(summary, 2, &scalar, 1, &err), 0);
	CHECK_UINT(count_records(bytes, read_file(directory, "events.", bytes, sizeof(bytes))), 2);
	CHECK_UINT(count_lines(bytes, read_file(directory, "summaries.jsonl", bytes, sizeof(bytes))), 1);

	/* Something else stands in its place, and goes away again. */
	unit_remove(directory);
	file = fopen(directory, "w");
	CHECK(file && fclose(file) == 0);
	CHECK_INT(summary_write(summary, 3, &scalar, 1, &err), -ENOTDIR);
	CHECK_HAS(err.text, directory);
	CHECK_INT(summary_write(summary, 3, &scalar, 1, NULL), -ENOTDIR);
	CHECK_INT(remove(directory), 0);
	CHECK_INT(summary_write(summary, 4, &scalar, 1, &err), 0);
	CHECK_UINT(count_records(bytes, read_file(directory, "events.", bytes, sizeof(bytes))), 2);
	summary_destroy(summary);
	unit_remove(directory);
}

/* By its definition. */
static double auc_by_pairs(const struct auc_example *examples, size_t n)
{
	double won = 0, pairs = 0;

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < n; k++)
			if (examples[i].label > 0.5f && examples[k].label < 0.5f) {
				pairs++;
				won += examples[i].score > examples[k].score	? 1
				       : examples[i].score == examples[k].score ? 0.5
										: 0;
			}
	return won / pairs;
}

void auc_is_that_of_all_pairs(void)
{
	struct auc_example examples[300];
	struct star_error err = { 0 };
	struct prng p;
	double auc;

	for (uint64_t seed = 1; seed <= 50; seed++) {
		const size_t n = 2 + seed * 5;

		prng_seed(&p, seed);
		for (size_t i = 0; i < n; i++) /* few scores: many are equal */
			examples[i] = (struct auc_example){ (float)prng_below(&p, 1 + (uint32_t)seed * 3),
							    i == 0   ? 1
							    : i == 1 ? 0
								     : (float)prng_below(&p, 2) };
		const double expected = auc_by_pairs(examples, n);

		CHECK_INT(auc_exact(examples, n, &auc, &err), 0);
		CHECK_NEAR(auc, expected, 1e-12);
	}
}

void auc_needs_both_kinds(void)
{
	struct auc_example examples[] = { { 0.1f, 1 }, { 0.2f, 1 } };
	struct star_error err = { 0 };
	double auc;

	CHECK_INT(auc_exact(examples, 2, &auc, &err), -EINVAL);
	CHECK_HAS(err.text, "2 and 0");
	CHECK_INT(auc_exact(examples, 0, &auc, &err), -EINVAL);
	examples[0] = (struct auc_example){ (float)NAN, 0 };
	CHECK_INT(auc_exact(examples, 2, &auc, &err), -EINVAL);
	CHECK_HAS(err.text, "diverged");
}
