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

/* plain_tcp.c */
void plain_segments_are_taken_as_all_others(void);
void plain_segments_take_the_fast_path(void);
void plain_segments_leave_as_all_others(void);

/* plain.c */
void plain_datagrams_are_taken_as_all_others(void);
void plain_datagrams_take_the_fast_path(void);
void plain_datagrams_leave_as_all_others(void);
void frames_in_pieces_are_put_together(void);

/* frames.c */
void damaged_segments_are_dropped_and_counted(void);
void blind_resets_do_not_end_a_connection(void);
void half_open_connections_are_bounded_and_reclaimed(void);
void time_wait_gives_way_to_a_new_connection(void);
void icmp_echo_is_answered(void);
void udp_goes_both_ways_and_bad_lengths_are_dropped(void);
void udp_over_memory_goes_without_checksum_where_it_may(void);
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

/* schedules.c */
void random_schedules_keep_streams_intact(void);

/* scale.c */
void many_connections_come_work_idle_and_go(void);
void an_idle_connection_takes_a_bounded_memory(void);

/* ipv6.c, vlan.c, interfaces.c, neighbours.c, icmp.c, fragments.c */
#define IP_CASES(X) \
	X(streams_arrive_over_ipv6) \
	X(random_schedules_over_ipv6) \
	X(every_truncated_ipv6_packet_is_dropped) \
	X(extension_headers_are_walked_with_bounds) \
	X(ipv6_addresses_that_no_host_has_are_refused) \
	X(datagrams_go_both_ways_over_ipv6) \
	X(each_address_answers_for_itself) \
	X(addresses_without_a_route_are_not_sent_to) \
	X(answers_leave_by_the_interface_of_their_source) \
	X(ipv4_options_are_skipped_or_refused) \
	X(tagged_frames_are_of_their_vlan_only) \
	X(streams_arrive_in_a_vlan) \
	X(interfaces_come_and_go) \
	X(interfaces_that_do_not_fit_are_refused) \
	X(a_packet_for_us_may_come_by_any_interface) \
	X(flows_of_every_kind_are_read_without_trust) \
	X(nobody_is_learnt_unasked) \
	X(who_asks_for_us_is_learnt_and_answered) \
	X(a_claimed_address_is_verified) \
	X(an_advertisement_that_may_not_override_does_not) \
	X(a_neighbour_that_answers_no_more_is_asked_for_again) \
	X(bad_neighbour_discovery_is_dropped) \
	X(who_probes_for_our_address_hears_that_it_is_taken) \
	X(a_silent_stack_learns_and_leaves_the_answers) \
	X(routers_advertisements_and_redirects_are_ignored) \
	X(a_flood_of_neighbours_takes_nobodys_place) \
	X(confirmed_neighbours_keep_their_places_in_a_full_table) \
	X(groups_are_reported_at_the_start_and_when_asked_for) \
	X(addresses_are_announced_at_the_start_and_when_a_link_comes_up) \
	X(echo_is_answered_in_both_families) \
	X(closed_udp_ports_are_unreachable) \
	X(errors_are_sent_at_a_rate) \
	X(path_mtus_are_learnt_and_forgotten) \
	X(too_big_about_datagrams_must_be_of_one_in_flight) \
	X(flows_of_datagrams_follow_their_path) \
	X(errors_about_nothing_of_ours_are_ignored) \
	X(too_big_about_tcp_must_know_the_numbers) \
	X(fragments_are_put_together_in_any_order) \
	X(fragments_that_cannot_be_are_refused) \
	X(fragments_that_hide_headers_are_refused) \
	X(overlapping_fragments_are_given_up) \
	X(fragments_wait_for_a_bounded_time) \
	X(a_flood_of_fragments_holds_a_bounded_share) \
	X(fragments_have_a_budget_of_their_own) \
	X(streams_arrive_through_a_path_that_fragments) \
	X(stacks_with_one_address_share_no_identifications) \
	X(a_whole_packet_goes_to_the_stack_it_belongs_to) \
	X(random_fragments_change_nothing)

#define X(name) void name(void);
IP_CASES(X)
#undef X

/* manners.c */
void options_stand_where_everybody_has_them(void);
void a_burst_ends_in_a_push(void);
void acks_are_quick_until_a_reply_carries_one(void);
void data_for_nobody_is_answered_by_what_it_acknowledges(void);
void slow_start_goes_on_after_a_timeout(void);

