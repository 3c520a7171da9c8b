/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/base/cases.h"
#include "tests/unit.h"

enum { PIPE_BYTES = 4096, PIECES = 64, PIECE = 3000, ALL = PIECES * PIECE, LIMIT = 1000, WAIT_US = 10000000 };

/* A device that takes nothing. This program's own definition stands before libc's. */
static __thread bool takes_nothing;

ssize_t write(int fd, const void *from, size_t bytes)
{
	if (takes_nothing) {
		errno = 0;
		return 0;
	}
	return syscall(SYS_write, fd, from, bytes);
}

/* The other end of a pipe: slow, and each time the first one waits for it, it interrupts that. */
struct slow_end {
	pthread_t other;
	pid_t other_id;
	int fd;
	bool reads;
	uint8_t bytes[ALL];
	unsigned interrupts;
};

static volatile sig_atomic_t interrupted;

static void note_interrupt(int number)
{
	(void)number;
	interrupted++;
}

static bool sleeps(pid_t thread)
{
	char path[64], line[256], state = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)thread);
	file = fopen(path, "re");
	if (!file)
		return false;
	if (fgets(line, sizeof(line), file) && strrchr(line, ')'))
		state = strrchr(line, ')')[2];
	fclose(file);
	return state == 'S';
}

static void interrupt_other(struct slow_end *s)
{
	const uint64_t until_us = clock_us() + WAIT_US;
	const sig_atomic_t before = interrupted;

	while (!sleeps(s->other_id))
		if (clock_us() > until_us)
			return;
	pthread_kill(s->other, SIGUSR1);
	while (interrupted == before)
		if (clock_us() > until_us)
			return;
	s->interrupts++;
}

static void *be_slow(void *ctx)
{
	struct slow_end *s = ctx;

	for (unsigned i = 0; i < PIECES; i++) {
		uint8_t *at = s->bytes + i * PIECE;

		/* What is left when the last pieces are read fits into the pipe: nobody waits. */
		if (!s->reads || i < PIECES - 2 * PIPE_BYTES / PIECE - 1)
			interrupt_other(s);
		for (size_t done = 0; done < PIECE;) {
			const ssize_t n =
				s->reads ? read(s->fd, at + done, PIECE - done) : write(s->fd, at + done, PIECE - done);

			if (n <= 0)
				return NULL;
			done += (size_t)n;
		}
	}
	close(s->fd);
	return NULL;
}

static void by_a_slow_pipe(bool writes)
{
	struct sigaction old, action = { .sa_handler = note_interrupt }; /* without SA_RESTART */
	static struct slow_end s;
	static uint8_t own[ALL + 1];
	int fds[2];
	sighandler_t pipes;
	pthread_t thread;

	if (!CHECK_INT(pipe2(fds, O_CLOEXEC), 0))
		return;
	fcntl(fds[1], F_SETPIPE_SZ, PIPE_BYTES);
	sigaction(SIGUSR1, &action, &old);
	pipes = signal(SIGPIPE, SIG_IGN);
	s = (struct slow_end){
		.other = pthread_self(), .other_id = gettid(), .fd = fds[writes ? 0 : 1], .reads = writes
	};
	for (size_t i = 0; i < ALL; i++)
		(writes ? own : s.bytes)[i] = (uint8_t)(i * 31 >> 3);
	CHECK_INT(pthread_create(&thread, NULL, be_slow, &s), 0);
	if (writes)
		CHECK_INT(base_write_all(fds[1], own, ALL), 0);
	else
		CHECK_INT(base_read_all(fds[0], own, ALL + 1), ALL); /* it ends before */
	close(fds[writes ? 1 : 0]); /* the other end does not wait for one that gave up */
	pthread_join(thread, NULL);
	signal(SIGPIPE, pipes);
	sigaction(SIGUSR1, &old, NULL);
	CHECK(s.interrupts >= PIECES / 2);
	CHECK_MEM(own, s.bytes, ALL);
}

void a_slow_reader_and_signals_get_all_bytes(void)
{
	by_a_slow_pipe(true);
}

void a_slow_writer_and_signals_give_all_bytes(void)
{
	by_a_slow_pipe(false);
}

/* Files end at LIMIT bytes. */
static void limit_files(struct rlimit *old, sighandler_t *handler)
{
	struct rlimit limit;

	getrlimit(RLIMIT_FSIZE, old);
	limit = *old;
	limit.rlim_cur = LIMIT;
	*handler = signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &limit);
}

static void no_limit(const struct rlimit *old, sighandler_t handler)
{
	setrlimit(RLIMIT_FSIZE, old);
	signal(SIGXFSZ, handler);
}

