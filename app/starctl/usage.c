/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of commands, and what is made of it. */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "app/starctl/starctl.h"
#include "base/nearest.h"

const struct command starctl_commands[] = {
	{ "status", "[--watch]", 0, 0, COMMAND_WATCH, "show the node, its cluster and its reactors",
	  "With --watch it is shown again every second, until Ctrl-C; with --json as well, one object a line. The "
	  "exit status is 1 when\nanother PS task is away: it was heard, and is not heard any more. PS task 0 knows of "
	  "all; the others, of "
	  "PS task 0.",
	  run_status },
	{ "health", "", 0, 0, 0, "say in one line whether the node is well",
	  "What is wrong: no layout, PS tasks that are away, a restore that goes on, a checkpoint that failed or is "
	  "overdue, parameter\nmemory over 90 % full, a link that is down. The exit status is 0 when nothing is, else "
	  "1. Beside ok stands what is good to\nknow: the age of the last checkpoint, a clock that is not "
	  "synchronized, "
	  "missing hugepages. PS task 0 speaks for the cluster.",
	  run_health },
	{ "metrics", "", 0, 0, 0, "print all of the node's metrics",
	  "In OpenMetrics' text, as Prometheus gets them where metrics.port is set.", run_metrics },
	{ "log-level", "[LEVEL]", 0, 1, 0, "show the least severe events that the node logs, or change it",
	  "LEVEL is debug, info, warning or error; it holds until the node ends. By the node's socket, or with an "
	  "admin's key.",
	  run_log_level },
	{ "doctor", "[FILE]", 0, 1, 0, "look for what is wrong with this machine, a configuration and its cluster",
	  "Each finding that is not ok comes with what to do about it. With a configuration FILE: whether its node "
	  "could "
	  "start here,\nwhich of the cluster's nodes answer, and whether its NICs, cores, memory and storage are as it "
	  "needs them; with\n--address: whether the node there answers. Changes nothing, and needs no node. The exit "
	  "status is 1 when something would keep the node "
	  "from "
	  "starting or serving.",
	  run_doctor },
	{ "tables", "", 0, 0, 0, "list the tables and variables, and what the node holds of them",
	  "Any node can be asked: all hold the same catalogue, and each its own rows.", run_tables },
	{ "tables show", "NAME", 1, 1, 0, "show a table's definition and figures",
	  "The figures are those of the node's own rows.", run_tables_show },
	{ "tables options", "[OPTIMIZER]", 0, 1, 0, "list what a table can be told, without a node",
	  "Names, defaults and bounds of all options; with an optimizer's name those that it has a use for.",
	  run_tables_options },
	{ "tables create", "NAME OPTION=VALUE...", 2, 62, 0, "create a table or a variable",
	  "dim=16 makes a table, shape=100x64 a variable; dtype=, optimizer= and all that `starctl tables options` "
	  "lists "
	  "follow.\nOne that exists with the same definition is found.",
	  run_tables_create },
	{ "size", "OPTION=VALUE...", 1, 62, COMMAND_SIZE, "say how much memory a table takes, without a node",
	  "The options are those of `tables create`, and rows=N (of a table), nodes=N [1], reactors=N of each node "
	  "[1], "
	  "waiting=N\nkeys that filter=counter has not let in yet [0], mbufs=N of each reactor and mtu=N of its ports "
	  "[the configuration's].\nPrinted are the bytes of a row, what a node needs (memory.parameter_mib), its "
	  "hugepages, and a full checkpoint.",
	  run_size },
	{ "tables sweep", "NAME", 1, 1, 0, "evict a table's old and light rows now, on all nodes",
	  "By its steps_to_live and l2_threshold. Waits until the node that is asked has looked at all its rows.",
	  run_tables_sweep },
	{ "tables empty", "NAME [--yes]", 1, 1, COMMAND_YES, "delete all rows of a table, on all nodes",
	  "Values, optimizer state and what an admission filter has counted; the table itself stays. Asks first on a "
	  "terminal;\nscripts give --yes. Waits until it is done. Rows that workers make meanwhile may be deleted, "
	  "too. "
	  "Where checkpoint.directory\nis set a checkpoint is written afterwards, and waited for: older ones still "
	  "have the rows. "
	  "If it fails the exit status is 1.",
	  run_tables_empty },
	{ "tables drop", "NAME... [--yes]", 1, INT_MAX, COMMAND_YES, "drop tables and variables, on all nodes",
	  "They are gone with their rows; their memory is given back, and their names can be created again at once, "
	  "with "
	  "any\ndefinition. Workers that use them get errors. Asks first on a terminal; scripts give --yes. A full "
	  "checkpoint is\nasked for afterwards where checkpoint.directory is set; to roll back to an older one brings "
	  "the "
	  "tables back.",
	  run_tables_drop },
	{ "tables export", "TABLE [FILE]", 1, 2, 0, "write a running cluster's table into a file",
	  "The name says the form: .jsonl are JSON lines as `checkpoint export` writes them, with optimizer state; "
	  ".csv "
	  "key and\nvalues; .npy a pair for numpy: words.npy makes words.keys.npy and words.values.npy. Without FILE, "
	  "or "
	  "with -, JSON\nlines go to standard output. Training goes on meanwhile: each row comes once, as it is when "
	  "it "
	  "is read.",
	  run_tables_export },
	{ "tables import", "TABLE [FILE]", 1, 2, 0, "assign rows from a file to a running cluster's table",
	  "What `tables export` wrote, or files of one's own in these forms; without FILE, or with -, JSON lines from "
	  "standard\ninput. The table is there, with rows of that many elements; of its rows values alone change, "
	  "optimizer state stays.\nColumns of CSV go by the names in its first line. Of a variable those "
	  "blocks are assigned that the file has. A file\nis looked through first: one that is bad, or has values that "
	  "are not finite without nonfinite=pass, changes nothing.",
	  run_tables_import },
	{ "rows get", "TABLE KEY...", 2, 60, 0, "show rows of a table: values, optimizer state, version and counts",
	  "Of the whole cluster, and without counting as a pull. `startrain key COLUMN TEXT` gives the key of a "
	  "feature's\ntext. Keys are decimal, or hexadecimal behind 0x; a negative one k is 2^64 + k.",
	  run_rows_get },
	{ "queue list", "", 0, 0, 0, "list the work queues, and how far they are",
	  "Slices of all epochs: done, at work, and waiting to be handed out; expired leases since PS task 0 began. "
	  "With "
	  "--json also\nwhich worker has which slice.",
	  run_queue_list },
	{ "queue drop", "NAME", 1, 1, 0, "drop a work queue",
	  "Jobs of the same name begin it again from its first slice; so do workers that are at it.", run_queue_drop },
	{ "checkpoint list", "DIR", 1, 1, 0, "list the checkpoints in a directory",
	  "A delta goes on from another one. Unfinished and damaged ones do not count. Needs no node.",
	  run_checkpoint_list },
	{ "checkpoint verify", "DIR[/ID]", 1, 1, 0, "read checkpoints whole, and check every byte",
	  "All of a directory; with an ID (7, or 00000007-delta) that one, and those that it goes on from. Needs no "
	  "node.\n"
	  "Status 1 when a node would not begin with one, because it is damaged, renamed, or what it goes on from is "
	  "gone:\nthe line says what is wrong, with file and block.",
	  run_checkpoint_verify },
	{ "checkpoint prune", "DIR keep=N", 2, 2, 0, "remove old checkpoints",
	  "All but the newest N full ones and what goes on from them; and what was never finished. Those N are read "
	  "first:\n"
	  "a damaged one does not count, and while fewer are in order only what was never finished goes. Needs no "
	  "node.",
	  run_checkpoint_prune },
	{ "checkpoint adopt", "DIR[/ID]", 1, 1, 0, "make the HMACs that checkpoints of before a key have not",
	  "All of DIR, or that with this ID. The key is that of the file in STAR_CHECKPOINT_KEY, which nodes have as\n"
	  "checkpoint.key; with it list, verify, prune, export and import believe no manifest without such an HMAC. "
	  "Look "
	  "at them with `checkpoint verify` first, without the key. One whose HMAC is wrong is not touched. Needs no "
	  "node.",
	  run_checkpoint_adopt },
	{ "checkpoint export", "DIR[/ID] TABLE", 2, 2, 0, "write a table as JSON lines",
	  "The newest checkpoint, or that with this ID, together with those that it goes on from; status 1 if that one "
	  "is\nnot whole, with the newest older one that could be had. The first line is the table's definition, each "
	  "other\none a row. Numbers read back bit for bit. Needs no node.",
	  run_checkpoint_export },
	{ "checkpoint import", "DIR [FILE]", 1, 2, 0, "make a checkpoint of JSON lines",
	  "What `checkpoint export` wrote, of one table or of several one after the other, from a file or from "
	  "standard input.\n"
	  "DIR must have no checkpoints yet, and no running cluster that writes to it. Needs no node.",
	  run_checkpoint_import },
	{ "connections", "[FILTER...]", 0, 4, COMMAND_FILTERS, "show the connections of the node's TCP",
	  "As `ss -ti` does. Filters: reactor=N, state=established (or another of TCP's), peer=ADDRESS[:PORT],\n"
	  "limit=N (1000 unless it says otherwise, at most 10000).",
	  run_connections },
	{ "top", "[--once] [--cluster] [sort=NAME] [reactors=NAME]", 0, 2, COMMAND_ONCE | COMMAND_CLUSTER,
	  "watch reactors, requests, tables and connections of a node, or of all",
	  "Every second, until q. With --cluster of all nodes: tables are summed up, and requests are those of the "
	  "node "
	  "where 99 %\ntook longest. s, or sort=, sorts tables by something else: pushes, memory, rows or made; r, or "
	  "reactors=, reactors: place,\nbusy, requests or memory. With --once, in a pipe, and with --json it is one "
	  "look of "
	  "a second.",
	  run_top },
	{ "latency", "[seconds=N]", 0, 1, 0, "show how long requests took, by class, size and reactor",
	  "TOTAL is from the receive burst that brought the end of a request to the transmit burst that took its "
	  "reply; "
	  "WAIT until\nit began; RUN while it was executed. Since the node began, or of the last N seconds, of the "
	  "65,000 requests that each reactor remembers.",
	  run_latency },
	{ "slow", "[FILTER...]", 0, 3, COMMAND_SLOW | COMMAND_RECORDS | COMMAND_CLUSTER,
	  "show the slowest of the last requests, and why they were slow",
	  "Each reactor remembers its last 65,000. Filters: minutes=N (1 unless it says otherwise), reactor=N, limit=N "
	  "(10).\nWith --cluster the slowest of all nodes; with --records FILE those that a node has left behind "
	  "which crashed, or whose reactor was stuck: the "
	  "log says which file.",
	  run_slow },
	{ "trace", "[FILE]", 0, 1, COMMAND_RECORDS,
	  "write the last requests as a trace, for Perfetto or chrome://tracing",
	  "Of each reactor its last 65,000, each connection on a track of its own. Without FILE, or with -, to "
	  "standard "
	  "output. With --records RECORDS those that a node has left behind.",
	  run_trace },
	{ "events", "[minutes=N] [level=NAME]", 0, 2, COMMAND_CLUSTER | COMMAND_EVENTS,
	  "show what has happened to the node in the last hour",
	  "Nodes that left or returned, layouts, checkpoints, tables, ports, memory, links: the last 1,024 lines of "
	  "its log at "
	  "info\nand above, whatever log.level is. level=warning leaves out what is in order. With --cluster those "
	  "of all "
	  "nodes.",
	  run_events },
	{ "memory", "", 0, 0, COMMAND_CLUSTER, "show what memory is left, for how long, and which tables grow",
	  "From what the node remembers of the last hour: AN HOUR is how fast that grows at this pace, FULL IN how "
	  "long it "
	  "goes on\nso. Tables that grow fastest come first. With --cluster all nodes, and tables on all of them.",
	  run_memory },
	{ "capture", "-w FILE [FILTER...]", 0, 8, COMMAND_CAPTURE, "write the frames that the node receives and sends",
	  "Into a file of pcapng, or with -w - into a pipe: `starctl capture -w - port=5555 | tcpdump -nr -`. The "
	  "reactors copy "
	  "the\nheads of frames that match all filters: host=ADDRESS, port=N, proto=tcp (udp, icmp, icmp6, arp, ip, "
	  "ip6), "
	  "direction=in\n(or out), reactor=N, snap=BYTES of each (256 unless it says otherwise); count=N and "
	  "seconds=N end it, "
	  "and so does Ctrl-C.\nThe heads have what workers send. By the node's socket, or with an admin's key. "
	  "Wireshark's "
	  "dissector:\n/usr/share/starserver/wireshark. Of a node on the kernel's sockets tcpdump captures.",
	  run_capture },
	{ "nodes", "", 0, 0, 0, "show all nodes of the cluster side by side: which is slow, and why",
	  "What each is busy with, and how long the kind of requests took in the last minute that it has most of. "
	  "Below the "
	  "slowest\nnode, its slowest request and the reasons. Takes a second.",
	  run_nodes },
	{ "report", "", 0, 0, 0, "write the last hour of the cluster as a page of HTML, to standard output",
	  "`starctl report > cluster.html`: health, plots of what nodes did, how long requests took, memory and "
	  "tables, the "
	  "hottest keys\nand what has happened. The page needs nothing else. With --json the same as data.",
	  run_report },
	{ "core", "CORE [PROGRAM]", 1, 2, 0,
	  "show what a node did that has left a core: reactors, requests, the last of them",
	  "By gdb, and the debug symbols of exactly that program (starserver-dbgsym). PROGRAM: if it is not where it "
	  "was. "
	  "Parameters,\npackets and keys are not in a core. Needs no node.",
	  run_core },
	{ "hot", "[limit=N]", 0, 1, COMMAND_CLUSTER, "show the keys and partitions that are asked for most",
	  "From samples of the last million keys of each reactor, about. A share of 1 % is told to a tenth of "
	  "itself. With "
	  "--cluster\nof all nodes.",
	  run_hot },
	{ "counters", "", 0, 0, 0, "show what the node's network stack has counted",
	  "As `nstat -a` does, under the kernel's names where it has them; of all reactors together, zeros left out.",
	  run_counters },
	{ "port list", "", 0, 0, 0, "list the node's network ports",
	  "CLIENT says of a memif port whether its worker is connected.", run_port_list },
	{ "port add", "DEVICE OPTION...", 1, 1, COMMAND_OPTIONS, "give the running node another port",
	  "DEVICE is a DPDK driver's name, with a number or the lowest free one, and its arguments:\n"
	  "net_memif0,socket=/run/starserver/w0.sock, or net_af_packet with --interface star1. The options are those "
	  "of "
	  "a\nconfiguration's port: --address 198.18.4.1/24 (several with commas), --interface, --gateway, --gateway6, "
	  "--vlan, --mtu,\n--options. The port is gone when the node ends. By the node's socket, or with an admin's "
	  "key.",
	  run_port_add },
	{ "port remove", "NAME", 1, 1, 0, "take a port from the running node",
	  "Its connections are ended, and their peers told. One of the configuration's ports comes back with the "
	  "node.\n"
	  "The last port stays. By the node's socket, or with an admin's key.",
	  run_port_remove },
	{ "checkpoint save", "[full|delta]", 0, 1, 0, "have all nodes write a checkpoint, and wait until it counts",
	  "Training goes on meanwhile. Without a word, and with delta, it is a delta, of the rows that have changed "
	  "since the\nlast one, where that is possible, and else a full one. Ctrl-C ends the waiting, not the "
	  "checkpoint.",
	  run_checkpoint_save },
	{ "checkpoint restore", "[ID]", 0, 1, 0, "have all nodes roll back to a checkpoint, and wait until they serve",
	  "The newest, or that with this ID (`checkpoint list`). It is read to its end first; then every node restarts "
	  "in its\n"
	  "process, with its share. What was learned since is lost; workers are told -ESTALE, and open the cluster "
	  "again. A full\n"
	  "checkpoint follows at once. On the machine of PS task 0 only. Ctrl-C ends the waiting, not the restore.",
	  run_checkpoint_restore },
	{ "checkpoint status", "", 0, 0, 0, "show the last checkpoint, and how far one is that is being written",
	  "PS task 0 knows; another node asks it.", run_checkpoint_status },
	{ "endpoint-map", "", 0, 0, 0, "show the node's endpoint map",
	  "Control address and data address of every node, as the node has read them.", run_endpoint_map },
	{ "endpoint-map check", "FILE", 1, 1, 0, "check an endpoint map without a node",
	  "Reads a file of `control address=data address` lines and says what is wrong, with file and line.",
	  run_endpoint_map_check },
	{ "graph explain", "FILE [OPTION...]", 1, 1, COMMAND_GRAPH,
	  "show how a graph is cut between worker and PS tasks",
	  "FILE is a graph as text (.star). Shown are the round trips of a step, its requests and bytes, and wave by "
	  "wave "
	  "what is\ndone where. Needs no node.\n"
	  "  --protocol NAME   grpc++, star_server (unless it says otherwise) or star_server_lite\n"
	  "  --fuse            with grpc++: tensor_fuse, all values of a wave with the same two ends in one message\n"
	  "  --compare         all protocols side by side\n"
	  "  --ps-tasks N      PS tasks [those that the graph names]: what lies on all of them takes a request each\n"
	  "  --reactors N      of each PS task [1]: each has its part of a sum, and gets what all of them need\n"
	  "  --batch N         what an unknown size counts as when bytes are added up [1]\n"
	  "  --svg FILE        draw it, by the program dot of Debian's graphviz; --dot prints what that is given\n"
	  "  --check           verify the cut, by other means than it was made",
	  run_graph_explain },
	{ "config check", "FILE", 1, 1, 0, "check a configuration without starting anything",
	  "The checks of `starserver --check -c FILE`, environment included, but for what only the node's machine has.",
	  run_config_check },
	{ "config print", "FILE", 1, 1, 0, "print a configuration with all its defaults",
	  "What comes out is a configuration file that reads back the same.", run_config_print },
	{ "key create", "FILE PRINCIPAL ROLE|next", 3, 3, 0, "make a key for a principal, in a key file",
	  "FILE is made when it is not there, with mode 0400. ROLE is node, worker, reader, operator or admin. The "
	  "word next "
	  "makes the\nkey that is to follow the current one: nodes take both until `key promote`. Needs no node; nodes "
	  "know "
	  "of it once they have\nthe file and were told by `key reload`.",
	  run_key_create },
	{ "key list", "FILE", 1, 1, 0, "list the principals of a key file, without their secrets",
	  "Refused, with what to do, is a file that others may read. Needs no node.", run_key_list },
	{ "key copy", "FILE PRINCIPAL NEW", 3, 3, 0,
	  "make a key file of one principal: what a worker or an administrator gets",
	  "With its current and its next key. NEW must not be there. Needs no node.", run_key_copy },
	{ "key promote", "FILE PRINCIPAL", 2, 2, 0, "let the principal's next key take the place of its current one",
	  "The current one is gone from the file then. Needs no node.", run_key_promote },
	{ "key revoke", "FILE PRINCIPAL [ID]", 2, 3, 0, "take a principal, or one of its keys, out of a key file",
	  "Nodes close its connections as they are told to read the file again: `starctl key reload`. Needs no node.",
	  run_key_revoke },
	{ "key reload", "", 0, 0, 0, "have a node read its key file again, and close connections of revoked keys",
	  "A file that is not in order changes nothing. By the node's socket, or as an admin.", run_key_reload },
	{ "acl check", "PRINCIPAL METHOD [TABLE]", 2, 3, 0,
	  "say whether a principal may call a method of the control plane, or do something with a table",
	  "As the node that is asked would decide; docs/control.rst has the methods. The exit status is 0 for yes, "
	  "else 1.",
	  run_acl_check },
	{ "quotas", "[PRINCIPAL]", 0, 1, 0, "show what principals use of a node, and may",
	  "Who has come since the node began, or one of them: connections, sessions and bytes of this moment; requests "
	  "and "
	  "new rows\nsince then, which are counted where somebody has such quotas; how often it was refused for each. "
	  "As an "
	  "operator, or by the\nnode's socket.",
	  run_quotas },
	{ "audit verify", "FILE...", 1, 60, 0, "check that an audit log is whole and unchanged",
	  "Of several files, each goes on where the one before it ends: those that logrotate has moved, oldest first. "
	  "The "
	  "exit status\nis 1 when a line was changed, taken out or put in: it is named. Needs no node.",
	  run_audit_verify },
	{ "promote", "", 0, 0, 0, "have a standby take its primary's place",
	  "The node that is asked serves from then on. The other one is told to stop first, and gives what it has; if "
	  "it "
	  "cannot\nbe reached, its lease is waited for: make sure that it is dead, or it may go on alone for those who "
	  "reach it\n(standby.alone_s). Of two nodes that have both begun again, it says which one serves. By the "
	  "node's "
	  "Unix socket, or\nwith an admin's key.",
	  run_promote },
	{ "rolling-restart", "[OPTION...]", 0, 0, COMMAND_ROLLING,
	  "restart all nodes, one after the other, while the cluster serves",
	  "As after an upgrade of the package. Of each pair the standby first; when it has all again it takes its "
	  "primary's place, and\nthat is restarted. Stops at the first thing that does not look right, and says what "
	  "to do next; started again it goes on.\n"
	  "  --restart COMMAND      restarts the node of {host}, {control} (its address) or {task}\n"
	  "                         [ssh {host} sudo systemctl restart \"'starserver@*'\"]\n"
	  "  --promote COMMAND      has that standby take its primary's place; with a key it is asked\n"
	  "                         [ssh {host} sudo starctl promote]\n"
	  "  --allow-restart TASKS  also restart these tasks, as in 1,3, which have no standby: their workers wait\n"
	  "  --timeout SECONDS      for each step [600]\n"
	  "  --dry-run              look whether all is well, and show what would be done\n"
	  "  --state FILE           what was begun [in ~/.local/state/starserver]\n"
	  "  --from-scratch         forget what was begun, and restart all nodes",
	  run_rolling_restart },
	{ "shutdown", "", 0, 0, 0, "stop the node and wait until it is gone",
	  "By the node's Unix socket, or with an admin's key. Waits for at most 30 seconds.", run_shutdown },
	{ "help", "[--words] [COMMAND]", 0, 15, COMMAND_WORDS, "explain a command",
	  "With --words it lists the words that may follow, for the shell's completion.", run_help },
	{ NULL, NULL, 0, 0, 0, NULL, NULL, NULL },
};

