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
	{ "network", false, "What the data plane stands on." },
	{ "cores", false, "The reactors and the cores that they run on." },
	{ "memory", false, "Hugepages, and what is reserved at start." },
	{ "limits", false, "Limits of each reactor and of its connections." },
	{ "tcp", false, "Timers of the appliance's own TCP." },
	{ "datagrams", false, "Sessions of workers with DPDK." },
	{ "checkpoint", false, "Checkpoints: what is kept of the parameters when nodes end." },
	{ "journal", false, "The journal: what has changed since the last checkpoint, on disk." },
	{ "standby", false, "The pair: a node that serves, and one that takes its place." },
	{ "tests", false, "Faults on purpose." },
	{ "control", false, "The control plane." },
	{ "metrics", false, "What the node tells of itself: over HTTP, for Prometheus, and over DPDK's telemetry." },
	{ "security", false, "Who gets in at the control plane, and on the data network." },
	{ "log", false, "The log on standard error." },
};
const unsigned config_groups_count = sizeof(config_groups) / sizeof(config_groups[0]);

/* The members of a group stand together, in the order in which help, the reference page and config_print show them. */
const struct config_option config_options[] = {
	{ "node.job_name", OF_CONFIG(job_name), .type = OPTION_WORD, .choices = "ps|worker|chief", .fallback = "ps",
	  .worker = true,
	  .help = "The job of this process. The environment variables of a PS govern a ps, those of a worker a worker "
		  "and the chief." },
	{ "node.task_index", OF_CONFIG(task_index), .type = OPTION_NUMBER, .max = CONFIG_ENDPOINTS_MAX - 1,
	  .fallback = "0",
	  .help = "The task's place in its job's list: cluster.ps[task_index] is this PS node's own control address; "
		  "where "
		  "there are two, standby.address says which." },

	{ "cluster.ps", OF_CONFIG(ps), .offset2 = offsetof(struct config, ps_count),
	  .others = offsetof(struct config, ps_others), .type = OPTION_ADDRESSES, .max = CONFIG_ENDPOINTS_MAX,
	  .required = true, .worker = true,
	  .help = "Control addresses of the PS tasks, in task order; of a task that is a pair of nodes both, as in "
		  "\"198.18.1.1:3333|198.18.1.2:3333\"." },
	{ "cluster.worker", OF_CONFIG(workers), .offset2 = offsetof(struct config, workers_count),
	  .type = OPTION_ADDRESSES, .max = CONFIG_ENDPOINTS_MAX, .fallback = "", .worker = true,
	  .help = "Addresses of the worker tasks, in task order. A PS node does not call them: they count for the "
		  "default of cores.number." },
	{ "cluster.partitions", OF_CONFIG(partitions), .type = OPTION_NUMBER, .min = 1, .max = 1 << 20,
	  .fallback = "16384",
	  .help = "Hash buckets of the parameter space: a power of two, at least the reactors of the cluster, fixed "
		  "when the cluster is created." },

	{ "endpoint_map_file", OF_LOAD(map_file), .type = OPTION_TEXT, .min = 1, .max = CONFIG_TEXT_MAX,
	  .fallback_how = "./.endpoint_map, where there is one",
	  .variables = { "TF_SEASTAR_ENDPOINT_MAP_PATH", "TF_SEASTAR_ENDPOINT_MAP_PATH" },
	  .variable_means = ENVIRONMENT_FOLDER,
	  .help = "A file with the endpoint map, a line each: control address = data address. In a configuration file "
		  "a "
		  "relative path starts at that file's folder. Give this or endpoint_map, not both." },
	{ "endpoint_map[].control", OF_ENDPOINT(control), .type = OPTION_ADDRESS, .required = true,
	  .help = "A control address, as it stands in cluster.ps or cluster.worker." },
	{ "endpoint_map[].data", OF_ENDPOINT(data), .type = OPTION_ADDRESS, .required = true,
	  .help = "Its data address. That of a PS belongs to the appliance, not to the kernel: the address of one of "
		  "the "
		  "node's ports, and the TCP port of reactor 0 (reactor r has data port + r)." },

	{ "ports[].device", OF_PORT(device), .type = OPTION_TEXT, .min = 1, .max = 31, .required = true,
	  .help = "The DPDK driver of a virtual device (net_af_packet, net_af_xdp, ...), or pci." },
	{ "ports[].interface", OF_PORT(interface), .type = OPTION_TEXT, .max = 15, .fallback = "",
	  .help = "The kernel's interface; net_af_packet and net_af_xdp need it." },
	{ "ports[].pci", OF_PORT(pci), .type = OPTION_TEXT, .max = 31, .fallback = "",
	  .help = "The PCI address of the NIC, as in 0000:03:00.0; the device pci needs it." },
	{ "ports[].address", OF_PORT(addresses), .offset2 = offsetof(struct config_port, addresses_count),
	  .type = OPTION_NETWORKS, .max = CONFIG_ADDRESSES_MAX, .required = true,
	  .help = "The appliance's own addresses on this port, IPv4 and IPv6, each with the length of its network's "
		  "prefix. The kernel must not have them too." },
	{ "ports[].gateway", OF_PORT(gateway), .type = OPTION_TEXT, .max = 15, .fallback = "",
	  .help = "The IPv4 address of the router by which other networks are reached, or nothing where all workers "
		  "are "
		  "on this port's. Routers are never taken from what arrives." },
	{ "ports[].gateway6", OF_PORT(gateway6), .type = OPTION_TEXT, .max = INET6_ADDRSTRLEN - 1, .fallback = "",
	  .help = "The same for IPv6; the router's address may be one of the link only (fe80::1)." },
	{ "ports[].vlan", OF_PORT(vlan), .type = OPTION_NUMBER, .max = 4094, .fallback = "0",
	  .help = "The 802.1Q VLAN that this port's frames are tagged with; 0: frames have no tag." },
	{ "ports[].mtu", OF_PORT(mtu), .type = OPTION_NUMBER, .min = 576, .max = 9000, .fallback = "1500",
	  .unit = "bytes",
	  .help = "The largest IP packet; the same as on the other end of the link. IPv6 needs at least 1280." },
	{ "ports[].options", OF_PORT(options), .type = OPTION_TEXT, .max = CONFIG_TEXT_MAX, .fallback = "",
	  .help = "Further device arguments, as DPDK takes them: key=value,key=value." },

	{ "network.stack", OF_CONFIG(stack), .type = OPTION_CHOICE, .choices = "dpdk|kernel", .fallback = "dpdk",
	  .help = "dpdk: the node owns the ports of `ports`, and runs its own TCP/IP on them. kernel: it uses the "
		  "kernel's TCP "
		  "sockets; it then needs no port, no hugepages and no root, its data address is one that the kernel "
		  "has, 127.0.0.1 "
		  "too, and workers with DPDK cannot reach it." },

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
	  .help = "Which cores, when they are pinned: one for each reactor, all different. With none given, the first "
		  "usable ones." },
	{ "cores.spin_us", OF_CONFIG(spin_us), .type = OPTION_NUMBER, .max = 1000000, .fallback = "50",
	  .unit = "microseconds", .help = "How long an idle reactor spins before it sleeps, without polling." },

	{ "memory.hugepages", OF_CONFIG(hugepages), .type = OPTION_CHOICE, .choices = "preferred|required|none",
	  .fallback = "preferred", .worker = true,
	  .help = "Whether to run on hugepages: preferred goes on without where there are none, required refuses to "
		  "start." },
	{ "memory.parameter_mib", OF_CONFIG(parameter_mib), .type = OPTION_NUMBER, .min = 1, .max = 1 << 24,
	  .fallback = "1024", .unit = "MiB", .help = "Memory for rows and their index, of all reactors together." },
	{ "memory.mbufs", OF_CONFIG(mbufs), .type = OPTION_NUMBER, .min = 1023, .max = (1 << 20) - 1,
	  .fallback = "16383", .worker = true,
	  .help = "Packet buffers of each reactor; a power of two less one wastes no memory. Half of them may be held "
		  "by "
		  "requests that come in: one of 4 MiB takes some 3000." },

	{ "limits.connections", OF_CONFIG(connections_max), .type = OPTION_NUMBER, .min = 1, .max = 1 << 20,
	  .fallback = "4096", .help = "Connections that a reactor holds; a further one is refused." },
	{ "limits.sessions", OF_CONFIG(sessions_max), .type = OPTION_NUMBER, .max = 1 << 16, .fallback = "1024",
	  .help = "Sessions of workers with DPDK that a reactor holds, over UDP at its data port; a further one is "
		  "refused. 0: none at all." },
	{ "limits.request_mib", OF_CONFIG(request_mib), .type = OPTION_NUMBER, .min = 1, .max = 64, .fallback = "4",
	  .unit = "MiB",
	  .help = "The largest request, and the largest reply. libstar cuts what it sends by the least of all nodes; "
		  "optimizer lamb and clip_global_norm need a variable's gradient in one request. More than 4 needs "
		  "memory.mbufs: four times what a request takes, which at an mtu of 1500 is 750 for each MiB, at 9000 "
		  "120." },
	{ "limits.kept_mib", OF_CONFIG(kept_mib), .type = OPTION_NUMBER, .min = 1, .max = 65536, .fallback = "32",
	  .unit = "MiB",
	  .help = "What programs may keep on a reactor between two requests of a step, all workers together; one "
		  "worker at most a quarter of it. It is touched only when it is used." },
	{ "limits.kept_lease_ms", OF_CONFIG(kept_lease_ms), .type = OPTION_NUMBER, .min = 100, .max = 3600000,
	  .fallback = "30000", .unit = "milliseconds",
	  .help = "How long what programs keep is there if nobody asks for it: a worker that dies in a step leaves it "
		  "behind." },
	{ "limits.receive_window_kib", OF_CONFIG(receive_window_kib), .type = OPTION_NUMBER, .min = 4, .max = 65536,
	  .fallback = "256", .unit = "KiB", .help = "The largest TCP receive window of a connection." },
	{ "limits.send_queue_kib", OF_CONFIG(send_queue_kib), .type = OPTION_NUMBER, .min = 4, .max = 65536,
	  .fallback = "256", .unit = "KiB",
	  .help = "Bytes that a connection may have unacknowledged or unsent before its requests wait." },

	{ "tcp.rto_min_us", OF_CONFIG(rto_min_us), .type = OPTION_NUMBER, .min = 1000, .max = 60000000,
	  .fallback = "200000", .unit = "microseconds",
	  .help = "Floor of the retransmission timeout. Kernel peers delay their ACKs by 40 ms: stay above that." },
	{ "tcp.rto_max_us", OF_CONFIG(rto_max_us), .type = OPTION_NUMBER, .min = 100000, .max = 240000000,
	  .fallback = "60000000", .unit = "microseconds", .help = "Ceiling of the retransmission timeout." },
	{ "tcp.time_wait_ms", OF_CONFIG(time_wait_ms), .type = OPTION_NUMBER, .min = 100, .max = 240000,
	  .fallback = "60000", .unit = "milliseconds", .help = "How long a closed connection stays in TIME_WAIT." },
	{ "tcp.user_timeout_ms", OF_CONFIG(user_timeout_ms), .type = OPTION_NUMBER, .min = 1000, .max = 3600000,
	  .fallback = "30000", .unit = "milliseconds",
	  .help = "A connection whose data stays unacknowledged for so long is aborted (RFC 5482)." },
	{ "tcp.keepalive_s", OF_CONFIG(keepalive_s), .type = OPTION_NUMBER, .min = 0, .max = 86400, .fallback = "60",
	  .unit = "seconds",
	  .help = "A peer that is silent for so long is asked whether it is there, and given up after six questions, "
		  "ten "
		  "seconds apart, without an answer; 0: never." },

	{ "tcp.congestion", OF_CONFIG(congestion), .type = OPTION_CHOICE, .choices = "cubic|newreno|dctcp",
	  .fallback = "cubic",
	  .help = "Congestion control. dctcp is for a closed network whose switches mark early, and needs tcp.ecn = "
		  "ask "
		  "or peers that ask." },
	{ "tcp.ecn", OF_CONFIG(ecn), .type = OPTION_CHOICE, .choices = "accept|off|ask", .fallback = "accept",
	  .help = "Explicit congestion notification: where the peer asks for it, never, or asked for by our own "
		  "connections too." },

	{ "datagrams.credits", OF_CONFIG(credits), .type = OPTION_NUMBER, .min = 16, .max = 65536, .fallback = "512",
	  .unit = "packets", .worker = true,
	  .help = "Packets that all sessions of a reactor together may have under way to it: what its receive ring "
		  "holds." },
	{ "datagrams.target_delay_us", OF_CONFIG(target_delay_us), .type = OPTION_NUMBER, .min = 5, .max = 100000,
	  .fallback = "50", .unit = "microseconds", .worker = true,
	  .help = "A round trip that takes longer is congestion: the sender slows down." },

	{ "checkpoint.directory", OF_CONFIG(checkpoint_directory), .type = OPTION_TEXT, .max = CONFIG_TEXT_MAX,
	  .fallback = "",
	  .help = "Where checkpoints are kept: a folder that all PS nodes see under this path (one machine, or a "
		  "shared "
		  "file system). Nothing: there are no checkpoints, and what a node holds is lost when it ends." },
	{ "checkpoint.key", OF_CONFIG(checkpoint_key), .type = OPTION_TEXT, .max = CONFIG_TEXT_MAX, .fallback = "",
	  .help = "A key file of one principal, the same on all PS nodes (docs/security.rst): the manifest of each "
		  "checkpoint gets an HMAC, and none is read without one that is right. credential:NAME as for "
		  "security.control_keys. Nothing: whoever can write to checkpoint.directory is believed." },
	{ "checkpoint.restore", OF_CONFIG(checkpoint_restore), .type = OPTION_CHOICE, .choices = "no|latest|good",
	  .fallback_how = "good where checkpoint.directory is set, else no",
	  .help = "What the cluster begins with: nothing; the newest checkpoint, or no start if that is damaged; or "
		  "the newest good one: PS task 0 reads them, from the newest on, until one is in order to the last "
		  "byte. All nodes have the same word here. With \"no\" what the directory has is neither restored nor "
		  "pruned." },
	{ "checkpoint.restore_id", OF_CONFIG(checkpoint_id), .type = OPTION_NUMBER, .max = INT32_MAX, .fallback = "0",
	  .help = "This one instead of the newest; with checkpoint.restore = good, this one or one before it. 0: the "
		  "newest." },
	{ "checkpoint.every_s", OF_CONFIG(checkpoint_every_s), .type = OPTION_NUMBER, .max = 31536000, .fallback = "0",
	  .unit = "seconds",
	  .help = "How often PS task 0 has a full checkpoint written by all nodes; 0: only when asked to." },
	{ "checkpoint.delta_every_s", OF_CONFIG(checkpoint_delta_every_s), .type = OPTION_NUMBER, .max = 31536000,
	  .fallback = "0", .unit = "seconds",
	  .help = "How often one of the rows that have changed since the last is written; 0: never by itself. Where "
		  "that "
		  "is not possible, a full one is." },
	{ "checkpoint.keep", OF_CONFIG(checkpoint_keep), .type = OPTION_NUMBER, .min = 1, .max = 10000, .fallback = "2",
	  .help = "Full checkpoints that are kept, each with its deltas; older ones are removed after each full one." },
	{ "checkpoint.keep_max", OF_CONFIG(checkpoint_keep_max), .type = OPTION_NUMBER, .min = 1, .max = 10000,
	  .fallback = "20",
	  .help = "How many of them a job may ask to be kept (keep_checkpoint_max) where checkpoint.keep is less." },
	{ "checkpoint.on_stop", OF_CONFIG(checkpoint_on_stop), .type = OPTION_BOOL, .fallback = "false",
	  .help = "Whether a node has a last checkpoint of the cluster written before it ends by SIGTERM, SIGINT or "
		  "SIGHUP; no "
		  "node takes requests from that on until the nodes are back. Give all nodes the same." },
	{ "checkpoint.copies_mib", OF_CONFIG(checkpoint_copies_mib), .type = OPTION_NUMBER, .min = 1, .max = 65536,
	  .fallback = "64", .unit = "MiB",
	  .help = "Memory of each reactor for rows that change while they wait to be written. When it is full, pushes "
		  "to "
		  "such rows wait." },
	{ "checkpoint.wait_s", OF_CONFIG(checkpoint_wait_s), .type = OPTION_NUMBER, .max = 3600, .fallback = "5",
	  .unit = "seconds",
	  .help = "When that memory is full for so long that requests wait, the checkpoint is given up. 0: they wait "
		  "until "
		  "their deadlines." },
	{ "checkpoint.log_mib", OF_CONFIG(checkpoint_log_mib), .type = OPTION_NUMBER, .max = 65536, .fallback = "16",
	  .unit = "MiB",
	  .help = "Memory of each reactor for the list of rows that have changed since the last checkpoint, 8 bytes "
		  "each: "
		  "what a delta writes. 0: there are no deltas." },
	{ "checkpoint.rate_mib_s", OF_CONFIG(checkpoint_rate_mib_s), .type = OPTION_NUMBER, .max = 1 << 20,
	  .fallback = "0", .unit = "MiB a second",
	  .help = "How fast the node writes a checkpoint at most; 0: as fast as it goes." },

	{ "journal.directory", OF_CONFIG(journal_directory), .type = OPTION_TEXT, .max = CONFIG_TEXT_MAX,
	  .fallback = "",
	  .help = "A folder of this node alone, on a fast local disk, in which each change is written down within some "
		  "milliseconds: a node that was killed begins with its last checkpoint and what came after it. "
		  "With checkpoint.directory, and on all PS tasks or none; of a pair, a folder on each node. Nothing: "
		  "there is no journal." },
	{ "journal.ring_mib", OF_CONFIG(journal_ring_mib), .type = OPTION_NUMBER, .min = 8, .max = 4096,
	  .fallback = "32", .unit = "MiB",
	  .help = "Memory of each reactor for what is still to be written, made a power of two. When it is full, "
		  "requests wait." },
	{ "journal.segment_mib", OF_CONFIG(journal_segment_mib), .type = OPTION_NUMBER, .min = 2, .max = 4096,
	  .fallback = "64", .unit = "MiB",
	  .help = "Size of the journal's files, which are made before they are needed, and used again." },
	{ "journal.limit_mib", OF_CONFIG(journal_limit_mib), .type = OPTION_NUMBER, .min = 16, .max = INT32_MAX,
	  .fallback = "65536", .unit = "MiB",
	  .help = "What the journal may take on disk, since the last checkpoint that counts, over restarts. Beyond "
		  "that it ends, and "
		  "the "
		  "node's health says so." },
	{ "journal.wait_s", OF_CONFIG(journal_wait_s), .type = OPTION_NUMBER, .min = 1, .max = 3600, .fallback = "5",
	  .unit = "seconds",
	  .help = "When that memory is full for so long, the journal ends, the node serves on without it, and its "
		  "health "
		  "says so." },
	{ "journal.durability", OF_CONFIG(journal_durability), .type = OPTION_CHOICE, .choices = "async|retained|sync",
	  .fallback = "async",
	  .help = "When a reply leaves that tells of a change: async: at once, and what the last moments had is lost "
		  "when "
		  "the node dies; retained: at once, and libstar keeps pushes until they are on disk, and sends them "
		  "again if the node dies before; sync: when the change is on disk, a millisecond and a write later. "
		  "Pulls "
		  "never "
		  "wait. On a node that has a standby: async, or what standby.durability is; then replies wait for "
		  "both, "
		  "and for the journal alone while there is no standby." },

	{ "standby.peer", OF_CONFIG(standby_peer), .type = OPTION_TEXT, .max = CONFIG_TEXT_MAX, .fallback = "",
	  .help = "Where the other node of the pair listens: its standby.listen. The two are a cluster of one PS task: "
		  "one of them serves, the other one is its standby. Nothing: the node has none." },
	{ "standby.listen", OF_CONFIG(standby_listen), .type = OPTION_TEXT, .max = CONFIG_TEXT_MAX, .fallback = "",
	  .help = "Where this node listens for the other one: an address of the kernel's, and a port that nobody else "
		  "has." },
	{ "standby.address", OF_CONFIG(standby_second), .type = OPTION_CHOICE, .choices = "first|second",
	  .fallback = "first",
	  .help = "Which of the two control addresses that cluster.ps has for this task is this node's own." },
	{ "standby.directory", OF_CONFIG(standby_directory), .type = OPTION_TEXT, .max = CONFIG_TEXT_MAX,
	  .fallback = "",
	  .help = "A folder of this node alone, on a local disk: what it was in the pair stands there, and while it "
		  "gets the "
		  "primary's rows, what has changed meanwhile." },
	{ "standby.first", OF_CONFIG(standby_first), .type = OPTION_CHOICE, .choices = "primary|standby",
	  .fallback = "primary",
	  .help = "What the node is when that folder does not say it: one of the two begins as the standby." },
	{ "standby.lease_ms", OF_CONFIG(standby_lease_ms), .type = OPTION_NUMBER, .min = 100, .max = 60000,
	  .fallback = "1000", .unit = "milliseconds",
	  .help = "How long the primary changes anything without hearing of a standby that has all; a standby waits as "
		  "long before it takes the place of a primary that does not answer. Give both the same." },
	{ "standby.alone_s", OF_CONFIG(standby_alone_s), .type = OPTION_NUMBER, .max = 3600, .fallback = "5",
	  .unit = "seconds",
	  .help = "How long changes wait for a standby that cannot be reached, before the primary goes on without it; "
		  "0: as long as their deadlines. It waits for none whose process has ended." },
	{ "standby.wait_s", OF_CONFIG(standby_wait_s), .type = OPTION_NUMBER, .min = 1, .max = 3600, .fallback = "5",
	  .unit = "seconds",
	  .help = "How long requests wait for a standby that is connected and does not keep up (journal.ring_mib), "
		  "before it is given up." },
	{ "standby.hold_mib", OF_CONFIG(standby_hold_mib), .type = OPTION_NUMBER, .min = 64, .max = 16 << 20,
	  .fallback = "65536", .unit = "MiB",
	  .help = "What a standby may hold in that folder, of each reactor, until it has the primary's rows." },
	{ "standby.etcd", OF_CONFIG(standby_etcd), .offset2 = offsetof(struct config, standby_etcd_count),
	  .type = OPTION_ADDRESSES, .max = CONFIG_ETCD_MAX, .fallback = "",
	  .help = "The client addresses of an etcd cluster's members (3.4 or later), which says who of the two serves: "
		  "then "
		  "a standby takes the place of a primary that has died without an operator, and a primary goes on "
		  "alone "
		  "when etcd has it (standby.alone_s does not count). Both nodes have the same. Nothing: an operator "
		  "says "
		  "it." },
	{ "standby.etcd_key", OF_CONFIG(standby_etcd_key), .type = OPTION_TEXT, .max = 255,
	  .fallback = "/starserver/ps/0",
	  .help = "The key in etcd. Give each cluster of one etcd its own; the two nodes have the same." },
	{ "standby.etcd_ca", OF_CONFIG(standby_etcd_ca), .type = OPTION_TEXT, .max = CONFIG_TEXT_MAX, .fallback = "",
	  .help = "A file with the certificate of who signs etcd's, in PEM: etcd is asked by HTTPS then. Nothing: by "
		  "HTTP, "
		  "in clear." },
	{ "standby.etcd_certificate", OF_CONFIG(standby_etcd_certificate), .type = OPTION_TEXT, .max = CONFIG_TEXT_MAX,
	  .fallback = "",
	  .help = "A file with this node's own certificate, in PEM, where etcd asks for one (--client-cert-auth)." },
	{ "standby.etcd_private_key", OF_CONFIG(standby_etcd_private_key), .type = OPTION_TEXT, .max = CONFIG_TEXT_MAX,
	  .fallback = "", .help = "The file with its private key, in PEM, without a passphrase." },
	{ "standby.durability", OF_CONFIG(standby_durability), .type = OPTION_CHOICE, .choices = "async|retained|sync",
	  .fallback = "retained",
	  .help = "When a reply leaves that tells of a change: async: at once, and what the last moments had is lost "
		  "when "
		  "the primary dies; retained: at once, and libstar keeps pushes until the standby has them, and sends "
		  "them again if the primary dies before, so that nothing is lost; sync: when the standby has the "
		  "change, "
		  "too, with the same effect. Pulls never "
		  "wait; without a standby nothing does, but for what journal.durability asks. Give both nodes the "
		  "same." },

	{ "tests.chain_max", OF_CONFIG(chain_max), .type = OPTION_NUMBER, .min = 1, .max = 1024, .fallback = "1024",
	  .help = "Checkpoints of a chain at most: where a delta would be one more, a full one is written." },
	{ "tests.loss_ppm", OF_CONFIG(loss_ppm), .type = OPTION_NUMBER, .max = 1000000, .fallback = "0",
	  .unit = "of a million",
	  .help = "Loses this many of the frames that come in, and of those that leave, at random: to see what loss "
		  "does." },

	{ "control.socket", OF_CONFIG(control_socket), .type = OPTION_TEXT, .min = 1, .max = 107,
	  .fallback_how = "/run/starserver/<job_name>-<task_index>.sock; for an ordinary user, in "
			  "$XDG_RUNTIME_DIR/starserver or /tmp/starserver-UID",
	  .help = "Path of the administrator's Unix socket." },
	{ "control.connect_timeout_ms", OF_CONFIG(connect_timeout_ms), .type = OPTION_NUMBER, .min = 1, .max = 3600000,
	  .fallback = "120000", .unit = "milliseconds",
	  .variables = { "NETWORK_MAX_CONNECTION_TIMEOUT", "NETWORK_MAX_CONNECTION_TIMEOUT" }, .worker = true,
	  .help = "How long to try to reach another node." },

	{ "metrics.port", OF_CONFIG(metrics_port), .type = OPTION_NUMBER, .max = 65535, .fallback = "0",
	  .help = "The TCP port of the kernel at which /metrics and /health are served over HTTP; 0: nowhere (`starctl "
		  "metrics` and "
		  "`starctl health` show the same)." },
	{ "metrics.address", OF_CONFIG(metrics_address), .type = OPTION_TEXT, .min = 2, .max = INET6_ADDRSTRLEN - 1,
	  .fallback = "127.0.0.1",
	  .help = "The address for that: one of the kernel's, or 0.0.0.0 or :: for all. Whoever reaches it can read "
		  "figures and names of tables, and change nothing." },
	{ "metrics.telemetry", OF_CONFIG(metrics_telemetry), .type = OPTION_BOOL, .fallback = "false",
	  .help = "Whether DPDK's telemetry socket is there, for dpdk-telemetry.py: its own figures of ports and "
		  "mempools, and the metrics below /star." },
	{ "metrics.tables", OF_CONFIG(metrics_tables), .type = OPTION_NUMBER, .max = 1024, .fallback = "200",
	  .help = "Tables and variables that have metrics of their own: those that were created first; of the others "
		  "star_tables_unlisted says how many there are, and `starctl tables` what they have. Each has some "
		  "twenty." },
	{ "metrics.requests", OF_CONFIG(observe_requests), .type = OPTION_BOOL, .fallback = "true",
	  .help = "Whether each reactor remembers how long requests took, the last 65,536 of them, and some of their "
		  "keys, for `starctl latency`, `slow`, `trace` and `hot`: in 4 MiB, and for some nanoseconds a "
		  "request." },

	{ "metrics.records", OF_CONFIG(metrics_records), .type = OPTION_TEXT, .min = 1, .max = 200,
	  .fallback_how = "control.socket with .records in place of .sock",
	  .help = "The file into which the node writes these last requests when it crashes, or when one of its "
		  "reactors "
		  "is stuck; at most 32 MiB, and the one of before with .1. `starctl slow --records FILE` reads it." },

	{ "security.control_keys", OF_CONFIG(security_control_keys), .type = OPTION_TEXT, .max = CONFIG_TEXT_MAX,
	  .fallback = "",
	  .help = "The key file of all principals who may use the control address, by TLS 1.3: `starctl key create` "
		  "makes "
		  "it. credential:NAME is one of systemd's (LoadCredential=). Nothing: whoever reaches that address "
		  "gets "
		  "in. The data network has security.data." },
	{ "security.control_principal", OF_CONFIG(security_control_principal), .type = OPTION_TEXT, .max = 63,
	  .fallback = "",
	  .help = "The principal of that file as which this node calls the others; nothing: the only one of role "
		  "node." },
	{ "security.audit_log", OF_CONFIG(security_audit_log), .type = OPTION_TEXT, .max = CONFIG_TEXT_MAX,
	  .fallback = "",
	  .help = "A file for the audit log of the control plane, in JSON lines: who came, what he changed, and what "
		  "was refused. `starctl audit verify` checks it. Nothing: there is none." },
	{ "security.data", OF_CONFIG(security_data), .type = OPTION_CHOICE, .choices = "open|checked|sealed|sealed-256",
	  .fallback = "open",
	  .help = "open: whoever reaches the data address reads and changes parameters. checked: who comes there has "
		  "a ticket, "
		  "which libstar asks the control plane for with its key, and nobody changes anything on the way. "
		  "sealed: and nobody reads keys and values there (AES-128-GCM; sealed-256: AES-256-GCM). Other than "
		  "open it needs "
		  "security.control_keys, and is the same on all nodes." },
	{ "security.memif", OF_CONFIG(security_memif), .type = OPTION_CHOICE, .choices = "as-data|tickets",
	  .fallback = "as-data",
	  .help = "What goes through shared memory (memif) with security.data. as-data: the same. tickets: who comes "
		  "there has a ticket, but requests and replies are as without one, which is faster; whoever can "
		  "attach to the interface's socket, or sees its memory, is trusted." },
	{ "security.rights", OF_CONFIG(security_rights), .type = OPTION_TEXT, .max = CONFIG_TEXT_MAX, .fallback = "",
	  .help = "A file that says which principals may do what with which tables of the data network, "
		  "and how much (docs/security.rst). Nothing: whoever has a ticket may do everything there." },
	{ "security.require", OF_CONFIG(security_require), .type = OPTION_BOOL, .fallback = "false",
	  .help = "The node does not start unless nobody gets in without a key: with security.control_keys, and "
		  "security.data checked or sealed, and with metrics.port on a loopback address only." },

	{ "log.level", OF_CONFIG(log_level), .type = OPTION_CHOICE, .choices = "debug|info|warning|error",
	  .fallback = "info", .worker = true,
	  .help = "The least severe events that are logged; `starctl log-level` changes it while the node runs." },
	{ "log.format", OF_CONFIG(log_format), .type = OPTION_CHOICE, .choices = "text|logfmt", .fallback = "text",
	  .help = "How lines are written: date, level and text; or time=, level= and msg= for programs. In the journal "
		  "they have "
		  "a priority instead of the date." },
};
const unsigned config_options_count = sizeof(config_options) / sizeof(config_options[0]);

_Static_assert(sizeof(config_options) / sizeof(config_options[0]) <= CONFIG_OPTIONS_MAX,
	       "raise CONFIG_OPTIONS_MAX, which sizes the table of origins");
_Static_assert(sizeof(enum config_stack) == sizeof(uint32_t), "OPTION_CHOICE stores 32 bits");
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
			 o->others ? "; two of one task stand as \"198.18.1.2:3333|198.18.1.3:3333\"" : "");
		break;
	}
	return text;
}
