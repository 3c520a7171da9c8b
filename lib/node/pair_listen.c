/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers the other node of a pair. Only its address is accepted and, with keys, only a node's key. */
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "jsonrpc/address.h"
#include "node/journal.h"
#include "node/pair.h"
#include "node/pair_register.h"

enum {
	LOOK_MS = 100,
	HELLO_US = 2000000,
	CLOSE_US = 10000000,
	TAKE_US = 50000000,
	CANNOT_US = 10000000, /* until a standby that could not follow may try again: it costs a snapshot */
};

static bool same_host(const struct sockaddr *a, const struct sockaddr *b)
{
	if (a->sa_family != b->sa_family)
		return false;
	if (a->sa_family == AF_INET)
		return memcmp(&((const struct sockaddr_in *)(const void *)a)->sin_addr,
			      &((const struct sockaddr_in *)(const void *)b)->sin_addr, sizeof(struct in_addr)) == 0;
	return a->sa_family == AF_INET6 &&
	       memcmp(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr,
		      &((const struct sockaddr_in6 *)(const void *)b)->sin6_addr, sizeof(struct in6_addr)) == 0;
}

static bool is_peer(const struct node_pair *p, const struct sockaddr *from)
{
	struct star_error ignored;
	struct addrinfo *list;
	bool found = false;

	if (jsonrpc_address_resolve(p->node->config->standby_peer, false, &list, &ignored) < 0)
		return false;
	for (const struct addrinfo *a = list; a; a = a->ai_next)
		found |= same_host(a->ai_addr, from);
	freeaddrinfo(list);
	return found;
}

/* Under lock. */
static struct pair_answer stand(const struct node_pair *p)
{
	const struct config *config = p->node->config;
	struct pair_answer a = { .role = p->role,
				 .generation = p->generation,
				 .reactors = p->node->shards_count,
				 .partitions = config->partitions,
				 .lease_ms = config->standby_lease_ms };

	if (p->role == PAIR_DEPOSED)
		a.whole = p->closed && !p->again; /* it still has its whole state */
	if (p->role == PAIR_STANDBY) {
		a.whole = p->promotable;
		a.silent_ms = p->heard_us ? (clock_us() - p->heard_us) / 1000 : 0;
	}
	snprintf(a.control, sizeof(a.control), "%.79s",
		 config_show(config->own.control.host, config->own.control.port).text);
	return a;
}

static void refuse(struct pair_answer *answer, int status, const char *text)
{
	answer->status = status;
	snprintf(answer->text, sizeof(answer->text), "%.255s", text);
}

static void refuse_again(struct pair_answer *answer, const char *why)
{
	char text[PAIR_TEXT_MAX + 64];

	snprintf(text, sizeof(text), "it could not follow, and tries again every %d s: %s", CANNOT_US / 1000000, why);
	refuse(answer, -EAGAIN, text);
}

static bool is_of_task(const struct config *config, const char *control)
{
	const struct config_address *other = config_ps_address(config, config->task_index, !config->standby_second);

	return other && strcmp(config_show(other->host, other->port).text, control) == 0;
}

