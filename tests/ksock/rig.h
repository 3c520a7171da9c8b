/* SPDX-License-Identifier: BSD-3-Clause */
/* What the cases of lib/ksock share: a struct ksock that listens on 127.0.0.1, and clients with sockets of their own.
 * Time is the test's; only bytes travel for real. */
#ifndef TESTS_KSOCK_RIG_H
#define TESTS_KSOCK_RIG_H

#include <netinet/in.h>

#include "ksock/ksock.h"
#include "tests/net/emulate.h"
#include "tests/unit.h"

enum { MS = 1000000, TURNS_MAX = 5000, LARGE = 3 << 20, WINDOW = 65536, ROOM = 4, MANY = 340 };

struct peer {
	struct tcp_conn *conn;
	uint64_t bytes;
	unsigned finished, closed;
	int reason;
	bool wrong;
};

extern struct rig {
	enum ksock_io_choice io;
	struct link link; /* for its pool */
	struct wheel wheel;
	struct ksock *ks;
	uint64_t now_ns;
	uint16_t port;
	bool keeps;  /* gives no window back */
	bool aborts; /* at the first piece */
	bool closes; /* the same */
	bool refuses;
	struct rte_mbuf *kept[4095]; /* of the pool; and, with `hoards`, what was received */
	unsigned kept_count;
	bool hoards;
	struct peer peers[MANY];
	unsigned opened;
} rig;

extern const struct tcp_handler rig_handler;

void rig_up(void);
/* With room for more connections than ROOM. */
void rig_up_with(uint32_t room);
void rig_down(void);
void rig_turn(void);
void rig_turns(unsigned n);
/* From 127.0.0.<host>. */
int rig_dial_from(unsigned host);
int rig_dial(void);
int rig_dial_and_open_from(unsigned host);
int rig_dial_and_open(void);
size_t rig_write_some(int fd, uint64_t from, size_t bytes);
void rig_queue_bytes(struct tcp_conn *conn, uint64_t bytes);
/* Reads what is there; *at counts. 1: there may be more, 0: the end, or -errno. */
int rig_read_some(int fd, uint64_t *at, size_t most);
/* Takes turns and reads, until the connection ends: 0, or -errno. */
int rig_read_to_end(int fd, uint64_t *at);
struct sockaddr_in rig_address_of(uint16_t port);

/* Takes turns until the condition holds. */
#define UNTIL(condition) \
	do { \
		unsigned n_ = 0; \
		while (!(condition) && n_++ < TURNS_MAX) \
			rig_turn(); \
		CHECK(condition); \
	} while (0)

#endif
