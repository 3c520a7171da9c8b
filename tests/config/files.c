/* SPDX-License-Identifier: BSD-3-Clause */
/* Configuration files: what is refused, and with which message; what is fine; the defaults; --set. */
#include "base/prng.h"
#include "tests/config/support.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct bad_file {
	const char *text, *parts;
};

#define BAD(line, parts) \
	{ \
		PS_FILE line, "t.conf:5: |" parts \
	}
#define BAD_PORT(port, parts) \
	{ \
		NODE CLUSTER MAP "ports = (\n{ " port " });", "t.conf:5: |" parts \
	}

static const struct bad_file bad_files[] = {
	/* unknown keys: the nearest known one, also when it is in another group */
	BAD("coers = { number = 2; };", "unknown key `coers`; did you mean `cores`?"),
	BAD("cores = { nubmer = 2; };", "unknown key `cores.nubmer`; did you mean `cores.number`?"),
	BAD("polling = true;", "unknown key `polling`; did you mean `cores.polling`?"),
	BAD("tcp = { parameter_mib = 2; };", "unknown key `tcp.parameter_mib`; did you mean `memory.parameter_mib`?"),
	BAD("memory = {\n mbuf = 2; };", "") /* line 6, below */,
	BAD("xyzzy = 1;", "unknown key `xyzzy`; did you mean `"),
	{ "node = { job_nmae = \"ps\"; };", "t.conf:1: |`node.job_nmae`|`node.job_name`" },
	BAD_PORT("devcie = \"pci\";", "unknown key `ports[].devcie`; did you mean `ports[].device`?"),
	{ NODE CLUSTER "endpoint_map = ( { contrl = \"a:1\"; } );",
	  "t.conf:3: |did you mean `endpoint_map[].control`?" },
	/* types */
	BAD("cores = { number = \"two\"; };", "cores.number cannot be \"two\"; it takes a whole number from 1 to 64"),
	BAD("cores = { number = 1.5; };", "cores.number cannot be a number with a fraction|1 to 64"),
	BAD("cores = { number = true; };", "cores.number cannot be true"),
	BAD("cores = { number = [ 1 ]; };", "cores.number cannot be a list"),
	BAD("cores = { polling = 1; };", "cores.polling cannot be 1; it takes true or false"),
	BAD("cores = { polling = \"true\"; };", "cores.polling cannot be \"true\"; it takes true or false"),
	BAD("cores = { list = [ \"1\" ]; };", "cores.list cannot be \"1\""),
	BAD("cores = { list = 1.0; };", "cores.list cannot be a value without brackets; it takes a list"),
	BAD("cores = { list = 1; };", "cores.list cannot be a value without brackets; it takes a list"),
	BAD("cores = 3;", "cores must be a group; write cores = { ... };"),
	BAD("cores = ( 3 );", "cores must be a group"),
	BAD("log = { level = \"loud\"; };", "log.level cannot be \"loud\"; it takes one of \"debug\", \"info\""),
	BAD("log = { level = \"info|warning\"; };", "log.level cannot be"),
	BAD("memory = { hugepages = true; };", "memory.hugepages cannot be true|\"preferred\", \"required\", \"none\""),
	BAD("endpoint_map_file = 7;", "endpoint_map_file cannot be 7"),
	{ NODE CLUSTER MAP "ports = { device = \"pci\"; };",
	  "t.conf:4: |ports must be a list of groups; write ports = (" },
	{ NODE CLUSTER MAP "ports = 1;", "t.conf:4: |ports must be a list of groups" },
	{ NODE CLUSTER "endpoint_map = \"a:1=b:2\";", "t.conf:3: |endpoint_map must be a list of groups" },
	{ NODE CLUSTER MAP "ports = (\n1 );", "t.conf:5: |an entry of ports is not a group" },
	{ "node = { job_name = \"master\"; };", "t.conf:1: |one of \"ps\", \"worker\", \"chief\"" },
	{ "cluster = { ps = 3; };", "t.conf:1: |cluster.ps cannot be a value without brackets; it takes a list" },
	{ "cluster = { ps = \"a:1\"; };", "t.conf:1: |cluster.ps cannot be a value without brackets; it takes a list" },
	{ "cluster = { ps = [ 3 ]; };", "t.conf:1: |cluster.ps cannot be 3" },
	/* ranges */
	BAD("cores = { number = 0; };", "cores.number = 0 is out of range; allowed: 1 to 64"),
	BAD("cores = { number = 65; };", "cores.number = 65 is out of range; allowed: 1 to 64"),
	BAD("cores = { number = -1; };", "cores.number = -1 is out of range"),
	BAD("cores = { spin_us = 1000001; };", "allowed: 0 to 1000000 microseconds"),
	BAD("cores = { list = [ 8192 ]; };", "cores.list = 8192 is out of range; allowed: 0 to 8191"),
	BAD("cores = { list = [ 1, 0, 1 ]; };", "core 1 twice"),
	BAD("memory = { parameter_mib = 0; };", "memory.parameter_mib = 0 is out of range; allowed: 1 to 16777216 MiB"),
	BAD("memory = { parameter_mib = 16777217; };", "memory.parameter_mib = 16777217 is out of range"),
	BAD("cluster = { partitions = 3; };", "duplicate"),
	BAD("limits = { connections = 0; };", "limits.connections = 0 is out of range"),
	BAD("limits = { request_mib = 65; };", "limits.request_mib = 65 is out of range; allowed: 1 to 64 MiB"),
	BAD("limits = { request_mib = 32; };",
	    "limits.request_mib = 32 needs memory.mbufs of at least 94520 at an mtu of 1500, and it is 16383"),
	BAD("tcp = { rto_min_us = 999; };", "allowed: 1000 to 60000000 microseconds"),
	BAD("tcp = { rto_min_us = 300000; rto_max_us = 200000; };",
	    "tcp.rto_max_us = 200000 is less than tcp.rto_min_us"),
	BAD("control = { connect_timeout_ms = 0; };", "control.connect_timeout_ms = 0 is out of range"),
	BAD("control = { socket = \"\"; };", "control.socket = \"\" is 0 bytes long; allowed: 1 to 107 bytes"),
	BAD("control = { socket = \"/a\\nb\"; };", "control.socket has a control character (code 10)"),
	BAD("control = { socket = \"/run/0123456789012345678901234567890123456789012345678901234567890123456789"
	    "012345678901234567890123456789012\"; };",
	    "is 108 bytes long; allowed: 1 to 107 bytes"),
	{ NODE "cluster = { ps = [ \"198.18.1.1:3333\" ];\npartitions = 12; };\n" MAP PORTS,
	  "t.conf:3: |cluster.partitions = 12 is not a power of two" },
	BAD("standby = { etcd = [ \"198.18.0.9:2379\" ]; };", "standby.etcd is for the nodes of a pair"),
	BAD("standby = { etcd = [ \"198.18.0.9\" ]; };", "standby.etcd"),
	BAD("standby = { etcd_key = \"/a b\"; };", "standby.etcd_key may have printable ASCII characters"),
	BAD("standby = { etcd_certificate = \"/a\"; };", "need each other"),
	BAD("standby = { etcd_certificate = \"/a\"; etcd_private_key = \"/b\"; };", "set standby.etcd_ca"),
	{ NODE "cluster = { ps = [ \"198.18.1.1:3333\" ];\npartitions = 2097152; };\n" MAP PORTS,
	  "t.conf:3: |out of range; allowed: 1 to 1048576" },
	{ NODE "cluster = { ps = [ \"198.18.1.1:3333\" ];\npartitions = 4; };\n" MAP PORTS "cores = { number = 5; };",
	  "t.conf:3: |cluster.partitions = 4 is less than the number of reactors in the cluster" },
	{ NODE "cluster = { ps = [ \"198.18.1.1:3333\", \"a:1\", \"b:1\", \"c:1\" ];\npartitions = 4; };\n" MAP PORTS
	       "cores = { number = 2; };",
	  "t.conf:3: |at least 5" },
	/* ports */
	BAD_PORT("interface = \"star0\";", "ports[0] has no device"),
	BAD_PORT("device = \"af_packet\";", "\"af_packet\" is not a DPDK device|net_af_packet"),
	BAD_PORT("device = \"net_tap0,iface=x\";", "is not a DPDK device"),
	BAD_PORT("device = \"net_memif0\"; address = \"198.18.0.1/24\";",
		 "must be the driver's name alone; write \"net_memif\""),
	BAD_PORT("device = \"net_memif_x\"; address = \"198.18.0.1/24\";", "must be the driver's name alone"),
	BAD_PORT("device = \"net_af_packet1\"; interface = \"star0\";", "write \"net_af_packet\""),
	BAD_PORT("device = \"net_af_packet\";", "ports[0] has no interface, which net_af_packet needs"),
	BAD_PORT("device = \"net_af_xdp\"; interface = \"0123456789abcdef\";", "is 16 bytes long; allowed: 0 to 15"),
	BAD_PORT("device = \"net_af_xdp\"; interface = \"a/b\";", "is not the name of an interface"),
	{ NODE CLUSTER MAP "ports = ( { device = \"pci\"; pci = \"0000:03:00.0\"; address = \"198.18.0.1/24\"; } );\n"
			   "memory = { mbufs = 3582; };",
	  "memory.mbufs = 3582 is too few|keep up to 2560 packet buffers|set it to 3583 or more" },
	BAD_PORT("device = \"pci\";", "ports[0].pci = \"\" is not a PCI address"),
	BAD_PORT("device = \"pci\"; pci = \"03:00.0\";", "is not a PCI address|0000:03:00.0"),
	BAD_PORT("device = \"pci\"; pci = \"0000:03:00.8\";", "is not a PCI address"),
	BAD_PORT("device = \"pci\"; pci = \"0000:03:00.0x\";", "is not a PCI address"),
	BAD_PORT("device = \"net_ring\"; pci = \"0000:03:00.0\";", "its device is net_ring; write device = \"pci\""),
	BAD_PORT("device = \"net_ring\";", "ports[0] has no address"),
	BAD_PORT("device = \"net_ring\"; address = \"198.18.0.1\";", "ports[].address cannot be|\"198.18.0.1/24\""),
	BAD_PORT("device = \"net_ring\"; address = \"198.18.0.1/\";", "ports[].address cannot be"),
	BAD_PORT("device = \"net_ring\"; address = \"198.18.0.1/x\";", "ports[].address cannot be"),
	BAD_PORT("device = \"net_ring\"; address = \"198.18.0.1/33\";",
		 "prefix length is out of range; allowed: 1 to 32"),
	BAD_PORT("device = \"net_ring\"; address = \"198.18.0.1/0\";", "allowed: 1 to 32"),
	BAD_PORT("device = \"net_ring\"; address = \"198.18.0.300/24\";", "ports[].address cannot be"),
	BAD_PORT("device = \"net_ring\"; address = \"1234567890.1234567890.1/24\";", "ports[].address cannot be"),
	BAD_PORT("device = \"net_ring\"; address = \"127.0.0.1/8\";", "is loopback"),
	BAD_PORT("device = \"net_ring\"; address = \"224.0.0.1/24\";", "is multicast"),
	BAD_PORT("device = \"net_ring\"; address = \"198.18.0.0/24\";", "is the address of the network itself"),
	BAD_PORT("device = \"net_ring\"; address = \"198.18.0.255/24\";", "is the network's broadcast address"),
	BAD_PORT("device = \"net_ring\"; address = [ ];", "ports[0] has no address"),
	BAD_PORT("device = \"net_ring\"; address = 5;",
		 "ports[].address cannot be 5; it takes an address|2001:2::1/64"),
	BAD_PORT("device = \"net_ring\"; address = [ \"198.18.0.1/24\", \"\" ];", "ports[].address cannot be \"\""),
	BAD_PORT("device = \"net_ring\"; address = [ \"198.18.0.1/24\", \"198.18.0.1/16\" ];",
		 "ports[0] has the address 198.18.0.1 twice"),
	BAD_PORT("device = \"net_ring\"; address = [ \"2001:2::1/64\", \"2001:2:0::1/64\" ];",
		 "ports[0] has the address 2001:2::1 twice"),
	BAD_PORT("device = \"net_ring\"; address = [ \"198.18.0.1/24\", \"198.18.0.2/24\", \"198.18.0.3/24\", "
		 "\"198.18.0.4/24\", \"198.18.0.5/24\", \"198.18.0.6/24\", \"198.18.0.7/24\", \"198.18.0.8/24\", "
		 "\"198.18.0.9/24\" ];",
		 "ports[].address has more than 8 entries"),
	BAD_PORT("device = \"net_ring\"; address = \"2001:2::1\";", "ports[].address cannot be"),
	BAD_PORT("device = \"net_ring\"; address = \"2001:2::1/129\";", "allowed: 1 to 128"),
	BAD_PORT("device = \"net_ring\"; address = \"2001:2::1/0\";", "allowed: 1 to 128"),
	BAD_PORT("device = \"net_ring\"; address = \"2001:2:::1/64\";", "ports[].address cannot be"),
	BAD_PORT("device = \"net_ring\"; address = \"2001:2::1%eth0/64\";", "ports[].address cannot be"),
	BAD_PORT("device = \"net_ring\"; address = \"::1/128\";", "is loopback"),
	BAD_PORT("device = \"net_ring\"; address = \"ff02::1/64\";", "is multicast"),
	BAD_PORT("device = \"net_ring\"; address = \"fe80::1/64\";", "is link-local"),
	BAD_PORT("device = \"net_ring\"; address = \"::ffff:198.18.0.1/128\";", "IPv4 address in IPv6 form"),
	BAD_PORT("device = \"net_ring\"; address = \"2001:2::/64\";", "is the address of the network itself"),
	BAD_PORT("device = \"net_ring\"; address = \"2001:2::1/64\"; mtu = 1279;",
		 "an mtu of 1279; IPv6 needs at least 1280"),
	BAD_PORT("device = \"net_ring\"; address = \"2001:2::1/64\"; gateway6 = \"198.18.0.2\";",
		 "is not an IPv6 address"),
	BAD_PORT("device = \"net_ring\"; address = \"2001:2::1/64\"; gateway6 = \"2001:2:1::2\";",
		 "is not another host on the port's networks"),
	BAD_PORT("device = \"net_ring\"; address = \"2001:2::1/64\"; gateway6 = \"2001:2::1\";",
		 "is not another host on the port's networks"),
	BAD_PORT("device = \"net_ring\"; address = \"198.18.0.1/24\"; gateway6 = \"fe80::1\";",
		 "has no effect: the port has no IPv6 address"),
	BAD_PORT("device = \"net_ring\"; address = \"2001:2::1/64\"; gateway = \"198.18.0.2\";",
		 "is not another host on the port's networks"),
	BAD_PORT("device = \"net_ring\"; vlan = 4095;", "ports[].vlan = 4095 is out of range; allowed: 0 to 4094"),
	BAD_PORT("device = \"net_ring\"; address = \"198.18.0.1/24\"; gateway = \"x\";", "is not an IPv4 address"),
	BAD_PORT("device = \"net_ring\"; address = \"198.18.0.1/24\"; gateway = \"198.18.1.1\";",
		 "is not another host on the port's networks"),
	BAD_PORT("device = \"net_ring\"; address = \"198.18.0.1/24\"; gateway = \"198.18.0.1\";",
		 "is not another host on the port's networks"),
	BAD_PORT("device = \"net_ring\"; mtu = 65535;",
		 "ports[].mtu = 65535 is out of range; allowed: 576 to 9000 bytes"),
	BAD_PORT("device = \"net_ring\"; mtu = 575;", "allowed: 576 to 9000 bytes"),
	BAD_PORT("device = \"net_ring\"; address = \"198.18.0.1/24\"; }, { device = \"net_ring\"; address = "
		 "\"198.18.0.1/16\"; ",
		 "ports[0] and ports[1] both have 198.18.0.1"),
	BAD_PORT("device = \"net_af_xdp\"; interface = \"s\"; address = \"198.18.0.1/24\"; }, { device = "
		 "\"net_af_packet\"; "
		 "interface = \"s\"; address = \"198.18.1.1/24\"; ",
		 "both have s"),
#define BAD_MEMIF(options, says) \
	BAD_PORT("device = \"net_memif\"; address = \"198.18.0.1/24\"; options = \"" options "\";", says)
	BAD_MEMIF("id=1,id=2", "ports[0].options: id is given twice"),
	BAD_MEMIF("mac=02:00:00:00:00:01,secret=x,,mac=02:00:00:00:00:01", "ports[0].options: mac is given twice"),
	BAD_MEMIF("role=client",
		  "ports[0].options: role=client is refused: the appliance is always the memif's server"),
	BAD_MEMIF("id=0,zero-copy=yes", "zero-copy=yes is refused: the appliance and libstar always copy"),
	BAD_MEMIF("id=-1", "id=-1 is not a number from 0 to 4294967295"),
	BAD_MEMIF("id=4294967296", "is not a number"),
	BAD_MEMIF("id=", "is not a number"),
	BAD_MEMIF("socket=", "socket has 0 bytes; allowed: 1 to 107"),
	BAD_MEMIF("socket=run/x.sock", "is not an absolute path"),
	BAD_MEMIF("secret=0123456789012345678901234", "secret has 25 bytes; allowed: 1 to 24"),
	BAD_MEMIF("mac=1:2:3", "is not a unicast MAC address"),
	BAD_MEMIF("mac=01:00:00:00:00:01", "is not a unicast MAC address"),
	BAD_MEMIF("bsize=4096", "bsize is chosen by the client"),
	BAD_MEMIF("socket-abstract=maybe", "allowed: id=N, socket=PATH"),
	BAD_PORT("device = \"net_memif\"; address = \"198.18.0.1/24\"; options = \"socket=/run/a\"; }, { device = "
		 "\"net_memif\"; address = \"198.18.1.1/24\"; options = \"id=1,socket=/run/a\"; ",
		 "ports[0] and ports[1] both have /run/a"),
	{ NODE CLUSTER MAP, "there is no port|ports = ( {" },
	{ NODE CLUSTER MAP "ports = (\n{},{},{},{},{},{},{},{},{});", "t.conf:5: |ports has more than 8 entries" },
	/* the cluster */
	{ NODE, "cluster.ps is empty|\"198.18.1.1:3333\"|-c" },
	{ NODE "cluster = { ps = [ ]; };", "t.conf:2: |cluster.ps is empty" },
	{ "node = {\ntask_index = 2; };\n" CLUSTER,
	  "t.conf:2: |node.task_index = 2 is out of range|2 tasks|allowed: 0 to 1" },
	{ "node = {\ntask_index = -1; };\n" CLUSTER, "t.conf:2: |node.task_index = -1 is out of range" },
	{ NODE "cluster = { ps = [ \"a:1\",\n\"b:2\", \"A:1\" ]; };",
	  "t.conf:2: |:1 is listed twice|cluster.ps[0]|cluster.ps[2]" },
	{ NODE "cluster = { ps = [ \"a:1\" ];\nworker = [ \"a:1\" ]; };",
	  "is listed twice|cluster.ps[0]|cluster.worker[0]" },
	{ NODE "cluster = { ps = [ \"a:1\",\n\"b\" ]; };", "t.conf:3: |cluster.ps: \"b\" has no port" },
	{ NODE "cluster = { ps = [ \"a:1\",\n\"b:0\" ]; };",
	  "t.conf:3: |the port 0 is out of range; allowed: 1 to 65535" },
	/* a task that is a pair */
	{ NODE "cluster = { ps = [ \"a:1\",\n\"b:1|c:1|d:1\" ]; };",
	  "t.conf:3: |\"b:1|c:1|d:1\" has more than two addresses" },
	{ NODE "cluster = { ps = [ \"a:1\",\n\"b:1|\" ]; };", "t.conf:3: |cluster.ps: \"\" has no port" },
	{ NODE "cluster = { ps = [ \"a:1\",\n\"|b:1\" ]; };", "t.conf:3: |cluster.ps: \"\" has no port" },
	{ NODE "cluster = { ps = [ \"a:1\", \"b:1|a:1\" ]; };", "a:1 is listed twice|cluster.ps[0]|cluster.ps[1]" },
	{ NODE "cluster = { ps = [ \"a:1\" ]; worker = [ \"b:1|c:1\" ]; };", "cluster.worker: \"b:1|c:1\"" },
	{ NODE "cluster = { ps = [ \"198.18.1.1:3333|198.18.1.2:3333\" ]; };\n" MAP PORTS,
	  "cluster.ps[0] has the addresses of two nodes|set standby.peer" },
	BAD("standby = { address = \"second\"; };",
	    "standby.address is \"second\", but cluster.ps[0] has one address only"),
	{ NODE "cluster = { ps = [ \"198.18.1.1:3333|198.18.1.2:3333\" ]; };\n" MAP PORTS
	       "standby = { peer = \"a:1\"; listen = \"b:1\"; directory = \"/d\"; address = \"second\"; };",
	  "no entry for this node's own control address 198.18.1.2:3333" },
	/* places */
	BAD("checkpoint = { directory = \"/d\"; }; journal = { directory = \"/d/\"; };",
	    "journal.directory and checkpoint.directory are both /d/: each needs its own directory"),
	{ NODE "cluster = { ps = [ \"198.18.1.1:3333\" ]; };\n" MAP PORTS
	       "standby = { peer = \"a:1\"; listen = \"b:1\"; directory = \"/d\"; };\n"
	       "checkpoint = { directory = \"/d\"; };\n",
	  "standby.directory and checkpoint.directory are both /d: " },
	/* syntax */
	BAD("cores = { number = 2 polling }", "syntax error"),
	BAD("metrics = { address = \"300.1.1.1\"; };",
	    "metrics.address = \"300.1.1.1\" is not an IP address|\"127.0.0.1\" or"),
	BAD("metrics = { port = 9090; address = \"localhost\"; };", "\"localhost\" is not an IP address"),
	BAD("metrics = { address = \"127.0.0.1:9090\"; };", "without a port"),
	BAD("metrics = { address = \"[::1]\"; };", "\"[::1]\" is not an IP address"),
	BAD("cores = { number = ; };", "syntax error"),
	BAD("cores = { number = 2;\nnumber = 2; };", "") /* line 6, below */,
	BAD("log = { level = \"info; };", "syntax error"),
	{ PS_FILE "\n\ncores = { number = 1; }; cores = { number = 2; };", "t.conf:7: |duplicate setting name" },
	{ "node = {", "syntax error" },
};

