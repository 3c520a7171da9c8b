/* SPDX-License-Identifier: BSD-3-Clause */
/* TCP between two stacks of ours. */
#include <errno.h>
#include <rte_ip.h>
#include <rte_tcp.h>
#include <stdlib.h>

#include "tests/net/cases.h"
#include "tests/unit.h"

struct link net_link;

void pair_init(struct pair *p, uint64_t seed, uint64_t up, uint64_t down)
{
	*p = (struct pair){ .client = { .send_seed = seed, .expect_seed = ~seed, .send_total = up },
			    .server = { .send_seed = ~seed, .expect_seed = seed, .send_total = down } };
}

void pair_connect(struct pair *p)
{
	struct star_error err = { 0 };

	CHECK_INT(tcp_listen(net_link.net[0], PORT, &stream_handler, &p->server), 0);
	p->client.conn = tcp_connect(net_link.net[1], link_ip(0), PORT, &stream_handler, &p->client, &p->client, &err);
	CHECK(p->client.conn);
}

bool both_received(void *ctx)
{
	const struct pair *p = ctx;

	return (p->client.received == p->server.send_total && p->server.received == p->client.send_total) ||
	       p->client.closed || p->server.closed;
}

bool both_closed(void *ctx)
{
	const struct pair *p = ctx;

	return p->client.closed && p->server.closed;
}

void check_streams(const struct pair *p, uint64_t seed)
{
	if (p->client.received != p->server.send_total || p->server.received != p->client.send_total ||
	    p->client.wrong || p->server.wrong)
		unit_fail(__FILE__, __LINE__,
			  "seed %llu: client got %llu of %llu%s, server %llu of %llu%s, reasons %d %d",
			  (unsigned long long)seed, (unsigned long long)p->client.received,
			  (unsigned long long)p->server.send_total, p->client.wrong ? " wrong" : "",
			  (unsigned long long)p->server.received, (unsigned long long)p->client.send_total,
			  p->server.wrong ? " wrong" : "", p->client.reason, p->server.reason);
}

static void streams_arrive_and_close_in_order(void)
{
	struct pair p;

	link_init(&net_link, 1);
	link_up(&net_link);
	pair_init(&p, 1, 1000000, 700000);
	pair_connect(&p);
	CHECK(link_run(&net_link, 60000 * LINK_MS, both_received, &p));
	check_streams(&p, 1);
	CHECK_UINT(net_counters(net_link.net[0])->tcp_retrans_segs + net_counters(net_link.net[1])->tcp_retrans_segs,
		   0);
	tcp_close(p.client.conn);
	CHECK(link_run(&net_link, 5000 * LINK_MS, both_closed, &p));
	CHECK_INT(p.client.reason, 0);
	CHECK_INT(p.server.reason, 0);
	CHECK(p.server.finished);
	/* TIME_WAIT passes, and nothing is left. */
	CHECK_UINT(net_connections(net_link.net[1]), 1);
	link_run(&net_link, 5000 * LINK_MS, NULL, NULL);
	CHECK_UINT(net_connections(net_link.net[0]) + net_connections(net_link.net[1]), 0);
	link_down(&net_link);
}

static bool stalled(void *ctx)
{
	const struct pair *p = ctx;

	return net_counters(net_link.net[1])->tcp_zero_window_probes >= 1 && p->server.held >= 64000;
}

