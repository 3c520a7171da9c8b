/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/options.h"

#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "config/config.h"
#include "config/load.h"

#define OF_CONFIG(member) .scope = SCOPE_CONFIG, .offset = offsetof(struct config, member)
#define OF_PORT(member) .scope = SCOPE_PORT, .offset = offsetof(struct config_port, member)
#define OF_ENDPOINT(member) .scope = SCOPE_ENDPOINT, .offset = offsetof(struct config_endpoint, member)
#define OF_LOAD(member) .scope = SCOPE_LOAD, .offset = offsetof(struct config_load, member)

const struct config_group config_groups[] = {
	{ "node", false, "Which task of the cluster this process is." },
	{ "cluster", false, "The cluster, the same on all its nodes." },
	{ "endpoint_map", true, "The endpoint map: the data address of each control address." },
	{ "ports", true, "The network ports that the appliance owns, at most 8." },
	{ "network", false, "The network stack of the data plane." },
	{ "cores", false, "The reactors and the cores that they run on." },
	{ "memory", false, "Hugepages, and memory that is reserved at start." },
	{ "limits", false, "Limits of each reactor and of its connections." },
	{ "tcp", false, "Timers of the appliance's own TCP." },
	{ "datagrams", false, "Sessions of workers with DPDK." },
	{ "checkpoint", false, "Checkpoints: copies of the parameters on disk." },
	{ "journal", false, "The journal: changes since the last checkpoint, on disk." },
	{ "standby", false, "The pair: a primary node, and a standby that can take its place." },
	{ "tests", false, "Fault injection, for tests." },
	{ "control", false, "The control plane." },
	{ "metrics", false, "What the node reports: over HTTP, for Prometheus, and over DPDK's telemetry." },
	{ "security", false, "Access to the control plane and to the data network." },
	{ "log", false, "The log on standard error." },
};
const unsigned config_groups_count = sizeof(config_groups) / sizeof(config_groups[0]);

