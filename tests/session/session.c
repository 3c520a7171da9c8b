/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/session/cases.h"
#include "tests/unit.h"

const char *const unit_suite = "session";
const struct unit_case unit_cases[] = {
	{ "CRC-32C is the published one", crc32c_is_the_published_one },
	{ "summaries refuse what they cannot write", summaries_refuse_what_they_cannot_write },
	{ "summaries that do not fit leave nothing behind", summaries_that_do_not_fit_leave_nothing_behind },
	{ "summaries that are taken away are begun anew", summaries_that_are_taken_away_are_begun_anew },
	{ "AUC is that of all pairs", auc_is_that_of_all_pairs },
	{ "AUC needs both kinds", auc_needs_both_kinds },
	{ "steps are counted from a session's first", steps_are_counted_from_a_sessions_first },
	{ "wrong sessions are refused", wrong_sessions_are_refused },
	{ "a session goes on without its summaries", a_session_goes_on_without_its_summaries },
	{ "a session without PS tasks ends with an error", a_session_without_ps_tasks_ends_with_an_error },
	{ "rows are kept for later parts", rows_are_kept_for_later_parts },
	{ "ids and segments are sent once", ids_and_segments_are_sent_once },
	{ "a variable goes by its blocks", a_variable_goes_by_its_blocks },
	{ "what cannot be kept is told", what_cannot_be_kept_is_told },
	{ "a local variable gives and takes rows", a_local_variable_gives_and_takes_rows },
	{ "local tables stay until they are forgotten", local_tables_stay_until_they_are_forgotten },
	{ "a local step that is refused changes nothing", a_local_step_that_is_refused_changes_nothing },
	{ "local plans that cannot be are refused", local_plans_that_cannot_be_are_refused },
	{ "ids go once, and their rows to all places", ids_go_once_and_their_rows_to_all_places },
	{ "ids that differ go as they are", ids_that_differ_go_as_they_are },
	{ "TF_CONFIG is read", tf_config_is_read },
	{ "wrong TF_CONFIGs are refused", wrong_tf_configs_are_refused },
	{ "clusters are made of lists", clusters_are_made_of_lists },
	{ NULL, NULL },
};
