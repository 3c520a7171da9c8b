/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints the option table for people: --help and the reference page. */
#include "config/load.h"

#include <string.h>

enum { HELP_WIDTH = 100, HELP_INDENT = 8, TAKES_MAX = 200 };

/* Text in lines of at most HELP_WIDTH columns, each indented. */
static void print_wrapped(const char *text, FILE *out)
{
	size_t column = 0;

	while (*text) {
		size_t word = strcspn(text, " ");

		if (column && column + 1 + word > HELP_WIDTH) {
			putc('\n', out);
			column = 0;
		}
		column += (size_t)fprintf(out, "%*s%.*s", column ? 1 : HELP_INDENT, "", (int)word, text);
		text += word;
		text += strspn(text, " ");
	}
	putc('\n', out);
}

static const char *default_of(const struct config_option *o, char *text, size_t bytes)
{
	bool list = config_option_is_list(o);
	bool quoted = o->type == OPTION_TEXT || o->type == OPTION_WORD || o->type == OPTION_CHOICE;

	if (o->required)
		return "required";
	if (!o->fallback)
		return o->fallback_how;
	snprintf(text, bytes, list ? "[ %s]" : quoted ? "\"%s\"" : "%s", o->fallback);
	return text;
}

static void help_option(const struct config_option *o, FILE *out)
{
	char takes[TAKES_MAX], fallback[TAKES_MAX], text[2 * TAKES_MAX + 20];
	const char *ps = o->variables[JOB_PS], *worker = o->variables[JOB_WORKER];

	fprintf(out, "  %s\n", o->name);
	print_wrapped(o->help, out);
	snprintf(text, sizeof(text), "Takes %s. %s%s.", config_option_takes(o, takes, sizeof(takes)),
		 o->required ? "" : "Default: ", o->required ? "Required" : default_of(o, fallback, sizeof(fallback)));
	print_wrapped(text, out);
	if (!ps)
		return;
	snprintf(text, sizeof(text), "Environment: %s%s%s%s.", ps, strcmp(ps, worker) ? ", of a worker " : "",
		 strcmp(ps, worker) ? worker : "",
		 o->variable_means == ENVIRONMENT_NEGATED  ? " (True means false here)"
		 : o->variable_means == ENVIRONMENT_FOLDER ? " (the directory of .endpoint_map)"
							   : "");
	print_wrapped(text, out);
}

void config_print_help(FILE *out)
{
	const struct config_group *last = NULL;

	fputs("Options of the configuration file, of --set NAME=VALUE and of the environment.\n"
	      "The command line overrides the environment, which overrides the file, which overrides the defaults.\n"
	      "With --set a list is written with commas: --set cores.list=2,3; a port by its index: --set "
	      "ports[0].mtu=9000;\nand the endpoint map as --set endpoint_map=198.18.1.1:3333=198.18.0.1:5555,...\n",
	      out);
	for (unsigned i = 0; i < config_options_count; i++) {
		const struct config_group *group = config_option_group(&config_options[i]);

		if (group && group != last)
			fprintf(out, "\n%s: %s\n", group->name, group->help);
		else if (!group)
			putc('\n', out);
		help_option(&config_options[i], out);
		last = group;
	}
}

static void rst_title(const char *title, char under, FILE *out)
{
	fprintf(out, "\n%s\n", title);
	for (size_t i = 0; i < strlen(title); i++)
		putc(under, out);
	fputs("\n\n", out);
}

static void rst_option(const struct config_option *o, FILE *out)
{
	char takes[TAKES_MAX], fallback[TAKES_MAX];

	fprintf(out, "   * - ``%s``\n     - %s\n", o->name, config_option_takes(o, takes, sizeof(takes)));
	/* A default in words is prose; one that can be copied into a file is code. */
	fprintf(out, o->fallback ? "     - ``%s``\n" : "     - %s\n", default_of(o, fallback, sizeof(fallback)));
	fprintf(out, "     - %s\n", o->help);
}

static void rst_table(const struct config_group *group, const struct config_option *alone, FILE *out)
{
	rst_title(group ? group->name : alone->name, '-', out);
	if (group)
		fprintf(out, "%s\n\n", group->help);
	fputs(".. list-table::\n   :header-rows: 1\n   :widths: 22 24 16 38\n\n"
	      "   * - Option\n     - Takes\n     - Default\n     - Meaning\n",
	      out);
	for (unsigned i = 0; i < config_options_count; i++)
		if (group ? config_option_group(&config_options[i]) == group : &config_options[i] == alone)
			rst_option(&config_options[i], out);
}

static void rst_environment(FILE *out)
{
	rst_title("Environment", '=', out);
	fputs("The names are those that DeepRec's users know. A switch takes ``True``, ``False``, ``1``, ``0``, "
	      "``yes`` or\n"
	      "``no``, in any case; anything else is an error that names the variable, and so is a number out of the\n"
	      "option's range. ``PS_*`` and ``NETWORK_PS_*`` govern a node whose ``node.job_name`` is ``ps``; "
	      "``WORKER_*``\n"
	      "and ``NETWORK_WORKER_*`` govern workers and the chief, and so the I/O threads of libstar.\n\n"
	      ".. list-table::\n   :header-rows: 1\n   :widths: 34 26 40\n\n"
	      "   * - Variable\n     - Option\n     - Value\n",
	      out);
	for (unsigned job = 0; job < JOBS; job++)
		for (unsigned i = 0; i < config_options_count; i++) {
			const struct config_option *o = &config_options[i];

			if (!o->variables[job] ||
			    (job == JOB_WORKER && !strcmp(o->variables[job], o->variables[JOB_PS])))
				continue;
			fprintf(out, "   * - ``%s``\n     - ``%s``\n     - %s\n", o->variables[job], o->name,
				o->variable_means == ENVIRONMENT_NEGATED  ? "a switch with the opposite meaning"
				: o->variable_means == ENVIRONMENT_FOLDER ? "the directory of ``.endpoint_map``"
				: o->type == OPTION_BOOL		  ? "a switch"
				: o->unit				  ? o->unit
									  : "a number");
		}
	fputs("   * - ``TF_CONFIG``\n     - ``node.job_name``, ``node.task_index``, ``cluster.ps``, "
	      "``cluster.worker``\n"
	      "     - of a PS task: JSON, as TensorFlow writes it; addresses are control addresses\n",
	      out);
}

