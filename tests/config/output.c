/* SPDX-License-Identifier: BSD-3-Clause */
/* What lib/config writes: a configuration, the help and the reference page; and the files of drivers-config. */
#include "config/options.h"
#include "tests/config/support.h"

#include <ctype.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *printed(const struct config *c)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	config_print(c, out);
	fclose(out);
	return text;
}

/* Prints, reads, prints: both texts must be the same. Returns the configuration that was read back. */
static struct config *check_round_trip(const struct config *c)
{
	struct star_error err = { 0 };
	char *first = printed(c), *second;
	struct config *back = config_load(support_write("back.conf", first, strlen(first)), NULL, 0, &err);

	CHECK_STR(err.text, "");
	if (CHECK(back != NULL)) {
		second = printed(back);
		CHECK_STR(second, first);
		free(second);
	}
	free(first);
	return back;
}

/* Reads a configuration, prints it, and reads that: the second one, and the first in *c; NULL where there is none. */
static struct config *read_printed(const char *text, const char *override, struct config **c)
{
	struct star_error err;

	*c = support_load(text, override, &err);
	CHECK_STR(err.text, "");
	return CHECK(*c != NULL) ? check_round_trip(*c) : NULL;
}

/* DPDK knows NICs by small letters, as the kernel does: what was written otherwise would be missed at the start. */
void pci_addresses_have_small_letters(void)
{
	static const char text[] =
		"node = { };\ncluster = { ps = [ \"a:1\" ]; };\n"
		"endpoint_map = ( { control = \"a:1\"; data = \"198.18.0.1:5555\"; } );\n"
		"ports = ( { device = \"pci\"; pci = \"0000:AF:0D.1\"; address = \"198.18.0.1/24\"; } );\n";
	struct star_error err;
	struct config *c = support_load(text, NULL, &err);

	CHECK_STR(err.text, "");
	if (!CHECK(c != NULL))
		return;
	CHECK_STR(c->ports[0].pci, "0000:af:0d.1");
	free(c);
}

void printed_configuration_reads_back_the_same(void)
{
	static const char text[] =
		"node = { task_index = 1; };\n"
		"cluster = { ps = [ \"a:1\", \"b:2\" ]; worker = ( \"w:1\", \"w:2\" ); partitions = 64; };\n"
		"endpoint_map = ( { control = \"a:1\"; data = \"198.18.0.2:5555\"; },\n"
		"  { control = \"b:2\"; data = \"198.18.0.1:5555\"; }, { control = \"[2001:2:1::1]:1\"; data = "
		"\"[2001:2::7]:7\"; } "
		");\n"
		"ports = ( { device = \"pci\"; pci = \"0000:03:00.0\"; address = \"198.18.0.1/24\"; gateway = "
		"\"198.18.0.254\"; mtu = 9000; options = \"a=1,b=2\"; },\n"
		"  { device = \"net_ring\"; address = [ \"198.18.5.1/31\", \"2001:2::5:1/127\" ]; vlan = 7; gateway6 = "
		"\"fe80::1\"; } );\n"
		"cores = { number = 7; list = [ 3, 4, 5 ]; spin_us = 0; };\n"
		"memory = { hugepages = \"required\"; parameter_mib = 16777216; mbufs = 3583; };\n"
		"limits = { connections = 1; sessions = 0; request_mib = 1; kept_mib = 65536; kept_lease_ms = 100; "
		"receive_window_kib = 4; send_queue_kib = "
		"65536; };\n"
		"tcp = { rto_min_us = 1000; rto_max_us = 100000; time_wait_ms = 100; user_timeout_ms = 1000; "
		"keepalive_s = 0; congestion = \"dctcp\"; ecn = \"ask\"; };\n"
		"datagrams = { credits = 16; target_delay_us = 100000; };\ntests = { loss_ppm = 1000; };\n"
		"control = { socket = \"/tmp/x\"; connect_timeout_ms = 1; };\nlog = { level = \"debug\"; };\n";
	struct config *c, *back = read_printed(text, NULL, &c);

	if (back) {
		CHECK_UINT(back->task_index, 1);
		CHECK_UINT(back->reactors, 7);
		CHECK_UINT(back->cores_count, 3);
		CHECK_UINT(back->parameter_mib, 16777216);
		CHECK_UINT(back->endpoints_count, 3);
		CHECK_MEM(&back->own, &c->own, sizeof(c->own));
		CHECK_MEM(back->ports, c->ports, sizeof(c->ports));
		CHECK_MEM(back->ps, c->ps, 2 * sizeof(c->ps[0]));
		CHECK_MEM(back->workers, c->workers, 2 * sizeof(c->ps[0]));
		CHECK_UINT(back->rto_max_us, 100000);
		CHECK_UINT(back->keepalive_s, 0);
		CHECK_UINT(back->sessions_max, 0);
		CHECK_UINT(back->request_mib, 1);
		CHECK_UINT(back->credits, 16);
		CHECK_UINT(back->loss_ppm, 1000);
		CHECK_UINT(back->target_delay_us, 100000);
		CHECK_UINT(back->congestion, 2);
		CHECK_UINT(back->ecn, 2);
		CHECK_UINT(back->log_level, 0);
	}
	config_free(back);
	config_free(c);
}

