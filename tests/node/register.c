/* SPDX-License-Identifier: BSD-3-Clause */
/* What is asked of etcd by several at once: each has its own outcome. Etcd is this file's here. */
#include "node/pair_register.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "etcd/etcd.h"
#include "tests/node/cases.h"
#include "tests/unit.h"

enum { ASKERS = 4, ASKS = 300, SILENT_US = 60000000 };

static bool swaps_are_answered;
static unsigned swaps, silent_reads, stuck_reads;

struct etcd {
	bool (*goes_on)(void *ctx);
	void *ctx;
};

struct etcd *etcd_create(const struct etcd_options *options, struct star_error *err)
{
	struct etcd *etcd = calloc(1, sizeof(struct etcd));

	*etcd = (struct etcd){ .goes_on = options->goes_on, .ctx = options->ctx };
	return etcd;
}

void etcd_destroy(struct etcd *etcd)
{
	free(etcd);
}

const char *etcd_endpoint(const struct etcd *etcd)
{
	return "192.0.2.1:2379";
}

int etcd_read(struct etcd *etcd, struct etcd_value *value, struct star_error *err)
{
	*value = (struct etcd_value){ 0 };
	if (__atomic_load_n(&silent_reads, __ATOMIC_SEQ_CST) == 0)
		return 0;
	/* No answer comes, as long as the asker waits. */
	__atomic_sub_fetch(&silent_reads, 1, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&stuck_reads, 1, __ATOMIC_SEQ_CST);
	for (const uint64_t until_us = clock_us() + SILENT_US; clock_us() < until_us && etcd->goes_on(etcd->ctx);)
		usleep(1000);
	return star_error_set(err, -EHOSTUNREACH, "etcd says nothing");
}

int etcd_swap(struct etcd *etcd, uint64_t revision, const char *text, struct etcd_value *now, struct star_error *err)
{
	__atomic_add_fetch(&swaps, 1, __ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&swaps_are_answered, __ATOMIC_SEQ_CST))
		return star_error_set(err, -EHOSTUNREACH, "etcd is away");
	*now = (struct etcd_value){ .there = true, .revision = 1, .bytes = strlen(text) };
	return 0;
}

struct asked {
	struct node_pair pair;
	struct node node;
	struct config config;
	struct config_address etcd;
};

static struct asked *begin(void)
{
	struct asked *a = calloc(1, sizeof(*a));
	struct star_error err = { 0 };

	a->node.config = &a->config;
	a->node.pair = &a->pair;
	a->pair.node = &a->node;
	a->pair.role = PAIR_STANDBY;
	a->pair.generation = 1;
	strcpy(a->config.standby_listen, "192.0.2.2:3433");
	strcpy(a->config.standby_peer, "192.0.2.3:3433");
	strcpy(a->config.standby_etcd_key, "/starserver/ps/0");
	strcpy(a->etcd.host, "192.0.2.1");
	a->etcd.port = 2379;
	a->config.standby_etcd = &a->etcd;
	a->config.standby_etcd_count = 1;
	pthread_mutex_init(&a->pair.lock, NULL);
	clock_condition_init(&a->pair.changed);
	CHECK_INT(node_pair_register_begin(&a->pair, &err), 0);
	return a;
}

static void end(struct asked *a)
{
	node_pair_register_end(&a->pair);
	node_pair_register_close(&a->pair);
	pthread_cond_destroy(&a->pair.changed);
	pthread_mutex_destroy(&a->pair.lock);
	free(a);
}

static void *ask_often(void *arg)
{
	struct asked *a = arg;
	uintptr_t lost = 0;

	for (unsigned i = 0; i < ASKS; i++) {
		struct star_error err = { 0 };
		struct pair_entry entry;

		lost += node_pair_register_ask(&a->pair, PAIR_CLAIM_NOTHING, NULL, &entry, &err) != 0;
	}
	return (void *)lost;
}

/* An operator's question and those of a standby that has lost its primary, which come again and again. */
void each_caller_gets_its_own_outcome(void)
{
	struct asked *a = begin();
	pthread_t threads[ASKERS];
	void *lost;

	for (unsigned i = 0; i < ASKERS; i++)
		CHECK_INT(pthread_create(&threads[i], NULL, ask_often, a), 0);
	for (unsigned i = 0; i < ASKERS; i++) {
		pthread_join(threads[i], &lost);
		CHECK_UINT((uintptr_t)lost, 0);
	}
	end(a);
}

/* A primary that waits for etcd to say that its standby may take over is not to take another one's answer for that. */
void what_is_wanted_stays_wanted(void)
{
	struct star_error err = { 0 };
	struct asked *a = begin();

	__atomic_store_n(&swaps_are_answered, false, __ATOMIC_SEQ_CST);
	node_pair_register_want(&a->pair, PAIR_CLAIM_PAIRED);
	CHECK_INT(node_pair_register_ask(&a->pair, PAIR_CLAIM_NOTHING, NULL, NULL, &err), 0);
	CHECK_INT(node_pair_register_wanted(&a->pair, 0, &err), -EINPROGRESS);
	CHECK_INT(node_pair_register_wanted(&a->pair, 250, &err), -EINPROGRESS);
	CHECK_HAS(err.text, "etcd is away");
	CHECK(__atomic_load_n(&swaps, __ATOMIC_SEQ_CST) > 0);
	__atomic_store_n(&swaps_are_answered, true, __ATOMIC_SEQ_CST);
	CHECK_INT(node_pair_register_wanted(&a->pair, 10000, &err), 0);
	end(a);
}

/* A standby that has lost its primary does not wait for the end of a look that was under way, whose connection is of no
 * use any more; and etcd does not count as away for that. */
void who_asks_does_not_wait_for_a_look(void)
{
	struct node_pair_register_figures figures;
	struct star_error err = { 0 };
	struct asked *a;
	uint64_t begun_us;

	__atomic_store_n(&stuck_reads, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&silent_reads, 1, __ATOMIC_SEQ_CST);
	a = begin();
	while (__atomic_load_n(&stuck_reads, __ATOMIC_SEQ_CST) == 0)
		usleep(1000);
	begun_us = clock_us();
	CHECK_INT(node_pair_register_ask(&a->pair, PAIR_CLAIM_NOTHING, NULL, NULL, &err), 0);
	CHECK(clock_us() - begun_us < SILENT_US / 2);
	node_pair_register_figures(&a->node, &figures);
	CHECK_UINT(figures.failures, 0);
	end(a);
}

/* A node that stops gets no more answers. */
void nobody_waits_for_etcd_when_the_node_stops(void)
{
	struct star_error err = { 0 };
	struct asked *a = begin();

	a->pair.stopping = true;
	CHECK_INT(node_pair_register_ask(&a->pair, PAIR_CLAIM_NOTHING, NULL, NULL, &err), -ECANCELED);
	CHECK_HAS(err.text, "the node stops");
	end(a);
}