/* The members of a group are adjacent, in the order in which help, the reference page and config_print show them. */
const struct config_option config_options[] = {
	{ "node.job_name", OF_CONFIG(job_name), .type = OPTION_WORD, .choices = "ps|worker|chief", .fallback = "ps",
	  .worker = true,
	  .help = "The job of this process. A ps uses the environment variables for PS nodes; a worker and the chief "
		  "use those for workers." },
	{ "node.task_index", OF_CONFIG(task_index), .type = OPTION_NUMBER, .max = CONFIG_ENDPOINTS_MAX - 1,
	  .fallback = "0",
	  .help = "The task's index in its job's list: cluster.ps[task_index] is the control address of this PS node; "
		  "if that names two, standby.address says which." },

	{ "cluster.ps", OF_CONFIG(ps), .offset2 = offsetof(struct config, ps_count),
	  .others = offsetof(struct config, ps_others), .type = OPTION_ADDRESSES, .max = CONFIG_ENDPOINTS_MAX,
	  .required = true, .worker = true,
	  .help = "Control addresses of the PS tasks, in task order. A task that is a pair of nodes has two, as in "
		  "\"198.18.1.1:3333|198.18.1.2:3333\"." },
	{ "cluster.worker", OF_CONFIG(workers), .offset2 = offsetof(struct config, workers_count),
	  .type = OPTION_ADDRESSES, .max = CONFIG_ENDPOINTS_MAX, .fallback = "", .worker = true,
	  .help = "Addresses of the worker tasks, in task order. A PS node never calls them; their number is used in "
		  "the default of cores.number." },
	{ "cluster.partitions", OF_CONFIG(partitions), .type = OPTION_NUMBER, .min = 1, .max = 1 << 20,
	  .fallback = "16384",
	  .help = "Hash buckets of the parameter space: a power of two, at least the number of reactors in the "
		  "cluster. Fixed when the cluster is created." },

	{ "endpoint_map_file", OF_LOAD(map_file), .type = OPTION_TEXT, .min = 1, .max = CONFIG_TEXT_MAX,
	  .fallback_how = "./.endpoint_map, if it exists",
	  .variables = { "TF_SEASTAR_ENDPOINT_MAP_PATH", "TF_SEASTAR_ENDPOINT_MAP_PATH" },
	  .variable_means = ENVIRONMENT_FOLDER,
	  .help = "A file with the endpoint map, one entry per line: control address = data address. In a "
		  "configuration file a relative path starts at that file's directory. Give this or endpoint_map, not "
		  "both." },
	{ "endpoint_map[].control", OF_ENDPOINT(control), .type = OPTION_ADDRESS, .required = true,
	  .help = "A control address, as written in cluster.ps or cluster.worker." },
	{ "endpoint_map[].data", OF_ENDPOINT(data), .type = OPTION_ADDRESS, .required = true,
	  .help = "Its data address. That of a PS belongs to the appliance, not to the kernel: the address of one of "
		  "the node's ports, and the TCP port of reactor 0 (reactor r has data port + r)." },

	{ "ports[].device", OF_PORT(device), .type = OPTION_TEXT, .min = 1, .max = 31, .required = true,
	  .help = "The DPDK driver of a virtual device (net_af_packet, net_af_xdp, ...), or pci." },
	{ "ports[].interface", OF_PORT(interface), .type = OPTION_TEXT, .max = 15, .fallback = "",
	  .help = "The kernel's interface; net_af_packet and net_af_xdp need it." },
	{ "ports[].pci", OF_PORT(pci), .type = OPTION_TEXT, .max = 31, .fallback = "",
	  .help = "The PCI address of the NIC, as in 0000:03:00.0; the device pci needs it." },
	{ "ports[].address", OF_PORT(addresses), .offset2 = offsetof(struct config_port, addresses_count),
	  .type = OPTION_NETWORKS, .max = CONFIG_ADDRESSES_MAX, .required = true,
	  .help = "The node's own addresses on this port, IPv4 and IPv6, each with its prefix length. The kernel must "
		  "not have them too." },
	{ "ports[].gateway", OF_PORT(gateway), .type = OPTION_TEXT, .max = 15, .fallback = "",
	  .help = "The IPv4 address of the router to other networks, or nothing if all workers are on this port's "
		  "network. Routers are never learned from the network." },
	{ "ports[].gateway6", OF_PORT(gateway6), .type = OPTION_TEXT, .max = INET6_ADDRSTRLEN - 1, .fallback = "",
	  .help = "The same for IPv6; a link-local address (fe80::1) is allowed." },
	{ "ports[].vlan", OF_PORT(vlan), .type = OPTION_NUMBER, .max = 4094, .fallback = "0",
	  .help = "The 802.1Q VLAN that this port's frames are tagged with; 0: frames have no tag." },
	{ "ports[].mtu", OF_PORT(mtu), .type = OPTION_NUMBER, .min = 576, .max = 9000, .fallback = "1500",
	  .unit = "bytes",
	  .help = "The largest IP packet; the same as at the other end of the link. IPv6 needs at least 1280." },
	{ "ports[].options", OF_PORT(options), .type = OPTION_TEXT, .max = CONFIG_TEXT_MAX, .fallback = "",
	  .help = "Further device arguments, as DPDK takes them: key=value,key=value." },

	{ "network.stack", OF_CONFIG(stack), .type = OPTION_CHOICE, .choices = "dpdk|kernel", .fallback = "dpdk",
	  .help = "dpdk: the node owns the ports of `ports`, and runs its own TCP/IP on them. kernel: it uses the "
		  "kernel's TCP sockets, and needs no port, no hugepages and no root. Its data address then must be "
		  "one of the kernel's, 127.0.0.1 included, and workers with DPDK cannot reach it." },
	{ "network.sockets", OF_CONFIG(sockets), .type = OPTION_CHOICE, .choices = "auto|epoll|io_uring",
	  .fallback = "auto",
	  .help = "How network.stack = \"kernel\" uses sockets. io_uring: one system call in a turn serves all "
		  "connections; the kernel must be 6.1 or newer and allow it, which containers often do not. epoll: "
		  "two system calls per request, on any kernel. auto: io_uring if the kernel allows it, else epoll." },

	{ "cores.number", OF_CONFIG(reactors), .type = OPTION_NUMBER, .min = 1, .max = CONFIG_CORES_MAX,
	  .fallback_how = "min(8, tasks of the cluster, usable cores); of a worker min(2, the same); with pinning "
			  "and cores.list, the length of the list",
	  .variables = { "NETWORK_PS_CORE_NUMBER", "NETWORK_WORKER_CORE_NUMBER" },
	  .help = "Reactors, or a worker's I/O threads. More than the usable cores are refused when they are pinned or "
		  "polling." },
	{ "cores.polling", OF_CONFIG(polling), .type = OPTION_BOOL, .fallback = "false",
	  .variables = { "PS_ENABLE_POLLING", "WORKER_ENABLE_POLLING" }, .worker = true,
	  .help = "Never sleep: lowest latency, and each reactor takes a whole core." },
	{ "cores.pin", OF_CONFIG(pin), .type = OPTION_BOOL, .fallback = "false",
	  .variables = { "PS_DISABLE_PIN_CORES", "WORKER_DISABLE_PIN_CORES" }, .variable_means = ENVIRONMENT_NEGATED,
	  .worker = true, .help = "Bind each reactor to a core of its own." },
	{ "cores.list", OF_CONFIG(cores), .offset2 = offsetof(struct config, cores_count), .type = OPTION_NUMBERS,
	  .max = 8191, .fallback = "", .worker = true,
	  .help = "The cores to pin to: one for each reactor, all different. If the list is empty, the first usable "
		  "cores." },
	{ "cores.spin_us", OF_CONFIG(spin_us), .type = OPTION_NUMBER, .max = 1000000, .fallback = "50",
	  .unit = "microseconds", .help = "How long an idle reactor spins before it sleeps, if it does not poll." },

	{ "memory.hugepages", OF_CONFIG(hugepages), .type = OPTION_CHOICE, .choices = "preferred|required|none",
	  .fallback = "preferred", .worker = true,
	  .help = "Whether to use hugepages: preferred runs without them if there are none, required refuses to "
		  "start." },
	{ "memory.parameter_mib", OF_CONFIG(parameter_mib), .type = OPTION_NUMBER, .min = 1, .max = 1 << 24,
	  .fallback = "1024", .unit = "MiB", .help = "Memory for rows and their index, for all reactors together." },
	{ "memory.mbufs", OF_CONFIG(mbufs), .type = OPTION_NUMBER, .min = 1023, .max = (1 << 20) - 1,
	  .fallback = "16383", .worker = true,
	  .help = "Packet buffers of each reactor; a power of two minus one wastes no memory. Incoming requests may "
		  "hold half of them: one of 4 MiB takes about 3000." },

	{ "limits.connections", OF_CONFIG(connections_max), .type = OPTION_NUMBER, .min = 1, .max = 1 << 20,
	  .fallback = "4096", .help = "Connections of a reactor; further ones are refused." },
	{ "limits.sessions", OF_CONFIG(sessions_max), .type = OPTION_NUMBER, .max = 1 << 16, .fallback = "1024",
	  .help = "Sessions of DPDK workers (UDP, at the data port) of a reactor; further ones are refused. 0: none." },
	{ "limits.request_mib", OF_CONFIG(request_mib), .type = OPTION_NUMBER, .min = 1, .max = 64, .fallback = "4",
	  .unit = "MiB",
	  .help = "The largest request, and the largest reply. libstar splits requests by the smallest limit of all "
		  "nodes; optimizer lamb and clip_global_norm need a variable's gradient in one request. More than 4 "
		  "needs more memory.mbufs: four times what a request takes, which is 750 per MiB at an mtu of 1500, "
		  "and 120 at 9000." },
	{ "limits.kept_mib", OF_CONFIG(kept_mib), .type = OPTION_NUMBER, .min = 1, .max = 65536, .fallback = "32",
	  .unit = "MiB",
	  .help = "What programs may keep on a reactor between two requests of a step, for all workers together; one "
		  "worker may use a quarter of it. The memory is touched only when it is used." },
	{ "limits.kept_lease_ms", OF_CONFIG(kept_lease_ms), .type = OPTION_NUMBER, .min = 100, .max = 3600000,
	  .fallback = "30000", .unit = "milliseconds",
	  .help = "How long a reactor holds what programs keep, if nobody asks for it: a worker that dies during a "
		  "step leaves it behind." },
	{ "limits.receive_window_kib", OF_CONFIG(receive_window_kib), .type = OPTION_NUMBER, .min = 4, .max = 65536,
	  .fallback = "256", .unit = "KiB", .help = "The largest TCP receive window of a connection." },
	{ "limits.send_queue_kib", OF_CONFIG(send_queue_kib), .type = OPTION_NUMBER, .min = 4, .max = 65536,
	  .fallback = "256", .unit = "KiB",
	  .help = "Unacknowledged and unsent bytes of a connection before its requests wait." },

	{ "tcp.rto_min_us", OF_CONFIG(rto_min_us), .type = OPTION_NUMBER, .min = 1000, .max = 60000000,
	  .fallback = "200000", .unit = "microseconds",
	  .help = "Minimum of the retransmission timeout. Linux delays its ACKs by up to 40 ms: stay above that." },
	{ "tcp.rto_max_us", OF_CONFIG(rto_max_us), .type = OPTION_NUMBER, .min = 100000, .max = 240000000,
	  .fallback = "60000000", .unit = "microseconds", .help = "Maximum of the retransmission timeout." },
	{ "tcp.time_wait_ms", OF_CONFIG(time_wait_ms), .type = OPTION_NUMBER, .min = 100, .max = 240000,
	  .fallback = "60000", .unit = "milliseconds", .help = "How long a closed connection stays in TIME_WAIT." },
	{ "tcp.user_timeout_ms", OF_CONFIG(user_timeout_ms), .type = OPTION_NUMBER, .min = 1000, .max = 3600000,
	  .fallback = "30000", .unit = "milliseconds",
	  .help = "A connection whose data stays unacknowledged for this long is aborted (RFC 5482)." },
	{ "tcp.keepalive_s", OF_CONFIG(keepalive_s), .type = OPTION_NUMBER, .min = 0, .max = 86400, .fallback = "60",
	  .unit = "seconds",
	  .help = "After this silence a peer is probed, and given up after six probes, ten seconds apart, without an "
		  "answer; 0: never." },

	{ "tcp.congestion", OF_CONFIG(congestion), .type = OPTION_CHOICE, .choices = "cubic|newreno|dctcp",
	  .fallback = "cubic",
	  .help = "Congestion control. dctcp is for a closed network whose switches mark early; it needs tcp.ecn = "
		  "ask, or peers that ask." },
	{ "tcp.ecn", OF_CONFIG(ecn), .type = OPTION_CHOICE, .choices = "accept|off|ask", .fallback = "accept",
	  .help = "Explicit congestion notification: accept it if the peer asks for it, never use it, or ask for it "
		  "too." },

	{ "datagrams.credits", OF_CONFIG(credits), .type = OPTION_NUMBER, .min = 16, .max = 65536, .fallback = "512",
	  .unit = "packets", .worker = true,
	  .help = "Packets that all sessions of a reactor together may have in flight to it: the size of its receive "
		  "ring." },
	{ "datagrams.target_delay_us", OF_CONFIG(target_delay_us), .type = OPTION_NUMBER, .min = 5, .max = 100000,
	  .fallback = "50", .unit = "microseconds", .worker = true,
	  .help = "A round trip that takes longer counts as congestion: the sender slows down." },

	{ "checkpoint.directory", OF_CONFIG(checkpoint_directory), .type = OPTION_TEXT, .max = CONFIG_TEXT_MAX,
	  .fallback = "",
	  .help = "Where checkpoints are kept: a directory that all PS nodes see under this path (one machine, or a "
		  "shared file system). If empty, there are no checkpoints, and a node's parameters are lost when it "
		  "ends." },
	{ "checkpoint.key", OF_CONFIG(checkpoint_key), .type = OPTION_TEXT, .max = CONFIG_TEXT_MAX, .fallback = "",
	  .help = "A key file of one principal, the same on all PS nodes (docs/security.rst): the manifest of each "
		  "checkpoint gets an HMAC, and only checkpoints with a correct one are read. credential:NAME as for "
		  "security.control_keys. If empty, checkpoints are trusted: anyone who can write to "
		  "checkpoint.directory can change them." },
	{ "checkpoint.restore", OF_CONFIG(checkpoint_restore), .type = OPTION_CHOICE, .choices = "no|latest|good",
	  .fallback_how = "good where checkpoint.directory is set, else no",
	  .help = "What the cluster starts from. no: nothing, and the directory is neither restored nor pruned. "
		  "latest: the newest checkpoint; the cluster does not start if that is damaged. good: the newest good "
		  "one: PS task 0 reads them, newest first, until one is intact to the last byte. All nodes must have "
		  "the same value." },
	{ "checkpoint.restore_id", OF_CONFIG(checkpoint_id), .type = OPTION_NUMBER, .max = INT32_MAX, .fallback = "0",
	  .help = "Start from this checkpoint instead of the newest; with checkpoint.restore = good, from this one or "
		  "an earlier one. 0: the newest." },
	{ "checkpoint.every_s", OF_CONFIG(checkpoint_every_s), .type = OPTION_NUMBER, .max = 31536000, .fallback = "0",
	  .unit = "seconds", .help = "How often PS task 0 has all nodes write a full checkpoint; 0: only on request." },
	{ "checkpoint.delta_every_s", OF_CONFIG(checkpoint_delta_every_s), .type = OPTION_NUMBER, .max = 31536000,
	  .fallback = "0", .unit = "seconds",
	  .help = "How often it has them write a delta, with the rows that have changed since the last checkpoint; 0: "
		  "only on request. If a delta is not possible, a full one is written." },
	{ "checkpoint.keep", OF_CONFIG(checkpoint_keep), .type = OPTION_NUMBER, .min = 1, .max = 10000, .fallback = "2",
	  .help = "Full checkpoints to keep, each with its deltas; older ones are removed after each full one." },
	{ "checkpoint.keep_max", OF_CONFIG(checkpoint_keep_max), .type = OPTION_NUMBER, .min = 1, .max = 10000,
	  .fallback = "20",
	  .help = "How many full checkpoints a job may ask to keep (keep_checkpoint_max), if that is more than "
		  "checkpoint.keep." },
	{ "checkpoint.on_stop", OF_CONFIG(checkpoint_on_stop), .type = OPTION_BOOL, .fallback = "false",
	  .help = "Whether a node that gets SIGTERM, SIGINT or SIGHUP has the cluster write a last checkpoint before "
		  "it ends. From that moment on no node takes requests until the nodes are back. Give all nodes the "
		  "same value; if PS task 0's is true, it counts for all." },
	{ "checkpoint.copies_mib", OF_CONFIG(checkpoint_copies_mib), .type = OPTION_NUMBER, .min = 1, .max = 65536,
	  .fallback = "64", .unit = "MiB",
	  .help = "Memory of each reactor for copies of rows that change before they are written. When it is full, "
		  "pushes to such rows wait." },
	{ "checkpoint.wait_s", OF_CONFIG(checkpoint_wait_s), .type = OPTION_NUMBER, .max = 3600, .fallback = "5",
	  .unit = "seconds",
	  .help = "If that memory is full and requests wait for this long, the checkpoint is given up. 0: they wait "
		  "until their deadlines." },
	{ "checkpoint.log_mib", OF_CONFIG(checkpoint_log_mib), .type = OPTION_NUMBER, .max = 65536, .fallback = "16",
	  .unit = "MiB",
	  .help = "Memory of each reactor for the list of rows that have changed since the last checkpoint, 8 bytes "
		  "each; a delta writes these. 0: no deltas." },
	{ "checkpoint.rate_mib_s", OF_CONFIG(checkpoint_rate_mib_s), .type = OPTION_NUMBER, .max = 1 << 20,
	  .fallback = "0", .unit = "MiB per second",
	  .help = "Limit of the rate at which the node writes a checkpoint; 0: none." },

	{ "journal.directory", OF_CONFIG(journal_directory), .type = OPTION_TEXT, .max = CONFIG_TEXT_MAX,
	  .fallback = "",
	  .help = "A directory of this node alone, on a fast local disk, to which each change is written within a few "
		  "milliseconds: a node that was killed restarts from its last checkpoint and the changes since. Needs "
		  "checkpoint.directory; all PS tasks have a journal, or none; of a pair each node has its own. If "
		  "empty, there is no journal." },
	{ "journal.ring_mib", OF_CONFIG(journal_ring_mib), .type = OPTION_NUMBER, .min = 8, .max = 4096,
	  .fallback = "32", .unit = "MiB",
	  .help = "Memory of each reactor for changes that are still to be written, rounded to a power of two. When it "
		  "is full, requests wait." },
	{ "journal.segment_mib", OF_CONFIG(journal_segment_mib), .type = OPTION_NUMBER, .min = 2, .max = 4096,
	  .fallback = "64", .unit = "MiB",
	  .help = "Size of the journal's files, which are allocated ahead and reused." },
	{ "journal.limit_mib", OF_CONFIG(journal_limit_mib), .type = OPTION_NUMBER, .min = 16, .max = INT32_MAX,
	  .fallback = "65536", .unit = "MiB",
	  .help = "Disk space that the journal may take for changes since the last complete checkpoint, over restarts. "
		  "Beyond that the journal ends, and the node's health says so." },
	{ "journal.wait_s", OF_CONFIG(journal_wait_s), .type = OPTION_NUMBER, .min = 1, .max = 3600, .fallback = "5",
	  .unit = "seconds",
	  .help = "If that memory is full for this long, the journal ends; the node continues without it, and its "
		  "health says so." },
	{ "journal.durability", OF_CONFIG(journal_durability), .type = OPTION_CHOICE, .choices = "async|retained|sync",
	  .fallback = "async",
	  .help = "When the node replies to a change. async: at once; the last moments are lost if the node dies. "
		  "retained: at once, and libstar keeps pushes until they are on disk, and sends them again if the "
		  "node dies before. sync: when the change is on disk, a millisecond and a write later. Pulls never "
		  "wait. With a standby: async, or the same as standby.durability; then replies wait for both, and "
		  "for the journal alone while there is no standby." },

	{ "standby.peer", OF_CONFIG(standby_peer), .type = OPTION_TEXT, .max = CONFIG_TEXT_MAX, .fallback = "",
	  .help = "Where the other node of the pair listens: its standby.listen. The two nodes are one PS task: one is "
		  "the primary, which serves, the other its standby. If empty, the node has no standby." },
	{ "standby.listen", OF_CONFIG(standby_listen), .type = OPTION_TEXT, .max = CONFIG_TEXT_MAX, .fallback = "",
	  .help = "Where this node listens for the other one: an address of the kernel, and an unused port." },
	{ "standby.address", OF_CONFIG(standby_second), .type = OPTION_CHOICE, .choices = "first|second",
	  .fallback = "first",
	  .help = "Which of the two control addresses of this task in cluster.ps belongs to this node." },
	{ "standby.directory", OF_CONFIG(standby_directory), .type = OPTION_TEXT, .max = CONFIG_TEXT_MAX,
	  .fallback = "",
	  .help = "A directory of this node alone, on a local disk. It records the node's role in the pair and, while "
		  "a standby receives the primary's rows, the changes meanwhile." },
	{ "standby.first", OF_CONFIG(standby_first), .type = OPTION_CHOICE, .choices = "primary|standby",
	  .fallback = "primary",
	  .help = "The node's role if that directory does not say it: one of the two must start as the standby." },
	{ "standby.lease_ms", OF_CONFIG(standby_lease_ms), .type = OPTION_NUMBER, .min = 100, .max = 60000,
	  .fallback = "1000", .unit = "milliseconds",
	  .help = "How long the primary accepts changes without hearing from a standby that is up to date. The standby "
		  "waits as long before it replaces a silent primary. Both nodes must have the same value." },
	{ "standby.alone_s", OF_CONFIG(standby_alone_s), .type = OPTION_NUMBER, .max = 3600, .fallback = "5",
	  .unit = "seconds",
	  .help = "How long changes wait for an unreachable standby before the primary goes on without it; 0: until "
		  "their deadlines. It does not wait for a standby whose process has ended." },
	{ "standby.wait_s", OF_CONFIG(standby_wait_s), .type = OPTION_NUMBER, .min = 1, .max = 3600, .fallback = "5",
	  .unit = "seconds",
	  .help = "How long requests wait for a connected standby that does not keep up (journal.ring_mib), before the "
		  "standby is given up." },
	{ "standby.hold_mib", OF_CONFIG(standby_hold_mib), .type = OPTION_NUMBER, .min = 64, .max = 16 << 20,
	  .fallback = "65536", .unit = "MiB",
	  .help = "How much of the changes, per reactor, a standby may hold in that directory until it has the "
		  "primary's rows." },
	{ "standby.etcd", OF_CONFIG(standby_etcd), .offset2 = offsetof(struct config, standby_etcd_count),
	  .type = OPTION_ADDRESSES, .max = CONFIG_ETCD_MAX, .fallback = "",
	  .help = "Client addresses of an etcd cluster (3.4 or later), which decides which of the two serves: then a "
		  "standby replaces a dead primary without an operator, and a primary goes on alone when etcd has "
		  "recorded it (standby.alone_s does not count). Both nodes must have the same value. If empty, an "
		  "operator decides." },
	{ "standby.etcd_key", OF_CONFIG(standby_etcd_key), .type = OPTION_TEXT, .max = 255,
	  .fallback = "/starserver/ps/0",
	  .help = "The key in etcd. Clusters that share an etcd need different keys; the two nodes of a pair must have "
		  "the same." },
	{ "standby.etcd_ca", OF_CONFIG(standby_etcd_ca), .type = OPTION_TEXT, .max = CONFIG_TEXT_MAX, .fallback = "",
	  .help = "A PEM file with the certificate of the CA that signed etcd's: etcd is then reached by HTTPS. If "
		  "empty, by unencrypted HTTP." },
	{ "standby.etcd_certificate", OF_CONFIG(standby_etcd_certificate), .type = OPTION_TEXT, .max = CONFIG_TEXT_MAX,
	  .fallback = "",
	  .help = "A PEM file with this node's certificate, if etcd requires one (--client-cert-auth)." },
	{ "standby.etcd_private_key", OF_CONFIG(standby_etcd_private_key), .type = OPTION_TEXT, .max = CONFIG_TEXT_MAX,
	  .fallback = "", .help = "The PEM file with its private key, without a passphrase." },
	{ "standby.durability", OF_CONFIG(standby_durability), .type = OPTION_CHOICE, .choices = "async|retained|sync",
	  .fallback = "retained",
	  .help = "When the node replies to a change. async: at once; the last moments are lost if the primary dies. "
		  "retained: at once, and libstar keeps pushes until the standby has them, and sends them again if the "
		  "primary dies before. sync: when the standby has the change, too. Pulls never wait. While there is "
		  "no standby, replies wait only for the journal, as journal.durability says. Both nodes must have the "
		  "same value." },

	{ "tests.chain_max", OF_CONFIG(chain_max), .type = OPTION_NUMBER, .min = 1, .max = 1024, .fallback = "1024",
	  .help = "The longest chain: a full checkpoint and its deltas. If a delta would make it longer, a full "
		  "checkpoint is written instead." },
	{ "tests.loss_ppm", OF_CONFIG(loss_ppm), .type = OPTION_NUMBER, .max = 1000000, .fallback = "0",
	  .unit = "of a million",
	  .help = "Drops this many of the received frames, and of the sent ones, at random: to see the effect of "
		  "packet loss." },

	{ "control.socket", OF_CONFIG(control_socket), .type = OPTION_TEXT, .min = 1, .max = 107,
	  .fallback_how = "/run/starserver/<job_name>-<task_index>.sock; for an ordinary user, in "
			  "$XDG_RUNTIME_DIR/starserver or /tmp/starserver-UID",
	  .help = "Path of the administrator's Unix socket." },
	{ "control.connect_timeout_ms", OF_CONFIG(connect_timeout_ms), .type = OPTION_NUMBER, .min = 1, .max = 3600000,
	  .fallback = "120000", .unit = "milliseconds",
	  .variables = { "NETWORK_MAX_CONNECTION_TIMEOUT", "NETWORK_MAX_CONNECTION_TIMEOUT" }, .worker = true,
	  .help = "How long to try to reach another node." },

	{ "metrics.port", OF_CONFIG(metrics_port), .type = OPTION_NUMBER, .max = 65535, .fallback = "0",
	  .help = "The kernel's TCP port that serves /metrics and /health over HTTP; 0: none (`starctl metrics` and "
		  "`starctl health` show the same)." },
	{ "metrics.address", OF_CONFIG(metrics_address), .type = OPTION_TEXT, .min = 2, .max = INET6_ADDRSTRLEN - 1,
	  .fallback = "127.0.0.1",
	  .help = "The address for that: one of the kernel's, or 0.0.0.0 or :: for all. Anyone who reaches it can read "
		  "figures and table names, but change nothing." },
	{ "metrics.telemetry", OF_CONFIG(metrics_telemetry), .type = OPTION_BOOL, .fallback = "false",
	  .help = "Whether to provide DPDK's telemetry socket, for dpdk-telemetry.py: DPDK's statistics of ports and "
		  "mempools, and the metrics below /star." },
	{ "metrics.tables", OF_CONFIG(metrics_tables), .type = OPTION_NUMBER, .max = 1024, .fallback = "200",
	  .help = "Tables and variables with metrics of their own, in the order of creation, about twenty metrics "
		  "each. star_tables_unlisted counts the others; `starctl tables` shows all." },
	{ "metrics.requests", OF_CONFIG(observe_requests), .type = OPTION_BOOL, .fallback = "true",
	  .help = "Whether each reactor records the times of its last 65,536 requests and some of their keys, for "
		  "`starctl latency`, `slow`, `trace` and `hot`. Takes 4 MiB per reactor, and some nanoseconds per "
		  "request." },

	{ "metrics.records", OF_CONFIG(metrics_records), .type = OPTION_TEXT, .min = 1, .max = 200,
	  .fallback_how = "control.socket with .records in place of .sock",
	  .help = "The file to which the node writes these records when it crashes or a reactor is stuck: at most 32 "
		  "MiB; the previous one is kept with .1 appended. `starctl slow --records FILE` reads it." },

	{ "security.control_keys", OF_CONFIG(security_control_keys), .type = OPTION_TEXT, .max = CONFIG_TEXT_MAX,
	  .fallback = "",
	  .help = "The key file of all principals that may use the control address, over TLS 1.3; `starctl key create` "
		  "makes it. credential:NAME is a systemd credential (LoadCredential=). If empty, anyone who reaches "
		  "that address may use it. For the data network see security.data." },
	{ "security.control_principal", OF_CONFIG(security_control_principal), .type = OPTION_TEXT, .max = 63,
	  .fallback = "",
	  .help = "The principal in that file that this node uses to call other nodes. If empty, the only one with "
		  "role node." },
	{ "security.audit_log", OF_CONFIG(security_audit_log), .type = OPTION_TEXT, .max = CONFIG_TEXT_MAX,
	  .fallback = "",
	  .help = "A file for the audit log of the control plane, in JSON lines: who connected, what they changed, and "
		  "what was refused. `starctl audit verify` checks it. If empty, there is none." },
	{ "security.data", OF_CONFIG(security_data), .type = OPTION_CHOICE, .choices = "open|checked|sealed|sealed-256",
	  .fallback = "open",
	  .help = "open: anyone who reaches the data address can read and change parameters. checked: clients need a "
		  "ticket, which libstar gets from the control plane with its key, and all traffic is authenticated. "
		  "sealed: it is also encrypted (AES-128-GCM; sealed-256: AES-256-GCM). Except for open it needs "
		  "security.control_keys, and must be the same on all nodes." },
	{ "security.memif", OF_CONFIG(security_memif), .type = OPTION_CHOICE, .choices = "as-data|tickets",
	  .fallback = "as-data",
	  .help = "How security.data applies to shared memory (memif). as-data: in the same way. tickets: clients need "
		  "a ticket, but requests and replies are neither authenticated nor encrypted, which is faster; anyone "
		  "who can attach to the interface's socket, or see its memory, is trusted." },
	{ "security.rights", OF_CONFIG(security_rights), .type = OPTION_TEXT, .max = CONFIG_TEXT_MAX, .fallback = "",
	  .help = "A file that says which principals may do what with which tables on the data network, and their "
		  "quotas (docs/security.rst). If empty, anyone with a ticket may do everything." },
	{ "security.require", OF_CONFIG(security_require), .type = OPTION_BOOL, .fallback = "false",
	  .help = "Do not start unless access needs a key everywhere: security.control_keys is set, security.data is "
		  "not open, and metrics.port, if any, is on a loopback address." },

	{ "log.level", OF_CONFIG(log_level), .type = OPTION_CHOICE, .choices = "debug|info|warning|error",
	  .fallback = "info", .worker = true,
	  .help = "The least severe level that is logged; `starctl log-level` changes it at run time." },
	{ "log.format", OF_CONFIG(log_format), .type = OPTION_CHOICE, .choices = "text|logfmt", .fallback = "text",
	  .help = "Format of lines. text: date, level and message. logfmt: time=, level= and msg=, for programs. In "
		  "the systemd journal lines have a priority instead of the date." },
};
const unsigned config_options_count = sizeof(config_options) / sizeof(config_options[0]);

