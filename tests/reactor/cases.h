/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases of idle.c: mailboxes, sleeping and waking. */
#ifndef TESTS_REACTOR_CASES_H
#define TESTS_REACTOR_CASES_H

void messages_of_many_threads_run_once_each(void);
void full_mailbox_refuses(void);
void accepted_messages_run_before_the_stop(void);
void waiting_for_a_message_ends(void);
void idle_reactor_costs_next_to_nothing(void);
void idle_reactor_on_a_silent_port_costs_little(void);
void polling_reactor_never_sleeps(void);
void work_keeps_it_awake(void);
void message_wakes_the_sleeper(void);
void frames_wake_the_sleeper(void);
void no_wake_up_is_lost(void);
void sleeper_wakes_for_its_timers(void);

#endif
