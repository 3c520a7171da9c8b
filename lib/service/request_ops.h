/* SPDX-License-Identifier: BSD-3-Clause */
/* The operations of requests, one line each. wire/frame.h has their numbers, and the bytes of their bodies and results.
 * Pure data. */
#ifndef SERVICE_REQUEST_OPS_H
#define SERVICE_REQUEST_OPS_H

#include "wire/frame.h"

/*
 * X(kind, allowed flags, check, prepare, begin): the last three name a check_NAME in validate.c, a prepare_NAME in
 * prepare.c and a begin_NAME in execute.c.
 */
#define SERVICE_OPS(X) \
	X(PULL, WIRE_READ_ONLY | WIRE_VERSIONS, unscaled, pull, pull) \
	X(PUSH, WIRE_ACCUMULATE | WIRE_RATE | WIRE_SCALE | WIRE_PULLED | WIRE_MORE, push, push, push) \
	X(PUSH_PULL, WIRE_RATE | WIRE_SCALE | WIRE_PULLED | WIRE_MORE, push, push, push) \
	X(DELETE, 0, delete, keys, delete) \
	X(ASSIGN, WIRE_MORE, unscaled, assign, push) \
	X(RUN, 0, run, run, run) \
	X(COMMIT, WIRE_OPEN | WIRE_RATE | WIRE_SCALE | WIRE_BY_ROW, commit, keys, commit)

#endif
