/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases, by file. */
#ifndef TESTS_GRAPH_CASES_H
#define TESTS_GRAPH_CASES_H

/* X(case) */
#define GRAPH_CASES(X) \
	/* shapes.c */ \
	X(shapes_of_operations) \
	X(wrong_inputs_are_refused) \
	X(wrong_attributes_are_refused) \
	X(handles_have_their_shapes) \
	X(loops_have_the_shapes_of_their_bodies) \
	X(branches_have_one_shape) \
	X(operations_are_as_documented) \
	/* build.c */ \
	X(wide_and_deep_is_written) \
	X(loop_with_a_table_is_written) \
	X(first_error_is_kept) \
	/* compiled.c */ \
	X(what_holds_can_be_compiled) \
	/* ps_bits.c */ \
	X(programs_steps_have_the_bits_of_workers) \
	X(reductions_of_rows_have_the_bits_of_workers) \
	X(sums_of_variables_have_the_bits_of_workers) \
	X(outer_products_have_the_bits_of_workers) \
	/* cuts_random.c */ \
	X(random_graphs_are_cut_right) \
	X(rounds_are_the_least_there_are) \
	/* text.c */ \
	X(models_are_printed_and_read) \
	X(random_graphs_are_printed_and_read) \
	X(text_is_as_documented) \
	X(wrong_texts_are_refused) \
	X(damaged_texts_do_no_harm) \
	X(nesting_is_bounded) \
	/* gradients.c */ \
	X(gradients_of_operations) \
	X(every_rule_is_compared) \
	X(gradients_of_models) \
	X(gradients_through_loops) \
	X(gradients_through_branches) \
	/* train.c */ \
	X(training_applies_all_gradients) \
	X(gradients_are_clipped_together) \
	X(training_makes_the_loss_less) \
	X(no_gradient_where_there_is_none) \
	X(gradients_are_where_their_nodes_are) \
	/* kernels.c */ \
	X(kernels_do_what_is_defined) \
	X(every_kernel_is_compared) \
	/* special.c */ \
	X(random_numbers_depend_on_seed_step_and_element) \
	X(dropout_drops_and_scales) \
	X(unique_ids_are_found) \
	X(crosses_are_hashed) \
	X(numbers_at_the_edges) \
	X(integers_wrap_around) \
	X(losses_do_not_overflow) \
	X(attention_with_everything_masked_is_zero) \
	X(shapes_broadcast) \
	X(exponentials_have_the_bits_of_ps_tasks) \
	/* execute.c */ \
	X(plans_compute_what_an_interpreter_does) \
	X(memory_is_shared_by_those_that_never_meet) \
	X(threads_do_not_change_a_bit) \
	X(several_runs_of_one_plan_at_once) \
	X(steps_allocate_nothing) \
	X(what_nothing_needs_is_left_out) \
	X(wrong_feeds_are_refused) \
	X(indices_are_checked) \
	/* flow.c */ \
	X(loops_turn) \
	X(too_many_iterations_are_an_error) \
	X(a_tape_that_cannot_be_counted_is_refused) \
	X(a_loop_of_nothing_turns) \
	X(loops_turn_in_loops) \
	X(branches_are_taken) \
	X(carried_values_keep_their_size) \
	/* boundary.c */ \
	X(cut_plans_do_what_uncut_ones_do) \
	X(a_wave_is_started_before_it_is_waited_for) \
	X(an_operation_of_grpcpp_is_started_when_it_can_be) \
	X(a_failed_call_fails_its_step_only) \
	X(without_ps_tasks_ps_nodes_are_refused) \
	X(ps_tasks_say_how_much_there_is) \
	X(what_two_parts_give_is_taken_once) \
	/* cuts_variables.c */ \
	X(sums_of_variables_move) \
	/* cuts_outer.c */ \
	X(outer_products_are_sent_as_their_factors) \
	/* cuts.c */ \
	X(step_is_two_rounds) \
	X(what_is_on_all_tasks_is_asked_of_all) \
	X(what_cannot_be_one_request_is_waves) \
	X(others_stay_whole) \
	X(tasks_reach_each_other_over_the_worker) \
	X(bare_changes_and_unused_variables) \
	X(stateful_nodes_keep_their_order) \
	X(ps_tasks_may_go_first) \
	X(dlrm_is_two_rounds) \
	X(pooling_moves_where_bytes_are_less) \
	X(rows_are_reduced_where_they_are) \
	X(rows_have_as_many_dimensions_as_their_ids) \
	X(gradients_of_bags_are_sent_for_those_of_rows) \
	X(what_moves_is_what_may) \
	X(constants_are_where_they_are_needed) \
	X(check_finds_what_is_wrong) \
	X(largest_graphs_are_cut_quickly)

#define X(name) void name(void);
GRAPH_CASES(X)
#undef X

#endif
