/* SPDX-License-Identifier: BSD-3-Clause */
/* `starbench worker`: a worker process under load. */
#ifndef STARBENCH_WORKER_H
#define STARBENCH_WORKER_H

/* Returns the exit status. */
int worker_main(int argc, char **argv);

#endif