/* Of a node of a pair that keeps a journal, with these durabilities. */
static void load_both(const char *ps, const char *address, const char *standby, const char *journal,
		      const char *refused)
{
	struct star_error err = { 0 };
	struct config *config;
	char text[2048];

	snprintf(text, sizeof(text),
		 NODE "cluster = { ps = [ %s ]; };\n" MAP PORTS "checkpoint = { directory = \"/c\"; };\n"
		      "standby = { peer = \"a:1\"; listen = \"b:1\"; directory = \"/d\"; address = \"%s\"; %s };\n"
		      "journal = {\ndirectory = \"/j\";\n%s };\n",
		 ps, address, standby, journal);
	if (refused) {
		support_refused(text, NULL, refused);
		return;
	}
	config = support_load(text, NULL, &err);
	if (!CHECK(config))
		printf("# %s\n", err.text);
	config_free(config);
}

/* What one of the two would promise in the other one's place is refused. */
void a_pair_may_keep_journals(void)
{
	static const char *const one = "\"198.18.1.1:3333\"", *const two =
								      "\"198.18.1.1:3333|198.18.1.2:3333\", \"c:1\"";

	load_both(one, "first", "", "", NULL);
	load_both(one, "first", "durability = \"async\";", "", NULL);
	load_both(one, "first", "durability = \"sync\";", "durability = \"sync\";", NULL);
	load_both(one, "first", "", "durability = \"retained\";", NULL);
	load_both(one, "first", "durability = \"sync\";", "durability = \"async\";", NULL);
	load_both(one, "first", "", "durability = \"sync\";",
		  "t.conf:9: |journal.durability says what replies wait for while the standby is away|set it to the "
		  "value of");
	load_both(one, "first", "durability = \"async\";", "durability = \"sync\";", "t.conf:9: |or to async");
	load_both(two, "first", "", "", NULL);
	load_both(two, "first", "", "durability = \"sync\";", "t.conf:9: |or to async");
}

