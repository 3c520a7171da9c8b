/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases, by file. */
#ifndef TESTS_BASE_CASES_H
#define TESTS_BASE_CASES_H

/* steering.c */
void steering_hash_is_the_published_one(void);
void steering_ports_lead_to_their_queue(void);

/* output.c */
void output_that_arrives_is_no_error(void);
void output_to_a_full_disk_is_told(void);
void output_that_failed_before_is_told(void);
void output_that_was_closed_matters_when_there_is_some(void);

/* file.c */
void a_slow_reader_and_signals_get_all_bytes(void);
void a_slow_writer_and_signals_give_all_bytes(void);
void a_write_that_does_not_fit_is_an_error(void);
void what_is_appended_is_whole_or_nothing(void);
void what_is_replaced_is_whole_or_as_it_was(void);
void a_short_file_is_told(void);
void what_is_no_file_is_not_opened(void);
void a_first_line_is_read(void);

/* log.c */
void log_lines_have_their_date_and_level(void);
void log_lines_are_cut(void);
void log_says_how_much_it_held_back(void);
void log_waits_for_no_reader(void);
void log_levels_have_names(void);
void log_events_are_kept(void);

#endif
