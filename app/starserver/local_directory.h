/* SPDX-License-Identifier: BSD-3-Clause */
/* The directory of checkpoints of a starserver --local: one cluster's at a time. */
#ifndef STARSERVER_LOCAL_DIRECTORY_H
#define STARSERVER_LOCAL_DIRECTORY_H

/*
 * Locks it, for this process and the nodes that inherit what is returned: a file's descriptor, which is closed with the
 * last of them. -1: it cannot be, and why is on standard error. Waits a second for another process to let go, and half
 * a minute for nodes of a --local that has ended, which are ending; that is said.
 */
int local_directory_lock(const char *directory);

#endif
