/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/client/peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit.h"
#include "secure/ticket.h"

bool peer_datagrams;
unsigned peer_data;

void peer_violation(struct peer *p, const char *format, ...)
{
	va_list args;

	pthread_mutex_lock(&p->lock);
	if (!p->violations++) {
		va_start(args, format);
		vsnprintf(p->violation, sizeof(p->violation), format, args);
		va_end(args);
	}
	pthread_mutex_unlock(&p->lock);
}

/* A listener on loopback; port 0: any. -1 if the port is taken. */
static int listen_at(uint16_t port, uint16_t *got)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port) };
	socklen_t bytes = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0)
		return -1;
	/* Ports on which connections of earlier tests linger are free. */
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int));
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 64) < 0 ||
	    getsockname(fd, (struct sockaddr *)&a, &bytes) < 0) {
		close(fd);
		return -1;
	}
	*got = ntohs(a.sin_port);
	return fd;
}

/* Listeners on consecutive ports, as the layout wants them. */
static bool listen_in_a_row(struct peer *p, uint32_t node)
{
	for (int attempt = 0; attempt < 200; attempt++) {
		uint16_t first = 0, port = 0;
		uint32_t n;

		for (n = 0; n < p->reactors_per_node; n++) {
			const uint32_t wanted = n ? (uint32_t)first + n : 0;
			int fd = wanted <= UINT16_MAX ? listen_at((uint16_t)wanted, &port) : -1;

			if (fd < 0)
				break;
			if (n == 0)
				first = port;
			p->reactors[node * p->reactors_per_node + n].listener = fd;
		}
		if (n == p->reactors_per_node) {
			p->layout->nodes[node].data_port = first;
			return true;
		}
		while (n--)
			close(p->reactors[node * p->reactors_per_node + n].listener);
	}
	return unit_fail(__FILE__, __LINE__, "no %u free ports in a row on loopback", p->reactors_per_node);
}

struct peer_connection *peer_accept(struct peer_reactor *r, int fd)
{
	struct peer_connection *c = NULL;
	struct peer *p = r->peer;

	pthread_mutex_lock(&p->lock);
	if (!p->stop && p->connections_count < PEER_CONNECTIONS_MAX) {
		c = &p->connections[p->connections_count++];
		*c = (struct peer_connection){ .reactor = r, .fd = fd, .life = p->life };
		p->connections_made++;
		if (pthread_create(&c->thread, NULL, peer_serve_main, c) != 0)
			abort();
	}
	pthread_mutex_unlock(&p->lock);
	return c;
}

/* True: not before all is over. */
static bool is_deaf(struct peer *p)
{
	bool deaf;

	pthread_mutex_lock(&p->lock);
	deaf = p->deaf;
	while (p->deaf && !p->stop)
		pthread_cond_wait(&p->changed, &p->lock);
	pthread_mutex_unlock(&p->lock);
	return deaf;
}

/* Until that is shut down. counted: how many there were; NULL: nobody asks. */
static void *accept_all(struct peer_reactor *r, int listener, uint32_t *counted)
{
	for (;;) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0)
			return NULL;
		if (listener == r->listener && is_deaf(r->peer)) {
			close(fd);
			return NULL;
		}
		if (counted) {
			pthread_mutex_lock(&r->peer->lock);
			++*counted;
			pthread_mutex_unlock(&r->peer->lock);
		}
		if (!peer_accept(r, fd))
			close(fd);
	}
}

static void *accept_main(void *arg)
{
	struct peer_reactor *r = arg;

	return accept_all(r, r->listener, NULL);
}

static void *door_main(void *arg)
{
	struct peer *p = arg;

	return accept_all(&p->reactors[0], p->door, &p->door_connections);
}