void every_bad_file_is_refused_with_its_line(void)
{
	for (unsigned i = 0; i < sizeof(bad_files) / sizeof(bad_files[0]); i++) {
		if (!strcmp(bad_files[i].parts, "t.conf:5: |"))
			support_refused(bad_files[i].text, NULL, "t.conf:6: ");
		else
			support_refused(bad_files[i].text, NULL, bad_files[i].parts);
	}
}

void integers_are_not_cut_to_32_bits(void)
{
	static const char *const literals[] = { "4294967297",  "0x100000001", "18446744073709551617",
						"-4294967295", "4294967297L", "0xfffffffffffffffffff" };
	char text[1024];

	for (unsigned i = 0; i < sizeof(literals) / sizeof(literals[0]); i++) {
		snprintf(text, sizeof(text), PS_FILE "cores = { number = %s; };", literals[i]);
		support_refused(text, NULL, "t.conf:5: |cores.number = |is out of range; allowed: 1 to 64");
	}
	support_refused(PS_FILE "cores = { number = 4294967297; };", NULL, "cores.number = 4294967297 is");
	support_refused(PS_FILE "cores = { list = [0,4294967297]; };", NULL, "cores.list = 4294967297 is");
}

void include_is_refused(void)
{
	/* libconfig 1.5 ends the process when it is told to include a folder */
	support_refused(PS_FILE "@include \"/tmp\"\n", NULL, "t.conf:5: |@include is not supported");
}

