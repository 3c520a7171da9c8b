/* SPDX-License-Identifier: BSD-3-Clause */
#include "pair/receiver.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pair/link.h"

enum { GROW_BYTES = 16 << 20, SHRINK_BYTES = 256 << 20, FILE_MODE = 0600 };

struct pair_receiver {
	struct pair_receiver_ops ops;
	uint32_t reactors;
	bool ended, catalogue_came, leased;
	uint64_t ping;
	char *catalogue; /* as much as has arrived */
	size_t catalogue_bytes;
	size_t have; /* bytes of the frame that have arrived */
	union {
		struct pair_frame frame;
		uint8_t bytes[sizeof(struct pair_frame) + PAIR_PAYLOAD_MAX];
	} in __attribute__((aligned(8)));
	struct pair_stream streams[];
};
_Static_assert(sizeof(struct pair_frame) % 8 == 0, "payloads are aligned");

/* ---- what is held ---- */

static int hold_open(struct pair_stream *s, const char *directory, uint64_t held, struct star_error *err)
{
	s->mapped = (size_t)held;
	s->fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, FILE_MODE);
	if (s->fd < 0)
		return star_error_set(err, -errno, "standby.directory: cannot create a file in %.300s: %s", directory,
				      strerror(errno));
	s->memory = mmap(NULL, s->mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, s->fd, 0);
	if (s->memory != MAP_FAILED)
		return 0;
	s->memory = NULL;
	return star_error_set(err, -ENOMEM, "no address space for what a standby holds (standby.hold_mib)");
}

static void hold_close(struct pair_stream *s)
{
	if (s->memory)
		munmap(s->memory, s->mapped);
	if (s->fd >= 0)
		close(s->fd);
}

/* Allocates the file before it is written, so that a full disk is an error here, and not a signal later. */
static int hold_room(struct pair_stream *s, size_t bytes, struct star_error *err)
{
	size_t wanted = (s->used + bytes + GROW_BYTES - 1) / GROW_BYTES * GROW_BYTES;
	int rc;

	if (s->used + bytes <= s->there)
		return 0;
	if (wanted > s->mapped)
		wanted = s->mapped;
	if (s->used + bytes > wanted)
		return star_error_set(err, -EFBIG,
				      "more has changed during the transfer of the snapshot than the standby may hold: "
				      "raise standby.hold_mib");
	rc = -posix_fallocate(s->fd, (off_t)s->there, (off_t)(wanted - s->there));
	if (rc < 0)
		return star_error_set(err, rc,
				      "standby.directory has no room for the changes that the standby holds: %s",
				      strerror(-rc));
	s->there = wanted;
	return 0;
}

/* Everything before `behind` is no longer needed. */
static void hold_drop(struct pair_stream *s, size_t behind)
{
	s->used -= behind;
	memmove(s->memory, s->memory + behind, s->used);
	s->parsed -= behind;
	s->marked = s->marked > behind ? s->marked - behind : 0;
	if (s->there > SHRINK_BYTES && s->used < GROW_BYTES && ftruncate(s->fd, GROW_BYTES) == 0)
		s->there = GROW_BYTES;
}

/* ---- a stream ---- */

static bool is_instant(const struct journal_record *record)
{
	const struct journal_instant *instant = (const struct journal_instant *)(record + 1);

	return record->kind == JOURNAL_INSTANT && instant->id == PAIR_INSTANT;
}

static int check_record(const struct journal_record *record, struct star_error *err)
{
	const bool dated = record->kind == JOURNAL_INSTANT || record->kind == JOURNAL_SESSIONS;

	if (record->bytes < sizeof(*record) || record->bytes % 8 || record->bytes > JOURNAL_RECORD_MAX ||
	    record->kind < JOURNAL_RUN || record->kind > JOURNAL_CLEARED ||
	    (dated && record->bytes != sizeof(*record) + sizeof(struct journal_instant)))
		return star_error_set(err, -EBADMSG, "the primary's stream has a record of kind %u and %u bytes",
				      record->kind, record->bytes);
	return 0;
}

