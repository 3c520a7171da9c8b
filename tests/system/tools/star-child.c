/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * star-child PARENT NETNS PROGRAM [ARGUMENT...]: becomes that program, which is killed when its parent (a pid) ends, in
 * a network namespace of `ip netns` as `ip netns exec` enters it ("": in this one). With it the parent need not fork
 * itself to do so before the program begins: copying a process of Python costs several times as much as this program.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <unistd.h>

static int fail(const char *what)
{
	fprintf(stderr, "star-child: %s: %s\n", what, strerror(errno));
	return 127;
}

/* /sys shows the interfaces of the namespace in which it was mounted. */
static int enter(const char *name)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "/run/netns/%s", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET) < 0)
		return fail(path);
	close(fd);
	if (unshare(CLONE_NEWNS) < 0 || mount("", "/", "none", MS_SLAVE | MS_REC, NULL) < 0)
		return fail("a mount namespace");
	umount2("/sys", MNT_DETACH);
	return mount(name, "/sys", "sysfs", 0, NULL) < 0 ? fail("/sys") : 0;
}

int main(int argc, char **argv)
{
	if (argc < 4) {
		fputs("usage: star-child PARENT NETNS PROGRAM [ARGUMENT...]\n", stderr);
		return 127;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (getppid() != atoi(argv[1]))
		return 127; /* it has ended meanwhile */
	if (argv[2][0] && enter(argv[2]) != 0)
		return 127;
	execvp(argv[3], argv + 3);
	return fail(argv[3]);
}
