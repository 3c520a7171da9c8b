/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How flows reach their reactor without a hand-over: by a flow rule for each data port, if the NIC supports that;
 * otherwise by the client's choice of source port, for which the key and the table of the NIC's own hash are read here.
 * If neither is possible, software hands frames over.
 */
#include "port/internal.h"

#include <errno.h>
#include <rte_errno.h>
#include <rte_flow.h>
#include <string.h>

#include "base/log.h"

/* TCP or UDP, over IPv4 or IPv6, with this destination port: to one queue. */
static struct rte_flow *make_rule(uint16_t port, uint16_t queue, uint16_t data_port, enum rte_flow_item_type ip,
				  enum rte_flow_item_type transport)
{
	/* TCP and UDP have their ports at the same offset, and the items' structs begin with the headers. */
	const struct rte_flow_item_tcp tcp = { .hdr.dst_port = rte_cpu_to_be_16(data_port) },
				       tcp_mask = { .hdr.dst_port = RTE_BE16(0xffff) };
	const struct rte_flow_item_udp udp = { .hdr.dst_port = rte_cpu_to_be_16(data_port) },
				       udp_mask = { .hdr.dst_port = RTE_BE16(0xffff) };
	const bool is_tcp = transport == RTE_FLOW_ITEM_TYPE_TCP;
	const struct rte_flow_item pattern[] = {
		{ .type = RTE_FLOW_ITEM_TYPE_ETH },
		{ .type = ip },
		{ .type = transport,
		  .spec = is_tcp ? (const void *)&tcp : &udp,
		  .mask = is_tcp ? (const void *)&tcp_mask : &udp_mask },
		{ .type = RTE_FLOW_ITEM_TYPE_END },
	};
	const struct rte_flow_action_queue to = { .index = queue };
	const struct rte_flow_action actions[] = { { .type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &to },
						   { .type = RTE_FLOW_ACTION_TYPE_END } };
	const struct rte_flow_attr attributes = { .ingress = 1 };
	struct rte_flow_error error;

	return rte_flow_create(port, &attributes, pattern, actions, &error);
}

/* All rules or none: with half of them, flows would arrive in unexpected queues. */
static bool make_rules(uint16_t id, uint16_t queues, uint16_t data_port)
{
	static const enum rte_flow_item_type ips[] = { RTE_FLOW_ITEM_TYPE_IPV4, RTE_FLOW_ITEM_TYPE_IPV6 },
					     transports[] = { RTE_FLOW_ITEM_TYPE_TCP, RTE_FLOW_ITEM_TYPE_UDP };
	struct rte_flow_error error;

	for (uint16_t queue = 0; queue < queues; queue++)
		for (unsigned i = 0; i < 4; i++)
			if (!make_rule(id, queue, (uint16_t)(data_port + queue), ips[i / 2], transports[i % 2])) {
				rte_flow_flush(id, &error);
				return false;
			}
	return true;
}

/* Makes each entry of the NIC's table name its queue. */
static int write_table(uint16_t id, const struct steering *s)
{
	struct rte_eth_rss_reta_entry64 table[STEERING_TABLE_MAX / RTE_ETH_RETA_GROUP_SIZE];

	for (unsigned i = 0; i < s->entries; i++) {
		table[i / RTE_ETH_RETA_GROUP_SIZE].mask = UINT64_MAX;
		table[i / RTE_ETH_RETA_GROUP_SIZE].reta[i % RTE_ETH_RETA_GROUP_SIZE] = s->table[i];
	}
	return rte_eth_dev_rss_reta_update(id, table, (uint16_t)s->entries);
}

/* Reads key and table of a NIC that hashes TCP by Toeplitz; false: it cannot report them, or they are larger than what
 * can be published. */
