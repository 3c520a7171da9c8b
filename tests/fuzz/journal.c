/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Folders of journals that somebody made: several lives and streams of any records, cut into blocks and segments
 * anywhere, the oldest segments gone, as an input asks for it; then files are changed, with their checksums made right
 * again or not, cut short, or taken away.
 *
 * What nobody has changed is read, and exactly that. Whatever is accepted has whole records in order up to the streams'
 * ends, and is the same when what files hold beyond it was given back.
 */
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "journal/reader.h"
#include "journal/writer.h"

enum {
	LIVES_MAX = 3,
	STREAMS_MAX = 2,
	FILES = 32,
	STREAM_BYTES = 600 << 10,
	FILE_BYTES = STREAM_BYTES + 64 * JOURNAL_ALIGN,
	ID = 5,
	SEGMENTS = 4,
};

/* As it is to be read, if nothing is changed. */
struct expected {
	uint64_t begin, end; /* of the first segment that is there; behind the last mark */
	uint64_t from;	     /* behind the instant of ID; 0: there is none */
	unsigned records;    /* up to the end, from the first that begins in a segment that is there */
};

static char directory[64];
static uint8_t *stream, *file;
static struct expected expected[LIVES_MAX + 1][STREAMS_MAX];
static struct journal_file made[FILES];
static unsigned made_count;

static void path_of(char path[static 128], const struct journal_file *f)
{
	char name[JOURNAL_NAME_MAX];

	journal_segment_name(name, f->life, f->reactor, f->number);
	snprintf(path, 128, "%s/%s", directory, name);
}

static void clear_all(void)
{
	char path[128];

	for (unsigned i = 0; i < made_count; i++) {
		path_of(path, &made[i]);
		unlink(path);
	}
	made_count = 0;
}

/* ---- a stream ---- */

static uint32_t put_record(uint32_t at, unsigned kind, const void *content, uint32_t bytes)
{
	const struct journal_record record = { .bytes = (uint32_t)sizeof(record) + bytes, .kind = (uint16_t)kind };

	memcpy(stream + at, &record, sizeof(record));
	if (content)
		memcpy(stream + at + sizeof(record), content, bytes);
	else
		memset(stream + at + sizeof(record), kind, bytes);
	return at + record.bytes;
}

static uint32_t draw_stream(struct input *in, bool instant)
{
	const struct journal_instant id = { .id = ID };
	uint32_t at = 0;

	for (unsigned n = 1 + take8(in) % 32; n; n--) {
		const uint8_t how = take8(in);
		const uint32_t bytes = how & 0x80 ? (uint32_t)take16(in) * 4 / 8 * 8 : how & 0x78;

		if (at + bytes + 4 * sizeof(struct journal_record) + sizeof(id) > STREAM_BYTES)
			break;
		switch (how & 7) {
		case 0:
			at = put_record(at, JOURNAL_MARK, NULL, 0);
			break;
		case 1:
			if (instant)
				at = put_record(at, JOURNAL_INSTANT, &id, sizeof(id));
			instant = false;
			break;
		case 2:
			at = put_record(at, JOURNAL_SUMS, NULL, 0);
			break;
		default:
			at = put_record(at, how & 7 ? JOURNAL_RUN : JOURNAL_OUTCOME, NULL, bytes);
		}
	}
	return put_record(at, JOURNAL_RUN, NULL, 0);
}

/* Where the first record begins that begins there or behind it. */
static uint32_t first_record(uint32_t from)
{
	uint32_t at = 0;

	while (at < from)
		at += ((const struct journal_record *)(stream + at))->bytes;
	return at;
}

/* What is read of a stream that is there between these two. */
static struct expected look_through(uint32_t begin, uint32_t end)
{
	struct expected e = { .begin = begin, .end = begin };
	unsigned records = 0;

	for (uint32_t at = first_record(begin); at < end;) {
		const struct journal_record *record = (const struct journal_record *)(stream + at);

		at += record->bytes;
		if (at > end)
			break;
		records++;
		if (record->kind != JOURNAL_MARK && record->kind != JOURNAL_INSTANT)
			continue;
		e.end = at;
		e.records = records;
		if (record->kind == JOURNAL_INSTANT)
			e.from = at;
	}
	return e;
}

