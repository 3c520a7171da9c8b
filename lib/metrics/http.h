/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Answers GET /metrics and GET /health over HTTP, for Prometheus and for load balancers. One thread of its own, of
 * libmicrohttpd; a page is written family by family as the client takes it, so that a slow client costs one family's
 * memory.
 *
 * Bounds: 32 connections, 8 of one address (IPv6: of one /64), 10 s of silence, 30 s for a request with its reply. Only
 * these two pages exist, and only GET and HEAD.
 */
#ifndef METRICS_HTTP_H
#define METRICS_HTTP_H

#include <stdbool.h>
#include <stdint.h>

#include "metrics/openmetrics.h"
#include "star_error.h"

enum { METRICS_HEALTH_MAX = 512 };

struct metrics_server_options {
	const char *address; /* IPv4 or IPv6, in digits */
	uint16_t port;	     /* 0: one that is free */
	uint32_t request_ms; /* 0: 30 s */
	void *ctx;
	/* Writes the page's family of that number, or nothing; false: there is none from it on. On the server's
	 * thread. */
	bool (*family)(void *ctx, unsigned number, const struct openmetrics_page *page);
	/* Whether the node is healthy, and how it stands in one line. On the server's thread. */
	bool (*health)(void *ctx, char text[static METRICS_HEALTH_MAX]);
};

struct metrics_server;

/* NULL with err: the address is wrong, or taken. */
struct metrics_server *metrics_server_start(const struct metrics_server_options *options, struct star_error *err);
uint16_t metrics_server_port(const struct metrics_server *server);
/* Ends all connections; takes NULL. */
void metrics_server_stop(struct metrics_server *server);

#endif
