/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * starserver --local. Each node is this program again, with its configuration as --set options. Nodes report to this
 * process that they serve, as they do to a service manager (sd_notify), and the kernel ends them by SIGTERM when this
 * process dies.
 */
#include "local.h"
#include "local_directory.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "base/clock.h"
#include "control/control.h"
#include "machine/machine.h"

enum {
	FIRST_PORT = 3333,
	PORT_TRIES = 2000,
	REACTORS_MAX = 128,
	PARAMETER_MIB_MIN = 16,
	WORDS_MAX = 256,
	LIST_BYTES = LOCAL_NODES_MAX * 48,
	LOCK_TRIES = 300,	   /* at 100 ms each */
	SIGNAL_AGAIN_US = 1000000, /* a signal that follows another one so soon counts as the same */
	STOP_AT_ONCE_S = 5,	   /* a second signal asks for no checkpoint */
	KILLED_S = 10,		   /* for the kernel: only hanging storage keeps a process from ending */
};

struct node_process {
	pid_t pid; /* 0: none */
	bool ready, killed;
};

struct local {
	const struct local_options *options;
	unsigned reactors;	/* per node */
	uint16_t control, data; /* ports of node 0; the others' follow */
	uint32_t parameter_mib; /* per node */
	char folder[CONFIG_RUNTIME_MAX];
	char directory[PATH_MAX];
	char controls[LIST_BYTES], endpoints[LIST_BYTES];
	int lock_fd, notify_fd, signal_fd;
	int directory_fd; /* the lock of this file claims the directory for this cluster; -1: none */
	char notify_name[64];
	sigset_t before; /* the signal mask at the start of this process */
	struct node_process nodes[LOCAL_NODES_MAX];
	unsigned alive;
	bool ready, stopping;
	bool leader_ended_well; /* node 0, which writes the checkpoints */
	int status;
	uint64_t signal_us; /* of the last signal that counted */
	uint64_t stop_us;   /* when nodes that were told to end must have ended; UINT64_MAX: none was */
};

static int fail_local(const char *what, const char *arg)
{
	fprintf(stderr, "starserver: %s%s\n", what, arg);
	return EXIT_FAILURE;
}

/* ---- what the nodes get ---- */

/* The value that --set gives to the option, or otherwise. A wrong value is refused by the configuration's check. */
static const char *override_of(const struct local_options *o, const char *name, const char *otherwise)
{
	for (unsigned i = o->overrides_count; i > 0; i--)
		if (strcmp(o->overrides[i - 1].name, name) == 0)
			return o->overrides[i - 1].value;
	return otherwise;
}

static unsigned reactors_of(const struct local_options *o)
{
	const unsigned reactors = (unsigned)strtoul(override_of(o, "cores.number", "1"), NULL, 10);

	return reactors == 0 ? 1 : reactors > REACTORS_MAX ? REACTORS_MAX : reactors;
}

