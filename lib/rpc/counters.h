/* SPDX-License-Identifier: BSD-3-Clause */
/* What a server of requests counts, and what sessions over UDP do at both of their ends. Plain counters with one
 * writer, the thread of the server or endpoint; any thread may read them. */
#ifndef RPC_COUNTERS_H
#define RPC_COUNTERS_H

#include <stdint.h>

/* X(name, what it counts), or F if something went wrong: `errors` in a node's status. */
#define RPC_COUNTERS(X, F) \
	X(requests, "requests executed") \
	X(replies, "replies sent") \
	X(errors, "requests answered with an error status") \
	F(bad_frames, "streams closed: malformed frame") \
	F(bad_checksums, "streams closed, or requests of sessions refused: wrong checksum") \
	F(bad_tags, "streams closed: a record was changed, moved, repeated or left out on the way") \
	F(strangers, "streams closed: no ticket, or none that is good") \
	F(revoked, "streams closed: their principal was revoked") \
	F(late, "requests refused: their deadline had passed") \
	F(repeated, "requests not executed: they were sent, and perhaps executed, before") \
	F(no_buffers, "requests refused: they would take too many mbufs") \
	F(stalled, "streams closed: no request arrived in time, or only an incomplete one") \
	F(no_stream, "connections or sessions refused: there are too many") \
	F(no_session, "requests refused: there is no room for their session, and no other one may be forgotten") \
	F(starved, "requests refused: no mbufs for their replies") \
	F(unread, "peers given up: mbufs were short, and they did not read") \
	F(abandoned, "requests finished for a peer that had gone") \
	F(quota_connections, "streams refused: their principal has as many as its quota allows") \
	F(quota_sessions, "sessions refused: their principal has as many as its quota allows") \
	F(quota_in_flight, "requests refused: over their principal's quota of bytes in flight") \
	F(quota_requests, "requests refused: over their principal's quota of requests a second") \
	F(quota_new_rows, "requests refused: over their principal's quota of new rows a second") \
	F(quota_memory, "requests refused: over their principal's quota of memory") \
	X(held, "replies that waited until what they tell of was durable")

struct rpc_counters {
#define X(name, text) uint64_t name;
	RPC_COUNTERS(X, X)
#undef X
};

/* Of sessions over UDP: X(name, what it counts). */
#define DGRAM_COUNTERS(X) \
	X(packets_in, "packets of sessions received") \
	X(packets_out, "packets of sessions sent, retransmissions included") \
	X(messages_in, "messages received whole") \
	X(messages_out, "messages given to be sent") \
	X(retransmitted, "packets sent again") \
	X(timeouts, "retransmission timeouts") \
	X(duplicates, "packets received before") \
	X(marked, "packets received with a congestion mark") \
	X(opened, "sessions opened") \
	X(resumed, "sessions resumed after a silence") \
	X(expired, "sessions ended: the peer was silent for too long") \
	X(bad_packets, "dropped: malformed") \
	X(bad_versions, "dropped: of a peer of another release") \
	X(bad_tokens, "dropped: not of the session they name") \
	X(unknown, "dropped: of no session") \
	X(bad_cookies, "dropped: opened with a wrong or an old cookie") \
	X(outside, "dropped: beyond the credit that was granted") \
	X(crowded, "dropped: messages hold too many mbufs") \
	X(broken, "sessions ended: the peer broke the protocol") \
	X(refused, "sessions refused: there are too many") \
	X(evicted, "sessions ended for others: the table was full, and their address had more than its share of it") \
	X(over_limit, "messages refused: over a limit, or over the buffers there are") \
	X(starved, "packets not sent for lack of mbufs") \
	X(bad_tags, "dropped: changed on the way, or not of the session that they name") \
	X(repeated, "dropped: packets with a tag that had come before, or are too old to tell") \
	X(strangers, "sessions refused: no ticket, or none that is good") \
	X(revoked, "sessions ended: their principal was revoked") \
	X(renewed, "keys of sessions renewed for sending")

struct dgram_counters {
#define X(name, text) uint64_t name;
	DGRAM_COUNTERS(X)
#undef X
};

#endif