static bool read_rss(uint16_t id, uint16_t queues, const struct rte_eth_dev_info *info, struct steering *s)
{
	struct rte_eth_rss_reta_entry64 table[STEERING_TABLE_MAX / RTE_ETH_RETA_GROUP_SIZE];
	/* 0: the driver does not say, and means the standard 40 bytes. */
	const uint8_t key_bytes = info->hash_key_size ? info->hash_key_size : 40;
	struct rte_eth_rss_conf rss = { .rss_key = s->key, .rss_key_len = key_bytes };

	if (info->reta_size == 0 || info->reta_size > STEERING_TABLE_MAX || info->reta_size & (info->reta_size - 1) ||
	    info->reta_size % RTE_ETH_RETA_GROUP_SIZE || key_bytes < 40 || key_bytes > STEERING_KEY_MAX ||
	    rte_eth_dev_rss_hash_conf_get(id, &rss) != 0 || !(rss.rss_hf & RTE_ETH_RSS_NONFRAG_IPV4_TCP))
		return false;
	/* Evenly; if the table cannot be changed, it is used as it is. */
	s->entries = info->reta_size;
	for (unsigned i = 0; i < s->entries; i++)
		s->table[i] = (uint8_t)(i % queues);
	write_table(id, s);
	memset(table, 0, sizeof(table));
	for (unsigned i = 0; i < info->reta_size; i += RTE_ETH_RETA_GROUP_SIZE)
		table[i / RTE_ETH_RETA_GROUP_SIZE].mask = UINT64_MAX;
	if (rte_eth_dev_rss_reta_query(id, table, info->reta_size) != 0)
		return false;
	for (unsigned i = 0; i < info->reta_size; i++) {
		const uint16_t queue = table[i / RTE_ETH_RETA_GROUP_SIZE].reta[i % RTE_ETH_RETA_GROUP_SIZE];

		if (queue >= queues)
			return false;
		s->table[i] = (uint8_t)queue;
	}
	s->key_bytes = key_bytes;
	return true;
}

void port_steer(struct port *port, uint16_t data_port)
{
	struct rte_eth_dev_info info;

	port->steering = (struct steering){ 0 };
	port->data_port = data_port;
	port->steers = PORT_HANDS_OVER;
	if (port->queues == 1)
		port->steers = PORT_ONE_QUEUE;
	else if (data_port && make_rules(port->id, port->queues, data_port))
		port->steers = PORT_RULES;
	else if (rte_eth_dev_info_get(port->id, &info) == 0 && read_rss(port->id, port->queues, &info, &port->steering))
		port->steers = PORT_SOURCE_PORTS;
	if (port->steers != PORT_SOURCE_PORTS)
		port->steering.entries = 0; /* a table that was read incompletely is not used */
}

void port_steer_again(struct port *port)
{
	struct steering *s = &port->steering;
	struct rte_eth_rss_conf rss = { .rss_key = s->key, .rss_key_len = s->key_bytes };
	struct rte_eth_rss_conf now = { 0 };
	int ret = 0;

	if (port->steers == PORT_RULES)
		ret = make_rules(port->id, port->queues, port->data_port) ? 0 : -ENOTSUP;
	if (port->steers == PORT_SOURCE_PORTS) {
		/* Some choose another key each time (iavf). */
		ret = rte_eth_dev_rss_hash_conf_get(port->id, &now);
		rss.rss_hf = now.rss_hf;
		if (ret == 0)
			ret = rte_eth_dev_rss_hash_update(port->id, &rss);
		if (ret == 0)
			ret = write_table(port->id, s);
	}
	if (ret == 0)
		return;
	port->steers = PORT_HANDS_OVER;
	log_warn("port %s: since its reset the device does not steer flows as before (%s): the node hands them over in "
		 "software",
		 port->name, rte_strerror(-ret));
}

const char *port_steers_text(enum port_steers how)
{
	switch (how) {
	case PORT_ONE_QUEUE:
		return "one queue";
	case PORT_RULES:
		return "flow rules";
	case PORT_SOURCE_PORTS:
		return "the client's source ports";
	case PORT_HANDS_OVER:
		break;
	}
	return "hand-over in software";
}