void comments_are_closed(void)
{
	support_refused(PS_FILE "/* why\nsecurity = { data = \"sealed\"; };\n", NULL,
			"t.conf:5: |the comment that begins here is not closed");
	support_refused(PS_FILE "/*/", NULL, "t.conf:5: |the comment that begins here is not closed");
	support_refused(PS_FILE "/* a */ cores = { number = 0; }; /* b", NULL,
			"t.conf:5: |the comment that begins here is not closed");
	support_refused(PS_FILE "# /*\n// /*\ncores = { number = 0; }; /**/", NULL, "t.conf:7: |out of range");
	support_refused(PS_FILE "control = { socket = \"/*\"; }; cores = { number = 0; };", NULL,
			"t.conf:5: |out of range");
}

void files_that_cannot_be_read(void)
{
	struct star_error err = { 0 };
	size_t bytes = (4u << 20) + 1;
	char *large = malloc(bytes);

	CHECK(!config_load("/nonexistent/star.conf", NULL, 0, &err));
	CHECK_INT(err.code, -ENOENT);
	support_has_parts(err.text, "/nonexistent/star.conf|pass one with -c FILE|drivers-config/");
	CHECK(!config_load("/tmp", NULL, 0, &err));
	support_has_parts(err.text, "cannot open /tmp: Is a directory");
	CHECK(!config_load(NULL, NULL, 0, &err));
	support_has_parts(err.text, "cluster.ps is empty|-c");
	CHECK(!config_load("/dev/zero", NULL, 0, &err));
	support_has_parts(err.text, "cannot open /dev/zero: it is a pipe, a socket or a device");
	CHECK(!config_load(support_write("n.conf", "node = {\n}\0;", 13), NULL, 0, &err));
	support_has_parts(err.text, "n.conf:2: |NUL byte");
	memset(large, '\n', bytes);
	CHECK(!config_load(support_write("l.conf", large, bytes), NULL, 0, &err));
	support_has_parts(err.text, "l.conf is larger than 4 MiB");
	CHECK(!config_load(support_write("l.conf", large, bytes - 1), NULL, 0, &err));
	support_has_parts(err.text, "cluster.ps is empty");
	free(large);
}