_Static_assert(sizeof(config_options) / sizeof(config_options[0]) <= CONFIG_OPTIONS_MAX,
	       "raise CONFIG_OPTIONS_MAX, which sizes the table of origins");
_Static_assert(sizeof(enum config_stack) == sizeof(uint32_t), "OPTION_CHOICE stores 32 bits");
_Static_assert(sizeof(enum config_sockets) == sizeof(uint32_t), "OPTION_CHOICE stores 32 bits");
_Static_assert(sizeof(enum config_hugepages) == sizeof(uint32_t), "OPTION_CHOICE stores 32 bits");

const struct config_option *config_option_find(const char *name)
{
	for (unsigned i = 0; i < config_options_count; i++)
		if (!strcmp(config_options[i].name, name))
			return &config_options[i];
	return NULL;
}

const struct config_group *config_group_find(const char *name)
{
	for (unsigned i = 0; i < config_groups_count; i++)
		if (!strcmp(config_groups[i].name, name))
			return &config_groups[i];
	return NULL;
}

const char *config_option_leaf(const struct config_option *option)
{
	const char *dot = strchr(option->name, '.');

	return dot ? dot + 1 : option->name;
}

const struct config_group *config_option_group(const struct config_option *option)
{
	char name[CONFIG_NAME_MAX + 1];
	size_t length = strcspn(option->name, ".[");

	if (!option->name[length])
		return NULL;
	snprintf(name, sizeof(name), "%.*s", (int)length, option->name);
	return config_group_find(name);
}

