/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many sessions from one address, which does its worst; and an ordinary worker with another one, which is served
 * throughout. The crowd speaks IPv4, the worker IPv6.
 */
#include <errno.h>

#include "tests/rpc/cases.h"
#include "tests/rpc/dgram_books.h"
#include "tests/rpc/dgram_rig.h"

enum { PLACES = 64, CROWD = 100, WORKER = CROWD, WINDOWS = 32 };

static bool deaf; /* the crowd hears nothing, and so acknowledges nothing */

static bool lose_to_crowd(struct link *link, int from, struct rte_mbuf *m)
{
	return deaf && from == 0 &&
	       rte_pktmbuf_mtod(m, const struct rte_ether_hdr *)->ether_type == RTE_BE16(RTE_ETHER_TYPE_IPV4);
}

static void begin(uint64_t seed)
{
	deaf = false;
	dg_init(seed);
	dg.link.tap = lose_to_crowd;
	dg.options[0].sessions_max = PLACES;
	dg.options[0].active_max = WINDOWS;
}

static void check_books(void)
{
	const char *wrong = books_wrong(dg.dgram[0]);

	if (!wrong)
		wrong = books_of_pools(dg.dgram[0]);
	if (wrong)
		unit_fail(__FILE__, __LINE__, "%s", wrong);
}

static void open_crowd(unsigned n)
{
	dg.v6 = false;
	for (unsigned i = 0; i < n; i++)
		dg_client(i);
	dg_wait(20 * LINK_MS);
}

static struct dg_end *open_worker(void)
{
	dg.v6 = true;
	return dg_open(WORKER);
}

static void is_served(struct dg_end *worker)
{
	CHECK_UINT(worker->closes, 0);
	CHECK(worker->session && dg_send(worker, 3000, 1 + 3000));
	CHECK(dg_run(100 * LINK_MS, dg_answered, worker));
	check_books();
}

static unsigned opened(unsigned n)
{
	unsigned open = 0;

	for (unsigned i = 0; i < n; i++)
		open += dg.clients[i].session && dg.clients[i].session->state == DGRAM_OPEN;
	return open;
}

/* All of them ask once, so that none is closed for that; then they are kept by heartbeats. */
void dgram_one_address_leaves_places_for_others(void)
{
	struct dg_end *worker;

	begin(210);
	dg_up();
	open_crowd(CROWD);
	CHECK_UINT(dgram_sessions(dg.dgram[0]), PLACES);
	for (unsigned i = 0; i < CROWD; i++)
		if (dg.clients[i].session)
			dg_send(&dg.clients[i], 100, 1 + 100);
	dg_wait(20 * LINK_MS);
	worker = open_worker();
	is_served(worker);
	CHECK_UINT(dg_counters(0)->evicted, 1);
	for (unsigned round = 0; round < 30; round++) {
		dg.v6 = false;
		for (unsigned i = 0; i < CROWD; i++)
			if (!dg.clients[i].session)
				dg_client(i);
		dg_wait(DG_S);
		is_served(worker);
	}
	CHECK_UINT(dgram_sessions(dg.dgram[0]), PLACES);
	CHECK_UINT(dg_counters(0)->evicted,
		   1); /* the one with the larger share takes no place from others, nor from itself */
	dg_down();
}

/* One host takes another address of its /64 for each session, until all places are taken: they are its share
 * together. */
void dgram_addresses_of_one_64_share(void)
{
	enum { ADDRESSES = 6 };
	struct net_address own[ADDRESSES + 1];
	struct net_interface_options *ours, *theirs;
	struct dg_end *worker;

	begin(215);
	dg.v6 = true;
	dg.options[0].sessions_max = ADDRESSES;
	ours = &dg.net_options[0].interfaces[0];
	theirs = &dg.net_options[1].interfaces[0];
	own[0] = *link_ip6(1);
	for (unsigned i = 1; i < ADDRESSES; i++)
		own[i] = link_ip6_of(0, 0x100 + i);
	own[ADDRESSES] = link_ip6_of(1, 2); /* the worker's */
	for (unsigned i = 1; i <= ADDRESSES; i++) {
		theirs->addresses[theirs->addresses_count].address = own[i];
		theirs->addresses[theirs->addresses_count++].prefix = 64;
	}
	ours->addresses[ours->addresses_count].address = link_ip6_of(1, 1);
	ours->addresses[ours->addresses_count++].prefix = 64;
	dg_up();
	for (unsigned i = 0; i < ADDRESSES; i++) {
		dg.dgram[1]->options.local = own[i];
		is_served(dg_open(i));
	}
	CHECK_UINT(dgram_sessions(dg.dgram[0]), ADDRESSES);
	dg.dgram[1]->options.local = own[ADDRESSES];
	worker = dg_open(WORKER);
	is_served(worker);
	CHECK_UINT(dg_counters(0)->evicted, 1);
	for (unsigned round = 0; round < 10; round++) {
		for (unsigned i = 0; i < ADDRESSES; i++) {
			dg.dgram[1]->options.local = own[i];
			if (!dg.clients[i].session)
				dg_client(i);
		}
		dg_wait(DG_S);
		is_served(worker);
	}
	CHECK_UINT(dg_counters(0)->evicted, 1);
	dg_down();
}