static bool is_free(uint16_t port)
{
	const struct sockaddr_in address = { .sin_family = AF_INET,
					     .sin_port = htons(port),
					     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool bound;

	if (fd < 0)
		return false;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	bound = bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0;
	close(fd);
	return bound;
}

/* Finds consecutive ports: the control ports of all nodes, then the data ports of all their reactors. */
static bool find_ports(struct local *local)
{
	const unsigned nodes = local->options->nodes, count = nodes * (1 + local->reactors);
	unsigned first = FIRST_PORT, next;

	while (first < FIRST_PORT + PORT_TRIES && first + count <= UINT16_MAX + 1u) {
		for (next = first; next < first + count && is_free((uint16_t)next);)
			next++;
		if (next == first + count) {
			local->control = (uint16_t)first;
			local->data = (uint16_t)(first + nodes);
			return true;
		}
		first = next + 1;
	}
	return false;
}

static void list_addresses(struct local *local)
{
	size_t controls = 0, endpoints = 0;

	for (unsigned i = 0; i < local->options->nodes; i++) {
		const unsigned control = local->control + i, data = local->data + i * local->reactors;
		const char *comma = i ? "," : "";

		controls += (size_t)snprintf(local->controls + controls, LIST_BYTES - controls, "%s127.0.0.1:%u", comma,
					     control);
		endpoints += (size_t)snprintf(local->endpoints + endpoints, LIST_BYTES - endpoints,
					      "%s127.0.0.1:%u=127.0.0.1:%u", comma, control, data);
	}
}

/* A quarter of the free memory, for all nodes together, including their packet buffers. */
static void choose_memory(struct local *local)
{
	enum { MBUFS_MIB = 40 }; /* of memory.mbufs = 4095, for each reactor */
	const uint64_t share = (machine_free_bytes() >> 20) / 4 / local->options->nodes;
	const uint64_t buffers = (uint64_t)MBUFS_MIB * local->reactors;
	const char *asked = override_of(local->options, "memory.parameter_mib", NULL);

	local->parameter_mib = asked				     ? (uint32_t)strtoul(asked, NULL, 10)
			       : share > buffers + PARAMETER_MIB_MIN ? (uint32_t)(share - buffers)
								     : PARAMETER_MIB_MIN;
}

/* A relative path is made absolute, so that what is printed can be used anywhere. */
static int make_directory(struct local *local)
{
	const char *directory = local->options->directory;

	if (!directory)
		return 0;
	if (mkdir(directory, 0777) < 0 && errno != EEXIST) {
		fprintf(stderr, "starserver: --directory: %s cannot be created: %s\n", directory, strerror(errno));
		return EXIT_FAILURE;
	}
	if (!realpath(directory, local->directory) || access(directory, R_OK | W_OK | X_OK) != 0) {
		fprintf(stderr, "starserver: --directory: %s cannot be written to: %s\n", directory, strerror(errno));
		return EXIT_FAILURE;
	}
	return 0;
}

struct words {
	char *list[WORDS_MAX];
	unsigned count;
	bool failed;
};

static void __attribute__((format(printf, 2, 3))) add_word(struct words *words, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (words->failed || words->count + 1 == WORDS_MAX || vasprintf(&words->list[words->count], format, args) < 0)
		words->failed = true;
	else
		words->count++;
	va_end(args);
}

static void set_word(struct words *words, const char *name, const char *value)
{
	add_word(words, "--set");
	add_word(words, "%s=%s", name, value);
}

static void set_number(struct words *words, const char *name, unsigned value)
{
	add_word(words, "--set");
	add_word(words, "%s=%u", name, value);
}

/* An option that the user has set. A port for metrics belongs to the first node, and each further node gets the next
 * port. */
static void set_override(struct words *words, const struct config_override *override, unsigned task)
{
	char *end;
	const unsigned long number = strtoul(override->value, &end, 10);

	if (task && number && !*end && strcmp(override->name, "metrics.port") == 0)
		set_number(words, override->name, (unsigned)number + task);
	else
		set_word(words, override->name, override->value);
}

/* The command line of a node. The user's options come last, and override the others. */
static void make_words(const struct local *local, unsigned task, struct words *words)
{
	const struct local_options *o = local->options;

	*words = (struct words){ .count = 0 };
	add_word(words, "starserver");
	add_word(words, "--config=/dev/null");
	set_word(words, "node.job_name", "ps");
	set_number(words, "node.task_index", task);
	set_word(words, "cluster.ps", local->controls);
	set_word(words, "endpoint_map", local->endpoints);
	set_word(words, "network.stack", "kernel");
	set_number(words, "cores.number", local->reactors);
	set_word(words, "memory.hugepages", "none");
	set_number(words, "memory.mbufs", 4095);
	set_number(words, "memory.parameter_mib", local->parameter_mib);
	add_word(words, "--set");
	add_word(words, "control.socket=%s/local-%u.sock", local->folder, local->control + task);
	if (local->directory[0]) {
		set_word(words, "checkpoint.directory", local->directory);
		set_word(words, "checkpoint.on_stop", "true");
	}
	for (unsigned i = 0; i < o->overrides_count; i++)
		set_override(words, &o->overrides[i], task);
	if (o->print)
		add_word(words, "--print");
}

/* Returns only when that fails. */
static void become_node(const struct local *local, unsigned task)
{
	struct words words;

	make_words(local, task, &words);
	/* These would describe another cluster. */
	unsetenv("TF_CONFIG");
	unsetenv("TF_SEASTAR_ENDPOINT_MAP_PATH");
	if (!words.failed)
		execv("/proc/self/exe", words.list);
	fprintf(stderr, "starserver: cannot start the program again for a node: %s\n",
		strerror(words.failed ? ENOMEM : errno));
}

/* ---- running them ---- */

/* Two that start at the same time would find the same ports free. The name belongs to this network namespace, and is
 * held until the nodes listen. */
static void lock_ports(struct local *local)
{
	static const char name[] = "starserver/local";
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + sizeof(name));

	memcpy(address.sun_path + 1, name, sizeof(name) - 1);
	local->lock_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	/* If another process holds it for too long, the ports are tried anyway. */
	for (unsigned i = 0; i < LOCK_TRIES; i++) {
		if (local->lock_fd < 0 || bind(local->lock_fd, (const struct sockaddr *)&address, bytes) == 0)
			return;
		usleep(100000);
	}
}

