/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A server of requests on side 0 of a simulated link, and clients of it on side 1, in virtual time: a slice takes
 * SLICE_NS. Shared by the tests of rpc and of service.
 */
#ifndef TESTS_RPC_RIG_H
#define TESTS_RPC_RIG_H

#include "rpc/rpc.h"
#include "secure/ticket.h"
#include "tests/net/link.h"

enum { RIG_PORT = 5555, RIG_EPOCH = 3, RIG_INCARNATION = 77, RIG_PEERS_MAX = 64, SLICE_NS = 20000 };

#define RIG_S (1000 * LINK_MS)

/* A client's stream. */
struct peer {
	struct rig *rig;
	struct tcp_conn *conn; /* NULL before and after */
	uint64_t session, sequence;
	/* bytes to send, and how many of them TCP has */
	uint8_t *out;
	size_t out_bytes, out_room, out_sent;
	uint32_t segment_max; /* segments of random length up to this; 0: as long as they can be */
	/* bytes received, and how many of them were taken by peer_reply */
	uint8_t *in;
	size_t in_bytes, in_room, in_taken;
	bool hold; /* leaves what it receives in TCP's window */
	uint32_t held;
	/* by which its frames are records (sealed.c); NULL: they are in clear */
	struct secure_direction *to_node, *from_node;
	const struct secure_guest *guest; /* as whom the server knows it */
	bool opened, finished, closed;
	int reason;
};

struct reply {
	struct wire_frame frame;
	const uint8_t *payload; /* until the next call that runs the rig */
	char text[WIRE_ERROR_TEXT_MAX + 1];
};

struct rig {
	struct link link;
	struct net_options net_options[2];
	struct rpc_server_options options;
	struct rpc_server *server;
	struct peer peers[RIG_PEERS_MAX];
	unsigned slices_per_turn;
	uint64_t slices;
	/* of the current rig_run */
	unsigned worked;
	bool (*until)(void *ctx);
	void *until_ctx;
};

/* Sets all options; tests change them before rig_start. server_mbufs: size of the server's pool, 0 for plenty. */
void rig_init(struct rig *rig, uint64_t seed, unsigned server_mbufs);
void rig_start(struct rig *rig, const struct rpc_service *service);
/* Destroys everything, in whatever state it is, and checks that no mbuf is missing. */
void rig_stop(struct rig *rig);

/* Runs until until(ctx), or for this long; true when until was met. */
bool rig_run(struct rig *rig, uint64_t for_ns, bool (*until)(void *ctx), void *ctx);
static inline void rig_wait(struct rig *rig, uint64_t for_ns)
{
	rig_run(rig, for_ns, NULL, NULL);
}

/* Connects peer i, and waits until that is done. */
struct peer *rig_peer(struct rig *rig, unsigned i);
/* The same to one of the server's addresses, and so from one of the client's. */
struct peer *rig_peer_at(struct rig *rig, unsigned i, const struct net_address *address);

/* The header of the peer's next request; payload_bytes and checksum are filled in by peer_send. */
struct wire_frame peer_frame(struct peer *peer, enum wire_opcode opcode);
/* Sends a frame with its right length and checksum. */
void peer_send(struct peer *peer, struct wire_frame frame, const void *payload, uint32_t bytes);
/* Makes a record of a frame and its payload. */
void peer_seal(struct peer *peer, struct wire_frame *frame, void *payload);
/* Sends bytes as they are, in segments of their own. */
void peer_write(struct peer *peer, const void *bytes, size_t n);
/* Reads again after hold, and gives the window back. */
void peer_resume(struct peer *peer);

/* Takes the next reply if it is there whole; checks its header and checksum. */
bool peer_reply(struct peer *peer, struct reply *reply);
/* Waits for it; fails the test when none comes, and reply is zeros then. */
bool peer_await(struct peer *peer, struct reply *reply);
bool peer_has_reply(void *peer);
bool peer_is_closed(void *peer);

#define CHECK_STATUS(reply, expected, part) \
	do { \
		CHECK_UINT((reply).frame.status, (expected)); \
		CHECK_HAS((reply).text, (part)); \
	} while (0)

#endif
