/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded into a node: the kernel says that it has 512 hugepages of 2 MiB, all free, and gives none, as when another
 * program takes them between a node's check and its start.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdint.h>
#include <string.h>

__attribute__((visibility("default"))) FILE *fopen(const char *path, const char *mode)
{
	static FILE *(*real)(const char *, const char *);
	static char pages[] = "512\n", none[] = "0\n";

	if (!real)
		real = (FILE * (*)(const char *, const char *))(uintptr_t)dlsym(RTLD_NEXT, "fopen");
	if (!strstr(path, "hugepages/hugepages-2048kB/"))
		return real(path, mode);
	return strstr(path, "resv_hugepages") || strstr(path, "surplus") ? fmemopen(none, 2, "r")
									 : fmemopen(pages, 4, "r");
}
