/* SPDX-License-Identifier: BSD-3-Clause */
/* The endpoint map. Each way in which DeepRec's parser fails its users is a case here. */
#include "tests/config/support.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int read_map(const char *text, struct config_endpoint **entries, uint32_t *count, struct star_error *err)
{
	*err = (struct star_error){ 0 };
	*entries = NULL;
	*count = 0;
	return config_read_endpoint_map(support_write(".endpoint_map", text, strlen(text)), entries, count, err);
}

void map_forms_that_are_fine(void)
{
	/* each has the same two entries */
	static const char *const texts[] = {
		"127.0.0.1:3333=198.18.0.1:5555\n127.0.0.1:4444=127.0.0.1:6666\n",
		"127.0.0.1:3333=198.18.0.1:5555\n127.0.0.1:4444=127.0.0.1:6666",
		"\n\n127.0.0.1:3333=198.18.0.1:5555\n\n \t \n127.0.0.1:4444=127.0.0.1:6666\n\n",
		"# nodes\n127.0.0.1:3333=198.18.0.1:5555 # PS 0 = this\n#a=b=c\n127.0.0.1:4444=127.0.0.1:6666#x\n",
		"  127.0.0.1:3333 \t=  198.18.0.1:5555  \n\t127.0.0.1:4444 = 127.0.0.1:6666\n",
		"127.0.0.1:3333=198.18.0.1:5555\r\n\r\n127.0.0.1:4444=127.0.0.1:6666\r\n",
		"\xef\xbb\xbf"
		"127.0.0.1:3333=198.18.0.1:5555\n127.0.0.1:4444=127.0.0.1:6666\n",
	};

	for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct config_endpoint *entries;
		struct star_error err;
		uint32_t count;

		CHECK_INT(read_map(texts[i], &entries, &count, &err), 0);
		CHECK_STR(err.text, "");
		if (CHECK_UINT(count, 2)) {
			CHECK_STR(entries[0].control.host, "127.0.0.1");
			CHECK_UINT(entries[0].control.port, 3333);
			CHECK_STR(entries[0].data.host, "198.18.0.1");
			CHECK_UINT(entries[0].data.port, 5555);
			CHECK_UINT(entries[1].control.port, 4444);
			CHECK_UINT(entries[1].data.port, 6666);
		}
		free(entries);
	}
}