static const struct {
	const char *text, *summary;
} options[] = {
	{ "--socket PATH", "the node's Unix socket [the newest of this user's, or in /run/starserver]" },
	{ "--address HOST:PORT", "the node's control address, from anywhere" },
	{ "--key FILE", "as whom to come to a control address that has keys [STAR_KEY]" },
	{ "--json", "print JSON, for programs" },
	{ "--help", "explain starctl, or the command" },
	{ "--version", "print the version" },
};

enum { OPTIONS = sizeof(options) / sizeof(options[0]) };

static void print_options(FILE *out)
{
	fprintf(out, "\nOptions:\n");
	for (unsigned i = 0; i < OPTIONS; i++)
		fprintf(out, "  %-24s %s\n", options[i].text, options[i].summary);
	/* No word to be completed. */
	fprintf(out, "  %-24s %s\n", "--", "what follows is no option; negative keys need it not");
}

void print_usage(FILE *out)
{
	fprintf(out, "starctl administers a StarServer node.\n\n"
		     "Usage: starctl [--socket PATH | --address HOST:PORT] [--json] COMMAND\n\nCommands:\n");
	for (const struct command *c = starctl_commands; c->name; c++) {
		char text[64];

		snprintf(text, sizeof(text), "%s %s", c->name, c->arguments);
		fprintf(out, "  %-35s %s\n", text, c->summary);
	}
	print_options(out);
	fprintf(out, "\nExit status: 0 done; 1 the node cannot be reached or answered with an error; 2 wrong usage or "
		     "a wrong\n"
		     "configuration. More: man starctl\n");
}

