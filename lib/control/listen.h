/* SPDX-License-Identifier: BSD-3-Clause */
/* The control plane's listening sockets, non-blocking. */
#ifndef CONTROL_LISTEN_H
#define CONTROL_LISTEN_H

#include "star_error.h"

/* address: "host:port". A descriptor, or a negative errno with a message that says what to do. */
int control_listen_tcp(const char *address, struct star_error *err);

/*
 * Mode 0600 from its first moment. The directory is created if it is missing, but not its parents; the socket of a
 * process that has ended is removed, that of a live one is an error (-EADDRINUSE).
 */
int control_listen_unix(const char *path, struct star_error *err);

#endif
