/* SPDX-License-Identifier: BSD-3-Clause */
/* The listening sockets: modes, stale and living sockets, addresses in use. */
#include "tests/control/cases.h"
#include "tests/control/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static struct control *try_start(struct node *node, uint32_t incarnation, struct star_error *err)
{
	struct control_options options = { .config = &node->config, .incarnation = incarnation };

	return control_create(&options, err);
}

void the_admin_socket_is_for_its_owner(void)
{
	struct cluster cluster;
	struct stat status = { 0 };
	const mode_t before = umask(0);

	cluster_init(&cluster, 1);
	/* A folder that is not there is made. */
	strcat(cluster.folder, "/run");
	snprintf(cluster.nodes[0].config.control_socket, sizeof(cluster.nodes[0].config.control_socket), "%s/a.sock",
		 cluster.folder);
	cluster_start(&cluster);
	CHECK_INT(stat(cluster.nodes[0].config.control_socket, &status), 0);
	CHECK_UINT(status.st_mode, S_IFSOCK | 0600);
	umask(before);
	cluster_fini(&cluster);
	*strrchr(cluster.folder, '/') = 0;
	CHECK_INT(rmdir(cluster.folder), 0);
}

/* A socket file whose process is gone. */
static void leave_socket(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	CHECK_INT(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	CHECK_INT(listen(fd, 1), 0);
	close(fd);
}

void a_stale_socket_is_replaced(void)
{
	struct cluster cluster;
	struct star_error err = { 0 };
	json_t *status;

	cluster_init(&cluster, 1);
	leave_socket(cluster.nodes[0].config.control_socket);
	cluster_start(&cluster);
	status = call(cluster.nodes[0].config.control_socket, "status", NULL, &err);
	CHECK(status != NULL);
	json_decref(status);
	cluster_fini(&cluster);
}

void what_lives_at_the_path_is_left_alone(void)
{
	struct cluster cluster;
	struct star_error err = { 0 };
	struct config *second;
	json_t *status;
	int fd;

	cluster_init(&cluster, 2);
	cluster.nodes[0].config.ps_count = 1;
	cluster.nodes[1].config.ps_count = 2;
	second = &cluster.nodes[1].config;
	node_start(&cluster, 0, 1);
	strcpy(second->control_socket, cluster.nodes[0].config.control_socket);
	CHECK(try_start(&cluster.nodes[1], 2, &err) == NULL);
	CHECK_INT(err.code, -EADDRINUSE);
	CHECK_HAS(err.text, "a running node serves");
	CHECK_HAS(err.text, "starctl --socket");
	status = call(second->control_socket, "status", NULL, &err);
	CHECK_INT(json_integer_value(json_object_get(status, "incarnation")), 1);
	json_decref(status);
	snprintf(second->control_socket, sizeof(second->control_socket), "%s/file", cluster.folder);
	fd = open(second->control_socket, O_CREAT | O_WRONLY, 0600);
	close(fd);
	CHECK(try_start(&cluster.nodes[1], 2, &err) == NULL);
	CHECK_HAS(err.text, "is not a socket");
	CHECK_INT(unlink(second->control_socket), 0);
	cluster_fini(&cluster);
}

void an_address_in_use_is_named(void)
{
	struct cluster cluster;
	struct star_error err = { 0 };
	struct config *second;

	cluster_init(&cluster, 2);
	node_start(&cluster, 0, 1);
	second = &cluster.nodes[1].config;
	second->own.control.port = cluster.ps[0].port;
	CHECK(try_start(&cluster.nodes[1], 2, &err) == NULL);
	CHECK_INT(err.code, -EADDRINUSE);
	CHECK_HAS(err.text, cluster.nodes[0].address);
	CHECK_HAS(err.text, "ss -ltnp");
	strcpy(second->own.control.host, "198.18.77.77");
	CHECK(try_start(&cluster.nodes[1], 2, &err) == NULL);
	CHECK_HAS(err.text, "no interface of this machine has the control address 198.18.77.77");
	strcpy(second->own.control.host, "127.0.0.1");
	second->own.control.port = cluster.ps[1].port;
	memset(second->control_socket, 0, sizeof(second->control_socket));
	CHECK(try_start(&cluster.nodes[1], 2, &err) == NULL);
	CHECK_HAS(err.text, "control.socket must be a path");
	strcpy(second->control_socket, "/no/such/folder/x.sock");
	CHECK(try_start(&cluster.nodes[1], 2, &err) == NULL);
	CHECK_HAS(err.text, "/no/such/folder");
	strcpy(second->job_name, "worker");
	CHECK(try_start(&cluster.nodes[1], 2, &err) == NULL);
	CHECK_HAS(err.text, "only a PS task");
	strcpy(second->job_name, "ps");
	CHECK(try_start(&cluster.nodes[1], 0, &err) == NULL);
	CHECK_HAS(err.text, "incarnation");
	second->task_index = 2;
	CHECK(try_start(&cluster.nodes[1], 1, &err) == NULL);
	CHECK_HAS(err.text, "PS task 2 of 2");
	cluster_fini(&cluster);
}