void a_write_that_does_not_fit_is_an_error(void)
{
	static const uint8_t bytes[3 * LIMIT];
	char path[UNIT_FOLDER];
	const int full = open("/dev/full", O_WRONLY | O_CLOEXEC), fd = unit_file(path, "file");
	sighandler_t handler;
	struct rlimit old;

	CHECK_INT(base_write_all(full, bytes, 1), -ENOSPC);
	CHECK_INT(base_write_all(full, bytes, 0), 0);
	limit_files(&old, &handler);
	CHECK_INT(base_write_all(fd, bytes, LIMIT - 1), 0);
	CHECK_INT(base_write_all(fd, bytes, sizeof(bytes)), -EFBIG);
	no_limit(&old, handler);
	CHECK_INT(lseek(fd, 0, SEEK_END), LIMIT);
	takes_nothing = true;
	CHECK_INT(base_write_all(fd, bytes, 1), -EIO);
	takes_nothing = false;
	CHECK_INT(base_write_all(-1, bytes, 1), -EBADF);
	close(full);
	close(fd);
	unlink(path);
}

void what_is_appended_is_whole_or_nothing(void)
{
	static const uint8_t bytes[LIMIT];
	char path[UNIT_FOLDER];
	const int fd = unit_file(path, "file"), fixed = memfd_create("file", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	bool torn = true, fixed_torn = false;
	sighandler_t handler;
	struct rlimit old;

	fcntl(fd, F_SETFL, O_APPEND);
	fcntl(fixed, F_ADD_SEALS, F_SEAL_SHRINK);
	limit_files(&old, &handler);
	CHECK_INT(base_append_all(fd, bytes, 600, &torn), 0);
	CHECK(!torn);
	CHECK_INT(base_append_all(fd, bytes, 600, &torn), -EFBIG);
	CHECK(!torn);
	CHECK_INT(base_append_all(fd, bytes, 600, NULL), -EFBIG);
	CHECK_INT(base_append_all(fixed, bytes, 600, &fixed_torn), 0);
	CHECK(!fixed_torn);
	CHECK_INT(base_append_all(fixed, bytes, 600, &fixed_torn), -EFBIG);
	CHECK(fixed_torn);
	no_limit(&old, handler);
	CHECK_INT(lseek(fd, 0, SEEK_END), 600);
	CHECK_INT(lseek(fixed, 0, SEEK_END), LIMIT);
	close(fixed);
	close(fd);
	unlink(path);
}

void what_is_replaced_is_whole_or_as_it_was(void)
{
	static const uint8_t large[2 * LIMIT];
	char path[UNIT_FOLDER], name[NAME_MAX + 1], text[16] = "";
	sighandler_t handler;
	struct rlimit old;
	struct stat file;
	int folder, fd;

	if (!unit_folder(path, "replace"))
		return;
	folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_INT(base_replace_file(folder, "a", "first", 5, 0600), 0);
	CHECK_INT(base_replace_file(folder, "a", "second", 6, 0600), 0);
	limit_files(&old, &handler);
	CHECK_INT(base_replace_file(folder, "a", large, sizeof(large), 0600), -EFBIG);
	no_limit(&old, handler);
	CHECK_INT(fstatat(folder, "a.partial", &file, 0), -1);
	/* What is in its way stays there. */
	CHECK_INT(mkdirat(folder, "a.partial", 0700), 0);
	CHECK_INT(base_replace_file(folder, "a", "third", 5, 0600), -EISDIR);
	CHECK_INT(unlinkat(folder, "a.partial", AT_REMOVEDIR), 0);
	CHECK_INT(symlinkat("a", folder, "a.partial"), 0);
	CHECK_INT(base_replace_file(folder, "a", "third", 5, 0600), -ELOOP);
	CHECK_INT(unlinkat(folder, "a.partial", 0), 0);
	CHECK_INT(mkdirat(folder, "b", 0700), 0);
	CHECK_INT(base_replace_file(folder, "b", "third", 5, 0600), -EISDIR);
	CHECK_INT(fstatat(folder, "b.partial", &file, 0), -1);
	memset(name, 'n', NAME_MAX);
	name[NAME_MAX] = 0;
	CHECK_INT(base_replace_file(folder, name, "third", 5, 0600), -ENAMETOOLONG);
	fd = base_open_file(folder, "a", 0);
	CHECK_INT(base_read_all(fd, text, sizeof(text)), 6);
	CHECK_STR(text, "second");
	CHECK_INT(fstat(fd, &file), 0);
	CHECK_INT(file.st_mode & 07777, 0600);
	close(fd);
	close(folder);
	unit_remove(path);
}

void a_short_file_is_told(void)
{
	char path[UNIT_FOLDER], text[16] = "";
	const int fd = unit_file(path, "file"), folder = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	CHECK_INT(base_write_all(fd, "0123456789", 10), 0);
	CHECK_INT(base_read_all(fd, text, sizeof(text)), 0);
	CHECK_INT(lseek(fd, 3, SEEK_SET), 3);
	CHECK_INT(base_read_at(fd, text, 4, 5), 4);
	CHECK_STR(text, "5678");
	CHECK_INT(base_read_at(fd, text, sizeof(text), 8), 2);
	CHECK_INT(base_read_at(fd, text, sizeof(text), 100), 0);
	CHECK_INT(base_read_all(fd, text, 2), 2); /* from where it stood */
	CHECK_MEM(text, "34", 2);
	CHECK_INT(base_read_all(fd, text, sizeof(text)), 5);
	CHECK_MEM(text, "56789", 5);
	CHECK_INT(base_read_all(folder, text, 1), -EISDIR);
	CHECK_INT(base_read_at(-1, text, 1, 0), -EBADF);
	close(folder);
	close(fd);
	unlink(path);
}

/* Neither does opening it wait for somebody at the other end. */
void what_is_no_file_is_not_opened(void)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	char folder[UNIT_FOLDER], path[UNIT_FOLDER + 16], link[UNIT_FOLDER + 16];
	const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int fd, at_folder;

	if (!unit_folder(folder, "file"))
		return;
	alarm(20);
	at_folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	snprintf(path, sizeof(path), "%s/pipe", folder);
	CHECK_INT(mkfifo(path, 0600), 0);
	CHECK_INT(base_open_file(AT_FDCWD, path, 0), -EMEDIUMTYPE);
	CHECK_INT(base_open_file(at_folder, "pipe", O_NOFOLLOW), -EMEDIUMTYPE);
	CHECK_HAS(base_open_error(-EMEDIUMTYPE), "not a regular file");
	snprintf(at.sun_path, sizeof(at.sun_path), "%s/socket", folder);
	CHECK_INT(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
	CHECK_INT(base_open_file(at_folder, "socket", 0), -EMEDIUMTYPE);
	close(listener);
	CHECK_INT(base_open_file(AT_FDCWD, "/dev/zero", 0), -EMEDIUMTYPE);
	/* Which has nothing, and says so. */
	fd = base_open_file(AT_FDCWD, "/dev/null", 0);
	CHECK(fd >= 0);
	close(fd);
	CHECK_INT(base_open_file(AT_FDCWD, folder, 0), -EISDIR);
	CHECK_HAS(base_open_error(-EISDIR), "Is a directory");
	CHECK_INT(base_open_file(at_folder, "nothing", 0), -ENOENT);
	/* A file is one, and so is what a link leads to, where links are followed. */
	snprintf(path, sizeof(path), "%s/file", folder);
	snprintf(link, sizeof(link), "%s/link", folder);
	CHECK(unit_write_text(path, "text"));
	CHECK_INT(symlink("file", link), 0);
	fd = base_open_file(at_folder, "link", 0);
	if (CHECK(fd >= 0)) {
		char text[8] = "";

		CHECK_INT(base_read_all(fd, text, sizeof(text)), 4);
		CHECK_STR(text, "text");
		close(fd);
	}
	CHECK_INT(base_open_file(at_folder, "link", O_NOFOLLOW), -ELOOP);
	alarm(0);
	close(at_folder);
	unit_remove(folder);
}

void a_first_line_is_read(void)
{
	static const struct {
		const char *text, *line; /* NULL: there is none */
	} cases[] = {
		{ "one\ntwo\n", "one" },
		{ "one", "one" },
		{ "\ntwo", "" },
		{ "", NULL },
		{ "longer than that\n", "longer " },
	};
	char folder[] = "/tmp/star-test-XXXXXX", path[64], line[8];

	if (!CHECK(mkdtemp(folder) != NULL))
		return;
	snprintf(path, sizeof(path), "%s/file", folder);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CHECK(unit_write_text(path, cases[i].text));
		strcpy(line, "before");
		CHECK(base_read_line(path, line, sizeof(line)) == (cases[i].line != NULL));
		CHECK_STR(line, cases[i].line ? cases[i].line : "");
	}
	unit_remove(folder);
	strcpy(line, "before");
	CHECK(!base_read_line(path, line, sizeof(line)));
	CHECK_STR(line, "");
}
