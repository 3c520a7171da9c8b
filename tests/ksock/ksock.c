/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams over kernel sockets, against clients with sockets of their own on 127.0.0.1. Time is the test's; only bytes
 * travel for real. */
#include "ksock/ksock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <rte_mempool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/net/emulate.h"
#include "tests/unit.h"

enum { MS = 1000000, TURNS_MAX = 5000, LARGE = 3 << 20, WINDOW = 65536, ROOM = 4 };

struct peer {
	struct tcp_conn *conn;
	uint64_t bytes;
	unsigned finished, closed;
	int reason;
	bool wrong;
};

static struct rig {
	struct link link; /* for its pool */
	struct wheel wheel;
	struct ksock *ks;
	uint64_t now_ns;
	uint16_t port;
	bool keeps;  /* gives no window back */
	bool aborts; /* at the first piece */
	bool closes; /* the same */
	bool refuses;
	struct peer peers[16];
	unsigned opened;
} rig;

static uint8_t byte_at(uint64_t at)
{
	return (uint8_t)(at * 31 + (at >> 8));
}

static bool take_opened(void *ctx, struct tcp_conn *conn, void **user)
{
	struct peer *peer = &rig.peers[rig.opened];

	if (rig.refuses)
		return false;
	rig.opened++;
	*peer = (struct peer){ .conn = conn };
	*user = peer;
	return true;
}

static void take_received(void *user, struct rte_mbuf *payload)
{
	struct peer *peer = user;
	const uint8_t *data = rte_pktmbuf_mtod(payload, const uint8_t *);
	const uint32_t bytes = payload->data_len;

	peer->wrong |= peer->closed != 0;
	for (uint32_t i = 0; i < bytes; i++)
		peer->wrong |= data[i] != byte_at(peer->bytes + i);
	peer->bytes += bytes;
	rte_pktmbuf_free(payload);
	if (rig.aborts)
		ksock_transport.abort(peer->conn);
	else if (rig.closes)
		ksock_transport.close(peer->conn);
	else if (!rig.keeps)
		ksock_transport.consumed(peer->conn, bytes);
}

static void take_acknowledged(void *user)
{
}

static void take_finished(void *user)
{
	((struct peer *)user)->finished++;
}

static void take_closed(void *user, int reason)
{
	struct peer *peer = user;

	peer->closed++;
	peer->reason = reason;
}

static const struct tcp_handler handler = { take_opened, take_received, take_acknowledged, take_finished, take_closed };

