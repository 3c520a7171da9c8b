/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Answers GET /metrics and GET /health over HTTP, for Prometheus and for load balancers. One thread of its own, of
 * libmicrohttpd; a page is written family by family as the client reads it, so a slow client costs only the memory of
 * one family.
 *
 * Limits: 32 connections, 8 per address (IPv6: per /64), 10 s of silence, 30 s for a request with its reply. There are
 * only these two pages, and only GET and HEAD. Threads: start and stop are called by one thread.
 */
#ifndef METRICS_HTTP_H
#define METRICS_HTTP_H

#include <stdbool.h>
#include <stdint.h>

#include "metrics/openmetrics.h"
#include "star_error.h"

enum { METRICS_HEALTH_MAX = 1024 };

struct metrics_server_options {
	const char *address; /* IPv4 or IPv6 literal */
	uint16_t port;	     /* 0: any free one */
	uint32_t request_ms; /* time limit of a request with its reply; 0: 30 s */
	void *ctx;
	/* Writes the page's family of that number, if it has samples. False: neither this number nor a higher one
	 * exists. Called on the server's thread. */
	bool (*family)(void *ctx, unsigned number, const struct openmetrics_page *page);
	/* Returns whether the node is healthy, with a status line in text. Called on the server's thread. */
	bool (*health)(void *ctx, char text[static METRICS_HEALTH_MAX]);
};

struct metrics_server;

/* NULL with err: the address is invalid or in use. */
struct metrics_server *metrics_server_start(const struct metrics_server_options *options, struct star_error *err);
uint16_t metrics_server_port(const struct metrics_server *server);
/* Closes all connections. server may be NULL. */
void metrics_server_stop(struct metrics_server *server);

#endif
