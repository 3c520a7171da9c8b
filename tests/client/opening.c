/* SPDX-License-Identifier: BSD-3-Clause */
/* How a cluster is opened, and what the environment says of it. */
#include "client/attempt.h"
#include "client/client.h"
#include "tests/client/cases.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"

void open_waits_for_all_tasks(void)
{
	struct peer *p = peer_start(2, 2);
	struct star_error err = { 0 };
	struct star_cluster *cluster;
	char list[256];

	peer_refuse_layout(p, 3);
	cluster = star_open(p->address, LONG_US, &err);
	CHECK(cluster != NULL);
	star_close(cluster);
	/* A deadline that is too short for them. */
	peer_refuse_layout(p, UINT32_MAX);
	CHECK(!star_open(p->address, 1000000, &err));
	CHECK_INT(err.code, -ETIMEDOUT);
	CHECK_HAS(err.text, "PS task 1 has not joined yet");
	/* The first address is dead: the second one answers. */
	peer_refuse_layout(p, 0);
	snprintf(list, sizeof(list), "tcp:127.0.0.1:1,%s", p->address + 4);
	cluster = star_open(list, LONG_US, &err);
	CHECK(cluster != NULL);
	star_close(cluster);
	peer_stop(p);
}

/* A node that accepts connections and does not answer, as a restarting one may, is not asked again before the one that
 * has answered. */
void who_has_answered_is_asked_first(void)
{
	struct peer *silent = peer_start(1, 1), *p = peer_start(1, 1);
	struct bench b = { .peer = p, .dim = 4 };
	struct star_error err = { 0 };
	uint32_t asked;
	char list[300];

	peer_hush(silent);
	snprintf(list, sizeof(list), "%s,%s", silent->address, p->address + strlen("tcp:"));
	b.cluster = star_open(list, LONG_US, &err);
	if (!CHECK(b.cluster))
		return;
	b.table = bench_table(&b, "words", 4);
	for (int layouts = 0; layouts < 2; layouts++) {
		pthread_mutex_lock(&silent->lock);
		asked = silent->hushed_count;
		pthread_mutex_unlock(&silent->lock);
		CHECK_UINT(asked, 1);
		peer_relayout(p, 1, true);
		CHECK(pull_works(&b));
	}
	star_close(b.cluster);
	peer_stop(p);
	peer_stop(silent);
}

/* Nor is it waited for for long: the next one is asked while there is time. */
void who_does_not_answer_leaves_time_for_others(void)
{
	struct peer *silent = peer_start(1, 1), *p = peer_start(1, 1);
	struct star_cluster *cluster;
	struct star_error err = { 0 };
	char list[300];

	peer_hush(silent);
	snprintf(list, sizeof(list), "%s,%s", silent->address, p->address + strlen("tcp:"));
	cluster = star_open(list, 2900000, &err);
	if (!CHECK(cluster != NULL))
		unit_fail(__FILE__, __LINE__, "%s", err.text);
	star_close(cluster);
	peer_stop(p);
	peer_stop(silent);
}

static uint32_t layouts_left(struct peer *p)
{
	uint32_t left;

	pthread_mutex_lock(&p->lock);
	left = p->layout_again;
	pthread_mutex_unlock(&p->lock);
	return left;
}

/* The layout is asked for ever less often as long as nobody knows it. A call that learns from a node that there is one
 * does not wait for the next time: each call here would otherwise take half a second or more. */
void who_needs_a_layout_has_it_asked_for_at_once(void)
{
	enum { TIMES = 100, REFUSALS = 1000000, RARE_MS = 2000, MOST_US = 15000000 };
	struct bench b = bench_start(1, 1, 4);
	uint64_t begun;

	peer_refuse_layout(b.peer, REFUSALS);
	pthread_mutex_lock(&b.cluster->lock);
	b.cluster->layout_wanted_ns = 0;
	pthread_mutex_unlock(&b.cluster->lock);
	client_route_want(b.cluster, clock_ns());
	sleep_ms(RARE_MS);
	begun = now_us();
	for (uint32_t i = 0; i < TIMES; i++) {
		const uint32_t left = layouts_left(b.peer);

		/* It looks for some seconds at a time. */
		client_route_want(b.cluster, clock_ns());
		pthread_mutex_lock(&b.cluster->lock);
		client_catalogue_hurry(b.cluster);
		pthread_mutex_unlock(&b.cluster->lock);
		while (layouts_left(b.peer) == left)
			sleep_ms(1);
	}
	if (now_us() - begun > MOST_US)
		unit_fail(__FILE__, __LINE__, "%d questions took %.1f s", TIMES, (double)(now_us() - begun) / 1e6);
	peer_refuse_layout(b.peer, 0);
	pull_works(&b);
	bench_stop(&b);
}

