/* SPDX-License-Identifier: BSD-3-Clause */
/* What the cases of lib/net share: one link, and a pair of streams over it. */
#ifndef TESTS_NET_CASES_H
#define TESTS_NET_CASES_H

#include "tests/net/stream.h"

enum { PORT = 5555 };

extern struct link net_link;

struct pair {
	struct stream client, server;
};

void pair_init(struct pair *p, uint64_t seed, uint64_t up, uint64_t down);
void pair_connect(struct pair *p);
bool both_received(void *ctx);
bool both_closed(void *ctx);
void check_streams(const struct pair *p, uint64_t seed);

/* frames.c */
void damaged_segments_are_dropped_and_counted(void);
void blind_resets_do_not_end_a_connection(void);
void half_open_connections_are_bounded_and_reclaimed(void);
void time_wait_gives_way_to_a_new_connection(void);
void icmp_echo_is_answered(void);
void udp_goes_both_ways_and_bad_lengths_are_dropped(void);
void arp_table_is_bounded_and_survives_nonsense(void);
void random_frames_change_nothing(void);
void flows_are_read_without_trust(void);
void checksums_equal_those_of_dpdk(void);

/* hostile.c */
void holes_take_a_bounded_share_of_the_mbufs(void);
void frames_do_not_wait_for_arp_for_ever(void);
void a_window_that_was_closed_for_long_goes_on_at_once(void);
void data_with_an_acknowledgement_of_long_ago_is_refused(void);
void addresses_that_no_host_has_are_not_answered(void);

#endif