static void closed_window_stops_the_sender_until_it_opens(void)
{
	struct net_options a, b;
	struct pair p;

	link_init(&net_link, 3);
	a = link_options(&net_link, 0);
	b = link_options(&net_link, 1);
	a.receive_window_bytes = 65000;
	link_up_with(&net_link, &a, &b);
	pair_init(&p, 3, 300000, 0);
	p.server.hold = true;
	pair_connect(&p);
	CHECK(link_run(&net_link, 60000 * LINK_MS, stalled, &p));
	CHECK(p.server.received <= 65001);
	/* A reader that only sleeps does not lose its connection, however long it does. */
	link_run(&net_link, 1800000 * LINK_MS, NULL, NULL);
	CHECK(!p.client.closed);
	p.server.hold = false;
	tcp_consumed(p.server.conn, p.server.held);
	CHECK(link_run(&net_link, 120000 * LINK_MS, both_received, &p));
	check_streams(&p, 3);
	tcp_abort(p.client.conn);
	CHECK_INT(p.client.reason, ECONNABORTED);
	link_run(&net_link, 1000 * LINK_MS, both_closed, &p);
	CHECK_INT(p.server.reason, ECONNRESET);
	link_down(&net_link);
}

/* Sequence numbers pass 2^32 in the middle of a stream, in both directions. */
static bool first_syn(struct link *l, int from, struct rte_mbuf *m)
{
	const struct rte_tcp_hdr *tcp = rte_pktmbuf_mtod_offset(m, const struct rte_tcp_hdr *, 34);

	if (from == 1 && m->data_len >= 54 && tcp->tcp_flags == RTE_TCP_SYN_FLAG && !*(uint32_t *)l->tap_ctx)
		*(uint32_t *)l->tap_ctx = rte_be_to_cpu_32(tcp->sent_seq);
	return false;
}

static void sequence_numbers_wrap(void)
{
	uint32_t first = 0;
	uint64_t start;
	struct pair p;

	for (int round = 0; round < 2; round++) {
		link_init(&net_link, 4);
		net_link.loss = 20;
		start = net_link.now_ns;
		if (round == 1) /* the ISN's clock ticks every 4 us: begin just below the wrap */
			net_link.now_ns = start + (uint64_t)(0xffffffffu - 30000 - first) * 4000;
		net_link.tap = first_syn;
		net_link.tap_ctx = &first;
		link_up(&net_link);
		pair_init(&p, 4, 200000, 200000);
		pair_connect(&p);
		CHECK(link_run(&net_link, 600000 * LINK_MS, both_received, &p));
		check_streams(&p, 4);
		link_down(&net_link);
	}
}

static void refused_and_unanswered_connects_end(void)
{
	const struct net_address nowhere = net_address_v4(RTE_BE32(0x08080808));
	struct stream s = { 0 };
	struct star_error err = { 0 };

	link_init(&net_link, 5);
	link_up(&net_link);
	s.conn = tcp_connect(net_link.net[1], link_ip(0), 7, &stream_handler, &s, &s, &err);
	link_run(&net_link, 1000 * LINK_MS, NULL, NULL);
	CHECK_INT(s.reason, ECONNREFUSED);
	net_link.loss = 1000;
	s = (struct stream){ 0 };
	s.conn = tcp_connect(net_link.net[1], link_ip(0), PORT, &stream_handler, &s, &s, &err);
	link_run(&net_link, 200000 * LINK_MS, NULL, NULL);
	CHECK(s.closed);
	CHECK_INT(s.reason, ETIMEDOUT);
	CHECK_UINT(net_connections(net_link.net[1]), 0);
	CHECK(!tcp_connect(net_link.net[1], &nowhere, PORT, &stream_handler, &s, &s, &err));
	CHECK_HAS(err.text, "no route");
	link_down(&net_link);
}

static void dead_peer_ends_a_connection_with_data(void)
{
	struct pair p;

	link_init(&net_link, 6);
	link_up(&net_link);
	pair_init(&p, 6, 1 << 20, 0);
	pair_connect(&p);
	link_run(&net_link, 2 * LINK_MS, NULL, NULL);
	CHECK(p.server.opened);
	net_link.loss = 1000;
	link_run(&net_link, 600000 * LINK_MS, NULL, NULL);
	CHECK(p.client.closed);
	CHECK_INT(p.client.reason, ETIMEDOUT);
	link_down(&net_link);
}

