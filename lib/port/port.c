/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/internal.h"

#include <errno.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

enum {
	AF_PACKET_FRAMES = 2048, /* of each queue and direction */
	ARGUMENT_BYTES = CONFIG_TEXT_MAX + 160,
};

static bool is_driver(const struct config_port *config, const char *driver)
{
	return strcmp(config->device, driver) == 0;
}

bool port_is_af_packet(const struct config_port *config)
{
	return is_driver(config, "net_af_packet");
}

bool port_is_af_xdp(const struct config_port *config)
{
	return is_driver(config, "net_af_xdp");
}

bool port_is_virtio_user(const struct config_port *config)
{
	return strncmp(config->device, "net_virtio_user", strlen("net_virtio_user")) == 0;
}

bool port_takes_any_memory(const struct config_port *config)
{
	return port_is_af_packet(config) || port_is_af_xdp(config) || is_driver(config, "net_memif");
}

bool port_can_close(const struct config_port *config)
{
	return !port_is_af_xdp(config);
}

bool port_needs_rest(const struct config_port *config)
{
	/* These two drivers copy frames, and only in their bursts. Other drivers fill their rings when they start, and
	 * empty them when they stop. */
	return !port_is_af_packet(config) && !is_driver(config, "net_memif");
}

bool port_is_pci(const struct config_port *config)
{
	return is_driver(config, "pci");
}

