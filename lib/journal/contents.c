/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the lives and streams in a directory. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "journal/internal.h"
#include "journal/writer.h"

enum { FILES_MAX = 1 << 20, ASK_RECORDS = 4096 };

static int compare_files(const void *a, const void *b)
{
	const struct journal_file *x = a, *y = b;

	if (x->life != y->life)
		return x->life < y->life ? -1 : 1;
	if (x->reactor != y->reactor)
		return x->reactor < y->reactor ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

/* Lists the names of segments in the directory; other names are ignored. */
static int list_files(struct journal_contents *c, struct star_error *err)
{
	DIR *folder = opendir(c->directory);
	const struct dirent *entry;
	uint32_t room = 0;
	struct stat stat;

	if (!folder)
		return star_error_set(err, -errno, "journal.directory: %.300s cannot be read: %s", c->directory,
				      strerror(errno));
	while ((entry = readdir(folder))) {
		struct journal_file file;

		if (!journal_segment_parse(entry->d_name, &file.life, &file.reactor, &file.number))
			continue;
		if (c->files_count == room) {
			struct journal_file *files = NULL;

			room = room ? room * 2 : 64;
			if (room <= FILES_MAX)
				files = realloc(c->files, room * sizeof(*files));
			if (!files) {
				closedir(folder);
				return star_error_set(err, -ENOMEM,
						      "%.300s has too many files: it holds more than a journal's",
						      c->directory);
			}
			c->files = files;
		}
		file.bytes = file.used = 0;
		file.right = false;
		if (fstatat(dirfd(folder), entry->d_name, &stat, AT_SYMLINK_NOFOLLOW) == 0)
			file.bytes = (uint64_t)stat.st_size;
		c->bytes += file.bytes;
		c->files[c->files_count++] = file;
		if (file.life > c->last)
			c->last = file.life;
	}
	closedir(folder);
	if (c->files_count)
		qsort(c->files, c->files_count, sizeof(*c->files), compare_files);
	return 0;
}

static int add_instant(struct journal_stream *s, uint64_t id, uint64_t at, struct star_error *err)
{
	struct journal_mark_at *instants = realloc(s->instants, (s->instants_count + 1) * sizeof(*instants));

	if (!instants)
		return star_error_set(err, -ENOMEM, "out of memory");
	s->instants = instants;
	instants[s->instants_count++] = (struct journal_mark_at){ .id = id, .at = at };
	return 0;
}

static int take_record(struct journal_stream *s, const struct journal_record *record, uint64_t behind,
		       struct star_error *err)
{
	struct journal_instant instant;

	switch (record->kind) {
	case JOURNAL_MARK:
		s->end = behind;
		return 0;
	case JOURNAL_INSTANT:
		s->end = behind;
		if (record->bytes != sizeof(*record) + sizeof(instant))
			return star_error_set(err, -EBADMSG, "the journal has an instant of %u bytes", record->bytes);
		memcpy(&instant, record + 1, sizeof(instant));
		return add_instant(s, instant.id, behind, err);
	case JOURNAL_SUMS:
		s->sums = true;
		return 0;
	}
	return 0;
}

struct progress {
	bool (*ask)(void *ctx);
	void *ctx;
};

/* 1: it has begun; 0: it has not. */
static int read_stream(const struct journal_contents *c, struct journal_stream *s, const struct progress *progress,
		       struct star_error *err)
{
	const struct journal_record *record;
	struct journal_input in;
	uint64_t records = 0;
	int rc = journal_input_open(&in, c, &c->files[s->first_file], s->files_count, err);

	while (rc == 0) {
		rc = journal_input_next(&in, &record, err);
		if (!s->begin.magic && in.begun) {
			s->begin = in.begin;
			s->end = in.begin.position;
			s->sums = in.begin.flags & JOURNAL_SUMS_BEFORE;
		}
		if (rc <= 0)
			break;
		rc = take_record(s, record, journal_input_position(&in), err);
		if (rc == 0 && ++records % ASK_RECORDS == 0 && progress->ask && !progress->ask(progress->ctx))
			rc = star_error_set(err, -ECANCELED, "told to stop while the journal was read");
	}
	journal_input_close(&in);
	for (uint32_t i = 0; rc == 0 && i < s->files_count; i++)
		c->files[s->first_file + i].right = true;
	return rc < 0 ? rc : s->begin.magic != 0;
}

static void free_life(struct journal_past_life *life)
{
	for (uint32_t r = 0; life->streams && r < life->reactors; r++)
		free(life->streams[r].instants);
	free(life->streams);
	*life = (struct journal_past_life){ 0 };
}

static bool is_whole_life(const struct journal_contents *c, uint32_t life)
{
	char path[PATH_MAX], name[JOURNAL_NAME_MAX];

	journal_whole_name(name, life);
	return snprintf(path, sizeof(path), "%s/%s", c->directory, name) < (int)sizeof(path) && access(path, F_OK) == 0;
}

/* Reads all streams of a life whose files begin at `first` and end before `end`. 1: it exists; 0: it never began. */
static int read_life(const struct journal_contents *c, uint32_t first, uint32_t end, struct journal_past_life *life,
		     const struct progress *progress, struct star_error *err)
{
	const uint32_t reactors = c->files[end - 1].reactor + 1;
	const struct journal_stream *known = NULL;
	bool writes = false, complete;
	uint32_t there = 0;
	int rc = 1;

	*life = (struct journal_past_life){ .number = c->files[first].life, .reactors = reactors };
	life->streams = calloc(reactors, sizeof(*life->streams));
	if (!life->streams)
		return star_error_set(err, -ENOMEM, "out of memory");
	for (uint32_t at = first; rc >= 0 && at < end;) {
		struct journal_stream *s = &life->streams[c->files[at].reactor];
		const uint32_t reactor = c->files[at].reactor;

		s->first_file = at;
		while (at < end && c->files[at].reactor == reactor)
			at++;
		s->files_count = at - s->first_file;
		rc = read_stream(c, s, progress, err);
		there += rc > 0;
	}
	if (rc < 0) {
		life->fault = *err;
		return rc == -EBADMSG ? 1 : rc;
	}
	for (uint32_t r = 0; r < reactors; r++) {
		const struct journal_stream *s = &life->streams[r];

		writes |= s->end > s->begin.position;
		if (s->begin.magic)
			known = s;
		life->sums |= s->sums;
	}
	if (!known)
		return 0;
	/* A life can be used only when all of its streams have begun. */
	complete = known->begin.reactors == there && reactors == there;
	if (!complete && writes)
		star_error_set(&life->fault, -EBADMSG,
			       "the journal is damaged: in %.200s files of life %u are missing. " JOURNAL_MOVE_AWAY,
			       c->directory, life->number);
	else if (!complete)
		return 0;
	life->goes_on = known->begin.flags & JOURNAL_GOES_ON;
	life->after = known->begin.after;
	life->story = known->begin.story;
	life->whole = is_whole_life(c, life->number);
	life->incarnation = known->begin.incarnation;
	life->partitions = known->begin.partitions;
	life->cluster_reactors = known->begin.cluster_reactors;
	life->first_reactor = known->begin.first_reactor;
	life->base = known->begin.base;
	life->passed_over = known->begin.passed_over;
	return 1;
}

static int read_lives(struct journal_contents *c, const struct progress *progress, struct star_error *err)
{
	int rc = 0;

	for (uint32_t first = 0, end; rc >= 0 && first < c->files_count; first = end) {
		struct journal_past_life *lives, life;

		for (end = first; end < c->files_count && c->files[end].life == c->files[first].life;)
			end++;
		rc = read_life(c, first, end, &life, progress, err);
		if (rc <= 0) {
			free_life(&life);
			continue;
		}
		lives = realloc(c->lives, (c->lives_count + 1) * sizeof(*lives));
		if (!lives) {
			free_life(&life);
			return star_error_set(err, -ENOMEM, "out of memory");
		}
		c->lives = lives;
		c->lives[c->lives_count++] = life;
	}
	return rc < 0 ? rc : 0;
}

struct journal_contents *journal_contents_read(const char *directory, bool (*progress)(void *ctx), void *ctx,
					       struct star_error *err)
{
	const struct progress asked = { progress, ctx };
	struct journal_contents *c = calloc(1, sizeof(*c));
	int rc;

	if (c)
		c->directory = strdup(directory);
	if (!c || !c->directory) {
		free(c);
		star_error_set(err, -ENOMEM, "out of memory");
		return NULL;
	}
	rc = list_files(c, err);
	if (rc == 0)
		rc = read_lives(c, &asked, err);
	if (rc == 0)
		return c;
	journal_contents_free(c);
	return NULL;
}

void journal_contents_cut(struct journal_contents *c)
{
	const int folder = open(c->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (uint32_t i = 0; folder >= 0 && i < c->files_count; i++) {
		struct journal_file *file = &c->files[i];
		char name[JOURNAL_NAME_MAX];
		int fd;

		if (!file->right || file->used >= file->bytes)
			continue;
		journal_segment_name(name, file->life, file->reactor, file->number);
		fd = openat(folder, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
		if (fd >= 0 && ftruncate(fd, (off_t)file->used) == 0) {
			c->bytes -= file->bytes - file->used;
			file->bytes = file->used;
		}
		if (fd >= 0)
			close(fd);
	}
	if (folder >= 0)
		close(folder);
}

void journal_contents_free(struct journal_contents *c)
{
	if (!c)
		return;
	for (uint32_t i = 0; i < c->lives_count; i++)
		free_life(&c->lives[i]);
	free(c->lives);
	free(c->files);
	free(c->directory);
	free(c);
}

/* The position of the checkpoint's instant in a stream; UINT64_MAX: there is none. */
static uint64_t find_instant(const struct journal_stream *s, uint64_t id)
{
	for (uint32_t i = s->instants_count; i > 0; i--)
		if (s->instants[i - 1].id == id)
			return s->instants[i - 1].at;
	return UINT64_MAX;
}

uint64_t journal_stream_from(const struct journal_past_life *life, const struct journal_stream *stream, uint64_t id)
{
	const uint64_t at = find_instant(stream, id);

	if (at != UINT64_MAX)
		return at;
	return !life->goes_on && life->base == id && stream->begin.position == 0 ? 0 : UINT64_MAX;
}

static bool begins_with(const struct journal_past_life *life, uint64_t id)
{
	for (uint32_t r = 0; r < life->reactors; r++)
		if (journal_stream_from(life, &life->streams[r], id) == UINT64_MAX)
			return false;
	return true;
}

/* Checks that the records which a later life has applied are there. */
static int check_former(const struct journal_contents *c, const struct journal_past_life *before,
			const struct journal_past_life *life, struct star_error *err)
{
	for (uint32_t r = 0; r < life->reactors; r++) {
		uint64_t ends = 0;

		for (uint32_t q = r; q < before->reactors; q += life->reactors)
			ends += before->streams[q].end;
		if (ends != life->streams[r].begin.former)
			return star_error_set(err, -EBADMSG,
					      "the journal is damaged: in %.200s the end of life %u is missing, which "
					      "life %u continues. " JOURNAL_MOVE_AWAY,
					      c->directory, before->number, life->number);
	}
	return 0;
}

/* Whether the life at this index continues the one before it. */
static bool follows(const struct journal_contents *c, uint32_t at)
{
	return at > 0 && c->lives[at].goes_on && c->lives[at - 1].number == c->lives[at].after;
}

int journal_contents_from(const struct journal_contents *c, uint64_t id, uint32_t *first, struct star_error *err)
{
	for (uint32_t at = c->lives_count; at-- > 0;) {
		const struct journal_past_life *life = &c->lives[at];

		if (life->fault.code) {
			*err = life->fault;
			return err->code;
		}
		if (at + 1 < c->lives_count && check_former(c, life, life + 1, err) < 0)
			return err->code;
		*first = at;
		if (begins_with(life, id))
			return 1;
		/* Lives before one that starts from scratch do not belong to its history. */
		if (!follows(c, at))
			return 0;
	}
	return 0;
}

uint64_t journal_bytes(const char *directory, uint32_t up_to)
{
	struct journal_contents c = { .directory = (char *)directory };
	struct star_error ignored;
	uint64_t bytes = 0;

	if (list_files(&c, &ignored) < 0)
		bytes = UINT64_MAX;
	for (uint32_t i = 0; bytes != UINT64_MAX && i < c.files_count; i++)
		bytes += c.files[i].life <= up_to ? c.files[i].bytes : 0;
	free(c.files);
	return bytes;
}

int journal_remove(const char *directory, uint32_t up_to, struct star_error *err)
{
	struct journal_contents c = { .directory = (char *)directory };
	const int folder = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc = folder < 0 ? star_error_set(err, -errno, "journal.directory: %.300s cannot be opened: %s", directory,
					     strerror(errno))
			    : list_files(&c, err);

	for (uint32_t i = 0; rc == 0 && i < c.files_count; i++) {
		char name[JOURNAL_NAME_MAX];

		if (c.files[i].life > up_to)
			continue;
		journal_whole_name(name, c.files[i].life);
		unlinkat(folder, name, 0);
		journal_segment_name(name, c.files[i].life, c.files[i].reactor, c.files[i].number);
		if (unlinkat(folder, name, 0) < 0 && errno != ENOENT)
			rc = star_error_set(err, -errno, "%.200s/%s cannot be removed: %s", directory, name,
					    strerror(errno));
	}
	if (rc == 0 && fsync(folder) < 0)
		rc = star_error_set(err, -errno, "%.300s cannot be synced: %s", directory, strerror(errno));
	free(c.files);
	if (folder >= 0)
		close(folder);
	return rc;
}
