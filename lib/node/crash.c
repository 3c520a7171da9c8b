/* SPDX-License-Identifier: BSD-3-Clause */
#include "node/crash.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "recorder/file.h"

enum { OTHERS_WAIT_S = 10 };

static const struct fault {
	int signal;
	const char *name;
} faults[] = {
	{ SIGSEGV, "SIGSEGV" }, { SIGBUS, "SIGBUS" },	{ SIGILL, "SIGILL" },
	{ SIGFPE, "SIGFPE" },	{ SIGABRT, "SIGABRT" },
};
enum { FAULTS = sizeof(faults) / sizeof(faults[0]) };

static struct {
	struct node *node; /* NULL: there is nothing to write */
	struct sigaction before[FAULTS];
	uint32_t writes; /* a thread is writing */
	uint32_t stuck;	 /* the reactor that is stuck, if that is the reason */
	struct recorder_dump dump;
} crash;

/* Safe in a signal handler: only reads and copies. */
static int write_records(int signal, int stuck)
{
	const struct node *node = crash.node;
	struct recorder_dump *dump = &crash.dump;

	dump->signal = signal;
	dump->stuck = stuck;
	dump->reactors = 0;
	for (unsigned i = 0; i < node->shards_count && node->shards[i].reactor && node->shards[i].observe; i++) {
		const struct shard *shard = &node->shards[i];
		const struct reactor_stats *stats = reactor_stats(shard->reactor);

		dump->of[i] = shard->observe;
		dump->now[i] = (struct recorder_reactor){ stats->turns, rpc_counters(shard->rpc)->requests,
							  stats->busy_cycles, stats->idle_cycles };
		dump->reactors = i + 1;
	}
	dump->objects = WIRE_OBJECTS_MAX;
	for (unsigned id = 1; id <= WIRE_OBJECTS_MAX; id++) {
		dump->names[id] = node->specs[id] ? node->specs[id]->name : NULL;
		dump->since_ns[id] = node->specs_ns[id];
	}
	return dump->reactors ? recorder_write(dump) : -ENODATA;
}

static void write_text(const char *text)
{
	if (write(STDERR_FILENO, text, strlen(text)) < 0)
		return; /* nobody reads it */
}

static void tell(const char *name, bool written)
{
	write_text("starserver: ");
	write_text(name);
	write_text(written ? ": the last requests are in " : ": the last requests could not be written to ");
	write_text(crash.dump.path);
	write_text(written ? " (starctl slow --records)\n" : "\n");
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
	unsigned i = 0;

	(void)context;
	while (i < FAULTS - 1 && faults[i].signal != signal)
		i++;
	if (__atomic_exchange_n(&crash.writes, 1, __ATOMIC_ACQ_REL)) {
		sleep(OTHERS_WAIT_S); /* another thread has crashed, too, and ends the process after writing */
	} else if (crash.node && !__atomic_load_n(&crash.stuck, __ATOMIC_ACQUIRE)) {
		tell(faults[i].name, write_records(signal, -1) == 0);
	}
	/* Restores the previous handling: the instruction faults again, and a signal that was sent is sent again. */
	sigaction(signal, &crash.before[i], NULL);
	if (info->si_code <= 0)
		raise(signal);
}

void node_crash_begin(struct node *node)
{
	const struct config *config = node->config;
	/* With exactly these flags: DPDK's handler of SIGBUS, which is installed later, calls this one as they say. */
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };

	if (!config->observe_requests)
		return;
	snprintf(crash.dump.path, sizeof(crash.dump.path), "%s", config->metrics_records);
	snprintf(crash.dump.node, sizeof(crash.dump.node), "%.16s:%u", config->job_name, config->task_index);
	crash.dump.incarnation = node->incarnation;
	sigemptyset(&action.sa_mask);
	crash.node = node;
	for (unsigned i = 0; i < FAULTS; i++)
		sigaction(faults[i].signal, &action, &crash.before[i]);
}

void node_crash_end(void)
{
	if (!crash.node)
		return;
	for (unsigned i = 0; i < FAULTS; i++)
		sigaction(faults[i].signal, &crash.before[i], NULL);
	crash.node = NULL;
}

void node_crash_stuck(unsigned reactor)
{
	int rc;

	if (!crash.node || __atomic_exchange_n(&crash.writes, 1, __ATOMIC_ACQ_REL))
		return;
	rc = write_records(0, (int)reactor);
	if (rc == 0)
		log_error("the last requests are in %s (starctl slow --records)", crash.dump.path);
	else
		log_warn("the last requests could not be written to %s: %s", crash.dump.path, strerrordesc_np(-rc));
	__atomic_store_n(&crash.stuck, rc == 0, __ATOMIC_RELEASE);
	__atomic_store_n(&crash.writes, 0, __ATOMIC_RELEASE);
}

void node_crash_moves(void)
{
	__atomic_store_n(&crash.stuck, 0, __ATOMIC_RELEASE);
}