/* Each time that nobody has answered the next one gets longer, also while others need the layout, so that a node which
 * takes its time is heard in the end. */
void who_needs_a_layout_leaves_time_for_an_answer(void)
{
	enum { HURRIES = 60, EVERY_MS = 50, MOST = 5 };
	struct bench b = bench_start(1, 1, 4);
	uint32_t asked;

	pthread_mutex_lock(&b.cluster->lock);
	/* Another address, at which nobody is. */
	strcpy(b.cluster->standby, "127.0.0.1:1");
	b.cluster->layout_wanted_ns = 0;
	pthread_mutex_unlock(&b.cluster->lock);
	peer_hush(b.peer);
	client_route_want(b.cluster, clock_ns());
	for (uint32_t i = 0; i < HURRIES; i++) {
		pthread_mutex_lock(&b.cluster->lock);
		client_catalogue_hurry(b.cluster);
		pthread_mutex_unlock(&b.cluster->lock);
		sleep_ms(EVERY_MS);
	}
	pthread_mutex_lock(&b.peer->lock);
	asked = b.peer->hushed_count;
	pthread_mutex_unlock(&b.peer->lock);
	CHECK(asked >= 1 && asked <= MOST); /* of 0.25, 0.5, 1, and 2 s */
	peer_speak(b.peer);
	pull_works(&b);
	bench_stop(&b);
}

void open_says_what_is_wrong(void)
{
	static const char *const bad[] = {
		"",	"nowhere", "tcp:nowhere", "127.0.0.1:0", "127.0.0.1:70000", "127.0.0.1:x", "127.0.0.1:4444,",
		",a:1", "a:1,,b:2"
	};
	struct star_error err;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		err = (struct star_error){ 0 };
		CHECK(!star_open(bad[i], LONG_US, &err));
		CHECK_INT(err.code, -EINVAL);
	}
	CHECK(!star_open(NULL, LONG_US, &err));
	CHECK_HAS(err.text, "198.18.0.1:3333");
	CHECK(!star_open(NULL, LONG_US, NULL));
	CHECK(!star_open("127.0.0.1:1", 2000000, &err)); /* nobody listens at port 1 */
	CHECK_INT(err.code, -ECONNREFUSED);
	CHECK_HAS(err.text, "127.0.0.1:1");
}

void open_by_dpdk_says_what_is_wrong(void)
{
	struct star_error err = { 0 };
	char path[128], text[1024];
	struct bench b;

	CHECK(!star_open("dpdk:/nowhere/worker.conf", LONG_US, &err));
	CHECK_INT(err.code, -ENOENT);
	CHECK_HAS(err.text, "the worker's configuration file /nowhere/worker.conf does not exist");
	peer_datagrams = true;
	b = bench_start(1, 1, 2);
	peer_datagrams = false;
	unit_read(b.peer->worker_file, text, sizeof(text));
	/* The same cluster by another port, while the first is open. */
	snprintf(path, sizeof(path), "dpdk:%s.2", b.peer->worker_file);
	if (CHECK(strstr(text, "251.2"))) {
		strstr(text, "251.2")[4] = '3';
		unit_write_text(path + strlen("dpdk:"), text);
		CHECK(!star_open(path, LONG_US, &err));
		CHECK_INT(err.code, -EBUSY);
		CHECK_HAS(err.text, "another port");
	}
	unlink(path + strlen("dpdk:"));
	pull_works(&b);
	bench_stop(&b);
}

void environment_is_read(void)
{
	struct peer *p = peer_start(1, 3);
	struct star_error err = { 0 };

	setenv("NETWORK_WORKER_CORE_NUMBER", "many", 1);
	CHECK(!star_open(p->address, LONG_US, &err));
	CHECK_INT(err.code, -EINVAL);
	CHECK_HAS(err.text, "NETWORK_WORKER_CORE_NUMBER");
	setenv("NETWORK_WORKER_CORE_NUMBER", "1", 1);
	setenv("WORKER_DISABLE_PIN_CORES", "False", 1);
	struct star_cluster *cluster = star_open(p->address, LONG_US, &err);
	CHECK(cluster != NULL);
	star_close(cluster);
	unsetenv("NETWORK_WORKER_CORE_NUMBER");
	unsetenv("WORKER_DISABLE_PIN_CORES");
	peer_stop(p);
}
