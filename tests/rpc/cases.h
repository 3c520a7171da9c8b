/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases of this test program, by file, and the service that they run: it does what the request's order says. */
#ifndef TESTS_RPC_CASES_H
#define TESTS_RPC_CASES_H

#include "tests/rpc/rig.h"
#include "tests/unit.h"

#define RPC_CASES(X) \
	/* frames.c */ \
	X(requests_cut_in_two_anywhere) \
	X(requests_byte_by_byte) \
	X(large_pieces_cut_anywhere) \
	X(pipelined_requests_cut_at_random) \
	X(pings_are_answered) \
	X(each_bad_frame_ends_its_stream_only) \
	X(a_good_request_before_a_bad_one_is_answered) \
	X(random_bytes_end_their_stream_only) \
	X(partial_requests_do_not_stall_for_ever) \
	X(limits_travel_over_a_bad_link) \
	/* turns.c */ \
	X(small_requests_do_not_wait_for_big_ones) \
	X(requests_of_a_stream_keep_their_order) \
	X(deadlines_pass_while_waiting) \
	X(half_closed_streams_get_their_replies) \
	X(begun_requests_of_dead_streams_are_finished) \
	X(other_requests_of_dead_streams_are_forgotten) \
	X(streams_are_bounded_and_reused) \
	X(creation_refuses_a_port_in_use) \
	X(destroyed_in_every_state) \
	/* buffers.c */ \
	X(peer_that_never_reads_is_not_served) \
	X(blocked_streams_that_die_are_freed) \
	X(greedy_requests_are_refused) \
	X(whole_requests_pass_over_the_limit) \
	X(large_requests_take_turns_when_short) \
	X(turns_to_receive_end_with_their_streams) \
	X(blocked_requests_hold_no_more_than_the_limit) \
	X(large_replies_share_a_small_pool) \
	X(replies_larger_than_the_pool_are_refused) \
	X(replies_without_room_wait_and_give_up) \
	X(receiving_keeps_a_share_of_the_pool) \
	X(empty_pool_delays_replies_only) \
	/* dgram_basic.c */ \
	X(dgram_small_messages_go_both_ways) \
	X(dgram_messages_of_all_sizes_arrive) \
	X(dgram_queued_before_opening_is_sent) \
	X(dgram_close_reaches_the_peer) \
	X(dgram_closed_while_receiving) \
	X(dgram_refused_sessions_are_told) \
	X(dgram_silent_peers_are_given_up) \
	X(dgram_sessions_resume_after_a_partition) \
	X(dgram_restarted_servers_are_noticed)

#define X(name) void name(void);
RPC_CASES(X)
#undef X

/* The first bytes of a request's payload; what follows them is data. */
struct order {
	uint32_t slices;      /* that it wants before its reply */
	uint32_t begin_at;    /* slice in which it is begun, from 1; 0: never */
	uint32_t reply_bytes; /* at least 4: the first are the CRC of the payload as the service read it */
	uint32_t fail;	      /* answers an error with this number */
};

struct toy {
	struct rig *rig;
	uint64_t last_session;
	unsigned started, finished, refused_room;
	uint64_t slices;
	bool drain;	/* takes the mbufs of the server's pool before it answers ... */
	unsigned leave; /* ... but for so many */
	struct rte_mbuf *drained[2048];
	unsigned drained_count;
	/* the sessions in the order of their slices */
	uint64_t log[65536];
	unsigned logged;
};

extern struct rig rig;
extern struct toy toy;

/* rig_init, with toy as its service; then rig_start. */
void toy_init(uint64_t seed, unsigned server_mbufs);
void toy_start(void);

/* Sends an order with data_bytes of data behind it. */
void toy_send(struct peer *peer, struct order order, uint32_t data_bytes);
/* Awaits and checks the reply to a request that was sent so. */
bool toy_await(struct peer *peer, uint64_t sequence, struct order order, uint32_t data_bytes);
/* The payload that toy_send sends; valid until the next call. */
const void *toy_payload(uint64_t session, uint64_t sequence, struct order order, uint32_t data_bytes);
/* Gives back what was drained. */
void toy_refill(void);

#endif
