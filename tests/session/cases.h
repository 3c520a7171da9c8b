/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases, by file. */
#ifndef TESTS_SESSION_CASES_H
#define TESTS_SESSION_CASES_H

/* summary.c */
void crc32c_is_the_published_one(void);
void summaries_refuse_what_they_cannot_write(void);
void auc_is_that_of_all_pairs(void);
void auc_needs_both_kinds(void);

/* steps.c */
void steps_are_counted_from_a_sessions_first(void);
void wrong_sessions_are_refused(void);
void a_session_without_ps_tasks_ends_with_an_error(void);

/* cluster.c */
void tf_config_is_read(void);
void wrong_tf_configs_are_refused(void);

#endif