/* Under lock. True: the primary's thread has the link now, and answers. */
static bool take_standby(struct node_pair *p, struct pair_link *link, const struct pair_hello *hello,
			 struct pair_answer *answer)
{
	if (p->role == PAIR_DEPOSED)
		refuse(answer, -EAGAIN, "the node has closed for its standby, and waits to hear that it serves");
	else if (p->role != PAIR_PRIMARY || !__atomic_load_n(&p->node->restored, __ATOMIC_ACQUIRE))
		refuse(answer, -EAGAIN, "the node does not serve yet");
	else if (hello->generation > p->generation)
		refuse(answer, -ESTALE,
		       "the standby knows a later generation than the primary's: starctl status, on both nodes, shows "
		       "them");
	else if (hello->partitions != p->node->config->partitions)
		refuse(answer, -EINVAL, "the two nodes differ in cluster.partitions: give both the same number");
	else if (hello->reactors < 1 || hello->reactors > WIRE_REACTORS_MAX || hello->data_port < 1 ||
		 hello->data_port + hello->reactors - 1 > UINT16_MAX)
		refuse(answer, -EINVAL, "the standby's number of reactors or data port is invalid");
	else if (p->node->config->ps_count > 1 && !is_of_task(p->node->config, hello->control))
		refuse(answer, -EINVAL,
		       "cluster.ps does not have the standby as the other node of this task: give all nodes the same "
		       "cluster.ps");
	else if (hello->cluster != node_pair_cluster_mark(p->node->config))
		refuse(answer, -EINVAL,
		       "the two nodes have different lists of PS tasks: give all nodes the same cluster.ps");
	else if (p->node->config->ps_count > 1 && hello->reactors != p->node->shards_count)
		refuse(answer, -EINVAL,
		       "in a cluster of several PS tasks both nodes of a pair need the same cores.number");
	else if (hello->etcd_key != node_pair_register_mark(p->node->config))
		refuse(answer, -EINVAL, "the two nodes differ in standby.etcd or standby.etcd_key: give both the same");
	else if (hello->durability && hello->durability != 1 + p->node->config->standby_durability)
		refuse(answer, -EINVAL, "the two nodes differ in standby.durability: give both the same");
	/* Otherwise a promoted node could let in peers that the other one refuses, or PS task 0 might not let it in. */
	else if (hello->data && hello->data != 1 + (uint32_t)p->node->config->security_data)
		refuse(answer, -EINVAL, "the two nodes differ in security.data: give both the same");
	else if (hello->journal != config_shares_history(p->node->config))
		refuse(answer, -EINVAL,
		       "only one of the two nodes keeps a journal: give both a journal.directory, or none");
	/* Clients may keep pushes, to be sent again, that are as large as this node takes them. */
	else if (hello->request_mib < p->node->config->request_mib)
		refuse(answer, -EINVAL,
		       "the standby's limits.request_mib is less than its primary's, whose requests it would refuse: "
		       "give both the same");
	else if (p->cannot[0] && clock_us() - p->cannot_us < CANNOT_US)
		refuse_again(answer, p->cannot);
	else if (p->joined)
		refuse(answer, -EBUSY, "another standby is about to join");
	else if (!node_journal_lets_join(p->node))
		refuse(answer, -EAGAIN, "the journal of the node that serves has not started yet: its disk is slow");
	if (answer->status)
		return false;
	p->joined = link;
	p->joins = *hello;
	pthread_cond_broadcast(&p->changed);
	return true;
}

/* Under lock: waits until the condition holds, for at most this long. */
static void await(struct node_pair *p, const bool *until, uint64_t us)
{
	const struct timespec end = clock_timespec(clock_ns() + us * 1000);

	while (!*until && !p->stopping && pthread_cond_timedwait(&p->changed, &p->lock, &end) != ETIMEDOUT)
		;
}

/* Under lock. The standby takes over: nothing is accepted any more, and it first gets the rest of the stream. */
static void depose(struct node_pair *p, const struct pair_hello *hello, struct pair_answer *answer)
{
	if (hello->generation <= p->generation) {
		refuse(answer, -ESTALE, "the generation that is to take over is not a later one");
		return;
	}
	if (p->role != PAIR_PRIMARY && p->role != PAIR_DEPOSED) {
		refuse(answer, -EALREADY, "the node does not serve");
		return;
	}
	if (p->takes_back) {
		refuse(answer, -EAGAIN, "the other node takes its place back, because this one had failed to serve");
		return;
	}
	/* The caller was cut off from this node, and has not noticed. */
	if (p->role == PAIR_PRIMARY && (p->state == NODE_PAIR_SOLO || p->state == NODE_PAIR_SYNCING)) {
		refuse(answer, -EAGAIN,
		       "the other node serves, and went on alone: it has changes that this one lacks. This one becomes "
		       "its standby by itself; promote it when it is up to date");
		return;
	}
	p->deposed_by = hello->generation;
	pthread_cond_broadcast(&p->changed);
	await(p, &p->closed, CLOSE_US);
	answer->role = p->role;
	answer->whole = p->closed_whole;
	if (!p->closed)
		refuse(answer, -ETIMEDOUT, "the node has not finished its requests in time");
}

/* Under lock. */
static void take_over(struct node_pair *p, const struct pair_hello *hello, struct pair_answer *answer)
{
	if (p->role == PAIR_PRIMARY)
		return; /* it has taken over already, and the answer was lost */
	if (p->role != PAIR_STANDBY || !p->promotable || hello->generation > p->generation) {
		refuse(answer, -EAGAIN, "the standby does not have all that the primary had");
		return;
	}
	log_warn("the primary has restarted and lost its state: this node takes its place");
	if (!p->promotion.asked)
		p->promotion = (struct node_pair_promotion){ .asked = true, .deposed = true };
	pthread_cond_broadcast(&p->changed);
	await(p, &p->promotion.done, TAKE_US);
	if (!p->promotion.done || p->promotion.status < 0)
		refuse(answer, -EAGAIN, "the standby could not take over");
}

