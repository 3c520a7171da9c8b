/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The DPDK transport is a library of its own, so that libstar does not need DPDK. It is looked for beside this library
 * (in a build directory) and in starserver/ below that (installed there because nobody links with it). If libstar is
 * linked into a program, the places are relative to that program: in a build directory, in a prefix, and in Debian's
 * library directory. The last place is the loader's search path. It is never unloaded: it has threads, and DPDK can be
 * initialized only once per process.
 */
#include "client/client.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY "libstar-dpdk.so"

/* Both libraries use these structs. (Their sizes may differ on machines other than x86-64; add those here.) */
_Static_assert(sizeof(struct call) == 2352 && sizeof(struct part) == 112 && sizeof(struct channel) == 3072 &&
		       sizeof(struct star_cluster) == 1344 && sizeof(struct star_error) == 512,
	       "a struct that transports share has another size: write it here, and count TRANSPORT_VERSION up");

static void *open_library(char *why, size_t bytes)
{
	static const char *const places[] = {
		"",
		"starserver/",
		"../lib/",
		"../../lib/",
		"../../../lib/",
		"../lib/starserver/",
		"../lib/x86_64-linux-gnu/starserver/",
	};
	char path[PATH_MAX];
	Dl_info own;
	void *handle;

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		const char *slash =
			dladdr((void *)(uintptr_t)&client_backend_load, &own) ? strrchr(own.dli_fname, '/') : NULL;
		const int folder = slash ? (int)(slash - own.dli_fname) + 1 : 0;
		const int length =
			snprintf(path, sizeof(path), "%.*s%s" LIBRARY, folder, folder ? own.dli_fname : "", places[i]);

		if (!folder || length >= (int)sizeof(path) || access(path, F_OK) != 0)
			continue;
		handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		if (!handle)
			snprintf(why, bytes, "%s", dlerror());
		return handle;
	}
	handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		snprintf(why, bytes, "%s", dlerror());
	return handle;
}

const struct transport *client_backend_load(struct star_error *err)
{
	const struct transport *transport;
	char why[256];
	void *handle = open_library(why, sizeof(why));

	if (!handle) {
		star_error_set(err, -ENOENT,
			       "\"dpdk:\" needs " LIBRARY
			       ", which is installed with libstar and needs DPDK's libraries: %s",
			       why);
		return NULL;
	}
	transport = dlsym(handle, TRANSPORT_SYMBOL);
	if (transport && transport->version == TRANSPORT_VERSION && strcmp(transport->release, STAR_VERSION) == 0)
		return transport;
	star_error_set(err, -EPROTO,
		       LIBRARY " is of release %.32s, and libstar of another build, " STAR_VERSION
			       ": install both from one",
		       transport ? transport->release : "unknown");
	return NULL;
}