/* Nobody writes to the pipe: waiting for that would never end. */
void pipes_are_no_files(void)
{
	struct config_endpoint *entries = NULL;
	struct star_error err = { 0 };
	char path[128], override[192];
	uint32_t count = 0;

	snprintf(path, sizeof(path), "%s/pipe", support_folder());
	snprintf(override, sizeof(override), "endpoint_map_file=%s", path);
	CHECK_INT(mkfifo(path, 0600), 0);
	alarm(20);
	CHECK(!config_load(path, NULL, 0, &err));
	support_has_parts(err.text, "cannot open |/pipe: it is a pipe, a socket or a device, and not a regular file");
	err = (struct star_error){ 0 };
	CHECK(config_read_endpoint_map(path, &entries, &count, &err) < 0);
	support_has_parts(err.text, "/pipe: it is a pipe");
	CHECK(!support_load(NODE CLUSTER PORTS, override, &err));
	support_has_parts(err.text, "/pipe: it is a pipe");
	alarm(0);
	unlink(path);
}

void file_forms_that_are_fine(void)
{
	static const char *const texts[] = {
		"\xef\xbb\xbf" PS_FILE,
		"node : { job_name : \"ps\", task_index : 0 }\r\n" CLUSTER MAP PORTS "\r\n",
		NODE CLUSTER MAP PORTS "// 99999999999999999999 \"\n/* @include \n 5000000000 */ # \" 5000000000\n",
		PS_FILE "cores = { number = 0x2; list = ( 0, 1L ); spin_us = +7; };",
		PS_FILE "log = { level = \"in\" \"fo\"; };",
		PS_FILE "cluster2x = { };",
	};
	struct star_error err;

	for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct config *c = support_load(texts[i], NULL, &err);

		if (i + 1 == sizeof(texts) / sizeof(texts[0])) {
			CHECK(!c); /* digits within a name are not a number: the message shows the whole name */
			support_has_parts(err.text, "t.conf:5: |unknown key `cluster2x`; did you mean `cluster`?");
		} else {
			CHECK_STR(err.text, "");
			CHECK(c != NULL);
		}
		config_free(c);
	}
}