void pairs_are_printed_and_read_again(void)
{
	static const char text[] =
		"node = { task_index = 1; };\n"
		"cluster = { ps = [ \"a:1|c:1\", \"b:2|[2001:2:1::1]:1\", \"d:1\" ]; };\n"
		"endpoint_map = ( { control = \"[2001:2:1::1]:1\"; data = \"198.18.0.1:5555\"; } );\n"
		"ports = ( { device = \"net_null\"; address = \"198.18.0.1/24\"; } );\n"
		"standby = { peer = \"e:1\"; listen = \"f:1\"; directory = \"/d\"; address = \"second\"; };\n";
	struct config *c, *back = read_printed(text, NULL, &c);

	if (back) {
		CHECK_UINT(back->ps_count, 3);
		CHECK_STR(config_ps_address(back, 0, true)->host, "c");
		CHECK_STR(config_ps_address(back, 1, false)->host, "b");
		CHECK_STR(config_own_control(back)->host, "2001:2:1::1");
		CHECK_STR(back->own.control.host, "2001:2:1::1");
		CHECK(config_ps_address(back, 2, true) == NULL);
	}
	config_free(back);
	config_free(c);
}

void printed_strings_are_quoted(void)
{
	struct config *c, *back = read_printed(PS_FILE, "control.socket=/tmp/a\"b\\c\\n # @include 5", &c);

	if (back)
		CHECK_STR(back->control_socket, "/tmp/a\"b\\c\\n # @include 5");
	config_free(back);
	config_free(c);
}

void ports_are_read_one_by_one(void)
{
	const struct config_override good[] = { { "device", "net_memif" },
						{ "address", "198.18.4.1/24,2001:2:4::1/64" },
						{ "mtu", "9000" },
						{ "options",
						  "id=7,mac=02:00:00:00:00:09,secret=psst,role=server,zero-copy=no" } };
	const struct config_override bad[] = { { "device", "net_memif" }, { "adress", "198.18.4.1/24" } };
	struct config_port port, other;
	struct config_memif memif;
	struct star_error err = { 0 };

	CHECK_INT(config_port_read(good, 4, &port, &err), 0);
	CHECK_UINT(port.mtu, 9000);
	CHECK_UINT(port.addresses_count, 2);
	CHECK_INT(config_memif_read(&port, &memif, &err), 0);
	CHECK_UINT(memif.id, 7);
	CHECK_STR(memif.socket, "/run/starserver/memif-7.sock");
	CHECK_STR(memif.secret, "psst");
	CHECK(memif.has_mac && memif.mac[5] == 9 && !memif.abstract);
	CHECK_INT(config_port_read(good, 2, &other, &err), 0);
	CHECK_UINT(other.mtu, 1500);
	CHECK_INT(config_port_check_pair(&other, "the new one", &port, "net_memif0", &err), -EINVAL);
	CHECK_HAS(err.text, "net_memif0 and the new one both have ");
	CHECK_INT(config_port_read(bad, 1, &other, &err), -EINVAL);
	CHECK_HAS(err.text, "the port has no address; write `starctl port add");
	CHECK_INT(config_port_read(bad, 2, &other, &err), -EINVAL);
	CHECK_STR(err.text, "a port has no option `adress`; did you mean `address`?");
}

