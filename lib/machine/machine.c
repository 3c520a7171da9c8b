/* SPDX-License-Identifier: BSD-3-Clause */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "machine/machine.h"

enum {
	KIB = 1 << 10,
	MIB = 1 << 20,
	FRAME_MIN = 2048,
	FRAME_MARGIN = 84,
	MBUF_OVERHEAD = 512,
	MEMPOOL_FIXED = 2 * MIB,
	EAL_MIB = 16,
};

int machine_check_directory(const struct config *config, struct star_error *err)
{
	const char *path = config->checkpoint_directory;
	struct stat status;

	if (!path[0])
		return 0;
	if (stat(path, &status) != 0)
		return star_error_set(err, -errno, "checkpoint.directory: %s: %m; create it, or mount its file system",
				      path);
	if (!S_ISDIR(status.st_mode))
		return star_error_set(err, -ENOTDIR, "checkpoint.directory: %s is not a directory", path);
	if (access(path, R_OK | W_OK | X_OK) != 0)
		return star_error_set(err, -errno, "checkpoint.directory: %s cannot be written to: %m", path);
	return 0;
}

static int check_port(const struct config_port *port, unsigned number, struct star_error *err)
{
	char path[64];

	if (port->interface[0] && if_nametoindex(port->interface) == 0)
		return star_error_set(err, -ENODEV,
				      "ports[%u]: this machine has no interface %s (`ip link` lists them)", number,
				      port->interface);
	if (port->pci[0] && !machine_has_sys(""))
		return star_error_set(
			err, -ENODEV,
			"ports[%u]: there is no /sys here, as in some chroots and containers, and without it "
			"DPDK finds no PCI device %s: mount -t sysfs sysfs /sys",
			number, port->pci);
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%.20s", port->pci);
	if (port->pci[0] && access(path, F_OK) != 0)
		return star_error_set(err, -ENODEV,
				      "ports[%u]: this machine has no PCI device %s (`scripts/bind-nic status` lists "
				      "them)",
				      number, port->pci);
	return 0;
}

int machine_check(const struct config *config, struct star_error *err)
{
	int rc = machine_check_directory(config, err);

	for (uint32_t i = 0; rc == 0 && i < config->ports_count; i++)
		rc = check_port(&config->ports[i], i, err);
	return rc;
}

/* Reads a file that contains one number; "max", or no such file: UINT64_MAX. */
static uint64_t read_sysfs_number(const char *folder, const char *name)
{
	char path[PATH_MAX];
	unsigned long long value = UINT64_MAX;
	FILE *file;

	if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path) || !(file = fopen(path, "re")))
		return UINT64_MAX;
	if (fscanf(file, "%llu", &value) != 1)
		value = UINT64_MAX;
	fclose(file);
	return value;
}

/* What the control group (version 2) and its ancestors leave. */
uint64_t machine_group_bytes(void)
{
	static const char root[] = "/sys/fs/cgroup";
	char line[1024] = "", folder[sizeof(root) + sizeof(line)];
	uint64_t least = UINT64_MAX;
	FILE *file = fopen("/proc/self/cgroup", "re");

	while (file && fgets(line, sizeof(line), file) && strncmp(line, "0::/", 4) != 0)
		line[0] = 0;
	if (file)
		fclose(file);
	if (strncmp(line, "0::/", 4) != 0)
		return least;
	line[strcspn(line, "\n")] = 0;
	snprintf(folder, sizeof(folder), "%s%s", root, line + 3);
	while (strlen(folder) >= strlen(root)) {
		const uint64_t limit = read_sysfs_number(folder, "memory.max"),
			       used = read_sysfs_number(folder, "memory.current");

		if (limit != UINT64_MAX && used != UINT64_MAX)
			least = MIN(least, limit > used ? limit - used : 0);
		*strrchr(folder, '/') = 0;
	}
	return least;
}