/* Writes a segment of blocks from a position on; where the next one begins. */
static uint32_t write_segment(struct input *in, struct journal_segment *header, uint32_t at, uint32_t bytes, bool keep)
{
	uint32_t used = JOURNAL_ALIGN;
	char path[128];
	int fd;

	header->position = at;
	header->first_record = first_record(at) - at;
	header->checksum = journal_segment_checksum(header);
	memset(file, 0, JOURNAL_ALIGN);
	memcpy(file, header, sizeof(*header));
	for (unsigned n = 1 + take8(in) % 4; n && at < bytes; n--) {
		const uint32_t most = 8 + (uint32_t)take16(in) * (n & 1 ? 1 : 8) / 8 * 8;
		struct journal_block *block = (struct journal_block *)(file + used);
		const uint32_t payload = most < bytes - at ? most : bytes - at;
		const uint32_t all =
			(uint32_t)(sizeof(*block) + payload + JOURNAL_ALIGN - 1) / JOURNAL_ALIGN * JOURNAL_ALIGN;

		memset(block, 0, all);
		*block = (struct journal_block){ .magic = JOURNAL_BLOCK_MAGIC,
						 .life = header->life,
						 .reactor = header->reactor,
						 .position = at,
						 .bytes = payload };
		memcpy(block + 1, stream + at, payload);
		block->checksum = journal_block_checksum(block, block + 1);
		at += payload;
		used += all;
	}
	if (!keep)
		return at;
	made[made_count++] =
		(struct journal_file){ .life = header->life, .reactor = header->reactor, .number = header->number };
	path_of(path, &made[made_count - 1]);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	FUZZ_CHECK(fd >= 0 && write(fd, file, used) == (ssize_t)used, "cannot write %s", path);
	/* What was made before it is needed. */
	FUZZ_CHECK(ftruncate(fd, used + (take8(in) & 3) * JOURNAL_ALIGN) == 0, "cannot make %s longer", path);
	close(fd);
	return at;
}

static void draw_life(struct input *in, uint32_t number, uint32_t reactors, uint32_t former_reactors)
{
	const uint8_t how = take8(in);
	const bool goes_on = number > 1 && how & 1;

	for (uint32_t r = 0; r < reactors; r++) {
		struct journal_segment header = { .magic = JOURNAL_MAGIC,
						  .version = JOURNAL_VERSION,
						  .life = number,
						  .reactor = r,
						  .flags = goes_on ? JOURNAL_GOES_ON : 0,
						  .reactors = reactors,
						  .partitions = 64,
						  .incarnation = 7,
						  .after = goes_on ? number - 1 : 0,
						  .story = number };
		const uint32_t bytes = draw_stream(in, how & 2);
		const unsigned gone = how >> 2 & 3;
		uint32_t at = 0, begin = 0;
		bool there = false;

		for (uint32_t q = r; goes_on && q < former_reactors; q += reactors)
			header.former += expected[number - 1][q].end;
		/* The oldest ones are gone; one is there, perhaps with nothing in it. */
		for (unsigned n = 0; n < SEGMENTS && (at < bytes || !there); n++) {
			header.number = n + 1;
			begin = there ? begin : at;
			there |= n >= gone;
			at = write_segment(in, &header, at, bytes, there);
		}
		expected[number][r] = look_through(begin, at);
	}
}

/* ---- damage ---- */

static void change_file(struct input *in)
{
	const struct journal_file *f = &made[take8(in) % made_count];
	const uint8_t how = take8(in);
	const uint32_t at = (uint32_t)(how & 0x40 ? take16(in) * 8 : take8(in));
	char path[128];
	struct stat stat;
	int fd;

	path_of(path, f);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &stat) < 0) {
		if (fd >= 0)
			close(fd);
		return; /* taken away */
	}
	FUZZ_CHECK(stat.st_size <= FILE_BYTES && pread(fd, file, (size_t)stat.st_size, 0) == stat.st_size,
		   "cannot read %s", path);
	if ((how & 7) == 0) {
		unlink(path);
	} else if ((how & 7) == 1) {
		FUZZ_CHECK(ftruncate(fd, at * 16 < stat.st_size ? at * 16 : stat.st_size) == 0, "cannot cut %s", path);
	} else if (at < stat.st_size) {
		struct journal_segment *header = (struct journal_segment *)file;

		file[at] ^= take8(in);
		if (how & 0x20 && stat.st_size >= JOURNAL_ALIGN)
			header->checksum = journal_segment_checksum(header);
		for (off_t b = JOURNAL_ALIGN; how & 0x20 && b + JOURNAL_ALIGN <= stat.st_size; b += JOURNAL_ALIGN) {
			struct journal_block *block = (struct journal_block *)(file + b);

			if (block->magic == JOURNAL_BLOCK_MAGIC && block->bytes <= stat.st_size - b - sizeof(*block))
				block->checksum = journal_block_checksum(block, block + 1);
		}
		FUZZ_CHECK(pwrite(fd, file, (size_t)stat.st_size, 0) == stat.st_size, "cannot change %s", path);
	}
	close(fd);
}

/* ---- what is read ---- */

struct visit {
	const struct journal_stream *stream;
	uint64_t behind;
	unsigned records;
	uint8_t bits; /* all of the content has been looked at */
};

static int visit(void *ctx, const struct journal_record *record, const void *content, uint64_t behind,
		 struct star_error *err)
{
	struct visit *v = ctx;
	const uint8_t *bytes = content;
	uint8_t sum = 0;