/* Whom nobody has used for a minute gives way, even of the same address: the idlest one. */
void dgram_idle_sessions_give_way(void)
{
	begin(211);
	dg_up();
	open_crowd(PLACES);
	for (unsigned i = 0; i < PLACES; i++)
		CHECK(dg_send(&dg.clients[i], 100, 1 + 100));
	for (unsigned s = 0; s < 70; s += 5) {
		for (unsigned i = 0; i < PLACES; i++)
			if (i != 7 && dg.clients[i].session)
				dg_send(&dg.clients[i], 100, 1 + 100);
		dg_wait(5 * DG_S);
	}
	CHECK_UINT(opened(PLACES), PLACES);
	dg_open(PLACES);
	CHECK_UINT(dg.clients[PLACES].closes, 0);
	CHECK_UINT(dg.clients[7].closes, 1);
	CHECK_UINT(dg_counters(0)->evicted, 1);
	is_served(&dg.clients[PLACES]);
	dg_open(PLACES + 1);
	CHECK_UINT(dg.clients[PLACES + 1].closes, 1); /* all others are in use */
	dg_down();
}

void dgram_sessions_without_a_request_end(void)
{
	begin(212);
	dg_up();
	open_crowd(20);
	CHECK(dg_send(&dg.clients[3], 100, 1 + 100));
	dg_wait(9 * DG_S);
	CHECK_UINT(dgram_sessions(dg.dgram[0]), 20);
	dg_wait(3 * DG_S);
	CHECK_UINT(dgram_sessions(dg.dgram[0]), 1);
	CHECK_UINT(dg.clients[3].closes, 0);
	CHECK_UINT(dg.clients[4].closes, 1);
	dg_wait(60 * DG_S);
	is_served(&dg.clients[3]);
	dg_down();
}

/* Sessions that are kept alive, but acknowledge no reply, take neither all windows nor keep theirs for ever. */
void dgram_unread_replies_leave_windows_for_others(void)
{
	struct dg_end *worker;

	begin(213);
	dg_up();
	worker = open_worker();
	open_crowd(PLACES - 1);
	deaf = true;
	for (unsigned i = 0; i < PLACES - 1; i++)
		CHECK(dg_send(&dg.clients[i], 100, 1 + 100));
	for (unsigned i = 0; i < 80; i++) {
		dg_wait(100 * LINK_MS);
		is_served(worker);
	}
	dg_wait(LINK_MS);
	CHECK_UINT(dg.dgram[0]->windows_free, 1);
	dg_wait(15 * DG_S);
	is_served(worker);
	CHECK(dg.dgram[0]->windows_free > WINDOWS / 2);
	dg_down();
}

/* What one address has unacknowledged is bounded by its share of the pool, less when mbufs are short. */
void dgram_unread_mbufs_are_shared(void)
{
	struct dg_end *worker;
	unsigned i = 0;

	begin(214);
	dg.options[0].active_max = DG_ENDS_MAX;
	link_pool(&dg.link, 0, 2048);
	dg.net_options[0] = link_options(&dg.link, 0);
	dg_up();
	worker = open_worker();
	open_crowd(PLACES - 1);
	for (unsigned k = 0; k < PLACES - 1; k++)
		CHECK(dg_send(&dg.clients[k], 100, 0));
	dg_wait(20 * LINK_MS);
	deaf = true;
	for (; i < 200 && !dgram_over_share(dg_server_of(&dg.clients[0])->session); i++)
		dg_send(dg_server_of(&dg.clients[i % (PLACES - 1)]), 14000, 0);
	CHECK(i > 50 && i < 150); /* ten mbufs each, of 2048 */
	CHECK(dgram_over_share(dg_server_of(&dg.clients[5])->session));
	CHECK(!dgram_over_share(dg_server_of(worker)->session));
	is_served(worker);
	deaf = false;
	dg_wait(5 * DG_S);
	CHECK(!dgram_over_share(dg_server_of(&dg.clients[0])->session));
	dg_down();
}
