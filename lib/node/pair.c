/* SPDX-License-Identifier: BSD-3-Clause */
#include "node/checkpoint.h"
#include "node/pair.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/crc32.h"
#include "base/log.h"
#include "control/listen.h"
#include "jsonrpc/thread.h"
#include "node/journal.h"
#include "node/pair_register.h"

enum { ASK_MS = 1000, TAKE_MS = 60000, AGAIN_MS = 300, TELL_US = 10000000, CANNOT_MS = 2000 };

/* ---- what its threads share ---- */

bool node_pair_stops(struct node_pair *p)
{
	bool stops;

	pthread_mutex_lock(&p->lock);
	stops = p->stopping || p->again;
	pthread_mutex_unlock(&p->lock);
	return stops;
}

bool node_pair_has_joined(struct node_pair *p)
{
	bool joined;

	pthread_mutex_lock(&p->lock);
	joined = p->joined != NULL;
	pthread_mutex_unlock(&p->lock);
	return joined;
}

void node_pair_set_lease(struct node_pair *p, uint64_t until_ns)
{
	for (unsigned i = 0; i < p->node->shards_count; i++)
		__atomic_store_n(&p->rings[i]->lease_ns, until_ns, __ATOMIC_RELEASE);
}

void node_pair_set_waits(struct node_pair *p, bool waits)
{
	pthread_mutex_lock(&p->lock);
	p->waits = waits;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

void node_pair_is(struct node_pair *p, enum pair_role role, enum node_pair_state state, const char *why)
{
	pthread_mutex_lock(&p->lock);
	p->role = role;
	p->state = state;
	if (state == NODE_PAIR_PAIRED)
		p->cannot[0] = '\0';
	snprintf(p->why, sizeof(p->why), "%.319s", why);
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
	control_pair_alone(p->control, role == PAIR_PRIMARY ? why : "");
}

void node_pair_is_alone_because(struct node_pair *p, const char *why)
{
	bool alone;

	pthread_mutex_lock(&p->lock);
	alone = p->role == PAIR_PRIMARY && p->state == NODE_PAIR_SOLO;
	if (alone)
		snprintf(p->why, sizeof(p->why), "%.319s", why);
	pthread_mutex_unlock(&p->lock);
	if (alone)
		control_pair_alone(p->control, why);
}

void node_pair_say_why(struct node_pair *p, uint64_t since_us, const char *begins, const char *why, char *text,
		       size_t bytes)
{
	pthread_mutex_lock(&p->lock);
	if (p->cannot[0] && p->cannot_us >= since_us)
		snprintf(text, bytes, "the standby cannot follow: %.255s", p->cannot);
	else
		snprintf(text, bytes, "%s%.255s", begins, why);
	pthread_mutex_unlock(&p->lock);
}

void node_pair_pause(struct node_pair *p, uint32_t ms)
{
	const struct timespec until = clock_timespec(clock_ns() + ms * UINT64_C(1000000));

	pthread_mutex_lock(&p->lock);
	if (!p->stopping && !p->again)
		pthread_cond_timedwait(&p->changed, &p->lock, &until);
	pthread_mutex_unlock(&p->lock);
}

/* The order of a task's two addresses does not matter. */
static uint32_t address_sum(const struct config_address *address)
{
	struct config_address_text shown;

	if (!address)
		return 0;
	shown = config_show(address->host, address->port);
	return base_crc32(shown.text, strlen(shown.text));
}

uint32_t node_pair_cluster_mark(const struct config *config)
{
	uint32_t mark = 0;

	if (config->ps_count == 1) /* each node of a pair may know only its own address */
		return 0;
	for (uint32_t task = 0; task < config->ps_count; task++) {
		const uint32_t both = address_sum(config_ps_address(config, task, false)) +
				      address_sum(config_ps_address(config, task, true));

		mark = base_crc32_combine(mark, base_crc32(&both, sizeof(both)), sizeof(both));
	}
	return mark | 1;
}

struct pair_hello node_pair_hello(struct node_pair *p, enum pair_intent intent)
{
	const struct config *config = p->node->config;
	struct pair_hello hello = { .intent = intent,
				    .reactors = p->node->shards_count,
				    .partitions = config->partitions,
				    .etcd_key = node_pair_register_mark(config),
				    .data_port = config->own.data.port,
				    .durability = 1 + config->standby_durability,
				    .cluster = node_pair_cluster_mark(config),
				    .data = (uint16_t)(1 + config->security_data),
				    .journal = config_shares_history(config),
				    .request_mib = config->request_mib };

	pthread_mutex_lock(&p->lock);
	hello.role = p->role;
	hello.generation = p->generation;
	pthread_mutex_unlock(&p->lock);
	snprintf(hello.control, sizeof(hello.control), "%.79s",
		 config_show(config->own.control.host, config->own.control.port).text);
	snprintf(hello.data_host, sizeof(hello.data_host), "%.79s", config->own.data.host);
	pair_hello_seal(&hello);
	return hello;
}

int node_pair_ask(struct node_pair *p, const struct pair_hello *hello, uint32_t ms, struct pair_answer *answer,
		  struct pair_link **link, struct star_error *err)
{
	const struct config *config = p->node->config;
	const uint64_t until_us = clock_us() + ms * UINT64_C(1000);
	struct secure_keys *keys;
	struct pair_link *to;
	int rc = control_pair_keys(p->control, &keys, err);

	if (rc < 0)
		return rc;
	to = pair_link_connect(config->standby_listen, keys, config->standby_peer, until_us, err);
	secure_keys_free(keys);
	if (!to)
		return err->code;
	rc = pair_link_ask(to, hello, answer, until_us, err);
	if (rc == 0) {
		pthread_mutex_lock(&p->lock);
		strcpy(p->peer_control, answer->control);
		pthread_mutex_unlock(&p->lock);
		if (answer->status < 0)
			rc = star_error_set(err, answer->status, "%s", answer->text);
	}
	if (rc == 0 && link)
		*link = to;
	else
		pair_link_close(to);
	return rc;
}

void node_pair_tell_cannot(struct node_pair *p, const char *why)
{
	struct pair_hello hello = node_pair_hello(p, PAIR_CANNOT);
	struct pair_answer answer;
	struct star_error ignored;

	snprintf(hello.text, sizeof(hello.text), "%.255s", why);
	pair_hello_seal(&hello);
	node_pair_ask(p, &hello, CANNOT_MS, &answer, NULL, &ignored);
}

void node_pair_yield(struct node_pair *p, uint64_t generation)
{
	struct star_error err = { 0 };

	node_pair_hang_up(p);
	if (node_pair_remember_yielded(p, generation, &err) < 0) {
		node_fail(p->node, &err);
		return;
	}
	log_info("this node of the pair restarts as the other one's standby, generation %" PRIu64, generation);
	pthread_mutex_lock(&p->lock);
	p->role = PAIR_DEPOSED;
	p->again = true;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
	node_begin_again(p->node);
}

void node_pair_own_checkpoints(struct node_pair *p)
{
	if (p->node->config->task_index == 0) /* it has the cluster's checkpoints */
		node_checkpoint_own(p->node->checkpoint);
}

int node_pair_lead(struct node_pair *p, uint64_t generation, bool begins, struct star_error *err)
{
	uint32_t epoch;
	int rc;

	pthread_mutex_lock(&p->lock);
	p->generation = generation;
	epoch = p->primary_epoch;
	pthread_mutex_unlock(&p->lock);
	rc = control_pair_lead(p->control, generation, epoch, begins, err);
	if (rc == 0)
		log_info("this node is the primary of the pair, generation %" PRIu64, generation);
	return rc;
}

/* ---- who serves ---- */

/* What a node that has restarted, and was the primary or is to be, does with the other node's answer. 1: it leads; 0:
 * it is a standby now; -EAGAIN: not yet, with the reason. */
static int decide_role(struct node_pair *p, const struct pair_answer *answer, bool was_alone, struct star_error *err)
{
	const struct config *config = p->node->config;
	struct pair_answer taken;
	struct pair_hello hello;

	/* A node that knows this generation or the one before has not served in a later one. */
	p->inherits = was_alone || (answer->generation > 0 && answer->generation <= p->generation);
	if (answer->role == PAIR_PRIMARY && answer->generation >= p->generation)
		return 0;
	if (answer->role == PAIR_PRIMARY)
		return star_error_set(err, -EAGAIN,
				      "the other node serves under the older generation %" PRIu64
				      ", and this one has lost its state: move this node's pair.json away, and start "
				      "it with standby.first = \"standby\"; or stop the other node",
				      answer->generation);
	/* Its own checkpoint may be newer than what the other node has had since an earlier time. If the other one's
	 * generation is before that one, it could not take over any more. */
	if (answer->role == PAIR_STANDBY && was_alone && (p->node->checkpoint || answer->generation < p->generation))
		return 1;
	if (answer->role == PAIR_STANDBY && answer->whole) {
		hello = node_pair_hello(p, PAIR_TAKE);
		log_info("the standby has everything that this node had: it is asked to take over");
		if (node_pair_ask(p, &hello, TAKE_MS, &taken, NULL, err) < 0) {
			err->code = -EAGAIN;
			return -EAGAIN;
		}
		return 0;
	}
	if (answer->role == PAIR_STANDBY)
		return 1;
	if (answer->role == PAIR_WAITING && answer->generation != p->generation)
		return answer->generation < p->generation;
	if (answer->role == PAIR_WAITING)
		return strcmp(config->standby_listen, config->standby_peer) < 0;
	if (answer->role == PAIR_DEPOSED && answer->whole)
		return star_error_set(err, -EAGAIN,
				      "the other node has closed for this one, which has lost its state, and keeps "
				      "everything: run starctl promote there to continue with that");
	return star_error_set(err, -EAGAIN, "the other node is about to serve, or to stop");
}

/* The primary according to etcd, if it is configured. */
static int look_up(struct node_pair *p, struct pair_entry *entry, struct star_error *err)
{
	int rc = node_pair_register_ask(p, PAIR_CLAIM_NOTHING, NULL, entry, err);

	/* This node has recorded a claim that the register does not have: the write may not have arrived yet. */
	if (rc == 0 && entry->there && !entry->mine && entry->generation < p->generation)
		rc = node_pair_register_ask(p, PAIR_CLAIM_VOIDS, NULL, entry, err);
	if (rc < 0) {
		err->code = -EAGAIN;
		return -EAGAIN;
	}
	pthread_mutex_lock(&p->lock);
	if (entry->there && (!entry->mine || entry->generation > p->generation))
		p->generation = entry->generation;
	pthread_mutex_unlock(&p->lock);
	return 0;
}

/* A node that was the primary serves only if the other one does not, and has nothing that this one lacks; or if it has
 * never been in a pair, and nobody is there; or if etcd says that it was alone. */
static int find_out(struct node_pair *p, struct star_error *err)
{
	struct pair_entry entry;
	struct pair_answer answer;
	struct pair_hello hello;
	bool was_alone;
	int rc = look_up(p, &entry, err);

	if (rc < 0)
		return rc;
	if (entry.there && !entry.mine)
		return 0;
	/* A primary that has handed over to the other node has recorded that it is a standby. The register may be older
	 * than that, or may have been written late: the other one has everything. */
	was_alone = entry.there && !entry.paired && !entry.taking && !p->was_standby;
	hello = node_pair_hello(p, PAIR_ASK);
	rc = node_pair_ask(p, &hello, ASK_MS, &answer, NULL, err);
	if (rc == 0 && entry.taking &&
	    ((answer.role == PAIR_PRIMARY && answer.generation < p->generation) ||
	     (answer.role == PAIR_DEPOSED && answer.whole)))
		return star_error_set(err, -EAGAIN,
				      "this node was about to take the other one's place, and restarted before it "
				      "served: that one has everything, and serves again as soon as etcd says so");
	if (rc == 0)
		return decide_role(p, &answer, was_alone, err);
	p->inherits = entry.there && was_alone;
	if (entry.there ? was_alone : p->generation == 0)
		return 1;
	return -EAGAIN;
}

bool node_pair_is_promoted(struct node_pair *p)
{
	bool asked;

	pthread_mutex_lock(&p->lock);
	asked = p->promotion.asked;
	pthread_mutex_unlock(&p->lock);
	return asked;
}

void node_pair_end_promotion(struct node_pair *p, int status, const struct star_error *err)
{
	pthread_mutex_lock(&p->lock);
	p->promotion.asked = false;
	p->promotion.done = true;
	p->promotion.status = status;
	p->promotion.err = *err;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

/* Begins to serve. -EAGAIN: etcd does not allow it yet. */
static int serve(struct node_pair *p, struct star_error *err)
{
	const bool asked = node_pair_is_promoted(p);
	uint64_t generation = p->generation + (asked || p->generation == 0);
	int rc = node_pair_register_ask(p, PAIR_CLAIM_BEGINS, &generation, NULL, err);

	if (rc < 0)
		rc = err->code = -EAGAIN;
	/* Whoever says so may not know what the other node has done since. */
	if (asked)
		p->inherits = false;
	if (rc == 0 && !node_pair_has_register(p))
		rc = node_pair_remember(p, PAIR_PRIMARY, generation, err);
	if (rc == 0) {
		node_pair_own_checkpoints(p);
		rc = node_pair_lead(p, generation, true, err);
	}
	if (asked)
		node_pair_end_promotion(p, rc, err);
	return rc;
}

/* False: it stops. */
static bool begin(struct node_pair *p)
{
	struct star_error err = { 0 };
	uint64_t told_us = 0;
	int rc = -EAGAIN;

	while (!node_pair_stops(p) && rc == -EAGAIN) {
		rc = node_pair_is_promoted(p) ? 1 : find_out(p, &err);
		if (rc == 1) {
			rc = serve(p, &err);
			if (rc == 0)
				node_pair_is(p, PAIR_PRIMARY, NODE_PAIR_SOLO, "no standby has connected yet");
			else if (rc != -ECANCELED && rc != -EAGAIN)
				node_fail(p->node, &err);
			if (rc != -EAGAIN)
				return rc == 0;
		}
		if (rc == 0) {
			node_pair_is(p, PAIR_STANDBY, NODE_PAIR_BEGINS, "it has not reached its primary yet");
			return true;
		}
		if (clock_us() - told_us > TELL_US) {
			log_warn("this node was the primary, and waits until it knows which node serves: %s (to "
				 "decide, run starctl promote on one of the two)",
				 err.text);
			told_us = clock_us();
		}
		node_pair_is(p, PAIR_WAITING, NODE_PAIR_BEGINS, err.text);
		control_pair_waits(p->control, "waiting to learn which node of the pair serves");
		node_pair_pause(p, AGAIN_MS);
	}
	return false;
}

static void *run(void *arg)
{
	struct node_pair *p = arg;

	do {
		if (p->role == PAIR_WAITING && !begin(p))
			return NULL;
		if (p->role == PAIR_STANDBY)
			node_pair_standby(p);
	} while (!node_pair_stops(p) && p->role == PAIR_WAITING);
	if (!node_pair_stops(p) && p->role == PAIR_PRIMARY)
		node_pair_primary(p);
	return NULL;
}

/* ---- begin and end ---- */

/* Two nodes with one directory would each take the other one's role and generation for their own. */
static int lock_folder(struct node_pair *p, struct star_error *err)
{
	const char *directory = p->node->config->standby_directory;

	p->folder = base_lock_folder(directory);
	if (p->folder == -EBUSY)
		return star_error_set(
			err, -EBUSY,
			"standby.directory: another node uses %.300s: give each node a directory of its own",
			directory);
	return p->folder < 0 ? star_error_set(err, p->folder, "standby.directory: %.300s cannot be opened: %s",
					      directory, strerror(-p->folder))
			     : 0;
}

int node_pair_open(struct node *node, struct star_error *err)
{
	const struct config *config = node->config;
	struct node_pair *p;
	enum pair_role was;
	int rc = 0;

	if (!config->standby_peer[0])
		return 0;
	p = calloc(1, sizeof(*p));
	if (!p)
		return star_error_set(err, -ENOMEM, "out of memory");
	node->pair = p;
	p->node = node;
	p->shares_rings = node->journal != NULL;
	p->listen_fd = p->bell.fd = p->folder = -1;
	p->own_incarnation = node->incarnation;
	p->promotion_read = true;
	/* An administrator may read a standby's rows, too; with several tasks only when its primary has told it which
	 * it holds. */
	if (config->ps_count == 1)
		node->layout = (struct control_layout){ .cluster_reactors = node->shards_count };
	pthread_mutex_init(&p->file.lock, NULL);
	pthread_mutex_init(&p->lock, NULL);
	clock_condition_init(&p->changed);
	rc = lock_folder(p, err);
	if (rc == 0)
		rc = node_bell_make(&p->bell, err);
	for (unsigned i = 0; rc == 0 && i < node->shards_count; i++) {
		service_set_follows(node->shards[i].service, true);
		p->rings[i] = node->journal ? node->journal->rings[i]
					    : journal_ring_create((uint64_t)config->journal_ring_mib << 20,
								  config->standby_wait_s * UINT64_C(1000000000), err);
		rc = p->rings[i] ? node_snapshot_make(&p->snapshots[i], "pair", i, err) : err->code;
		/* If there is a journal, too, replies wait for that no longer than for the standby. */
		if (rc == 0 && config->standby_durability != CONFIG_DURABILITY_ASYNC)
			node_gate_watch(&node->shards[i], p->rings[i], &p->bell);
	}
	if (rc == 0)
		rc = node_pair_recall(p, &was, &p->generation, err);
	if (rc == 0) {
		p->was_standby = was == PAIR_STANDBY;
		p->role = was == PAIR_PRIMARY ? PAIR_WAITING : PAIR_STANDBY;
	}
	return rc;
}

void node_pair_close(struct node *node)
{
	struct node_pair *p = node->pair;

	if (!p)
		return;
	for (unsigned i = 0; i < node->shards_count; i++) {
		if (!p->shares_rings)
			journal_ring_destroy(p->rings[i]);
		node_snapshot_free(&p->snapshots[i]);
	}
	node_pair_register_close(p);
	node_bell_free(&p->bell);
	if (p->folder >= 0)
		close(p->folder); /* this also releases the lock */
	pthread_cond_destroy(&p->changed);
	pthread_mutex_destroy(&p->lock);
	pthread_mutex_destroy(&p->file.lock);
	free(p);
	node->pair = NULL;
}

int node_pair_begin(struct node *node, struct control *control, struct star_error *err)
{
	struct node_pair *p = node->pair;
	struct secure_ring *ring;
	int rc;

	if (!p)
		return 0;
	p->control = control;
	ring = control_pair_ring(control);
	p->context = ring ? secure_context_create(ring, err) : NULL;
	if (ring && !p->context)
		return err->code;
	p->listen_fd = control_listen_tcp(node->config->standby_listen, err);
	if (p->listen_fd < 0)
		return p->listen_fd;
	rc = node_pair_register_begin(p, err);
	if (rc == 0)
		rc = jsonrpc_thread_start(&p->listener, "pair-listen", node_pair_listen, p, err);
	p->listening = rc == 0;
	if (rc == 0)
		rc = jsonrpc_thread_start(&p->thread, "pair", run, p, err);
	p->threaded = rc == 0;
	if (rc < 0)
		node_pair_end(node);
	return rc;
}

void node_pair_end(struct node *node)
{
	struct node_pair *p = node->pair;

	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->stopping = true;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
	if (p->threaded)
		pthread_join(p->thread, NULL);
	if (p->listening)
		pthread_join(p->listener, NULL);
	p->threaded = p->listening = false;
	node_journal_take_stop(node);
	node_pair_register_end(p);
	pair_link_close(p->joined);
	p->joined = NULL;
	if (p->listen_fd >= 0)
		close(p->listen_fd);
	p->listen_fd = -1;
	secure_context_destroy(p->context);
	p->context = NULL;
}
