/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The configuration of a node: defaults, overlaid by a libconfig file, the environment (the seeds' names) and the
 * command line, each of which overrides the one before. One option table (options.c) yields parser, bounds, defaults,
 * --help and the reference page in docs/. Read once, on one thread, before anything starts; constant afterwards.
 */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "star_error.h"

enum config_limits {
	CONFIG_PORTS_MAX = 8,
	CONFIG_ENDPOINTS_MAX = 4096,
	CONFIG_ETCD_MAX = 16,
	CONFIG_CORES_MAX = 64,
	CONFIG_TEXT_MAX = 255,
	CONFIG_HOST_MAX = 63,
	CONFIG_ADDRESSES_MAX = 8, /* of a port */
};

enum config_stack { CONFIG_STACK_DPDK, CONFIG_STACK_KERNEL };
enum config_sockets { CONFIG_SOCKETS_AUTO, CONFIG_SOCKETS_EPOLL, CONFIG_SOCKETS_IO_URING };
enum config_hugepages { CONFIG_HUGEPAGES_PREFERRED, CONFIG_HUGEPAGES_REQUIRED, CONFIG_HUGEPAGES_NONE };

/* As enum secure_data has them. */
enum config_data { CONFIG_DATA_OPEN, CONFIG_DATA_CHECKED, CONFIG_DATA_SEALED, CONFIG_DATA_SEALED_256 };

enum config_sealing { CONFIG_MEMIF_AS_DATA, CONFIG_MEMIF_TICKETS };

/* When replies that report changes are sent: at once, or when the changes are durable. */
enum config_durability { CONFIG_DURABILITY_ASYNC, CONFIG_DURABILITY_RETAINED, CONFIG_DURABILITY_SYNC };

enum config_restore { CONFIG_RESTORE_NO, CONFIG_RESTORE_LATEST, CONFIG_RESTORE_GOOD };

/* host:port; host is an IPv4 or IPv6 literal in its usual form, without brackets, or, for control addresses, a name. */
struct config_address {
	char host[CONFIG_HOST_MAX + 1];
	uint16_t port;
};

/* One entry of the endpoint map. */
struct config_endpoint {
	struct config_address control, data;
};

/* An address of a port, and its network. */
struct config_network {
	char host[INET6_ADDRSTRLEN]; /* IPv4 or IPv6 literal in its usual form */
	uint32_t prefix;	     /* 1 to 32 or 128 */
};

/* A network port of the appliance. */
struct config_port {
	char device[32];    /* DPDK's name of a virtual device driver (net_af_packet, net_memif, ...) or "pci" */
	char interface[32]; /* the kernel's interface, for af_packet and af_xdp */
	char pci[32];	    /* PCI address, for "pci" */
	char options[CONFIG_TEXT_MAX + 1]; /* further device arguments, as DPDK takes them */
	struct config_network addresses[CONFIG_ADDRESSES_MAX];
	uint32_t addresses_count;
	char gateway[32];		 /* IPv4 literal, or "" */
	char gateway6[INET6_ADDRSTRLEN]; /* IPv6 literal, or "" */
	uint32_t vlan;			 /* 0: untagged */
	uint32_t mtu;
};

/* Packet buffers that are needed besides those of requests and replies. */
enum {
	CONFIG_DESCRIPTORS = 1024, /* of a NIC's queue, each way */
	/* One per descriptor; and a retransmitted segment has two descriptors, and keeps the first one's buffer. */
	CONFIG_NIC_MBUFS = 2 * CONFIG_DESCRIPTORS + CONFIG_DESCRIPTORS / 2,
	CONFIG_AF_XDP_MBUFS = 3 * 1024, /* a queue's fill ring, and frames being sent */
	CONFIG_OWN_MBUFS = 1023,	/* in bursts, handed over between reactors, in replies */
};

struct config {
	/* node */
	char job_name[16]; /* "ps", "worker" or "chief" */
	uint32_t task_index;
	/* cluster: control addresses by task, in order */
	struct config_address *ps;
	/* the second address of a task that is a pair; port 0, or NULL: it has none */
	struct config_address *ps_others;
	uint32_t ps_count;
	struct config_address *workers;
	uint32_t workers_count;
	/* endpoint map */
	struct config_endpoint *endpoints;
	uint32_t endpoints_count;
	/* this node's own entry, found by config_own_control */
	struct config_endpoint own;
	/* ports */
	struct config_port ports[CONFIG_PORTS_MAX];
	uint32_t ports_count;
	/* cores */
	/* their number; the default is min(8, tasks, usable cores) for a PS, min(2, the same) for a worker */
	uint32_t reactors;
	bool polling;
	bool pin;
	uint32_t cores[CONFIG_CORES_MAX]; /* one per reactor, if pinned: the given ones, or the first usable ones */
	uint32_t cores_count;
	uint32_t spin_us; /* how long an idle reactor spins before it sleeps, without polling */
	/* memory */
	enum config_stack stack;
	enum config_sockets sockets; /* how the kernel's are used */
	enum config_hugepages hugepages;
	uint32_t parameter_mib; /* rows and index, of all reactors together */
	uint32_t mbufs;		/* of each reactor */
	/* limits, of each reactor */
	uint32_t connections_max;
	uint32_t sessions_max;
	uint32_t request_mib;
	uint32_t kept_mib;
	uint32_t kept_lease_ms;
	uint32_t receive_window_kib;
	uint32_t send_queue_kib;
	/* tcp */
	uint32_t rto_min_us;
	uint32_t rto_max_us;
	uint32_t time_wait_ms;
	uint32_t user_timeout_ms;
	uint32_t keepalive_s;
	uint32_t congestion; /* as net/net.h numbers them: cubic, newreno, dctcp */
	uint32_t ecn;	     /* accept, off, ask */
	/* datagrams, of each reactor */
	uint32_t credits; /* packets */
	uint32_t target_delay_us;
	uint32_t loss_ppm;  /* frames dropped on purpose per million, in each direction */
	uint32_t chain_max; /* maximum length of a chain of checkpoints */
	/* cluster-wide; must be the same on all nodes */
	uint32_t partitions;
	/* checkpoints; all nodes share the directory */
	char checkpoint_directory[CONFIG_TEXT_MAX + 1]; /* "": none */
	char checkpoint_key[CONFIG_TEXT_MAX + 1];	/* "": none */
	uint32_t checkpoint_restore;			/* enum config_restore: what a node starts from */
	uint32_t checkpoint_id;				/* the one to restore; 0: the newest */
	uint32_t checkpoint_every_s;			/* full ones; 0: on request only */
	uint32_t checkpoint_delta_every_s;
	uint32_t checkpoint_keep, checkpoint_keep_max;
	bool checkpoint_on_stop;
	uint32_t checkpoint_copies_mib; /* of each reactor */
	uint32_t checkpoint_log_mib;	/* of each reactor; 0: no deltas */
	uint32_t checkpoint_wait_s;	/* how long requests may wait for it; 0: until their deadlines */
	uint32_t checkpoint_rate_mib_s; /* of the node; 0: unlimited */
	/* the journal; each node has its own */
	char journal_directory[CONFIG_TEXT_MAX + 1]; /* "": none */
	uint32_t journal_ring_mib;		     /* of each reactor */
	uint32_t journal_segment_mib;
	uint32_t journal_limit_mib; /* on disk, of the node */
	uint32_t journal_wait_s;    /* how long requests may wait for it */
	enum config_durability journal_durability;
	/* the pair */
	char standby_peer[CONFIG_TEXT_MAX + 1]; /* "": the node is not in a pair */
	char standby_listen[CONFIG_TEXT_MAX + 1];
	char standby_directory[CONFIG_TEXT_MAX + 1];
	uint32_t standby_first;	 /* 0: primary, 1: standby */
	uint32_t standby_second; /* its control address is the one in ps_others */
	uint32_t standby_lease_ms;
	uint32_t standby_alone_s; /* 0: never */
	uint32_t standby_wait_s;
	uint32_t standby_hold_mib;	     /* of each reactor */
	struct config_address *standby_etcd; /* the register of which node serves; count 0: an operator decides */
	uint32_t standby_etcd_count;
	char standby_etcd_key[256];
	char standby_etcd_ca[CONFIG_TEXT_MAX + 1]; /* "": without TLS */
	char standby_etcd_certificate[CONFIG_TEXT_MAX + 1], standby_etcd_private_key[CONFIG_TEXT_MAX + 1];
	enum config_durability standby_durability;
	/* control plane */
	char control_socket[108];    /* path of the administrator's Unix socket */
	uint32_t connect_timeout_ms; /* NETWORK_MAX_CONNECTION_TIMEOUT */
	uint32_t metrics_port;	     /* 0: no HTTP */
	char metrics_address[INET6_ADDRSTRLEN];
	bool metrics_telemetry;
	uint32_t metrics_tables;		   /* number of tables with metrics of their own */
	bool observe_requests;			   /* metrics.requests */
	char metrics_records[CONFIG_TEXT_MAX + 1]; /* where a crash writes them; "": next to the control socket */
	/* security */
	char security_control_keys[CONFIG_TEXT_MAX + 1]; /* "": no authentication */
	char security_control_principal[64]; /* under which this node calls others; "": the only one with role node */
	char security_audit_log[CONFIG_TEXT_MAX + 1]; /* "": none */
	uint32_t security_data;			      /* enum config_data: of the data network */
	uint32_t security_memif;		      /* enum config_sealing: of memif */
	bool security_require;
	char security_rights[CONFIG_TEXT_MAX + 1]; /* "": none */
	uint32_t log_level;			   /* enum log_level */
	uint32_t log_format;			   /* enum log_format */
};

/* The --set name=value arguments, in order. */
struct config_override {
	const char *name, *value;
};

/*
 * Reads the whole configuration. file may be NULL. Returns NULL with a message in *err: for a file, "file:line: what is
 * wrong, and the allowed range or the nearest known key". Nothing is repaired silently.
 */
struct config *config_load(const char *file, const struct config_override *overrides, unsigned overrides_count,
			   struct star_error *err);
void config_free(struct config *config);

/*
 * Parses the options of a port that is not in the configuration: with the names, defaults, bounds and checks of the
 * list `ports`. 0, or -EINVAL with a message.
 */
int config_port_read(const struct config_override *options, unsigned count, struct config_port *port,
		     struct star_error *err);
/* Checks that two ports do not conflict: each needs its own addresses, and its own interface or NIC. The names are for
 * the message. 0 or -EINVAL. */
int config_port_check_pair(const struct config_port *port, const char *name, const struct config_port *other,
			   const char *other_name, struct star_error *err);

/* The options of a port of the device net_memif, with their defaults. */
struct config_memif {
	uint32_t id;
	bool abstract; /* socket is an abstract name, in this network namespace, not a file */
	char socket[108];
	char secret[25];
	bool has_mac;
	uint8_t mac[6];
};
/* 0, or -EINVAL with a message, which does not name the port. */
int config_memif_read(const struct config_port *port, struct config_memif *memif, struct star_error *err);
/* The same for a worker's port, which is the client. */
int config_memif_read_worker(const struct config_port *port, struct config_memif *memif, struct star_error *err);

/*
 * Reads an endpoint map in the seeds' form: one "control=data" per line; blank lines, # comments, spaces and CR LF are
 * allowed. 0, or -EINVAL with file and line. The caller frees *endpoints (NULL if there are none).
 */
int config_read_endpoint_map(const char *path, struct config_endpoint **endpoints, uint32_t *count,
			     struct star_error *err);

/* Parses "host:port" or "[IPv6]:port". 0, or -EINVAL with a message that shows an example. */
int config_parse_address(const char *text, struct config_address *address, struct star_error *err);

/* The opposite: formats an address, with brackets if needed. */
struct config_address_text {
	char text[CONFIG_HOST_MAX + sizeof("[]:65535")];
};
struct config_address_text config_show(const char *host, uint16_t port);

/* A PS task's first control address, or the second one of a pair; NULL: it has none. */
const struct config_address *config_ps_address(const struct config *config, uint32_t task, bool second);
/* The PS node's own control address. */
const struct config_address *config_own_control(const struct config *config);
/* Whether nodes of several PS tasks keep journals, which have to agree on the history of their cluster
 * (lib/control/history.c); a standby takes over its primary's. */
bool config_shares_history(const struct config *config);

/* Whether a host is an IPv6 literal. */
bool config_is_ipv6(const char *host);
/* Whether a host is an IPv4 or IPv6 literal, not a name. */
bool config_is_literal(const char *host);

/* Writes the option table: for --help, and for docs/ as reStructuredText. */
void config_print_help(FILE *out);
void config_print_rst(FILE *out);

/* Writes every option's value as a libconfig file that reads back the same. */
void config_print(const struct config *config, FILE *out);

/* libstar's settings from the environment: WORKER_* and NETWORK_*. 0, or -EINVAL with a message naming the variable. */
struct config_worker {
	uint32_t io_threads; /* NETWORK_WORKER_CORE_NUMBER; 0: not given */
	bool polling;	     /* WORKER_ENABLE_POLLING */
	bool pin;	     /* WORKER_DISABLE_PIN_CORES */
	uint32_t connect_timeout_ms;
	uint32_t cores[CONFIG_CORES_MAX]; /* to pin to, from a file; if there are none, the first usable ones */
	uint32_t cores_count;
};
int config_worker_environment(struct config_worker *worker, struct star_error *err);

/*
 * Reads a worker's file, for libstar's transport over DPDK: as config_load, for a job other than ps. It has cluster.ps
 * and exactly one port, the worker's; options without a meaning for workers are refused. NULL with a message in *err.
 */
struct config *config_load_worker(const char *file, struct star_error *err);
/* The settings of libstar's threads in such a file: one thread, polling and pinned as `cores` says. */
void config_worker_from(const struct config *config, struct config_worker *worker);

/*
 * The directory of control sockets: /run/starserver for root and for users who may write there; for other users
 * $XDG_RUNTIME_DIR/starserver, or /tmp/starserver-UID. It need not exist.
 */
enum { CONFIG_RUNTIME_MAX = 80 };
void config_runtime_folder(char folder[CONFIG_RUNTIME_MAX]);
/* Whether the directory belongs to this user, and nobody else can write to it; anybody can create one in /tmp. */
bool config_runtime_is_own(const char *folder);

/* Why a literal (or "localhost") cannot be a PS's data address: "loopback", ...; NULL: it can. */
const char *config_address_kernel_owned(const char *host);

/* The number of cores that this process may run on. */
uint32_t config_usable_cores(void);

#endif