/* Whether the configuration's options contain a device argument; then ours is omitted. */
static bool has_option(const char *options, const char *key)
{
	const size_t bytes = strlen(key);

	for (const char *p = options; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
		if (strncmp(p, key, bytes) == 0 && p[bytes] == '=')
			return true;
	return false;
}

static void __attribute__((format(printf, 4, 5)))
argument(char *text, const char *options, const char *key, const char *format, ...)
{
	const size_t used = strlen(text);
	int bytes;
	va_list list;

	if (has_option(options, key))
		return;
	bytes = snprintf(text + used, ARGUMENT_BYTES - used, "%s%s=", used ? "," : "", key);
	va_start(list, format);
	vsnprintf(text + used + bytes, ARGUMENT_BYTES - used - (size_t)bytes, format, list);
	va_end(list);
}

static void device_arguments(const struct config_port *config, uint16_t queues, char *text)
{
	const char *options = config->options;
	size_t used;

	text[0] = '\0';
	if (config->interface[0])
		argument(text, options, "iface", "%s", config->interface);
	if (port_is_af_packet(config)) {
		const uint32_t frame = port_frame_bytes(config->mtu);

		argument(text, options, "qpairs", "%u", queues);
		/* The driver treats the frames of all blocks as one array, so a block must have a whole number of
		 * them. */
		argument(text, options, "framesz", "%u", frame);
		argument(text, options, "blocksz", "%u", 4 * frame);
		argument(text, options, "framecnt", "%u", AF_PACKET_FRAMES);
	}
	if (port_is_af_xdp(config)) {
		argument(text, options, "start_queue", "0");
		argument(text, options, "queue_count", "%u", queues);
	}
	used = strlen(text);
	snprintf(text + used, ARGUMENT_BYTES - used, "%s%s", used && options[0] ? "," : "", options);
}

/* Makes the device known to DPDK. PCI devices were probed when the EAL was started. */
static int attach_device(struct port *port, const struct config_port *config, unsigned index)
{
	char arguments[ARGUMENT_BYTES];
	int ret;

	if (port_is_pci(config)) {
		snprintf(port->name, sizeof(port->name), "%s", config->pci);
	} else {
		snprintf(port->name, sizeof(port->name), "%s%u", config->device, index);
		device_arguments(config, port->queues, arguments);
		ret = port_hotplug(port->name, arguments);
		if (ret)
			return ret;
	}
	return rte_eth_dev_get_port_by_name(port->name, &port->id);
}

static void detach_device(struct port *port)
{
	struct rte_eth_dev_info info;

	if (rte_eth_dev_info_get(port->id, &info) != 0)
		return;
	rte_eth_dev_close(port->id);
	rte_dev_remove(info.device);
}

static void fill_conf(struct rte_eth_conf *conf, const struct rte_eth_dev_info *info, const struct port *port,
		      const struct config_port *config, bool interrupts)
{
	/* A kernel interface has its MTU already, and the kernel knows more about it than the drivers. */
	const bool kernel = port_is_af_packet(config) || port_is_af_xdp(config);

	memset(conf, 0, sizeof(*conf));
	conf->rxmode.mtu = kernel && config->mtu > RTE_ETHER_MTU ? RTE_ETHER_MTU : config->mtu;
	conf->intr_conf.rxq = interrupts;
	if (port->queues > 1 && info->flow_type_rss_offloads) {
		conf->rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf->rx_adv_conf.rss_conf.rss_hf =
			info->flow_type_rss_offloads & (RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP);
	}
}

/* Makes the NIC's VLAN filter, if it was requested, accept the port's VLAN, or all. */
static void set_vlan(const struct port *port, const struct config_port *config, uint64_t offloads)
{
	int ret = 0;

	if (!(offloads & RTE_ETH_RX_OFFLOAD_VLAN_FILTER))
		return;
	ret = rte_eth_dev_vlan_filter(port->id, config->vlan, 1);
	if (ret == 0)
		return;
	rte_eth_dev_set_vlan_offload(port->id, rte_eth_dev_get_vlan_offload(port->id) & ~RTE_ETH_VLAN_FILTER_OFFLOAD);
	log_warn("port %s: the NIC's filter does not take VLAN %u (%s)", port->name, config->vlan, rte_strerror(-ret));
}

/* Configures and starts the port; on failure *step names what could not be done. */
static int start_with(struct port *port, const struct config_port *config, struct rte_mempool *const *pools,
		      bool interrupts, const char **step)
{
	uint16_t rx, tx = CONFIG_DESCRIPTORS;
	struct rte_eth_dev_info info;
	struct rte_eth_conf conf;
	int ret;

	*step = "describe itself";
	ret = rte_eth_dev_info_get(port->id, &info);
	if (ret)
		return ret;
	*step = "offer a queue pair for each reactor";
	if (info.max_rx_queues < port->queues || info.max_tx_queues < port->queues)
		return -ERANGE;
	fill_conf(&conf, &info, port, config, interrupts);
	port_choose_offloads(port, config, &info, &conf);
	rx = port_receive_descriptors(&info);
	*step = "be configured";
	ret = rte_eth_dev_configure(port->id, port->queues, port->queues, &conf);
	if (!ret)
		ret = rte_eth_dev_adjust_nb_rx_tx_desc(port->id, &rx, &tx);
	if (ret)
		return ret;
	*step = "set up its queues";
	for (uint16_t queue = 0; queue < port->queues; queue++) {
		ret = rte_eth_rx_queue_setup(port->id, queue, rx, rte_eth_dev_socket_id(port->id), NULL, pools[queue]);
		if (!ret)
			ret = rte_eth_tx_queue_setup(port->id, queue, tx, rte_eth_dev_socket_id(port->id), NULL);
		if (ret)
			return ret;
	}
	*step = "start";
	ret = rte_eth_dev_start(port->id);
	if (ret)
		return ret;
	set_vlan(port, config, conf.rxmode.offloads);
	*step = "tell its address";
	ret = rte_eth_macaddr_get(port->id, &port->mac);
	if (ret)
		rte_eth_dev_stop(port->id);
	return ret;
}

static int start_device(struct port *port, const struct config_port *config, struct rte_mempool *const *pools,
			const char **step)
{
	int ret = start_with(port, config, pools, port_is_pci(config), step);

	/* Some drivers have no interrupt per queue, or not with the kernel driver to which the NIC is bound, and then
	 * do not start with them: virtio and ENA under uio. An idle reactor's sleep is then ended by a timer. */
	if (ret && port_is_pci(config))
		ret = start_with(port, config, pools, false, step);
	return ret;
}

static int check_port_arguments(const struct config_port *config, unsigned index, struct rte_mempool *const *pools,
				uint16_t queues, struct star_error *err)
{
	if (queues == 0 || queues > PORT_QUEUES_MAX)
		return star_error_set(err, -EINVAL, "port %u: %u queues requested; 1 to %u are possible", index, queues,
				      PORT_QUEUES_MAX);
	if (config->mtu > UINT16_MAX)
		return star_error_set(err, -EINVAL, "port %u: an mtu of %u is beyond %u", index, config->mtu,
				      UINT16_MAX);
	if (index >= PORT_NUMBERS_MAX)
		return star_error_set(err, -EINVAL, "port %u: the number is out of range; allowed: 0 to %u", index,
				      PORT_NUMBERS_MAX - 1);
	for (uint16_t queue = 0; port_is_af_xdp(config) && queue < queues; queue++)
		if (pools[queue]->size < CONFIG_AF_XDP_MBUFS + CONFIG_OWN_MBUFS)
			return star_error_set(
				err, -EINVAL,
				"port %u: net_af_xdp keeps 2048 packet buffers of each reactor for itself, "
				"and there are %u: set memory.mbufs to %u or more",
				index, pools[queue]->size, CONFIG_AF_XDP_MBUFS + CONFIG_OWN_MBUFS);
	if (port_is_af_xdp(config) && !port_mempool_is_whole())
		return star_error_set(
			err, -EINVAL,
			"port %u: net_af_xdp needs packet buffers without gaps, and those of a node with NICs "
			"have some: start the node with such a port",
			index);
	/* Its other end maps DPDK's memory. */
	if (port_is_virtio_user(config) && port_mempool_is_ordinary())
		return star_error_set(err, -EINVAL,
				      "port %u: net_virtio_user needs packet buffers that can be shared, and those of "
				      "this node cannot "
				      "be: start the node with such a port, or with hugepages",
				      index);
	if (port_is_af_packet(config) || port_is_af_xdp(config)) {
		const int ret = port_interface_check(config, index, err);

		if (ret)
			return ret;
	}
	if (port_frame_bytes(config->mtu) + RTE_PKTMBUF_HEADROOM > rte_pktmbuf_data_room_size(pools[0]))
		return star_error_set(
			err, -EINVAL,
			"port %u: an mtu of %u is beyond what this node's packet buffers hold: they are made "
			"for the largest mtu of the configuration's ports; lower it, or start the node with "
			"such a port",
			index, config->mtu);
	return 0;
}

static int refuse_port(const struct config_port *config, unsigned index, const char *step, const char *cause, int code,
		       struct star_error *err)
{
	const char *what = port_is_pci(config) ? config->pci : config->interface, *hint = "";
	const int numa = port_numa_of_device(config);
	char pages[192];

	if (code == -ERANGE && !cause[0])
		cause = "its driver has fewer; lower cores.number";
	if (port_is_pci(config) && code == -ENODEV) {
		hint = ": bind it to a DPDK driver with `scripts/bind-nic`";
		if (!cause[0])
			cause = port_eal_said;
	}
	/* Its driver allocates its own memory on the NIC's NUMA node only. */
	if (numa >= 0 && rte_eal_has_hugepages() && !port_numa_has_hugepages(numa)) {
		snprintf(pages, sizeof(pages),
			 ": NUMA node %d, where it is, has no free hugepages: reserve some there "
			 "(/sys/devices/system/node/node%d/hugepages)",
			 numa, numa);
		hint = pages;
	}
	if (port_is_af_xdp(config))
		hint = ": the interface needs a queue for each reactor (`ethtool -L`), and may have no other XDP "
		       "program (`ip link show`)";
	return star_error_set(err, code, "port %u: %s%s%s cannot %s (%s)%s", index, config->device,
			      what[0] ? " on " : "", what, step, cause[0] ? cause : rte_strerror(-code), hint);
}

static void close_senders(struct port *port, unsigned n)
{
	while (n--)
		close(port->send_fds[n]);
	port->sends_itself = false;
}

static int open_senders(struct port *port, const struct config_port *config)
{
	const bool bypass = !strstr(config->options, "qdisc_bypass=0"); /* the option of the driver */

	for (uint16_t queue = 0; queue < port->queues; queue++) {
		port->send_fds[queue] = port_packet_open(config->interface, bypass);
		if (port->send_fds[queue] < 0) {
			close_senders(port, queue);
			return port->send_fds[queue];
		}
	}
	port->sends_itself = true;
	return 0;
}

static void close_cutting(struct port *port, unsigned n)
{
	while (n--)
		close(port->cutting_fds[n]);
	port->offloads &= ~(uint32_t)OFFLOAD_TX_TSO;
}

/* The driver's sockets must ignore outgoing frames, because all sockets on the interface receive what the kernel
 * segments. */
static void open_cutting(struct port *port, const struct config_port *config)
{
	if (config->vlan || !(port->offloads & OFFLOAD_TX_SEGMENTS))
		return;
	for (uint16_t queue = 0; queue < port->queues; queue++) {
		port->cutting_fds[queue] = port_packet_deafen(port->wait_fds[queue]) == 0
						   ? port_packet_open_cutting(config->interface)
						   : -1;
		if (port->cutting_fds[queue] < 0) {
			close_cutting(port, queue);
			return;
		}
	}
	port->offloads |= OFFLOAD_TX_TSO;
}

/* Opens it by DPDK; 0, or a negative errno with a message. */
static int open_device(struct port *port, const struct config_port *config, unsigned number,
		       struct rte_mempool *const *pools, uint16_t data_port, struct star_error *err)
{
	const char *step = "be opened";
	struct port_chatter chatter;
	struct port_sockets before;
	bool attached;
	char cause[256];
	int ret;

	port_sockets_find(config, &before);
	port_chatter_begin(&chatter);
	ret = attach_device(port, config, number);
	attached = ret == 0;
	if (attached)
		ret = start_device(port, config, pools, &step);
	if (ret == 0 && port_is_af_packet(config)) {
		step = "be sent through";
		ret = open_senders(port, config);
		if (ret)
			rte_eth_dev_stop(port->id);
	}
	if (attached && ret)
		detach_device(port);
	else if (attached)
		port_steer(port, data_port);
	port_chatter_end(&chatter, cause, sizeof(cause));
	if (ret)
		return refuse_port(config, number, step, cause, ret, err);
	port_wait_init(port, config, &before);
	port_watch(port);
	if (port->sends_itself)
		open_cutting(port, config);
	port_join_groups(port, config);
	return 0;
}

/* Opens our own memif. If a worker sends to the queue of the reactor that it addresses, the node need not hand frames
 * over. */
static int open_memif(struct port *port, const struct config_port *config, unsigned number,
		      struct rte_mempool *const *pools, struct star_error *err)
{
	struct star_error why = { 0 };

	snprintf(port->name, sizeof(port->name), "%s%u", config->device, number);
	port->id = (uint16_t)(RTE_MAX_ETHPORTS + number);
	if (strstr(config->options, "role=client"))
		port->worker = memif_worker_open(config, port->id, pools[0], &why);
	else
		port->memif = memif_open(config, port->name, port->id, pools, port->queues, &why);
	if (!port->memif && !port->worker)
		return star_error_set(err, why.code, "port %s: %s", port->name, why.text);
	if (port->memif)
		memif_mac(port->memif, &port->mac);
	else
		memif_worker_mac(port->worker, &port->mac);
	port->groups_fd = -1;
	port->offloads = OFFLOAD_MEMORY;
	port->steers = port->queues == 1 ? PORT_ONE_QUEUE : PORT_HANDS_OVER;
	for (uint16_t queue = 0; queue < port->queues; queue++)
		port->wait_fds[queue] = port->memif ? memif_wait_fd(port->memif, queue) : -1;
	return 0;
}

struct port *port_open(const struct config_port *config, unsigned number, struct rte_mempool *const *pools,
		       uint16_t queues, uint16_t data_port, struct star_error *err)
{
	struct port *port;
	int ret;

	if (check_port_arguments(config, number, pools, queues, err) != 0)
		return NULL;
	port = calloc(1, sizeof(*port));
	if (!port) {
		star_error_set(err, -ENOMEM, "port %u: no memory", number);
		return NULL;
	}
	port->queues = queues;
	port->mtu = (uint16_t)config->mtu;
	if (port_is_af_packet(config) || port_is_af_xdp(config)) {
		strcpy(port->interface, config->interface);
		port->interface_index = if_nametoindex(port->interface);
	}
	ret = is_driver(config, "net_memif") ? open_memif(port, config, number, pools, err)
					     : open_device(port, config, number, pools, data_port, err);
	if (ret == 0)
		return port;
	free(port);
	return NULL;
}

int port_reset(struct port *port, const struct config_port *config, struct rte_mempool *const *pools,
	       struct star_error *err)
{
	const char *step = "be reset";
	struct port_chatter chatter;
	char cause[256];
	int ret;

	port_leave_groups(port);
	port_chatter_begin(&chatter);
	rte_eth_dev_stop(port->id);
	ret = rte_eth_dev_reset(port->id);
	if (ret == 0)
		ret = start_device(port, config, pools, &step);
	if (ret == 0)
		port_steer_again(port);
	port_chatter_end(&chatter, cause, sizeof(cause));
	if (ret)
		return star_error_set(err, ret, "port %s cannot %s (%s)", port->name, step,
				      cause[0] ? cause : rte_strerror(-ret));
	port_wait_init(port, config, &(struct port_sockets){ .count = 0 });
	port_join_groups(port, config);
	__atomic_store_n(&port->state, PORT_WORKS, __ATOMIC_RELAXED);
	return 0;
}

static void shut(struct port *port)
{
	port_unwatch(port);
	port_leave_groups(port);
	rte_eth_dev_stop(port->id);
	detach_device(port);
	port->shut = true;
}

void port_gone(struct port *port)
{
	port->gone = true;
}

void port_shut(struct port *port, struct port_strays *strays)
{
	struct port_chatter chatter;
	char cause[256];

	port_chatter_listen(&chatter);
	port_strays_begin(strays);
	shut(port);
	port_strays_end();
	port_chatter_end(&chatter, cause, sizeof(cause));
	if (cause[0])
		log_debug("port %s: %s", port->name, cause);
}

static void close_quietly(struct port *port)
{
	struct port_chatter chatter;
	char cause[256];

	port_chatter_begin(&chatter);
	shut(port);
	port_chatter_end(&chatter, cause, sizeof(cause));
	if (cause[0])
		log_debug("port %s: %s", port->name, cause);
}

void port_close(struct port *port)
{
	if (!port)
		return;
	if (port->memif || port->worker) {
		if (port->memif)
			memif_close(port->memif);
		else
			memif_worker_close(port->worker);
		free(port);
		return;
	}
	if (port->sends_itself && port->offloads & OFFLOAD_TX_TSO)
		close_cutting(port, port->queues);
	if (port->sends_itself)
		close_senders(port, port->queues);
	if (!port->shut)
		close_quietly(port);
	free(port);
}

bool port_link(struct port *port)
{
	struct rte_eth_link link = { 0 };

	if (port->gone)
		return false;
	if (port->worker)
		return memif_worker_link(port->worker);
	return port->memif ? memif_connected(port->memif)
			   : rte_eth_link_get_nowait(port->id, &link) != 0 || link.link_status;
}

bool port_carrier(struct port *port)
{
	return port->interface[0] ? port_interface_link(port) : port_link(port);
}

void port_on_gone(struct port *port, void (*gone)(void *ctx, uint16_t id), void *ctx)
{
	if (port->memif)
		memif_on_gone(port->memif, gone, ctx);
}
