/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STARBENCH_WORKER_H
#define STARBENCH_WORKER_H

/* "starbench worker": its exit status. */
int worker_main(int argc, char **argv);

#endif