void bad_map_lines(void)
{
	static const struct {
		const char *text, *parts;
	} cases[] = {
		{ "a:1=b:2\n\na:1=c:3\n",
		  ".endpoint_map:3: |a:1 already has an entry in line 1, b:2; keep one of them" },
		{ "a:1=b:2\nA:1=c:3\n", ".endpoint_map:2: |already has an entry" },
		{ "a:1=b:2=c:3\n", ".endpoint_map:1: |second '='|198.18.1.1:3333=198.18.0.1:5555" },
		{ "a:1=b:2 c:3=d:4\n", ".endpoint_map:1: |second '='" },
		{ "a:1=b:2\na:2\n", ".endpoint_map:2: |\"a:2\" has no '='|198.18.1.1:3333=198.18.0.1:5555" },
		{ "=b:2\n", ".endpoint_map:1: |control address|has no port" },
		{ "a:1=\n", ".endpoint_map:1: |data address|has no port" },
		{ "a:1 = # b:2\n", ".endpoint_map:1: |data address" },
		{ "# x\na:0=b:2\n",
		  ".endpoint_map:2: |control address|the port 0 is out of range; allowed: 1 to 65535" },
		{ "a:1=b:0\n", ".endpoint_map:1: |data address|the port 0 is out of range; allowed: 1 to 65535" },
		{ "a:1=b:65536\n", "the port 65536 is out of range; allowed: 1 to 65535" },
		{ "a:1=b:4294967297\n", "out of range; allowed: 1 to 65535" },
		{ "a:1=b:99999999999999999999999\n", "out of range; allowed: 1 to 65535" },
		{ "a:1=b:port\n", "the port \"port\" is not a number" },
		{ "a:1=b:12x\n", "the port \"12x\" is not a number" },
		{ "a:1=b:-1\n", "the port \"-1\" is not a number" },
		{ "a:1=b:\n", "the port \"\" is not a number" },
		{ "a:1=:2\n", "has no host" },
		{ "a:1=b c:2\n", "a character that host names cannot contain" },
		{ "a:1=198.18.0.256:2\n", "198.18.0.256 is not an IPv4 address" },
		{ "a:1=198.18.0:2\n", "198.18.0 is not an IPv4 address" },
		{ "a:1=2001:2::1:2\n", "more than one ':'|an IPv6 address in brackets, as in [2001:2::1]:3333" },
		{ "a:1=[2001:2::1\n", "data address|no ']' followed by a port|[2001:2::1]:3333" },
		{ "a:1=[2001:2::1]\n", "no ']' followed by a port" },
		{ "a:1=[2001:2::1]2\n", "no ']' followed by a port" },
		{ "a:1=[2001:2::1]:x\n", "the port \"x\" is not a number" },
		{ "a:1=[2001:2::1]:0\n", "the port 0 is out of range" },
		{ "a:1=[2001:2:::1]:2\n", "the text in brackets is not an IPv6 address" },
		{ "a:1=[fe80::1%eth0]:2\n", "is not an IPv6 address" },
		{ "a:1=[]:2\n", "is not an IPv6 address" },
		{ "a:1=[198.18.0.1]:2\n", "is not an IPv6 address" },
		{ "a:1=[0123:4567:89ab:cdef:0123:4567:89ab:cdef:0123]:2\n", "is not an IPv6 address" },
		{ "a:1=[::ffff:198.18.0.1]:2\n", "IPv4 address in IPv6 form" },
		{ "[2001:2:1::1]:1=[2001:2::1]:5555\n[2001:02:01:0::1]:1=b:2\n",
		  ".endpoint_map:2: |[2001:2:1::1]:1 already has an entry in line 1, [2001:2::1]:5555" },
		{ "a:1=b:2\r\nrubbish\r\n", ".endpoint_map:2: |\"rubbish\" has no '='" },
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct config_endpoint *entries;
		struct star_error err;
		uint32_t count;

		CHECK_INT(read_map(cases[i].text, &entries, &count, &err), -EINVAL);
		support_has_parts(err.text, cases[i].parts);
		CHECK(!entries);
	}
}

void map_limits(void)
{
	char *text = malloc(CONFIG_ENDPOINTS_MAX * 40 + 100), longer[300];
	struct config_endpoint *entries;
	struct star_error err = { 0 };
	size_t used = 0;
	uint32_t count;

	for (unsigned i = 0; i < CONFIG_ENDPOINTS_MAX; i++)
		used += (size_t)sprintf(text + used, "h%u:1=198.18.0.1:%u\n", i, i + 1);
	CHECK_INT(read_map(text, &entries, &count, &err), 0);
	if (CHECK_UINT(count, CONFIG_ENDPOINTS_MAX))
		CHECK_UINT(entries[CONFIG_ENDPOINTS_MAX - 1].data.port, CONFIG_ENDPOINTS_MAX);
	free(entries);
	sprintf(text + used, "one:1=more:1\n");
	CHECK_INT(read_map(text, &entries, &count, &err), -EINVAL);
	support_has_parts(err.text, ".endpoint_map:4097: |more than 4096 entries");
	free(text);
	memset(longer, 'h', sizeof(longer));
	strcpy(longer + 250, ":1=a:1\n");
	CHECK_INT(read_map(longer, &entries, &count, &err), -EINVAL);
	support_has_parts(err.text, ".endpoint_map:1: |the host is longer than 63 bytes");
	CHECK_INT(read_map("", &entries, &count, &err), 0);
	CHECK_UINT(count, 0);
	CHECK(config_read_endpoint_map("/nonexistent", &entries, &count, &err) < 0);
	support_has_parts(err.text, "cannot open /nonexistent: No such file");
	CHECK(config_read_endpoint_map(support_write("nul", "a:1=b:2\n\0", 9), &entries, &count, &err) < 0);
	support_has_parts(err.text, "nul:2: |NUL byte");
}

