/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_log.h>
#include <rte_memory.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cores.h"
#include "base/log.h"

/* What the EAL needs itself, in addition to mempools and parameters; measured: 3 MiB with two ports. */
static const uint64_t eal_bytes = 16 << 20;

enum { ARGUMENTS_MAX = 16 + 2 * CONFIG_PORTS_MAX, ARGUMENT_BYTES = CONFIG_TEXT_MAX + 64 };

#define TELEMETRY_SOCKET "dpdk_telemetry.v2"

char port_eal_said[256];
static bool hugepages_failed;

struct arguments {
	int count;
	char *vector[ARGUMENTS_MAX + 1];
	char text[ARGUMENTS_MAX][ARGUMENT_BYTES];
};

void port_chatter_listen(struct port_chatter *chatter)
{
	*chatter = (struct port_chatter){ .stderr_fd = -1 };
	chatter->stream = open_memstream(&chatter->text, &chatter->bytes);
	if (chatter->stream)
		rte_openlog_stream(chatter->stream);
}

void port_chatter_begin(struct port_chatter *chatter)
{
	const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);

	port_chatter_listen(chatter);
	chatter->stderr_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
	if (nowhere >= 0) {
		if (chatter->stderr_fd >= 0)
			dup2(nowhere, STDERR_FILENO);
		close(nowhere);
	}
}

void port_chatter_end(struct port_chatter *chatter, char *cause, size_t bytes)
{
	if (chatter->stderr_fd >= 0) {
		dup2(chatter->stderr_fd, STDERR_FILENO);
		close(chatter->stderr_fd);
	}
	cause[0] = '\0';
	if (!chatter->stream)
		return;
	rte_openlog_stream(NULL);
	fclose(chatter->stream);
	if (chatter->text)
		snprintf(cause, bytes, "%.*s", (int)strcspn(chatter->text, "\n"), chatter->text);
	free(chatter->text);
}

static void __attribute__((format(printf, 2, 3))) add_argument(struct arguments *args, const char *format, ...)
{
	char *text = args->text[args->count];
	va_list list;

	va_start(list, format);
	vsnprintf(text, ARGUMENT_BYTES, format, list);
	va_end(list);
	args->vector[args->count++] = text;
}

static uint64_t mib(uint64_t bytes)
{
	return (bytes + (1 << 20) - 1) >> 20;
}

/* Decides about hugepages before the EAL is started, because the EAL's own error message would name neither number. */
static int choose_memory(const struct config *config, uint64_t memory_bytes, bool *hugepages, struct star_error *err)
{
	const uint64_t parameters = (uint64_t)config->parameter_mib << 20;
	const struct port_memory memory = { .eal_bytes = eal_bytes,
					    .mempool_bytes = memory_bytes > parameters ? memory_bytes - parameters : 0,
					    .arena_bytes = RTE_MIN(parameters, memory_bytes),
					    .parts = config->reactors };
	const unsigned long long asked = mib(memory_bytes + eal_bytes);
	struct port_hugepages pages;
	const char *whole = "";
	char there[160];

	*hugepages = false;
	if (config->hugepages == CONFIG_HUGEPAGES_NONE)
		return 0;
	port_hugepages_read(&pages);
	*hugepages = port_hugepages_hold(&pages, &memory);
	if (*hugepages)
		return 0;
	if (pages.free_bytes >= asked << 20)
		whole = " in whole pages (of 1 GiB at least one for packet buffers and one for parameters)";
	snprintf(there, sizeof(there), "%llu MiB are free (%llu of %llu pages of 2 MiB, %llu of %llu of 1 GiB)",
		 (unsigned long long)pages.free_bytes >> 20, (unsigned long long)pages.free_2m,
		 (unsigned long long)pages.total_2m, (unsigned long long)pages.free_1g,
		 (unsigned long long)pages.total_1g);
	if (config->hugepages == CONFIG_HUGEPAGES_REQUIRED)
		return star_error_set(
			err, -ENOMEM,
			"hugepages are required: %llu MiB are needed%s, but %s; run `scripts/hugepages reserve "
			"%lluM`, or set memory.hugepages to \"preferred\"",
			asked, whole, there, asked);
	log_warn("no hugepages: %llu MiB are needed%s, but %s; continuing without (`scripts/hugepages reserve %lluM` "
		 "helps)",
		 asked, whole, there, asked);
	return 0;
}

