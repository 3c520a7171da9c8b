/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases of startrain's test program, and a text to test with. */
#ifndef TESTS_STARTRAIN_CASES_H
#define TESTS_STARTRAIN_CASES_H

#include "app/startrain/corpus.h"

/* Loads text as the corpus of one file (or several: strings up to a NULL). */
int load_texts(struct corpus *c, const char *const *texts, uint64_t min_count, struct star_error *err);
int load_text(struct corpus *c, const char *text, uint64_t min_count, struct star_error *err);

/* Sentences of words that a generator draws: `words` different ones, of uneven frequency. */
void load_random(struct corpus *c, uint32_t sentences, uint32_t words);

void text_is_what_follows_the_bar(void);
void text_without_a_bar_is_the_line(void);
void long_words_and_odd_bytes_are_harmless(void);
void every_20th_sentence_is_held_out(void);
void words_are_ranked_by_count_then_alphabet(void);
void rare_words_are_left_out(void);
void vocabulary_grows(void);
void bad_texts_are_refused(void);

void negatives_follow_the_three_quarter_power(void);
void frequent_words_are_thinned_out(void);
void shares_partition_the_sentences(void);
void contexts_are_within_the_window(void);
void streams_depend_on_seed_share_and_epoch(void);

void batch_rows_are_unique_in_order(void);
void batches_hold_every_pair(void);
void negatives_are_no_positives(void);
void gradient_is_the_slope_of_the_loss(void);
void loss_of_zeros_is_known(void);
void loss_is_finite_for_large_scores(void);
void neighbours_are_the_nearest(void);
void held_out_loss_is_the_same_each_time(void);
void a_failing_reader_ends_the_measurement(void);

void options_have_bounds(void);
void options_take_files_after_text(void);
void options_say_what_is_wrong(void);
void job_ends_well_when_all_processes_do(void);
void job_fails_with_the_message_of_its_process(void);
void job_names_the_signal_that_ended_a_process(void);
void job_ends_all_processes_on_a_signal(void);
void job_reports_what_its_processes_did(void);
void a_bar_is_as_long_as_its_share(void);

#endif