static struct sockaddr_in address_of(uint16_t port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_port = htons(port),
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

static uint16_t free_port(void)
{
	struct sockaddr_in address = address_of(0);
	socklen_t bytes = sizeof(address);
	const int fd = socket(AF_INET, SOCK_STREAM, 0);

	CHECK_INT(bind(fd, (struct sockaddr *)&address, bytes), 0);
	CHECK_INT(getsockname(fd, (struct sockaddr *)&address, &bytes), 0);
	close(fd);
	return ntohs(address.sin_port);
}

static void rig_up(void)
{
	struct star_error err = { 0 };

	memset(&rig, 0, sizeof(rig));
	rig.now_ns = 1000 * UINT64_C(1000000);
	link_eal();
	link_pool(&rig.link, 0, 4095);
	wheel_init(&rig.wheel, rig.now_ns);
	rig.port = free_port();
	rig.ks = ksock_create(&(struct ksock_options){ .pool = rig.link.pool[0],
						       .host = "127.0.0.1",
						       .connections_max = ROOM,
						       .receive_window_bytes = WINDOW,
						       .user_timeout_ms = 30000,
						       .wheel = &rig.wheel,
						       .now_ns = rig.now_ns },
			      &err);
	CHECK_STR(err.text, "");
	CHECK_INT(ksock_transport.listen(rig.ks, rig.port, &handler, NULL), 0);
}

static void rig_down(void)
{
	for (unsigned i = 0; i < rig.opened; i++)
		CHECK(!rig.peers[i].wrong);
	ksock_destroy(rig.ks);
	CHECK_UINT(rte_mempool_in_use_count(rig.link.pool[0]), 0);
	rte_mempool_free(rig.link.pool[0]);
}

static void turn(void)
{
	const struct timespec pause = { .tv_nsec = 200000 };

	rig.now_ns += MS;
	ksock_receive(rig.ks, rig.now_ns);
	wheel_advance(&rig.wheel, rig.now_ns, 1000);
	ksock_transmit(rig.ks, rig.now_ns);
	nanosleep(&pause, NULL);
}

static void turns(unsigned n)
{
	while (n--)
		turn();
}

/* Takes turns until the condition holds. */
#define UNTIL(condition) \
	do { \
		unsigned n_ = 0; \
		while (!(condition) && n_++ < TURNS_MAX) \
			turn(); \
		CHECK(condition); \
	} while (0)

/* From 127.0.0.<host>. */
static int dial_from(unsigned host)
{
	const struct sockaddr_in address = address_of(rig.port);
	const struct timeval patience = { .tv_sec = 10 };
	const int fd = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in own = address_of(0);

	own.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + host);
	CHECK_INT(bind(fd, (const struct sockaddr *)&own, sizeof(own)), 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	CHECK_INT(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static int dial(void)
{
	return dial_from(1);
}

static int dial_and_open_from(unsigned host)
{
	const unsigned before = rig.opened;
	const int fd = dial_from(host);

	UNTIL(rig.opened > before);
	return fd;
}

static int dial_and_open(void)
{
	return dial_and_open_from(1);
}

static size_t write_some(int fd, uint64_t from, size_t bytes)
{
	static uint8_t data[WINDOW];
	ssize_t done;

	bytes = bytes < sizeof(data) ? bytes : sizeof(data);
	for (size_t i = 0; i < bytes; i++)
		data[i] = byte_at(from + i);
	done = send(fd, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
	return done < 0 ? 0 : (size_t)done;
}

static void queue_bytes(struct tcp_conn *conn, uint64_t bytes)
{
	for (uint64_t at = 0; at < bytes;) {
		struct rte_mbuf *m = ksock_transport.alloc(conn);
		const uint16_t part = (uint16_t)RTE_MIN(bytes - at, (uint64_t)ksock_transport.mss(conn));
		uint8_t *data;

		if (!CHECK(m != NULL))
			return;
		data = (uint8_t *)rte_pktmbuf_append(m, part);
		for (uint16_t i = 0; i < part; i++)
			data[i] = byte_at(at + i);
		CHECK(ksock_transport.send(conn, m));
		at += part;
	}
}

/* Reads what is there; *at counts. 1: there may be more, 0: the end, or -errno. */
static int read_some(int fd, uint64_t *at, size_t most)
{
	uint8_t data[16384];
	const ssize_t n = recv(fd, data, RTE_MIN(most, sizeof(data)), MSG_DONTWAIT);
	bool wrong = false;

	for (ssize_t i = 0; i < n; i++)
		wrong |= data[i] != byte_at(*at + (uint64_t)i);
	CHECK(!wrong);
	*at += n > 0 ? (uint64_t)n : 0;
	return n > 0 || (n < 0 && errno == EAGAIN) ? 1 : n < 0 ? -errno : 0;
}

/* Takes turns and reads, until the connection ends: 0, or -errno. */
static int read_to_end(int fd, uint64_t *at)
{
	int state = 1;

	for (unsigned i = 0; i < TURNS_MAX && state == 1; i++) {
		turn();
		state = read_some(fd, at, SIZE_MAX);
	}
	return state;
}

static void received_in_order(void)
{
	uint64_t sent = 0;
	int fd;

	rig_up();
	fd = dial_and_open();
	while (sent < LARGE) {
		sent += write_some(fd, sent, LARGE - sent);
		turn();
	}
	UNTIL(rig.peers[0].bytes == LARGE);
	turns(2); /* one that finds nothing gives the spare mbufs back */
	CHECK_UINT(rte_mempool_in_use_count(rig.link.pool[0]), 0);
	close(fd);
	UNTIL(rig.peers[0].finished == 1);
	ksock_transport.close(rig.peers[0].conn);
	UNTIL(rig.peers[0].closed == 1);
	CHECK_INT(rig.peers[0].reason, 0);
	CHECK_UINT(ksock_connections(rig.ks), 0);
	rig_down();
}

static void the_window_pauses_and_resumes(void)
{
	uint64_t sent = 0;
	int fd;

	rig_up();
	rig.keeps = true;
	fd = dial_and_open();
	for (unsigned i = 0; i < 100; i++) {
		sent += write_some(fd, sent, WINDOW);
		turn();
	}
	CHECK_UINT(rig.peers[0].bytes, WINDOW);
	CHECK(sent > WINDOW);
	CHECK_UINT(ksock_receive(rig.ks, rig.now_ns), 0); /* and the reactor can sleep */
	rig.keeps = false;
	ksock_transport.consumed(rig.peers[0].conn, WINDOW);
	UNTIL(rig.peers[0].bytes == sent);
	close(fd);
	rig_down();
}

static void a_slow_reader_gets_all(void)
{
	uint64_t got = 0;
	int fd;

	rig_up();
	fd = dial_and_open();
	queue_bytes(rig.peers[0].conn, LARGE);
	for (unsigned i = 0; i < 200; i++) {
		turn();
		read_some(fd, &got, 100);
	}
	turns(20);
	CHECK_UINT(ksock_receive(rig.ks, rig.now_ns), 0); /* the kernel is full: there is nothing to do */
	while (got < LARGE && read_some(fd, &got, SIZE_MAX) == 1)
		turn();
	CHECK_UINT(got, LARGE);
	UNTIL(ksock_transport.queued(rig.peers[0].conn) == 0);
	close(fd);
	rig_down();
}

static void a_close_sends_what_is_queued(void)
{
	uint64_t got = 0;
	int fd;

	rig_up();
	fd = dial_and_open();
	queue_bytes(rig.peers[0].conn, LARGE);
	ksock_transport.close(rig.peers[0].conn);
	CHECK_INT(read_to_end(fd, &got), 0);
	CHECK_UINT(got, LARGE);
	close(fd);
	UNTIL(rig.peers[0].closed == 1);
	CHECK_INT(rig.peers[0].reason, 0);
	rig_down();
}

/* What the peer still sends does not cost it the last reply. */
static void a_close_reads_on(void)
{
	uint64_t got = 0, sent = 0;
	int fd;

	rig_up();
	rig.closes = true;
	fd = dial();
	while (write_some(fd, sent, WINDOW) && sent < LARGE)
		sent += WINDOW;
	UNTIL(rig.opened == 1);
	queue_bytes(rig.peers[0].conn, 1000);
	CHECK_INT(read_to_end(fd, &got), 0);
	CHECK_UINT(got, 1000);
	CHECK_UINT(rig.peers[0].closed, 0);
	turns(2100); /* a peer that never ends is left to the kernel */
	CHECK_UINT(rig.peers[0].closed, 1);
	CHECK_UINT(ksock_counters(rig.ks)->unsent_timeouts, 0);
	close(fd);
	rig_down();
}

static void a_close_gives_up_in_the_end(void)
{
	int fd;

	rig_up();
	fd = dial_and_open();
	queue_bytes(rig.peers[0].conn, LARGE);
	queue_bytes(rig.peers[0].conn, LARGE);
	ksock_transport.close(rig.peers[0].conn);
	turns(50);
	rig.now_ns += 31 * UINT64_C(1000000000);
	turns(2);
	CHECK_UINT(rig.peers[0].closed, 1);
	CHECK_INT(rig.peers[0].reason, ETIMEDOUT);
	CHECK_UINT(ksock_counters(rig.ks)->unsent_timeouts, 1);
	close(fd);
	rig_down();
}

static void an_abort_resets(void)
{
	uint64_t got = 0;
	int fd;

	rig_up();
	fd = dial_and_open();
	ksock_transport.abort(rig.peers[0].conn);
	CHECK_INT(rig.peers[0].reason, ECONNABORTED);
	CHECK_INT(read_to_end(fd, &got), -ECONNRESET);
	close(fd);
	rig.refuses = true;
	fd = dial();
	CHECK_INT(read_to_end(fd, &got), -ECONNRESET);
	CHECK_UINT(ksock_counters(rig.ks)->refused, 1);
	close(fd);
	rig_down();
}

static void a_peer_may_end_its_half(void)
{
	uint64_t got = 0;
	int fd;

	rig_up();
	fd = dial_and_open();
	write_some(fd, 0, 100);
	shutdown(fd, SHUT_WR);
	UNTIL(rig.peers[0].finished == 1);
	CHECK_UINT(rig.peers[0].bytes, 100);
	turns(5);
	CHECK_UINT(rig.peers[0].finished, 1);
	queue_bytes(rig.peers[0].conn, 5000);
	ksock_transport.close(rig.peers[0].conn);
	CHECK_INT(read_to_end(fd, &got), 0);
	CHECK_UINT(got, 5000);
	CHECK_UINT(rig.peers[0].closed, 1);
	close(fd);
	rig_down();
}

static void no_descriptors_for_a_while(void)
{
	struct rlimit before, none;
	int fd;

	rig_up();
	getrlimit(RLIMIT_NOFILE, &before);
	fd = dial();
	none = before;
	none.rlim_cur = 3;
	setrlimit(RLIMIT_NOFILE, &none);
	turns(20);
	CHECK_UINT(rig.opened, 0);
	CHECK_UINT(ksock_counters(rig.ks)->accept_failed, 1); /* the listening socket rests meanwhile */
	setrlimit(RLIMIT_NOFILE, &before);
	UNTIL(rig.opened == 1);
	close(fd);
	rig_down();
}

static void a_full_table_evicts_the_idlest(void)
{
	int fds[ROOM], further;

	rig_up();
	for (unsigned i = 0; i < ROOM; i++)
		fds[i] = dial_and_open();
	further = dial();
	turns(20);
	CHECK_UINT(rig.opened, ROOM); /* none is idle */
	CHECK_UINT(ksock_counters(rig.ks)->refused, 1);
	close(further);
	rig.now_ns += 11 * UINT64_C(1000000000);
	for (unsigned i = 0; i < ROOM; i++)
		if (i != 1) {
			write_some(fds[i], 0, 10);
			UNTIL(rig.peers[i].bytes == 10);
		}
	turns(5);
	CHECK_UINT(ksock_counters(rig.ks)->idle_closed, 0); /* nobody waits for its place */
	further = dial_and_open();
	CHECK_UINT(rig.peers[1].closed, 1);
	CHECK_UINT(ksock_counters(rig.ks)->idle_closed, 1);
	CHECK_UINT(ksock_connections(rig.ks), ROOM);
	for (unsigned i = 0; i < ROOM; i++)
		close(fds[i]);
	close(further);
	rig_down();
}

/* One address has all places, and uses them. Another one gets a place all the same, of the connection that was silent
 * for longest; and keeps it, whatever the first one does. */
static void one_address_leaves_places_to_others(void)
{
	int fds[ROOM], worker, further;

	rig_up();
	for (unsigned i = 0; i < ROOM; i++)
		fds[i] = dial_and_open();
	for (unsigned i = 0; i < ROOM; i++)
		if (i != 2) {
			write_some(fds[i], 0, 10);
			UNTIL(rig.peers[i].bytes == 10);
		}
	worker = dial_and_open_from(2);
	CHECK_UINT(rig.peers[2].closed, 1);
	CHECK_UINT(ksock_counters(rig.ks)->idle_closed, 1);
	for (unsigned i = 0; i < 8; i++) {
		further = dial();
		turns(5);
		CHECK_UINT(rig.opened, ROOM + 1);
		close(further);
	}
	/* Nor does the other one get more than a share: 3 of the first's are no longer many beside 2 of its own. */
	further = dial_from(2);
	turns(5);
	CHECK_UINT(rig.opened, ROOM + 1);
	CHECK_UINT(ksock_counters(rig.ks)->refused, 9);
	write_some(worker, 0, 100);
	UNTIL(rig.peers[ROOM].bytes == 100);
	CHECK_UINT(rig.peers[ROOM].closed, 0);
	close(further);
	close(worker);
	for (unsigned i = 0; i < ROOM; i++)
		close(fds[i]);
	rig_down();
}

/* One address has all descriptors. */
static void descriptors_are_shared_out(void)
{
	struct rlimit before, none;
	int fds[ROOM - 1], worker;

	rig_up();
	for (unsigned i = 0; i < ROOM - 1; i++)
		fds[i] = dial_and_open();
	getrlimit(RLIMIT_NOFILE, &before);
	worker = dial_from(2);
	none = before;
	none.rlim_cur = (rlim_t)dup(worker); /* the lowest that is free */
	close((int)none.rlim_cur);
	setrlimit(RLIMIT_NOFILE, &none);
	UNTIL(rig.opened == ROOM);
	setrlimit(RLIMIT_NOFILE, &before);
	CHECK_UINT(rig.peers[0].closed, 1);
	CHECK_UINT(ksock_counters(rig.ks)->accept_failed, 0);
	write_some(worker, 0, 100);
	UNTIL(rig.peers[ROOM - 1].bytes == 100);
	close(worker);
	for (unsigned i = 0; i < ROOM - 1; i++)
		close(fds[i]);
	rig_down();
}

/* The last free place is taken while another connection is idle: that one stays. */
static void the_last_place_costs_nobody_his(void)
{
	int fds[ROOM];

	rig_up();
	for (unsigned i = 0; i + 1 < ROOM; i++)
		fds[i] = dial_and_open();
	rig.now_ns += 11 * UINT64_C(1000000000);
	fds[ROOM - 1] = dial_and_open();
	turns(5);
	CHECK_UINT(ksock_connections(rig.ks), ROOM);
	CHECK_UINT(ksock_counters(rig.ks)->idle_closed, 0);
	for (unsigned i = 0; i < ROOM; i++)
		close(fds[i]);
	rig_down();
}

static void a_connection_ends_inside_a_handler(void)
{
	int fds[3];

	rig_up();
	rig.aborts = true;
	for (unsigned i = 0; i < 3; i++)
		fds[i] = dial_and_open();
	for (unsigned i = 0; i < 3; i++)
		write_some(fds[i], 0, WINDOW);
	UNTIL(ksock_connections(rig.ks) == 0);
	for (unsigned i = 0; i < 3; i++) {
		CHECK_UINT(rig.peers[i].closed, 1);
		CHECK(rig.peers[i].bytes < WINDOW); /* one piece, and no more */
		close(fds[i]);
	}
	rig_down();
}

static void an_empty_payload_is_nothing(void)
{
	uint64_t got = 0;
	int fd;

	rig_up();
	fd = dial_and_open();
	CHECK(ksock_transport.send(rig.peers[0].conn, ksock_transport.alloc(rig.peers[0].conn)));
	turns(2);
	CHECK_UINT(ksock_receive(rig.ks, rig.now_ns), 0);
	ksock_transport.close(rig.peers[0].conn);
	CHECK_INT(read_to_end(fd, &got), 0);
	close(fd);
	rig_down();
}

static bool another_listens(uint16_t port)
{
	const struct sockaddr_in address = address_of(port);
	const int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	bool listens;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	listens = bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 && listen(fd, 1) == 0;
	close(fd);
	return listens;
}

/* Also where connections of a former process are still known to the kernel. */
static void a_port_is_reserved_before_it_is_listened_at(void)
{
	struct star_error err = { 0 };
	struct ksock_options options = { .host = "127.0.0.1", .connections_max = ROOM, .receive_window_bytes = WINDOW };
	int fd;

	rig_up();
	fd = dial();
	UNTIL(rig.opened == 1);
	ksock_transport.close(rig.peers[0].conn);
	options.pool = rig.link.pool[0];
	options.wheel = &rig.wheel;
	options.now_ns = rig.now_ns;
	ksock_destroy(rig.ks);
	rig.ks = ksock_create(&options, &err);
	CHECK(another_listens(rig.port));
	CHECK_INT(ksock_reserve(rig.ks, rig.port), 0);
	CHECK(!another_listens(rig.port));
	CHECK_INT(ksock_transport.listen(rig.ks, (uint16_t)(rig.port + 1), &handler, NULL), -EADDRINUSE);
	CHECK_INT(ksock_transport.listen(rig.ks, rig.port, &handler, NULL), 0);
	CHECK_INT(ksock_transport.listen(rig.ks, rig.port, &handler, NULL), -EADDRINUSE);
	CHECK(!another_listens(rig.port));
	close(fd);
	fd = dial();
	UNTIL(rig.opened == 2);
	ksock_transport.close(rig.peers[1].conn);
	close(fd);
	turns(3);
	rig_down();
}

/* It is this process's all the same, and connections that were accepted go on. */
static void a_port_that_is_not_listened_at_any_more_refuses(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int again, fd, next;

	rig_up();
	fd = dial();
	UNTIL(rig.opened == 1);
	ksock_transport.unlisten(rig.ks);
	ksock_transport.unlisten(rig.ks);
	next = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	a.sin_port = htons(rig.port);
	CHECK(connect(next, (struct sockaddr *)&a, sizeof(a)) < 0);
	CHECK_INT(errno, ECONNREFUSED);
	CHECK(!another_listens(rig.port));
	turns(3);
	CHECK_UINT(rig.opened, 1);
	CHECK(!rig.peers[0].closed);
	/* Until it is listened at once more. */
	CHECK_INT(ksock_transport.listen(rig.ks, rig.port, &handler, NULL), 0);
	CHECK_INT(ksock_transport.listen(rig.ks, rig.port, &handler, NULL), -EADDRINUSE);
	again = dial();
	UNTIL(rig.opened == 2);
	ksock_transport.close(rig.peers[0].conn);
	ksock_transport.close(rig.peers[1].conn);
	close(fd);
	close(next);
	close(again);
	turns(3);
	rig_down();
}

const char *const unit_suite = "ksock";
const struct unit_case unit_cases[] = {
#define X(name) \
	{ \
#name, name \
	}
	X(received_in_order),
	X(the_window_pauses_and_resumes),
	X(a_slow_reader_gets_all),
	X(a_close_sends_what_is_queued),
	X(a_close_reads_on),
	X(a_close_gives_up_in_the_end),
	X(an_abort_resets),
	X(a_peer_may_end_its_half),
	X(no_descriptors_for_a_while),
	X(a_full_table_evicts_the_idlest),
	X(one_address_leaves_places_to_others),
	X(descriptors_are_shared_out),
	X(the_last_place_costs_nobody_his),
	X(a_connection_ends_inside_a_handler),
	X(an_empty_payload_is_nothing),
	X(a_port_is_reserved_before_it_is_listened_at),
	X(a_port_that_is_not_listened_at_any_more_refuses),
#undef X
	{ NULL, NULL },
};
