/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases of steering.c. */
#ifndef TESTS_BASE_CASES_H
#define TESTS_BASE_CASES_H

void steering_hash_is_the_published_one(void);
void steering_ports_lead_to_their_queue(void);

#endif
