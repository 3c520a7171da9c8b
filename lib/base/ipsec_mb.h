/* SPDX-License-Identifier: BSD-3-Clause */
/* The one manager of ipsec-mb in a process, made before main, constant afterwards: direct calls keep nothing in it. */
#ifndef BASE_IPSEC_MB_H
#define BASE_IPSEC_MB_H

#include <intel-ipsec-mb.h>

extern IMB_MGR *base_ipsec_mb;

#endif
