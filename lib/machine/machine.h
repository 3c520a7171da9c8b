/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Facts about this machine from /proc and /sys, and whether they meet a configuration's needs. It only reads; any
 * thread. root is a prefix of each path: "" for the machine itself, or a directory with such files in tests.
 */
#ifndef MACHINE_MACHINE_H
#define MACHINE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "star_error.h"

enum { MACHINE_TEXT_MAX = 256, MACHINE_PAGES_MAX = 4 };

/* Checks directories and devices of a configuration, without opening anything. 0, or a negative errno with err. */
int machine_check(const struct config *config, struct star_error *err);
/* The same for checkpoint.directory only. */
int machine_check_directory(const struct config *config, struct star_error *err);

/* machine_free_bytes: bytes of memory that are available according to the kernel and this process's control groups; 0:
 * unknown. machine_group_bytes: what the control groups alone leave; UINT64_MAX: no limit. */
uint64_t machine_free_bytes(void);
uint64_t machine_group_bytes(void);

/* Reads a file's first line, without its end. false, and "": it cannot be read. */
bool machine_read(const char *root, const char *path, char text[static MACHINE_TEXT_MAX]);
/* The last component of a symbolic link's target. false, and "": there is none. */
bool machine_link(const char *root, const char *path, char name[static MACHINE_TEXT_MAX]);

/* Whether there is a /sys that is not empty: chroots and some containers have none. */
bool machine_has_sys(const char *root);

/* Number of entries of a directory; 0: none, or there is no such directory. */
unsigned machine_entries(const char *root, const char *path);

/* Hugepages of one size. */
struct machine_pages {
	uint64_t bytes; /* of a page */
	uint64_t total, free;
};
/* The hugepages of each size that the kernel supports. Returns the number of sizes. */
unsigned machine_pages(const char *root, struct machine_pages pages[static MACHINE_PAGES_MAX]);

/* MiB of hugepages that a node needs for parameters, and for packet buffers of its reactors for ports with that MTU;
 * slightly more than it requests. */
uint64_t machine_hugepages_mib(uint64_t parameter_mib, uint32_t reactors, uint32_t mbufs, uint32_t mtu);

/* Whether a kernel list such as "0-3,8" contains a number. */
bool machine_list_has(const char *list, unsigned number);

#endif
