/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/load.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "config/check.h"

static bool is_ps(const struct config *c)
{
	return !strcmp(c->job_name, "ps");
}

static bool is_loopback(const char *host)
{
	struct in6_addr v6;
	struct in_addr v4;

	if (inet_pton(AF_INET, host, &v4) == 1)
		return ntohl(v4.s_addr) >> 24 == 127;
	return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

/* Address and port are separate options, so an IPv6 address stands here without brackets. */
static int check_metrics(struct config_load *load, struct star_error *err)
{
	const char *address = load->config->metrics_address;
	struct in6_addr v6;
	struct in_addr v4;

	if (inet_pton(AF_INET, address, &v4) == 1 || inet_pton(AF_INET6, address, &v6) == 1)
		return 0;
	return config_fail(
		config_check_origin(load, "metrics.address"), err,
		"metrics.address = \"%.45s\" is not an IP address: give an IPv4 or IPv6 address of this machine's "
		"kernel, without a port, as in \"127.0.0.1\" or \"::1\"; 0.0.0.0 or :: means all of them",
		address);
}

static int check_security(struct config_load *load, struct star_error *err)
{
	const struct config *c = load->config;

	if (c->security_control_principal[0] && !c->security_control_keys[0])
		return config_fail(config_check_origin(load, "security.control_principal"), err,
				   "security.control_principal names a principal of a key file, and there is none: set "
				   "security.control_keys");
	if (c->security_data != CONFIG_DATA_OPEN && !c->security_control_keys[0])
		return config_fail(
			config_check_origin(load, "security.data"), err,
			"security.data needs tickets, which only principals with a key get: set security.control_keys");
	if (c->security_rights[0] && c->security_data == CONFIG_DATA_OPEN)
		return config_fail(config_check_origin(load, "security.rights"), err,
				   "security.rights needs tickets, and security.data is \"open\": set it to \"sealed\" "
				   "or \"checked\"");
	if (c->security_require && (!c->security_control_keys[0] || c->security_data == CONFIG_DATA_OPEN))
		return config_fail(config_check_origin(load, "security.require"), err,
				   "security.require asks for a key everywhere: set %s",
				   c->security_control_keys[0] ? "security.data to \"sealed\" or \"checked\""
							       : "security.control_keys and security.data");
	if (c->security_require && c->metrics_port && !is_loopback(c->metrics_address))
		return config_fail(
			config_check_origin(load, "metrics.address"), err,
			"security.require does not allow metrics.port on an address that others can reach, because it "
			"shows table names without a key: set metrics.address to 127.0.0.1 or ::1, and put a proxy "
			"that asks for a password in front of it; or use `starctl --key FILE metrics`");
	return 0;
}

static int check_node(struct config_load *load, struct star_error *err)
{
	const struct config *c = load->config;
	const struct config_origin *origin = config_check_origin(load, "node.task_index");
	bool chief = !strcmp(c->job_name, "chief");
	uint32_t tasks = chief ? 1 : is_ps(c) ? c->ps_count : c->workers_count;

	if (!c->ps_count)
		return config_fail(
			config_check_origin(load, "cluster.ps"), err,
			"cluster.ps is empty; list the control address of each PS task, as in cluster = { ps = [ "
			"\"198.18.1.1:3333\" ]; }; in the file of -c, or with --set cluster.ps=198.18.1.1:3333");
	if (c->task_index < tasks)
		return 0;
	if (!tasks)
		return config_fail(origin, err,
				   "this node is a worker, and cluster.worker is empty; list the workers' addresses");
	return config_fail(origin, err,
			   "node.task_index = %u is out of range: there are %u tasks of job %s; allowed: 0 to %u",
			   c->task_index, tasks, c->job_name, tasks - 1);
}

struct task {
	const struct config_address *address;
	const char *list;
	uint32_t index;
};

static int compare_tasks(const void *a, const void *b)
{
	const struct config_address *x = ((const struct task *)a)->address, *y = ((const struct task *)b)->address;

	return x->port != y->port ? (x->port > y->port) - (x->port < y->port) : strcasecmp(x->host, y->host);
}

static int check_cluster(struct config_load *load, struct star_error *err)
{
	const struct config *c = load->config;
	uint32_t count = c->ps_count + c->workers_count;
	struct task *tasks = malloc((count + c->ps_count) * sizeof(*tasks));
	int rc = 0;

	if (!tasks)
		return star_error_set(err, -ENOMEM, "no memory to check the cluster");
	for (uint32_t i = 0; i < count; i++)
		tasks[i] = i < c->ps_count
				   ? (struct task){ &c->ps[i], "cluster.ps", i }
				   : (struct task){ &c->workers[i - c->ps_count], "cluster.worker", i - c->ps_count };
	for (uint32_t i = 0; i < c->ps_count; i++)
		if (config_ps_address(c, i, true))
			tasks[count++] = (struct task){ config_ps_address(c, i, true), "cluster.ps", i };
	qsort(tasks, count, sizeof(*tasks), compare_tasks);
	for (uint32_t i = 1; !rc && i < count; i++)
		if (!compare_tasks(&tasks[i - 1], &tasks[i]))
			rc = config_fail(config_check_origin(load, tasks[i].list), err,
					 "%s is listed twice in the cluster, as %s[%u] and %s[%u]; give each task its "
					 "own address",
					 config_show(tasks[i].address->host, tasks[i].address->port).text,
					 tasks[i - 1].list, tasks[i - 1].index, tasks[i].list, tasks[i].index);
	free(tasks);
	return rc;
}

static uint32_t min2(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static int check_core_list(struct config_load *load, const uint32_t *usable, uint32_t usable_count,
			   struct star_error *err)
{
	struct config *c = load->config;
	const struct config_origin *origin = config_check_origin(load, "cores.list");

	for (uint32_t i = 0; i < c->cores_count; i++)
		for (uint32_t j = 0; j < i; j++)
			if (c->cores[i] == c->cores[j])
				return config_fail(origin, err,
						   "cores.list names core %u twice; give each reactor its own core",
						   c->cores[i]);
	for (uint32_t i = 0; c->pin && i < c->cores_count; i++) {
		uint32_t j = 0;

		while (j < usable_count && usable[j] != c->cores[i])
			j++;
		/* Cores that isolcpus= isolates are in no process's mask until it asks for them. */
		if (j == usable_count && !config_core_exists(c->cores[i]))
			return config_fail(origin, err,
					   "cores.list names core %u, which does not exist or is outside this "
					   "process's cpuset; it may use %u cores, from %u to %u",
					   c->cores[i], usable_count, usable[0], usable[usable_count - 1]);
	}
	if (c->pin && c->cores_count && c->cores_count < c->reactors)
		return config_fail(origin, err,
				   "cores.list names %u cores, but cores.number asks for %u pinned reactors: make them "
				   "equal, or leave cores.number out",
				   c->cores_count, c->reactors);
	return 0;
}

/* How many PS tasks with this node's control host come before it: these share the machine, and need other cores. */
static uint32_t neighbours_before(const struct config *c)
{
	uint32_t before = 0;

	for (uint32_t i = 0; is_ps(c) && i < c->task_index && i < c->ps_count; i++)
		before += strcmp(c->ps[i].host, config_own_control(c)->host) == 0;
	return before;
}

/* The cores of pinned reactors for which no list is given. */
static int choose_cores(struct config_load *load, const uint32_t *usable, uint32_t count, struct star_error *err)
{
	struct config *c = load->config;
	const uint32_t before = neighbours_before(c), first = before * c->reactors;

	if (first + c->reactors > count)
		return config_fail(config_check_origin(load, "cores.pin"), err,
				   "%u PS tasks of this machine come before this one, and with %u pinned reactors each "
				   "there is none left of the %u cores; give each node a cores.list, or fewer reactors",
				   before, c->reactors, count);
	memcpy(c->cores, usable + first, c->reactors * sizeof(*usable));
	return 0;
}

static int check_cores(struct config_load *load, struct star_error *err)
{
	struct config *c = load->config;
	/* 8192 is the largest NR_CPUS of any kernel; a list cannot name cores beyond it. */
	static const uint32_t room = 8192;
	uint32_t *usable = malloc(room * sizeof(*usable)), count, tasks = c->ps_count + c->workers_count;
	int rc;

	if (!usable)
		return star_error_set(err, -ENOMEM, "no memory to check the cores");
	count = config_cores(usable, room);
	if (!count) {
		free(usable);
		return star_error_set(err, -ENOSYS, "cannot read which cores this process may use (sched_getaffinity)");
	}
	if (!c->reactors && c->pin && c->cores_count)
		c->reactors = c->cores_count;
	else if (!c->reactors)
		c->reactors = min2(is_ps(c) ? 8 : 2, min2(tasks, count));
	/* A list is checked on its own, because it may name cores beyond those (isolcpus=). */
	if ((c->polling || c->pin) && !(c->pin && c->cores_count) && c->reactors > count)
		rc = config_fail(config_check_origin(load, "cores.number"), err,
				 "cores.number asks for %u %s reactors, but this process may use only %u cores; ask "
				 "for at most %u, or turn cores.polling and cores.pin off",
				 c->reactors, c->polling ? "polling" : "pinned", count, count);
	else
		rc = check_core_list(load, usable, count, err);
	if (!rc && c->pin) {
		if (!c->cores_count)
			rc = choose_cores(load, usable, count, err);
		c->cores_count = c->reactors;
	}
	free(usable);
	return rc;
}

/* Half of the mbufs may be held by requests, and half of those by one (lib/rpc). */
static int check_request(struct config_load *load, struct star_error *err)
{
	enum { ALWAYS_MIB = 4, HEADERS = 80 }; /* of IPv6, UDP and a session's packet */
	const struct config *c = load->config;
	uint32_t mtu = 9000, need;

	for (uint32_t i = 0; i < c->ports_count; i++)
		mtu = min2(mtu, c->ports[i].mtu);
	if (mtu < 2 * HEADERS)
		return 0; /* refused elsewhere */
	need = 4 * ((c->request_mib << 20) / (mtu - HEADERS) + 1);
	if (c->request_mib <= ALWAYS_MIB || need <= c->mbufs)
		return 0;
	return config_fail(config_check_origin(load, "limits.request_mib"), err,
			   "limits.request_mib = %u needs memory.mbufs of at least %u at an mtu of %u, and it is %u",
			   c->request_mib, need, mtu, c->mbufs);
}

/* Each reactor has a queue of every port, and drivers free transmitted mbufs only when their rings are full. */
static int check_rings(struct config_load *load, struct star_error *err)
{
	const struct config *c = load->config;
	uint32_t kept = 0;

	for (uint32_t i = 0; i < c->ports_count; i++) {
		if (!strcmp(c->ports[i].device, "pci"))
			kept += CONFIG_NIC_MBUFS;
		else if (!strcmp(c->ports[i].device, "net_af_xdp"))
			kept += CONFIG_AF_XDP_MBUFS;
	}
	if (kept == 0 || c->mbufs >= kept + CONFIG_OWN_MBUFS)
		return 0;
	return config_fail(config_check_origin(load, "memory.mbufs"), err,
			   "memory.mbufs = %u is too few: the rings of the ports keep up to %u packet buffers of each "
			   "reactor; set it to %u or more",
			   c->mbufs, kept, kept + CONFIG_OWN_MBUFS);
}

static void choose_control_socket(struct config *c)
{
	char folder[CONFIG_RUNTIME_MAX];

	config_runtime_folder(folder);
	snprintf(c->control_socket, sizeof(c->control_socket), "%s/%s-%u.sock", folder, c->job_name, c->task_index);
}

static void choose_records(struct config *c)
{
	const size_t length = strlen(c->control_socket);
	const bool ends = length > 5 && strcmp(c->control_socket + length - 5, ".sock") == 0;

	snprintf(c->metrics_records, sizeof(c->metrics_records), "%.*s.records", (int)(ends ? length - 5 : length),
		 c->control_socket);
}

/* A journal starts at a checkpoint. */
static int check_journal(struct config_load *load, struct star_error *err)
{
	const struct config *c = load->config;
	const struct config_origin *at = config_check_origin(load, "journal.directory");

	if (!c->journal_directory[0])
		return 0;
	if (!c->checkpoint_directory[0])
		return config_fail(at, err,
				   "a journal records the changes since a checkpoint: set checkpoint.directory, too");
	if (c->checkpoint_restore == CONFIG_RESTORE_NO)
		return config_fail(at, err,
				   "a journal is applied only when a checkpoint is restored: set checkpoint.restore to "
				   "good or latest");
	if (c->journal_limit_mib / c->reactors < 2 * c->journal_segment_mib)
		return config_fail(
			config_check_origin(load, "journal.limit_mib"), err,
			"journal.limit_mib = %u is less than two files of journal.segment_mib = %u for each of "
			"%u reactors",
			c->journal_limit_mib, c->journal_segment_mib, c->reactors);
	return 0;
}

/* etcd decides which of the two nodes serves. */
static int check_etcd(struct config_load *load, struct star_error *err)
{
	const struct config *c = load->config;

	if (c->standby_etcd_count && !c->standby_peer[0])
		return config_fail(config_check_origin(load, "standby.etcd"), err,
				   "standby.etcd is for the nodes of a pair: set standby.peer");
	for (const char *at = c->standby_etcd_key; *at; at++)
		if (*at <= ' ' || *at > '~')
			return config_fail(config_check_origin(load, "standby.etcd_key"), err,
					   "standby.etcd_key may have printable ASCII characters only, and no spaces");
	if (c->standby_etcd_count && !c->standby_etcd_key[0])
		return config_fail(
			config_check_origin(load, "standby.etcd_key"), err,
			"standby.etcd needs a key in etcd: set standby.etcd_key, for example to \"/starserver/ps/0\"");
	if (!c->standby_etcd_certificate[0] != !c->standby_etcd_private_key[0])
		return config_fail(
			config_check_origin(load, "standby.etcd_certificate"), err,
			"standby.etcd_certificate and standby.etcd_private_key need each other: set both, or neither");
	if (c->standby_etcd_certificate[0] && !c->standby_etcd_ca[0])
		return config_fail(config_check_origin(load, "standby.etcd_certificate"), err,
				   "standby.etcd_certificate is used with HTTPS only: set standby.etcd_ca");
	return 0;
}

/* A pair whose nodes keep journals. */
static int check_both(struct config_load *load, struct star_error *err)
{
	const struct config *c = load->config;

	if (!c->journal_directory[0])
		return 0;
	if (c->journal_durability != CONFIG_DURABILITY_ASYNC && c->journal_durability != c->standby_durability)
		return config_fail(config_check_origin(load, "journal.durability"), err,
				   "on a node with a standby, journal.durability says what replies wait for while the "
				   "standby is away: set it to the value of standby.durability, or to async");
	return 0;
}

/* Two nodes are one PS task, and each needs a directory of its own for its state. */
static int check_pair(struct config_load *load, struct star_error *err)
{
	const struct config *c = load->config;
	const struct config_origin *at = config_check_origin(load, "standby.peer");
	struct config_address address;
	struct star_error why;

	if (c->standby_second && !config_ps_address(c, c->task_index, true))
		return config_fail(config_check_origin(load, "standby.address"), err,
				   "standby.address is \"second\", but cluster.ps[%u] has one address only: give it "
				   "the addresses of both nodes, as in \"198.18.1.1:3333|198.18.1.2:3333\"",
				   c->task_index);
	if (!c->standby_peer[0] && is_ps(c) && config_ps_address(c, c->task_index, true))
		return config_fail(config_check_origin(load, "cluster.ps"), err,
				   "cluster.ps[%u] has the addresses of two nodes, so this node belongs to a pair: set "
				   "standby.peer",
				   c->task_index);
	if (!c->standby_peer[0])
		return 0;
	if (config_parse_address(c->standby_peer, &address, &why) < 0)
		return config_fail(at, err, "standby.peer: %.300s", why.text);
	if (config_parse_address(c->standby_listen, &address, &why) < 0)
		return config_fail(config_check_origin(load, "standby.listen"), err,
				   "a node of a pair listens for the other one, at standby.listen: %.300s", why.text);
	if (!strcmp(c->standby_peer, c->standby_listen))
		return config_fail(
			at, err,
			"standby.peer is this node's own standby.listen: give it the standby.listen of the other node");
	if (!c->standby_directory[0])
		return config_fail(at, err, "a node of a pair records its role on disk: set standby.directory");
	if (c->ps_count > 1 && !config_ps_address(c, c->task_index, true))
		return config_fail(
			config_check_origin(load, "cluster.ps"), err,
			"in a cluster of %u PS tasks, cluster.ps[%u] must have the addresses of both nodes of the "
			"pair, as in \"198.18.1.1:3333|198.18.1.2:3333\"; standby.address says which is this node's",
			c->ps_count, c->task_index);
	return check_both(load, err);
}

static bool is_same_path(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b);

	while (n > 1 && a[n - 1] == '/')
		n--;
	while (m > 1 && b[m - 1] == '/')
		m--;
	return n && n == m && !memcmp(a, b, n);
}

/* Each of the three locks its directory, so no two can share one. */
static int check_folders(struct config_load *load, struct star_error *err)
{
	const struct config *c = load->config;
	const struct {
		const char *name, *path;
	} folders[] = { { "checkpoint.directory", c->checkpoint_directory },
			{ "journal.directory", c->journal_directory },
			{ "standby.directory", c->standby_directory } };

	for (unsigned i = 1; i < 3; i++)
		for (unsigned j = 0; j < i; j++)
			if (is_same_path(folders[i].path, folders[j].path))
				return config_fail(config_check_origin(load, folders[i].name), err,
						   "%s and %s are both %.300s: each needs its own directory",
						   folders[i].name, folders[j].name, folders[i].path);
	return 0;
}

static int check_values(struct config_load *load, struct star_error *err)
{
	struct config *c = load->config;
	uint64_t least = (uint64_t)c->reactors + (is_ps(c) ? c->ps_count - 1 : 0);

	if (c->partitions & (c->partitions - 1))
		return config_fail(config_check_origin(load, "cluster.partitions"), err,
				   "cluster.partitions = %u is not a power of two; allowed: 1, 2, 4 ... 1048576",
				   c->partitions);
	if (c->partitions < least)
		return config_fail(
			config_check_origin(load, "cluster.partitions"), err,
			"cluster.partitions = %u is less than the number of reactors in the cluster, which is at least "
			"%llu (%u on this node, one on each other PS); allowed: a power of two from there to 1048576",
			c->partitions, (unsigned long long)least, c->reactors);
	if (config_check_origin(load, "checkpoint.restore")->source == SOURCE_DEFAULT)
		c->checkpoint_restore = c->checkpoint_directory[0] ? CONFIG_RESTORE_GOOD : CONFIG_RESTORE_NO;
	if (!c->checkpoint_directory[0] && (c->checkpoint_restore || c->checkpoint_every_s || c->checkpoint_on_stop))
		return config_fail(config_check_origin(load, c->checkpoint_restore   ? "checkpoint.restore"
							     : c->checkpoint_every_s ? "checkpoint.every_s"
										     : "checkpoint.on_stop"),
				   err, "checkpoints need a directory: set checkpoint.directory");
	if (c->checkpoint_key[0] && !c->checkpoint_directory[0])
		return config_fail(config_check_origin(load, "checkpoint.key"), err,
				   "checkpoint.key has no effect without checkpoints: set checkpoint.directory");
	if (c->checkpoint_delta_every_s && !c->checkpoint_log_mib)
		return config_fail(config_check_origin(load, "checkpoint.delta_every_s"), err,
				   "checkpoint.delta_every_s needs checkpoint.log_mib of at least 1");
	if (check_metrics(load, err) < 0 || check_security(load, err) < 0)
		return -EINVAL;
	if (check_journal(load, err) < 0 || check_etcd(load, err) < 0 || check_pair(load, err) < 0 ||
	    check_folders(load, err) < 0)
		return -EINVAL;
	if (c->rto_max_us < c->rto_min_us)
		return config_fail(
			config_check_origin(load, "tcp.rto_max_us"), err,
			"tcp.rto_max_us = %u is less than tcp.rto_min_us = %u; raise it, or lower the minimum",
			c->rto_max_us, c->rto_min_us);
	if (is_ps(c) && (check_request(load, err) < 0 || check_rings(load, err) < 0))
		return -EINVAL;
	if (!c->control_socket[0])
		choose_control_socket(c);
	if (!c->metrics_records[0])
		choose_records(c);
	return 0;
}

int config_load_check(struct config_load *load, struct star_error *err)
{
	int rc = check_node(load, err);

	/* DPDK names NICs in lower case, as the kernel does. */
	for (uint32_t i = 0; i < load->config->ports_count; i++)
		for (char *c = load->config->ports[i].pci; *c; c++)
			*c = (char)tolower((unsigned char)*c);
	if (!rc)
		rc = check_cluster(load, err);
	if (!rc)
		rc = check_cores(load, err);
	if (!rc)
		rc = check_values(load, err);
	if (!rc)
		rc = config_check_ports(load, is_ps(load->config), err);
	if (!rc)
		rc = config_check_endpoints(load, is_ps(load->config), err);
	return rc || !is_ps(load->config) ? rc : config_check_sockets(load, err);
}

/*
 * A MAC address derived from the IP address: DPDK would choose another one at each start, and after a restart of the
 * worker its neighbours would still send to the old one.
 */
static void link_address(const struct config_port *port, char *text, size_t bytes)
{
	struct in6_addr v6 = { 0 };
	const uint8_t *last = &v6.s6_addr[12];
	struct in_addr v4;

	if (port->addresses_count && inet_pton(AF_INET, port->addresses[0].host, &v4) == 1)
		last = (const uint8_t *)&v4;
	else if (port->addresses_count)
		inet_pton(AF_INET6, port->addresses[0].host, &v6);
	snprintf(text, bytes, ",mac=02:73:%02x:%02x:%02x:%02x", last[0], last[1], last[2], last[3]);
}

/* The appliance is always the memif's server: it maps the memory of its workers, and shares none of its own. */
static int complete_memif(struct config_load *load, struct star_error *err)
{
	struct config_port *port = &load->config->ports[0];
	const char *role = strstr(port->options, "role="), *client = "role=client";
	const char *abstract = strstr(port->options, "socket-abstract=") ? "" : ",socket-abstract=no";
	const size_t used = strlen(port->options);
	struct config_memif memif;
	struct star_error why = { 0 };
	char mac[32];

	if (strcmp(port->device, "net_memif") != 0)
		return 0;
	if (!strstr(port->options, "socket="))
		return config_fail(&load->ports[0], err,
				   "ports[0].options has no socket; give the path of the appliance's port, as in "
				   "options = \"socket=/run/starserver/memif.sock\"");
	if (role && strncmp(role, client, strlen(client)) != 0)
		return config_fail(&load->ports[0], err,
				   "ports[0].options: a worker is always the client of a memif; remove role=");
	link_address(port, mac, sizeof(mac));
	if ((size_t)snprintf(port->options + used, sizeof(port->options) - used, "%s%s%s", role ? "" : ",role=client",
			     abstract, strstr(port->options, "mac=") ? "" : mac) >= sizeof(port->options) - used)
		return config_fail(&load->ports[0], err,
				   "ports[0].options is a few bytes too long; shorten the path of its socket");
	if (config_memif_read_worker(port, &memif, &why) < 0)
		return config_fail(&load->ports[0], err, "ports[0].options: %s", why.text);
	return 0;
}

int config_load_check_worker(struct config_load *load, struct star_error *err)
{
	struct config *c = load->config;
	int rc;

	if (is_ps(c))
		return config_fail(
			config_check_origin(load, "node.job_name"), err,
			"node.job_name is \"ps\", but this is a worker's file; write \"worker\", or remove it");
	if (!c->ps_count)
		return star_error_set(
			err, -EINVAL,
			"cluster.ps is empty; list the control address of each PS task, as in cluster = { ps "
			"= [ \"198.18.1.1:3333\" ]; }; or set TF_CONFIG");
	if (c->ports_count != 1)
		return star_error_set(
			err, -EINVAL,
			"a worker has one port, but %u are given; write ports = ( { device = \"net_memif\"; options = "
			"\"socket=/run/starserver/memif.sock\"; address = \"198.18.0.9/24\"; } );",
			c->ports_count);
	c->reactors = 1; /* a single thread drives the port */
	c->parameter_mib = 0;
	rc = complete_memif(load, err);
	if (rc)
		return rc;
	rc = check_cluster(load, err);
	if (!rc)
		rc = check_cores(load, err);
	return rc ? rc : config_check_ports(load, false, err);
}
