/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes of a connection, and its end. */
#include <errno.h>
#include <rte_mempool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/ksock/cases.h"
#include "tests/ksock/rig.h"

void received_in_order(void)
{
	uint64_t sent = 0;
	int fd;

	rig_up();
	fd = rig_dial_and_open();
	while (sent < LARGE) {
		sent += rig_write_some(fd, sent, LARGE - sent);
		rig_turn();
	}
	UNTIL(rig.peers[0].bytes == LARGE);
	CHECK_UINT(ksock_counters(rig.ks)->no_mbuf, 0); /* the pool had some all the time */
	rig_turns(2); /* one that finds nothing gives the spare mbufs back; but the kernel has some with io_uring */
	CHECK(rte_mempool_in_use_count(rig.link.pool[0]) <= (rig.io == KSOCK_IO_URING ? 32 : 0));
	close(fd);
	UNTIL(rig.peers[0].finished == 1);
	ksock_transport.close(rig.peers[0].conn);
	UNTIL(rig.peers[0].closed == 1);
	CHECK_INT(rig.peers[0].reason, 0);
	CHECK_UINT(ksock_connections(rig.ks), 0);
	rig_down();
}

void the_window_pauses_and_resumes(void)
{
	uint64_t sent = 0;
	int fd;

	rig_up();
	rig.keeps = true;
	fd = rig_dial_and_open();
	for (unsigned i = 0; i < 100; i++) {
		sent += rig_write_some(fd, sent, WINDOW);
		rig_turn();
	}
	/* With io_uring the kernel may fill the mbufs that it has twice before it is told to stop. */
	CHECK(rig.peers[0].bytes >= WINDOW);
	CHECK(rig.peers[0].bytes <=
	      WINDOW + (rig.io == KSOCK_IO_URING ? 2 * ksock_buffers(rig.ks) * ksock_transport.mss(rig.peers[0].conn)
						 : 0));
	CHECK(sent > rig.peers[0].bytes);
	CHECK_UINT(ksock_receive(rig.ks, rig.now_ns), 0); /* and the reactor can sleep */
	rig.keeps = false;
	ksock_transport.consumed(rig.peers[0].conn, (uint32_t)rig.peers[0].bytes);
	UNTIL(rig.peers[0].bytes == sent);
	close(fd);
	rig_down();
}

void a_slow_reader_gets_all(void)
{
	uint64_t got = 0;
	int fd;

	rig_up();
	fd = rig_dial_and_open();
	rig_queue_bytes(rig.peers[0].conn, LARGE);
	for (unsigned i = 0; i < 200; i++) {
		rig_turn();
		rig_read_some(fd, &got, 100);
	}
	rig_turns(20);
	CHECK_UINT(ksock_receive(rig.ks, rig.now_ns), 0); /* the kernel is full: there is nothing to do */
	while (got < LARGE && rig_read_some(fd, &got, SIZE_MAX) == 1)
		rig_turn();
	CHECK_UINT(got, LARGE);
	UNTIL(ksock_transport.queued(rig.peers[0].conn) == 0);
	close(fd);
	rig_down();
}

void a_close_sends_what_is_queued(void)
{
	uint64_t got = 0;
	int fd;

	rig_up();
	fd = rig_dial_and_open();
	rig_queue_bytes(rig.peers[0].conn, LARGE);
	ksock_transport.close(rig.peers[0].conn);
	CHECK_INT(rig_read_to_end(fd, &got), 0);
	CHECK_UINT(got, LARGE);
	close(fd);
	UNTIL(rig.peers[0].closed == 1);
	CHECK_INT(rig.peers[0].reason, 0);
	rig_down();
}