static void unlock_ports(struct local *local)
{
	if (local->lock_fd >= 0)
		close(local->lock_fd);
	local->lock_fd = -1;
}

/* An abstract socket that the nodes report to. */
static int open_notify(struct local *local)
{
	const int one = 1;
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	socklen_t bytes = sizeof(name);

	local->notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (local->notify_fd < 0 || setsockopt(local->notify_fd, SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)) < 0 ||
	    bind(local->notify_fd, (const struct sockaddr *)&name, sizeof(sa_family_t)) < 0 ||
	    getsockname(local->notify_fd, (struct sockaddr *)&name, &bytes) < 0)
		return -1;
	snprintf(local->notify_name, sizeof(local->notify_name), "@%.*s",
		 (int)(bytes - offsetof(struct sockaddr_un, sun_path) - 1), name.sun_path + 1);
	return 0;
}

static int open_events(struct local *local)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGCHLD };
	sigset_t signals;

	sigemptyset(&signals);
	for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		struct sigaction was;

		/* Under nohup SIGHUP is ignored. */
		if (numbers[i] != SIGHUP || sigaction(SIGHUP, NULL, &was) < 0 || was.sa_handler != SIG_IGN)
			sigaddset(&signals, numbers[i]);
	}
	sigprocmask(SIG_BLOCK, &signals, &local->before);
	local->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	return local->signal_fd < 0 ? -1 : open_notify(local);
}

static bool start_node(struct local *local, unsigned task)
{
	const pid_t parent = getpid(), pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		if (getppid() != parent)
			_exit(EXIT_FAILURE);
		setpgid(0, 0); /* Ctrl-C must reach the parent only, which tells each node once */
		sigprocmask(SIG_SETMASK, &local->before, NULL);
		setenv("NOTIFY_SOCKET", local->notify_name, 1);
		unsetenv("WATCHDOG_USEC");
		unsetenv("WATCHDOG_PID");
		become_node(local, task);
		_exit(EXIT_FAILURE);
	}
	if (pid < 0)
		return false;
	local->nodes[task].pid = pid;
	local->alive++;
	return true;
}

/* They have until then, or an earlier time. */
static void stop_within(struct local *local, unsigned seconds)
{
	const uint64_t until_us = clock_us() + seconds * UINT64_C(1000000);

	local->stop_us = until_us < local->stop_us ? until_us : local->stop_us;
}

