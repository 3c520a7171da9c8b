/* SPDX-License-Identifier: BSD-3-Clause */
/* A user of TCP for tests: sends a byte stream made from a seed, checks what it gets against the other side's seed. */
#ifndef TESTS_NET_STREAM_H
#define TESTS_NET_STREAM_H

#include "tests/net/link.h"

struct stream {
	struct tcp_conn *conn; /* NULL before and after */
	uint64_t send_seed, send_total, sent;
	uint64_t expect_seed, received;
	uint32_t held; /* bytes not yet given back to the window, while hold is set */
	bool hold;
	bool opened, finished, closed, wrong;
	bool close_at_end; /* closes when all is sent */
	bool shut;	   /* its own direction only, if the peer may still send */
	bool nagle;
	bool full;	      /* sends segments of the largest size only */
	uint32_t queue_bytes; /* that it keeps unacknowledged; 0: 64 KiB */
	int reason;
};

extern const struct tcp_handler stream_handler;

/* ctx of tcp_listen: the stream of the next connection. */
void stream_pump(struct stream *s);

#endif
