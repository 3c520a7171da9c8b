/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/startrain/cases.h"

#include "tests/unit.h"

const char *const unit_suite = "startrain";
const struct unit_case unit_cases[] = {
	{ "text_is_what_follows_the_bar", text_is_what_follows_the_bar },
	{ "text_without_a_bar_is_the_line", text_without_a_bar_is_the_line },
	{ "long_words_and_odd_bytes_are_harmless", long_words_and_odd_bytes_are_harmless },
	{ "every_20th_sentence_is_held_out", every_20th_sentence_is_held_out },
	{ "words_are_ranked_by_count_then_alphabet", words_are_ranked_by_count_then_alphabet },
	{ "rare_words_are_left_out", rare_words_are_left_out },
	{ "vocabulary_grows", vocabulary_grows },
	{ "bad_texts_are_refused", bad_texts_are_refused },
	{ "negatives_follow_the_three_quarter_power", negatives_follow_the_three_quarter_power },
	{ "frequent_words_are_thinned_out", frequent_words_are_thinned_out },
	{ "shares_partition_the_sentences", shares_partition_the_sentences },
	{ "contexts_are_within_the_window", contexts_are_within_the_window },
	{ "streams_depend_on_seed_share_and_epoch", streams_depend_on_seed_share_and_epoch },
	{ "batch_rows_are_unique_in_order", batch_rows_are_unique_in_order },
	{ "batches_hold_every_pair", batches_hold_every_pair },
	{ "negatives_are_no_positives", negatives_are_no_positives },
	{ "gradient_is_the_slope_of_the_loss", gradient_is_the_slope_of_the_loss },
	{ "loss_of_zeros_is_known", loss_of_zeros_is_known },
	{ "loss_is_finite_for_large_scores", loss_is_finite_for_large_scores },
	{ "neighbours_are_the_nearest", neighbours_are_the_nearest },
	{ "held_out_loss_is_the_same_each_time", held_out_loss_is_the_same_each_time },
	{ "a_failing_reader_ends_the_measurement", a_failing_reader_ends_the_measurement },
	{ "options_have_bounds", options_have_bounds },
	{ "options_take_files_after_text", options_take_files_after_text },
	{ "options_say_what_is_wrong", options_say_what_is_wrong },
	{ "job_ends_well_when_all_processes_do", job_ends_well_when_all_processes_do },
	{ "job_fails_with_the_message_of_its_process", job_fails_with_the_message_of_its_process },
	{ "job_names_the_signal_that_ended_a_process", job_names_the_signal_that_ended_a_process },
	{ "job_ends_all_processes_on_a_signal", job_ends_all_processes_on_a_signal },
	{ "job_reports_what_its_processes_did", job_reports_what_its_processes_did },
	{ "a_bar_is_as_long_as_its_share", a_bar_is_as_long_as_its_share },
	{ NULL, NULL },
};
