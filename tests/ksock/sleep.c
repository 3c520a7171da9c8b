/* SPDX-License-Identifier: BSD-3-Clause */
/* A reactor's sleep. */
#include <pthread.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/ksock/cases.h"
#include "tests/ksock/rig.h"

/* A sleep that something ends takes much less than it was to be, and no more than a slow machine needs. */
enum { SLEEP_S = 60, WOKEN_S = 20 };

static bool sleeps_no_longer(int wake_fd)
{
	const uint64_t before = clock_ns();

	ksock_sleep(rig.ks, wake_fd, SLEEP_S * UINT64_C(1000000000));
	return clock_ns() - before < WOKEN_S * UINT64_C(1000000000);
}

/* Takes turns until there is nothing to do, as before a sleep. */
static void settle(void)
{
	unsigned idle = 0;

	for (unsigned i = 0; i < TURNS_MAX && idle < 3; i++) {
		idle = ksock_receive(rig.ks, rig.now_ns) ? 0 : idle + 1;
		ksock_transmit(rig.ks, rig.now_ns);
	}
	CHECK_UINT(idle, 3);
}

struct later {
	pthread_t thread;
	int fd, wake_fd;
};

static void *act_later(void *argument)
{
	const struct timespec pause = { .tv_nsec = 100000000 };
	const struct later *later = argument;
	const uint64_t one = 1;

	nanosleep(&pause, NULL);
	if (later->fd >= 0)
		CHECK_UINT(rig_write_some(later->fd, 0, 10), 10);
	else
		CHECK_INT(write(later->wake_fd, &one, sizeof(one)), sizeof(one));
	return NULL;
}

/* By a byte or a wake-up that come before it or during it. A wake-up is read, and the next one wakes again. */
void a_sleep_ends_when_there_is_something(void)
{
	const int wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	struct later later = { .fd = -1, .wake_fd = wake_fd };
	const uint64_t one = 1;
	uint64_t before;
	int fd;

	rig_up();
	settle();
	fd = rig_dial();
	CHECK(sleeps_no_longer(wake_fd)); /* somebody connects */
	UNTIL(rig.opened == 1);
	settle();
	before = clock_ns();
	ksock_sleep(rig.ks, wake_fd, 50 * MS);
	CHECK(clock_ns() - before >= 50 * MS); /* nothing has happened */
	for (unsigned i = 0; i < 3; i++) {
		CHECK_INT(write(wake_fd, &one, sizeof(one)), sizeof(one));
		CHECK(sleeps_no_longer(wake_fd));
		settle();
		CHECK(read(wake_fd, &before, sizeof(before)) < 0);
		pthread_create(&later.thread, NULL, act_later, &later);
		CHECK(sleeps_no_longer(wake_fd));
		pthread_join(later.thread, NULL);
		settle();
	}
	rig_write_some(fd, 0, 10);
	CHECK(sleeps_no_longer(wake_fd));
	UNTIL(rig.peers[0].bytes == 10);
	settle();
	rig.peers[0].bytes = 0;
	later.fd = fd;
	pthread_create(&later.thread, NULL, act_later, &later);
	CHECK(sleeps_no_longer(wake_fd));
	pthread_join(later.thread, NULL);
	UNTIL(rig.peers[0].bytes == 10);
	close(fd);
	close(wake_fd);
	rig_down();
}
