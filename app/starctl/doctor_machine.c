/* SPDX-License-Identifier: BSD-3-Clause */
/* The machine itself: memory, cores, clock, files, storage. */
#include <errno.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "app/starctl/doctor.h"
#include "machine/machine.h"

enum {
	MIB = 1 << 20,
	ADDRESS_SPACE_MIB = 1 << 10, /* without hugepages; with hugepages it is hundreds of GiB */
	FILES_SPARE = 1024,	     /* for the control plane, checkpoints, and the program itself */
};

/* ---- memory ---- */

static uint64_t needed_mib(const struct config *config)
{
	uint32_t mtu = 0;

	for (unsigned i = 0; i < config->ports_count; i++)
		mtu = MAX(mtu, config->ports[i].mtu);
	return machine_hugepages_mib(config->parameter_mib, config->reactors, config->mbufs, mtu);
}

static bool wants_hugepages(const struct config *config)
{
	return config->stack != CONFIG_STACK_KERNEL && config->hugepages != CONFIG_HUGEPAGES_NONE;
}

static void look_at_hugepages(struct doctor *doctor)
{
	struct machine_pages pages[MACHINE_PAGES_MAX];
	const unsigned sizes = machine_pages(doctor->root, pages);
	uint64_t total = 0, free_mib = 0, needed = doctor->config ? needed_mib(doctor->config) : 0;
	const bool required = doctor->config && doctor->config->hugepages == CONFIG_HUGEPAGES_REQUIRED;
	char remedy[64];

	for (unsigned i = 0; i < sizes; i++) {
		total += pages[i].total * pages[i].bytes / MIB;
		free_mib += pages[i].free * pages[i].bytes / MIB;
	}
	snprintf(remedy, sizeof(remedy), "scripts/hugepages reserve %" PRIu64 "M", needed);
	if (!doctor->config)
		doctor_find(doctor, "hugepages", DOCTOR_OK, NULL,
			    "%" PRIu64 " MiB, of which %" PRIu64 " MiB are free%s", total, free_mib,
			    total ? "" : "; a node with its own NIC is faster with hugepages");
	else if (doctor->running)
		doctor_find(doctor, "hugepages", DOCTOR_OK, NULL,
			    "%" PRIu64 " MiB, of which %" PRIu64 " MiB are free; the node runs already (starctl health "
			    "says whether it has some)",
			    total, free_mib);
	else if (free_mib >= needed)
		doctor_find(doctor, "hugepages", DOCTOR_OK, NULL,
			    "%" PRIu64 " MiB are free; the node needs about %" PRIu64 " MiB", free_mib, needed);
	else
		doctor_find(doctor, "hugepages", required ? DOCTOR_BAD : DOCTOR_WARNING, remedy,
			    "%" PRIu64 " MiB are free, but the node needs about %" PRIu64 " MiB: it %s", free_mib,
			    needed, required ? "will not start" : "runs on ordinary pages, and more slowly");
}

/* An IOMMU restricts a NIC to the node's memory; with one, NICs are bound to vfio-pci. */
static void look_at_iommu(struct doctor *doctor)
{
	const unsigned groups = machine_entries(doctor->root, "/sys/kernel/iommu_groups");

	if (groups)
		doctor_find(doctor, "IOMMU", DOCTOR_OK, NULL, "there is one, with %u groups of devices", groups);
	else
		doctor_find(doctor, "IOMMU", DOCTOR_OK, NULL,
			    "there is none, or it is off: a NIC that is not shared with the kernel is bound to "
			    "uio_pci_generic then");
}

static void look_at_memory(struct doctor *doctor)
{
	const uint64_t free_mib = machine_free_bytes() / MIB;
	const uint64_t needed = doctor->config ? needed_mib(doctor->config) : 0;

	if (free_mib == 0 && !machine_entries(doctor->root, "/proc"))
		doctor_find(doctor, "memory", DOCTOR_WARNING, "mount -t proc proc /proc",
			    "there is no /proc here, as in some chroots: memory cannot be checked");
	else if (doctor->running || free_mib >= needed)
		doctor_find(doctor, "memory", DOCTOR_OK, NULL, "%" PRIu64 " MiB are free", free_mib);
	else
		doctor_find(doctor, "memory", DOCTOR_BAD, "lower memory.parameter_mib, or end what else runs here",
			    "%" PRIu64 " MiB are free, but the node needs about %" PRIu64 " MiB", free_mib, needed);
}

static uint64_t limit_mib(int resource)
{
	struct rlimit limit;

	return getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur / MIB;
}

