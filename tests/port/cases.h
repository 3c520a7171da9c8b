/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases of eal.c and virtio.c. All but hugepages_are_used_if_available run in a child. */
#ifndef TESTS_PORT_CASES_H
#define TESTS_PORT_CASES_H

void quiet_start(void);
void devices_addresses(void);
void buffers_for_nics(void);
void buffers_that_are_shared(void);
void freed_aside(void);
void segment_limits(void);
void receive_rings(void);
void whole_pages(void);
void refused_frames(void);
void second_start(void);
void start_without_root(void);
void required_and_missing(void);
void preferred_and_missing(void);
void two_gib(void);
void ordinary_memory(void);
void last_freed_comes_first(void);
void hugepages_are_used_if_available(void);

void virtio_offloads(void);
/* reset.c */
void device_events(void);
void steering_survives_a_reset(void);
/* Those of memif.c: all run in a child. */
void memif_carries_frames(void);
void memif_wakes_the_sleeper(void);
void memif_refuses_wrong_clients(void);
void memif_is_not_held_up_by_its_client(void);
void memif_refuses_memory_that_may_go(void);
void memif_survives_nonsense(void);
/* Those of memif_worker.c: so, too. */
void memif_worker_carries_frames(void);
void memif_worker_waits_for_room(void);
void memif_worker_survives_nonsense(void);

#endif