/* A configuration of a PS whose map is in the file .endpoint_map beside it. */
static const char with_map_file[] =
	NODE CLUSTER PORTS "endpoint_map_file = \".endpoint_map\";\ncores = { number = 2; };\n";

static void map_refused(const char *map, const char *parts)
{
	support_write(".endpoint_map", map, strlen(map));
	support_refused(with_map_file, NULL, parts);
}

void own_entry(void)
{
	map_refused("# none\n198.18.1.9:1=198.18.0.9:1\n\n",
		    ".endpoint_map:2: |no entry for this node's own control address 198.18.1.1:3333 (cluster.ps[0])|"
		    "198.18.1.1:3333=198.18.0.1:5555");
	map_refused("", ".endpoint_map:1: |no entry for this node's own control address");
	support_refused(NODE CLUSTER PORTS, NULL,
			"t.conf:2: |no endpoint map says which data address this node, 198.18.1.1:3333|"
			"endpoint_map = ( { control = \"198.18.1.1:3333\"; data = \"198.18.0.1:5555\"; } );|"
			"TF_SEASTAR_ENDPOINT_MAP_PATH");
	support_refused(NODE CLUSTER PORTS "endpoint_map = (\n{ control = \"a:1\"; data = \"b:1\"; } );", NULL,
			"t.conf:5: |no entry for this node's own");
	map_refused("198.18.1.1:3333=198.18.0.5:5555\n",
		    ".endpoint_map:1: |198.18.0.5:5555 of this node is not an address of one of its ports, which have "
		    "198.18.0.1/24");
	support_refused(NODE CLUSTER PORTS "endpoint_map = ( {\ncontrol = \"198.18.1.1:3333\"; } );", NULL,
			"t.conf:4: |an entry of endpoint_map has no data");
	support_refused(NODE CLUSTER PORTS "endpoint_map = ( { data = \"198.18.1.1:3333\"; } );", NULL,
			"has no control");
	support_refused(NODE CLUSTER PORTS "endpoint_map = (\n{ control = \"a:1\"; data = \"b:1\"; },\n{ control = "
					   "\"a:1\"; data = \"c:1\"; } );",
			NULL, "t.conf:6: |a:1 already has an entry in line 5");
}

void kernel_owned_data_addresses(void)
{
	static const struct {
		const char *host, *why;
	} hosts[] = { { "127.0.0.1", "loopback" },
		      { "127.255.0.9", "loopback" },
		      { "localhost", "loopback" },
		      { "LocalHost", "loopback" },
		      { "0.0.0.0", "the unspecified address" },
		      { "224.0.0.1", "multicast" },
		      { "239.255.255.255", "multicast" },
		      { "255.255.255.255", "broadcast" },
		      { "[::1]", "loopback" },
		      { "[::]", "the unspecified address" },
		      { "[ff02::1]", "multicast" },
		      { "[fe80::1]", "link-local" } };
	char map[200];

	for (unsigned i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
		snprintf(map, sizeof(map), "\n198.18.1.1:3333=%s:5555\n", hosts[i].host);
		map_refused(map, ".endpoint_map:2: |belongs to the appliance|198.18.1.1:3333=198.18.0.1:5555");
		map_refused(map, hosts[i].why);
		/* the entry of another PS of the cluster is no better */
		snprintf(map, sizeof(map), "198.18.1.1:3333=198.18.0.1:5555\n198.18.1.2:3333=%s:5555\n", hosts[i].host);
		map_refused(map, ".endpoint_map:2: |belongs to the appliance|198.18.1.2:3333=");
	}
	map_refused("198.18.1.1:3333=star0:5555\n", ".endpoint_map:1: |is a name; give an IP address");
}

