/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/startrain/job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/startrain/progress.h"
#include "base/output.h"

enum { TICK_MS = 100 };

int job_prepare(struct job *job, struct star_error *err)
{
	const int watched[] = { SIGINT, SIGTERM, SIGHUP, SIGCHLD };
	const uint32_t workers = job->options.local_workers;
	void *shared;

	job->shared_bytes = sizeof(*job->shared) + workers * sizeof(job->shared->figures[0]);
	shared = mmap(NULL, job->shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	job->pids = calloc(workers, sizeof(*job->pids));
	job->shared = shared != MAP_FAILED ? shared : NULL;
	if (job->shared == NULL || job->pids == NULL)
		return star_error_set(err, -ENOMEM, "not enough memory for %u workers", workers);
	signal(SIGCHLD, SIG_DFL);
	sigemptyset(&job->watched);
	for (size_t i = 0; i < sizeof(watched) / sizeof(watched[0]); i++)
		sigaddset(&job->watched, watched[i]);
	sigprocmask(SIG_BLOCK, &job->watched, &job->inherited);
	return 0;
}

void job_release(struct job *job)
{
	free(job->pids);
	if (job->shared != NULL)
		munmap(job->shared, job->shared_bytes);
}

/* Runs in a new process, and does not return. */
static void child_main(struct job *job, job_task *task, uint32_t index, pid_t parent)
{
	struct figures *own = &job->shared->figures[index];
	int rc;

	/*
	 * A process group of its own, so that Ctrl-C only reaches the parent, which ends its children and prints one
	 * message. If the parent dies without doing so, the kernel ends them; if it has died before prctl, getppid
	 * shows that.
	 */
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	sigprocmask(SIG_SETMASK, &job->inherited, NULL);
	rc = task(job, job->options.first_worker + index, &own->err);
	if (output_flush(stdout, "the result", rc == 0 ? &own->err : NULL) < 0 && rc == 0)
		rc = own->err.code;
	_exit(rc != 0);
}

static int start_tasks(struct job *job, job_task *task, uint32_t count, struct star_error *err)
{
	const pid_t parent = getpid();

	fflush(stdout); /* otherwise each child would write what is left in the buffer */
	for (uint32_t i = 0; i < count; i++) {
		job->pids[i] = fork();
		if (job->pids[i] < 0) {
			job->pids[i] = 0;
			return star_error_set(err, -errno, "cannot start a process: %s", strerror(errno));
		}
		if (job->pids[i] == 0)
			child_main(job, task, i, parent);
		job->running++;
	}
	return 0;
}

static int describe_end(const struct job *job, const char *name, uint32_t index, int status, struct star_error *err)
{
	const char *text = job->shared->figures[index].err.text;
	char who[64] = "a process of this job";

	if (name != NULL)
		snprintf(who, sizeof(who), "%s %u", name, job->options.first_worker + index);
	if (WIFSIGNALED(status))
		return star_error_set(err, -ECHILD, "%s (process %d) was killed by signal %d (%s)", who,
				      (int)job->pids[index], WTERMSIG(status), strsignal(WTERMSIG(status)));
	if (name == NULL)
		return star_error_set(err, -ECHILD, "%s", text);
	return star_error_set(err, -ECHILD, "%s: %s", who, text);
}

/* Collects processes that have ended; returns the first failure. */
static int reap(struct job *job, const char *name, uint32_t count, struct star_error *err)
{
	for (uint32_t i = 0; i < count; i++) {
		int status, rc = 0;

		if (job->pids[i] == 0 || waitpid(job->pids[i], &status, WNOHANG) != job->pids[i])
			continue;
		if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
			rc = describe_end(job, name, i, status, err);
		job->pids[i] = 0;
		job->running--;
		if (rc != 0)
			return rc;
	}
	return 0;
}

/* Children need no cleanup, and a stopped one only reacts to SIGKILL. */
static void end_all(struct job *job, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (job->pids[i] != 0)
			kill(job->pids[i], SIGKILL);
	for (uint32_t i = 0; i < count; i++) {
		while (job->pids[i] != 0 && waitpid(job->pids[i], NULL, 0) < 0 && errno == EINTR)
			continue;
		job->pids[i] = 0;
	}
	job->running = 0;
}

int job_run(struct job *job, const char *name, job_task *task, uint32_t count, struct star_error *err)
{
	const struct timespec tick = { .tv_nsec = TICK_MS * 1000000L };
	int rc = start_tasks(job, task, count, err);

	while (rc == 0 && job->running > 0) {
		const int number = sigtimedwait(&job->watched, NULL, &tick);

		if (number > 0 && number != SIGCHLD) {
			star_error_set(err, number, "ended by signal %d (%s)", number, strsignal(number));
			rc = -EINTR;
			break;
		}
		rc = reap(job, name, count, err);
		if (job->progress != NULL)
			progress_tick(job->progress);
	}
	end_all(job, count);
	return rc;
}

int job_exit_status(int rc, int failed, const struct star_error *err)
{
	if (rc == 0)
		return 0;
	fprintf(stderr, "startrain: %s\n", err->text);
	return rc == -EINTR ? 128 + err->code : failed; /* as shells report a process that was ended by a signal */
}
