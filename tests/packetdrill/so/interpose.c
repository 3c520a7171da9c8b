/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shared object is preloaded into packetdrill as well. packetdrill reads TCP_INFO and calls sendfile by the C
 * library even where the stack under test is a shared object: those calls are answered here. What it does for precise
 * timing on a kernel (pinned memory, real-time priority, waiting for ten clock ticks) serves nothing under a virtual
 * clock, and is left out. In a program that only opens the object, nothing of this is in force.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/times.h>

#include "tests/packetdrill/so/shim.h"

#define EXPORT __attribute__((visibility("default")))

/* Preloaded, the object's own calls stand before libc's. (Looked up from here its other names are found in any
 * case.) */
__attribute__((constructor)) static void look_whether_preloaded(void)
{
	Dl_info first, own;

	shim.preloaded = dladdr(dlsym(RTLD_DEFAULT, "mlockall"), &first) && dladdr(&shim, &own) &&
			 first.dli_fbase == own.dli_fbase;
	if (shim.preloaded)
		unsetenv("LD_PRELOAD"); /* the commands of scripts run without it */
}

/* The file that packetdrill writes Python code to stays behind when that fails. */
static char code_path[256];

__attribute__((destructor)) static void remove_code(void)
{
	if (code_path[0])
		unlink(code_path);
}

EXPORT int mkstemp(char *template)
{
	int (*real)(char *);
	int fd;

	*(void **)&real = dlsym(RTLD_NEXT, "mkstemp");
	fd = real(template);
	if (fd >= 0)
		snprintf(code_path, sizeof(code_path), "%s", template);
	return fd;
}

static bool owns(int fd)
{
	return fd >= 0 && fd < SHIM_FDS && shim.objects[fd];
}

EXPORT int getsockopt(int fd, int level, int name, void *restrict value, socklen_t *restrict bytes)
{
	int (*real)(int, int, int, void *, socklen_t *);

	if (owns(fd))
		return shim_getsockopt(NULL, fd, level, name, value, bytes);
	*(void **)&real = dlsym(RTLD_NEXT, "getsockopt");
	return real(fd, level, name, value, bytes);
}

EXPORT ssize_t sendfile(int to, int from, off_t *offset, size_t bytes)
{
	ssize_t (*real)(int, int, off_t *, size_t);

	if (owns(to))
		return shim_sendfile(to, from, offset, bytes);
	*(void **)&real = dlsym(RTLD_NEXT, "sendfile");
	return real(to, from, offset, bytes);
}

/* packetdrill's main thread waits so for another thread's call to return: now only that thread can let time pass. */
EXPORT int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
				  const struct timespec *restrict until)
{
	int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
	int result;

	/* By version: there is an older form of another layout. */
	*(void **)&real = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
	shim_main_waits(true);
	result = real(cond, mutex, until);
	shim_main_waits(false);
	return result;
}

void shim_wait_changed(void)
{
	int (*real)(pthread_cond_t *, pthread_mutex_t *);

	*(void **)&real = dlvsym(RTLD_NEXT, "pthread_cond_wait", "GLIBC_2.3.2");
	real(&shim.changed, &shim.lock);
}

/* Its other thread waits so for its next call. */
EXPORT int pthread_cond_wait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex)
{
	int (*real)(pthread_cond_t *, pthread_mutex_t *);

	*(void **)&real = dlvsym(RTLD_NEXT, "pthread_cond_wait", "GLIBC_2.3.2");
	if (cond != &shim.changed)
		shim_idle();
	return real(cond, mutex);
}

EXPORT int mlockall(int flags)
{
	return 0;
}

EXPORT int sched_setscheduler(pid_t pid, int policy, const struct sched_param *parameter)
{
	return 0;
}

EXPORT clock_t times(struct tms *buffer)
{
	static clock_t ticks;

	if (buffer)
		*buffer = (struct tms){ 0 };
	return ++ticks;
}
