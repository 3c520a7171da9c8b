/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/probe.h"

#if __has_include(<sys/sdt.h>)
#define X(name, text) unsigned short starserver_##name##_semaphore __attribute__((section(".probes")));
PROBES(X)
#undef X
#endif
