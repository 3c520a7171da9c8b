/* SPDX-License-Identifier: BSD-3-Clause */
/* Ports at run time: from a command line to the data plane. */
#include <errno.h>
#include <string.h>

#include "app/starctl/starctl.h"
#include "tests/control/cases.h"
#include "tests/control/harness.h"
#include "tests/control/starctl.h"

static void wrong_ones(const struct cluster *cluster)
{
	static const struct {
		const char *words, *says;
		int status;
	} cases[] = {
		{ "port add", "usage: starctl port add DEVICE", STARCTL_USAGE },
		{ "port add net_null --mtu", "--mtu needs a value", STARCTL_USAGE },
		{ "port --mtu 1500 add net_null", "there is no option --mtu", STARCTL_USAGE },
		{ "port add net_null", "the port has no address; write `starctl port add", STARCTL_FAILED },
		{ "port add net_null --address 198.18.4.1", "ports[].address cannot be", STARCTL_FAILED },
		{ "port add net_null --address 198.18.4.1/24 --mtu many", "ports[].mtu cannot be", STARCTL_FAILED },
		{ "port add net_null --address 198.18.4.1/24 --mut 9000", "did you mean `mtu`?", STARCTL_FAILED },
		{ "port add net_null1000 --address 198.18.4.1/24", "is out of range; allowed: 0 to 63",
		  STARCTL_FAILED },
		{ "port add net_memif,role=client --address 198.18.4.1/24", "role=client is refused", STARCTL_FAILED },
		{ "port remove", "usage: starctl port remove NAME", STARCTL_USAGE },
		{ "port remove net_null0", "net_null0 is the last port", STARCTL_FAILED },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct outcome o = starctl(cluster->folder, cases[i].words, "");

		if (!CHECK_INT(o.status, cases[i].status) || !CHECK_HAS(o.errors, cases[i].says))
			printf("# %s\n", cases[i].words);
		release(&o);
	}
}

/* Which starctl would not send. */
static void wrong_names(const struct cluster *cluster)
{
	static const char *const names[] = { "", "q", ".", "ports", "ports[]", "]", "ports[].mtu" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct star_error err = { 0 };

		CHECK(call(cluster->nodes[0].config.control_socket, "port_add", json_pack("{s:i}", names[i], 1),
			   &err) == NULL);
		CHECK_INT(err.code, -EINVAL);
		CHECK_HAS(err.text, "a port has no option");
	}
}

void ports_are_added_listed_and_removed(void)
{
	struct cluster cluster;
	const struct fake_plane *plane = &cluster.nodes[0].plane;
	struct outcome o;

	cluster_init(&cluster, 1);
	cluster_start(&cluster);
	wrong_ones(&cluster);
	wrong_names(&cluster);
	o = starctl(cluster.folder,
		    "port add net_memif3,id=1,socket=/run/x.sock --address 198.18.4.1/24,2001:2::4/64 --mtu=9000", "");
	CHECK_STR(o.errors, "");
	CHECK_STR(o.out, "added net_memif\n");
	CHECK_INT(plane->port_number, 3);
	CHECK_STR(plane->port.device, "net_memif");
	CHECK_STR(plane->port.options, "id=1,socket=/run/x.sock");
	CHECK_UINT(plane->port.mtu, 9000);
	CHECK_UINT(plane->port.addresses_count, 2);
	release(&o);
	o = starctl(cluster.folder, "port list", "");
	CHECK_STR(o.out, "PORT        ADDRESSES                     MTU  CLIENT\n"
			 "net_memif0  198.18.4.1/24, 2001:2::4/64  1500  yes\n");
	release(&o);
	o = starctl(cluster.folder, "port remove net_memif3", "");
	CHECK_STR(o.out, "removed net_memif3; 3 connections were ended\n");
	release(&o);
	o = starctl(cluster.folder, "help --words port add", "");
	CHECK_HAS(o.out, "--mtu\n");
	release(&o);
	cluster_fini(&cluster);
}
