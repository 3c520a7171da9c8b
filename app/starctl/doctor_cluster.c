/* SPDX-License-Identifier: BSD-3-Clause */
/* The cluster: which nodes can be reached, and whether this one's addresses are free. */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "app/starctl/doctor.h"
#include "app/starctl/starctl.h"
#include "jsonrpc/jsonrpc.h"

/* A running node answers in a fraction of this time. */
enum { REACH_US = 1000000 };

/* 0: a socket could be bound there; otherwise an errno. It does not listen, so no peer can see it. */
static int try_bind(const char *host, uint16_t port)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | AI_PASSIVE }, *found;
	char service[8];
	int fd, one = 1, rc = 0;

	snprintf(service, sizeof(service), "%u", port);
	if (getaddrinfo(host, service, &hints, &found) != 0)
		return ENOENT;
	fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (fd < 0 || bind(fd, found->ai_addr, found->ai_addrlen) < 0)
		rc = errno;
	if (fd >= 0)
		close(fd);
	freeaddrinfo(found);
	return rc;
}

static void look_at_address(struct doctor *doctor, const char *check, const char *host, uint16_t port)
{
	const struct config_address_text shown = config_show(host, port);
	char remedy[96];
	const int rc = try_bind(host, port);

	snprintf(remedy, sizeof(remedy), "`ss -ltnp sport = :%u` shows which: end it, or choose another port", port);
	if (rc == 0)
		doctor_find(doctor, check, DOCTOR_OK, NULL, "%s belongs to this machine, and is free", shown.text);
	else if (rc == EADDRINUSE)
		doctor_find(doctor, check, DOCTOR_BAD, remedy, "%s is used by another program", shown.text);
	else if (rc == EADDRNOTAVAIL)
		doctor_find(doctor, check, DOCTOR_BAD,
			    "run the node on the machine of that task, or correct node.task_index or cluster.ps; `ip "
			    "address` lists this machine's addresses",
			    "this machine does not have the address of %s", shown.text);
	else if (rc == ENOENT)
		doctor_find(doctor, check, DOCTOR_BAD, "give it an address, or an entry in /etc/hosts",
			    "the name %s has no address", host);
	else
		doctor_find(doctor, check, DOCTOR_BAD, "choose another port", "cannot listen at %s: %s", shown.text,
			    strerrordesc_np(rc));
}

/* Checks the addresses at which the kernel will listen for this node. */
static void look_at_own(struct doctor *doctor)
{
	const struct config *config = doctor->config;
	const struct config_address *control = config_own_control(config);
	unsigned reactors = config->stack == CONFIG_STACK_KERNEL ? config->reactors : 0;

	look_at_address(doctor, "control address", control->host, control->port);
	for (unsigned r = 0; r < reactors; r++)
		look_at_address(doctor, "data address", config->own.data.host, (uint16_t)(config->own.data.port + r));
	if (config->stack != CONFIG_STACK_KERNEL && try_bind(config->own.data.host, 0) == 0)
		doctor_find(doctor, "data address", DOCTOR_BAD,
			    "`ip address del` it from its interface: only the node must answer for it",
			    "the kernel of this machine also has %s", config->own.data.host);
	if (config->metrics_port)
		look_at_address(doctor, "metrics address", config->metrics_address, (uint16_t)config->metrics_port);
}

/* NULL: it cannot be reached, or does not answer us. */
static json_t *ask_at(const char *address, struct star_error *err)
{
	struct jsonrpc_client *client = connect_node(address, REACH_US, err);
	json_t *status = client ? jsonrpc_call(client, "status", NULL, REACH_US, err) : NULL;

	jsonrpc_close(client);
	return status;
}

/* A node's status. If no key is accepted, the node of this configuration answers on its administrator's socket. */
static json_t *ask_node(const struct config *config, const struct config_address *address, bool own,
			struct star_error *err)
{
	json_t *status = ask_at(config_show(address->host, address->port).text, err);

	return status || !own || err->code != -EACCES ? status : ask_at(config->control_socket, NULL);
}

