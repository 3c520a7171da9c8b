/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of commands, and the output that is made from it. */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "app/starctl/starctl.h"
#include "base/nearest.h"

const struct command starctl_commands[] = {
	{ "status", "[--watch]", 0, 0, COMMAND_WATCH, "show the node, its cluster and its reactors",
	  "With --watch the display is refreshed every second, until Ctrl-C; with --json too, one object per line. "
	  "The exit\n"
	  "status is 1 if another PS task is away, that is, was connected and is silent now. PS task 0 knows this of "
	  "all tasks;\n"
	  "the others know it of PS task 0.",
	  run_status },
	{ "health", "", 0, 0, 0, "say in one line whether the node is healthy",
	  "Reported problems are: no layout, PS tasks that are away, a restore in progress, a checkpoint that failed "
	  "or is\n"
	  "overdue, parameter memory over 90 % full, a link that is down. The exit status is 0 if there are none, "
	  "else 1. After\n"
	  "\"ok\" come notes: the age of the last checkpoint, a clock that is not synchronized, missing hugepages. "
	  "PS task 0\n"
	  "reports for the whole cluster.",
	  run_health },
	{ "metrics", "", 0, 0, 0, "print all of the node's metrics",
	  "In OpenMetrics text format, as Prometheus scrapes it where metrics.port is set.", run_metrics },
	{ "log-level", "[LEVEL]", 0, 1, 0, "show or change the least severe level that the node logs",
	  "LEVEL is debug, info, warning or error. A change lasts until the node ends. Uses the node's socket, or an "
	  "admin's key.",
	  run_log_level },
	{ "doctor", "[FILE]", 0, 1, 0, "look for problems of this machine, a configuration and its cluster",
	  "For each finding that is not ok it says what to do. With a configuration FILE it checks whether its node "
	  "could start\n"
	  "here, which nodes of its cluster answer, and whether NICs, cores, memory and storage meet its needs; with "
	  "--address,\n"
	  "whether the node there answers. Changes nothing, and needs no node. The exit status is 1 if something "
	  "would keep the\n"
	  "node from starting or serving.",
	  run_doctor },
	{ "tables", "", 0, 0, 0, "list the tables and variables, and the node's rows of them",
	  "Any node can be asked: all have the same catalogue, but each has its own rows.", run_tables },
	{ "tables show", "NAME", 1, 1, 0, "show a table's definition and figures",
	  "The figures are for the node's own rows.", run_tables_show },
	{ "tables options", "[OPTIMIZER]", 0, 1, 0, "list the options of tables, without a node",
	  "Names, defaults and bounds of all options; with an optimizer's name, those that it uses.",
	  run_tables_options },
	{ "tables create", "NAME OPTION=VALUE...", 2, 62, 0, "create a table or a variable",
	  "dim=16 makes a table, shape=100x64 a variable; dtype=, optimizer= and everything that `starctl tables "
	  "options` lists\n"
	  "may follow. If it exists with the same definition, that is not an error.",
	  run_tables_create },
	{ "size", "OPTION=VALUE...", 1, 62, COMMAND_SIZE, "say how much memory a table takes, without a node",
	  "Options are those of `tables create`, and rows=N (of a table), nodes=N [1], reactors=N per node [1], "
	  "waiting=N keys\n"
	  "that filter=counter has not admitted yet [0], mbufs=N per reactor and mtu=N of its ports [those of the "
	  "configuration].\n"
	  "Prints the bytes of a row, the memory that a node needs (memory.parameter_mib), its hugepages, and the "
	  "size of a full\n"
	  "checkpoint.",
	  run_size },
	{ "tables sweep", "NAME", 1, 1, 0, "evict a table's old and small rows now, on all nodes",
	  "Uses the table's steps_to_live and l2_threshold. Waits until the node that is asked has checked all its "
	  "rows.",
	  run_tables_sweep },
	{ "tables empty", "NAME [--yes]", 1, 1, COMMAND_YES, "delete all rows of a table, on all nodes",
	  "Deletes values, optimizer state and the counts of an admission filter; the table itself stays. Asks first "
	  "on a\n"
	  "terminal; scripts use --yes. Waits until it is done. Rows that workers create meanwhile may be deleted "
	  "too. If\n"
	  "checkpoint.directory is set, a checkpoint is written afterwards, since older ones still have the rows; if "
	  "that fails,\n"
	  "the exit status is 1.",
	  run_tables_empty },
	{ "tables drop", "NAME... [--yes]", 1, INT_MAX, COMMAND_YES, "drop tables and variables, on all nodes",
	  "Drops them with their rows and frees the memory. Their names can be created again at once, with any "
	  "definition.\n"
	  "Workers that use them get errors. Asks first on a terminal; scripts use --yes. If checkpoint.directory is "
	  "set, a full\n"
	  "checkpoint is requested afterwards; rolling back to an older one brings the tables back.",
	  run_tables_drop },
	{ "tables export", "TABLE [FILE]", 1, 2, 0, "write a table of a running cluster to a file",
	  "The name decides the format: .jsonl for JSON lines as `checkpoint export` writes them, with optimizer "
	  "state; .csv for\n"
	  "key and values; .npy for a pair of NumPy files: words.npy makes words.keys.npy and words.values.npy. "
	  "Without FILE, or\n"
	  "with -, JSON lines go to standard output. Training may continue: each row is written once, as it is when "
	  "it is read.",
	  run_tables_export },
	{ "tables import", "TABLE [FILE]", 1, 2, 0, "assign rows from a file to a table of a running cluster",
	  "Reads what `tables export` wrote, or your own files in these formats; without FILE, or with -, JSON lines "
	  "from\n"
	  "standard input. The table must exist, with rows of that many elements. Only values change; optimizer "
	  "state stays. CSV\n"
	  "columns are identified by the names in the first line. Of a variable, only the blocks in the file are "
	  "assigned. The\n"
	  "whole file is checked first: if it is damaged, or has values that are not finite without nonfinite=pass, "
	  "nothing\n"
	  "changes.",
	  run_tables_import },
	{ "rows get", "TABLE KEY...", 2, INT_MAX, 0,
	  "show rows of a table: values, optimizer state, version and counts",
	  "Reads from the whole cluster, and does not count as a pull. `startrain key COLUMN TEXT` prints the key of "
	  "a feature's\n"
	  "text. Keys are decimal, or hexadecimal with 0x; a negative key k is 2^64 + k.",
	  run_rows_get },
	{ "queue list", "", 0, 0, 0, "list the work queues and their progress",
	  "Shows slices of all epochs: done, in progress and waiting; and the leases that have expired since PS task "
	  "0 started.\n"
	  "With --json also which worker has which slice.",
	  run_queue_list },
	{ "queue drop", "NAME", 1, 1, 0, "drop a work queue",
	  "Jobs that open a queue with this name start again from its first slice; so do workers that are using it "
	  "now.",
	  run_queue_drop },
	{ "checkpoint save", "[full|delta]", 0, 1, 0,
	  "have all nodes write a checkpoint, and wait until it is complete",
	  "Training may continue meanwhile. By default, or with delta, only the rows that have changed since the "
	  "last checkpoint\n"
	  "are written, if that is possible; else a full one is. Ctrl-C ends the waiting, not the checkpoint.",
	  run_checkpoint_save },
	{ "checkpoint restore", "[ID]", 0, 1, 0, "have all nodes roll back to a checkpoint, and wait until they serve",
	  "Restores the newest, or the one with this ID (see `checkpoint list`). It is read completely first; then "
	  "every node\n"
	  "restarts in its process and loads its share. What was learned since is lost; workers get -ESTALE and must "
	  "open the\n"
	  "cluster again. A full checkpoint follows at once. Only on the machine of PS task 0. Ctrl-C ends the "
	  "waiting, not the\n"
	  "restore.",
	  run_checkpoint_restore },
	{ "checkpoint status", "", 0, 0, 0, "show the last checkpoint, and the progress of one that is being written",
	  "PS task 0 knows; another node asks it.", run_checkpoint_status },
	{ "checkpoint list", "DIR", 1, 1, 0, "list the checkpoints in a directory",
	  "A delta is based on another checkpoint. Unfinished and damaged ones do not count. Needs no node.",
	  run_checkpoint_list },
	{ "checkpoint verify", "DIR[/ID]", 1, 1, 0, "read checkpoints completely, and check every byte",
	  "Checks all of a directory; with an ID (7, or 00000007-delta) that one, and those that it is based on. "
	  "Needs no node.\n"
	  "The exit status is 1 if a node would refuse to start from one, because it is damaged or renamed, or "
	  "because one that\n"
	  "it is based on is gone: its line says what is wrong, with file and block.",
	  run_checkpoint_verify },
	{ "checkpoint prune", "DIR keep=N", 2, 2, 0, "remove old checkpoints",
	  "Keeps the newest N full checkpoints and the deltas based on them; removes the others, and all unfinished "
	  "ones. Those N\n"
	  "are verified first: damaged ones do not count, and if fewer than N are good, only unfinished ones are "
	  "removed. What a\n"
	  "running cluster started from stays until it has written checkpoint.keep full ones since. Needs no node.",
	  run_checkpoint_prune },
	{ "checkpoint adopt", "DIR[/ID]", 1, 1, 0, "add HMACs to checkpoints that were written without a key",
	  "For all checkpoints in DIR, or the one with this ID. The key is in the file that STAR_CHECKPOINT_KEY "
	  "names, which\n"
	  "nodes have as checkpoint.key. With such a key list, verify, prune, export and import accept only "
	  "manifests that have\n"
	  "its HMAC. Run `checkpoint verify` without the key first. A checkpoint whose HMAC is wrong is not changed. "
	  "Needs no\n"
	  "node.",
	  run_checkpoint_adopt },
	{ "checkpoint export", "DIR[/ID] TABLE", 2, 2, 0, "write a table of a checkpoint as JSON lines",
	  "Exports from the newest checkpoint, or the one with this ID, including those that it is based on. If that "
	  "one\nis not complete, nothing is written, the exit status is 1, and the error names the newest older one "
	  "that is. The\n"
	  "first line is the table's definition, each other line one row. Numbers read back bit for bit. Needs no "
	  "node.",
	  run_checkpoint_export },
	{ "checkpoint import", "DIR [FILE]", 1, 2, 0, "make a checkpoint from JSON lines",
	  "Reads what `checkpoint export` wrote, for one table or several one after the other, from a file or from "
	  "standard\n"
	  "input. DIR must not have checkpoints yet, and no running cluster may write to it. Needs no node.",
	  run_checkpoint_import },
	{ "connections", "[FILTER...]", 0, 4, COMMAND_FILTERS, "show the node's TCP connections",
	  "Like `ss -ti`. Filters: reactor=N, state=established (or another TCP state), peer=ADDRESS[:PORT], limit=N "
	  "(default\n"
	  "1000, at most 10000).",
	  run_connections },
	{ "top", "[--once] [--cluster] [sort=NAME] [reactors=NAME]", 0, 2, COMMAND_ONCE | COMMAND_CLUSTER,
	  "watch reactors, requests, tables and connections of a node, or of all",
	  "Refreshes every second, until q. With --cluster, tables of all nodes are summed, and request times are "
	  "those of the\n"
	  "node with the highest 99th percentile. s, or sort=, sorts tables by another column: pushes, memory, rows "
	  "or made; r,\n"
	  "or reactors=, sorts reactors: place, busy, requests or memory. With --once, in a pipe, and with --json it "
	  "shows one\n"
	  "second only.",
	  run_top },
	{ "latency", "[seconds=N]", 0, 1, 0, "show how long requests took, by class, size and reactor",
	  "TOTAL is from the receive burst with the end of a request to the transmit burst with its reply; WAIT is "
	  "until the\n"
	  "request started; RUN is while it was executed. Covers the time since the node started, or the last N "
	  "seconds of the\n"
	  "65,000 requests that each reactor records.",
	  run_latency },
	{ "slow", "[FILTER...]", 0, 3, COMMAND_SLOW | COMMAND_RECORDS | COMMAND_CLUSTER,
	  "show the slowest of the last requests, and why they were slow",
	  "Each reactor records its last 65,000 requests. Filters: minutes=N (default 1), reactor=N, limit=N "
	  "(default 10). With\n"
	  "--cluster the slowest of all nodes; with --records FILE those in the file that a node left when it "
	  "crashed or a\n"
	  "reactor was stuck: the log names the file.",
	  run_slow },
	{ "trace", "[FILE]", 0, 1, COMMAND_RECORDS,
	  "write the last requests as a trace, for Perfetto or chrome://tracing",
	  "The last 65,000 requests of each reactor, with one track for each connection. Without FILE, or with -, to "
	  "standard\n"
	  "output. With --records RECORDS those in the file that a node left when it crashed.",
	  run_trace },
	{ "events", "[minutes=N] [level=NAME]", 0, 2, COMMAND_CLUSTER | COMMAND_EVENTS,
	  "show the node's events of the last hour",
	  "Nodes that left or returned, layouts, checkpoints, tables, ports, memory, links: the last 1,024 log lines "
	  "of level\n"
	  "info and above, whatever log.level is. level=warning shows warnings and errors only. With --cluster the "
	  "events of all\n"
	  "nodes.",
	  run_events },
	{ "memory", "", 0, 0, COMMAND_CLUSTER, "show free memory, when it will be full, and which tables grow",
	  "Based on the last hour: AN HOUR is the growth per hour at this rate, FULL IN the time until the memory is "
	  "full. Tables\n"
	  "that grow fastest come first. With --cluster for all nodes, with tables summed over them.",
	  run_memory },
	{ "capture", "-w FILE [FILTER...]", 0, 8, COMMAND_CAPTURE,
	  "write the frames that the node receives and sends to a file",
	  "Writes a pcapng file, or with -w - to a pipe: `starctl capture -w - port=5555 | tcpdump -nr -`. The "
	  "reactors copy the\n"
	  "first bytes of each frame that matches all filters: host=ADDRESS, port=N, proto=tcp (udp, icmp, icmp6, "
	  "arp, ip, ip6),\n"
	  "direction=in (or out), reactor=N, snap=BYTES of each frame (default 256); count=N and seconds=N stop it, "
	  "and so does\n"
	  "Ctrl-C. These bytes include what workers send. Uses the node's socket, or an admin's key. Wireshark's "
	  "dissector is in\n"
	  "/usr/share/starserver/wireshark. If the node uses the kernel's sockets, capture with tcpdump instead.",
	  run_capture },
	{ "nodes", "", 0, 0, 0, "show all nodes of the cluster side by side: which is slow, and why",
	  "For each node, how busy it is, and the times of its most frequent kind of request in the last minute. "
	  "Below that the\n"
	  "slowest node, its slowest request and the reasons. Takes a second.",
	  run_nodes },
	{ "report", "", 0, 0, 0, "write the last hour of the cluster as an HTML page to standard output",
	  "`starctl report > cluster.html`: health, plots of activity, request times, memory and tables, the hottest "
	  "keys, and\n"
	  "events. The page is self-contained. With --json the same as data.",
	  run_report },
	{ "core", "CORE [PROGRAM]", 1, 2, 0,
	  "show from a node's core dump what it did: reactors and their last requests",
	  "Uses gdb, and the debug symbols of exactly that program (starserver-dbgsym). Give PROGRAM if it is not "
	  "where it was. A\n"
	  "core has no parameters, packets or keys. Needs no node.",
	  run_core },
	{ "hot", "[limit=N]", 0, 1, COMMAND_CLUSTER, "show the most requested keys and partitions",
	  "From samples of about the last million keys of each reactor. A share of 1 % is accurate to a tenth of "
	  "itself. With\n"
	  "--cluster for all nodes.",
	  run_hot },
	{ "counters", "", 0, 0, 0, "show the counters of the node's network stack",
	  "Like `nstat -a`, with the kernel's names where it has them; summed over all reactors, without zeros.",
	  run_counters },
	{ "port list", "", 0, 0, 0, "list the node's network ports",
	  "For a memif port, CLIENT says whether its worker is connected.", run_port_list },
	{ "port add", "DEVICE OPTION...", 1, 1, COMMAND_OPTIONS, "add a port to the running node",
	  "DEVICE is the name of a DPDK driver, with a number or else the lowest free one, and its arguments:\n"
	  "net_memif0,socket=/run/starserver/w0.sock, or net_af_packet with --interface star1. The options are those "
	  "of a port in the\n"
	  "configuration: --address 198.18.4.1/24 (several with commas), --interface, --gateway, --gateway6, --vlan, "
	  "--mtu,\n"
	  "--options. The port is removed when the node ends. Uses the node's socket, or an admin's key.",
	  run_port_add },
	{ "port remove", "NAME", 1, 1, 0, "remove a port from the running node",
	  "Ends its connections, and notifies their peers. A port of the configuration returns when the node "
	  "restarts. The last\n"
	  "port cannot be removed. Uses the node's socket, or an admin's key.",
	  run_port_remove },
	{ "endpoint-map", "", 0, 0, 0, "show the node's endpoint map",
	  "Control address and data address of every node, as this node has read them.", run_endpoint_map },
	{ "endpoint-map check", "FILE", 1, 1, 0, "check an endpoint map without a node",
	  "Reads a file of `control address=data address` lines, and reports errors with file and line.",
	  run_endpoint_map_check },
	{ "graph explain", "FILE [OPTION...]", 1, 1, COMMAND_GRAPH,
	  "show how a graph is cut between worker and PS tasks",
	  "FILE is a graph as text (.star). Shows the round trips of a step, its requests and bytes, and, wave by "
	  "wave, what is\n"
	  "executed where. Needs no node.\n"
	  "  --protocol NAME   grpc++, star_server (the default) or star_server_lite\n"
	  "  --fuse            with grpc++: tensor_fuse, one message for all values of a wave between the same two "
	  "ends\n"
	  "  --compare         show all protocols side by side\n"
	  "  --ps-tasks N      PS tasks [those that the graph names]; a part that is on all of them takes a request "
	  "to each\n"
	  "  --reactors N      reactors of each PS task [1]; each has its share of a sum, and gets what all of them "
	  "need\n"
	  "  --batch N         value of unknown sizes when bytes are summed [1]\n"
	  "  --svg FILE        draw the graph with the program dot (Debian: graphviz); --dot prints dot's input\n"
	  "  --check           verify the cut with an independent algorithm",
	  run_graph_explain },
	{ "config check", "FILE", 1, 1, 0, "check a configuration without starting anything",
	  "The same checks as `starserver --check -c FILE`, environment included, except those that only the node's "
	  "own machine\n"
	  "permits.",
	  run_config_check },
	{ "config print", "FILE", 1, 1, 0, "print a configuration with all its defaults",
	  "The output is a configuration file that reads back the same.", run_config_print },
	{ "key create", "FILE PRINCIPAL ROLE|next", 3, 3, 0, "create a key for a principal in a key file",
	  "FILE is created with mode 0400 if it does not exist. ROLE is node, worker, reader, operator or admin. "
	  "With the word\n"
	  "next instead, it makes the principal's next key: nodes accept both until `key promote`. Needs no node. "
	  "Copy the file\n"
	  "to the nodes, and run `key reload`.",
	  run_key_create },
	{ "key list", "FILE", 1, 1, 0, "list the principals of a key file, without their secrets",
	  "A file that others may read is refused, with what to do. Needs no node.", run_key_list },
	{ "key copy", "FILE PRINCIPAL NEW", 3, 3, 0,
	  "copy one principal's keys to a file of its own, for a worker or an administrator",
	  "Copies its current and its next key. NEW must not exist. Needs no node.", run_key_copy },
	{ "key promote", "FILE PRINCIPAL", 2, 2, 0, "replace a principal's current key with its next one",
	  "The current key is removed from the file. Needs no node.", run_key_promote },
	{ "key revoke", "FILE PRINCIPAL [ID]", 2, 3, 0, "remove a principal, or one of its keys, from a key file",
	  "Nodes close its connections when they read the file again: `starctl key reload`. Needs no node.",
	  run_key_revoke },
	{ "key reload", "", 0, 0, 0, "have a node read its key file again, and close connections of revoked keys",
	  "If the file is invalid, nothing changes. Uses the node's socket, or an admin's key.", run_key_reload },
	{ "acl check", "PRINCIPAL METHOD [TABLE]", 2, 3, 0,
	  "say whether a principal may call a method of the control plane, optionally for a table",
	  "Asks the node for its decision; docs/control.rst lists the methods. The exit status is 0 for yes, else 1.",
	  run_acl_check },
	{ "quotas", "[PRINCIPAL]", 0, 1, 0, "show what principals use of a node, and their quotas",
	  "Shows all principals that have connected since the node started, or one of them: current connections, "
	  "sessions and\n"
	  "bytes; requests and new rows since then, which are counted where any principal has such quotas; and how "
	  "often each\n"
	  "quota refused something. Uses the node's socket, or an operator's key.",
	  run_quotas },
	{ "audit verify", "FILE...", 1, INT_MAX, 0, "check that an audit log is complete and unchanged",
	  "Several files must be consecutive, oldest first, as logrotate leaves them. The exit status is 1 if a line "
	  "was changed,\n"
	  "removed or inserted: it is named. Needs no node.",
	  run_audit_verify },
	{ "promote", "", 0, 0, 0, "make a standby the primary",
	  "The node that is asked serves from then on. The other one is told to stop first, and sends what it still "
	  "has; if it\n"
	  "cannot be reached, the node waits for its lease to end. Make sure then that the other one is dead: "
	  "otherwise it may\n"
	  "continue alone for clients that reach it (standby.alone_s). If both nodes of a pair have restarted, this "
	  "decides which\n"
	  "one serves. A node that was told to stop keeps its data until the other one serves: if that one has\n"
	  "died, promote this one again. Uses the node's Unix socket, or an admin's key.",
	  run_promote },
	{ "rolling-restart", "[OPTION...]", 0, 0, COMMAND_ROLLING,
	  "restart all nodes, one after the other, while the cluster serves",
	  "For use after an upgrade of the package, for example. Of each pair the standby is restarted first; when "
	  "it has caught\n"
	  "up, it becomes the primary, and the other node is restarted. Stops at the first problem, and says what to "
	  "do next; run\n"
	  "it again to continue.\n"
	  "  --restart COMMAND      restarts a node, with {host}, {control} (its address) and {task} filled in\n"
	  "                         [ssh {host} sudo systemctl restart \"'starserver@*'\"]\n"
	  "  --promote COMMAND      makes that standby the primary; not needed with a key\n"
	  "                         [ssh {host} sudo starctl promote]\n"
	  "  --allow-restart TASKS  also restart these tasks without a standby, as in 1,3: workers wait for them\n"
	  "  --timeout SECONDS      for each step [600]\n"
	  "  --dry-run              check the cluster, and show what would be done\n"
	  "  --state FILE           records the progress [in ~/.local/state/starserver]\n"
	  "  --from-scratch         ignore earlier progress, and restart all nodes",
	  run_rolling_restart },
	{ "shutdown", "", 0, 0, 0, "stop the node and wait until it is gone",
	  "Uses the node's Unix socket, or an admin's key. Waits for at most 30 seconds.", run_shutdown },
	{ "help", "[--words] [COMMAND]", 0, 15, COMMAND_WORDS, "explain a command",
	  "With --words it lists the words that may follow, for shell completion.", run_help },
	{ NULL, NULL, 0, 0, 0, NULL, NULL, NULL },
};