static unsigned count_ports(const struct config *config, bool (*is)(const struct config_port *port))
{
	unsigned count = 0;

	for (uint32_t i = 0; i < config->ports_count; i++)
		count += is(&config->ports[i]);
	return count;
}

/* Whether no port needs packet buffers in DPDK's memory. Without ports it is not known which a program will open. */
static bool takes_any_memory(const struct config *config)
{
	if (config->ports_count == 0)
		return config->stack == CONFIG_STACK_KERNEL;
	return count_ports(config, port_takes_any_memory) == config->ports_count;
}

static void add_memory(struct arguments *args, const struct config *config, uint64_t memory_bytes, bool hugepages)
{
	const uint64_t parameters = (uint64_t)config->parameter_mib << 20;
	const uint64_t mempools = memory_bytes > parameters ? memory_bytes - parameters : 0;

	if (hugepages) {
		/* Pages are taken one by one as mempools need them, without files and without a mount. */
		add_argument(args, "--in-memory");
		return;
	}
	add_argument(args, "--no-huge");
	add_argument(args, "--no-shconf");
	/* Parameters are outside of the EAL's memory. An mbuf does not cross a 4 KiB page here, and so takes up to
	 * twice its size. Memory that is not used is never touched. */
	add_argument(args, "-m");
	add_argument(args, "%llu", (unsigned long long)mib((takes_any_memory(config) ? 1 : 2) * mempools + eal_bytes));
}

static void add_devices(struct arguments *args, const struct config *config)
{
	for (uint32_t i = 0; i < config->ports_count; i++) {
		const struct config_port *port = &config->ports[i];

		if (!port_is_pci(port))
			continue;
		add_argument(args, "-a");
		add_argument(args, "%s%s%s", port->pci, port->options[0] ? "," : "", port->options);
	}
	if (count_ports(config, port_is_pci))
		return;
	add_argument(args, "--no-pci");
	add_argument(args, "--iova-mode=va");
}

/* The NUMA node of the first reactor's memory; -1: any. */
static int wanted_numa(const struct config *config)
{
	int numa = config->pin ? port_numa_of_core((int)config->cores[0]) : -1;

	for (uint32_t i = 0; numa < 0 && i < config->ports_count; i++)
		numa = port_numa_of_device(&config->ports[i]);
	return numa;
}

/* The core for the EAL's main lcore. DPDK allocates its own memory on that core's NUMA node, and aborts the process if
 * there are no hugepages there: so the core is on the NUMA node of the reactors' memory, or at least on one with
 * hugepages. */
static int main_core(const struct config *config, const cpu_set_t *cores, bool hugepages)
{
	const int wanted = wanted_numa(config);
	int first = -1, found = -1;

	for (int core = 0; core < CPU_SETSIZE; core++) {
		const int numa = CPU_ISSET(core, cores) ? port_numa_of_core(core) : -1;

		if (!CPU_ISSET(core, cores))
			continue;
		if (first < 0)
			first = core;
		if (hugepages && numa >= 0 && !port_numa_has_hugepages(numa))
			continue;
		if (numa == wanted)
			return core;
		if (found < 0)
			found = core;
	}
	return found >= 0 ? found : RTE_MAX(first, 0);
}

static bool is_worker(const struct config *config)
{
	return strcmp(config->job_name, "worker") == 0 || strcmp(config->job_name, "chief") == 0;
}

/* A worker's memif only needs a socket and shared memory. */
static bool needs_root(const struct config *config)
{
	bool memif = true;

	if (config->stack == CONFIG_STACK_KERNEL)
		return false;

	for (uint32_t i = 0; i < config->ports_count; i++)
		memif &= strcmp(config->ports[i].device, "net_memif") == 0;
	return !memif || !is_worker(config);
}

/* Root, or a user who has the capabilities for a port on a kernel interface, as the unit starserver@.service gives them
 * to its user. */