/* A node whose data address is its port's second one, in another spelling. */
void ipv6_data_addresses(void)
{
	static const char text[] =
		"cluster = { ps = [ \"[2001:2:1::1]:3333\", \"[2001:2:1::2]:3333\" ]; };\n"
		"endpoint_map = ( { control = \"[2001:2:1:0::1]:3333\"; data = \"[2001:2:0::1]:5555\"; },\n"
		"  { control = \"[2001:2:1::2]:3333\"; data = \"[2001:2::2]:5555\"; } );\n"
		"ports = ( { device = \"net_ring\"; address = [ \"198.18.0.1/24\", \"2001:2::1/64\" ]; gateway6 = "
		"\"2001:2::fe\"; } );\n";
	struct star_error err;
	struct config *c = support_load(text, NULL, &err);

	CHECK_STR(err.text, "");
	if (!CHECK(c != NULL))
		return;
	CHECK_STR(c->own.data.host, "2001:2::1");
	CHECK_STR(c->own.control.host, "2001:2:1::1");
	config_free(c);
	support_refused(
		text, "endpoint_map=[2001:2:1::1]:3333=[2001:2::9]:5555",
		"the data address [2001:2::9]:5555 of this node is not an address of one of its ports, which have "
		"198.18.0.1/24, 2001:2::1/64; write [2001:2:1::1]:3333=198.18.0.1:5555");
}

void workers_lines_are_kept(void)
{
	static const char map[] = "198.18.1.1:3333=198.18.0.1:5555\n198.18.1.9:1=127.0.0.1:6666\nelse:7=localhost:8\n";
	struct star_error err;
	struct config *c;

	support_write(".endpoint_map", map, strlen(map));
	c = support_load(with_map_file, NULL, &err);
	CHECK_STR(err.text, "");
	if (!CHECK(c != NULL))
		return;
	CHECK_UINT(c->endpoints_count, 3);
	CHECK_STR(c->endpoints[1].data.host, "127.0.0.1");
	CHECK_UINT(c->endpoints[1].data.port, 6666);
	CHECK_STR(c->own.control.host, "198.18.1.1");
	config_free(c);
}

void data_ports_that_overlap(void)
{
	static const char *const fine[] = {
		"198.18.1.1:3333=198.18.0.1:5555\n198.18.1.2:3333=198.18.0.1:5557\n",
		"198.18.1.1:3333=198.18.0.1:5555\n198.18.1.2:3333=198.18.0.1:5553\n",
		"198.18.1.1:3333=198.18.0.1:5555\n198.18.1.2:3333=198.18.0.2:5555\n",
		"198.18.1.1:3333=198.18.0.1:5555\n198.18.1.9:1=198.18.0.1:5555\n", /* a worker's is not looked at */
		"198.18.1.1:3333=198.18.0.1:65534\n",
	};
	struct star_error err;

	for (unsigned i = 0; i < sizeof(fine) / sizeof(fine[0]); i++) {
		struct config *c;

		support_write(".endpoint_map", fine[i], strlen(fine[i]));
		c = support_load(with_map_file, NULL, &err);
		CHECK_STR(err.text, "");
		CHECK(c != NULL);
		config_free(c);
	}
	map_refused("\n198.18.1.1:3333=198.18.0.1:5555\n198.18.1.2:3333=198.18.0.1:5556\n",
		    ".endpoint_map:2: |data ports 5555 to 5556 of this node's 2 reactors "
		    "overlap|198.18.1.2:3333|198.18.0.1:5556");
	map_refused("198.18.1.1:3333=198.18.0.1:5555\n198.18.1.2:3333=198.18.0.1:5554\n", "overlap");
	map_refused("198.18.1.1:3333=198.18.0.1:5555\n198.18.1.2:3333=198.18.0.1:5555\n", "overlap");
	map_refused("198.18.1.1:3333=198.18.0.1:65535\n", "would go beyond 65535; start at 65534 or lower");
}

#define ONE "cluster = { ps = [ \"198.18.1.1:3333\" ]; };\n"

