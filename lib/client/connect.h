/* SPDX-License-Identifier: BSD-3-Clause */
/* How a channel comes to its connection over TCP: all with its lock held. */
#ifndef CLIENT_CONNECT_H
#define CLIENT_CONNECT_H

#include "client/client.h"

/* Binds a socket to a source port whose flow reaches the channel's reactor, where that matters. */
void client_steer_bind(struct channel *ch);
void client_connect_start(struct channel *ch, uint64_t now_ns);
void client_connect_watch(struct channel *ch);
/* The connection came to nothing: the next attempt waits its time. */
void client_connect_failed(struct channel *ch, int error, uint64_t now_ns);
/* Says that EDQUOT was the reason; returns -EDQUOT. */
int client_connect_over_quota(const struct channel *ch, struct star_error *err);
/* false: given up; err says why. */
bool client_connect_continue(struct channel *ch, short revents, uint64_t now_ns, struct star_error *err);

#endif
