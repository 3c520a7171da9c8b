/* SPDX-License-Identifier: BSD-3-Clause */
/* HMACs of manifests; without keys (ckpt_use_keys) these do nothing. Threads: as ckpt.h. */
#ifndef CKPT_SEAL_H
#define CKPT_SEAL_H

#include <stddef.h>

#include "star_error.h"

#define CKPT_SEAL_NAME "manifest.json.hmac"

/* Writes the HMAC of a manifest's text into its directory, and syncs it. */
int ckpt_seal_write(int folder, const char *path, const char *text, size_t bytes, struct star_error *err);
/* Checks it. 0; -EBADMSG: it is missing or wrong; the message says what to do. */
int ckpt_seal_check(int folder, const char *path, const char *text, size_t bytes, struct star_error *err);

#endif
