/* SPDX-License-Identifier: BSD-3-Clause */
/* HMACs of manifests, inside this library: nothing is done without keys (ckpt_use_keys). */
#ifndef CKPT_SEAL_H
#define CKPT_SEAL_H

#include <stddef.h>

#include "star_error.h"

#define CKPT_SEAL_NAME "manifest.json.hmac"

/* For a manifest of that text, into its folder, synced. */
int ckpt_seal_write(int folder, const char *path, const char *text, size_t bytes, struct star_error *err);
/* 0; -EBADMSG: it is missing or wrong, with what to do. */
int ckpt_seal_check(int folder, const char *path, const char *text, size_t bytes, struct star_error *err);

#endif