void driver_files_load(void)
{
	static const char *const names[] = { "af_packet.conf", "af_xdp.conf", "e1000.conf",  "ena.conf",
					     "i40e.conf",      "ice.conf",    "ixgbe.conf",  "memif.conf",
					     "mlx5.conf",      "virtio.conf", "vmxnet3.conf" };
	struct star_error err;
	unsigned pci = 0;
	glob_t files;

	if (!CHECK_INT(glob("drivers-config/*.conf", 0, NULL, &files), 0))
		return;
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		bool there = false;

		for (size_t j = 0; j < files.gl_pathc; j++)
			there |= strcmp(files.gl_pathv[j] + strlen("drivers-config/"), names[i]) == 0;
		if (!there)
			unit_fail(__FILE__, __LINE__, "there is no drivers-config/%s", names[i]);
	}
	for (size_t i = 0; i < files.gl_pathc; i++) {
		struct config *c;

		err = (struct star_error){ 0 };
		c = config_load(files.gl_pathv[i], NULL, 0, &err);
		CHECK_STR(err.text, "");
		if (CHECK(c != NULL)) {
			if (strstr(files.gl_pathv[i], "/af_"))
				CHECK_STR(c->ports[0].interface, "star0");
			CHECK_STR(c->ps[0].host, "198.18.1.1");
			CHECK_UINT(c->ps[0].port, 3333);
			CHECK_STR(c->own.data.host, "198.18.0.1");
			CHECK_UINT(c->own.data.port, 5555);
			CHECK_UINT(c->ports[0].addresses[0].prefix, 24);
			CHECK_INT(c->hugepages, strcmp(c->ports[0].device, "pci") ? CONFIG_HUGEPAGES_PREFERRED
										  : CONFIG_HUGEPAGES_REQUIRED);
			/* A machine that has such a NIC is there for this; an e1000 has one queue. */
			if (!strcmp(c->ports[0].device, "pci")) {
				if (!strstr(files.gl_pathv[i], "/e1000.conf") && config_usable_cores() > 1)
					CHECK(c->reactors >= 2);
				CHECK(c->pin);
				CHECK(c->polling);
				pci++;
			}
			config_free(check_round_trip(c));
		}
		config_free(c);
	}
	CHECK(pci >= 8);
	globfree(&files);
}

/* A line that begins with a small letter goes on with the message of the line above. */
void comments_of_driver_files_are_whole(void)
{
	glob_t files;

	if (!CHECK_INT(glob("drivers-config/*.conf", 0, NULL, &files), 0))
		return;
	for (size_t i = 0; i < files.gl_pathc; i++) {
		FILE *file = fopen(files.gl_pathv[i], "re");
		char line[256], last[2] = "#";

		for (unsigned number = 1; CHECK(file) && fgets(line, sizeof(line), file); number++) {
			const size_t bytes = strcspn(line, "\n");

			if (line[0] == '#' && line[1] == ' ' && islower((unsigned char)line[2]) &&
			    strchr("#.", last[0]))
				unit_fail(__FILE__, __LINE__, "%s:%u: begins in the middle of a message",
					  files.gl_pathv[i], number);
			last[0] = line[0] == '#' ? line[bytes - 1] : '#';
		}
		if (file)
			fclose(file);
	}
	globfree(&files);
}

static void write_text(void (*print)(FILE *), char **text)
{
	size_t bytes;
	FILE *out = open_memstream(text, &bytes);

	print(out);
	fclose(out);
}

void help_and_reference_name_every_option(void)
{
	char *help = NULL, *rst = NULL, quoted[128];

	write_text(config_print_help, &help);
	write_text(config_print_rst, &rst);
	for (unsigned i = 0; i < config_options_count; i++) {
		CHECK_HAS(help, config_options[i].name);
		snprintf(quoted, sizeof(quoted), "   * - ``%s``\n", config_options[i].name);
		CHECK_HAS(rst, quoted);
		for (unsigned job = 0; job < JOBS; job++)
			if (config_options[i].variables[job]) {
				CHECK_HAS(help, config_options[i].variables[job]);
				snprintf(quoted, sizeof(quoted), "   * - ``%s``\n", config_options[i].variables[job]);
				CHECK_HAS(rst, quoted);
			}
	}
	for (const char *line = help; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
		CHECK(strcspn(line, "\n") <= 120);
	free(help);
	free(rst);
}

void example_of_the_reference_loads(void)
{
	char *rst = NULL, *example;
	struct star_error err;
	struct config *c;

	write_text(config_print_rst, &rst);
	example = strstr(rst, "\nAn example\n");
	if (CHECK(example != NULL) && CHECK((example = strstr(example, "::\n")) != NULL)) {
		c = support_load(example + 3, NULL, &err);
		CHECK_STR(err.text, "");
		if (CHECK(c != NULL))
			CHECK_UINT(c->reactors, 2);
		config_free(c);
	}
	free(rst);
}
