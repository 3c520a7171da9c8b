/* SPDX-License-Identifier: BSD-3-Clause */
/* The virtual clock, who waits for it, and the packets that leave. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/packetdrill/so/shim.h"

/* packetdrill waits for the last microseconds before an event by asking for the time again and again. */
enum { ASKED_BEFORE_SPINNING = 4, SPIN_NS = 1000 };
/* How long a packet is waited for: longer than any timer of TCP but those of a script that sets them so. */
#define PATIENCE_NS (UINT64_C(4) * 3600 * 1000000000)
#define STEP_NS 1000

struct shim shim = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

/* Of threads other than the main one: whether it counts as running, and when its last call returned. That is the time
 * it is told when it asks next: the main thread may have gone on. */
static __thread bool counted, finishing;
static __thread uint64_t returned_ns;

static bool is_main(void)
{
	return pthread_equal(pthread_self(), shim.main);
}

static void wake(void)
{
	for (struct waiter *w = shim.waiters; w; w = w->next)
		if (!w->awake && (shim.now_ns >= w->deadline_ns || w->ready(w->ctx))) {
			w->awake = true;
			shim.running++;
			pthread_cond_broadcast(&shim.changed);
		}
}

/* Lets everything happen that is due at this moment, in the stack and in the threads that wait. */
static void settle(void)
{
	do {
		while (is_main() && shim.running)
			shim_wait_changed();
		shim_release();
		stack_turn(shim.now_ns);
		wake();
	} while (is_main() && shim.running);
}

static uint64_t next_event(void)
{
	uint64_t next = stack_next_ns(), release = shim_next_release();

	if (release < next)
		next = release;
	for (const struct waiter *w = shim.waiters; w; w = w->next)
		if (!w->awake && w->deadline_ns < next)
			next = w->deadline_ns;
	return next;
}

/* One step towards target: to the next event, if that is earlier. */
static void step(uint64_t target)
{
	uint64_t next = next_event();

	if (next < shim.now_ns + STEP_NS)
		next = shim.now_ns + STEP_NS;
	shim.now_ns = next < target ? next : target;
	settle();
}

static void set_finishing(bool value)
{
	if (is_main() || finishing == value)
		return;
	finishing = value;
	shim.finishing += value ? 1 : -1u;
	pthread_cond_broadcast(&shim.changed);
}

void shim_idle(void)
{
	if (!finishing)
		return;
	pthread_mutex_lock(&shim.lock);
	set_finishing(false);
	pthread_mutex_unlock(&shim.lock);
}

void shim_enter(void)
{
	pthread_mutex_lock(&shim.lock);
	set_finishing(false);
	shim.asked = 0;
}

long shim_leave(long result)
{
	const int error = errno;

	settle();
	if (!is_main()) {
		returned_ns = shim.now_ns;
		if (counted) {
			counted = false;
			shim.running--;
			pthread_cond_broadcast(&shim.changed);
		}
		set_finishing(shim.preloaded);
	}
	pthread_mutex_unlock(&shim.lock);
	errno = error;
	return result;
}

static bool wait_in_main(bool (*ready)(void *ctx), void *ctx, uint64_t deadline_ns)
{
	for (;;) {
		settle();
		if (ready(ctx))
			return true;
		if (shim.now_ns >= deadline_ns)
			return false;
		if (deadline_ns == SHIM_FOREVER && next_event() == UINT64_MAX) {
			fprintf(stderr, "packetdrill.so: a call blocks, and nothing will ever wake it\n");
			return false;
		}
		step(deadline_ns);
	}
}

static bool wait_elsewhere(bool (*ready)(void *ctx), void *ctx, uint64_t deadline_ns)
{
	struct waiter w = { .ready = ready, .ctx = ctx, .deadline_ns = deadline_ns, .next = shim.waiters }, **link;

	shim.waiters = &w;
	if (counted) {
		counted = false;
		shim.running--;
		pthread_cond_broadcast(&shim.changed);
	}
	while (!w.awake)
		if (shim.main_waits && next_event() != UINT64_MAX)
			step(next_event());
		else
			shim_wait_changed();
	counted = true;
	for (link = &shim.waiters; *link != &w; link = &(*link)->next)
		;
	*link = w.next;
	return ready(ctx);
}

