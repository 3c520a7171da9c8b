/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens a channel's connection over TCP. All with the channel's lock held. */
#ifndef CLIENT_CONNECT_H
#define CLIENT_CONNECT_H

#include "client/client.h"

/* Binds the socket to a source port whose flow is steered to the channel's reactor, if the node's NIC requires that. */
void client_steer_bind(struct channel *ch);
void client_connect_start(struct channel *ch, uint64_t now_ns);
void client_connect_watch(struct channel *ch);
/* The connection has failed: schedules the next attempt. */
void client_connect_failed(struct channel *ch, int error, uint64_t now_ns);
/* Writes a message for EDQUOT; returns -EDQUOT. */
int client_connect_over_quota(const struct channel *ch, struct star_error *err);
/* Continues connecting after poll() returned revents. false: given up; err says why. */
bool client_connect_continue(struct channel *ch, short revents, uint64_t now_ns, struct star_error *err);

#endif
