/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases of this test program, by file, and the service that they run: it does what the request's order says. */
#ifndef TESTS_RPC_CASES_H
#define TESTS_RPC_CASES_H

#include "tests/rpc/rig.h"
#include "tests/unit.h"

#define RPC_CASES(X) \
	/* frames.c */ \
	X(sessions_are_as_they_were) \
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
	/* sealed.c */ \
	X(records_are_served_in_any_pieces) \
	X(records_are_served_byte_by_byte) \
	X(nothing_of_a_sealed_request_is_readable) \
	X(clients_without_a_valid_ticket_are_refused) \
	X(what_is_touched_on_the_way_is_not_executed) \
	X(what_is_repeated_is_not_executed) \
	X(revoked_clients_are_closed_at_once) \
	X(who_knew_the_node_before_its_start_is_greeted) \
	X(sessions_are_each_principals_own) \
	X(a_hello_that_is_torn_ends) \
	X(streams_of_a_principal_have_a_quota) \
	X(recorded_hellos_end) \
	X(requests_of_a_principal_have_a_quota) \
	X(bytes_in_flight_of_a_principal_have_a_quota) \
	/* sessions.c */ \
	X(requests_over_a_session_keep_their_order) \
	X(damaged_requests_of_a_session_are_refused_alone) \
	X(requests_of_a_session_have_the_nodes_limit) \
	X(what_dead_sessions_brought_is_given_back) \
	X(a_server_that_owes_an_acknowledgement_stays_awake) \
	X(replies_that_take_longer_hold_back_no_others) \
	X(replies_that_share_a_packet_may_grow_or_fail) \
	X(requests_over_a_sealed_session_are_their_principals) \
	X(sessions_of_a_principal_have_a_quota) \
	X(requests_of_a_sealed_session_have_quotas) \
	X(replies_of_sessions_wait_as_well) \
	X(who_leaves_hangs_up_on_sessions_as_well) \
	X(who_leaves_waits_for_replies_of_sessions) \
	/* turns.c */ \
	X(small_requests_do_not_wait_for_big_ones) \
	X(full_requests_go_first_and_starve_none) \
	X(requests_of_a_stream_keep_their_order) \
	X(deadlines_pass_while_waiting) \
	X(half_closed_streams_get_their_replies) \
	X(begun_requests_of_dead_streams_are_finished) \
	X(other_requests_of_dead_streams_are_forgotten) \
	X(streams_are_bounded_and_reused) \
	X(long_lines_are_loaded_ahead_and_some_leave_them) \
	X(creation_refuses_a_port_in_use) \
	X(destroyed_in_every_state) \
	/* records.c */ \
	X(requests_are_remembered) \
	X(requests_whose_replies_are_due_count_once) \
	X(what_requests_wait_for_is_remembered) \
	/* replay.c */ \
	X(resent_requests_are_executed_once) \
	X(refused_requests_are_answered_as_they_were) \
	X(a_late_first_request_is_remembered) \
	X(what_was_executed_is_not_refused_as_late) \
	X(old_outcomes_are_forgotten) \
	X(what_a_former_owner_began_is_waited_for) \
	X(what_a_closed_owner_began_is_waited_for) \
	X(what_an_owner_before_the_last_began_is_waited_for) \
	X(what_never_came_is_executed_when_it_is_sent_again) \
	X(a_session_without_a_place_has_nothing_executed) \
	X(who_leaves_in_order_makes_room) \
	X(a_stream_has_one_session) \
	/* replay_table.c */ \
	X(sessions_that_may_send_again_stay) \
	X(one_address_does_not_take_all_places) \
	X(sessions_that_have_ended_go_first) \
	X(sessions_with_what_is_not_durable_stay) \
	X(sessions_whose_request_still_runs_stay) \
	X(both_tables_forget_the_same_sessions) \
	X(who_comes_back_is_not_forgotten_behind_it) \
	X(who_moves_counts_at_the_new_address) \
	X(what_may_be_forgotten_stays_unknown_elsewhere) \
	X(leases_begin_when_the_node_does) \
	/* replay_chaos.c */ \
	X(what_a_client_hears_is_what_was_done) \
	/* held.c */ \
	X(replies_wait_until_they_are_durable) \
	X(what_was_executed_before_waits_as_well) \
	X(peers_that_leave_while_they_wait) \
	X(what_is_kept_does_not_wait) \
	X(what_was_kept_is_executed_once) \
	X(replies_leave_when_nothing_holds_them) \
	X(large_requests_that_wait_hold_no_buffers) \
	/* leave.c */ \
	X(who_leaves_hangs_up_when_all_is_answered) \
	X(who_has_left_may_come_back) \
	X(who_leaves_waits_for_replies_and_not_for_ever) \
	/* buffers.c */ \
	X(peer_that_never_reads_is_not_served) \
	X(blocked_streams_that_die_are_freed) \
	X(greedy_requests_are_refused) \
	X(whole_requests_pass_over_the_limit) \
	X(beginnings_of_requests_hold_no_more_than_the_limit) \
	X(large_requests_take_turns_when_short) \
	X(turns_to_receive_end_with_their_streams) \
	X(blocked_requests_hold_no_more_than_the_limit) \
	X(large_replies_share_a_small_pool) \
	X(replies_larger_than_the_pool_are_refused) \
	X(replies_without_room_wait_and_give_up) \
	X(receiving_keeps_a_share_of_the_pool) \
	X(empty_pool_delays_replies_only) \
	X(connections_of_one_address_leave_room_for_others) \
	/* shares.c */ \
	X(streams_that_never_speak_end) \
	X(unread_replies_of_one_address_are_shared) \
	X(unread_replies_are_counted) \
	/* dgram_basic.c */ \
	X(dgram_small_messages_go_both_ways) \
	X(dgram_messages_of_all_sizes_arrive) \
	X(dgram_queued_before_opening_is_sent) \
	X(dgram_close_reaches_the_peer) \
	X(dgram_closed_while_receiving) \
	X(dgram_refused_sessions_are_told) \
	X(dgram_closed_servers_refuse_until_they_listen) \
	X(dgram_nobody_at_the_port_is_told) \
	X(dgram_silent_peers_are_given_up) \
	X(dgram_sessions_resume_after_a_partition) \
	X(dgram_restarted_servers_are_noticed) \
	/* dgram_rules.c */ \
	X(dgram_losses_are_found_by_what_follows) \
	X(dgram_old_losses_are_reported_in_further_words) \
	X(dgram_lost_tails_are_probed) \
	X(dgram_lost_retransmissions_time_out) \
	X(dgram_lost_acknowledgements_do_no_harm) \
	X(dgram_repeated_packets_count_once) \
	X(dgram_disorder_is_not_loss) \
	X(dgram_credit_comes_when_wanted_and_lapses) \
	X(dgram_messages_behind_one_in_flight_ask_for_credit) \
	X(dgram_credits_are_shared) \
	X(dgram_lost_credit_is_asked_for_again) \
	X(dgram_messages_are_held_within_a_budget) \
	X(dgram_favourites_hold_no_more_than_their_message) \
	X(dgram_messages_that_cannot_fit_are_refused) \
	X(dgram_messages_of_64_mib) \
	X(dgram_windows_are_shared_in_turn) \
	X(dgram_empty_pool_delays_only) \
	/* dgram_favourites.c */ \
	X(dgram_silent_favourites_let_others_go_on) \
	X(dgram_repeating_favourites_let_others_go_on) \
	X(dgram_asking_favourites_let_others_go_on) \
	X(dgram_standing_messages_leave_room_for_one) \
	X(dgram_refused_messages_hold_nothing) \
	/* dgram_crowds.c */ \
	X(dgram_crowds_send_short_messages_in_two_goes) \
	X(dgram_crowds_leave_nobody_behind) \
	/* dgram_bundles.c */ \
	X(dgram_small_messages_share_packets) \
	X(dgram_bundles_fill_a_packet_and_no_more) \
	X(dgram_large_messages_stand_between_bundles) \
	X(dgram_packets_leave_without_what_is_not_whole) \
	X(dgram_bundles_that_do_not_work_out_end_the_session) \
	/* dgram_hostile.c */ \
	X(dgram_many_sessions_are_loaded_ahead) \
	X(dgram_packets_without_the_token_change_nothing) \
	X(dgram_malformed_packets_are_dropped) \
	X(dgram_broken_protocol_ends_the_session) \
	X(dgram_far_packets_are_dropped) \
	X(dgram_strangers_are_not_sent_more_than_they_send) \
	X(dgram_cookies_are_of_one_address_and_time) \
	X(dgram_unknown_only_makes_clients_ask) \
	X(dgram_sessions_follow_the_newest_packet) \
	X(dgram_options_are_checked) \
	/* dgram_renewed.c */ \
	X(dgram_late_packets_of_a_session_given_up_are_dropped) \
	X(dgram_idle_clients_outlive_a_silence) \
	X(dgram_slow_openings_count_as_heard) \
	X(dgram_other_versions_are_refused_at_once) \
	/* dgram_liars.c */ \
	X(dgram_acknowledgements_that_step_back_do_no_harm) \
	X(dgram_windows_are_given_back_empty) \
	X(dgram_random_lies_hurt_the_liar_only) \
	/* dgram_shares.c */ \
	X(dgram_one_address_leaves_places_for_others) \
	X(dgram_addresses_of_one_64_share) \
	X(dgram_idle_sessions_give_way) \
	X(dgram_sessions_without_a_request_end) \
	X(dgram_unread_replies_leave_windows_for_others) \
	X(dgram_unread_mbufs_are_shared) \
	/* dgram_errors.c */ \
	X(dgram_forged_errors_change_nothing) \
	X(dgram_forged_refusals_end_nothing) \
	X(dgram_numbers_do_not_show_the_secret) \
	/* dgram_flows.c */ \
	X(dgram_one_flow_fills_the_link) \
	X(dgram_incast_is_shared) \
	X(dgram_losses_cost_little) \
	X(dgram_marks_hold_the_queue) \
	X(dgram_silence_through_memory_is_no_congestion) \
	/* dgram_sealed.c */ \
	X(dgram_sealed_messages_of_all_sizes_arrive) \
	X(dgram_sealed_messages_are_not_readable) \
	X(dgram_no_number_is_used_twice) \
	X(dgram_nothing_touched_passes_and_service_goes_on) \
	X(dgram_what_is_touched_changes_nothing) \
	X(dgram_clients_without_a_valid_ticket_are_refused) \
	X(dgram_touched_openings_open_nothing) \
	X(dgram_repeated_openings_change_nothing) \
	X(dgram_sealed_sessions_resume_after_a_silence) \
	X(dgram_sealed_sessions_outlive_a_restart) \
	X(dgram_words_without_a_tag_end_nothing) \
	X(dgram_keys_are_renewed_without_a_pause) \
	X(dgram_revoked_clients_are_closed_at_once) \
	X(dgram_sessions_are_each_principals_own) \
	X(dgram_tickets_may_come_late) \
	X(dgram_memory_may_be_in_clear) \
	X(dgram_cookies_are_no_longer_than_openings) \
	/* dgram_schedules.c */ \
	X(dgram_random_sealed_schedules_keep_messages_whole) \
	X(dgram_random_schedules_keep_messages_whole)

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
	unsigned leave; /* ... but for this many */
	struct rte_mbuf *drained[2048];
	unsigned drained_count;
	/* the sessions in the order of their slices */
	uint64_t log[65536];
	unsigned logged;
	/* requests change something, and their replies wait for as much as were before them */
	bool changes;
	bool stale;	   /* what is not begun is refused: there is no layout */
	uint64_t outcomes; /* that were told of */
	uint64_t position;
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
