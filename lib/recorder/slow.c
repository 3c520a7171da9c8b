/* SPDX-License-Identifier: BSD-3-Clause */
/* Which requests were slow, and why; and a list of all. */
#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "recorder/recorder.h"

enum { BEHIND_PERCENT = 10, COLD_NS = 200, COLD_KEYS = 64 };

/* A request in a report. */
struct slow {
	struct observe_record record;
	unsigned reactor;
};

/* The requests that another one has waited for. */
struct behind {
	uint64_t run_ns;
	uint32_t count;
	const struct observe_record *longest;
};

static uint64_t begun_ns(const struct observe_record *r)
{
	return r->arrived_ns + observe_units_ns(r->wait);
}

static uint64_t ended_ns(const struct observe_record *r)
{
	return r->arrived_ns + observe_units_ns(r->total);
}

static int by_total(const void *a, const void *b)
{
	const struct slow *x = a, *y = b;

	return x->record.total > y->record.total ? -1 : x->record.total < y->record.total;
}

static const char *table_name(const struct recorder *recorder, const struct observe_record *r)
{
	return recorder->name(recorder->ctx, r->object, r->arrived_ns);
}

static void peer_text(const struct observe *observe, const struct observe_record *r, char text[static 80])
{
	static const uint8_t v4[12] = { [10] = 0xff, [11] = 0xff };
	char host[INET6_ADDRSTRLEN] = "";
	struct observe_peer peer;

	text[0] = 0;
	if (!observe_find_peer(observe, r->peer, r->arrived_ns, &peer))
		return; /* another peer has its entry now */
	if (memcmp(peer.address, v4, sizeof(v4)) == 0)
		inet_ntop(AF_INET, peer.address + 12, host, sizeof(host));
	else
		inet_ntop(AF_INET6, peer.address, host, sizeof(host));
	snprintf(text, 80, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, peer.port);
}

/* Finds the requests of the same reactor that were executed while r waited. */
static struct behind look_behind(const struct observe_record *r, const struct observe_record *all, size_t n)
{
	struct behind behind = { 0 };

	for (size_t i = 0; i < n; i++) {
		const struct observe_record *o = &all[i];

		if (ended_ns(o) <= r->arrived_ns || begun_ns(o) >= begun_ns(r) ||
		    (o->arrived_ns == r->arrived_ns && o->peer == r->peer && o->total == r->total))
			continue;
		behind.count++;
		behind.run_ns += observe_units_ns(o->run);
		if (!behind.longest || o->run > behind.longest->run)
			behind.longest = o;
	}
	return behind;
}