void print_command_help(const struct command *command, FILE *out)
{
	fprintf(out, "Usage: starctl [OPTIONS] %s%s%s\n\n%c%s.\n%s\n", command->name, command->arguments[0] ? " " : "",
		command->arguments, command->summary[0] - 'a' + 'A', command->summary + 1, command->details);
	print_options(out);
}

/* The number of a command's words that argv begins with, or 0 when they are others. */
static int match(const struct command *command, int argc, char **argv)
{
	const char *space = strchr(command->name, ' ');
	const size_t first = space ? (size_t)(space - command->name) : strlen(command->name);

	if (argc < 1 || strlen(argv[0]) != first || memcmp(argv[0], command->name, first) != 0)
		return 0;
	if (!space)
		return 1;
	return argc > 1 && strcmp(argv[1], space + 1) == 0 ? 2 : 0;
}

const struct command *find_command(int argc, char **argv, int *words, struct star_error *err)
{
	const struct command *best = NULL;
	char given[128];

	*words = 0;
	for (const struct command *c = starctl_commands; c->name; c++) {
		const int n = match(c, argc, argv);

		if (n > *words) {
			*words = n;
			best = c;
		}
	}
	if (best)
		return best;
	for (const struct command *c = starctl_commands; argc == 1 && c->name && !best; c++)
		if (strncmp(c->name, argv[0], strlen(argv[0])) == 0 && c->name[strlen(argv[0])] == ' ')
			best = c; /* its second word is missing */
	snprintf(given, sizeof(given), "%s%s%s", argc ? argv[0] : "", argc > 1 ? " " : "", argc > 1 ? argv[1] : "");
	star_error_set(err, -EINVAL, "there is no command \"%.100s\"; did you mean \"%s\"?", given,
		       best ? best->name : nearest_name(given, starctl_commands, sizeof(starctl_commands[0])));
	return NULL;
}

