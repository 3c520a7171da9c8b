/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases of the other files of this test. */
#ifndef TESTS_NODE_CASES_H
#define TESTS_NODE_CASES_H

/* register.c */
void each_caller_gets_its_own_outcome(void);
void what_is_wanted_stays_wanted(void);
void who_asks_does_not_wait_for_a_look(void);
void nobody_waits_for_etcd_when_the_node_stops(void);

/* pair_file.c */
void several_threads_remember_at_once(void);
void a_node_that_has_yielded_is_no_longer_primary(void);
void what_is_written_already_needs_no_disk(void);

#endif