void defaults(void)
{
	struct star_error err;
	struct config *c = support_load(PS_FILE, NULL, &err);

	CHECK_STR(err.text, "");
	if (!CHECK(c != NULL))
		return;
	CHECK_STR(c->job_name, "ps");
	CHECK_UINT(c->ps_count, 2);
	CHECK_UINT(c->workers_count, 1);
	CHECK_STR(c->ps[1].host, "198.18.1.2");
	CHECK_UINT(c->ps[1].port, 3333);
	CHECK_STR(c->own.data.host, "198.18.0.1");
	CHECK_UINT(c->own.data.port, 5555);
	CHECK_UINT(c->endpoints_count, 1);
	CHECK_UINT(c->ports_count, 1);
	CHECK_STR(c->ports[0].device, "net_af_packet");
	CHECK_UINT(c->ports[0].addresses_count, 1);
	CHECK_STR(c->ports[0].addresses[0].host, "198.18.0.1");
	CHECK_UINT(c->ports[0].addresses[0].prefix, 24);
	CHECK_STR(c->ports[0].gateway, "");
	CHECK_STR(c->ports[0].gateway6, "");
	CHECK_UINT(c->ports[0].vlan, 0);
	CHECK_UINT(c->ports[0].mtu, 1500);
	CHECK(!c->polling && !c->pin);
	CHECK_UINT(c->cores_count, 0);
	CHECK_INT(c->hugepages, CONFIG_HUGEPAGES_PREFERRED);
	CHECK_UINT(c->partitions, 16384);
	CHECK_STR(c->control_socket, "/run/starserver/ps-0.sock");
	CHECK_UINT(c->connect_timeout_ms, 120000);
	CHECK_UINT(c->rto_min_us, 200000);
	CHECK_UINT(c->keepalive_s, 60);
	CHECK_UINT(c->sessions_max, 1024);
	CHECK_UINT(c->request_mib, 4);
	CHECK_UINT(c->credits, 512);
	CHECK_UINT(c->target_delay_us, 50);
	CHECK_UINT(c->congestion, 0);
	CHECK_UINT(c->ecn, 0);
	CHECK_UINT(c->log_level, 1);
	config_free(c);
}

