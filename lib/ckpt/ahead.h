/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Read-ahead for a file that is read from beginning to end: with O_DIRECT the kernel does no read-ahead, so disk and
 * checksums would wait for each other. It uses the kernel's asynchronous I/O (io_submit(2)) into a ring of pieces. If
 * that is not available, for small files, and without O_DIRECT, bytes are read when they are requested. One thread.
 */
#ifndef CKPT_AHEAD_H
#define CKPT_AHEAD_H

#include <linux/aio_abi.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	AHEAD_PIECES = 4,
	AHEAD_PIECE_BYTES = 1 << 20,
	AHEAD_GET_MAX = AHEAD_PIECE_BYTES, /* bytes that one ckpt_ahead_get can return */
};

struct ckpt_ahead {
	int fd;
	bool direct;
	aio_context_t context; /* 0: not asynchronous */
	uint64_t end;	       /* size of the file: a multiple of its alignment */
	/* Positions in the file, in ascending order: up to where it was used, was read, and was requested. */
	uint64_t used, come, asked;
	uint32_t ring_bytes;
	/* position p is at p % ring_bytes; behind the ring is room for the part of a get that wraps around */
	uint8_t *ring;
	struct iocb pieces[AHEAD_PIECES];
	bool read[AHEAD_PIECES]; /* requested and complete */
};

/* The descriptor stays the caller's. The file's size is a multiple of `align`, a power of two. 0 or -ENOMEM. */
int ckpt_ahead_init(struct ckpt_ahead *ahead, int fd, bool direct, uint64_t bytes, uint32_t align);

/* Gets the next bytes, at most AHEAD_GET_MAX, without consuming them; *at is valid until the next ckpt_ahead_use. 0;
 * -ENODATA: the file has fewer; -ESTALE: it became shorter; or the error of the read. */
int ckpt_ahead_get(struct ckpt_ahead *ahead, uint32_t bytes, const uint8_t **at);

/* Consumes bytes, at most as many as were got; they stay readable until the next ckpt_ahead_get. */
void ckpt_ahead_use(struct ckpt_ahead *ahead, uint32_t bytes);

void ckpt_ahead_fini(struct ckpt_ahead *ahead);

#endif
