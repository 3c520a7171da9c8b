/* SPDX-License-Identifier: BSD-3-Clause */
/* A configuration's ports: whether their NICs and interfaces exist, and are bound to the right drivers. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/starctl/doctor.h"
#include "machine/machine.h"

/* Drivers that share a NIC with DPDK: it stays bound to the kernel. */
static const char *const shared_drivers[] = { "mlx4_core", "mlx5_core", "mana", "hv_netvsc" };
static const char *const dpdk_drivers[] = { "vfio-pci", "uio_pci_generic", "igb_uio" };

#define IS_ONE_OF(name, list) is_one_of(name, list, sizeof(list) / sizeof((list)[0]))

static bool is_one_of(const char *name, const char *const *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(name, list[i]) == 0)
			return true;
	return false;
}

static void look_at_pci(struct doctor *doctor, const char *check, const struct config_port *port)
{
	char path[MACHINE_TEXT_MAX], driver[MACHINE_TEXT_MAX], text[MACHINE_TEXT_MAX], remedy[MACHINE_TEXT_MAX];
	bool iommu;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/vendor", port->pci);
	if (!machine_read(doctor->root, path, text)) {
		doctor_find(doctor, check, DOCTOR_BAD, "correct ports[].pci: `scripts/bind-nic status` lists the NICs",
			    "this machine has no PCI device %s", port->pci);
		return;
	}
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/iommu_group", port->pci);
	iommu = machine_link(doctor->root, path, text);
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/driver", port->pci);
	snprintf(remedy, sizeof(remedy), "scripts/bind-nic bind %s %s", port->pci,
		 iommu ? "vfio-pci" : "uio_pci_generic");
	if (!machine_link(doctor->root, path, driver))
		doctor_find(doctor, check, DOCTOR_BAD, remedy, "%s has no driver", port->pci);
	else if (IS_ONE_OF(driver, shared_drivers))
		doctor_find(doctor, check, DOCTOR_OK, NULL, "%s is bound to %s, which DPDK shares", port->pci, driver);
	else if (!IS_ONE_OF(driver, dpdk_drivers))
		doctor_find(doctor, check, DOCTOR_BAD, remedy, "%s is bound to the kernel's driver %s", port->pci,
			    driver);
	else if (strcmp(driver, "vfio-pci") == 0 && !iommu)
		doctor_find(doctor, check, DOCTOR_BAD,
			    "enable the IOMMU in the firmware, add \"intel_iommu=on iommu=pt\" (Intel) or "
			    "\"iommu=pt\" (AMD) to the kernel command line, and restart the machine",
			    "%s is bound to vfio-pci, but there is no IOMMU for it", port->pci);
	else if (iommu && strcmp(driver, "vfio-pci") != 0)
		doctor_find(
			doctor, check, DOCTOR_WARNING, remedy,
			"%s is bound to %s, although there is an IOMMU, which would restrict it to the node's memory",
			port->pci, driver);
	else
		doctor_find(doctor, check, DOCTOR_OK, NULL, "%s is bound to %s", port->pci, driver);
}

static void look_at_interface(struct doctor *doctor, const char *check, const struct config_port *port)
{
	char path[MACHINE_TEXT_MAX], text[MACHINE_TEXT_MAX], remedy[MACHINE_TEXT_MAX];

	snprintf(path, sizeof(path), "/sys/class/net/%s/mtu", port->interface);
	if (!machine_read(doctor->root, path, text)) {
		doctor_find(doctor, check, DOCTOR_BAD, "correct ports[].interface: `ip link` lists the interfaces",
			    "this machine has no interface %s", port->interface);
		return;
	}
	if (strtoul(text, NULL, 10) < port->mtu) {
		snprintf(remedy, sizeof(remedy), "ip link set %s mtu %u", port->interface, port->mtu);
		doctor_find(doctor, check, DOCTOR_BAD, remedy,
			    "the interface %s has an mtu of %s, but the port one of %u: larger frames would be lost",
			    port->interface, text, port->mtu);
		return;
	}
	snprintf(path, sizeof(path), "/sys/class/net/%s/carrier", port->interface);
	snprintf(remedy, sizeof(remedy), "ip link set %s up", port->interface);
	if (!machine_read(doctor->root, path, text)) /* the file cannot be read while it is down */
		doctor_find(doctor, check, DOCTOR_BAD, remedy, "the interface %s is down", port->interface);
	else if (strcmp(text, "1") != 0)
		doctor_find(doctor, check, DOCTOR_WARNING, "check the cable, or the other end",
			    "the interface %s is up, but has no link", port->interface);
	else
		doctor_find(doctor, check, DOCTOR_OK, NULL, "the interface %s is up", port->interface);
}

void doctor_ports(struct doctor *doctor)
{
	const struct config *config = doctor->config;

	if (config->stack == CONFIG_STACK_KERNEL)
		return;
	for (unsigned i = 0; i < config->ports_count && machine_has_sys(doctor->root); i++) {
		const struct config_port *port = &config->ports[i];
		char check[24];

		snprintf(check, sizeof(check), "ports[%u]", i);
		if (port->pci[0])
			look_at_pci(doctor, check, port);
		else if (port->interface[0])
			look_at_interface(doctor, check, port);
		else
			doctor_find(doctor, check, DOCTOR_OK, NULL, "%s needs no device", port->device);
	}
	if (config->ports_count && geteuid() != 0)
		doctor_find(doctor, "privileges", DOCTOR_WARNING,
			    "start the node as root or by its systemd unit, or set network.stack = \"kernel\"",
			    "this is an ordinary user: a node with ports of its own cannot be started");
}
