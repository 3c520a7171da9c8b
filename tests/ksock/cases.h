/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_KSOCK_CASES_H
#define TESTS_KSOCK_CASES_H

#define KSOCK_CASES(X) \
	X(received_in_order) \
	X(the_window_pauses_and_resumes) \
	X(a_slow_reader_gets_all) \
	X(a_close_sends_what_is_queued) \
	X(a_close_reads_on) \
	X(a_close_gives_up_in_the_end) \
	X(an_abort_resets) \
	X(a_peer_may_end_its_half) \
	X(no_descriptors_for_a_while) \
	X(a_full_table_evicts_the_idlest) \
	X(one_address_leaves_entries_for_others) \
	X(descriptors_are_shared_out) \
	X(the_last_free_entry_evicts_no_connection) \
	X(a_connection_ends_inside_a_handler) \
	X(an_empty_payload_sends_nothing) \
	X(no_mbufs_for_a_while) \
	X(what_waits_unread_is_bounded) \
	X(many_are_answered_in_one_turn) \
	X(a_port_is_reserved_before_it_is_listened_at) \
	X(a_port_that_is_not_listened_at_any_more_refuses) \
	X(a_sleep_ends_when_there_is_something)

#define X(name) void name(void);
KSOCK_CASES(X)
#undef X

#endif
