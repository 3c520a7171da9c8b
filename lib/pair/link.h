/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection between the two nodes of a pair: a kernel socket that does not block, in TLS where the cluster has keys.
 * What waits does so until a time of clock_us. One thread at a time.
 */
#ifndef PAIR_LINK_H
#define PAIR_LINK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "secure/link.h"
#include "wire/pair.h"

struct pair_link;

/* To the other node, from `source` ("host:port", of which the port is of no account), with the keys of this one; keys
 * NULL: in clear. NULL with err, of which the code is that of the connection: -ECONNREFUSED: no process listens. */
struct pair_link *pair_link_connect(const char *source, const struct secure_keys *keys, const char *address,
				    uint64_t until_us, struct star_error *err);
/* fd was accepted, and belongs to the link, or is closed. context NULL: in clear; else who comes has the key of a node,
 * or is refused. */
struct pair_link *pair_link_accept(int fd, struct secure_context *context, uint64_t until_us, struct star_error *err);
void pair_link_close(struct pair_link *link); /* may be NULL */

/* As recv and send, with a negative errno: -EAGAIN; 0 of read: the other one has ended. */
ssize_t pair_link_read(struct pair_link *link, void *to, size_t room);
ssize_t pair_link_write(struct pair_link *link, const void *from, size_t bytes);
/* Until it can be read, or with `writes` written, or the fd too, if it is not negative, can be read; or for so long. */
void pair_link_wait(const struct pair_link *link, int writes, uint32_t us, int fd);

/* All of it, or a negative errno; -ETIMEDOUT; -ECONNRESET: the other one has ended. */
int pair_link_read_all(struct pair_link *link, void *to, size_t bytes, uint64_t until_us);
int pair_link_write_all(struct pair_link *link, const void *from, size_t bytes, uint64_t until_us);

/* bytes.c. 0, or -EPROTO with a message. Both set the checksum, or look at it. */
void pair_hello_seal(struct pair_hello *hello);
int pair_hello_check(const struct pair_hello *hello, struct star_error *err);
void pair_answer_seal(struct pair_answer *answer);
int pair_answer_check(const struct pair_answer *answer, struct star_error *err);
uint32_t pair_frame_checksum(const struct pair_frame *frame, const void *payload);
/* What can be told without the payload. */
int pair_frame_check(const struct pair_frame *frame, struct star_error *err);

/* A question and its answer; the link is left open. Of what another version of the program sends, which may be shorter
 * or longer, they read the head alone. */
int pair_link_ask(struct pair_link *link, const struct pair_hello *hello, struct pair_answer *answer, uint64_t until_us,
		  struct star_error *err);
int pair_link_hear(struct pair_link *link, struct pair_hello *hello, uint64_t until_us, struct star_error *err);

#endif
