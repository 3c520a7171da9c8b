/* SPDX-License-Identifier: BSD-3-Clause */
/* Listening, and places for connections. */
#include <errno.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/ksock/cases.h"
#include "tests/ksock/rig.h"

void no_descriptors_for_a_while(void)
{
	struct rlimit before, none;
	int fd;

	rig_up();
	getrlimit(RLIMIT_NOFILE, &before);
	fd = rig_dial();
	none = before;
	none.rlim_cur = 3;
	setrlimit(RLIMIT_NOFILE, &none);
	rig_turns(20);
	CHECK_UINT(rig.opened, 0);
	CHECK_UINT(ksock_counters(rig.ks)->accept_failed, 1); /* the listening socket rests meanwhile */
	setrlimit(RLIMIT_NOFILE, &before);
	UNTIL(rig.opened == 1);
	close(fd);
	rig_down();
}

void a_full_table_evicts_the_idlest(void)
{
	int fds[ROOM], further;

	rig_up();
	for (unsigned i = 0; i < ROOM; i++)
		fds[i] = rig_dial_and_open();
	further = rig_dial();
	rig_turns(20);
	CHECK_UINT(rig.opened, ROOM); /* none is idle */
	CHECK_UINT(ksock_counters(rig.ks)->refused, 1);
	close(further);
	rig.now_ns += 11 * UINT64_C(1000000000);
	for (unsigned i = 0; i < ROOM; i++)
		if (i != 1) {
			rig_write_some(fds[i], 0, 10);
			UNTIL(rig.peers[i].bytes == 10);
		}
	rig_turns(5);
	CHECK_UINT(ksock_counters(rig.ks)->idle_closed, 0); /* nobody waits for its place */
	further = rig_dial_and_open();
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
void one_address_leaves_entries_for_others(void)
{
	int fds[ROOM], worker, further;

	rig_up();
	for (unsigned i = 0; i < ROOM; i++)
		fds[i] = rig_dial_and_open();
	for (unsigned i = 0; i < ROOM; i++)
		if (i != 2) {
			rig_write_some(fds[i], 0, 10);
			UNTIL(rig.peers[i].bytes == 10);
		}
	worker = rig_dial_and_open_from(2);
	CHECK_UINT(rig.peers[2].closed, 1);
	CHECK_UINT(ksock_counters(rig.ks)->idle_closed, 1);
	for (unsigned i = 0; i < 8; i++) {
		further = rig_dial();
		rig_turns(5);
		CHECK_UINT(rig.opened, ROOM + 1);
		close(further);
	}
	/* Nor does the other one get more than a share: 3 of the first's are no longer many beside 2 of its own. */
	further = rig_dial_from(2);
	rig_turns(5);
	CHECK_UINT(rig.opened, ROOM + 1);
	CHECK_UINT(ksock_counters(rig.ks)->refused, 9);
	rig_write_some(worker, 0, 100);
	UNTIL(rig.peers[ROOM].bytes == 100);
	CHECK_UINT(rig.peers[ROOM].closed, 0);
	close(further);
	close(worker);
	for (unsigned i = 0; i < ROOM; i++)
		close(fds[i]);
	rig_down();
}

/* One address has all descriptors. */
void descriptors_are_shared_out(void)
{
	struct rlimit before, none;
	int fds[ROOM - 1], worker;

	rig_up();
	for (unsigned i = 0; i < ROOM - 1; i++)
		fds[i] = rig_dial_and_open();
	getrlimit(RLIMIT_NOFILE, &before);
	worker = rig_dial_from(2);
	none = before;
	none.rlim_cur = (rlim_t)dup(worker); /* the lowest that is free */
	close((int)none.rlim_cur);
	setrlimit(RLIMIT_NOFILE, &none);
	UNTIL(rig.opened == ROOM);
	setrlimit(RLIMIT_NOFILE, &before);
	CHECK_UINT(rig.peers[0].closed, 1);
	CHECK_UINT(ksock_counters(rig.ks)->accept_failed, 0);
	rig_write_some(worker, 0, 100);
	UNTIL(rig.peers[ROOM - 1].bytes == 100);
	close(worker);
	for (unsigned i = 0; i < ROOM - 1; i++)
		close(fds[i]);
	rig_down();
}

/* The last free place is taken while another connection is idle: that one stays. */
void the_last_free_entry_evicts_no_connection(void)
{
	int fds[ROOM];

	rig_up();
	for (unsigned i = 0; i + 1 < ROOM; i++)
		fds[i] = rig_dial_and_open();
	rig.now_ns += 11 * UINT64_C(1000000000);
	fds[ROOM - 1] = rig_dial_and_open();
	rig_turns(5);
	CHECK_UINT(ksock_connections(rig.ks), ROOM);
	CHECK_UINT(ksock_counters(rig.ks)->idle_closed, 0);
	for (unsigned i = 0; i < ROOM; i++)
		close(fds[i]);
	rig_down();
}

static bool another_listens(uint16_t port)
{
	const struct sockaddr_in address = rig_address_of(port);
	const int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	bool listens;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	listens = bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 && listen(fd, 1) == 0;
	close(fd);
	return listens;
}

/* Also where connections of a former process are still known to the kernel. */
void a_port_is_reserved_before_it_is_listened_at(void)
{
	struct star_error err = { 0 };
	struct ksock_options options = {
		.io = rig.io, .host = "127.0.0.1", .connections_max = ROOM, .receive_window_bytes = WINDOW
	};
	int fd;

	rig_up();
	fd = rig_dial();
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
	CHECK_INT(ksock_transport.listen(rig.ks, (uint16_t)(rig.port + 1), &rig_handler, NULL), -EADDRINUSE);
	CHECK_INT(ksock_transport.listen(rig.ks, rig.port, &rig_handler, NULL), 0);
	CHECK_INT(ksock_transport.listen(rig.ks, rig.port, &rig_handler, NULL), -EADDRINUSE);
	CHECK(!another_listens(rig.port));
	close(fd);
	fd = rig_dial();
	UNTIL(rig.opened == 2);
	ksock_transport.close(rig.peers[1].conn);
	close(fd);
	rig_turns(3);
	rig_down();
}

/* It is this process's all the same, and connections that were accepted go on. */
void a_port_that_is_not_listened_at_any_more_refuses(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int again, fd, next;

	rig_up();
	fd = rig_dial();
	UNTIL(rig.opened == 1);
	ksock_transport.unlisten(rig.ks);
	ksock_transport.unlisten(rig.ks);
	next = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	a.sin_port = htons(rig.port);
	CHECK(connect(next, (struct sockaddr *)&a, sizeof(a)) < 0);
	CHECK_INT(errno, ECONNREFUSED);
	CHECK(!another_listens(rig.port));
	rig_turns(3);
	CHECK_UINT(rig.opened, 1);
	CHECK(!rig.peers[0].closed);
	/* Until it is listened at once more. */
	CHECK_INT(ksock_transport.listen(rig.ks, rig.port, &rig_handler, NULL), 0);
	CHECK_INT(ksock_transport.listen(rig.ks, rig.port, &rig_handler, NULL), -EADDRINUSE);
	again = rig_dial();
	UNTIL(rig.opened == 2);
	ksock_transport.close(rig.peers[0].conn);
	ksock_transport.close(rig.peers[1].conn);
	close(fd);
	close(next);
	close(again);
	rig_turns(3);
	rig_down();
}