void default_reactors(void)
{
	static const char *const workers[] = { "", "a:1", "a:1,a:2,a:3,a:4,a:5,a:6,a:7,a:8,a:9,a:10,a:11,a:12" };
	static const uint32_t tasks[] = { 2, 3, 14 };
	uint32_t usable = config_usable_cores(), expected;
	struct star_error err;

	for (unsigned i = 0; i < 3; i++) {
		char override[128];
		struct config *c;

		snprintf(override, sizeof(override), "cluster.worker=%s", workers[i]);
		c = support_load(PS_FILE, override, &err);
		if (!CHECK(c != NULL))
			return;
		expected = tasks[i] < 8 ? tasks[i] : 8;
		CHECK_UINT(c->reactors, expected < usable ? expected : usable);
		config_free(c);
	}
	support_one_core(true);
	struct config *c = support_load(PS_FILE, NULL, &err);

	support_one_core(false);
	if (CHECK(c != NULL))
		CHECK_UINT(c->reactors, 1);
	config_free(c);
}

void command_line_overrides(void)
{
	static const struct config_override sets[] = {
		{ "node.task_index", "0" },
		{ "cores.number", "5" },
		{ "cores.number", "6" },
		{ "cores.polling", "No" },
		{ "ports[0].interface", "eth7" },
		{ "ports[1].device", "net_ring" },
		{ "ports[1].address", "198.18.2.1/24,2001:02:0::21/64" },
		{ "ports[1].mtu", "9000" },
		{ "log.level", "error" },
		{ "memory.hugepages", "none" },
		{ "control.socket", "/tmp/a b" },
	};
	struct star_error err = { 0 };
	struct config *c = config_load(support_write("t.conf", PS_FILE, strlen(PS_FILE)), sets,
				       sizeof(sets) / sizeof(sets[0]), &err);

	CHECK_STR(err.text, "");
	if (!CHECK(c != NULL))
		return;
	CHECK_UINT(c->reactors, 6);
	CHECK_STR(c->ports[0].interface, "eth7");
	CHECK_UINT(c->ports_count, 2);
	CHECK_UINT(c->ports[1].mtu, 9000);
	CHECK_UINT(c->ports[1].addresses_count, 2);
	CHECK_UINT(c->ports[1].addresses[0].prefix, 24);
	CHECK_STR(c->ports[1].addresses[1].host, "2001:2::21");
	CHECK_UINT(c->ports[1].addresses[1].prefix, 64);
	CHECK_UINT(c->log_level, 3);
	CHECK_INT(c->hugepages, CONFIG_HUGEPAGES_NONE);
	CHECK_STR(c->control_socket, "/tmp/a b");
	config_free(c);
}

