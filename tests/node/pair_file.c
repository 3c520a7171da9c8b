/* SPDX-License-Identifier: BSD-3-Clause */
/* What a node of a pair was: several threads learn at once that the other node serves, and what they write is whole. */
#include "node/pair.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/node/cases.h"
#include "tests/unit.h"

enum { WRITERS = 4, WRITES = 200 };

struct remembered {
	struct node_pair pair;
	struct node node;
	struct config config;
	bool bad;
};

static struct remembered *begin(void)
{
	struct remembered *r = calloc(1, sizeof(*r));
	char folder[UNIT_FOLDER];

	r->node.config = &r->config;
	r->node.pair = &r->pair;
	r->pair.node = &r->node;
	CHECK(unit_folder(folder, "pair"));
	strcpy(r->config.standby_directory, folder);
	pthread_mutex_init(&r->pair.file.lock, NULL);
	pthread_mutex_init(&r->pair.lock, NULL);
	return r;
}

static void end(struct remembered *r)
{
	unit_remove(r->config.standby_directory);
	pthread_mutex_destroy(&r->pair.lock);
	pthread_mutex_destroy(&r->pair.file.lock);
	free(r);
}

static void check_remembered(struct remembered *r, enum pair_role role, uint64_t generation, bool owns)
{
	struct node_pair again = { .node = &r->node };
	enum pair_role found;
	uint64_t of;
	struct star_error err = { 0 };

	CHECK_INT(node_pair_recall(&again, &found, &of, &err), 0);
	CHECK_UINT(found, role);
	CHECK_UINT(of, generation);
	CHECK_UINT(again.owns_journal, owns);
}

static void *yield_often(void *arg)
{
	struct remembered *r = arg;

	for (unsigned i = 1; i <= WRITES; i++) {
		struct star_error err = { 0 };

		if (node_pair_remember_yielded(&r->pair, i, &err) < 0 ||
		    node_pair_remember(&r->pair, PAIR_STANDBY, WRITES, &err) < 0)
			__atomic_store_n(&r->bad, true, __ATOMIC_RELAXED);
	}
	return NULL;
}

void several_threads_remember_at_once(void)
{
	struct remembered *r = begin();
	pthread_t threads[WRITERS];

	for (unsigned i = 0; i < WRITERS; i++)
		CHECK_INT(pthread_create(&threads[i], NULL, yield_often, r), 0);
	for (unsigned i = 0; i < WRITERS; i++)
		pthread_join(threads[i], NULL);
	CHECK(!r->bad);
	check_remembered(r, PAIR_STANDBY, WRITES, false);
	end(r);
}

/* The register's thread may be about to claim it, or a life of the journal to begin, while another thread hears which
 * node serves. */
void a_node_that_has_yielded_is_no_longer_primary(void)
{
	struct remembered *r = begin();
	struct star_error err = { 0 };

	r->node.journal = (struct node_journal *)r; /* there is one: that is all that is looked at */
	CHECK_INT(node_pair_remember(&r->pair, PAIR_PRIMARY, 3, &err), 0);
	check_remembered(r, PAIR_PRIMARY, 3, false);
	CHECK_INT(node_pair_owns_journal(&r->node, &err), 0);
	check_remembered(r, PAIR_PRIMARY, 3, true);
	CHECK_INT(node_pair_remember_yielded(&r->pair, 5, &err), 0);
	check_remembered(r, PAIR_STANDBY, 5, false);
	CHECK_INT(node_pair_remember(&r->pair, PAIR_PRIMARY, 6, &err), -EAGAIN);
	CHECK_HAS(err.text, "the other node of the pair serves");
	CHECK_INT(node_pair_owns_journal(&r->node, &err), -EAGAIN);
	CHECK_INT(node_pair_remember_yielded(&r->pair, 4, &err),
		  0); /* a thread that learned it before, and says it later */
	check_remembered(r, PAIR_STANDBY, 5, false);
	CHECK_INT(node_pair_remember_yielded(&r->pair, 7, &err), 0);
	check_remembered(r, PAIR_STANDBY, 7, false);
	end(r);
}

/* A standby that gives up to take over, as its disk is full, is what it was, and goes on. */
void what_is_written_already_needs_no_disk(void)
{
	struct remembered *r = begin();
	struct star_error err = { 0 };
	char path[sizeof(r->config.standby_directory) + 32];

	CHECK_INT(node_pair_remember(&r->pair, PAIR_STANDBY, 3, &err), 0);
	snprintf(path, sizeof(path), "%s/pair.json.partial", r->config.standby_directory);
	CHECK_INT(mkdir(path, 0700), 0); /* what cannot be written */
	CHECK(node_pair_remember(&r->pair, PAIR_PRIMARY, 4, &err) < 0);
	CHECK(node_pair_remember_yielded(&r->pair, 4, &err) < 0);
	CHECK_INT(node_pair_remember_yielded(&r->pair, 3, &err), 0);
	CHECK_INT(rmdir(path), 0);
	check_remembered(r, PAIR_STANDBY, 3, false);
	CHECK_INT(node_pair_remember(&r->pair, PAIR_PRIMARY, 4, &err), -EAGAIN);
	end(r);
}
