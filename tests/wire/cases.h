/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases of this test program, by file. */
#ifndef TESTS_WIRE_CASES_H
#define TESTS_WIRE_CASES_H

#include "tests/unit.h"

#define WIRE_CASES(X) \
	/* frame.c */ \
	X(good_headers_pass) \
	X(each_bad_field_is_refused) \
	X(checksum_is_the_crc_of_the_frame) \
	X(checksum_covers_every_bit) \
	X(body_sizes_do_not_overflow) \
	X(every_status_has_a_message) \
	/* layout.c */ \
	X(owner_is_the_inverse_of_first) \
	X(hashes_fall_into_partitions_by_their_upper_bits) \
	X(small_consecutive_ids_spread_evenly) \
	/* program.c */ \
	X(programs_have_a_shape) \
	X(segments_take_the_bytes_of_their_feed) \
	X(programs_have_one_table) \
	X(bad_programs_are_refused_by_node) \
	X(programs_are_bounded) \
	X(programs_have_one_entry) \
	X(programs_are_the_same_by_name) \
	X(no_bytes_do_harm) \
	/* object.c */ \
	X(ids_and_generations_have_their_bits) \
	X(names_have_limits) \
	X(names_are_utf8) \
	X(each_bad_spec_is_refused) \
	X(table_dims_have_limits) \
	X(variable_shapes_have_limits) \
	X(blocks_hold_whole_rows) \
	X(equal_specs_are_the_same) \
	X(each_difference_names_both_sides) \
	X(each_option_is_compared) \
	X(names_of_kinds_parse_back) \
	/* options.c */ \
	X(options_are_read) \
	X(bad_options_say_what_is_meant) \
	X(texts_of_numbers_are_short) \
	X(options_that_do_not_go_together_are_refused) \
	X(options_that_go_together_pass) \
	X(texts_of_options_read_back) \
	X(rates_follow_their_schedule)

#define X(name) void name(void);
WIRE_CASES(X)
#undef X

#endif
