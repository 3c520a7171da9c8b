/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A file read from its beginning to its end, ahead of who uses it: with O_DIRECT the kernel reads nothing ahead by
 * itself, and disk and checksums would wait for each other. By the kernel's asynchronous I/O (io_submit(2)) in a ring
 * of pieces; where there is none, where a file is small, or without O_DIRECT, when the bytes are asked for. One thread.
 */
#ifndef CKPT_AHEAD_H
#define CKPT_AHEAD_H

#include <linux/aio_abi.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	AHEAD_PIECES = 4,
	AHEAD_PIECE_BYTES = 1 << 20,
	AHEAD_GET_MAX = AHEAD_PIECE_BYTES, /* bytes that can be asked for in one piece */
};

struct ckpt_ahead {
	int fd;
	bool direct;
	aio_context_t context; /* 0: not asynchronous */
	uint64_t end;	       /* bytes of the file: a multiple of its alignment */
	/* Positions in the file, each at most the next: what is used, what has come, what was asked for. */
	uint64_t used, come, asked;
	uint32_t ring_bytes;
	/* position p is at p % ring_bytes; behind it is room for what of a get lies at the beginning again */
	uint8_t *ring;
	struct iocb pieces[AHEAD_PIECES];
	bool read[AHEAD_PIECES]; /* asked for and complete */
};

/* The descriptor stays the caller's; all of its bytes are aligned to `align`, a power of two. 0 or -ENOMEM. */
int ckpt_ahead_init(struct ckpt_ahead *ahead, int fd, bool direct, uint64_t bytes, uint32_t align);

/* The next bytes, at most AHEAD_GET_MAX: *at until the next call that uses some. 0; -ENODATA: the file has not so many;
 * -ESTALE: it became shorter; or what the disk says. */
int ckpt_ahead_get(struct ckpt_ahead *ahead, uint32_t bytes, const uint8_t **at);

/* They were used: at most as many as were got, which stay until the next get. */
void ckpt_ahead_use(struct ckpt_ahead *ahead, uint32_t bytes);

void ckpt_ahead_fini(struct ckpt_ahead *ahead);

#endif
