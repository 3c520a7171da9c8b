/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A training step as it is sent, without what is computed in between: calls that begin, each with bytes to and from the
 * PS task, and calls that are waited for, in the order in which a session did both. bench/grpc-step's two sides make it
 * again and again. As text: a line "begin TO FROM" or "wait N" each, N being which of the calls, from 0; then "end".
 */
#ifndef PEERS_STEP_H
#define PEERS_STEP_H

enum { STEP_EVENTS_MAX = 4096 };

#endif