	(void)err;
	FUZZ_CHECK(record->bytes >= sizeof(*record) && record->bytes % 8 == 0 && record->bytes <= JOURNAL_RECORD_MAX,
		   "a record of %u bytes", record->bytes);
	FUZZ_CHECK((uintptr_t)content % 8 == 0, "content that is not aligned");
	FUZZ_CHECK(behind - v->behind >= record->bytes && behind <= v->stream->end,
		   "a record of %u bytes from %" PRIu64 " to %" PRIu64 " of %" PRIu64, record->bytes, v->behind, behind,
		   v->stream->end);
	for (uint32_t i = 0; i < record->bytes - sizeof(*record); i++)
		sum |= bytes[i];
	v->bits |= sum;
	v->behind = behind;
	v->records++;
	return 0;
}

static void check_stream(const struct journal_contents *c, const struct journal_past_life *life, uint32_t r,
			 bool changed)
{
	const struct journal_stream *s = &life->streams[r];
	const struct expected *e = &expected[life->number][r];
	struct visit v = { .stream = s, .behind = s->begin.position };
	struct star_error err = { 0 };

	FUZZ_CHECK(journal_stream_visit(c, s, visit, &v, &err) == 0, "what was accepted is not read: %s", err.text);
	if (changed)
		return;
	FUZZ_CHECK(s->begin.position == e->begin && s->end == e->end && v.records == e->records,
		   "life %u, stream %u: %" PRIu64 " to %" PRIu64 ", %u records; not %" PRIu64 " to %" PRIu64 ", %u",
		   life->number, r, s->begin.position, s->end, v.records, e->begin, e->end, e->records);
	if (e->from)
		FUZZ_CHECK(journal_stream_from(life, s, ID) == e->from, "the checkpoint is not where it is");
}

static void check_contents(struct journal_contents *c, uint32_t lives, bool changed)
{
	struct star_error err = { 0 };
	uint32_t first = UINT32_MAX;

	if (!changed)
		FUZZ_CHECK(c->lives_count == lives, "%u lives of %u", c->lives_count, lives);
	for (uint32_t i = 0; i < c->lives_count; i++) {
		const struct journal_past_life *life = &c->lives[i];

		FUZZ_CHECK(changed || !life->fault.code, "%s", life->fault.text);
		for (uint32_t r = 0; !life->fault.code && r < life->reactors; r++)
			check_stream(c, life, r, changed);
	}
	for (uint64_t id = 0; id <= ID; id += ID) {
		const int rc = journal_contents_from(c, id, &first, &err);

		FUZZ_CHECK(rc >= 0 || (changed && err.text[0]), "refused: %s", err.text);
		FUZZ_CHECK(rc <= 0 || first < c->lives_count, "life %u of %u", first, c->lives_count);
	}
}

/* Giving back what files do not need changes nothing. */
static void check_cut(struct journal_contents *c)
{
	struct star_error err = { 0 };
	struct journal_contents *again;

	journal_contents_cut(c);
	again = journal_contents_read(directory, NULL, NULL, &err);
	FUZZ_CHECK(again, "cut: %s", err.text);
	FUZZ_CHECK(again->lives_count == c->lives_count && again->bytes == c->bytes,
		   "cut: %u lives of %u, %" PRIu64 " bytes of %" PRIu64, again->lives_count, c->lives_count,
		   again->bytes, c->bytes);
	for (uint32_t i = 0; i < c->lives_count; i++) {
		const struct journal_past_life *a = &c->lives[i], *b = &again->lives[i];

		FUZZ_CHECK(a->fault.code == b->fault.code, "cut: %s", b->fault.text);
		for (uint32_t r = 0; !a->fault.code && r < a->reactors; r++)
			FUZZ_CHECK(a->streams[r].end == b->streams[r].end &&
					   a->streams[r].instants_count == b->streams[r].instants_count,
				   "cut: another end");
	}
	journal_contents_free(again);
}

static void remove_directory(void)
{
	clear_all();
	rmdir(directory);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	strcpy(directory, access("/dev/shm", W_OK) == 0 ? "/dev/shm/fuzz-journal-XXXXXX" : "/tmp/fuzz-journal-XXXXXX");
	FUZZ_CHECK(mkdtemp(directory), "no directory %s", directory);
	atexit(remove_directory);
	stream = aligned_alloc(64, STREAM_BYTES);
	file = aligned_alloc(64, FILE_BYTES);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct input in = { data, data + bytes };
	const uint8_t shape = take8(&in), changes = take8(&in) & 3;
	const uint32_t lives = 1 + shape % LIVES_MAX;
	struct star_error err = { 0 };
	struct journal_contents *c;
	uint32_t former = 0;

	clear_all();
	for (uint32_t life = 1; life <= lives; life++) {
		const uint32_t reactors = 1 + (shape >> (1 + life) & 1);

		draw_life(&in, life, reactors, former);
		former = reactors;
	}
	for (unsigned i = 0; i < changes; i++)
		change_file(&in);
	c = journal_contents_read(directory, NULL, NULL, &err);
	FUZZ_CHECK(c || (changes && err.code < 0 && err.text[0]), "refused with %d, \"%s\"", err.code, err.text);
	if (c) {
		check_contents(c, lives, changes);
		check_cut(c);
	}
	journal_contents_free(c);
	return 0;
}
