/* SPDX-License-Identifier: BSD-3-Clause */
/* The driver: its lock, its turns, and how other threads wait. poller.h has the rules. */
#include "client_dpdk/poller.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <rte_lcore.h>
#include <rte_pause.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum {
	TIMERS_MAX = 64,   /* timers per turn */
	BURSTS_MAX = 64,   /* bursts sent per turn */
	SEND_TRIES = 16,   /* for a burst: the peer may be a core that is just emptying the ring */
	EMPTY_POLLS = 64,  /* between reads of the clock */
	SMALL_LOOKS = 256, /* before the first of them, for a small call */
	LOOKS_MAX = 2000,  /* reads of a finished flag before a thread sleeps: some microseconds */
	SETTLE_TRIES = 200,
	IN_A_ROW_NS = 20000,
	FULL_TURN_NS = 100000, /* at least one turn in this time does all work */
	WANTED_PAUSES = 1000,  /* how long a driver that was asked to release the lock leaves it alone */
};

/* ---- the lock ---- */

/*
 * The mempool has a cache for each lcore. There is one driver at a time, in any thread: it uses the lcore's number, and
 * with it the cache, while it has the lock.
 */
static inline void borrow_lcore(struct poller *p)
{
	p->lcore_at = &RTE_PER_LCORE(_lcore_id);
	p->lcore = *p->lcore_at;
	*p->lcore_at = 0;
}

static inline bool try_lock(struct poller *p)
{
	if (atomic_load_explicit(&p->locked, memory_order_relaxed) ||
	    atomic_exchange_explicit(&p->locked, 1, memory_order_acquire))
		return false;
	borrow_lcore(p);
	p->done = false;
	return true;
}

bool dpdk_poller_try(struct poller *p, struct waiter *k, const struct call *call)
{
	if (!try_lock(p))
		return false;
	p->driver = k;
	p->awaited = call;
	return true;
}

void dpdk_poller_lock(struct poller *p)
{
	atomic_fetch_add(&p->wanted, 1);
	while (!try_lock(p)) {
		const struct timespec moment = { 0, DOZE_MIN_NS };

		for (int i = 0; i < LOOKS_MAX && atomic_load_explicit(&p->locked, memory_order_relaxed); i++)
			rte_pause();
		if (atomic_load_explicit(&p->locked, memory_order_relaxed))
			nanosleep(&moment, NULL);
	}
	atomic_fetch_sub(&p->wanted, 1);
	p->driver = NULL;
	p->awaited = NULL;
	p->now_ns = clock_read(&p->clock);
	dpdk_poller_drain(p);
}

