/* SPDX-License-Identifier: BSD-3-Clause */
/* The process's manager of ipsec-mb, created before main. Any thread: it is constant, because direct calls store
 * nothing in it. */
#ifndef BASE_IPSEC_MB_H
#define BASE_IPSEC_MB_H

#include <intel-ipsec-mb.h>

extern IMB_MGR *base_ipsec_mb;

#endif
