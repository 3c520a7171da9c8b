/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a node's NIC spreads flows by its own hash, each channel comes from a port whose flow reaches its reactor. */
#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>

#include "base/prng.h"
#include "tests/client/cases.h"

void source_ports_lead_to_the_reactor(void)
{
	struct star_error err = { 0 };
	struct steering steering = { .entries = 128, .key_bytes = 40 };
	struct bench b = { .peer = peer_start(1, 4), .dim = 4 };
	struct prng prng;

	prng_seed(&prng, 11);
	for (unsigned i = 0; i < steering.key_bytes; i++)
		steering.key[i] = (uint8_t)prng_next(&prng);
	for (unsigned i = 0; i < steering.entries; i++)
		steering.table[i] = (uint8_t)(i % 4);
	b.peer->layout->nodes[0].steering = steering;
	b.cluster = star_open(b.peer->address, LONG_US, &err);
	if (!CHECK(b.cluster))
		return;
	b.table = bench_table(&b, "words", 4);
	CHECK(pull_works(&b));
	pthread_mutex_lock(&b.peer->lock);
	CHECK(b.peer->connections_count >= 2);
	for (uint32_t i = 0; i < b.peer->connections_count; i++) {
		const struct peer_connection *c = &b.peer->connections[i];
		struct sockaddr_in from, to;
		socklen_t bytes = sizeof(from);
		struct steering_flow flow = { .address_bytes = 4 };

		CHECK_INT(getpeername(c->fd, (struct sockaddr *)&from, &bytes), 0);
		CHECK_INT(getsockname(c->fd, (struct sockaddr *)&to, &bytes), 0);
		memcpy(flow.from, &from.sin_addr, 4);
		memcpy(flow.to, &to.sin_addr, 4);
		flow.from_port = ntohs(from.sin_port);
		flow.to_port = ntohs(to.sin_port);
		CHECK_UINT(steering.table[steering_hash(&steering, &flow) % 128], c->reactor->index);
	}
	pthread_mutex_unlock(&b.peer->lock);
	bench_stop(&b);
}