/* options.c */
void a_syn_is_answered_by_the_options_that_it_offers(void);
void segments_keep_to_the_size_that_was_agreed_on(void);
void a_window_scale_is_clamped(void);
void hostile_option_lists_are_dropped_and_counted(void);
void the_newest_sack_block_comes_first(void);
void all_sack_blocks_of_a_turn_are_reported(void);
void sack_blocks_share_the_room_with_timestamps(void);
void duplicates_are_reported_first(void);
void a_duplicate_is_reported_whole(void);
void blocks_that_data_cannot_carry_go_alone(void);
void the_number_of_gaps_is_bounded(void);

/* paws.c */
void an_old_timestamp_is_dropped_and_answered(void);
void an_overtaken_ack_is_no_error(void);
void timestamps_wrap(void);
void resets_may_be_old(void);
void a_segment_without_its_timestamp_is_dropped(void);
void after_24_days_any_timestamp_is_accepted(void);
void the_echo_is_that_of_the_segment_that_is_answered(void);
void a_wrong_ack_does_not_set_the_clock(void);
void timestamps_begin_anywhere(void);
void an_answer_that_echoes_another_syn_is_refused(void);

/* states.c */
void nothing_is_delivered_after_a_close(void);
void a_syn_is_answered_again_then_dropped(void);
void data_with_a_syn_is_not_taken_before_the_handshake(void);
void an_active_open_takes_what_comes_with_the_answer(void);
void a_refused_open_ends(void);
void both_sides_may_open(void);
void a_connection_that_was_shut_down_goes_on_receiving(void);
void a_closed_connection_waits_for_a_fin_only(void);
void both_sides_may_close(void);
void the_peer_may_close_first(void);
void a_fin_waits_for_its_turn(void);
void time_wait_hears_the_last_fin_again(void);
void time_wait_is_reused_safely(void);
void time_wait_is_reused_by_timestamps(void);
void an_active_open_follows_time_wait(void);
void initial_numbers_are_no_ones_guess(void);
void urgent_data_is_data(void);
void a_listener_drops_what_says_nothing(void);
void nobody_listens_any_more(void);
void a_user_may_refuse(void);

/* forged.c */
void a_window_behind_a_hole_hides_none(void);
void only_the_exact_reset_counts(void);
void a_syn_in_the_window_is_challenged(void);
void an_acknowledgement_must_be_likely(void);
void challenges_are_rare_and_tell_nothing(void);
void icmp_ends_opens_only(void);

/* sack.c, rack.c, recovery.c, undo.c, mtu.c, congestion.c */
#define SENDER_CASES(X) \
	X(losses_in_a_data_centre_cost_little) \
	X(losses_to_a_near_peer_take_no_timeouts) \
	X(dctcp_keeps_the_queue_short) \
	X(only_the_holes_are_sent_again) \
	X(a_recovery_sends_in_proportion) \
	X(an_ack_below_the_last_one_may_bring_sacks) \
	X(parts_of_segments_are_not_sacked) \
	X(false_sack_blocks_are_ignored) \
	X(a_peer_that_takes_back_its_sacks_gets_everything_again) \
	X(an_ack_costs_no_walk_over_the_window) \
	X(a_loss_is_found_by_time) \
	X(reordering_is_not_taken_for_loss) \
	X(duplicates_widen_the_reordering_window) \
	X(a_lost_retransmission_is_sent_again) \
	X(what_is_as_old_as_the_timeout_is_lost_with_the_head) \
	X(a_probe_repairs_a_lost_tail) \
	X(a_probe_that_repairs_a_loss_slows_down) \
	X(a_probe_in_vain_changes_nothing) \
	X(a_probe_prefers_new_data) \
	X(timeouts_double_and_are_measured_again) \
	X(the_floor_of_the_timeout_is_an_option) \
	X(timestamps_measure_what_was_sent_twice) \
	X(after_a_timeout_only_what_is_missing_is_sent) \
	X(a_peer_without_sack_is_repaired_hole_by_hole) \
	X(duplicates_of_a_recovery_begin_no_other) \
	X(what_is_no_duplicate_does_not_count) \
	X(a_closed_window_is_probed) \
	X(a_reader_that_sleeps_is_waited_for) \
	X(silly_windows_are_not_filled) \
	X(what_is_beyond_a_window_taken_back_waits) \
	X(nagle_holds_small_segments_back_if_asked) \
	X(a_fin_is_sent_with_data_and_again) \
	X(a_sender_without_mbufs_goes_on_later) \
	X(a_timestamp_undoes_a_timeout) \
	X(a_timeout_that_was_right_stays) \
	X(new_data_shows_that_a_timeout_was_wrong) \
	X(new_data_shows_that_a_timeout_was_right) \
	X(what_came_before_a_timeout_does_not_undo_it) \
	X(reported_duplicates_undo_a_recovery) \
	X(one_duplicate_of_two_undoes_nothing) \
	X(a_timestamp_undoes_a_recovery) \
	X(segments_are_cut_when_the_path_says_so) \
	X(a_smaller_segment_size_is_not_for_ever) \
	X(a_black_hole_is_found) \
	X(a_narrow_black_hole_is_found) \
	X(losses_of_small_segments_change_no_size) \
	X(slow_start_doubles_ten_segments) \
	X(a_window_that_is_not_used_does_not_grow) \
	X(an_idle_window_decays) \
	X(a_window_used_in_part_decays) \
	X(newreno_adds_a_segment_a_round_trip_and_halves) \
	X(a_loss_at_the_end_of_a_turn_leaves_the_window_in_use) \
	X(a_recovery_counts_whole_segments) \
	X(cubic_follows_its_curve) \
	X(cubic_is_not_slower_than_reno) \
	X(slow_start_ends_when_round_trips_grow) \
	X(marks_reduce_the_window_once_a_round_trip) \
	X(without_ecn_nothing_is_marked) \
	X(dctcp_reduces_by_the_share_of_marks) \
	X(the_algorithm_is_a_choice_of_the_stack_and_of_the_connection)