bool shim_wait(bool (*ready)(void *ctx), void *ctx, uint64_t deadline_ns)
{
	if (is_main())
		return wait_in_main(ready, ctx, deadline_ns);
	settle();
	if (ready(ctx))
		return true;
	return shim.now_ns < deadline_ns && wait_elsewhere(ready, ctx, deadline_ns);
}

uint64_t shim_deadline(int timeout_ms)
{
	return timeout_ms < 0 ? SHIM_FOREVER : shim.now_ns + (uint64_t)timeout_ms * 1000000;
}

void shim_main_waits(bool waits)
{
	if (!shim.started || !is_main())
		return;
	pthread_mutex_lock(&shim.lock);
	shim.main_waits = waits;
	pthread_cond_broadcast(&shim.changed);
	pthread_mutex_unlock(&shim.lock);
}

void shim_output(void *ctx, const void *data, size_t bytes)
{
	struct packet *p = malloc(sizeof(*p) + bytes);

	if (!p)
		return;
	p->next = NULL;
	p->time_ns = shim.now_ns;
	p->bytes = bytes;
	memcpy(p->data, data, bytes);
	*shim.packets_tail = p;
	shim.packets_tail = &p->next;
}

/* The address that an inbound packet is for is the stack's, where no socket has named one yet. */
static void adopt_address(const uint8_t *ip, size_t bytes)
{
	struct endpoint local = { .family = AF_UNSPEC };

	if (stack_family() != AF_UNSPEC)
		return;
	if (bytes >= 20 && ip[0] >> 4 == 4) {
		local.family = AF_INET;
		memcpy(local.address, ip + 16, 4);
	} else if (bytes >= 40 && ip[0] >> 4 == 6) {
		local.family = AF_INET6;
		memcpy(local.address, ip + 24, 16);
	}
	if (local.family != AF_UNSPEC)
		shim_stack_for(&local);
}

int shim_netdev_send(void *self, const void *packet, size_t bytes)
{
	shim_enter();
	adopt_address(packet, bytes);
	stack_input(packet, bytes, shim.now_ns);
	return (int)shim_leave(0);
}

int shim_netdev_receive(void *self, void *packet, size_t *bytes, long long *time_us)
{
	struct packet *p;
	uint64_t patience_ns;

	shim_enter();
	settle();
	patience_ns = shim.now_ns + PATIENCE_NS;
	while (!shim.packets) {
		if (next_event() > patience_ns) {
			/* After an error it would ask again, for ever. No packet is one that it cannot read, and the
			 * line of its script that it stops at is said. */
			fprintf(stderr, "no packet is sent, and none will be: no timer runs in the stack\n");
			*bytes = 0;
			*time_us = (long long)(shim.now_ns / 1000);
			return (int)shim_leave(0);
		}
		step(patience_ns);
	}
	p = shim.packets;
	shim.packets = p->next;
	if (!shim.packets)
		shim.packets_tail = &shim.packets;
	if (*bytes > p->bytes)
		*bytes = p->bytes;
	memcpy(packet, p->data, *bytes);
	*time_us = (long long)(p->time_ns / 1000);
	free(p);
	return (int)shim_leave(0);
}

/* packetdrill's own lock is free while it sleeps: other threads get on. */
static void wait_finished(void)
{
	while (shim.finishing)
		shim_wait_changed();
}

int shim_usleep(void *self, useconds_t us)
{
	uint64_t target;

	shim_enter();
	target = shim.now_ns + (uint64_t)us * 1000;
	settle();
	wait_finished();
	while (shim.now_ns < target) {
		step(target);
		wait_finished();
	}
	shim_leave(0);
	returned_ns = 0;
	return 0;
}

int shim_gettimeofday(void *self, struct timeval *now, struct timezone *zone)
{
	uint64_t ns;

	pthread_mutex_lock(&shim.lock);
	if (!returned_ns && ++shim.asked > ASKED_BEFORE_SPINNING)
		step(shim.now_ns + SPIN_NS);
	ns = returned_ns ? returned_ns : shim.now_ns;
	returned_ns = 0;
	pthread_mutex_unlock(&shim.lock);
	*now = (struct timeval){ .tv_sec = (time_t)(ns / 1000000000), .tv_usec = (suseconds_t)(ns / 1000 % 1000000) };
	return 0;
}