/* What the peer still sends does not cost it the last reply. */
void a_close_reads_on(void)
{
	uint64_t got = 0, sent = 0;
	int fd;

	rig_up();
	rig.closes = true;
	fd = rig_dial();
	while (rig_write_some(fd, sent, WINDOW) && sent < LARGE)
		sent += WINDOW;
	UNTIL(rig.opened == 1);
	rig_queue_bytes(rig.peers[0].conn, 1000);
	CHECK_INT(rig_read_to_end(fd, &got), 0);
	CHECK_UINT(got, 1000);
	CHECK_UINT(rig.peers[0].closed, 0);
	rig_turns(2100); /* a peer that never ends is left to the kernel */
	CHECK_UINT(rig.peers[0].closed, 1);
	CHECK_UINT(ksock_counters(rig.ks)->unsent_timeouts, 0);
	close(fd);
	rig_down();
}

void a_close_gives_up_in_the_end(void)
{
	int fd;

	rig_up();
	fd = rig_dial_and_open();
	rig_queue_bytes(rig.peers[0].conn, LARGE);
	rig_queue_bytes(rig.peers[0].conn, LARGE);
	ksock_transport.close(rig.peers[0].conn);
	rig_turns(50);
	rig.now_ns += 31 * UINT64_C(1000000000);
	rig_turns(2);
	CHECK_UINT(rig.peers[0].closed, 1);
	CHECK_INT(rig.peers[0].reason, ETIMEDOUT);
	CHECK_UINT(ksock_counters(rig.ks)->unsent_timeouts, 1);
	close(fd);
	rig_down();
}

void an_abort_resets(void)
{
	uint64_t got = 0;
	int fd;

	rig_up();
	fd = rig_dial_and_open();
	ksock_transport.abort(rig.peers[0].conn);
	CHECK_INT(rig.peers[0].reason, ECONNABORTED);
	CHECK_INT(rig_read_to_end(fd, &got), -ECONNRESET);
	close(fd);
	rig.refuses = true;
	fd = rig_dial();
	CHECK_INT(rig_read_to_end(fd, &got), -ECONNRESET);
	CHECK_UINT(ksock_counters(rig.ks)->refused, 1);
	close(fd);
	rig_down();
}

void a_peer_may_end_its_half(void)
{
	uint64_t got = 0;
	int fd;

	rig_up();
	fd = rig_dial_and_open();
	rig_write_some(fd, 0, 100);
	shutdown(fd, SHUT_WR);
	UNTIL(rig.peers[0].finished == 1);
	CHECK_UINT(rig.peers[0].bytes, 100);
	rig_turns(5);
	CHECK_UINT(rig.peers[0].finished, 1);
	rig_queue_bytes(rig.peers[0].conn, 5000);
	ksock_transport.close(rig.peers[0].conn);
	CHECK_INT(rig_read_to_end(fd, &got), 0);
	CHECK_UINT(got, 5000);
	CHECK_UINT(rig.peers[0].closed, 1);
	close(fd);
	rig_down();
}

void a_connection_ends_inside_a_handler(void)
{
	int fds[3];

	rig_up();
	rig.aborts = true;
	for (unsigned i = 0; i < 3; i++)
		fds[i] = rig_dial_and_open();
	for (unsigned i = 0; i < 3; i++)
		rig_write_some(fds[i], 0, WINDOW);
	UNTIL(ksock_connections(rig.ks) == 0);
	for (unsigned i = 0; i < 3; i++) {
		CHECK_UINT(rig.peers[i].closed, 1);
		CHECK(rig.peers[i].bytes < WINDOW); /* one piece, and no more */
		close(fds[i]);
	}
	rig_down();
}

void an_empty_payload_sends_nothing(void)
{
	uint64_t got = 0;
	int fd;

	rig_up();
	fd = rig_dial_and_open();
	CHECK(ksock_transport.send(rig.peers[0].conn, ksock_transport.alloc(rig.peers[0].conn)));
	rig_turns(2);
	CHECK_UINT(ksock_receive(rig.ks, rig.now_ns), 0);
	ksock_transport.close(rig.peers[0].conn);
	CHECK_INT(rig_read_to_end(fd, &got), 0);
	close(fd);
	rig_down();
}

