/* SPDX-License-Identifier: BSD-3-Clause */
/* How a cluster is opened, and what the environment says of it. */
#include "tests/client/cases.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

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

/* A node that takes connections and does not answer, as one that begins again may, is not asked again before the one
 * that has answered. */
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
	CHECK_HAS(err.text, "there is no worker's file /nowhere/worker.conf");
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
