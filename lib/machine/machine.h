/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What this machine has, as its kernel says in /proc and /sys, and whether that is what a configuration needs. Reads
 * only; any thread. root is put before each path: "" for the machine itself, a folder with such files in tests.
 */
#ifndef MACHINE_MACHINE_H
#define MACHINE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "star_error.h"

enum { MACHINE_TEXT_MAX = 256, MACHINE_PAGES_MAX = 4 };

/* Looks at directories and devices, and opens nothing: 0, or a negative errno with a message. */
int machine_check(const struct config *config, struct star_error *err);
/* The same of checkpoint.directory alone. */
int machine_check_directory(const struct config *config, struct star_error *err);

/* Bytes that programs may still take of memory, as the kernel and this process's control groups say; 0: the kernel does
 * not. And what the groups alone leave; UINT64_MAX: they have no limit. */
uint64_t machine_free_bytes(void);
uint64_t machine_group_bytes(void);

/* A file's first line, without its end; false, and "", when it cannot be read. */
bool machine_read(const char *root, const char *path, char text[static MACHINE_TEXT_MAX]);
/* The last component of what a symbolic link points to; false, and "", when there is none. */
bool machine_link(const char *root, const char *path, char name[static MACHINE_TEXT_MAX]);

/* Whether there is a /sys with anything in it: in chroots and some containers there is none. */
bool machine_has_sys(const char *root);

/* Entries of a folder; 0: none, or there is no such folder. */
unsigned machine_entries(const char *root, const char *path);

/* Hugepages of one size. */
struct machine_pages {
	uint64_t bytes; /* of a page */
	uint64_t total, free;
};
/* Those of each size that the kernel offers; returns how many sizes. */
unsigned machine_pages(const char *root, struct machine_pages pages[static MACHINE_PAGES_MAX]);

/* MiB that a node wants in hugepages: parameters, and packet buffers of its reactors for ports of that mtu; a little
 * more than it asks for. */
uint64_t machine_hugepages_mib(uint64_t parameter_mib, uint32_t reactors, uint32_t mbufs, uint32_t mtu);

/* Whether a list of the kernel's, "0-3,8", has a number. */
bool machine_list_has(const char *list, unsigned number);

#endif
