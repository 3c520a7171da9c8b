/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases of tests/models beside those of models.c. */
#ifndef TESTS_MODELS_CASES_H
#define TESTS_MODELS_CASES_H

void windows_follow_one_another(void);
void workers_share_sentences(void);
void pairs_are_near_each_other(void);
void a_text_without_pairs_is_refused(void);

#endif