/* Under lock. */
static void note_cannot(struct node_pair *p, const struct pair_hello *hello, struct pair_answer *answer)
{
	if (p->role != PAIR_PRIMARY) {
		refuse(answer, -EALREADY, "the node does not serve");
		return;
	}
	snprintf(p->cannot, sizeof(p->cannot), "%s", hello->text);
	p->cannot_us = clock_us();
}

/* The one that was refused tries again and again. */
static void note_refused(struct node_pair *p, const char *why)
{
	char text[PAIR_TEXT_MAX + 64];

	snprintf(text, sizeof(text), "a standby was refused: %.255s", why);
	node_pair_is_alone_because(p, text);
}

/* True: the link was passed on. */
static bool answer_hello(struct node_pair *p, struct pair_link *link, const struct pair_hello *hello)
{
	struct pair_answer answer;
	bool taken = false;

	pthread_mutex_lock(&p->lock);
	answer = stand(p);
	/* What it serves with ends with it: a standby that took it for its primary would begin again, empty. */
	if (p->stopping && p->role != PAIR_STANDBY)
		refuse(&answer, -ESHUTDOWN, "the node stops");
	else if (hello->intent == PAIR_JOIN)
		taken = take_standby(p, link, hello, &answer);
	else if (hello->intent == PAIR_DEPOSE)
		depose(p, hello, &answer);
	else if (hello->intent == PAIR_TAKE)
		take_over(p, hello, &answer);
	else if (hello->intent == PAIR_CANNOT)
		note_cannot(p, hello, &answer);
	pthread_mutex_unlock(&p->lock);
	if (taken)
		return true;
	if (hello->intent == PAIR_JOIN && answer.status == -EINVAL)
		note_refused(p, answer.text);
	pair_answer_seal(&answer);
	pair_link_write_all(link, &answer, sizeof(answer), clock_us() + HELLO_US);
	return false;
}

/* This answer shows a node of another program version that the versions differ. */
static void answer_stranger(struct node_pair *p, struct pair_link *link, struct pair_hello *hello, const char *why)
{
	struct pair_answer answer;

	pthread_mutex_lock(&p->lock);
	answer = stand(p);
	pthread_mutex_unlock(&p->lock);
	refuse(&answer, -EPROTO, why);
	pair_answer_seal(&answer);
	pair_link_write_all(link, &answer, sizeof(answer), clock_us() + HELLO_US);
	/* Unread data would reset the connection, and the answer would be lost. */
	pair_link_read(link, hello, sizeof(*hello));
}

static void serve_one(struct node_pair *p, int fd)
{
	const uint64_t until_us = clock_us() + HELLO_US;
	struct star_error err = { 0 };
	struct pair_hello hello = { 0 };
	struct pair_link *link = pair_link_accept(fd, p->context, until_us, &err);
	const int rc = link ? pair_link_hear(link, &hello, until_us, &err) : err.code;

	if (rc == 0 && answer_hello(p, link, &hello))
		return;
	if (rc < 0)
		log_warn("a connection to standby.listen was refused: %s", err.text);
	if (rc < 0 && hello.magic == PAIR_MAGIC) {
		note_refused(p, err.text);
		answer_stranger(p, link, &hello, err.text);
	}
	pair_link_close(link);
}

void *node_pair_listen(void *arg)
{
	struct node_pair *p = arg;

	while (!node_pair_stops(p)) {
		struct pollfd poll_fd = { .fd = p->listen_fd, .events = POLLIN };
		struct sockaddr_storage from;
		socklen_t bytes = sizeof(from);
		int fd;

		if (poll(&poll_fd, 1, LOOK_MS) <= 0)
			continue;
		fd = accept4(p->listen_fd, (struct sockaddr *)&from, &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0)
			continue;
		if (is_peer(p, (const struct sockaddr *)&from)) {
			serve_one(p, fd);
		} else {
			log_warn("a connection to standby.listen was refused: it came from another address than "
				 "standby.peer");
			close(fd);
		}
	}
	return NULL;
}
