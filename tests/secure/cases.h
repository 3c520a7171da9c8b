/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases of all files here, once. */
#ifndef TESTS_SECURE_CASES_H
#define TESTS_SECURE_CASES_H

#define SECURE_CASES(X) \
	X(roles_have_names) \
	X(memory_for_keys_is_in_no_core) \
	X(a_key_file_reads_as_it_was_written) \
	X(a_known_file_reads_as_it_did) \
	X(each_malformed_line_is_named) \
	X(no_changed_byte_is_taken) \
	X(keys_that_cannot_stand_together_are_refused) \
	X(a_file_has_bounds) \
	X(keys_are_added_promoted_and_taken_out) \
	X(each_mode_of_a_file) \
	X(what_is_no_file_is_refused) \
	X(credentials_of_systemd_are_found) \
	X(a_fresh_file_takes_no_place) \
	X(a_ring_knows_its_own_principal) \
	X(a_reload_that_fails_changes_nothing) \
	X(two_ends_with_one_secret_meet) \
	X(each_wrong_key_is_refused) \
	X(long_texts_arrive_whole) \
	X(a_cut_connection_is_no_end) \
	X(no_changed_record_is_taken) \
	X(a_handshake_of_any_bytes_fails) \
	X(hashes_are_the_rfcs) \
	X(hashes_are_openssls) \
	X(comparisons_take_the_time_of_their_bytes) \
	X(records_are_openssls_in_any_pieces) \
	X(no_touched_record_opens) \
	X(keys_are_renewed_at_the_same_record) \
	X(packets_are_openssls) \
	X(no_touched_packet_opens) \
	X(windows_know_what_has_come) \
	X(a_ticket_is_taken_in_its_time) \
	X(no_other_ticket_is_taken) \
	X(who_is_thrown_out_stays_out) \
	X(places_have_a_bound) \
	X(both_ends_come_to_the_same_keys) \
	X(numbers_are_each_principals_own) \
	X(rights_are_by_principal_verb_and_prefix) \
	X(each_malformed_right_is_named) \
	X(files_of_rights_are_nobody_elses) \
	X(reactors_look_up_rights_by_id) \
	X(quotas_are_each_principals_own) \
	X(each_malformed_quota_is_named) \
	X(buckets_fill_at_their_rate) \
	X(nobody_has_the_next_ones_rights) \
	X(keys_of_a_principal_share_its_account)

#define X(name) void name(void);
SECURE_CASES(X)
#undef X

#endif
