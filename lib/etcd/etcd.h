/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One key of an etcd cluster, used as a register with compare-and-swap, through the JSON gateway of etcd 3.4 and later
 * (POST /v3/kv/range and /v3/kv/txn), over HTTP or HTTPS. Members are tried in turn, beginning with the one that
 * answered last, or after the one for which a call did not wait (goes_on). Reads are linearizable. Etcd's leases and
 * the clocks of its machines are not used. Replies are bounded and checked; an invalid reply counts as none. Calls
 * block, for at most hurry_ms and then timeout_ms at each endpoint, so use them on a control thread, one thread at a
 * time.
 */
#ifndef ETCD_ETCD_H
#define ETCD_ETCD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "star_error.h"

enum {
	ETCD_ENDPOINTS_MAX = 16,
	ETCD_ENDPOINT_MAX = 320, /* bytes of "host:port", with its end */
	ETCD_KEY_MAX = 255,	 /* bytes */
	ETCD_VALUE_MAX = 1024,	 /* bytes, without the end that is added */
	ETCD_REPLY_MAX = 64 << 10,
};

struct etcd_options {
	const char *const *endpoints; /* "host:port", an IPv6 address in brackets */
	unsigned endpoints_count;
	const char *key;
	/* Files in PEM. "" or NULL: none; without ca: HTTP, unencrypted. */
	const char *ca, *certificate, *private_key;
	uint32_t timeout_ms; /* of connection and answer together, for each endpoint */
	uint32_t hurry_ms; /* limit for each in a first round, if there are several; 0: timeout_ms from the beginning */
	/* Returns false to end a call: it then returns within some 20 ms. NULL: always true. */
	bool (*goes_on)(void *ctx);
	void *ctx;
};

struct etcd_value {
	bool there;
	uint64_t revision; /* mod_revision; 0: not there */
	size_t bytes;
	char text[ETCD_VALUE_MAX + 1]; /* ended by a NUL byte; may have others */
};

struct etcd;

/* NULL with err. Sends nothing yet. */
struct etcd *etcd_create(const struct etcd_options *options, struct star_error *err);
void etcd_destroy(struct etcd *etcd); /* may be NULL */

/* Reads the key. 0; -EHOSTUNREACH: no endpoint has answered, and err says why the last one did not. */
int etcd_read(struct etcd *etcd, struct etcd_value *value, struct star_error *err);

/*
 * Sets the key to `text` if its mod_revision is still `revision` (0: if it does not exist). The text must differ from
 * everything that anybody else ever writes. So if an endpoint does not answer, the next one shows whether the write was
 * done. 0: the key has the text, and *now is that. -ESTALE: the key had changed, and *now is its value. -EHOSTUNREACH:
 * no endpoint has answered; the write may still happen, if the revision is unchanged then.
 */
int etcd_swap(struct etcd *etcd, uint64_t revision, const char *text, struct etcd_value *now, struct star_error *err);

/* Which endpoint answered last; "": none has. Valid as long as etcd is. */
const char *etcd_endpoint(const struct etcd *etcd);

/* ---- of the library's files, and their tests ---- */

/* text.c: base64, the form of bytes in JSON. *room is the size of `to`; then the number of bytes, or -EBADMSG. */
void etcd_base64_encode(const void *from, size_t bytes, char *to);
int etcd_base64_decode(const char *from, size_t bytes, void *to, size_t *room);
/* Parses an answer to a range or to a swap; the latter sets *swapped. 0, or -EBADMSG with a message. */
int etcd_reply_range(const char *text, size_t bytes, const char *key, struct etcd_value *value, struct star_error *err);
int etcd_reply_txn(const char *text, size_t bytes, const char *key, bool *swapped, struct etcd_value *value,
		   struct star_error *err);

#endif
