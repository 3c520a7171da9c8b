/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_PEERS_LISTEN_H
#define BENCH_PEERS_LISTEN_H

/* A listening TCP socket that does not block, at an IPv4 address; -1 with errno. */
int listen_on(const char *host, const char *port);

#endif
