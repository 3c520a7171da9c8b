/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases of eal.c. All but the last run in a child. */
#ifndef TESTS_PORT_CASES_H
#define TESTS_PORT_CASES_H

void quiet_start(void);
void second_start(void);
void start_without_root(void);
void required_and_missing(void);
void preferred_and_missing(void);
void two_gib(void);
void ordinary_memory(void);
void hugepages_are_used_when_there(void);

/* Those of memif.c: all run in a child. */
void memif_carries_frames(void);
void memif_wakes_the_sleeper(void);
void memif_refuses_wrong_clients(void);
void memif_survives_nonsense(void);

#endif
