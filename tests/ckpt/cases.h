/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases, by file. */
#ifndef TESTS_CKPT_CASES_H
#define TESTS_CKPT_CASES_H

/* ckpt.c */
void what_was_saved_is_read(void);
void rows_have_the_sizes_of_the_format(void);
void rows_have_the_sizes_of_the_store(void);
void writer_refuses_impossible_blocks(void);
void limit_of_bytes_a_second_holds(void);

/* damage.c */
void no_flipped_byte_is_accepted(void);
void no_cut_file_is_accepted(void);
void foreign_files_are_refused(void);

/* hostile.c */
void hostile_manifests_are_refused(void);
void hostile_runs_are_refused(void);
void hostile_blooms_are_refused(void);
void what_no_node_loads_is_passed_over(void);

/* crash.c */
void save_that_ends_anywhere_leaves_the_last_good_one(void);
void prune_that_ends_anywhere_leaves_the_last_good_one(void);
void save_that_fails_anywhere_says_why(void);

/* dropped.c */
void what_was_dropped_is_written_down(void);
void drops_are_of_one_lineage(void);
void drops_one_after_the_other_are_added(void);
void a_drop_that_is_not_added_leaves_nothing(void);
void a_drop_that_is_not_written_leaves_nothing(void);
void no_list_of_drops_is_written_that_is_not_read(void);
void what_may_not_be_read_is_not_passed_over(void);

/* places.c */
void file_systems_without_direct_are_used(void);
void full_file_system_is_told(void);
void read_only_directory_is_told(void);
void vanished_directory_is_told(void);
void vanished_mount_is_told(void);
void directory_of_another_cluster_is_told(void);

/* chains.c */
void chains_are_found(void);
void good_chains_are_found(void);
void what_does_not_count_is_listed(void);
void strange_numbers_stop_no_save(void);
void prune_keeps_chains_whole(void);
void prune_goes_past_what_is_not_ours(void);
void prune_leaves_what_others_wrote(void);
void prune_leaves_what_comes_meanwhile(void);
void prune_leaves_what_is_in_use(void);
void a_save_and_a_prune_wait_for_each_other(void);
void long_chains_are_read(void);
void deltas_that_could_not_be_restored_are_refused(void);
void files_are_not_for_everybody(void);

/* sealed.c */
void manifests_have_an_hmac_under_a_key(void);
void no_touched_manifest_is_believed(void);
void older_checkpoints_are_adopted(void);
void keys_of_checkpoints_are_changed(void);

/* sound.c */
void what_nodes_refuse_is_told(void);
void no_older_one_is_exported_without_a_word(void);
void prune_counts_what_is_whole(void);
void deltas_go_on_from_what_is_whole(void);
void deltas_know_what_they_go_on_from(void);
void deltas_are_of_their_parents_lineage(void);

/* lines.c */
void import_respects_who_writes_there(void);
void tables_go_out_as_lines_and_come_back(void);
void uses_count_back_from_the_youngest(void);
void elements_read_back_bit_for_bit(void);
void elements_of_text_are_rounded_once(void);
void wrong_lines_are_refused(void);
void lines_that_no_node_would_load_are_refused(void);
void bloom_filters_go_out_as_lines_and_come_back(void);

#endif