static void stop_nodes(struct local *local)
{
	stop_within(local, local->stopping ? STOP_AT_ONCE_S : CONTROL_STOP_S);
	local->stopping = true;
	for (unsigned i = 0; i < local->options->nodes; i++)
		if (local->nodes[i].pid)
			kill(local->nodes[i].pid, SIGTERM);
}

/* Kills nodes that have not ended in time: a stopped process, or one that waits for storage, does not react to SIGTERM.
 * False: nor to SIGKILL. */
static bool kill_nodes(struct local *local)
{
	bool heard = true;

	for (unsigned i = 0; i < local->options->nodes; i++) {
		struct node_process *node = &local->nodes[i];

		if (!node->pid)
			continue;
		heard = !node->killed;
		fprintf(stderr, "starserver: node %u (process %d) %s\n", i, (int)node->pid,
			heard ? "has not ended in time: its storage hangs, or it is stopped (SIGSTOP). It is killed "
				"now, without a last checkpoint"
			      : "has not ended after SIGKILL, perhaps because its storage hangs: it is left behind");
		kill(node->pid, SIGKILL);
		node->killed = true;
	}
	local->status = EXIT_FAILURE;
	local->stop_us = UINT64_MAX;
	stop_within(local, KILLED_S);
	return heard;
}

static void print_ready(struct local *local)
{
	const unsigned nodes = local->options->nodes;
	const char *directory = override_of(local->options, "checkpoint.directory", local->directory),
		   *on_stop = override_of(local->options, "checkpoint.on_stop", local->directory[0] ? "true" : "false");

	for (unsigned i = 0; i < nodes; i++)
		if (!local->nodes[i].ready)
			return;
	if (local->ready)
		return;
	local->ready = true;
	unlock_ports(local);
	printf("%u node%s on this machine, up to %u MiB of parameters%s. Give workers\n  --ps tcp:%s\n", nodes,
	       nodes == 1 ? "" : "s", local->parameter_mib, nodes == 1 ? "" : " each", local->controls);
	if (directory[0])
		printf("Checkpoints are kept in %s; Ctrl-C %s.\n", directory,
		       strcmp(on_stop, "true") == 0 ? "writes a last one and stops" : "stops without a last one");
	else
		printf("Ctrl-C stops it; parameters are then lost (--directory DIR keeps checkpoints).\n");
	fflush(stdout);
	sd_notify(0, "READY=1");
}

/* Reads a node's report: its first line is READY=1 when it serves. */
static void take_report(struct local *local)
{
	char text[256], control[CMSG_SPACE(sizeof(struct ucred))];
	struct iovec piece = { .iov_base = text, .iov_len = sizeof(text) - 1 };
	struct msghdr message = {
		.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
	};
	const ssize_t bytes = recvmsg(local->notify_fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	const struct cmsghdr *header = bytes > 0 ? CMSG_FIRSTHDR(&message) : NULL;
	struct ucred from;

	if (!header || header->cmsg_type != SCM_CREDENTIALS)
		return;
	memcpy(&from, CMSG_DATA(header), sizeof(from));
	text[bytes] = 0;
	if (strncmp(text, "READY=1", 7) != 0)
		return;
	for (unsigned i = 0; i < local->options->nodes; i++)
		if (local->nodes[i].pid == from.pid)
			local->nodes[i].ready = true;
	print_ready(local);
}

static void take_end(struct local *local, pid_t pid, int status)
{
	unsigned task = 0;

	while (task < local->options->nodes && local->nodes[task].pid != pid)
		task++;
	if (task == local->options->nodes)
		return;
	local->nodes[task].pid = 0;
	local->alive--;
	if (task == 0)
		local->leader_ended_well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) != 0 && local->status == 0)
		local->status = WEXITSTATUS(status);
	else if (WIFSIGNALED(status) && local->status == 0)
		local->status = EXIT_FAILURE;
	if (local->nodes[task].killed)
		return; /* it was reported already */
	if (WIFSIGNALED(status))
		fprintf(stderr, "starserver: node %u was killed by signal %d (%s)%s\n", task, WTERMSIG(status),
			strsignal(WTERMSIG(status)), local->stopping || !local->alive ? "" : "; the others end, too");
	else if (!local->stopping && local->alive)
		fprintf(stderr, "starserver: node %u has ended with status %d; the others end, too\n", task,
			WEXITSTATUS(status));
	if (!local->stopping)
		stop_nodes(local);
}

