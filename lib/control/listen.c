/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/listen.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "config/config.h"
#include "jsonrpc/address.h"

enum { BACKLOG = 512 };

static int explain(struct star_error *err, int code, const char *address)
{
	const char *port = strrchr(address, ':') + 1;

	switch (-code) {
	case EADDRINUSE:
		return star_error_set(
			err, code, "the control address %s is in use; `ss -ltnp 'sport = :%s'` shows by which process",
			address, port);
	case EADDRNOTAVAIL:
		return star_error_set(
			err, code, "no interface of this machine has the control address %s; `ip address` lists them",
			address);
	case EACCES:
		return star_error_set(err, code,
				      "no permission to listen on the control address %s: use a port over 1023",
				      address);
	default:
		return star_error_set(err, code, "cannot listen on the control address %s: %s", address,
				      strerrordesc_np(-code));
	}
}

static int bind_and_listen(const struct addrinfo *a)
{
	const int on = 1;
	int code, fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	code = -errno;
	close(fd);
	return code;
}

int control_listen_tcp(const char *address, struct star_error *err)
{
	struct addrinfo *list;
	int rc = jsonrpc_address_resolve(address, true, &list, err);

	if (rc < 0)
		return rc;
	rc = bind_and_listen(list);
	freeaddrinfo(list);
	return rc < 0 ? explain(err, rc, address) : rc;
}

/* Removes the old socket at that path, unless a process listens there. */
static int clear_path(const struct sockaddr_un *address, struct star_error *err)
{
	const char *path = address->sun_path;
	struct stat there;
	int fd, code = 0;

	if (lstat(path, &there) < 0)
		return errno == ENOENT
			       ? 0
			       : star_error_set(err, -errno, "cannot look at %s: %s", path, strerrordesc_np(errno));
	if (!S_ISSOCK(there.st_mode))
		return star_error_set(err, -EEXIST,
				      "%s exists and is not a socket; remove it, or give another control.socket", path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return star_error_set(err, -errno, "cannot open a socket: %s", strerrordesc_np(errno));
	if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0)
		code = errno;
	close(fd);
	if (code != ECONNREFUSED)
		return star_error_set(
			err, -EADDRINUSE,
			"a running node serves %s; `starctl --socket %s status` shows it. Stop it, or give "
			"another control.socket",
			path, path);
	if (unlink(path) < 0 && errno != ENOENT)
		return star_error_set(err, -errno, "cannot remove the stale socket %s: %s", path,
				      strerrordesc_np(errno));
	return 0;
}

static int make_folder(const char *path, struct star_error *err)
{
	const char *slash = strrchr(path, '/');
	char folder[sizeof(((struct sockaddr_un *)0)->sun_path)], own[CONFIG_RUNTIME_MAX];

	if (!slash || slash == path)
		return 0;
	snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path), path);
	if (mkdir(folder, geteuid() == 0 ? 0755 : 0700) < 0 && errno != EEXIST)
		return star_error_set(err, -errno, "cannot make the directory %s of the control socket: %s", folder,
				      strerrordesc_np(errno));
	config_runtime_folder(own);
	if (geteuid() != 0 && strcmp(folder, own) == 0 && strncmp(own, "/tmp/", 5) == 0 &&
	    !config_runtime_is_own(folder))
		return star_error_set(err, -EPERM,
				      "others can write to %s, where the control socket should be: remove it, or give "
				      "another control.socket",
				      folder);
	return 0;
}

int control_listen_unix(const char *path, struct star_error *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int rc, fd;

	if (path[0] == 0 || strlen(path) >= sizeof(address.sun_path))
		return star_error_set(err, -EINVAL, "control.socket must be a path of 1 to %zu bytes, not \"%.120s\"",
				      sizeof(address.sun_path) - 1, path);
	strcpy(address.sun_path, path);
	rc = make_folder(path, err);
	if (rc == 0)
		rc = clear_path(&address, err);
	if (rc < 0)
		return rc;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	/*
	 * The file that bind creates gets its mode from the socket, so it is never open to others, whatever the umask.
	 */
	if (fd >= 0 && fchmod(fd, 0600) == 0 && bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 &&
	    listen(fd, BACKLOG) == 0)
		return fd;
	rc = star_error_set(err, -errno, "cannot listen on %s: %s", path, strerrordesc_np(errno));
	if (fd >= 0)
		close(fd);
	return rc;
}