static void note_record(struct pair_stream *s, const struct journal_record *record)
{
	switch (record->kind) {
	case JOURNAL_SUMS:
		s->sums = true;
		break;
	case JOURNAL_SESSIONS:
		s->sessions |= s->instant;
		break;
	case JOURNAL_MARK:
	case JOURNAL_INSTANT:
		s->marked = s->parsed;
		break;
	default:
		break;
	}
}

/* Parses the records that are complete. */
static int parse(struct pair_stream *s, struct star_error *err)
{
	while (s->used - s->parsed >= sizeof(struct journal_record)) {
		const struct journal_record *record = (const struct journal_record *)(s->memory + s->parsed);

		if (check_record(record, err) < 0)
			return err->code;
		if (record->bytes > s->used - s->parsed)
			return 0;
		s->parsed += record->bytes;
		note_record(s, record);
		if (is_instant(record)) {
			s->instant = true;
			hold_drop(s, s->parsed); /* these changes are in the snapshot */
		}
	}
	return 0;
}

static int apply(struct pair_receiver *r, uint32_t reactor, struct star_error *err)
{
	struct pair_stream *s = &r->streams[reactor];
	int rc;

	if (!s->loaded || !s->instant || !s->marked)
		return 0;
	rc = r->ops.records(r->ops.ctx, reactor, s->memory, s->marked, err);
	if (rc < 0)
		return rc;
	/* A mark follows them, so the sessions are among what was applied. */
	s->whole |= s->sessions;
	hold_drop(s, s->marked);
	return 0;
}

static int take_stream(struct pair_receiver *r, const struct pair_frame *f, const uint8_t *payload,
		       struct star_error *err)
{
	struct pair_stream *s = &r->streams[f->reactor];

	if (f->bytes % 8 || f->position % 8 || (s->begun && f->position != s->position))
		return star_error_set(err, -EBADMSG, "the stream of reactor %u continues at another position",
				      f->reactor);
	if (hold_room(s, f->bytes, err) < 0)
		return err->code;
	memcpy(s->memory + s->used, payload, f->bytes);
	s->used += f->bytes;
	s->begun = true;
	s->position = f->position + f->bytes;
	if (parse(s, err) < 0)
		return err->code;
	return apply(r, f->reactor, err);
}

static int receive_block(struct pair_receiver *r, const struct pair_frame *f, const uint8_t *payload,
			 struct star_error *err)
{
	struct pair_stream *s = &r->streams[f->reactor];
	int rc;

	if (s->loaded)
		return star_error_set(err, -EBADMSG, "the snapshot of reactor %u continues after its end", f->reactor);
	rc = f->bytes ? r->ops.block(r->ops.ctx, f->reactor, payload, f->bytes, err) : 0;
	if (rc < 0)
		return rc;
	s->loaded = f->position == 1;
	return s->loaded ? apply(r, f->reactor, err) : 0;
}

static int take_catalogue(struct pair_receiver *r, const struct pair_frame *f, const uint8_t *payload,
			  struct star_error *err)
{
	char *longer;
	int rc;

	if (r->catalogue_bytes + f->bytes + f->position > PAIR_CATALOGUE_MAX || f->position > PAIR_CATALOGUE_MAX)
		return star_error_set(err, -EBADMSG, "the primary's catalogue is too long");
	longer = realloc(r->catalogue, r->catalogue_bytes + f->bytes + 1);
	if (!longer)
		return star_error_set(err, -ENOMEM, "out of memory");
	r->catalogue = longer;
	memcpy(longer + r->catalogue_bytes, payload, f->bytes);
	r->catalogue_bytes += f->bytes;
	if (f->position)
		return 0;
	rc = r->ops.catalogue(r->ops.ctx, longer, r->catalogue_bytes, err);
	r->catalogue_bytes = 0;
	r->catalogue_came = true;
	return rc;
}

