/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases, by file. */
#ifndef TESTS_SESSION_CASES_H
#define TESTS_SESSION_CASES_H

/* summary.c */
void crc32c_is_the_published_one(void);
void summaries_refuse_what_they_cannot_write(void);
void summaries_that_do_not_fit_leave_nothing_behind(void);
void summaries_that_are_taken_away_are_begun_anew(void);
void auc_is_that_of_all_pairs(void);
void auc_needs_both_kinds(void);

/* steps.c */
void steps_are_counted_from_a_sessions_first(void);
void wrong_sessions_are_refused(void);
void a_session_goes_on_without_its_summaries(void);
void a_session_without_ps_tasks_ends_with_an_error(void);

/* compile.c */
void rows_are_kept_for_later_parts(void);
void ids_and_segments_are_sent_once(void);
void a_variable_goes_by_its_blocks(void);
void what_cannot_be_kept_is_told(void);

/* local.c */
void a_local_variable_gives_and_takes_rows(void);
void local_tables_stay_until_they_are_forgotten(void);
void a_local_step_that_is_refused_changes_nothing(void);
void local_plans_that_cannot_be_are_refused(void);

/* once.c */
void ids_go_once_and_their_rows_to_all_places(void);
void ids_that_differ_go_as_they_are(void);

/* cluster.c */
void tf_config_is_read(void);
void wrong_tf_configs_are_refused(void);
void clusters_are_made_of_lists(void);

#endif
