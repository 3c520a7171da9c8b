/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases that are not input.c's own. */
#ifndef TESTS_INPUT_CASES_H
#define TESTS_INPUT_CASES_H

/* source.c */
void packed_files_are_read_as_they_were(void);
void streams_that_are_cut_are_refused(void);
void streams_that_are_damaged_are_refused(void);
void what_unpacks_to_too_much_is_refused(void);
void standard_input_is_read_once(void);
void errors_of_packed_files_name_file_and_line(void);

/* slices.c */
void each_line_is_in_one_slice(void);
void readers_hand_out_what_they_have_before_they_wait(void);
void all_workers_come_to_the_same_plan(void);
void errors_in_slices_name_file_and_line(void);

/* schema.c */
void a_schema_says_what_rows_have(void);
void rows_follow_the_header(void);
void quotes_may_end_at_a_blank_that_separates(void);
void a_byte_order_mark_is_no_value(void);
void blanks_around_a_list_s_texts_are_no_part_of_them(void);
void rows_that_do_not_fit_a_schema_are_refused(void);
void wrong_schemas_are_refused(void);
void schemas_are_bounded(void);
void a_schema_is_a_file_that_has_an_end(void);
void each_file_has_a_header(void);
void errors_of_tables_name_file_and_line(void);

#endif