const char *const unit_suite = "net";
const struct unit_case unit_cases[] = {
	{ "streams_arrive_and_close_in_order", streams_arrive_and_close_in_order },
	{ "random_schedules_keep_streams_intact", random_schedules_keep_streams_intact },
	{ "closed_window_stops_the_sender_until_it_opens", closed_window_stops_the_sender_until_it_opens },
	{ "sequence_numbers_wrap", sequence_numbers_wrap },
	{ "refused_and_unanswered_connects_end", refused_and_unanswered_connects_end },
	{ "dead_peer_ends_a_connection_with_data", dead_peer_ends_a_connection_with_data },
	{ "damaged_segments_are_dropped_and_counted", damaged_segments_are_dropped_and_counted },
	{ "blind_resets_do_not_end_a_connection", blind_resets_do_not_end_a_connection },
	{ "half_open_connections_are_bounded_and_reclaimed", half_open_connections_are_bounded_and_reclaimed },
	{ "time_wait_gives_way_to_a_new_connection", time_wait_gives_way_to_a_new_connection },
	{ "icmp_echo_is_answered", icmp_echo_is_answered },
	{ "udp_goes_both_ways_and_bad_lengths_are_dropped", udp_goes_both_ways_and_bad_lengths_are_dropped },
	{ "udp_over_memory_goes_without_checksum_where_it_may", udp_over_memory_goes_without_checksum_where_it_may },
	{ "arp_table_is_bounded_and_survives_nonsense", arp_table_is_bounded_and_survives_nonsense },
	{ "plain_datagrams_are_taken_as_all_others", plain_datagrams_are_taken_as_all_others },
	{ "plain_datagrams_take_the_fast_path", plain_datagrams_take_the_fast_path },
	{ "plain_datagrams_leave_as_all_others", plain_datagrams_leave_as_all_others },
	{ "plain_segments_are_taken_as_all_others", plain_segments_are_taken_as_all_others },
	{ "plain_segments_take_the_fast_path", plain_segments_take_the_fast_path },
	{ "plain_segments_leave_as_all_others", plain_segments_leave_as_all_others },
	{ "frames_in_pieces_are_put_together", frames_in_pieces_are_put_together },
	{ "random_frames_change_nothing", random_frames_change_nothing },
	{ "flows_are_read_without_trust", flows_are_read_without_trust },
	{ "checksums_equal_those_of_dpdk", checksums_equal_those_of_dpdk },
	{ "holes_take_a_bounded_share_of_the_mbufs", holes_take_a_bounded_share_of_the_mbufs },
	{ "frames_do_not_wait_for_arp_for_ever", frames_do_not_wait_for_arp_for_ever },
	{ "a_window_that_was_closed_for_long_goes_on_at_once", a_window_that_was_closed_for_long_goes_on_at_once },
	{ "data_with_an_acknowledgement_of_long_ago_is_refused", data_with_an_acknowledgement_of_long_ago_is_refused },
	{ "addresses_that_no_host_has_are_not_answered", addresses_that_no_host_has_are_not_answered },
	{ "many_connections_come_work_idle_and_go", many_connections_come_work_idle_and_go },
	{ "an_idle_connection_takes_a_bounded_memory", an_idle_connection_takes_a_bounded_memory },
#define X(name) { #name, name },
	IP_CASES(X) SENDER_CASES(X) OFFLOAD_CASES(X)
#undef X
		{ "a_syn_is_answered_by_the_options_that_it_offers", a_syn_is_answered_by_the_options_that_it_offers },
	{ "options_stand_where_everybody_has_them", options_stand_where_everybody_has_them },
	{ "a_burst_ends_in_a_push", a_burst_ends_in_a_push },
	{ "acks_are_quick_until_a_reply_carries_one", acks_are_quick_until_a_reply_carries_one },
	{ "data_for_nobody_is_answered_by_what_it_acknowledges", data_for_nobody_is_answered_by_what_it_acknowledges },
	{ "slow_start_goes_on_after_a_timeout", slow_start_goes_on_after_a_timeout },
	{ "segments_keep_to_the_size_that_was_agreed_on", segments_keep_to_the_size_that_was_agreed_on },
	{ "a_window_scale_is_clamped", a_window_scale_is_clamped },
	{ "hostile_option_lists_are_dropped_and_counted", hostile_option_lists_are_dropped_and_counted },
	{ "the_newest_sack_block_comes_first", the_newest_sack_block_comes_first },
	{ "all_sack_blocks_of_a_turn_are_reported", all_sack_blocks_of_a_turn_are_reported },
	{ "sack_blocks_share_the_room_with_timestamps", sack_blocks_share_the_room_with_timestamps },
	{ "duplicates_are_reported_first", duplicates_are_reported_first },
	{ "a_duplicate_is_reported_whole", a_duplicate_is_reported_whole },
	{ "blocks_that_data_cannot_carry_go_alone", blocks_that_data_cannot_carry_go_alone },
	{ "the_number_of_gaps_is_bounded", the_number_of_gaps_is_bounded },
	{ "an_old_timestamp_is_dropped_and_answered", an_old_timestamp_is_dropped_and_answered },
	{ "an_overtaken_ack_is_no_error", an_overtaken_ack_is_no_error },
	{ "timestamps_wrap", timestamps_wrap },
	{ "resets_may_be_old", resets_may_be_old },
	{ "a_segment_without_its_timestamp_is_dropped", a_segment_without_its_timestamp_is_dropped },
	{ "after_24_days_any_timestamp_is_accepted", after_24_days_any_timestamp_is_accepted },
	{ "the_echo_is_that_of_the_segment_that_is_answered", the_echo_is_that_of_the_segment_that_is_answered },
	{ "a_wrong_ack_does_not_set_the_clock", a_wrong_ack_does_not_set_the_clock },
	{ "timestamps_begin_anywhere", timestamps_begin_anywhere },
	{ "an_answer_that_echoes_another_syn_is_refused", an_answer_that_echoes_another_syn_is_refused },
	{ "a_syn_is_answered_again_then_dropped", a_syn_is_answered_again_then_dropped },
	{ "data_with_a_syn_is_not_taken_before_the_handshake", data_with_a_syn_is_not_taken_before_the_handshake },
	{ "an_active_open_takes_what_comes_with_the_answer", an_active_open_takes_what_comes_with_the_answer },
	{ "a_refused_open_ends", a_refused_open_ends },
	{ "both_sides_may_open", both_sides_may_open },
	{ "a_connection_that_was_shut_down_goes_on_receiving", a_connection_that_was_shut_down_goes_on_receiving },
	{ "a_closed_connection_waits_for_a_fin_only", a_closed_connection_waits_for_a_fin_only },
	{ "both_sides_may_close", both_sides_may_close },
	{ "the_peer_may_close_first", the_peer_may_close_first },
	{ "a_fin_waits_for_its_turn", a_fin_waits_for_its_turn },
	{ "time_wait_hears_the_last_fin_again", time_wait_hears_the_last_fin_again },
	{ "time_wait_is_reused_safely", time_wait_is_reused_safely },
	{ "time_wait_is_reused_by_timestamps", time_wait_is_reused_by_timestamps },
	{ "an_active_open_follows_time_wait", an_active_open_follows_time_wait },
	{ "initial_numbers_are_no_ones_guess", initial_numbers_are_no_ones_guess },
	{ "urgent_data_is_data", urgent_data_is_data },
	{ "a_listener_drops_what_says_nothing", a_listener_drops_what_says_nothing },
	{ "nobody_listens_any_more", nobody_listens_any_more },
	{ "a_user_may_refuse", a_user_may_refuse },
	{ "only_the_exact_reset_counts", only_the_exact_reset_counts },
	{ "a_syn_in_the_window_is_challenged", a_syn_in_the_window_is_challenged },
	{ "an_acknowledgement_must_be_likely", an_acknowledgement_must_be_likely },
	{ "challenges_are_rare_and_tell_nothing", challenges_are_rare_and_tell_nothing },
	{ "icmp_ends_opens_only", icmp_ends_opens_only },
	{ "a_flood_does_not_keep_others_out", a_flood_does_not_keep_others_out },
	{ "a_cookie_keeps_the_options", a_cookie_keeps_the_options },
	{ "a_forged_cookie_opens_nothing", a_forged_cookie_opens_nothing },
	{ "a_cookie_grows_old", a_cookie_grows_old },
	{ "without_a_flood_there_are_no_cookies", without_a_flood_there_are_no_cookies },
	{ "a_cookies_timestamp_is_looked_at", a_cookies_timestamp_is_looked_at },
	{ "a_cookie_may_follow_time_wait", a_cookie_may_follow_time_wait },
	{ "nothing_is_delivered_after_a_close", nothing_is_delivered_after_a_close },
	{ "the_first_segments_are_acknowledged_at_once", the_first_segments_are_acknowledged_at_once },
	{ "acknowledgements_are_delayed", acknowledgements_are_delayed },
	{ "an_answer_carries_the_acknowledgement", an_answer_carries_the_acknowledgement },
	{ "a_hole_is_reported_at_once", a_hole_is_reported_at_once },
	{ "the_window_closes_and_opens_in_big_steps", the_window_closes_and_opens_in_big_steps },
	{ "data_beyond_the_window_is_cut_off", data_beyond_the_window_is_cut_off },
	{ "a_window_that_cannot_be_expressed_is_not_announced", a_window_that_cannot_be_expressed_is_not_announced },
	{ "the_window_follows_the_reader", the_window_follows_the_reader },
	{ "the_window_does_not_grow_for_who_does_not_read", the_window_does_not_grow_for_who_does_not_read },
	{ "windows_share_a_budget", windows_share_a_budget },
	{ "unread_data_has_a_budget", unread_data_has_a_budget },
	{ "ecn_is_agreed_on_by_both", ecn_is_agreed_on_by_both },
	{ "our_own_opens_may_ask_for_ecn", our_own_opens_may_ask_for_ecn },
	{ "a_syn_that_was_lost_asks_no_more", a_syn_that_was_lost_asks_no_more },
	{ "a_mark_is_echoed_until_it_was_heard", a_mark_is_echoed_until_it_was_heard },
	{ "dctcp_hears_of_every_mark", dctcp_hears_of_every_mark },
	{ "a_silent_peer_is_probed_then_dropped", a_silent_peer_is_probed_then_dropped },
	{ "an_answer_restarts_the_idle_time", an_answer_restarts_the_idle_time },
	{ "data_in_flight_needs_no_keepalive", data_in_flight_needs_no_keepalive },
	{ "a_user_sets_his_own_keepalive", a_user_sets_his_own_keepalive },
	{ "a_user_timeout_is_kept_to", a_user_timeout_is_kept_to },
	{ "a_closed_window_may_time_out", a_closed_window_may_time_out },
	{ "progress_begins_the_user_timeout_again", progress_begins_the_user_timeout_again },
	{ "idle_connections_give_way", idle_connections_give_way },
	{ "acknowledgements_alone_are_no_use", acknowledgements_alone_are_no_use },
	{ "time_wait_gives_way_first", time_wait_gives_way_first },
	{ "who_is_there_goes_before_who_comes", who_is_there_goes_before_who_comes },
	{ "thousands_half_open_keep_nobody_out", thousands_half_open_keep_nobody_out },
	{ "addresses_of_one_64_share", addresses_of_one_64_share },
	{ "thousands_of_idle_connections_leave_places_to_others",
	  thousands_of_idle_connections_leave_places_to_others },
	{ "a_window_behind_a_hole_hides_none", a_window_behind_a_hole_hides_none },
	{ NULL, NULL },
};