void bad_overrides(void)
{
	static const struct {
		const char *override, *parts;
	} cases[] = {
		{ "cores.nubmer=2", "--set: unknown key `cores.nubmer`; did you mean `cores.number`?" },
		{ "ports[0].mtv=1500", "--set: unknown key `ports[0].mtv`; did you mean `ports[0].mtu`?" },
		{ "ports[].mtu=1500", "did you mean `ports[0].mtu`?" },
		{ "ports[2].mtu=1500", "--set: ports[2]: there are 1 ports; allowed: ports[0] to ports[1]" },
		{ "ports[99999999999].mtu=1500", "--set: unknown key" },
		{ "endpoint_map[].control=a:1", "did you mean `endpoint_map`?" },
		{ "cores=2", "--set: unknown key `cores`" },
		{ "cores.number=", "--set: cores.number cannot be \"\"; it takes a whole number from 1 to 64" },
		{ "cores.number=2x", "--set: cores.number cannot be \"2x\"" },
		{ "cores.number= 2", "--set: cores.number cannot be \" 2\"" },
		{ "cores.number=-2", "--set: cores.number = -2 is out of range; allowed: 1 to 64" },
		{ "cores.number=99999999999999999999", "is out of range; allowed: 1 to 64" },
		{ "cores.polling=maybe", "\"maybe\" is neither true nor false" },
		{ "cores.list=0,,1", "--set: cores.list cannot be \"\"" },
		{ "endpoint_map=", "has no '='" },
		{ "endpoint_map=198.18.1.1:3333=198.18.0.1:5555,198.18.1.1:3333=198.18.0.1:7777",
		  "--set: |already has an entry, 198.18.0.1:5555" },
		{ "node.job_name=boss", "--set: node.job_name cannot be \"boss\"" },
		{ "cluster.partitions=3", "--set: cluster.partitions = 3 is not a power of two" },
		{ "node.task_index=2", "--set: node.task_index = 2 is out of range" },
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		support_refused(PS_FILE, cases[i].override, cases[i].parts);
}

void command_line_lists(void)
{
	static const struct config_override sets[] = {
		{ "cluster.ps", "198.18.1.1:3333,ps-1.example:3333" },
		{ "cluster.worker", "" },
		{ "endpoint_map", "198.18.1.1:3333=198.18.0.1:7777,198.18.1.3:1=198.18.0.3:1" },
		{ "ports[0].device", "net_null" },
		{ "ports[0].address", "198.18.0.1/16" },
	};
	struct star_error err = { 0 };
	struct config *c = config_load(NULL, sets, sizeof(sets) / sizeof(sets[0]), &err);

	CHECK_STR(err.text, "");
	if (!CHECK(c != NULL))
		return;
	CHECK_UINT(c->ps_count, 2);
	CHECK_STR(c->ps[1].host, "ps-1.example");
	CHECK(config_ps_address(c, 1, true) == NULL);
	CHECK(config_own_control(c) == &c->ps[0]);
	CHECK_UINT(c->workers_count, 0);
	CHECK_UINT(c->own.data.port, 7777);
	CHECK_UINT(c->endpoints_count, 2);
	CHECK_UINT(c->ports_count, 1);
	config_free(c);
}

/* The file and its map, with some bytes changed: anything but a crash, and never a refusal without a message. */
void damaged_files_are_loaded_or_refused(void)
{
	static const char whole[] =
		NODE CLUSTER MAP PORTS "cores = { list = [ 0x1, 2L ]; spin_us = 5; }; # \"x\\\"\n/* 1 */";
	static const char bytes[] = "{}[]()=;:,\"\\#/*@-+.0123456789xLe \n\r\t\xff";
	struct config_endpoint *endpoints;
	struct prng p;

	prng_seed(&p, 2);
	for (unsigned run = 0; run < 1000; run++) {
		char text[sizeof(whole)];
		struct star_error err = { 0 };
		struct config *c;
		uint32_t count;
		int rc;

		memcpy(text, whole, sizeof(text));
		for (unsigned n = 1 + prng_below(&p, 4); n; n--)
			text[prng_below(&p, sizeof(text) - 1)] = bytes[prng_below(&p, sizeof(bytes) - 1)];
		text[prng_below(&p, 8) ? sizeof(text) - 1 : prng_below(&p, sizeof(text))] = 0;
		c = support_load(text, NULL, &err);
		if (!c && !CHECK(err.code < 0 && err.text[0]))
			printf("# run %u: %s\n", run, text);
		config_free(c);
		err = (struct star_error){ 0 };
		rc = config_read_endpoint_map(support_write("damaged", text, strlen(text)), &endpoints, &count, &err);
		if (!rc)
			free(endpoints);
		else
			CHECK(err.text[0]);
	}
}