void peer_open_door(struct peer *p)
{
	uint16_t port;

	pthread_mutex_lock(&p->lock);
	p->door = listen_at(0, &port);
	strcpy(p->layout->nodes[0].standby.data_host, "127.0.0.1");
	strcpy(p->layout->nodes[0].standby.control, p->address + strlen("tcp:"));
	p->layout->nodes[0].standby.data_port = port;
	p->published_epoch = ++p->epoch;
	if (pthread_create(&p->door_thread, NULL, door_main, p) != 0)
		abort();
	pthread_mutex_unlock(&p->lock);
}

void peer_close_door(struct peer *p)
{
	if (!p->door)
		return;
	shutdown(p->door, SHUT_RDWR);
	pthread_join(p->door_thread, NULL);
	close(p->door);
	p->door = 0;
}

/* The first of these is taken by the thread that waits for one, the next ones fill the queue. */
void peer_go_deaf(struct peer *p)
{
	struct sockaddr_in a;
	socklen_t bytes = sizeof(a);

	pthread_mutex_lock(&p->lock);
	p->deaf = true;
	pthread_mutex_unlock(&p->lock);
	if (listen(p->reactors[0].listener, 0) < 0 ||
	    getsockname(p->reactors[0].listener, (struct sockaddr *)&a, &bytes) < 0)
		abort();
	for (size_t i = 0; i < sizeof(p->plugs) / sizeof(p->plugs[0]); i++) {
		p->plugs[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (connect(p->plugs[i], (struct sockaddr *)&a, bytes) < 0 && errno != EINPROGRESS)
			abort();
	}
}

void peer_move_to_door(struct peer *p)
{
	struct layout_node *node = &p->layout->nodes[0];

	pthread_mutex_lock(&p->lock);
	node->data_port = node->standby.data_port;
	node->standby = (struct layout_standby){ 0 };
	p->published_epoch = ++p->epoch;
	shutdown(p->reactors[0].listener, SHUT_RDWR);
	pthread_mutex_unlock(&p->lock);
}

void peer_change_places(struct peer *p)
{
	struct layout_node *node = &p->layout->nodes[0];
	uint16_t port;

	pthread_mutex_lock(&p->lock);
	port = node->data_port;
	node->data_port = node->standby.data_port;
	node->standby.data_port = port;
	p->published_epoch = ++p->epoch;
	pthread_mutex_unlock(&p->lock);
}

static void peer_make_tickets(struct peer *p)
{
	struct star_error err;

	p->tickets = peer_data ? secure_tickets_create((enum secure_data)peer_data, &err) : NULL;
}

void peer_forget_tickets(struct peer *p)
{
	pthread_mutex_lock(&p->lock);
	secure_tickets_destroy(p->tickets);
	peer_make_tickets(p);
	pthread_mutex_unlock(&p->lock);
}

uint32_t peer_tickets_asked(struct peer *p)
{
	uint32_t n;

	pthread_mutex_lock(&p->lock);
	n = p->tickets_asked;
	pthread_mutex_unlock(&p->lock);
	return n;
}

struct peer *peer_start(uint32_t nodes, uint32_t reactors_per_node)
{
	struct peer *p = calloc(1, sizeof(*p));
	uint16_t port;

	p->layout = calloc(1, sizeof(*p->layout) + PEER_NODES_MAX * sizeof(p->layout->nodes[0]));
	p->nodes = p->active_nodes = nodes;
	p->reactors_per_node = reactors_per_node;
	p->reactors_count = nodes * reactors_per_node;
	p->partitions = 1024;
	p->datagrams = peer_datagrams;
	peer_make_tickets(p);
	p->fault_reactor = -1;
	p->epoch = p->published_epoch = 7;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->changed, NULL);
	for (uint32_t n = 0; n < nodes; n++) {
		p->incarnation[n] = 100 + n;
		p->request_max[n] = WIRE_PAYLOAD_DEFAULT;
		if (!listen_in_a_row(p, n))
			exit(EXIT_FAILURE);
	}
	for (uint32_t i = 0; i < p->reactors_count; i++) {
		struct peer_reactor *r = &p->reactors[i];

		r->peer = p;
		r->index = i;
		r->node = i / reactors_per_node;
		r->rows_size = 1 << 18;
		r->rows = calloc(r->rows_size, sizeof(*r->rows));
		if (pthread_create(&r->thread, NULL, accept_main, r) != 0)
			abort();
		if (p->datagrams)
			r->endpoint = peer_link_listen(r,
						       (uint16_t)(p->layout->nodes[r->node].data_port +
								  i % reactors_per_node),
						       p->incarnation[r->node]);
	}
	p->control_listener = listen_at(0, &port);
	snprintf(p->address, sizeof(p->address), "tcp:127.0.0.1:%u", port);
	if (p->datagrams)
		peer_link_worker_file(p, p->address + strlen("tcp:"), p->address, sizeof(p->address));
	if (pthread_create(&p->control_thread, NULL, peer_control_main, p) != 0)
		abort();
	return p;
}