static const char rst_head[] = "Configuration reference\n"
			       "#######################\n\n"
			       ".. This page is generated from the option table, lib/config/options.c.\n\n"
			       "A node is configured by a libconfig file, "
			       "the environment and the\n"
			       "command line. ``starserver --check -c FILE`` reads all of it and says what is wrong, "
			       "without starting anything.\n"
			       "A wrong key, type or value is refused with file and line; nothing is repaired "
			       "silently, and nothing starts.\n"
			       "``@include`` is not supported: a configuration is one file.\n";

static const char rst_precedence[] =
	"Each source overrides those below it:\n\n"
	"#. the command line: ``--set name=value``, with the names of this page; if a name is given twice, the later "
	"wins\n"
	"#. the environment\n"
	"#. the configuration file\n"
	"#. the defaults\n\n"
	"With ``--set`` a list is written with commas (``--set cores.list=2,3``), a port is named by its index "
	"(``--set\n"
	"ports[0].mtu=9000``; the index after the last one adds a port), and the endpoint map is given whole "
	"(``--set\n"
	"endpoint_map=198.18.1.1:3333=198.18.0.1:5555,198.18.1.2:3333=198.18.0.2:5555``).\n";

static const char rst_map[] =
	"The endpoint map says which data address each control address has. It is in the configuration file, as "
	"the\n"
	"list ``endpoint_map``, or in a file of its own, ``.endpoint_map``, one entry per line::\n\n"
	"   # control address = data address\n"
	"   198.18.1.1:3333 = 198.18.0.1:5555    # PS 0\n"
	"   198.18.1.2:3333 = 198.18.0.2:5555    # PS 1\n"
	"   127.0.0.1:4444=127.0.0.1:6666        # a worker: kept\n\n"
	"Blank lines, comments, spaces, carriage returns and a byte order mark are accepted. A control address that "
	"is listed\n"
	"twice, a second ``=``, a port that is not from 1 to 65535 and a missing entry for the node itself (its "
	"control\n"
	"address is ``cluster.ps[task_index]``) are errors with file and line. The map has no roles; those come from "
	"the\n"
	"cluster. An IPv6 address is written in brackets, as in ``[2001:2::1]:5555``. A PS's data address belongs to "
	"the\n"
	"appliance, not to the kernel: it is one of the addresses of the node's ports. An address that only the kernel "
	"can\n"
	"own (127.0.0.0/8, 0.0.0.0, ::1, multicast, localhost) is refused, and so is a link-local one "
	"(fe80::/10).\n"
	"Reactor r of the node listens on data port + r; two PS on one data host need data ports that far apart.\n\n"
	"Without ``endpoint_map``, ``endpoint_map_file`` and ``TF_SEASTAR_ENDPOINT_MAP_PATH``, a file "
	"``.endpoint_map`` in\n"
	"the working directory is read, if it exists. Without a map nothing is guessed.\n";

static const char rst_example[] =
	"   node = { job_name = \"ps\"; task_index = 0; };\n"
	"   cluster = {\n"
	"     ps = [ \"198.18.1.1:3333\", \"198.18.1.2:3333\" ];\n"
	"     worker = [ \"198.18.1.11:4444\", \"198.18.1.12:4444\" ];\n"
	"   };\n"
	"   endpoint_map = (\n"
	"     { control = \"198.18.1.1:3333\"; data = \"198.18.0.1:5555\"; },\n"
	"     { control = \"198.18.1.2:3333\"; data = \"198.18.0.2:5555\"; }\n"
	"   );\n"
	"   ports = (\n"
	"     { device = \"net_af_packet\"; interface = \"star0\"; address = \"198.18.0.1/24\"; }\n"
	"   );\n"
	"   cores = { number = 2; polling = false; pin = false; };\n"
	"   memory = { hugepages = \"preferred\"; parameter_mib = 1024; };\n";

void config_print_rst(FILE *out)
{
	const struct config_group *last = NULL;

	fputs(rst_head, out);
	rst_title("Precedence", '=', out);
	fputs(rst_precedence, out);
	rst_title("Options", '=', out);
	fputs("An option ``group.key`` is written in the file as ``group = { key = value; };``, and ``list[].key`` as "
	      "``list = (\n"
	      "{ key = value; }, ... );``.\n",
	      out);
	for (unsigned i = 0; i < config_options_count; i++) {
		const struct config_group *group = config_option_group(&config_options[i]);

		if (!group || group != last)
			rst_table(group, &config_options[i], out);
		last = group;
	}
	rst_environment(out);
	rst_title("The endpoint map", '=', out);
	fputs(rst_map, out);
	rst_title("An example", '=', out);
	fputs("A PS node with two reactors on a veth pair or a NIC of the kernel's::\n\n", out);
	fputs(rst_example, out);
}
