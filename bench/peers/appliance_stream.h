/* SPDX-License-Identifier: BSD-3-Clause */
/* The worker of an appliance whose requests come over TCP: one connection. One thread; what goes wrong ends the
 * program. */
#ifndef BENCH_APPLIANCE_STREAM_H
#define BENCH_APPLIANCE_STREAM_H

#include "bench/peers/appliance.h"

/* Opens it: turns are made until it is open. */
void appliance_stream_open(struct appliance *a);
/* A whole request, and its length. */
void appliance_stream_send(const uint8_t *message, uint32_t bytes);

#endif
