/* SPDX-License-Identifier: BSD-3-Clause */
/* Congestion control over a bottleneck of 100 Gb/s: it is filled, its queue stays short, it is shared, and losses
 * without congestion cost little. */
#include <stdio.h>

#include "tests/rpc/cases.h"
#include "base/offload.h"
#include "tests/rpc/dgram_rig.h"

#define BYTES_S UINT64_C(12500000000)
enum { WARM_US = 3000, QUEUED_MAX = 5000 /* packets, of all flows together */, PAYLOAD = 1408 };

static unsigned flows, ahead;

static void fill(struct dg_end *client)
{
	while (client->session && dgram_queued(client->session) < ahead && dg_send(client, ahead * PAYLOAD / 4, 0))
		;
}

static bool fill_all(void *ctx)
{
	for (unsigned i = 0; i < flows; i++)
		fill(&dg.clients[i]);
	return false;
}

/* flows senders to one receiver, without losses but those of the queue. */
static void begin(uint64_t seed, unsigned count, uint32_t queue_bytes)
{
	flows = count;
	ahead = RTE_MIN(QUEUED_MAX / count, 1200u);
	dg_init(seed);
	dg.unchecked = true;
	for (int side = 0; side < 2; side++) {
		dg.options[side].window_max = 1024;
		dg.options[side].target_delay_ns = 25000;
	}
	dg_up();
	for (unsigned i = 0; i < flows; i++)
		dg_open(i);
	dg.link.bottleneck[1] = (struct link_bottleneck){ .bytes_s = BYTES_S, .queue_bytes = queue_bytes };
	dg_run(WARM_US * 1000, fill_all, NULL);
}

/* The part of the bottleneck's capacity that arrives as messages' bytes. */
static double goodput(uint64_t for_us)
{
	uint64_t bytes = 0, packets = dg_counters(0)->packets_in;

	for (unsigned i = 0; i < flows; i++)
		dg.servers[i].bytes = 0;
	dg.link.bottleneck[1].longest_bytes = 0;
	dg_run(for_us * 1000, fill_all, NULL);
	for (unsigned i = 0; i < flows; i++)
		bytes += dg.servers[i].bytes;
	packets = dg_counters(0)->packets_in - packets;
	return (double)bytes * 1500 / 1408 / ((double)for_us * (double)BYTES_S / 1e6);
}

void dgram_one_flow_fills_the_link(void)
{
	double part;

	begin(80, 1, 4 << 20);
	part = goodput(10000);
	if (part < 0.9)
		unit_fail(__FILE__, __LINE__, "%.3f of the link", part);
	/* 20 us of it. */
	CHECK(dg.link.bottleneck[1].longest_bytes < BYTES_S * 20 / 1000000);
	printf("# one flow: %.3f of the link, queue up to %.1f us\n", part,
	       dg.link.bottleneck[1].longest_bytes * 1e6 / (double)BYTES_S);
	CHECK_UINT(dg_counters(1)->timeouts, 0);
	dg_down();
}

void dgram_incast_is_shared(void)
{
	double part, sum = 0, squares = 0, jain;

	begin(81, 128, 1 << 20);
	dg_run(10 * LINK_MS, fill_all, NULL);
	part = goodput(30000);
	for (unsigned i = 0; i < flows; i++) {
		const double bytes = (double)dg_server_of(&dg.clients[i])->bytes;

		sum += bytes;
		squares += bytes * bytes;
	}
	jain = sum * sum / (flows * squares);
	printf("# 128 flows: %.3f of the link, Jain's index %.3f, queue up to %.1f us, %llu lost in it\n", part, jain,
	       dg.link.bottleneck[1].longest_bytes * 1e6 / (double)BYTES_S,
	       (unsigned long long)dg.link.bottleneck[1].dropped);
	if (part < 0.8 || jain < 0.95)
		unit_fail(__FILE__, __LINE__, "%.3f of the link, Jain's index %.3f", part, jain);
	dg_down();
}

static double goodput_at(uint64_t seed, unsigned loss)
{
	double part;

	begin(seed, 1, 4 << 20);
	dg.link.loss = loss;
	part = goodput(10000);
	dg_down();
	return part;
}

void dgram_losses_cost_little(void)
{
	const double none = goodput_at(82, 0), few = goodput_at(82, 1), many = goodput_at(82, 10);

	printf("# goodput without loss %.3f, at 0.1 %% %.3f, at 1 %% %.3f\n", none, few, many);
	if (few < 0.9 * none || many < 0.7 * none)
		unit_fail(__FILE__, __LINE__, "goodput %.3f, at 0.1 %% %.3f, at 1 %% %.3f", none, few, many);
}

void dgram_marks_hold_the_queue(void)
{
	double part;

	begin(83, 4, 4 << 20);
	for (int side = 0; side < 2; side++)
		dg.dgram[side]->options.target_delay_ns = 400000; /* delay alone would not */
	dg.link.bottleneck[1].mark_bytes = 150000;
	dg_run(WARM_US * 1000, fill_all, NULL);
	part = goodput(10000);
	printf("# marked: %.3f of the link, queue up to %.1f us\n", part,
	       dg.link.bottleneck[1].longest_bytes * 1e6 / (double)BYTES_S);
	CHECK(part > 0.85);
	CHECK(dg_counters(0)->marked > 0);
	CHECK(dg.link.bottleneck[1].longest_bytes < 1000000);
	CHECK_UINT(dg.link.bottleneck[1].dropped, 0);
	dg_down();
}

/* A worker that stands still for a while, and then goes on: the window that its peer has for it afterwards, of
 * window_max. */
static bool is_open_after_silence(bool memory)
{
	const struct dg_end *server;
	struct dg_end *client;
	bool open;

	dg_init(84);
	dg.unchecked = true;
	for (int side = 0; side < 2 && memory; side++)
		dg.net_options[side].interfaces[0].offloads = OFFLOAD_MEMORY;
	dg_up();
	client = dg_open(0);
	CHECK(dg_send(client, PAYLOAD, 64 * PAYLOAD));
	CHECK(dg_run(DG_S, dg_answered, client));
	server = dg_server_of(client);
	CHECK(dg_send(client, PAYLOAD, 64 * PAYLOAD));
	dg_wait(dg.link.delay_ns + 1000); /* the request is there, and its reply under way */
	dg.down[1] = true;
	dg_wait(DG_S / 2);
	dg.down[1] = false;
	CHECK(dg_counters(0)->timeouts > 0);
	CHECK(dg_run(DG_S, dg_answered, client));
	open = server->session->congestion.packets == dg.options[0].window_max &&
	       server->session->congestion.gap_ns == 0;
	dg_down();
	return open;
}

void dgram_silence_through_memory_is_no_congestion(void)
{
	CHECK(is_open_after_silence(true));
	CHECK(!is_open_after_silence(false));
}