static bool printed_before(const struct command *command, size_t bytes)
{
	for (const struct command *c = starctl_commands; c < command; c++)
		if (strncmp(c->name, command->name, bytes) == 0 && (c->name[bytes] == 0 || c->name[bytes] == ' '))
			return true;
	return false;
}

/* The words that may follow those given: the next word of each command that begins with them, then the options. */
static void print_words(const struct invocation *invocation)
{
	const struct command *command;
	struct star_error err;
	char given[128] = "";
	size_t bytes = 0;
	int words;

	for (int i = 0; i < invocation->argc && bytes + strlen(invocation->argv[i]) + 2 < sizeof(given); i++)
		bytes += (size_t)snprintf(given + bytes, sizeof(given) - bytes, "%s ", invocation->argv[i]);
	for (const struct command *c = starctl_commands; c->name; c++) {
		const char *rest = c->name + bytes;
		const size_t length = strncmp(c->name, given, bytes) == 0 ? strcspn(rest, " ") : 0;

		if (length && !printed_before(c, bytes + length))
			fprintf(invocation->out, "%.*s\n", (int)length, rest);
	}
	command = find_command(invocation->argc, invocation->argv, &words, &err);
	if (command && command->flags & COMMAND_WATCH)
		fprintf(invocation->out, "--watch\n");
	if (command && command->flags & COMMAND_ONCE)
		fprintf(invocation->out, "--once\nsort=\n");
	if (command && command->flags & COMMAND_YES)
		fprintf(invocation->out, "--yes\n");
	if (command && command->flags & COMMAND_RECORDS)
		fprintf(invocation->out, "--records\n");
	if (command && command->flags & COMMAND_CLUSTER)
		fprintf(invocation->out, "--cluster\n");
	if (command && command->flags & COMMAND_FILTERS)
		print_connection_filters(invocation->out);
	if (command && command->flags & COMMAND_CAPTURE) {
		fprintf(invocation->out, "-w\n");
		print_capture_filters(invocation->out);
	}
	if (command && command->flags & COMMAND_EVENTS)
		print_event_filters(invocation->out);
	if (command && command->flags & COMMAND_SLOW)
		print_slow_filters(invocation->out);
	if (command && command->flags & COMMAND_SIZE)
		print_size_words(invocation->out);
	if (command && command->flags & COMMAND_OPTIONS)
		print_port_options(invocation->out);
	if (command && command->flags & COMMAND_GRAPH)
		print_graph_options(invocation->out);
	if (command && command->flags & COMMAND_ROLLING)
		print_rolling_options(invocation->out);
	for (unsigned i = 0; i < OPTIONS; i++)
		fprintf(invocation->out, "%.*s\n", (int)strcspn(options[i].text, " "), options[i].text);
}

