/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases of transmit.c, of capture.c, and of idle.c: mailboxes, sleeping and waking. */
#ifndef TESTS_REACTOR_CASES_H
#define TESTS_REACTOR_CASES_H

void transmit_keeps_order_and_ports(void);
void a_ring_that_takes_nothing_is_not_waited_for(void);
void a_full_ring_makes_frames_wait(void);
void few_frames_wait_for_a_ring(void);
void what_waits_leaves_as_soon_as_there_is_room(void);
void buffers_that_are_short_do_not_wait(void);
void a_reactor_that_loses_its_core_tries_again(void);
void what_is_left_at_the_end_is_sent(void);
void a_stop_does_not_wait_for_a_slow_ring(void);
void what_a_driver_keeps_comes_back_when_mbufs_are_short(void);
void frames_for_unknown_ports_are_freed_and_counted(void);
void ports_come_and_go(void);
void a_slow_port_goes(void);
void a_port_that_follows_a_stuck_one_is_waited_for(void);

void captured_frames_are_those_that_match(void);
void captured_frames_come_in_order(void);

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