void ports_of_the_kernel_that_overlap(void)
{
	static const char pair[] =
		"standby = { peer = \"198.18.1.3:4000\"; listen = \"198.18.1.1:4000\"; directory = \"s\"; };\n";
	static const char kernel[] = "network = { stack = \"kernel\"; };\n";
	char text[1024];
	struct star_error err;
	struct config *c;

	snprintf(text, sizeof(text), NODE ONE MAP PORTS "%smetrics = { port = 5555; address = \"198.18.1.1\"; };\n",
		 pair);
	c = support_load(text, NULL, &err); /* DPDK's ports have data ports of their own */
	CHECK_STR(err.text, "");
	config_free(c);
	support_refused(PS_FILE "metrics = { port = 3333; address = \"198.18.1.1\"; };\n", NULL,
			"t.conf:5: |metrics.port and cluster.ps|port 3333 of 198.18.1.1");
	support_refused(PS_FILE "metrics = { port = 3333; address = \"0.0.0.0\"; };\n", NULL,
			"metrics.port and cluster.ps|port 3333 of 198.18.1.1");
	snprintf(text, sizeof(text), NODE ONE MAP PORTS "%smetrics = { port = 4000; address = \"198.18.1.1\"; };\n",
		 pair);
	support_refused(text, NULL, "metrics.port and standby.listen|port 4000");
	snprintf(text, sizeof(text), NODE CLUSTER MAP "%smetrics = { port = 5556; address = \"198.18.0.1\"; };\n",
		 kernel);
	support_refused(text, "cores.number=2", "metrics.port and endpoint_map|port 5556 of 198.18.0.1");
}

void map_file_in_configuration(void)
{
	support_refused(NODE CLUSTER PORTS "endpoint_map_file = \"missing\";", NULL,
			"t.conf:4: |cannot read the endpoint map|/missing");
	support_refused(PS_FILE "endpoint_map_file = \"x\";", NULL, "t.conf:5: |are both given; keep one of them");
	support_refused(NODE CLUSTER PORTS "endpoint_map_file = \"\";", NULL, "t.conf:4: |0 bytes long");
	map_refused("198.18.1.1:3333=198.18.0.1:5555\nrubbish\n", ".endpoint_map:2: |\"rubbish\" has no '='");
}

void map_of_the_working_directory(void)
{
	static const char map[] = "198.18.1.1:3333=198.18.0.1:4321\n";
	char *before = getcwd(NULL, 0);
	struct star_error err;
	struct config *c;

	support_write(".endpoint_map", map, strlen(map));
	if (CHECK_INT(chdir(support_folder()), 0)) {
		c = support_load(NODE CLUSTER PORTS, NULL, &err);
		CHECK_STR(err.text, "");
		if (CHECK(c != NULL))
			CHECK_UINT(c->own.data.port, 4321);
		config_free(c);
		c = support_load(PS_FILE, NULL, &err); /* weaker than what the configuration says */
		if (CHECK(c != NULL))
			CHECK_UINT(c->own.data.port, 5555);
		config_free(c);
	}
	CHECK_INT(chdir(before), 0);
	free(before);
}

/* The very lines of the seeds: PS 0 is 127.0.0.1:4444, and its data address cannot be the appliance's. */
void seeds_map(void)
{
	static const char map[] = "127.0.0.1:3333=127.0.0.1:5555\n127.0.0.1:4444=127.0.0.1:6666\n";
	static const char text[] =
		"cluster = { ps = [ \"127.0.0.1:4444\" ]; worker = [ \"127.0.0.1:3333\" ]; };\n" PORTS
		"endpoint_map_file = \".endpoint_map\";\n";
	static const char works[] = "127.0.0.1:3333=127.0.0.1:5555\n127.0.0.1:4444=198.18.0.1:6666\n";
	struct star_error err;
	struct config *c;

	support_write(".endpoint_map", map, strlen(map));
	support_refused(text, NULL, ".endpoint_map:2: |127.0.0.1:6666|127.0.0.1:4444=198.18.0.1:6666");
	support_write(".endpoint_map", works, strlen(works));
	c = support_load(text, NULL, &err);
	CHECK_STR(err.text, "");
	if (CHECK(c != NULL))
		CHECK_UINT(c->endpoints_count, 2);
	config_free(c);
}