/* ---- frames ---- */

static int take_frame(struct pair_receiver *r, struct star_error *err)
{
	const struct pair_frame *f = &r->in.frame;
	const uint8_t *payload = r->in.bytes + sizeof(*f);

	if (f->checksum != pair_frame_checksum(f, payload))
		return star_error_set(err, -EBADMSG, "what the primary sent is damaged");
	if (f->kind == PAIR_PING) {
		r->ping = f->position;
		r->leased = f->reactor == 1;
		return 0;
	}
	if (f->reactor >= r->reactors)
		return star_error_set(err, -EBADMSG, "the primary has no reactor %u", f->reactor);
	if (r->ended || (!r->catalogue_came && f->kind != PAIR_CATALOGUE))
		return star_error_set(err, -EBADMSG, "the primary sent a frame of kind %u out of turn", f->kind);
	switch (f->kind) {
	case PAIR_CATALOGUE:
		return take_catalogue(r, f, payload, err);
	case PAIR_BLOCK:
		return receive_block(r, f, payload, err);
	case PAIR_STREAM:
		return take_stream(r, f, payload, err);
	case PAIR_END:
		r->ended = true;
		return 0;
	default:
		return star_error_set(err, -EBADMSG, "the primary sent a frame of kind %u", f->kind);
	}
}

void *pair_receiver_room(struct pair_receiver *r, size_t *room)
{
	const size_t head = sizeof(r->in.frame);

	*room = (r->have < head ? head : head + r->in.frame.bytes) - r->have;
	return r->in.bytes + r->have;
}

int pair_receiver_came(struct pair_receiver *r, size_t bytes, struct star_error *err)
{
	const size_t head = sizeof(r->in.frame), before = r->have;

	r->have += bytes;
	if (before < head && r->have >= head && pair_frame_check(&r->in.frame, err) < 0)
		return err->code;
	if (r->have < head || r->have < head + r->in.frame.bytes)
		return 0;
	r->have = 0;
	return take_frame(r, err);
}

struct pair_receiver *pair_receiver_create(const char *directory, uint32_t reactors, uint64_t held,
					   const struct pair_receiver_ops *ops, struct star_error *err)
{
	struct pair_receiver *r = calloc(1, sizeof(*r) + reactors * sizeof(r->streams[0]));
	int rc = 0;

	if (!r) {
		star_error_set(err, -ENOMEM, "out of memory");
		return NULL;
	}
	r->ops = *ops;
	r->reactors = reactors;
	for (uint32_t i = 0; i < reactors; i++)
		r->streams[i].fd = -1;
	for (uint32_t i = 0; rc == 0 && i < reactors; i++)
		rc = hold_open(&r->streams[i], directory, held, err);
	if (rc == 0)
		return r;
	pair_receiver_destroy(r);
	return NULL;
}

void pair_receiver_destroy(struct pair_receiver *r)
{
	if (!r)
		return;
	for (uint32_t i = 0; i < r->reactors; i++)
		hold_close(&r->streams[i]);
	free(r->catalogue);
	free(r);
}

const struct pair_stream *pair_receiver_stream(const struct pair_receiver *r, uint32_t reactor)
{
	return &r->streams[reactor];
}

bool pair_receiver_whole(const struct pair_receiver *r)
{
	for (uint32_t i = 0; i < r->reactors; i++)
		if (!r->streams[i].whole)
			return false;
	return true;
}

uint64_t pair_receiver_ping(struct pair_receiver *r)
{
	const uint64_t ping = r->ping;

	r->ping = 0;
	return ping;
}

bool pair_receiver_leased(const struct pair_receiver *r)
{
	return r->leased;
}

bool pair_receiver_ended(const struct pair_receiver *r)
{
	return r->ended;
}