/* Of a word that is no command, but begins several, as in `help checkpoint`: these. */
static bool print_family(int argc, char *const *argv, FILE *out)
{
	const size_t bytes = strlen(argv[0]);
	bool found = false;

	if (argc != 1)
		return false;
	for (const struct command *c = starctl_commands; c->name; c++)
		if (strcmp(c->name, argv[0]) == 0)
			return false;
	for (const struct command *c = starctl_commands; c->name; c++) {
		if (strncmp(c->name, argv[0], bytes) != 0 || c->name[bytes] != ' ')
			continue;
		if (!found)
			fprintf(out, "commands of \"%s\"; `starctl help COMMAND` explains one:\n", argv[0]);
		found = true;
		fprintf(out, "  %s%s%s\n      %s\n", c->name, *c->arguments ? " " : "", c->arguments, c->summary);
	}
	return found;
}

int run_help(const struct invocation *invocation)
{
	const struct command *command;
	struct star_error err;
	int words;

	if (invocation->words) {
		print_words(invocation);
		return STARCTL_OK;
	}
	if (invocation->argc == 0) {
		print_usage(invocation->out);
		return STARCTL_OK;
	}
	if (print_family(invocation->argc, invocation->argv, invocation->out))
		return STARCTL_OK;
	command = find_command(invocation->argc, invocation->argv, &words, &err);
	if (!command) {
		fprintf(invocation->errors, "starctl: %s\n", err.text);
		return STARCTL_USAGE;
	}
	print_command_help(command, invocation->out);
	return STARCTL_OK;
}