uint64_t machine_hugepages_mib(uint64_t parameter_mib, uint32_t reactors, uint32_t mbufs, uint32_t mtu)
{
	/* As in lib/port/memory.c and eal.c: frames in whole KiB with what precedes them, and the mbuf for each; the
	 * mempools' own data, and the EAL. */
	const uint64_t frame = MAX(FRAME_MIN, ((uint64_t)mtu + FRAME_MARGIN + KIB - 1) / KIB * KIB);
	const uint64_t mempool = mbufs * (frame + MBUF_OVERHEAD) + MEMPOOL_FIXED;

	return parameter_mib + EAL_MIB + reactors * ((mempool + 2 * MIB - 1) / (2 * MIB) * 2);
}

uint64_t machine_free_bytes(void)
{
	unsigned long long kib = 0;
	char line[128];
	FILE *file = fopen("/proc/meminfo", "re");

	while (file && fgets(line, sizeof(line), file) && sscanf(line, "MemAvailable: %llu", &kib) != 1)
		;
	if (file)
		fclose(file);
	return MIN((uint64_t)kib << 10, machine_group_bytes());
}

static bool join_path(char path[PATH_MAX], const char *root, const char *rest)
{
	return snprintf(path, PATH_MAX, "%s%s", root, rest) < PATH_MAX;
}

bool machine_read(const char *root, const char *path, char text[static MACHINE_TEXT_MAX])
{
	char whole[PATH_MAX];

	text[0] = 0;
	return join_path(whole, root, path) && base_read_line(whole, text, MACHINE_TEXT_MAX);
}

bool machine_link(const char *root, const char *path, char name[static MACHINE_TEXT_MAX])
{
	char whole[PATH_MAX], target[PATH_MAX];
	const char *last;
	const ssize_t bytes = join_path(whole, root, path) ? readlink(whole, target, sizeof(target) - 1) : -1;

	name[0] = 0;
	if (bytes < 0)
		return false;
	target[bytes] = 0;
	last = strrchr(target, '/') ? strrchr(target, '/') + 1 : target;
	if (strlen(last) >= MACHINE_TEXT_MAX)
		return false;
	strcpy(name, last);
	return true;
}

unsigned machine_entries(const char *root, const char *path)
{
	char whole[PATH_MAX];
	DIR *folder = join_path(whole, root, path) ? opendir(whole) : NULL;
	const struct dirent *entry;
	unsigned n = 0;

	while (folder && (entry = readdir(folder)))
		n += entry->d_name[0] != '.';
	if (folder)
		closedir(folder);
	return n;
}

bool machine_has_sys(const char *root)
{
	return machine_entries(root, "/sys") > 0;
}

unsigned machine_pages(const char *root, struct machine_pages pages[static MACHINE_PAGES_MAX])
{
	char folder[PATH_MAX], own[PATH_MAX];
	DIR *sizes = join_path(folder, root, "/sys/kernel/mm/hugepages") ? opendir(folder) : NULL;
	const struct dirent *entry;
	unsigned long long kib;
	unsigned n = 0;

	while (sizes && n < MACHINE_PAGES_MAX && (entry = readdir(sizes)))
		if (sscanf(entry->d_name, "hugepages-%llukB", &kib) == 1 &&
		    snprintf(own, sizeof(own), "%s/%s", folder, entry->d_name) < (int)sizeof(own)) {
			const uint64_t total = read_sysfs_number(own, "nr_hugepages"),
				       free_pages = read_sysfs_number(own, "free_hugepages"),
				       reserved = read_sysfs_number(own, "resv_hugepages"),
				       promised = reserved == UINT64_MAX ? 0 : reserved;

			pages[n++] = (struct machine_pages){ .bytes = kib << 10,
							     .total = total == UINT64_MAX ? 0 : total,
							     .free = free_pages == UINT64_MAX || free_pages < promised
									     ? 0
									     : free_pages - promised };
		}
	if (sizes)
		closedir(sizes);
	return n;
}

bool machine_list_has(const char *list, unsigned number)
{
	while (*list) {
		char *end;
		unsigned long first = strtoul(list, &end, 10), last = first;

		if (end == list)
			return false;
		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		if (number >= first && number <= last)
			return true;
		list = *end == ',' ? end + 1 : "";
	}
	return false;
}