void doctor_address(struct doctor *doctor, const char *address)
{
	struct star_error err = { 0 };
	json_t *status = ask_at(address, &err);
	const char *job = json_string_value(json_object_get(status, "job"));

	if (status)
		doctor_find(doctor, "node", DOCTOR_OK, NULL, "%s answers: %.32s task %" JSON_INTEGER_FORMAT, address,
			    job ? job : "ps", json_integer_value(json_object_get(status, "task")));
	else
		doctor_find(doctor, "node", DOCTOR_BAD,
			    err.code == -EACCES
				    ? "name a key file of a principal that it knows: `starctl --key FILE ...`"
				    : "start it there (`starserver --local` for a first try); if it runs, see "
				      "its log, and whether a firewall lets this port through",
			    "%s", err.text);
	json_decref(status);
}

static void look_at_node(struct doctor *doctor, unsigned task, bool second, const json_t *status,
			 const struct star_error *err)
{
	const struct config_address *address = config_ps_address(doctor->config, task, second);
	const struct config_address_text shown = config_show(address->host, address->port);
	const char *version = json_string_value(json_object_get(status, "version"));
	const json_int_t is = json_integer_value(json_object_get(status, "task"));
	char check[32];

	snprintf(check, sizeof(check), "PS task %u%s", task, second ? ", second node" : "");
	if (!status && err->code == -EACCES)
		doctor_find(doctor, check, DOCTOR_WARNING,
			    "name a key file of a principal that it knows, and that is not a node: `starctl --key FILE "
			    "doctor ...`; its own machine's root needs none",
			    "%s answers, but refuses this request: %s", shown.text, err->text);
	else if (!status)
		doctor_find(doctor, check, DOCTOR_WARNING,
			    "start its node; if it runs, see its log, and whether a firewall lets this port through",
			    "%s", err->text);
	else if (!version || is != task)
		doctor_find(doctor, check, DOCTOR_BAD, "see cluster.ps, and node.task_index of the node there",
			    "the node at %s is not PS task %u of this cluster", shown.text, task);
	else if (strcmp(version, STAR_VERSION) != 0)
		doctor_find(doctor, check, DOCTOR_WARNING, "install the same version on all machines",
			    "%s answers, but has version %.32s; this is " STAR_VERSION, shown.text, version);
	else
		doctor_find(doctor, check, DOCTOR_OK, NULL, "%s answers", shown.text);
}

/* Whether a node listens there. */
static void look_at_peer(struct doctor *doctor, const char *check, const struct config_address *address,
			 const char *remedy)
{
	const struct config_address_text shown = config_show(address->host, address->port);
	struct star_error err = { 0 };
	struct jsonrpc_client *client = jsonrpc_connect(shown.text, REACH_US, &err); /* it sends nothing unasked */

	if (client)
		doctor_find(doctor, check, DOCTOR_OK, NULL, "%s can be reached", shown.text);
	else
		doctor_find(doctor, check, DOCTOR_WARNING, remedy, "%s cannot be reached: %s", shown.text,
			    err.code == -EHOSTUNREACH ? err.text : strerrordesc_np(-err.code));
	jsonrpc_close(client);
}

/* The other node of a pair, and the etcd members that decide which of the two serves. */
static void look_at_pair(struct doctor *doctor)
{
	const struct config *config = doctor->config;
	struct config_address address;
	struct star_error ignored;
	char check[32];

	if (config->standby_peer[0] && config_parse_address(config->standby_peer, &address, &ignored) >= 0)
		look_at_peer(doctor, "standby.peer", &address,
			     "start the pair's other node; if it runs, see whether a firewall lets this port through");
	for (uint32_t i = 0; i < config->standby_etcd_count; i++) {
		snprintf(check, sizeof(check), "standby.etcd[%u]", i);
		look_at_peer(doctor, check, &config->standby_etcd[i],
			     "start etcd there, or correct standby.etcd: without a majority of it no node takes over");
	}
}

void doctor_cluster(struct doctor *doctor)
{
	const struct config *config = doctor->config;
	const bool is_ps = strcmp(config->job_name, "ps") == 0;

	for (unsigned i = 0; i < 2 * config->ps_count; i++) {
		const unsigned task = i / 2;
		const bool second = i % 2;
		const struct config_address *address = config_ps_address(config, task, second);
		struct star_error err = { 0 };
		const bool own = is_ps && address == config_own_control(config);
		json_t *status = address ? ask_node(config, address, own, &err) : NULL;
		const bool there = status || err.code == -EACCES;

		doctor->running |= own && there;
		if (own && !there)
			look_at_own(doctor);
		else if (address)
			look_at_node(doctor, task, second, status, &err);
		json_decref(status);
	}
	look_at_pair(doctor);
}
