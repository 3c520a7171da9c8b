/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lists the connections of a node's reactors for the administrator. A reactor is asked step by step. Each step is a
 * message with bounded work, so that no request waits for a long list.
 */
#include "node/node.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "net/tcp_info.h"

/* One step. */
struct look {
	struct reactor_message message;
	struct tcp_filter filter;
	uint32_t cursor;
	unsigned max, count;
	struct tcp_info infos[TCP_LIST_MAX];
	struct ksock_connection sockets[TCP_LIST_MAX]; /* for the kernel's sockets: the infos are computed from these */
};

/* Describes a kernel connection like one of lib/net. What the kernel does not report stays 0, or "none". */
static struct tcp_info info_of_socket(const struct ksock_connection *c)
{
	return (struct tcp_info){
		.address = c->address,
		.state = (enum tcp_info_state)c->state,
		.ca_state = c->recovery,
		.passive = true,
		.sack = c->sack,
		.timestamps = c->timestamps,
		.scale = c->scale,
		.ecn = c->ecn,
		.snd_scale = c->send_scale,
		.rcv_scale = c->receive_scale,
		.congestion = c->congestion,
		.mss = (uint16_t)RTE_MIN(c->send_mss, (uint32_t)UINT16_MAX),
		.rcv_mss = (uint16_t)RTE_MIN(c->receive_mss, (uint32_t)UINT16_MAX),
		.advmss = (uint16_t)RTE_MIN(c->advertised_mss, (uint32_t)UINT16_MAX),
		.pmtu = (uint16_t)RTE_MIN(c->path_mtu, (uint32_t)UINT16_MAX), /* it is 65536 on loopback */
		.cwnd = c->cwnd,
		.ssthresh = c->ssthresh >= INT32_MAX ? UINT32_MAX : c->ssthresh,
		.queued = c->queued,
		.unsent = c->queued,
		.unacked_segs = c->unacked,
		.sacked_segs = c->sacked,
		.lost_segs = c->lost,
		.retrans_segs = c->retransmitted,
		.total_retrans = c->retransmitted_total,
		.retransmits = c->retransmits,
		.probes = c->probes,
		.bytes_acked = c->bytes_out,
		.bytes_received = c->bytes_in,
		.rcv_buf = c->receive_space,
		.rcv_wnd = c->receive_space,
		.unread = c->unread,
		.rto_us = c->rto_us,
		.rtt_us = c->rtt_us,
		.rttvar_us = c->rttvar_us,
		.last_heard_ms = c->last_heard_ms,
		.last_sent_ms = c->bytes_out ? c->last_sent_ms : UINT32_MAX,
	};
}

static bool passes(const struct tcp_filter *filter, const struct tcp_info *info)
{
	return (!filter->states || filter->states >> info->state & 1) &&
	       (net_address_is_none(&filter->remote) ||
		memcmp(&filter->remote, &info->address.remote, sizeof(filter->remote)) == 0) &&
	       (!filter->remote_port || filter->remote_port == info->address.remote_port);
}

static void look_at_sockets(const struct shard *shard, struct look *look)
{
	const unsigned n = ksock_list(shard->sockets, &look->cursor, look->sockets, look->max);

	look->count = 0;
	for (unsigned i = 0; i < n; i++) {
		look->infos[look->count] = info_of_socket(&look->sockets[i]);
		look->count += passes(&look->filter, &look->infos[look->count]);
	}
}

static void look_on_reactor(void *ctx, struct reactor_message *message)
{
	const struct shard *shard = ctx;
	struct look *look = (struct look *)message;

	if (shard->sockets) {
		look_at_sockets(shard, look);
		return;
	}
	look->count = tcp_list_connections(shard->net, &look->filter, &look->cursor, look->infos, look->max);
}

static json_t *end_json(const struct net_address *address, uint16_t port)
{
	char host[INET6_ADDRSTRLEN];

	if (net_address_is_v4(address))
		inet_ntop(AF_INET, &address->words[3], host, sizeof(host));
	else
		inet_ntop(AF_INET6, address->bytes, host, sizeof(host));
	return json_string(config_show(host, port).text);
}

static void put_member(json_t *object, const char *name, uint64_t value)
{
	json_object_set_new(object, name, json_integer((json_int_t)value));
}

