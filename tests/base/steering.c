/* SPDX-License-Identifier: BSD-3-Clause */
/* The published verification suite of the RSS hash, and the choice of ports. */
#include "base/steering.h"

#include <arpa/inet.h>
#include <string.h>

#include "tests/base/cases.h"
#include "tests/unit.h"

static const struct steering published = {
	.entries = 8,
	.key_bytes = 40,
	.key = { 0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3,
		 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3,
		 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa },
	.table = { 0, 1, 2, 3, 0, 1, 2, 3 },
};

static struct steering_flow flow_of(const char *from, uint16_t from_port, const char *to, uint16_t to_port)
{
	const int family = strchr(from, ':') ? AF_INET6 : AF_INET;
	struct steering_flow flow = { .address_bytes = family == AF_INET ? 4 : 16,
				      .from_port = from_port,
				      .to_port = to_port };

	inet_pton(family, from, flow.from);
	inet_pton(family, to, flow.to);
	return flow;
}

void steering_hash_is_the_published_one(void)
{
	const struct {
		const char *from;
		uint16_t from_port;
		const char *to;
		uint16_t to_port;
		uint32_t hash;
	} cases[] = {
		{ "66.9.149.187", 2794, "161.142.100.80", 1766, 0x51ccc178 },
		{ "199.92.111.2", 14230, "65.69.140.83", 4739, 0xc626b0ea },
		{ "24.19.198.95", 12898, "12.22.207.184", 38024, 0x5c2b394a },
		{ "3ffe:2501:200:1fff::7", 2794, "3ffe:2501:200:3::1", 1766, 0x40207d3d },
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct steering_flow flow =
			flow_of(cases[i].from, cases[i].from_port, cases[i].to, cases[i].to_port);

		CHECK_UINT(steering_hash(&published, &flow), cases[i].hash);
	}
}

void steering_ports_lead_to_their_queue(void)
{
	struct steering_flow flow = flow_of("198.18.0.2", 60998, "198.18.0.1", 7000);

	for (unsigned queue = 0; queue < 4; queue++) {
		struct steering_flow chosen = flow;

		chosen.from_port = steering_port(&published, &flow, queue, 32768, 60999);
		CHECK(chosen.from_port >= 32768 && chosen.from_port <= 60999);
		CHECK_UINT(published.table[steering_hash(&published, &chosen) % 8], queue);
	}
	CHECK_UINT(steering_port(&published, &flow, 4, 32768, 60999), 0);
}