/* Wakes a sleeping thread to drive. */
static void wake_sleeper(struct poller *p)
{
	pthread_mutex_lock(&p->sleepers_lock);
	if (p->sleepers) {
		struct call *call = p->sleepers->call;
		uint32_t asleep = CALL_ASLEEP;

		if (atomic_compare_exchange_strong(&call->finished, &asleep, CALL_RUNS))
			syscall(SYS_futex, &call->finished, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	}
	pthread_mutex_unlock(&p->sleepers_lock);
}

static inline void leave_lock(struct poller *p)
{
	*p->lcore_at = p->lcore;
	/* Pairs with doze: either it sees that the lock is free, or we see that it sleeps. */
	atomic_exchange(&p->locked, 0);
	if (atomic_load_explicit(&p->sleepers_count, memory_order_relaxed))
		wake_sleeper(p);
}

void dpdk_poller_leave(struct poller *p)
{
	leave_lock(p);
}

/* ---- a turn ---- */

void dpdk_poller_post(struct poller *p, struct call *call)
{
	call->inbox_next = atomic_load_explicit(&p->inbox, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(&p->inbox, &call->inbox_next, call, memory_order_release,
						      memory_order_relaxed))
		;
}

/* Each stream once: a stream that has more to do is processed in the next turn. */
void dpdk_poller_pump_all(struct poller *p)
{
	struct streams dirty;
	struct stream *s;

	TAILQ_INIT(&dirty);
	TAILQ_CONCAT(&dirty, &p->dirty, link);
	p->starved = false;
	while ((s = TAILQ_FIRST(&dirty))) {
		TAILQ_REMOVE(&dirty, s, link);
		s->dirty = false;
		dpdk_stream_pump(s);
	}
}

void dpdk_poller_drain_all(struct poller *p)
{
	struct call *newest, *oldest = NULL;

	if (unlikely(atomic_load_explicit(&p->released, memory_order_relaxed)))
		dpdk_poller_reclaim(p);

	if (!atomic_load_explicit(&p->inbox, memory_order_relaxed))
		return;
	dpdk_poller_pump(p); /* a session that has to be closed is closed before anything new is queued in it */
	newest = atomic_exchange_explicit(&p->inbox, NULL, memory_order_acquire);
	while (newest) {
		struct call *next = newest->inbox_next;

		newest->inbox_next = oldest;
		oldest = newest;
		newest = next;
	}
	while (oldest) {
		struct call *next = oldest->inbox_next;

		dpdk_call_start(p, oldest);
		oldest = next;
	}
}

static inline unsigned take_frames(struct poller *p, struct rte_mbuf **frames)
{
	return port_receive(p->port, 0, frames, PORT_BURST);
}

static void send_rest(struct poller *p, struct rte_mbuf **frames, unsigned n, unsigned sent)
{
	for (unsigned try = 1; sent < n && try < SEND_TRIES; try++)
		sent += port_send(p->port, 0, frames + sent, (uint16_t)(n - sent));
	p->sent += sent;
	p->dropped += n - sent;
	if (sent < n)
		rte_pktmbuf_free_bulk(frames + sent, n - sent);
}

/* Sends one burst from the stack. */
static inline unsigned send_burst(struct poller *p, struct rte_mbuf **frames)
{
	const unsigned n = net_output(p->net, frames, PORT_BURST);
	unsigned sent;

	if (n == 0)
		return 0;
	sent = port_send(p->port, 0, frames, (uint16_t)n);
	if (likely(sent == n))
		p->sent += n;
	else
		send_rest(p, frames, n, sent);
	return n;
}

static unsigned output(struct poller *p)
{
	struct rte_mbuf *frames[PORT_BURST];
	unsigned total = 0, bursts = 0, n;
	bool more;

	p->deferred = 0;
	do {
		more = dgram_turn(p->dgram, p->now_ns);
		do {
			n = send_burst(p, frames);
			total += n;
		} while (n == PORT_BURST && ++bursts < BURSTS_MAX);
	} while (unlikely(more) && bursts++ < BURSTS_MAX);
	return total;
}

void dpdk_poller_flush(struct poller *p)
{
	dpdk_poller_pump(p);
	output(p);
}

/* Does all work at p->now_ns, after this many frames have arrived. Returns whether there was any. */
static bool turn_all(struct poller *p, unsigned n)
{
	unsigned work = n;

	p->turned_ns = p->now_ns;
	dpdk_poller_drain(p);
	wheel_advance(net_wheel(p->net), p->now_ns, TIMERS_MAX);
	dpdk_poller_pump(p);
	work += output(p);
	if (p->now_ns >= p->link_ns)
		dpdk_poller_link(p);
	if (work)
		atomic_store_explicit(&p->busy_ns, p->now_ns, memory_order_relaxed);
	return work;
}

/* The same, with n received frames; or only the urgent work. */
static inline bool turn(struct poller *p, struct rte_mbuf **frames, unsigned n)
{
	if (n)
		net_input(p->net, frames, n, p->now_ns);
	else
		net_turn(p->net, p->now_ns);
	/* The driver's call has finished, and it leaves; the next driver soon sends the rest (settle_poller). */
	if (p->done && p->awaited && !p->deferred && TAILQ_EMPTY(&p->dirty) &&
	    p->now_ns - p->turned_ns < FULL_TURN_NS) {
		atomic_store_explicit(&p->busy_ns, p->now_ns, memory_order_relaxed);
		return true;
	}
	return turn_all(p, n);
}

/*
 * For consecutive calls: the rest, mainly an acknowledgement, is sent with the next call's request. If a pause preceded
 * the call, another one may follow, and the peer would not know whether its reply has arrived.
 */
static void settle_poller(struct poller *p)
{
	const uint64_t before_ns = p->left_ns;

	p->left_ns = p->now_ns;
	if (p->entered_ns - before_ns < IN_A_ROW_NS)
		return;
	for (int i = 0; i < SETTLE_TRIES && dgram_next_ns(p->dgram) <= p->now_ns + ACK_DELAY_NS; i++) {
		p->now_ns = clock_read(&p->clock);
		output(p);
	}
}

void dpdk_poller_catch_up(struct poller *p)
{
	struct rte_mbuf *frames[PORT_BURST];
	unsigned n;

	do {
		n = take_frames(p, frames);
		turn(p, frames, n);
	} while (n == PORT_BURST);
}

/*
 * Drives until a call of the driver's has finished; or until the given time; or until there was nothing to do for a
 * while (unless it polls); or until another thread wants the lock or, for an I/O thread, has signalled.
 */
static void drive(struct poller *p, const struct star_cluster *cluster, const struct waiter *io, uint64_t until_ns)
{
	const bool polls = io && cluster->polling;
	const bool waits = io && !TAILQ_EMPTY(&((const struct io *)io)->running);
	unsigned empty = EMPTY_POLLS - 1; /* the first check may find calls in the inbox */

	while (!p->done) {
		struct rte_mbuf *frames[PORT_BURST];
		const unsigned n = take_frames(p, frames);

		if (n == 0 && ++empty < EMPTY_POLLS && !atomic_load_explicit(&p->inbox, memory_order_relaxed)) {
			continue; /* without a pause instruction, which takes as long as the check */
		}
		empty = 0;
		p->now_ns = clock_read(&p->clock);
		if (turn(p, frames, n))
			continue;
		if ((p->now_ns - p->busy_ns >= (io && !waits ? SPIN_NS : SPIN_WAITING_NS) && !polls) ||
		    p->now_ns >= until_ns || atomic_load_explicit(&p->wanted, memory_order_relaxed) ||
		    (io && atomic_load_explicit(&io->signalled, memory_order_relaxed)) ||
		    atomic_load_explicit(&cluster->closing, memory_order_relaxed))
			return;
	}
}

/* Lets a thread that wants the lock have it before we try again. */
static void let_in(struct poller *p)
{
	for (int i = 0; i < WANTED_PAUSES && atomic_load_explicit(&p->wanted, memory_order_relaxed); i++)
		rte_pause();
}

/* ---- waiting threads ---- */

static void enlist(struct poller *p, struct sleeper *s)
{
	pthread_mutex_lock(&p->sleepers_lock);
	s->next = p->sleepers;
	p->sleepers = s;
	atomic_fetch_add(&p->sleepers_count, 1);
	pthread_mutex_unlock(&p->sleepers_lock);
}

static void delist(struct poller *p, struct sleeper *s)
{
	struct sleeper **link = &p->sleepers;

	pthread_mutex_lock(&p->sleepers_lock);
	while (*link != s)
		link = &(*link)->next;
	*link = s->next;
	atomic_fetch_sub(&p->sleepers_count, 1);
	pthread_mutex_unlock(&p->sleepers_lock);
}

/* For how long no thread needs to check, after this much silence. */
static uint64_t doze_ns(uint64_t silent_ns)
{
	const uint64_t ns = silent_ns / 4;

	return ns < DOZE_MIN_NS ? DOZE_MIN_NS : ns > DOZE_MAX_NS ? DOZE_MAX_NS : ns;
}

static void doze(struct poller *p, struct call *call)
{
	const bool driven = atomic_load_explicit(&p->locked, memory_order_relaxed);
	struct sleeper sleeper = { .call = call };
	uint32_t runs = CALL_RUNS;
	uint64_t now, ns;

	for (int i = 0; i < LOOKS_MAX && atomic_load_explicit(&p->locked, memory_order_relaxed); i++) {
		if (atomic_load_explicit(&call->finished, memory_order_acquire) == CALL_FINISHED)
			return;
		rte_pause();
	}
	now = clock_ns();
	ns = doze_ns(now - atomic_load_explicit(&p->busy_ns, memory_order_relaxed));
	if (call->deadline_ns > now && call->deadline_ns - now < ns)
		ns = call->deadline_ns - now;
	enlist(p, &sleeper);
	/*
	 * A thread that finishes the call (calls.c) changes this word, and sees that we sleep. One that releases the
	 * lock sees us in the list, or we see that the lock is free. If no thread was driving when we came, nothing had
	 * happened for a while, and we check again after sleeping.
	 */
	if ((!driven || atomic_load(&p->locked)) &&
	    atomic_compare_exchange_strong(&call->finished, &runs, CALL_ASLEEP)) {
		const struct timespec time = { .tv_nsec = (long)ns };
		uint32_t asleep = CALL_ASLEEP;

		syscall(SYS_futex, &call->finished, FUTEX_WAIT_PRIVATE, CALL_ASLEEP, &time, NULL, 0);
		atomic_compare_exchange_strong(&call->finished, &asleep, CALL_RUNS);
	}
	delist(p, &sleeper);
}

void dpdk_poller_tell_watcher(struct poller *p, struct star_cluster *cluster)
{
	if (atomic_load_explicit(&p->watch_ns, memory_order_relaxed) > p->now_ns + 2 * DOZE_MAX_NS &&
	    p->now_ns - p->busy_ns < WATCH_NS)
		waiter_wake(&cluster->io[0].waiter);
}

static bool is_finished(const struct call *call)
{
	return atomic_load_explicit(&call->finished, memory_order_acquire) == CALL_FINISHED;
}

void dpdk_poller_wait(struct waiter *k, struct call *call)
{
	struct star_cluster *cluster = call->cluster;
	struct poller *p = cluster->transport_state;
	bool mine = call->driven;

	call->driven = false;
	while (mine || !is_finished(call)) {
		if (mine || dpdk_poller_try(p, NULL, call)) {
			if (!is_finished(call))
				drive(p, cluster, NULL, call->deadline_ns);
			settle_poller(p);
			dpdk_poller_tell_watcher(p, cluster);
			dpdk_poller_leave(p);
			let_in(p);
			mine = false;
		}
		if (is_finished(call))
			return;
		if (atomic_load_explicit(&cluster->closing, memory_order_relaxed))
			call_cancel(call, -ECANCELED, NULL);
		else if (clock_ns() >= call->deadline_ns)
			call_cancel(call, -ETIMEDOUT, NULL);
		else
			doze(p, call);
	}
}

static inline uint64_t begin_call(struct poller *p)
{
	const uint64_t now = clock_read(&p->clock);

	p->entered_ns = p->now_ns = now;
	if (likely(now - p->turned_ns < IDLE_CHECK_US * UINT64_C(1000))) /* or there was just a turn */
		net_turn(p->net, now);
	else
		dpdk_poller_catch_up(p);
	dpdk_poller_pump(p);
	dpdk_poller_drain(p);
	return now;
}

uint64_t dpdk_poller_begin(struct poller *p)
{
	return begin_call(p);
}

/* Checks for the reply during the first microseconds; `drive` does the rest. */
static inline void look_for_reply(struct poller *p)
{
	struct rte_mbuf *frames[PORT_BURST];

	for (int i = 0; i < SMALL_LOOKS && !atomic_load_explicit(&p->inbox, memory_order_relaxed); i++) {
		const unsigned n = take_frames(p, frames);

		if (n == 0)
			continue;
		p->now_ns = clock_read(&p->clock);
		turn(p, frames, n);
		return;
	}
}

bool dpdk_poller_small(struct call *call)
{
	struct star_cluster *cluster = call->cluster;
	struct poller *p = cluster->transport_state;
	bool done;

	if (unlikely(!dpdk_poller_try(p, NULL, call)))
		return false;
	atomic_store_explicit(&call->finished, CALL_RUNS, memory_order_relaxed);
	call_begin(call, begin_call(p));
	/* As dpdk_call_start does first, which has more to check. */
	if (unlikely(!dpdk_message_send_small(call->small.part->channel->datagrams, call)))
		dpdk_call_start(p, call);
	dpdk_poller_flush(p);
	look_for_reply(p);
	if (unlikely(!p->done))
		drive(p, cluster, NULL, call->deadline_ns);
	done = p->done; /* so it was finished before another thread drives */
	settle_poller(p);
	dpdk_poller_tell_watcher(p, cluster);
	leave_lock(p);
	let_in(p);
	return done;
}

/* When an I/O thread has to check again. */
static uint64_t next_look(struct poller *p, const struct waiter *k, uint64_t due_ns)
{
	const uint64_t now = clock_ns(), silent = now - p->busy_ns;
	const bool waits = !TAILQ_EMPTY(&((const struct io *)k)->running);
	uint64_t ns = due_ns > now ? due_ns - now : 0;

	if (waits || silent < WATCH_NS)
		ns = ns < DOZE_MAX_NS && !waits ? ns : doze_ns(waits ? silent : DOZE_MAX_NS * 4);
	return now + (ns < DOZE_MIN_NS ? DOZE_MIN_NS : ns > IDLE_MAX_NS ? IDLE_MAX_NS : ns);
}

void dpdk_poller_turn(struct waiter *k, uint64_t until_ns)
{
	struct star_cluster *cluster = k->cluster;
	struct poller *p = cluster->transport_state;
	uint64_t due = clock_ns() + DOZE_MAX_NS, when;
	struct pollfd fd = { .fd = k->event_fd, .events = POLLIN };

	if (dpdk_poller_try(p, k, NULL)) {
		uint64_t next;

		drive(p, cluster, k, until_ns);
		due = wheel_next(net_wheel(p->net));
		next = dgram_next_ns(p->dgram);
		due = next < due ? next : due;
		dpdk_poller_leave(p);
		let_in(p);
		if (cluster->polling)
			return;
	}
	if (waiter_has_news(k)) /* events from now on are signalled too */
		return;
	when = next_look(p, k, due);
	when = when < until_ns ? when : until_ns;
	atomic_store(&p->watch_ns, when);
	{
		const uint64_t now = clock_ns(), left = when > now ? when - now : 0;
		const struct timespec timeout = { (time_t)(left / 1000000000), (long)(left % 1000000000) };

		ppoll(&fd, 1, &timeout, NULL); /* errors are ignored: the caller tries again */
	}
	atomic_store(&p->watch_ns, 0);
}