static void add_reason(json_t *why, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add_reason(json_t *why, const char *format, ...)
{
	char text[320];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	json_array_append_new(why, json_string(text));
}

static bool is_much(uint32_t part, uint32_t of)
{
	return (uint64_t)part * 100 >= (uint64_t)of * BEHIND_PERCENT;
}

/* Lists what took a tenth of its time or more, and everything that it had to wait for. */
static json_t *reasons(const struct recorder *recorder, const struct observe_record *r,
		       const struct observe_record *all, size_t n)
{
	const double wait_ms = (double)observe_units_ns(r->wait) / 1e6, run_ms = (double)observe_units_ns(r->run) / 1e6;
	const uint32_t spent = r->wait + r->run, keys = observe_keys(r), slices = observe_slices(r);
	const struct behind behind = look_behind(r, all, n);
	const char *table = behind.longest ? table_name(recorder, behind.longest) : "";
	json_t *why = json_array();

	for (unsigned bit = 0; bit < OBSERVE_REASONS_COUNT; bit++)
		if (r->why >> bit & 1)
			add_reason(why, "it had to wait: %s", observe_reason_text((enum observe_reason_bit)bit));
	if (is_much(r->wait, r->total) && behind.longest)
		add_reason(why,
			   "waited %.3f ms, behind %u other request%s that took %.3f ms; the longest: %s of %u "
			   "keys%s%.80s%s, %.3f ms",
			   wait_ms, behind.count, behind.count == 1 ? "" : "s", (double)behind.run_ns / 1e6,
			   observe_class_text(observe_class(behind.longest)), observe_keys(behind.longest),
			   *table ? " of \"" : "", table, *table ? "\"" : "",
			   (double)observe_units_ns(behind.longest->run) / 1e6);
	else if (is_much(r->wait, r->total))
		add_reason(why, "waited %.3f ms before it began; no record shows for which other request", wait_ms);
	if (is_much(r->run, r->total) && keys >= COLD_KEYS && observe_units_ns(r->run) / keys >= COLD_NS)
		add_reason(why,
			   "executed for %.3f ms in %u slices, %.0f ns per key: rows were created, or were not in the "
			   "caches"
			   "did not have",
			   run_ms, slices, (double)observe_units_ns(r->run) / keys);
	else if (is_much(r->run, r->total) && slices)
		add_reason(why, "executed for %.3f ms, in %u slice%s", run_ms, slices, slices == 1 ? "" : "s");
	else if (is_much(r->run, r->total))
		add_reason(why, "executed for %.3f ms", run_ms);
	if (r->total > spent && is_much(r->total - spent, r->total))
		add_reason(why,
			   "%.3f ms passed between its slices, for other requests and their packets, or until its "
			   "reply left",
			   (double)observe_units_ns(r->total - spent) / 1e6);
	return why;
}

static json_t *slow_json(const struct recorder *recorder, const struct slow *s, const struct observe_record *all,
			 size_t n)
{
	const struct observe_record *r = &s->record;
	const uint64_t now_ns = recorder->now_ns;
	char peer[80];

	peer_text(recorder->of[s->reactor], r, peer);
	return json_pack("{s:f, s:i, s:f, s:f, s:f, s:s, s:s, s:i, s:s, s:s, s:i, s:o}", "ago_s",
			 (double)((now_ns > r->arrived_ns ? now_ns - r->arrived_ns : 0) / 1000000) / 1e3, "reactor",
			 (int)s->reactor, "total_us", (double)observe_units_ns(r->total) / 1e3, "wait_us",
			 (double)observe_units_ns(r->wait) / 1e3, "run_us", (double)observe_units_ns(r->run) / 1e3,
			 "class", observe_class_text(observe_class(r)), "table", table_name(recorder, r), "keys",
			 (int)observe_keys(r), "peer", peer, "status", wire_status_text(r->status), "slices",
			 (int)observe_slices(r), "why", reasons(recorder, r, all, n));
}

/* Merges the slowest records of one reactor with those of the earlier ones: *count of them, at most `limit`. */
static void join(struct slow *slowest, unsigned *count, unsigned limit, unsigned reactor,
		 const struct observe_record *all, size_t n, uint64_t from_ns)
{
	for (size_t i = 0; i < n; i++) {
		const bool full = *count == limit;

		if (all[i].arrived_ns < from_ns || (full && all[i].total <= slowest[limit - 1].record.total))
			continue;
		slowest[full ? limit - 1 : (*count)++] = (struct slow){ all[i], reactor };
		if (*count == limit)
			qsort(slowest, *count, sizeof(*slowest), by_total);
	}
}

/* Copies the records of a reactor, if it is selected. */
static size_t copy_records(const struct recorder *recorder, const struct recorder_slow *which, unsigned reactor,
			   struct observe_record *to)
{
	uint64_t from = 0;

	if (which->reactor >= 0 && which->reactor != (int)reactor)
		return 0;
	return observe_copy(recorder->of[reactor], &from, to, OBSERVE_RECORDS);
}

json_t *recorder_slow(const struct recorder *recorder, const struct recorder_slow *which)
{
	struct observe_record *all = malloc(OBSERVE_RECORDS * sizeof(*all));
	struct slow slowest[RECORDER_SLOW_MAX];
	const uint64_t now_ns = recorder->now_ns, span_ns = which->seconds * UINT64_C(1000000000);
	const unsigned limit = which->limit < RECORDER_SLOW_MAX ? which->limit : RECORDER_SLOW_MAX;
	uint64_t looked_at = 0;
	unsigned count = 0;
	json_t *list;

	if (!all)
		return NULL;
	for (unsigned i = 0; i < recorder->reactors; i++) {
		const size_t n = copy_records(recorder, which, i, all);

		join(slowest, &count, limit, i, all, n, now_ns > span_ns ? now_ns - span_ns : 0);
		looked_at += n;
	}
	qsort(slowest, count, sizeof(*slowest), by_total);
	/* Reads each reactor's records again, to find what its slow requests have waited for. */
	list = json_array();
	for (unsigned k = 0; k < count; k++)
		json_array_append_new(list, json_null());
	for (unsigned i = 0; i < recorder->reactors; i++) {
		const size_t n = copy_records(recorder, which, i, all);

		for (unsigned k = 0; k < count; k++)
			if (slowest[k].reactor == i)
				json_array_set_new(list, k, slow_json(recorder, &slowest[k], all, n));
	}
	free(all);
	return json_pack("{s:I, s:o}", "looked_at", (json_int_t)looked_at, "requests", list);
}

json_t *recorder_trace(const struct recorder *recorder, unsigned reactor, uint64_t from)
{
	const struct observe *observe = recorder->of[reactor];
	struct observe_record *page = malloc(RECORDER_TRACE_PAGE * sizeof(*page));
	json_t *list;
	size_t n;

	if (!page)
		return NULL;
	n = observe_copy(observe, &from, page, RECORDER_TRACE_PAGE);
	list = json_array();
	for (size_t i = 0; i < n; i++) {
		const struct observe_record *r = &page[i];
		char peer[80];

		peer_text(observe, r, peer);
		json_array_append_new(list, json_pack("[I, I, I, I, s, s, i, s, s, i]", (json_int_t)r->arrived_ns,
						      (json_int_t)observe_units_ns(r->wait),
						      (json_int_t)observe_units_ns(r->run),
						      (json_int_t)observe_units_ns(r->total),
						      observe_class_text(observe_class(r)), table_name(recorder, r),
						      (int)observe_keys(r), peer, wire_status_text(r->status),
						      (int)observe_slices(r)));
	}
	free(page);
	return json_pack("{s:i, s:I, s:I, s:o}", "reactors", (int)recorder->reactors, "from", (json_int_t)from, "next",
			 (json_int_t)(from + n), "records", list);
}
