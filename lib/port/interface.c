/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of kernel interfaces for net_af_packet and net_af_xdp. */
#include "port/internal.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"

static const struct {
	uint32_t command;
	const char *name;
	bool veth_only; /* only matters if the peer is this machine's kernel, which trusts the checksums of local
			 * senders */
} offloads[] = {
	{ ETHTOOL_GTXCSUM, "tx", true },
	{ ETHTOOL_GTSO, "tso", true },
	{ ETHTOOL_GGSO, "gso", true },
	{ ETHTOOL_GGRO, "gro", false },
};

static bool is_veth(int fd, struct ifreq *request)
{
	struct ethtool_drvinfo info = { .cmd = ETHTOOL_GDRVINFO };

	request->ifr_data = (char *)&info;
	return ioctl(fd, SIOCETHTOOL, request) == 0 && strcmp(info.driver, "veth") == 0;
}

static void warn_of_offloads(int fd, struct ifreq *request, unsigned index)
{
	const bool veth = is_veth(fd, request);
	char on[64] = "", off[64] = "";

	for (size_t i = 0; i < sizeof(offloads) / sizeof(offloads[0]); i++) {
		struct ethtool_value value = { .cmd = offloads[i].command };
		const size_t on_bytes = strlen(on), off_bytes = strlen(off);

		request->ifr_data = (char *)&value;
		if ((offloads[i].veth_only && !veth) || ioctl(fd, SIOCETHTOOL, request) != 0 || !value.data)
			continue;
		snprintf(on + on_bytes, sizeof(on) - on_bytes, "%s%s", on_bytes ? ", " : "", offloads[i].name);
		snprintf(off + off_bytes, sizeof(off) - off_bytes, " %s off", offloads[i].name);
	}
	if (on[0])
		log_warn("port %u: %s has the offloads %s on, so that frames without checksum or above its mtu can "
			 "arrive: run `ethtool -K %s%s`%s",
			 index, request->ifr_name, on, request->ifr_name, off, veth ? " on both ends of the pair" : "");
}

static int check_interface(int fd, const struct config_port *config, unsigned index, struct star_error *err)
{
	struct ifreq request = { 0 };

	memcpy(request.ifr_name, config->interface, strlen(config->interface));
	if (ioctl(fd, SIOCGIFFLAGS, &request) != 0)
		return star_error_set(err, -errno,
				      "port %u: there is no interface \"%s\": `ip link` lists all of them, "
				      "`scripts/testnet up NAME` makes a pair for tests",
				      index, config->interface);
	if (!(request.ifr_flags & IFF_UP))
		return star_error_set(err, -ENETDOWN, "port %u: interface %s is down: run `ip link set %s up`", index,
				      config->interface, config->interface);
	if (ioctl(fd, SIOCGIFMTU, &request) != 0)
		return star_error_set(err, -errno, "port %u: the mtu of %s cannot be read: %m", index,
				      config->interface);
	if ((uint32_t)request.ifr_mtu < config->mtu)
		return star_error_set(err, -EINVAL,
				      "port %u: interface %s has an mtu of %d, but the configuration needs %u: run "
				      "`ip link set %s mtu %u`, or lower the port's mtu",
				      index, config->interface, request.ifr_mtu, config->mtu, config->interface,
				      config->mtu);
	warn_of_offloads(fd, &request, index);
	return 0;
}

int port_interface_check(const struct config_port *config, unsigned index, struct star_error *err)
{
	int fd, ret;

	if (!config->interface[0])
		return star_error_set(err, -EINVAL,
				      "port %u: %s needs the name of a kernel interface (interface = ...)", index,
				      config->device);
	if (strlen(config->interface) >= IFNAMSIZ)
		return star_error_set(err, -EINVAL, "port %u: \"%s\" is longer than an interface's name can be (%d)",
				      index, config->interface, IFNAMSIZ - 1);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return star_error_set(err, -errno, "port %u: cannot open a socket to check %s: %m", index,
				      config->interface);
	ret = check_interface(fd, config, index, err);
	close(fd);
	return ret;
}

/* Opens a socket for the interface with this name; -1: there is none, or a different one now. */
static int open_interface(const struct port *port, struct ifreq *request)
{
	const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	memcpy(request->ifr_name, port->interface, sizeof(request->ifr_name));
	if (fd >= 0 && ioctl(fd, SIOCGIFINDEX, request) == 0 && (unsigned)request->ifr_ifindex == port->interface_index)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

bool port_interface_is_there(const struct port *port)
{
	struct ifreq request = { 0 };
	const int fd = open_interface(port, &request);

	if (fd < 0)
		return errno == EMFILE || errno == ENFILE; /* in that case it is unknown */
	close(fd);
	return true;
}

bool port_interface_link(const struct port *port)
{
	struct ethtool_value carrier = { .cmd = ETHTOOL_GLINK };
	struct ifreq request = { 0 };
	const int fd = open_interface(port, &request);
	bool up;

	if (fd < 0)
		return errno == EMFILE || errno == ENFILE;
	up = ioctl(fd, SIOCGIFFLAGS, &request) == 0 && request.ifr_flags & IFF_UP;
	if (up) {
		up = request.ifr_flags & IFF_RUNNING;
		/* The flag is updated a moment later. Not every driver reports it. */
		request.ifr_data = (char *)&carrier;
		if (ioctl(fd, SIOCETHTOOL, &request) == 0)
			up = carrier.data != 0;
	}
	close(fd);
	return up;
}