const char *config_option_nearest(const char *name)
{
	const char *dot = strrchr(name, '.'), *leaf = dot ? dot + 1 : name, *nearest = NULL;
	unsigned least = ~0u;

	for (unsigned i = 0; i < config_groups_count; i++) {
		unsigned d = nearest_distance(name, config_groups[i].name);

		if (d < least) {
			least = d;
			nearest = config_groups[i].name;
		}
	}
	for (unsigned i = 0; i < config_options_count; i++) {
		const struct config_option *o = &config_options[i];
		unsigned whole = nearest_distance(name, o->name),
			 misplaced = nearest_distance(leaf, config_option_leaf(o)) + 1;
		unsigned d = whole < misplaced ? whole : misplaced;

		if (d < least) {
			least = d;
			nearest = o->name;
		}
	}
	return nearest;
}

static void choices_in_words(const char *choices, char *text, size_t bytes)
{
	size_t used = (size_t)snprintf(text, bytes, "one of \"");

	for (; *choices && used + 5 < bytes; choices++) {
		if (*choices == '|') {
			memcpy(text + used, "\", \"", 4);
			used += 4;
		} else {
			text[used++] = *choices;
		}
	}
	snprintf(text + used, bytes - used, "\"");
}

const char *config_option_takes(const struct config_option *o, char *text, size_t bytes)
{
	switch (o->type) {
	case OPTION_NUMBER:
		snprintf(text, bytes, "a whole number from %u to %u%s%s", o->min, o->max, o->unit ? " " : "",
			 o->unit ? o->unit : "");
		break;
	case OPTION_BOOL:
		snprintf(text, bytes, "true or false");
		break;
	case OPTION_TEXT:
		snprintf(text, bytes, "a string of %u to %u bytes", o->min, o->max);
		break;
	case OPTION_WORD:
	case OPTION_CHOICE:
		choices_in_words(o->choices, text, bytes);
		break;
	case OPTION_ADDRESS:
		snprintf(text, bytes, "an address and port, as in \"198.18.1.1:3333\" or \"[2001:2::1]:3333\"");
		break;
	case OPTION_NETWORKS:
		snprintf(text, bytes,
			 "an address and prefix length, as in \"198.18.0.1/24\", or a list of at most %u, as in "
			 "[ \"198.18.0.1/24\", \"2001:2::1/64\" ]",
			 o->max);
		break;
	case OPTION_NUMBERS:
		snprintf(text, bytes, "a list of at most %u whole numbers from %u to %u, as in [ 2, 3 ]",
			 CONFIG_CORES_MAX, o->min, o->max);
		break;
	case OPTION_ADDRESSES:
		snprintf(text, bytes,
			 "a list of at most %u addresses, as in [ \"198.18.1.1:3333\", \"198.18.1.2:3333\" ]%s", o->max,
			 o->others ? "; the two of a pair are written as \"198.18.1.2:3333|198.18.1.3:3333\"" : "");
		break;
	}
	return text;
}