void peer_unplug(struct peer *p)
{
	for (uint32_t i = 0; i < p->reactors_count; i++) {
		struct peer_reactor *r = &p->reactors[i];

		if (r->listener < 0)
			continue;
		if (r->endpoint)
			peer_link_close(r, r->endpoint);
		r->endpoint = NULL;
		shutdown(r->listener, SHUT_RDWR);
		pthread_join(r->thread, NULL);
		close(r->listener);
		r->listener = -1;
	}
	pthread_mutex_lock(&p->lock);
	for (uint32_t i = 0; i < p->connections_count; i++)
		shutdown(p->connections[i].fd, SHUT_RDWR);
	pthread_mutex_unlock(&p->lock);
}

void peer_stop(struct peer *p)
{
	pthread_mutex_lock(&p->lock);
	p->stop = p->gate = true;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
	peer_close_door(p);
	peer_unplug(p);
	for (uint32_t i = 0; i < p->connections_count; i++) {
		pthread_join(p->connections[i].thread, NULL);
		close(p->connections[i].fd);
	}
	shutdown(p->control_listener, SHUT_RDWR);
	pthread_join(p->control_thread, NULL);
	close(p->control_listener);
	for (size_t i = 0; p->deaf && i < sizeof(p->plugs) / sizeof(p->plugs[0]); i++)
		close(p->plugs[i]);
	if (p->violations)
		unit_fail(__FILE__, __LINE__, "the client broke the protocol %u times, first: %s", p->violations,
			  p->violation);
	for (uint32_t i = 0; i < p->reactors_count; i++) {
		for (uint32_t row = 0; row < p->reactors[i].rows_size; row++)
			free(p->reactors[i].rows[row].values);
		free(p->reactors[i].rows);
		peer_retained_free(&p->reactors[i]);
	}
	secure_tickets_destroy(p->tickets);
	pthread_cond_destroy(&p->changed);
	pthread_mutex_destroy(&p->lock);
	if (p->datagrams)
		unlink(p->worker_file);
	free(p->layout);
	free(p);
}

void peer_misbehave(struct peer *p, enum peer_fault fault, uint32_t skip, uint32_t count)
{
	pthread_mutex_lock(&p->lock);
	p->fault = fault;
	p->fault_skip = skip;
	p->fault_count = count;
	p->gate = false;
	p->held = 0;
	pthread_mutex_unlock(&p->lock);
}

void peer_answer(struct peer *p, unsigned status, const char *sentence, uint32_t count)
{
	pthread_mutex_lock(&p->lock);
	p->status = status;
	p->sentence = sentence;
	pthread_mutex_unlock(&p->lock);
	peer_misbehave(p, FAULT_STATUS, 0, count);
}

void peer_end_connections(struct peer *p, uint32_t reactor)
{
	pthread_mutex_lock(&p->lock);
	for (uint32_t i = 0; i < p->connections_count; i++)
		if (p->connections[i].reactor->index == reactor)
			shutdown(p->connections[i].fd, SHUT_RDWR);
	pthread_mutex_unlock(&p->lock);
}

