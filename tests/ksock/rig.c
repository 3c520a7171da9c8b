/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/ksock/rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <rte_mempool.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

struct rig rig;

static uint8_t rig_byte_at(uint64_t at)
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
		peer->wrong |= data[i] != rig_byte_at(peer->bytes + i);
	peer->bytes += bytes;
	if (rig.hoards)
		rig.kept[rig.kept_count++] = payload;
	else
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

const struct tcp_handler rig_handler = { take_opened, take_received, take_acknowledged, take_finished, take_closed };

struct sockaddr_in rig_address_of(uint16_t port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_port = htons(port),
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

static uint16_t rig_free_port(void)
{
	struct sockaddr_in address = rig_address_of(0);
	socklen_t bytes = sizeof(address);
	const int fd = socket(AF_INET, SOCK_STREAM, 0);

	CHECK_INT(bind(fd, (struct sockaddr *)&address, bytes), 0);
	CHECK_INT(getsockname(fd, (struct sockaddr *)&address, &bytes), 0);
	close(fd);
	return ntohs(address.sin_port);
}

void rig_up_with(uint32_t room)
{
	const enum ksock_io_choice io = rig.io;
	struct star_error err = { 0 };

	memset(&rig, 0, sizeof(rig));
	rig.io = io;
	rig.now_ns = 1000 * UINT64_C(1000000);
	link_eal();
	link_pool(&rig.link, 0, 4095);
	wheel_init(&rig.wheel, rig.now_ns);
	rig.port = rig_free_port();
	rig.ks = ksock_create(&(struct ksock_options){ .io = io,
						       .pool = rig.link.pool[0],
						       .host = "127.0.0.1",
						       .connections_max = room,
						       .receive_window_bytes = WINDOW,
						       .user_timeout_ms = 30000,
						       .wheel = &rig.wheel,
						       .now_ns = rig.now_ns },
			      &err);
	CHECK_STR(err.text, "");
	CHECK_INT(ksock_transport.listen(rig.ks, rig.port, &rig_handler, NULL), 0);
}

void rig_up(void)
{
	rig_up_with(ROOM);
}

void rig_down(void)
{
	for (unsigned i = 0; i < rig.opened; i++)
		CHECK(!rig.peers[i].wrong);
	ksock_destroy(rig.ks);
	CHECK_UINT(rte_mempool_in_use_count(rig.link.pool[0]), 0);
	rte_mempool_free(rig.link.pool[0]);
}

void rig_turn(void)
{
	const struct timespec pause = { .tv_nsec = 200000 };

	rig.now_ns += MS;
	ksock_receive(rig.ks, rig.now_ns);
	wheel_advance(&rig.wheel, rig.now_ns, 1000);
	ksock_transmit(rig.ks, rig.now_ns);
	nanosleep(&pause, NULL);
}

void rig_turns(unsigned n)
{
	while (n--)
		rig_turn();
}

int rig_dial_from(unsigned host)
{
	const struct sockaddr_in address = rig_address_of(rig.port);
	const struct timeval patience = { .tv_sec = 10 };
	const int fd = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in own = rig_address_of(0);

	own.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + host);
	CHECK_INT(bind(fd, (const struct sockaddr *)&own, sizeof(own)), 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	CHECK_INT(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

int rig_dial(void)
{
	return rig_dial_from(1);
}

int rig_dial_and_open_from(unsigned host)
{
	const unsigned before = rig.opened;
	const int fd = rig_dial_from(host);

	UNTIL(rig.opened > before);
	return fd;
}

int rig_dial_and_open(void)
{
	return rig_dial_and_open_from(1);
}

size_t rig_write_some(int fd, uint64_t from, size_t bytes)
{
	static uint8_t data[WINDOW];
	ssize_t done;

	bytes = bytes < sizeof(data) ? bytes : sizeof(data);
	for (size_t i = 0; i < bytes; i++)
		data[i] = rig_byte_at(from + i);
	done = send(fd, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
	return done < 0 ? 0 : (size_t)done;
}

void rig_queue_bytes(struct tcp_conn *conn, uint64_t bytes)
{
	for (uint64_t at = 0; at < bytes;) {
		struct rte_mbuf *m = ksock_transport.alloc(conn);
		const uint16_t part = (uint16_t)RTE_MIN(bytes - at, (uint64_t)ksock_transport.mss(conn));
		uint8_t *data;

		if (!CHECK(m != NULL))
			return;
		data = (uint8_t *)rte_pktmbuf_append(m, part);
		for (uint16_t i = 0; i < part; i++)
			data[i] = rig_byte_at(at + i);
		CHECK(ksock_transport.send(conn, m));
		at += part;
	}
}

int rig_read_some(int fd, uint64_t *at, size_t most)
{
	uint8_t data[16384];
	const ssize_t n = recv(fd, data, RTE_MIN(most, sizeof(data)), MSG_DONTWAIT);
	bool wrong = false;

	for (ssize_t i = 0; i < n; i++)
		wrong |= data[i] != rig_byte_at(*at + (uint64_t)i);
	CHECK(!wrong);
	*at += n > 0 ? (uint64_t)n : 0;
	return n > 0 || (n < 0 && errno == EAGAIN) ? 1 : n < 0 ? -errno : 0;
}

int rig_read_to_end(int fd, uint64_t *at)
{
	int state = 1;

	for (unsigned i = 0; i < TURNS_MAX && state == 1; i++) {
		rig_turn();
		state = rig_read_some(fd, at, SIZE_MAX);
	}
	return state;
}
