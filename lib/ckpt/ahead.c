/* SPDX-License-Identifier: BSD-3-Clause */
#include "ckpt/ahead.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"

enum { RING_BYTES = AHEAD_PIECES * AHEAD_PIECE_BYTES, HUGE_BYTES = 2 << 20 };

/* In huge pages if possible: this needs fewer disk descriptors, and less work of the kernel per page. */
static bool make_ring(struct ckpt_ahead *a, uint32_t align)
{
	const bool is_long = a->end > RING_BYTES;
	const size_t bytes = a->ring_bytes + (is_long ? AHEAD_GET_MAX : 0), unit = is_long ? HUGE_BYTES : align;

	a->ring = aligned_alloc(unit, (bytes + unit - 1) / unit * unit);
	if (a->ring && is_long)
		madvise(a->ring, RING_BYTES, MADV_HUGEPAGE);
	return a->ring;
}

int ckpt_ahead_init(struct ckpt_ahead *a, int fd, bool direct, uint64_t bytes, uint32_t align)
{
	*a = (struct ckpt_ahead){ .fd = fd, .direct = direct, .end = bytes };
	a->ring_bytes = bytes < RING_BYTES ? (uint32_t)bytes : RING_BYTES;
	if (!make_ring(a, align))
		return -ENOMEM;
	if (direct && bytes > AHEAD_PIECE_BYTES && syscall(SYS_io_setup, AHEAD_PIECES, &a->context) < 0)
		a->context = 0;
	return 0;
}

static uint32_t piece_of(uint64_t position)
{
	return (uint32_t)(position / AHEAD_PIECE_BYTES % AHEAD_PIECES);
}

/* The length of the piece that begins there. */
static uint32_t length_of(const struct ckpt_ahead *a, uint64_t position)
{
	const uint64_t left = a->end - position;

	return left < AHEAD_PIECE_BYTES ? (uint32_t)left : AHEAD_PIECE_BYTES;
}

/* Reads the piece at `position`, synchronously. */
static int read_piece(struct ckpt_ahead *a, uint64_t position)
{
	const uint32_t bytes = length_of(a, position);
	uint8_t *to = a->ring + position % a->ring_bytes;
	ssize_t n = base_read_at(a->fd, to, bytes, position);

	/* Some file systems accept O_DIRECT when a file is opened, and refuse it afterwards. */
	if (n == -EINVAL && a->direct) {
		a->direct = false;
		n = fcntl(a->fd, F_SETFL, 0) < 0 ? -EINVAL : base_read_at(a->fd, to, bytes, position);
	}
	if (n < 0)
		return (int)n;
	if (n < bytes)
		return -ESTALE;
	a->read[piece_of(position)] = true;
	return 0;
}

/* Requests all pieces for which there is room; unused ones are not overwritten. */
static void ask_pieces(struct ckpt_ahead *a)
{
	while (a->asked < a->end && a->asked + length_of(a, a->asked) - a->used <= a->ring_bytes) {
		const uint32_t piece = piece_of(a->asked);
		struct iocb *io = &a->pieces[piece];

		*io = (struct iocb){ .aio_data = piece,
				     .aio_lio_opcode = IOCB_CMD_PREAD,
				     .aio_fildes = (uint32_t)a->fd,
				     .aio_buf = (uintptr_t)(a->ring + a->asked % a->ring_bytes),
				     .aio_nbytes = length_of(a, a->asked),
				     .aio_offset = (int64_t)a->asked };
		a->read[piece] = false;
		if (syscall(SYS_io_submit, a->context, 1L, &io) != 1)
			return; /* it is read when it is needed */
		a->asked += io->aio_nbytes;
	}
}

/* Waits until one of the requested pieces has arrived. An error in it is found when it is read again. */
static int wait_for_one(struct ckpt_ahead *a)
{
	struct io_event event;
	const long n = syscall(SYS_io_getevents, a->context, 1L, 1L, &event, NULL);

	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	if (n == 0)
		return 0;
	if ((uint64_t)event.res == a->pieces[event.data].aio_nbytes)
		a->read[event.data] = true;
	else
		return read_piece(a, (uint64_t)a->pieces[event.data].aio_offset);
	return 0;
}

/* Waits for the next piece, which has not arrived yet. */
static int come(struct ckpt_ahead *a)
{
	const uint64_t position = a->come;
	int rc = 0;

	if (position == a->end)
		return -ENODATA;
	if (a->asked == position) {
		rc = read_piece(a, position);
		a->asked += length_of(a, position);
	}
	while (rc == 0 && !a->read[piece_of(position)])
		rc = wait_for_one(a);
	if (rc == 0)
		a->come += length_of(a, position);
	return rc;
}

int ckpt_ahead_get(struct ckpt_ahead *a, uint32_t bytes, const uint8_t **at)
{
	const uint32_t begin = (uint32_t)(a->used % a->ring_bytes);
	int rc = 0;

	if (bytes > a->end - a->used)
		return -ENODATA;
	if (a->context)
		ask_pieces(a);
	while (rc == 0 && a->come < a->used + bytes)
		rc = come(a);
	if (rc < 0)
		return rc;
	if (begin + bytes > a->ring_bytes)
		memcpy(a->ring + a->ring_bytes, a->ring, begin + bytes - a->ring_bytes);
	*at = a->ring + begin;
	return 0;
}

void ckpt_ahead_use(struct ckpt_ahead *a, uint32_t bytes)
{
	a->used += bytes;
}

void ckpt_ahead_fini(struct ckpt_ahead *a)
{
	/* Waits for reads in progress, which write into the ring. */
	if (a->context)
		syscall(SYS_io_destroy, a->context);
	free(a->ring);
}
