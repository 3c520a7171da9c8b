/* SPDX-License-Identifier: BSD-3-Clause */
/* The target rpc is about streams, and its server opens no sessions: what only sessions call. (The target dgram is
 * theirs.) */
#include "rpc/datagram.h"
#include "tests/fuzz/pool.h"

#define NEVER() FUZZ_CHECK(false, "there are no sessions, but %s was called", __func__)

struct dgram *dgram_create(const struct dgram_options *options, struct star_error *err)
{
	NEVER();
	return NULL;
}

void dgram_destroy(struct dgram *dgram)
{
	FUZZ_CHECK(!dgram, "sessions that nobody has opened");
}

void dgram_listen(struct dgram *dgram)
{
	NEVER();
}

void dgram_unlisten(struct dgram *dgram)
{
	NEVER();
}

void dgram_set_incarnation(struct dgram *dgram, uint32_t incarnation)
{
	NEVER();
}

void dgram_close(struct dgram_session *session)
{
	NEVER();
}

void dgram_refuse(struct dgram_session *session, uint8_t status)
{
	NEVER();
}

void dgram_prefetch(const struct dgram_session *session)
{
	NEVER();
}

uint32_t dgram_payload(const struct dgram_session *session)
{
	NEVER();
	return 1;
}

struct rte_mbuf *dgram_alloc(struct dgram_session *session)
{
	NEVER();
	return NULL;
}

void dgram_send(struct dgram_session *session, struct rte_mbuf *message)
{
	NEVER();
}

struct rte_mbuf *dgram_room(struct dgram_session *session, uint32_t bytes)
{
	NEVER();
	return NULL;
}

bool dgram_append(struct dgram_session *session, struct rte_mbuf *packet)
{
	NEVER();
	return false;
}

uint32_t dgram_queued(const struct dgram_session *session)
{
	NEVER();
	return 0;
}

bool dgram_over_share(const struct dgram_session *session)
{
	NEVER();
	return false;
}

struct net_udp_address dgram_address(const struct dgram_session *session)
{
	NEVER();
	return (struct net_udp_address){ 0 };
}

uint64_t dgram_stalled_ns(const struct dgram_session *session)
{
	NEVER();
	return 0;
}

void dgram_taken(struct dgram_session *session, uint32_t mbufs)
{
	NEVER();
}

bool dgram_turn(struct dgram *dgram, uint64_t now_ns)
{
	NEVER();
	return false;
}

uint64_t dgram_next_ns(const struct dgram *dgram)
{
	NEVER();
	return UINT64_MAX;
}

bool dgram_is_tagged(const struct dgram_session *session)
{
	NEVER();
	return false;
}

const struct secure_guest *dgram_guest(const struct dgram_session *session)
{
	NEVER();
	return NULL;
}

void dgram_review(struct dgram *dgram, uint32_t *at, uint32_t n)
{
	NEVER();
}