static void take_signal(struct local *local)
{
	struct signalfd_siginfo info;
	int status;
	pid_t pid;

	while (read(local->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		const uint64_t now_us = clock_us();

		/* A later signal ends the nodes at once. But timeout, systemd and shells may send the same one twice in
		 * a row. */
		if (info.ssi_signo == SIGCHLD || (local->stopping && now_us - local->signal_us < SIGNAL_AGAIN_US))
			continue;
		local->signal_us = now_us;
		stop_nodes(local);
	}
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		take_end(local, pid, status);
}

/* The timeout for poll. */
static int stop_ms(const struct local *local)
{
	const uint64_t now_us = clock_us();

	if (local->stop_us == UINT64_MAX)
		return -1;
	return local->stop_us > now_us ? (int)((local->stop_us - now_us) / 1000 + 1) : 0;
}

static int run_nodes(struct local *local)
{
	if (open_events(local) < 0)
		return fail_local("cannot create descriptors for the nodes: ", strerror(errno));
	for (unsigned i = 0; i < local->options->nodes && !local->stopping; i++)
		if (!start_node(local, i)) {
			local->status = fail_local("cannot start a node: ", strerror(errno));
			stop_nodes(local);
		}
	while (local->alive) {
		struct pollfd events[] = { { .fd = local->signal_fd, .events = POLLIN },
					   { .fd = local->notify_fd, .events = POLLIN } };

		if (poll(events, 2, stop_ms(local)) < 0 && errno != EINTR)
			return fail_local("poll: ", strerror(errno)); /* the nodes end with this process */
		if (events[1].revents)
			take_report(local);
		if (events[0].revents)
			take_signal(local);
		if (local->alive && clock_us() >= local->stop_us && !kill_nodes(local))
			return EXIT_FAILURE;
	}
	if (local->status == LOCAL_NOT_SAVED && local->leader_ended_well)
		fprintf(stderr,
			"starserver: node 0 has written the last checkpoint in %s, but another node was not told, for "
			"the reason above; the next start restores the newest complete checkpoint\n",
			local->directory[0] ? local->directory : "checkpoint.directory");
	else if (local->status == LOCAL_NOT_SAVED)
		fprintf(stderr,
			"starserver: the last checkpoint in %s could not be written, for the reason above; the next "
			"start restores an older one\n",
			local->directory[0] ? local->directory : "checkpoint.directory");
	return local->status;
}

int local_run(const struct local_options *options)
{
	static struct local local;

	local = (struct local){ .options = options,
				.lock_fd = -1,
				.directory_fd = -1,
				.stop_us = UINT64_MAX,
				.reactors = reactors_of(options) };
	config_runtime_folder(local.folder);
	if (make_directory(&local))
		return EXIT_FAILURE;
	if (local.directory[0] && !options->print) {
		local.directory_fd = local_directory_lock(local.directory);
		if (local.directory_fd < 0)
			return EXIT_FAILURE;
	}
	lock_ports(&local);
	if (!find_ports(&local))
		return fail_local("there are not enough consecutive free ports from 3333 on: `ss -ltnp` shows which "
				  "processes use them",
				  "");
	choose_memory(&local);
	list_addresses(&local);
	if (options->print) {
		become_node(&local, 0);
		return EXIT_FAILURE;
	}
	return run_nodes(&local);
}