/* Mbufs run out in the middle of what a peer sends, and come back. */
void no_mbufs_for_a_while(void)
{
	const unsigned kept = 4095 / 8, spared = kept + 8; /* an eighth is for replies */
	uint64_t sent = 0;
	int fds[2];

	rig_up();
	fds[0] = rig_dial_and_open();
	fds[1] = rig_dial_and_open();
	rig_turns(2);
	while (rte_mempool_avail_count(rig.link.pool[0]) > spared)
		rig.kept[rig.kept_count++] = rte_pktmbuf_alloc(rig.link.pool[0]);
	rig.hoards = true;
	for (unsigned i = 0; i < 300; i++) {
		sent += rig_write_some(fds[0], sent, WINDOW);
		rig_turn();
	}
	CHECK(rte_mempool_avail_count(rig.link.pool[0]) >= kept && rte_mempool_avail_count(rig.link.pool[0]) <= spared);
	CHECK(ksock_counters(rig.ks)->no_mbuf > 0);
	CHECK(rig.peers[0].bytes < sent);
	CHECK(ksock_receive(rig.ks, rig.now_ns) || rig.io == KSOCK_IO_EPOLL); /* the reactor does not sleep on it */
	rig_write_some(fds[1], 0, 10);
	rig_turns(3);
	CHECK_UINT(rig.peers[1].bytes, 0);
	rig.hoards = false;
	rte_pktmbuf_free_bulk(rig.kept, rig.kept_count);
	UNTIL(rig.peers[0].bytes == sent);
	UNTIL(rig.peers[1].bytes == 10);
	close(fds[0]);
	close(fds[1]);
	rig_down();
}

/* What many peers send at once, and nobody consumes, leaves mbufs to others. When it is consumed, the rest comes. */
void what_waits_unread_is_bounded(void)
{
	static uint64_t sent[MANY];
	static int fds[MANY];

	rig_up_with(MANY);
	for (unsigned i = 0; i < MANY; i++)
		fds[i] = rig_dial_and_open();
	rig.keeps = rig.hoards = true;
	for (unsigned i = 0; i < MANY; i++)
		sent[i] = rig_write_some(fds[i], 0, WINDOW);
	rig_turns(300);
	/* An eighth of the pool, an mbuf of each connection, and what was under way when it became so much. */
	CHECK(rig.kept_count > 4095 / 8);
	CHECK(rte_mempool_in_use_count(rig.link.pool[0]) < 4095 / 2);
	rig.keeps = rig.hoards = false;
	rte_pktmbuf_free_bulk(rig.kept, rig.kept_count);
	for (unsigned i = 0; i < MANY; i++)
		ksock_transport.consumed(rig.peers[i].conn, (uint32_t)rig.peers[i].bytes);
	for (unsigned i = 0; i < MANY; i++)
		UNTIL(rig.peers[i].bytes == sent[i]);
	for (unsigned i = 0; i < MANY; i++)
		close(fds[i]);
	rig_down();
}

/* More than one system call takes; each gets its own number of bytes, in one piece or in several. */
void many_are_answered_in_one_turn(void)
{
	static int fds[MANY];
	bool right = true;

	rig_up_with(MANY);
	for (unsigned i = 0; i < MANY; i++)
		fds[i] = rig_dial_and_open();
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < MANY; i++)
			rig_queue_bytes(rig.peers[i].conn, i < 200 ? 100 + i : 4500 + i);
		rig_turns(3);
		for (unsigned i = 0; i < MANY; i++) {
			const uint64_t expected = i < 200 ? 100 + i : 4500 + i;
			uint64_t got = 0;

			for (unsigned t = 0; t < 100 && got < expected; t++) {
				rig_read_some(fds[i], &got, SIZE_MAX);
				if (got < expected)
					rig_turn();
			}
			right &= got == expected;
		}
	}
	CHECK(right);
	for (unsigned i = 0; i < MANY; i++)
		close(fds[i]);
	UNTIL(rig.peers[MANY - 1].finished == 1);
	rig_down();
}