static bool may_drive_ports(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = { 0 };

	if (geteuid() == 0)
		return true;
	return syscall(SYS_capget, &header, sets) == 0 &&
	       sets[CAP_TO_INDEX(CAP_NET_RAW)].effective & CAP_TO_MASK(CAP_NET_RAW);
}

static int leave_out_of_cores(const struct rte_memseg_list *list, void *ctx)
{
	(void)ctx;
	base_cores_without(list->base_va, list->len, list->page_sz);
	return 0;
}

static uint64_t free_hugepages_mib(void)
{
	struct port_hugepages pages;

	port_hugepages_read(&pages);
	return pages.free_bytes >> 20;
}

int port_eal_start(const struct config *config, uint64_t memory_bytes, struct star_error *err)
{
	struct port_chatter chatter;
	struct arguments args;
	char cause[256];
	cpu_set_t cores;
	bool hugepages;
	int ret;

	if (needs_root(config) && !may_drive_ports())
		return star_error_set(
			err, -EPERM,
			"%s drives network queues itself and needs root: run it with sudo, or as a service: "
			"systemctl start starserver@NAME",
			is_worker(config) ? "a worker with such a port" : "starserver");
	ret = choose_memory(config, memory_bytes, &hugepages, err);
	if (ret)
		return ret;
	if (sched_getaffinity(0, sizeof(cores), &cores) != 0)
		return star_error_set(err, -errno, "cannot read the cores that this process may use: %m");

	args.count = 0;
	add_argument(&args, "starserver");
	add_argument(&args, "--file-prefix=star-%d", (int)getpid());
	if (!config->metrics_telemetry)
		add_argument(&args, "--no-telemetry");
	add_argument(&args, "--log-level=error");
	/* One lcore, for the calling thread; reactors register themselves. */
	add_argument(&args, "--lcores=0@%d", main_core(config, &cores, hugepages));
	add_memory(&args, config, memory_bytes, hugepages);
	add_devices(&args, config);
	args.vector[args.count] = NULL;

	port_chatter_begin(&chatter);
	ret = rte_eal_init(args.count, args.vector) < 0 ? -rte_errno : 0;
	if (ret == -EALREADY && is_worker(config)) /* the worker's program has started it already */
		ret = 0;
	port_chatter_end(&chatter, cause, sizeof(cause));
	snprintf(port_eal_said, sizeof(port_eal_said), "%s", cause);
	/* The EAL has pinned the calling thread to its lcore: undo that. */
	sched_setaffinity(0, sizeof(cores), &cores);
	if (ret && hugepages) {
		port_hugepages_fail();
		return star_error_set(err, ret,
				      "DPDK cannot start on hugepages, of which %llu MiB are free now: %s; another "
				      "program may be taking them: try again, or set memory.hugepages to "
				      "\"none\"",
				      (unsigned long long)free_hugepages_mib(), cause[0] ? cause : rte_strerror(-ret));
	}
	if (ret)
		return star_error_set(err, ret, "DPDK cannot start: %s", cause[0] ? cause : rte_strerror(-ret));
	/* For pages that are allocated later: port_mempool_create. */
	rte_memseg_list_walk(leave_out_of_cores, NULL);
	/* net_af_xdp needs contiguous pools. */
	port_mempool_within_pages(count_ports(config, port_is_pci) && !count_ports(config, port_is_af_xdp));
	port_mempool_in_ordinary_memory(!rte_eal_has_hugepages() && takes_any_memory(config));
	if (count_ports(config, port_is_pci))
		port_expect_removal();
	/* Without shared files nothing is kept there; a killed process would leave the directory behind. */
	if (!config->metrics_telemetry)
		rmdir(rte_eal_get_runtime_dir());
	else
		log_info("telemetry: %s/" TELEMETRY_SOCKET, rte_eal_get_runtime_dir());
	return 0;
}

void port_eal_stop(void)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/" TELEMETRY_SOCKET, rte_eal_get_runtime_dir());
	rte_eal_cleanup();
	unlink(path); /* if it exists */
	rmdir(rte_eal_get_runtime_dir());
}

void port_hugepages_fail(void)
{
	hugepages_failed = true;
}

bool port_eal_hugepages_failed(void)
{
	return hugepages_failed;
}

bool port_eal_hugepages(void)
{
	return rte_eal_has_hugepages() != 0;
}