static void set_hushed(struct peer *p, bool hushed)
{
	pthread_mutex_lock(&p->lock);
	p->hushed = hushed;
	pthread_mutex_unlock(&p->lock);
}

void peer_hush(struct peer *p)
{
	set_hushed(p, true);
}

void peer_speak(struct peer *p)
{
	set_hushed(p, false);
}

void peer_open_gate(struct peer *p)
{
	pthread_mutex_lock(&p->lock);
	p->gate = true;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

static bool wait_for(struct peer *p, const uint32_t *counter, uint32_t n)
{
	struct timespec until;
	int rc = 0;
	bool there;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 20;
	pthread_mutex_lock(&p->lock);
	while (*counter < n && rc == 0)
		rc = pthread_cond_timedwait(&p->changed, &p->lock, &until);
	there = *counter >= n;
	pthread_mutex_unlock(&p->lock);
	return there || unit_fail(__FILE__, __LINE__, "the peer saw fewer than %u requests in 20 s", n);
}

bool peer_wait_held(struct peer *p, uint32_t n)
{
	return wait_for(p, &p->held, n);
}

bool peer_wait_requests(struct peer *p, uint32_t n)
{
	return wait_for(p, &p->requests, n);
}

bool peer_wait_hushed(struct peer *p, uint32_t n)
{
	return wait_for(p, &p->hushed_count, n);
}

uint32_t peer_counter(struct peer *p, const uint32_t *counter)
{
	uint32_t value;

	pthread_mutex_lock(&p->lock);
	value = *counter;
	pthread_mutex_unlock(&p->lock);
	return value;
}

uint32_t peer_requests(struct peer *p)
{
	return peer_counter(p, &p->requests);
}

uint32_t peer_connections(struct peer *p)
{
	return peer_counter(p, &p->connections_made);
}

struct wire_op peer_last_op(struct peer *p)
{
	struct wire_op op;

	pthread_mutex_lock(&p->lock);
	op = p->last_op;
	pthread_mutex_unlock(&p->lock);
	return op;
}

uint64_t peer_largest_request(struct peer *p)
{
	uint64_t bytes;

	pthread_mutex_lock(&p->lock);
	bytes = p->largest_request;
	pthread_mutex_unlock(&p->lock);
	return bytes;
}

void peer_forget_largest(struct peer *p)
{
	pthread_mutex_lock(&p->lock);
	p->largest_request = 0;
	pthread_mutex_unlock(&p->lock);
}

void peer_relayout(struct peer *p, uint32_t active_nodes, bool publish)
{
	pthread_mutex_lock(&p->lock);
	p->active_nodes = active_nodes;
	p->epoch++;
	if (publish)
		p->published_epoch = p->epoch;
	pthread_mutex_unlock(&p->lock);
}

void peer_refuse_layout(struct peer *p, uint32_t times)
{
	pthread_mutex_lock(&p->lock);
	p->layout_again = times;
	pthread_mutex_unlock(&p->lock);
}

void peer_restart_node(struct peer *p, uint32_t node)
{
	pthread_mutex_lock(&p->lock);
	p->incarnation[node] += 1000;
	pthread_mutex_unlock(&p->lock);
}

float peer_initial(uint32_t object, uint64_t key, uint32_t element)
{
	return (float)(object * 1000 + key % 997) + (float)element * 0.001f;
}

bool peer_find(struct peer *p, uint32_t object, uint64_t key, uint32_t *applied, float *first)
{
	bool found = false;

	pthread_mutex_lock(&p->lock);
	for (uint32_t i = 0; i < p->reactors_count && !found; i++)
		for (uint32_t row = 0; row < p->reactors[i].rows_size && !found; row++) {
			const struct peer_row *r = &p->reactors[i].rows[row];

			found = r->used && r->object == object && r->key == key;
			if (found) {
				*applied = r->applied;
				*first = r->values[0];
			}
		}
	pthread_mutex_unlock(&p->lock);
	return found;
}