/* offloads.c */
#define OFFLOAD_CASES(X) \
	X(the_same_bytes_with_offloads_as_without) \
	X(each_offload_stands_alone) \
	X(small_segments_are_not_the_ports_to_cut) \
	X(checksums_are_looked_at_once) \
	X(an_odd_rest_is_sent_again_by_reference) \
	X(a_chain_without_an_mbuf_waits) \
	X(fragments_are_looked_at_together) \
	X(checksums_that_were_never_filled_in_do_no_harm)

#define X(name) void name(void);
SENDER_CASES(X)
OFFLOAD_CASES(X)
#undef X

/* cookies.c */
void a_flood_does_not_keep_others_out(void);
void a_cookie_keeps_the_options(void);
void a_forged_cookie_opens_nothing(void);
void a_cookie_grows_old(void);
void without_a_flood_there_are_no_cookies(void);
void a_cookies_timestamp_is_looked_at(void);
void a_cookie_may_follow_time_wait(void);

/* windows.c */
void the_first_segments_are_acknowledged_at_once(void);
void acknowledgements_are_delayed(void);
void an_answer_carries_the_acknowledgement(void);
void a_hole_is_reported_at_once(void);
void the_window_closes_and_opens_in_big_steps(void);
void data_beyond_the_window_is_cut_off(void);
void a_window_that_cannot_be_expressed_is_not_announced(void);
void the_window_follows_the_reader(void);
void the_window_does_not_grow_for_who_does_not_read(void);
void windows_share_a_budget(void);
void unread_data_has_a_budget(void);

/* ecn.c */
void ecn_is_agreed_on_by_both(void);
void our_own_opens_may_ask_for_ecn(void);
void a_syn_that_was_lost_asks_no_more(void);
void a_mark_is_echoed_until_it_was_heard(void);
void dctcp_hears_of_every_mark(void);

/* timers.c */
void a_silent_peer_is_probed_then_dropped(void);
void an_answer_restarts_the_idle_time(void);
void data_in_flight_needs_no_keepalive(void);
void a_user_sets_his_own_keepalive(void);
void a_user_timeout_is_kept_to(void);
void a_closed_window_may_time_out(void);
void progress_begins_the_user_timeout_again(void);

/* limits.c */
void idle_connections_give_way(void);
void acknowledgements_alone_are_no_use(void);
void time_wait_gives_way_first(void);
void who_is_there_goes_before_who_comes(void);

/* crowds.c */
void thousands_half_open_keep_nobody_out(void);
void thousands_of_idle_connections_leave_places_to_others(void);
void addresses_of_one_64_share(void);

#endif