static void put_if(json_t *object, const char *name, uint64_t value)
{
	if (value)
		put_member(object, name, value);
}

static void put_sending(json_t *json, const struct tcp_info *info)
{
	put_member(json, "cwnd", info->cwnd);
	if (info->ssthresh != UINT32_MAX)
		put_member(json, "ssthresh", info->ssthresh);
	put_member(json, "send_queue", info->queued);
	put_if(json, "unacked", info->unacked_segs);
	put_if(json, "unsent", info->unsent);
	put_if(json, "sacked", info->sacked_segs);
	put_if(json, "lost", info->lost_segs);
	put_if(json, "retransmitted", info->retrans_segs);
	put_if(json, "retransmitted_total", info->total_retrans);
	put_if(json, "retransmits", info->retransmits);
	put_member(json, "send_window", info->snd_wnd);
	put_member(json, "bytes_acked", info->bytes_acked);
	put_member(json, "segments_out", info->segs_out);
	if (info->last_sent_ms != UINT32_MAX)
		put_member(json, "last_sent_ms", info->last_sent_ms);
}

static void put_receiving(json_t *json, const struct tcp_info *info)
{
	put_member(json, "receive_queue", info->unread);
	put_member(json, "receive_window", info->rcv_wnd);
	put_member(json, "receive_buffer", info->rcv_buf);
	put_if(json, "out_of_order", info->out_of_order_segs);
	put_member(json, "bytes_received", info->bytes_received);
	put_member(json, "segments_in", info->segs_in);
	put_member(json, "last_heard_ms", info->last_heard_ms);
}

/* The timer that will fire first, named as ss does. */
static void put_timer(json_t *json, const struct tcp_info *info)
{
	const struct tcp_info_timers *t = &info->timers;
	const struct {
		const char *name;
		uint64_t us;
	} timers[] = {
		{ info->tail_loss_probe ? "probe" : "retransmit", t->retransmit_us },
		{ "reorder", t->reorder_us },
		{ "delayed_ack", t->delayed_ack_us },
		{ info->state == TCP_INFO_TIME_WAIT    ? "time_wait"
		  : info->state == TCP_INFO_FIN_WAIT_2 ? "fin_wait"
						       : "keepalive",
		  t->state_ms * UINT64_C(1000) },
	};
	const char *first = NULL;
	uint64_t us = UINT64_MAX;

	for (size_t i = 0; i < sizeof(timers) / sizeof(timers[0]); i++)
		if (timers[i].us && timers[i].us < us) {
			first = timers[i].name;
			us = timers[i].us;
		}
	if (first)
		json_object_set_new(json, "timer", json_pack("{s:s, s:I}", "name", first, "us", (json_int_t)us));
	put_if(json, "keepalive_probes", info->probes);
}

static void put_features(json_t *json, const struct tcp_info *info)
{
	const struct {
		const char *name;
		bool on;
	} features[] = { { "ts", info->timestamps }, { "sack", info->sack }, { "ecn", info->ecn } };
	json_t *list = json_array();

	for (size_t i = 0; i < sizeof(features) / sizeof(features[0]); i++)
		if (features[i].on)
			json_array_append_new(list, json_string(features[i].name));
	json_object_set_new(json, "options", list);
	if (info->scale)
		json_object_set_new(json, "wscale", json_pack("[i, i]", info->snd_scale, info->rcv_scale));
}

static json_t *connection_json(const struct shard *shard, const struct tcp_info *info)
{
	static const char *const recovery[] = { "open", "disorder", "reducing", "recovery", "loss" };
	json_t *json = json_object();

	put_member(json, "reactor", shard->index);
	json_object_set_new(json, "state", json_string(tcp_state_name(info->state)));
	json_object_set_new(json, "local", end_json(&info->address.local, info->address.local_port));
	json_object_set_new(json, "peer", end_json(&info->address.remote, info->address.remote_port));
	json_object_set_new(json, "opened", json_string(info->passive ? "by peer" : "by us"));
	put_features(json, info);
	json_object_set_new(json, "congestion", json_string(info->congestion));
	json_object_set_new(json, "recovery",
			    json_string(info->ca_state < sizeof(recovery) / sizeof(recovery[0])
						? recovery[info->ca_state]
						: "other"));
	put_member(json, "mss", info->mss);
	put_if(json, "received_mss", info->rcv_mss);
	put_member(json, "advertised_mss", info->advmss);
	put_member(json, "pmtu", info->pmtu);
	put_member(json, "rto_us", info->rto_us);
	if (info->rtt_us) {
		put_member(json, "rtt_us", info->rtt_us);
		put_member(json, "rttvar_us", info->rttvar_us);
	}
	put_if(json, "min_rtt_us", info->min_rtt_us);
	put_sending(json, info);
	put_receiving(json, info);
	put_timer(json, info);
	return json;
}