static bool has_pci(const struct config *config)
{
	for (unsigned i = 0; config && config->stack != CONFIG_STACK_KERNEL && i < config->ports_count; i++)
		if (config->ports[i].pci[0])
			return true;
	return false;
}

/* Limits for processes that are started here, however much there is. */
static void look_at_limits(struct doctor *doctor)
{
	static const char check[] = "memory limits";
	const uint64_t needed = doctor->config ? needed_mib(doctor->config) : 0;
	const uint64_t space = limit_mib(RLIMIT_AS), locked = limit_mib(RLIMIT_MEMLOCK), group = machine_group_bytes();

	if (space != UINT64_MAX && space < needed + ADDRESS_SPACE_MIB)
		doctor_find(doctor, check, DOCTOR_BAD, "ulimit -v unlimited, or LimitAS=infinity in the unit",
			    "a process started here may have only %" PRIu64
			    " MiB of address space; DPDK reserves far more than the "
			    "node's %" PRIu64 " MiB of memory",
			    space, needed);
	else if (has_pci(doctor->config) && geteuid() != 0 && locked < needed)
		doctor_find(doctor, check, DOCTOR_BAD,
			    "ulimit -l unlimited as root, or LimitMEMLOCK=infinity in the unit",
			    "a NIC's memory is locked: this user may lock only %" PRIu64
			    " MiB, but the node has %" PRIu64 " MiB",
			    locked, needed);
	else if (group != UINT64_MAX)
		doctor_find(doctor, check, DOCTOR_OK, NULL,
			    "the control group (container or unit) leaves %" PRIu64 " MiB", group / MIB);
	else
		doctor_find(doctor, check, DOCTOR_OK, NULL, "none for processes started here");
}

/* ---- cores ---- */

static void look_at_cores(struct doctor *doctor)
{
	const struct config *config = doctor->config;
	char isolated[MACHINE_TEXT_MAX], remedy[MACHINE_TEXT_MAX];
	const long online = sysconf(_SC_NPROCESSORS_ONLN);
	cpu_set_t usable;
	unsigned count;

	CPU_ZERO(&usable);
	count = sched_getaffinity(0, sizeof(usable), &usable) == 0 ? (unsigned)CPU_COUNT(&usable) : (unsigned)online;
	if (!config) {
		doctor_find(doctor, "cores", DOCTOR_OK, NULL, "%u of %ld can be used", count, online);
		return;
	}
	machine_read(doctor->root, "/sys/devices/system/cpu/isolated", isolated);
	if (config->reactors > count && !config->pin) {
		doctor_find(doctor, "cores", DOCTOR_WARNING, "lower cores.number",
			    "%u reactors share %u cores: they wait for each other", config->reactors, count);
		return;
	}
	if (config->polling && config->reactors >= online) {
		doctor_find(
			doctor, "cores", DOCTOR_WARNING, "lower cores.number, or set cores.polling = false",
			"%u polling reactors fill all %ld cores: nothing is left for the control plane and the kernel",
			config->reactors, online);
		return;
	}
	for (unsigned i = 0; config->polling && config->pin && i < config->reactors; i++)
		if (!machine_list_has(isolated, config->cores[i])) {
			snprintf(remedy, sizeof(remedy),
				 "add isolcpus, nohz_full and rcu_nocbs with the reactors' cores to "
				 "the kernel command line, and restart the machine");
			doctor_find(doctor, "cores", DOCTOR_WARNING, remedy,
				    "core %u of a polling reactor is not isolated: other work on it delays requests",
				    config->cores[i]);
			return;
		}
	doctor_find(doctor, "cores", DOCTOR_OK, NULL, "%u of %ld can be used, for %u reactor%s", count, online,
		    config->reactors, config->reactors == 1 ? "" : "s");
}

