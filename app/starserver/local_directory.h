/* SPDX-License-Identifier: BSD-3-Clause */
/* The checkpoint directory of starserver --local: one cluster at a time may use it. One thread. */
#ifndef STARSERVER_LOCAL_DIRECTORY_H
#define STARSERVER_LOCAL_DIRECTORY_H

/*
 * Locks it for this process and for the nodes that inherit the returned file descriptor; the lock ends when the last
 * copy is closed. -1: it could not be locked, and standard error says why. Waits up to a second for another process,
 * and up to half a minute for nodes of an earlier --local that are still stopping; a message says so.
 */
int local_directory_lock(const char *directory);

#endif
