/* SPDX-License-Identifier: BSD-3-Clause */
/* The file of a worker with DPDK. */
#include "tests/config/support.h"

#include <stdlib.h>

#define PS "cluster = { ps = [ \"198.18.1.1:3333\", \"198.18.1.2:3333\" ]; };\n"
#define MEMIF \
	"ports = ( { device = \"net_memif\"; options = \"socket=/run/s.sock\"; address = \"198.18.0.9/24\"; } );\n"

static struct config *load(const char *text, struct star_error *err)
{
	err->text[0] = 0;
	return config_load_worker(support_write("worker.conf", text, strlen(text)), err);
}

void worker_files(void)
{
	struct config_worker w;
	struct star_error err;
	struct config *c = load(PS MEMIF, &err);

	if (!CHECK(c != NULL))
		return;
	CHECK_UINT(c->ps_count, 2);
	CHECK_UINT(c->ports_count, 1);
	CHECK_STR(c->ports[0].options, "socket=/run/s.sock,role=client,socket-abstract=no,mac=02:73:c6:12:00:09");
	CHECK_STR(c->job_name, "worker");
	CHECK_UINT(c->mbufs, 16383);
	config_worker_from(c, &w);
	CHECK_UINT(w.io_threads, 1);
	CHECK(!w.polling && !w.pin);
	CHECK_UINT(w.cores_count, 0);
	config_free(c);
	c = load(PS MEMIF "cores = { polling = true; pin = true; list = [ 0 ]; };", &err);
	if (!CHECK(c != NULL))
		return;
	config_worker_from(c, &w);
	CHECK(w.polling && w.pin);
	CHECK_UINT(w.cores_count, 1);
	CHECK_UINT(w.cores[0], 0);
	config_free(c);
	setenv("NETWORK_WORKER_CORE_NUMBER", "5", 1); /* of I/O threads; here there is one */
	setenv("NETWORK_MAX_CONNECTION_TIMEOUT", "77", 1);
	c = load(PS MEMIF, &err);
	if (CHECK(c != NULL)) {
		CHECK_UINT(c->reactors, 1);
		CHECK_UINT(c->connect_timeout_ms, 77);
	}
	config_free(c);
}

void bad_worker_files(void)
{
	static const struct {
		const char *text, *parts;
	} cases[] = {
		{ MEMIF, "cluster.ps is empty" },
		{ PS, "a worker has one port, but 0 are given" },
		{ PS "ports = ( { device = \"net_memif\"; options = \"socket=/a\"; address = \"198.18.0.9/24\"; },\n"
		     "{ device = \"net_memif\"; options = \"socket=/b\"; address = \"198.18.0.10/24\"; } );",
		  "a worker has one port, but 2 are given" },
		{ PS "ports = ( { device = \"net_memif\"; address = \"198.18.0.9/24\"; } );",
		  "worker.conf:2: |options has no socket" },
		{ PS "ports = ( { device = \"net_memif\"; options = \"role=server,socket=/a\"; address = "
		     "\"198.18.0.9/24\"; } "
		     ");",
		  "worker.conf:2: |a worker is always the client of a memif" },
		{ PS MEMIF "limits = { connections = 5; };",
		  "worker.conf:3: limits.connections has no meaning for a worker" },
		{ PS MEMIF "memory = { parameter_mib = 5; };", "worker.conf:3: memory.parameter_mib has no meaning" },
		{ PS MEMIF "memory = { mbuf = 5; };", "worker.conf:3: unknown key `memory.mbuf`|memory.mbufs" },
		{ PS MEMIF "node = { job_name = \"ps\"; };", "worker.conf:3: |this is a worker's file" },
		{ PS MEMIF MAP, "worker.conf:3: endpoint_map has no meaning for a worker" },
		{ PS "ports = ( { device = \"net_memif\"; options = \"socket=/a\"; } );", "ports[0] has no address" },
	};
	struct star_error err;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CHECK(!load(cases[i].text, &err));
		support_has_parts(err.text, cases[i].parts);
	}
	CHECK(!config_load_worker("/nowhere/worker.conf", &err));
	CHECK_HAS(err.text, "/nowhere/worker.conf");
}
