/* SPDX-License-Identifier: BSD-3-Clause */
/* What starctl doctor finds on machines that this one is not: folders with files as in /sys. */
#include "tests/control/cases.h"
#include "tests/control/harness.h"
#include "tests/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/starctl/doctor.h"
#include "machine/machine.h"

static char root[UNIT_FOLDER];

static void begin(struct doctor *doctor, struct config *config)
{
	unit_folder(root, "doctor");
	memset(config, 0, sizeof(*config));
	strcpy(config->job_name, "worker");
	config->reactors = 1;
	config->mbufs = 1 << 13;
	config->parameter_mib = 100;
	*doctor = (struct doctor){ .root = root, .config = config, .checks = json_array() };
}

static void end(struct doctor *doctor)
{
	unit_remove(root);
	json_decref(doctor->checks);
}

/* A file below root with its folders, or a link when target is given. */
static void put(const char *path, const char *text, const char *target)
{
	char whole[512];

	snprintf(whole, sizeof(whole), "%s%s", root, path);
	for (char *slash = strchr(whole + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		mkdir(whole, 0755);
		*slash = '/';
	}
	if (target)
		CHECK_INT(symlink(target, whole), 0);
	else
		unit_write_text(whole, text);
}

/* The last finding of a check; "" when it has none. */
static const char *find(const struct doctor *doctor, const char *check, const char *member)
{
	const char *found = "";
	const json_t *json;
	size_t i;

	json_array_foreach(doctor->checks, i,
			   json) if (strcmp(json_string_value(json_object_get(json, "check")), check) == 0 &&
				     json_object_get(json, member)) found =
		json_string_value(json_object_get(json, member));
	return found;
}

static void nic(const char *pci, const char *driver, bool iommu)
{
	char path[128], target[64];

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/vendor", pci);
	put(path, "0x8086\n", NULL);
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/iommu_group", pci);
	if (iommu)
		put(path, NULL, "../../kernel/iommu_groups/7");
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/driver", pci);
	snprintf(target, sizeof(target), "../../bus/pci/drivers/%s", driver);
	if (driver[0])
		put(path, NULL, target);
}

void nics_with_the_wrong_driver_are_found(void)
{
	static const struct {
		const char *driver;
		bool iommu;
		const char *verdict, *finding, *remedy;
	} cases[] = {
		{ "i40e", true, "bad", "is bound to the kernel's driver i40e",
		  "scripts/bind-nic bind 0000:03:00.0 vfio-pci" },
		{ "e1000e", false, "bad", "is bound to the kernel's driver e1000e",
		  "scripts/bind-nic bind 0000:03:00.0 uio_pci_generic" },
		{ "", true, "bad", "has no driver", "vfio-pci" },
		{ "vfio-pci", true, "ok", "is bound to vfio-pci", "" },
		{ "vfio-pci", false, "bad", "no IOMMU", "intel_iommu=on iommu=pt" },
		{ "uio_pci_generic", false, "ok", "is bound to uio_pci_generic", "" },
		{ "igb_uio", true, "warning", "though there is an IOMMU", "vfio-pci" },
		{ "mlx5_core", true, "ok", "which DPDK shares", "" },
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct doctor doctor;
		struct config config;

		begin(&doctor, &config);
		config.ports_count = 1;
		strcpy(config.ports[0].pci, "0000:03:00.0");
		nic("0000:03:00.0", cases[i].driver, cases[i].iommu);
		doctor_ports(&doctor);
		CHECK_STR(find(&doctor, "ports[0]", "verdict"), cases[i].verdict);
		CHECK_HAS(find(&doctor, "ports[0]", "finding"), cases[i].finding);
		CHECK_HAS(find(&doctor, "ports[0]", "remedy"), cases[i].remedy);
		end(&doctor);
	}
}

void interfaces_that_lose_frames_are_found(void)
{
	static const struct {
		const char *mtu, *carrier, *verdict, *remedy;
	} cases[] = {
		{ "1500\n", "1\n", "ok", "" },
		{ "9000\n", "1\n", "ok", "" },
		{ "1400\n", "1\n", "bad", "ip link set star0 mtu 1500" },
		{ "1500\n", "0\n", "warning", "cable" },
		{ "1500\n", NULL, "bad", "ip link set star0 up" },
		{ NULL, NULL, "bad", "`ip link`" },
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct doctor doctor;
		struct config config;

		begin(&doctor, &config);
		config.ports_count = 1;
		config.ports[0].mtu = 1500;
		strcpy(config.ports[0].interface, "star0");
		put("/sys/class/net/lo/mtu", "65536\n", NULL);
		if (cases[i].mtu)
			put("/sys/class/net/star0/mtu", cases[i].mtu, NULL);
		if (cases[i].carrier)
			put("/sys/class/net/star0/carrier", cases[i].carrier, NULL);
		doctor_ports(&doctor);
		CHECK_STR(find(&doctor, "ports[0]", "verdict"), cases[i].verdict);
		CHECK_HAS(find(&doctor, "ports[0]", "remedy"), cases[i].remedy);
		end(&doctor);
	}
}

void hugepages_cores_and_clocks_are_looked_at(void)
{
	struct machine_pages pages[MACHINE_PAGES_MAX];
	struct doctor doctor;
	struct config config;

	begin(&doctor, &config);
	config.hugepages = CONFIG_HUGEPAGES_REQUIRED;
	put("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "200\n", NULL);
	put("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "50\n", NULL);
	put("/sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages", "10\n", NULL);
	put("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n", NULL);
	put("/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n", NULL);
	CHECK_UINT(machine_pages(root, pages), 1);
	CHECK_UINT(pages[0].bytes, 2048 << 10);
	CHECK_UINT(pages[0].free, 40);
	doctor_machine(&doctor);
	CHECK_STR(find(&doctor, "hugepages", "verdict"), "bad");
	CHECK_HAS(find(&doctor, "hugepages", "finding"), "80 MiB are free, but the node needs about 138 MiB");
	CHECK_STR(find(&doctor, "hugepages", "remedy"), "scripts/hugepages reserve 138M");
	CHECK_STR(find(&doctor, "memory", "verdict"), ""); /* without hugepages it does not start */
	CHECK_HAS(find(&doctor, "frequency", "finding"), "powersave");
	CHECK_STR(find(&doctor, "clock", "verdict"), "warning");
	json_array_clear(doctor.checks);
	put("/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "1\n", NULL);
	put("/sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages", "1\n", NULL);
	put("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n", NULL);
	doctor_machine(&doctor);
	CHECK_STR(find(&doctor, "hugepages", "verdict"), "ok");
	CHECK_STR(find(&doctor, "clock", "verdict"), "ok");
	json_array_clear(doctor.checks);
	config.hugepages = CONFIG_HUGEPAGES_NONE;
	config.polling = config.pin = true;
	config.reactors = 1;
	config.cores[0] = 3;
	if (sysconf(_SC_NPROCESSORS_ONLN) > 1) {
		doctor_machine(&doctor);
		CHECK_HAS(find(&doctor, "cores", "finding"), "core 3 of a polling reactor is not isolated");
		put("/sys/devices/system/cpu/isolated", "1-2,3\n", NULL);
		doctor_machine(&doctor);
		CHECK_STR(find(&doctor, "cores", "verdict"), "ok");
	}
	CHECK_STR(find(&doctor, "hugepages", "verdict"), "");
	end(&doctor);
}

/* As in a chroot, or in a container that has none: that is said once, and nothing is guessed. */
void a_machine_without_sys_is_told(void)
{
	static const char *const unknown[] = { "hugepages", "clock", "frequency", "IOMMU", "ports[0]" };
	struct doctor doctor;
	struct config config;

	for (unsigned use = 0; use < 3; use++) {
		begin(&doctor, &config);
		config.hugepages = CONFIG_HUGEPAGES_REQUIRED;
		config.ports_count = use > 0;
		strcpy(config.ports[0].pci, use == 1 ? "0000:03:00.0" : "");
		strcpy(config.ports[0].interface, use == 2 ? "star0" : "");
		doctor_ports(&doctor);
		doctor_machine(&doctor);
		CHECK_STR(find(&doctor, "/sys", "verdict"), use == 1 ? "bad" : "warning");
		CHECK_HAS(find(&doctor, "/sys", "finding"), "cannot check hugepages, NICs, the IOMMU");
		CHECK_HAS(find(&doctor, "/sys", "remedy"), "mount -t sysfs sysfs /sys");
		for (unsigned i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
			CHECK_STR(find(&doctor, unknown[i], "verdict"), "");
		CHECK_STR(find(&doctor, "cores", "verdict"), "ok");
		end(&doctor);
	}
}

void an_iommu_and_limits_are_looked_at(void)
{
	struct rlimit before, low = { .rlim_cur = UINT64_C(1) << 30 };
	struct doctor doctor;
	struct config config;

	begin(&doctor, &config);
	put("/sys/class/net/lo/mtu", "65536\n", NULL);
	doctor.config = NULL;
	doctor_machine(&doctor);
	CHECK_HAS(find(&doctor, "IOMMU", "finding"), "there is none, or it is off");
	CHECK_STR(find(&doctor, "memory limits", "verdict"), "ok");
	json_array_clear(doctor.checks);
	put("/sys/kernel/iommu_groups/0/type", "DMA\n", NULL);
	put("/sys/kernel/iommu_groups/1/type", "DMA\n", NULL);
	doctor.config = &config;
	strcpy(config.ports[0].pci, "0000:03:00.0");
	config.ports_count = 1;
	CHECK_INT(getrlimit(RLIMIT_AS, &before), 0);
	low.rlim_max = before.rlim_max;
	if (setrlimit(RLIMIT_AS, &low) == 0) {
		doctor_machine(&doctor);
		CHECK_STR(find(&doctor, "memory limits", "verdict"), "bad");
		CHECK_HAS(find(&doctor, "memory limits", "remedy"), "LimitAS=infinity");
		setrlimit(RLIMIT_AS, &before);
		CHECK_HAS(find(&doctor, "IOMMU", "finding"), "with 2 groups");
	}
	end(&doctor);
}

void the_other_node_of_a_pair_is_asked(void)
{
	struct config_address control = { "127.0.0.1", 0 }, etcd = { "127.0.0.1", 0 };
	const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in own = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t bytes = sizeof(own);
	struct doctor doctor;
	struct config config;

	begin(&doctor, &config);
	CHECK_INT(bind(listener, (struct sockaddr *)&own, sizeof(own)), 0);
	CHECK_INT(listen(listener, 1), 0);
	CHECK_INT(getsockname(listener, (struct sockaddr *)&own, &bytes), 0);
	control.port = free_port();
	etcd.port = free_port();
	config.ps = &control;
	config.ps_count = 1;
	config.standby_etcd = &etcd;
	config.standby_etcd_count = 1;
	snprintf(config.standby_peer, sizeof(config.standby_peer), "127.0.0.1:%u", ntohs(own.sin_port));
	doctor_cluster(&doctor);
	CHECK_STR(find(&doctor, "standby.peer", "verdict"), "ok");
	CHECK_STR(find(&doctor, "standby.etcd[0]", "verdict"), "warning");
	CHECK_HAS(find(&doctor, "standby.etcd[0]", "finding"), "cannot be reached: Connection refused");
	close(listener);
	json_array_clear(doctor.checks);
	doctor_cluster(&doctor);
	CHECK_STR(find(&doctor, "standby.peer", "verdict"), "warning");
	end(&doctor);
}

void a_data_address_of_the_kernel_is_found(void)
{
	struct config_address control = { "127.0.0.1", 0 };
	struct doctor doctor;
	struct config config;

	begin(&doctor, &config);
	control.port = free_port();
	strcpy(config.job_name, "ps");
	config.ps = &control;
	config.ps_count = 1;
	strcpy(config.own.data.host, "127.0.0.1");
	doctor_cluster(&doctor);
	CHECK_STR(find(&doctor, "control address", "verdict"), "ok");
	CHECK_STR(find(&doctor, "data address", "finding"), "the kernel of this machine also has 127.0.0.1");
	json_array_clear(doctor.checks);
	strcpy(config.own.data.host, "198.18.0.1");
	doctor_cluster(&doctor);
	CHECK_STR(find(&doctor, "data address", "finding"), "");
	end(&doctor);
}

void lists_of_numbers_are_read(void)
{
	static const struct {
		const char *list;
		unsigned number;
		bool has;
	} cases[] = {
		{ "", 0, false },      { "0", 0, true },     { "0-3,8", 3, true },
		{ "0-3,8", 4, false }, { "0-3,8", 8, true }, { "1-", 0, false },
		{ "x", 0, false },     { "3,", 3, true },    { "18446744073709551616", 5, false },
		{ "2-1", 2, false },   { "1,,2", 2, false },
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!CHECK(machine_list_has(cases[i].list, cases[i].number) == cases[i].has))
			unit_fail(__FILE__, __LINE__, "\"%s\", %u", cases[i].list, cases[i].number);
}