static void look_at_frequency(struct doctor *doctor)
{
	char governor[MACHINE_TEXT_MAX];

	if (!machine_read(doctor->root, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", governor))
		doctor_find(doctor, "frequency", DOCTOR_OK, NULL,
			    "controlled by the firmware or the host, not the kernel");
	else if (strcmp(governor, "performance") == 0)
		doctor_find(doctor, "frequency", DOCTOR_OK, NULL, "the governor is performance");
	else
		doctor_find(doctor, "frequency", DOCTOR_WARNING, "cpupower frequency-set --governor performance",
			    "the governor is %s: a core that was idle is slow at first", governor);
}

static void look_at_clock(struct doctor *doctor)
{
	static const char path[] = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
	char source[MACHINE_TEXT_MAX];

	if (!machine_read(doctor->root, path, source))
		doctor_find(doctor, "clock", DOCTOR_WARNING, NULL, "the kernel does not report its clock source");
	else if (strcmp(source, "tsc") == 0 || strcmp(source, "kvm-clock") == 0 ||
		 strncmp(source, "hyperv_clocksource", 18) == 0)
		doctor_find(doctor, "clock", DOCTOR_OK, NULL, "%s, read without a system call", source);
	else
		doctor_find(
			doctor, "clock", DOCTOR_WARNING,
			"if this CPU's time stamp counter is constant, add \"tsc=reliable\" to the kernel command line",
			"the clock source is %s: each read of the clock is a system call", source);
}

/* ---- files and storage ---- */

static void look_at_files(struct doctor *doctor)
{
	const struct config *config = doctor->config;
	const uint64_t sockets = config && config->stack == CONFIG_STACK_KERNEL
					 ? (uint64_t)config->reactors * config->connections_max
					 : 0;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return;
	if (limit.rlim_max == RLIM_INFINITY || limit.rlim_max >= sockets + FILES_SPARE)
		doctor_find(doctor, "open files", DOCTOR_OK, NULL, "up to %llu", (unsigned long long)limit.rlim_max);
	else
		doctor_find(
			doctor, "open files", DOCTOR_WARNING,
			"ulimit -Hn as root, or LimitNOFILE= in the unit; or lower limits.connections",
			"a process started here may have only %llu files open, but limits.connections needs %" PRIu64
			" sockets",
			(unsigned long long)limit.rlim_max, sockets);
}

static void look_at_storage(struct doctor *doctor)
{
	static const char check[] = "checkpoint.directory";
	const struct config *config = doctor->config;
	const char *path = config->checkpoint_directory;
	struct star_error err = { 0 };
	struct statfs storage;
	uint64_t free_mib;

	if (!path[0]) {
		doctor_find(doctor, check, DOCTOR_WARNING, "set checkpoint.directory and checkpoint.every_s",
			    "none is set: parameters are lost when the node ends");
		return;
	}
	if (machine_check_directory(config, &err) < 0) {
		doctor_find(doctor, check, DOCTOR_BAD, NULL, "%s", err.text);
		return;
	}
	if (statfs(path, &storage) < 0) {
		doctor_find(doctor, check, DOCTOR_BAD, NULL, "%s: %s", path, strerrordesc_np(errno));
		return;
	}
	free_mib = (uint64_t)storage.f_bavail * (uint64_t)storage.f_bsize / MIB;
	if (storage.f_type == TMPFS_MAGIC || storage.f_type == RAMFS_MAGIC)
		doctor_find(doctor, check, DOCTOR_WARNING, "choose a directory on a disk, or on network storage",
			    "%s is in this machine's memory: checkpoints are lost with it", path);
	else if (free_mib < config->parameter_mib)
		doctor_find(doctor, check, DOCTOR_WARNING, "free space, or choose another one",
			    "%s has %" PRIu64 " MiB left; a checkpoint of a full node takes up to %u MiB", path,
			    free_mib, config->parameter_mib);
	else
		doctor_find(doctor, check, DOCTOR_OK, NULL, "%s has %" PRIu64 " MiB left", path, free_mib);
}

/* Without /sys half of the following cannot be checked: this is reported once. */
static bool look_at_sys(struct doctor *doctor)
{
	if (machine_has_sys(doctor->root))
		return true;
	doctor_find(doctor, "/sys", has_pci(doctor->config) ? DOCTOR_BAD : DOCTOR_WARNING,
		    "mount -t sysfs sysfs /sys, in the chroot or, for a container, by whoever starts it "
		    "(docker run -v /sys:/sys:ro)",
		    "there is none here, as in some chroots and containers: cannot check hugepages, NICs, the "
		    "IOMMU, isolated cores and the clock");
	return false;
}

void doctor_machine(struct doctor *doctor)
{
	const bool has_sys = look_at_sys(doctor);

	if (has_sys && (!doctor->config || has_pci(doctor->config)))
		look_at_iommu(doctor);
	if (has_sys && (!doctor->config || wants_hugepages(doctor->config)))
		look_at_hugepages(doctor);
	if (!doctor->config || !wants_hugepages(doctor->config) ||
	    doctor->config->hugepages == CONFIG_HUGEPAGES_PREFERRED)
		look_at_memory(doctor);
	look_at_limits(doctor);
	look_at_cores(doctor);
	if (has_sys) {
		look_at_frequency(doctor);
		look_at_clock(doctor);
	}
	look_at_files(doctor);
	if (doctor->config && strcmp(doctor->config->job_name, "ps") == 0)
		look_at_storage(doctor);
}
