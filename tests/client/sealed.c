/* SPDX-License-Identifier: BSD-3-Clause */
/* Nodes that want tickets: getting them, and what happens with a node that does not accept one, or with somebody in
 * between. */
#include "tests/client/cases.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "secure/ticket.h"

enum { DIM = 4 };

static struct bench start(enum secure_data data)
{
	peer_data = data;
	return bench_start(1, 1, DIM);
}

static void stop(struct bench *b)
{
	bench_stop(b);
	peer_data = SECURE_DATA_OPEN;
}

static int push_one(struct bench *b, uint64_t key)
{
	const float gradient[DIM] = { 1, 1, 1, 1 };
	struct star_error err = { 0 };
	const int rc = star_push(b->table, &key, 1, gradient, LONG_US, &err);

	if (rc < 0)
		unit_fail(__FILE__, __LINE__, "%s", err.text);
	return rc;
}

/* Nothing of it reaches the caller, the connection ends, and the next one brings it, once. */
void changed_replies_are_asked_for_again(void)
{
	for (int data = SECURE_DATA_CHECKED; data <= SECURE_DATA_SEALED; data++) {
		struct bench b = start((enum secure_data)data);
		uint32_t applied = 0;
		float first;

		pull_works(&b);
		CHECK_UINT(peer_connections(b.peer), 1);
		for (unsigned i = 1; i <= 60; i++) {
			pthread_mutex_lock(&b.peer->lock);
			b.peer->tampered = i % 3 ? 1 : 2; /* the second time over, too */
			b.peer->repeats = true;
			pthread_mutex_unlock(&b.peer->lock);
			if (i % 2)
				pull_works(&b);
			else if (push_one(&b, 77) == 0)
				peer_find(b.peer, 1, 77, &applied, &first);
			if (i % 2 == 0 && !CHECK_UINT(applied, i / 2))
				break;
			pthread_mutex_lock(&b.peer->lock);
			CHECK_UINT(b.peer->tampered, 0);
			pthread_mutex_unlock(&b.peer->lock);
		}
		CHECK(peer_connections(b.peer) > 60);
		stop(&b);
	}
}

void tickets_that_are_good_no_more_are_replaced(void)
{
	struct bench b = start(SECURE_DATA_SEALED);

	pull_works(&b);
	CHECK_UINT(peer_tickets_asked(b.peer), 1);
	for (uint32_t i = 1; i <= 3; i++) {
		peer_forget_tickets(b.peer);
		peer_misbehave(b.peer, FAULT_CLOSE, 0, 1);
		pull_works(&b);
		CHECK_UINT(peer_tickets_asked(b.peer), 1 + i);
	}
	stop(&b);
}

/* Of a pair the one before is not asked: its machine may be gone, and it takes a connection here, and says nothing. */
void the_next_ticket_comes_from_who_refused_the_last(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const int mute = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct bench b = start(SECURE_DATA_SEALED);
	socklen_t bytes = sizeof(a);
	char place[64];

	CHECK_INT(bind(mute, (struct sockaddr *)&a, sizeof(a)), 0);
	CHECK_INT(listen(mute, 8), 0);
	CHECK_INT(getsockname(mute, (struct sockaddr *)&a, &bytes), 0);
	snprintf(place, sizeof(place), "127.0.0.1:%u", ntohs(a.sin_port));
	pull_works(&b);
	pthread_mutex_lock(&b.peer->lock);
	b.peer->ticket_place = place;
	pthread_mutex_unlock(&b.peer->lock);
	peer_open_door(b.peer);
	pull_works(&b); /* by the new layout */
	peer_forget_tickets(b.peer);
	peer_unplug(b.peer);
	pull_works(&b);
	CHECK_UINT(peer_tickets_asked(b.peer), 2);
	CHECK_INT(accept(mute, NULL, NULL), -1);
	CHECK_INT(errno, EAGAIN);
	stop(&b);
	close(mute);
}

/* The connection ends: the next call needs another one. */
static void lose_connection(struct bench *b)
{
	peer_misbehave(b->peer, FAULT_CLOSE_AFTER, 0, 1);
	pull_works(b);
	sleep_ms(20);
}

/* So often something is refused from now on; how often it would still have been. */
static uint32_t refuse(struct bench *b, uint32_t *times, uint32_t count)
{
	uint32_t left;

	pthread_mutex_lock(&b->peer->lock);
	left = *times;
	*times = count;
	pthread_mutex_unlock(&b->peer->lock);
	return left;
}

void who_gets_no_ticket_is_told_why(void)
{
	struct bench b = start(SECURE_DATA_SEALED);
	struct star_error err = { 0 };
	uint64_t key = 1, began_us;
	float row[DIM];

	lose_connection(&b);
	refuse(&b, &b.peer->tickets_refused, UINT32_MAX);
	peer_forget_tickets(b.peer);
	/* At once, and not when the time to connect is over, a minute later. */
	began_us = clock_us();
	CHECK_INT(star_pull(b.table, &key, 1, row, 0, UINT64_C(600000000), &err), -EPERM);
	CHECK(clock_us() - began_us < 30000000);
	CHECK_HAS(err.text, "no ticket for PS task 0: ");
	CHECK_HAS(err.text, "no ticket for you");
	/* And goes on as soon as it is given one. */
	refuse(&b, &b.peer->tickets_refused, 0);
	pull_works(&b);
	stop(&b);
}

/* The ticket is as good as before, and used again. */
void who_is_over_a_quota_is_told_so(void)
{
	struct bench b = start(SECURE_DATA_SEALED_256);
	struct star_error err = { 0 };
	uint64_t key = 1;
	float row[DIM];

	lose_connection(&b);
	refuse(&b, &b.peer->over_quota, 2);
	pull_works(&b);
	CHECK_UINT(refuse(&b, &b.peer->over_quota, 0), 0);
	lose_connection(&b);
	refuse(&b, &b.peer->over_quota, UINT32_MAX);
	CHECK_INT(star_pull(b.table, &key, 1, row, 0, 1500000, &err), -EDQUOT);
	CHECK_HAS(err.text, "as many connections or sessions there as its quota allows");
	refuse(&b, &b.peer->over_quota, 0);
	pull_works(&b);
	CHECK_UINT(peer_tickets_asked(b.peer), 1);
	stop(&b);
}

/* A well-formed answer with a good checksum, from somebody without the keys. */
void replies_in_clear_are_not_believed(void)
{
	struct bench b = start(SECURE_DATA_SEALED);

	pull_works(&b);
	for (unsigned i = 0; i < 3; i++) {
		peer_misbehave(b.peer, i == 0 ? FAULT_WRONG_COUNT : i == 1 ? FAULT_SEQUENCE : FAULT_TWICE, 0, 1);
		pull_works(&b);
		pull_works(&b);
	}
	CHECK(peer_connections(b.peer) > 3);
	stop(&b);
}
