/* SPDX-License-Identifier: BSD-3-Clause */
/* The node's own TCP, in the formats of `ss -ti` and `nstat`. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "app/starctl/starctl.h"
#include "base/text.h"

static const struct filter filters[] = {
	{ "reactor", true }, { "state", false }, { "peer", false }, { "limit", true }, { NULL, false }
};

json_t *connection_filters(int argc, char **argv, struct star_error *err)
{
	return take_filters(filters, "reactor=N, state=NAME, peer=ADDRESS[:PORT] and limit=N", argc, argv, err);
}

void print_connection_filters(FILE *out)
{
	print_filters(filters, out);
}

static json_int_t connection_number(const json_t *object, const char *name)
{
	return json_integer_value(json_object_get(object, name));
}

static const char *text(const json_t *object, const char *name)
{
	const char *value = json_string_value(json_object_get(object, name));

	return value ? value : "-";
}

/* Prints " name:value" if the member exists. */
static void put_number(const json_t *c, const char *member, const char *name, FILE *out)
{
	if (json_object_get(c, member))
		fprintf(out, " %s:%" JSON_INTEGER_FORMAT, name, connection_number(c, member));
}

static void put_milliseconds(const json_t *c, const char *member, const char *name, FILE *out)
{
	if (json_object_get(c, member))
		fprintf(out, " %s:%.3g", name, (double)connection_number(c, member) / 1000);
}

/* The second line of a connection. */
static void render_details(const json_t *c, FILE *out)
{
	static const struct {
		const char *member, *name;
	} numbers[] = {
		{ "mss", "mss" },
		{ "pmtu", "pmtu" },
		{ "received_mss", "rcvmss" },
		{ "advertised_mss", "advmss" },
		{ "cwnd", "cwnd" },
		{ "ssthresh", "ssthresh" },
		{ "bytes_acked", "bytes_acked" },
		{ "bytes_received", "bytes_received" },
		{ "segments_out", "segs_out" },
		{ "segments_in", "segs_in" },
		{ "last_sent_ms", "lastsnd" },
		{ "last_heard_ms", "lastrcv" },
		{ "unacked", "unacked" },
		{ "retransmitted", "retrans" },
		{ "retransmitted_total", "retrans_total" },
		{ "retransmits", "backoff" },
		{ "lost", "lost" },
		{ "sacked", "sacked" },
		{ "unsent", "notsent" },
		{ "out_of_order", "rcv_ooopack" },
		{ "receive_buffer", "rcv_space" },
		{ "receive_window", "rcv_wnd" },
		{ "send_window", "snd_wnd" },
		{ "keepalive_probes", "probes" },
	};
	const json_t *option, *scale = json_object_get(c, "wscale"), *timer = json_object_get(c, "timer");
	size_t i;

	fprintf(out, "\treactor:%" JSON_INTEGER_FORMAT, connection_number(c, "reactor"));
	json_array_foreach(json_object_get(c, "options"), i, option)
	{
		fputc(' ', out);
		print_text(json_string_value(option) ? json_string_value(option) : "-", out);
	}
	fputc(' ', out);
	print_text(text(c, "congestion"), out);
	if (json_array_size(scale) == 2)
		fprintf(out, " wscale:%" JSON_INTEGER_FORMAT ",%" JSON_INTEGER_FORMAT,
			json_integer_value(json_array_get(scale, 0)), json_integer_value(json_array_get(scale, 1)));
	put_milliseconds(c, "rto_us", "rto", out);
	if (json_object_get(c, "rtt_us"))
		fprintf(out, " rtt:%.3g/%.3g", (double)connection_number(c, "rtt_us") / 1000,
			(double)connection_number(c, "rttvar_us") / 1000);
	put_milliseconds(c, "min_rtt_us", "minrtt", out);
	for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		put_number(c, numbers[i].member, numbers[i].name, out);
	if (strcmp(text(c, "recovery"), "open") != 0) {
		fprintf(out, " ca_state:");
		print_text(text(c, "recovery"), out);
	}
	if (timer) {
		fprintf(out, " timer:(");
		print_text(text(timer, "name"), out);
		fprintf(out, ",%.4gms)", (double)connection_number(timer, "us") / 1000);
	}
	fputc('\n', out);
}

/* A text from outside, made safe for a terminal, in a buffer of its own. */
static const char *safe(const char *from, char to[static 64])
{
	size_t i;

	for (i = 0; i < 63 && from[i]; i++)
		to[i] = base_printable(from[i]);
	to[i] = 0;
	return to;
}

void render_connections(const json_t *reply, FILE *out)
{
	const json_t *c;
	size_t i;

	fprintf(out, "%-11s %8s %8s %28s %28s\n", "State", "Recv-Q", "Send-Q", "Local Address:Port",
		"Peer Address:Port");
	json_array_foreach(json_object_get(reply, "connections"), i, c)
	{
		char state[64], local[64], peer[64];

		fprintf(out, "%-11s %8" JSON_INTEGER_FORMAT " %8" JSON_INTEGER_FORMAT " %28s %28s\n",
			safe(text(c, "state"), state), connection_number(c, "receive_queue"),
			connection_number(c, "send_queue"), safe(text(c, "local"), local), safe(text(c, "peer"), peer));
		render_details(c, out);
	}
	if (json_is_true(json_object_get(reply, "more")))
		fprintf(out, "there are more: limit=N shows up to 10000\n");
	fflush(out);
}

json_t *sum_counters(const json_t *status)
{
	json_t *sums = json_object(), *value;
	const json_t *reactor;
	const char *name;
	size_t i;

	json_array_foreach(json_object_get(status, "reactors"), i, reactor)
	{
		json_object_foreach(json_object_get(reactor, "counters"), name, value)
		{
			json_object_set_new(sums, name,
					    json_integer(json_integer_value(value) +
							 json_integer_value(json_object_get(sums, name))));
		}
	}
	return sums;
}

void render_counters(const json_t *sums, FILE *out)
{
	const char *name;
	json_t *value;
	char shown[64];

	fprintf(out, "#starserver\n");
	json_object_foreach((json_t *)sums, name, value)
	{
		fprintf(out, "%-32s%-16" JSON_INTEGER_FORMAT "\n", safe(name, shown), json_integer_value(value));
	}
	fflush(out);
}