static const struct {
	const char *text, *summary;
} options[] = {
	{ "--socket PATH", "the node's Unix socket [the newest of this user, or in /run/starserver]" },
	{ "--address HOST:PORT", "the node's control address, from anywhere" },
	{ "--key FILE", "the key file for control addresses that require one [STAR_KEY]" },
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
	/* A line without a word to be completed. */
	fprintf(out, "  %-24s %s\n", "--", "end of the options; not needed before negative keys");
}

/* A longer command has its summary on the next line. */
enum { COMMAND_COLUMNS = 35 };

void print_usage(FILE *out)
{
	fprintf(out, "starctl administers a StarServer node.\n\n"
		     "Usage: starctl [--socket PATH | --address HOST:PORT] [--key FILE] [--json] COMMAND\n\n"
		     "Commands:\n");
	for (const struct command *c = starctl_commands; c->name; c++) {
		char text[64];

		snprintf(text, sizeof(text), "%s %s", c->name, c->arguments);
		if (strlen(text) < COMMAND_COLUMNS)
			fprintf(out, "  %-*s %s\n", COMMAND_COLUMNS, text, c->summary);
		else
			fprintf(out, "  %s\n  %-*s %s\n", text, COMMAND_COLUMNS, "", c->summary);
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

/* The number of a command's words with which argv begins; 0: other words. */
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

/* Maximum edits for a typing mistake: a third of the letters. With more it is another word. */
static unsigned mistakes_max(const char *typed)
{
	const size_t length = strlen(typed);

	return length < 6 ? 1 : (unsigned)(length / 3);
}

/*
 * Writes the command that was probably meant, or its first word if no second one was given; nothing if none is similar.
 * Commands are also compared by their first word only: the rest may be an argument, or missing.
 */
static void guess_command(const char *word, const char *given, char *meant, size_t bytes)
{
	unsigned least_key = UINT_MAX, least_whole = UINT_MAX;

	meant[0] = 0;
	for (const struct command *c = starctl_commands; c->name; c++) {
		const unsigned whole = nearest_distance(given, c->name);
		char first[64];

		snprintf(first, sizeof(first), "%.*s", (int)strcspn(c->name, " "), c->name);

		const unsigned begins = nearest_distance(word, first), key = begins < whole ? begins : whole;

		if ((begins > mistakes_max(word) && whole > mistakes_max(given)) || key > least_key ||
		    (key == least_key && whole >= least_whole))
			continue;
		least_key = key;
		least_whole = whole;
		snprintf(meant, bytes, "%s", begins < whole && strcmp(word, given) == 0 ? first : c->name);
	}
}

const struct command *find_command(int argc, char **argv, int *words, struct star_error *err)
{
	const struct command *best = NULL;
	char given[128], meant[64];

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
	if (best)
		snprintf(meant, sizeof(meant), "%s", best->name);
	else
		guess_command(argc ? argv[0] : "", given, meant, sizeof(meant));
	if (meant[0])
		star_error_set(err, -EINVAL, "there is no command \"%.100s\"; did you mean \"%s\"?", given, meant);
	else
		star_error_set(err, -EINVAL, "there is no command \"%.100s\"; `starctl --help` lists them", given);
	return NULL;
}

static bool printed_before(const struct command *command, size_t bytes)
{
	for (const struct command *c = starctl_commands; c < command; c++)
		if (strncmp(c->name, command->name, bytes) == 0 && (c->name[bytes] == 0 || c->name[bytes] == ' '))
			return true;
	return false;
}

/* The words that may follow: the next word of each command that begins with the given ones, then the options. */
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

/* For the first word of several commands, as in `help checkpoint`: lists them. */
bool print_family(int argc, char *const *argv, FILE *out)
{
	const size_t bytes = argc == 1 ? strlen(argv[0]) : 0;
	bool found = false;

	if (!bytes)
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
