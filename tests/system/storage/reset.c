/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A NIC whose driver asks for a reset, as ENA's and iavf's do: preloaded into a starserver, it raises DPDK's event of
 * the first port when there is a file $STAR_RESET_FILE, which is renamed to *.done then. No driver of an emulated NIC
 * can reset its device, so that step does nothing here: what stops, configures and starts it again is the node's, on
 * the device.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <rte_ethdev.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SHOWN __attribute__((visibility("default")))
enum { LOOK_US = 50000 };

SHOWN int rte_eth_dev_reset(uint16_t port)
{
	(void)port;
	return 0;
}

/* DPDK's, of its drivers' header, which is not installed. The first port is at the array's beginning. */
static void raise_event(void)
{
	int (*process)(void *device, enum rte_eth_event_type event, void *detail);

	process = (int (*)(void *, enum rte_eth_event_type, void *))dlsym(RTLD_DEFAULT, "rte_eth_dev_callback_process");
	process(dlsym(RTLD_DEFAULT, "rte_eth_devices"), RTE_ETH_EVENT_INTR_RESET, NULL);
}

static void *watch(void *file)
{
	char done[4096];

	snprintf(done, sizeof(done), "%s.done", (const char *)file);
	for (;; usleep(LOOK_US))
		if (rename(file, done) == 0)
			raise_event();
	return NULL;
}

__attribute__((constructor)) static void begin(void)
{
	char *file = getenv("STAR_RESET_FILE");
	pthread_t thread;

	if (file && pthread_create(&thread, NULL, watch, file) == 0)
		pthread_detach(thread);
}