void addresses(void)
{
	struct config_address address = { 0 }, kept;
	struct star_error err = { 0 };

	CHECK_INT(config_parse_address("ps-0.train_job.example:1", &address, &err), 0);
	CHECK_STR(address.host, "ps-0.train_job.example");
	CHECK_UINT(address.port, 1);
	CHECK_INT(config_parse_address("198.18.0.1:65535", &address, &err), 0);
	CHECK_UINT(address.port, 65535);
	CHECK_INT(config_parse_address("[2001:02:0:0::A]:5555", &address, &err), 0);
	CHECK_STR(address.host, "2001:2::a");
	CHECK_UINT(address.port, 5555);
	CHECK_STR(config_show(address.host, address.port).text, "[2001:2::a]:5555");
	CHECK_STR(config_show("198.18.0.1", 65535).text, "198.18.0.1:65535");
	kept = address;
	CHECK_INT(config_parse_address("198.18.0.1", &address, &err), -EINVAL);
	support_has_parts(err.text, "\"198.18.0.1\" has no port; write host:port, as in 198.18.1.1:3333");
	CHECK_INT(config_parse_address("", &address, &err), -EINVAL);
	CHECK_INT(config_parse_address("a%s%n:1", &address, &err), -EINVAL);
	CHECK_MEM(&address, &kept, sizeof(kept)); /* a bad text changes nothing */
}

void jobs_without_ports(void)
{
	static const char worker[] = "node = { job_name = \"worker\"; task_index = 0; };\n" CLUSTER
				     "endpoint_map = ( { control = \"198.18.1.9:1\"; data = \"127.0.0.1:5\"; } );\n";
	struct star_error err;
	struct config *c = support_load(worker, NULL, &err);

	CHECK_STR(err.text, "");
	if (CHECK(c != NULL)) {
		CHECK_UINT(c->own.data.port, 5);
		CHECK_STR(c->control_socket, "/run/starserver/worker-0.sock");
		CHECK(c->reactors >= 1 && c->reactors <= 2);
	}
	config_free(c);
	support_refused("node = { job_name = \"worker\"; task_index = 1; };\n" CLUSTER, NULL,
			"t.conf:1: |there are 1 tasks of job worker; allowed: 0 to 0");
	support_refused("node = { job_name = \"worker\"; };\ncluster = { ps = [ \"a:1\" ]; };", NULL,
			"cluster.worker is empty");
	c = support_load("node = { job_name = \"chief\"; };\n" CLUSTER, NULL, &err);
	CHECK_STR(err.text, "");
	config_free(c);
}

#define KERNEL "network = { stack = \"kernel\"; };\n"
#define KERNEL_MAP(data) \
	NODE "cluster = { ps = [ \"198.18.1.1:3333\" ]; };\n" \
	     "endpoint_map = ( { control = \"198.18.1.1:3333\"; data = \"" data "\"; } );\n" KERNEL

static void kernel_data(const char *text, const char *host)
{
	struct star_error err = { 0 };
	struct config *c = support_load(text, NULL, &err);

	CHECK_STR(err.text, "");
	if (CHECK(c != NULL)) {
		CHECK_UINT(c->stack, CONFIG_STACK_KERNEL);
		CHECK_STR(c->own.data.host, host);
		CHECK_UINT(c->own.data.port, 5555);
	}
	config_free(c);
}

void kernel_stack(void)
{
	kernel_data(KERNEL_MAP("127.0.0.1:5555"), "127.0.0.1");
	kernel_data(KERNEL_MAP("[::1]:5555"), "::1");
	kernel_data(KERNEL_MAP("localhost:5555"), "127.0.0.1");
	kernel_data(KERNEL_MAP("198.18.0.1:5555"), "198.18.0.1");
	support_refused(KERNEL_MAP("0.0.0.0:5555"), NULL, "0.0.0.0:5555|workers cannot connect to it|write an address");
	support_refused(KERNEL_MAP("[ff02::1]:5555"), NULL, "multicast|write an address");
	support_refused(KERNEL_MAP("none.invalid:5555"), NULL, "\"none.invalid\" cannot be resolved|/etc/hosts");
	support_refused(PS_FILE KERNEL, NULL, "owns no ports: remove `ports`|stack = \"dpdk\"");
	support_refused(NODE CLUSTER MAP, NULL, "there is no port for the data plane|stack = \"kernel\"");
	support_refused(PS_FILE "network = { stack = \"posix\"; };\n", NULL, "one of \"dpdk\", \"kernel\"");
	support_refused(KERNEL_MAP("127.0.0.1:65535"), "cores.number=2",
			"would go beyond 65535|start at 65534 or lower");
}