/* In lower case, as in ss's filters, or as ss prints it; "established" is accepted as well. */
static int parse_state(const char *text, uint32_t *states, struct star_error *err)
{
	char names[160] = "established";

	for (unsigned i = TCP_INFO_ESTABLISHED; i < TCP_INFO_STATES; i++) {
		const char *name = tcp_state_name((enum tcp_info_state)i);

		if (i == TCP_INFO_CLOSED || i == TCP_INFO_LISTEN)
			continue;
		if (strcasecmp(text, name) == 0 ||
		    (i == TCP_INFO_ESTABLISHED && strcasecmp(text, "established") == 0)) {
			*states = 1u << i;
			return 0;
		}
		if (i != TCP_INFO_ESTABLISHED) {
			strcat(names, ", ");
			for (char *to = names + strlen(names); *name; name++, to[1] = 0, to++)
				*to = (char)tolower((unsigned char)*name);
		}
	}
	return star_error_set(err, -EINVAL, "there is no state \"%.32s\"; the states are %s", text, names);
}

/* An address, with or without a port. */
static int parse_peer(const char *text, struct tcp_filter *filter, struct star_error *err)
{
	struct config_address address;

	if (net_address_parse(text, &filter->remote))
		return 0;
	if (config_parse_address(text, &address, err) < 0 || !net_address_parse(address.host, &filter->remote))
		return star_error_set(err, -EINVAL,
				      "\"%.80s\" is not the address of a peer; write 198.18.0.1, 198.18.0.1:40000 or "
				      "[2001:2::1]:40000",
				      text);
	filter->remote_port = address.port;
	return 0;
}

/* Lists all connections of one reactor, up to the limit. look is freed, or left to a reactor that has not answered in
 * time. */
static int list_reactor(struct shard *shard, const struct tcp_filter *filter, uint32_t limit, json_t *list,
			struct star_error *err)
{
	struct look *look = malloc(sizeof(*look));
	int status = 0;

	if (!look)
		return star_error_set(err, -ENOMEM, "no memory for a message to reactor %u", shard->index);
	*look = (struct look){ .filter = *filter };
	while (status == 0 && look->cursor != UINT32_MAX && json_array_size(list) < limit) {
		look->message = (struct reactor_message){ .run = look_on_reactor };
		look->max = (unsigned)RTE_MIN(limit - json_array_size(list), (size_t)TCP_LIST_MAX);
		status = node_ask(shard, &look->message, err);
		for (unsigned i = 0; status == 0 && i < look->count; i++)
			json_array_append_new(list, connection_json(shard, &look->infos[i]));
	}
	if (status != -ETIMEDOUT)
		free(look);
	return status;
}

int node_connections(struct node *node, const struct control_connections *which, json_t **result,
		     struct star_error *err)
{
	struct tcp_filter filter = { 0 };
	json_t *list = json_array();
	int status = 0;

	if (which->reactor >= (int)node->shards_count)
		status = star_error_set(err, -EINVAL, "there is no reactor %d: this node has 0 to %u", which->reactor,
					node->shards_count - 1);
	if (status == 0 && which->state)
		status = parse_state(which->state, &filter.states, err);
	if (status == 0 && which->peer)
		status = parse_peer(which->peer, &filter, err);
	for (unsigned i = 0; status == 0 && i < node->shards_count; i++)
		if (which->reactor < 0 || which->reactor == (int)i)
			status = list_reactor(&node->shards[i], &filter, which->limit + 1, list, err);
	if (status < 0) {
		json_decref(list);
		return status;
	}
	/* One more than requested shows that there are more. */
	*result = json_pack("{s:b, s:O}", "more", json_array_size(list) > which->limit, "connections", list);
	if (json_array_size(list) > which->limit)
		json_array_remove(list, which->limit);
	json_decref(list);
	return 0;
}
