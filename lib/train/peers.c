/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/peers.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/star.h"

enum {
	BEAT, /* below 0: written by a worker of an earlier version; 0: there was none yet */
	CLOCK,
	ROW,						 /* elements */
	SETTING_ROWS = (PEERS_SETTINGS + ROW - 1) / ROW, /* rows of a worker, after the rows of all workers: from
							  * PEERS_MAX on */
	BEATS_PER_LEASE = 8,
	TWIN_BEATS = 2, /* for which a worker with the same index is watched */
	CHUNK = 6,	/* bytes that a double can hold as an integer */
	PLACE_ROWS = 6, /* of a worker, after its settings: where it runs */
	PLACE_BYTES = PLACE_ROWS * ROW * CHUNK + 1,
	PAUSE_MIN_US = 100,
	PAUSE_MAX_US = 10000,
	TELL_S = 5,
	NAME_BYTES = 128,
	SETTING_BYTES = 32,
};

/* The clock of a worker that has finished: up to this number a double can represent every integer. */
#define CLOCK_DONE 0x1p53

struct peer {
	double beat, clock;
	uint64_t moved_ns; /* when the heartbeat last changed */
	bool looked, seen; /* at; to change */
};

struct peers {
	struct peers_options options;
	struct star_table *table;
	struct peer *peers;
	uint64_t *keys;
	double *rows; /* as read by the last look: rows of the first count workers, or of all that are looked at */
	uint32_t most;
	bool joined;
	uint64_t opened_ns, looked_ns;
	uint64_t slowest; /* as of the last look; if no other worker was alive, this one is the slowest: others may
			   * have joined since */

	pthread_t thread;
	pthread_mutex_t lock; /* protects what follows, and the own row */
	pthread_cond_t ends;
	bool over;
	double clock, beat;
};

/* Under the lock, so that an older clock does not overwrite a newer one. A restarted process never writes the same
 * heartbeat again. */
static int write_own(struct peers *p, struct star_error *err)
{
	const uint64_t key = p->options.index;
	struct timespec now;
	double row[ROW], beat;
	struct star_op op;

	clock_gettime(CLOCK_REALTIME, &now);
	beat = (double)now.tv_sec * 1e6 + (double)(now.tv_nsec / 1000);
	p->beat = beat > p->beat ? beat : p->beat + 1;
	row[BEAT] = p->beat;
	row[CLOCK] = p->clock;
	op = star_op_assign(p->table, &key, 1, row);
	return star_execute(p->options.cluster, &op, 1, p->options.deadline_us, err);
}

/* Before the first heartbeat, so that whoever sees this worker alive sees its settings. */
static int write_settings(struct peers *p, struct star_error *err)
{
	double values[SETTING_ROWS * ROW] = { 0 };
	uint64_t keys[SETTING_ROWS];
	struct star_op op;

	memcpy(values, p->options.settings, sizeof(p->options.settings));
	for (uint32_t i = 0; i < SETTING_ROWS; i++)
		keys[i] = PEERS_MAX * (1 + (uint64_t)i) + p->options.index;
	op = star_op_assign(p->table, keys, SETTING_ROWS, values);
	return star_execute(p->options.cluster, &op, 1, p->options.deadline_us, err);
}

/* ---- two workers of one index ---- */

static void place_keys(const struct peers *p, uint64_t keys[static PLACE_ROWS])
{
	for (uint32_t i = 0; i < PLACE_ROWS; i++)
		keys[i] = PEERS_MAX * (1 + SETTING_ROWS + (uint64_t)i) + p->options.index;
}

/* Encodes where this worker runs, as text, in integers. */
static int write_place(struct peers *p, struct star_error *err)
{
	double values[PLACE_ROWS * ROW] = { 0 };
	char text[PLACE_BYTES] = "", host[HOST_NAME_MAX + 1] = "";
	uint64_t keys[PLACE_ROWS];
	struct star_op op;

	gethostname(host, sizeof(host) - 1);
	snprintf(text, sizeof(text), "%.50s, process %d", host, (int)getpid());
	for (unsigned i = 0; i < PLACE_ROWS * ROW; i++) {
		uint64_t chunk = 0;

		memcpy(&chunk, text + i * CHUNK, CHUNK);
		values[i] = (double)chunk;
	}
	place_keys(p, keys);
	op = star_op_assign(p->table, keys, PLACE_ROWS, values);
	return star_execute(p->options.cluster, &op, 1, p->options.deadline_us, err);
}

/* Decodes it for messages; the contents may have been written by anybody. */
static void read_place(const struct peers *p, char text[static PLACE_BYTES])
{
	double values[PLACE_ROWS * ROW];
	uint64_t keys[PLACE_ROWS];
	struct star_error ignored;

	memset(text, 0, PLACE_BYTES);
	place_keys(p, keys);
	if (star_pull(p->table, keys, PLACE_ROWS, values, STAR_READ_ONLY, p->options.deadline_us, &ignored) < 0)
		return;
	for (unsigned i = 0; i < PLACE_ROWS * ROW; i++) {
		const uint64_t chunk = values[i] > 0 && values[i] < 0x1p48 ? (uint64_t)values[i] : 0;

		memcpy(text + i * CHUNK, &chunk, CHUNK);
	}
	for (char *c = text; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
}

static int read_own(const struct peers *p, double row[static ROW], struct star_error *err)
{
	const uint64_t key = p->options.index;

	return star_pull(p->table, &key, 1, row, STAR_READ_ONLY, p->options.deadline_us, err);
}

/* Before this worker writes anything: the previous worker of this index must have finished, or appear to be dead. */
static int check_alone(const struct peers *p, struct star_error *err)
{
	const uint64_t until_ns = clock_ns() + p->options.lease_us * 1000 / BEATS_PER_LEASE * TWIN_BEATS;
	char place[PLACE_BYTES];
	double first[ROW], row[ROW];
	unsigned pause_us = 0;
	int rc = read_own(p, first, err);

	if (rc < 0 || p->options.again || first[BEAT] == 0 || first[CLOCK] >= CLOCK_DONE)
		return rc < 0 ? rc : 0;
	do {
		train_peers_pause(&pause_us);
		rc = read_own(p, row, err);
		if (rc < 0)
			return rc;
	} while (row[BEAT] == first[BEAT] && clock_ns() < until_ns);
	if (row[BEAT] == first[BEAT] || row[CLOCK] >= CLOCK_DONE)
		return 0;
	read_place(p, place);
	return star_error_set(err, -EADDRINUSE,
			      "worker %" PRIu32
			      " of job \"%.100s\" is alive already (%s): give each worker an index of "
			      "its own, or end that one; a job of another model needs another name",
			      p->options.index, p->options.job, place[0] ? place : "its location is unknown");
}

/* If a heartbeat fails, the next step's calls fail too, and report it. */
static void *beat(void *arg)
{
	struct peers *p = arg;
	const uint64_t pause_ns = p->options.lease_us * 1000 / BEATS_PER_LEASE;
	struct star_error ignored;

	pthread_mutex_lock(&p->lock);
	while (!p->over) {
		const struct timespec until = clock_timespec(clock_ns() + pause_ns);

		if (pthread_cond_timedwait(&p->ends, &p->lock, &until) == ETIMEDOUT && !p->over)
			write_own(p, &ignored);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

static int make_table(struct peers *p, struct star_error *err)
{
	char name[NAME_BYTES];
	struct star_spec spec = {
		.name = name, .dtype = "float64", .dim = ROW, .initializer = "zeros", .optimizer = "sgd", .rate = 1
	};

	if ((size_t)snprintf(name, sizeof(name), "%s/workers", p->options.job) >= sizeof(name))
		return star_error_set(err, -EINVAL, "the job's name is too long: %.40s...", p->options.job);
	p->table = star_table_create(p->options.cluster, &spec, p->options.deadline_us, err);
	return p->table ? 0 : err->code;
}

static void release_peers(struct peers *p)
{
	pthread_cond_destroy(&p->ends);
	pthread_mutex_destroy(&p->lock);
	free(p->peers);
	free(p->keys);
	free(p->rows);
	free(p);
}

static int start_peers(struct peers *p, struct star_error *err)
{
	int rc;

	if (!p->peers || !p->keys || !p->rows)
		return star_error_set(err, -ENOMEM, "no memory for %u workers", p->options.count);
	for (uint32_t i = 0; i < p->most; i++) {
		p->keys[i] = i;
		p->peers[i].moved_ns = clock_ns();
	}
	rc = make_table(p, err);
	if (rc == 0)
		rc = check_alone(p, err);
	if (rc == 0)
		rc = write_settings(p, err);
	if (rc == 0)
		rc = write_place(p, err);
	if (rc == 0)
		rc = write_own(p, err);
	if (rc == 0 && (rc = pthread_create(&p->thread, NULL, beat, p)) != 0)
		rc = star_error_set(err, -rc, "no thread for the beats of a worker");
	return rc;
}

struct peers *train_peers_open(const struct peers_options *options, struct star_error *err)
{
	struct peers *p = calloc(1, sizeof(*p));

	if (!p) {
		star_error_set(err, -ENOMEM, "no memory for a session");
		return NULL;
	}
	p->options = *options;
	p->clock = (double)options->clock;
	p->opened_ns = clock_ns();
	p->most = options->count > PEERS_LOOK_MIN ? options->count : PEERS_LOOK_MIN;
	p->peers = calloc(p->most, sizeof(*p->peers));
	p->keys = calloc(p->most, sizeof(*p->keys));
	p->rows = calloc((size_t)p->most * ROW, sizeof(*p->rows));
	pthread_mutex_init(&p->lock, NULL);
	clock_condition_init(&p->ends);
	if (start_peers(p, err) < 0) {
		release_peers(p);
		return NULL;
	}
	return p;
}

void train_peers_close(struct peers *p, bool done)
{
	struct star_error ignored;

	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->over = true;
	pthread_cond_signal(&p->ends);
	pthread_mutex_unlock(&p->lock);
	pthread_join(p->thread, NULL);
	p->clock = CLOCK_DONE;
	if (done) /* if it does not arrive, others wait for a lease */
		write_own(p, &ignored);
	release_peers(p);
}

int train_peers_set_clock(struct peers *p, uint64_t clock, struct star_error *err)
{
	int rc;

	pthread_mutex_lock(&p->lock);
	p->clock = (double)clock;
	rc = write_own(p, err);
	pthread_mutex_unlock(&p->lock);
	return rc;
}

static int look_at_peers(struct peers *p, uint32_t count, struct star_error *err)
{
	const int rc = star_pull(p->table, p->keys, count, p->rows, STAR_READ_ONLY, p->options.deadline_us, err);
	const uint64_t now_ns = clock_ns();

	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < count; i++) {
		const double *row = p->rows + (size_t)i * ROW;
		struct peer *peer = &p->peers[i];

		if (row[BEAT] != peer->beat) {
			peer->seen |= peer->looked;
			peer->moved_ns = now_ns;
		}
		peer->looked = true;
		peer->beat = row[BEAT];
		peer->clock = row[CLOCK];
	}
	p->looked_ns = now_ns;
	p->slowest = train_peers_slowest(p, NULL);
	if (p->slowest == UINT64_MAX && p->options.count > 1)
		p->slowest = (uint64_t)p->clock;
	return 0;
}

int train_peers_look(struct peers *p, struct star_error *err)
{
	return look_at_peers(p, p->options.count, err);
}

bool train_peers_lives(const struct peers *p, uint32_t index)
{
	const struct peer *peer = &p->peers[index];

	return index == p->options.index ||
	       (!(peer->clock >= CLOCK_DONE) && p->looked_ns - peer->moved_ns < p->options.lease_us * 1000);
}

bool train_peers_ended(const struct peers *p, uint32_t index)
{
	const struct peer *peer = &p->peers[index];

	return index != p->options.index && peer->clock >= CLOCK_DONE &&
	       (peer->seen || p->looked_ns - p->opened_ns >= p->options.lease_us * 1000);
}

/* Prints a setting. */
static void show_setting(enum peers_setting setting, double value, char text[static SETTING_BYTES])
{
	static const char *const consistencies[] = { "asynchronous", "ssp", "synchronous" };

	if (setting == PEERS_CONSISTENCY && value >= 1 && value <= 3)
		snprintf(text, SETTING_BYTES, "%s", consistencies[(unsigned)value - 1]);
	else if (setting == PEERS_MEAN_BY_ROW)
		snprintf(text, SETTING_BYTES, "%s", value > 1 ? "true" : "false");
	else if (setting == PEERS_RATES)
		snprintf(text, SETTING_BYTES, "%013" PRIx64, value > 0 && value < CLOCK_DONE ? (uint64_t)value : 0);
	else
		snprintf(text, SETTING_BYTES, "%.7g", value);
}

static int say_difference(const struct peers *p, uint32_t who, enum peers_setting setting, double theirs,
			  struct star_error *err)
{
	static const char *const names[] = { "consistency", "workers", "grads_to_wait",
					     "mean_by_row", "rate",    "rates of its updates (their hash)" };
	char ours[SETTING_BYTES], others[SETTING_BYTES];

	_Static_assert(sizeof(names) / sizeof(names[0]) == PEERS_SETTINGS, "each setting has a name");
	show_setting(setting, p->options.settings[setting], ours);
	show_setting(setting, theirs, others);
	return star_error_set(err, -EINVAL,
			      "this worker has %s = %s, and worker %" PRIu32
			      " has %s: it must be the same for all workers of job \"%.100s\"",
			      names[setting], ours, who, others, p->options.job);
}

/* Whether a worker has other settings: 1 with err, 0, or the error of a call. Rows without settings belong to nobody
 * who could be refused. */
static int differs(const struct peers *p, uint32_t who, struct star_error *err)
{
	double theirs[SETTING_ROWS * ROW];
	uint64_t keys[SETTING_ROWS];
	int rc;

	for (uint32_t i = 0; i < SETTING_ROWS; i++)
		keys[i] = PEERS_MAX * (1 + (uint64_t)i) + who;
	rc = star_pull(p->table, keys, SETTING_ROWS, theirs, STAR_READ_ONLY, p->options.deadline_us, err);
	for (unsigned i = 0; rc >= 0 && i < PEERS_SETTINGS; i++) {
		const double ours = p->options.settings[i];

		if (ours == 0 || theirs[i] == 0 || ours == theirs[i])
			continue;
		say_difference(p, who, i, theirs[i], err);
		return 1;
	}
	return rc < 0 ? rc : 0;
}

/* PEERS_MAX: none; otherwise err has the difference. */
static int find_other(struct peers *p, uint32_t *who, struct star_error *err)
{
	int rc = look_at_peers(p, p->most, err);
	uint32_t may = PEERS_MAX;

	*who = PEERS_MAX;
	for (uint32_t i = 0; rc == 0 && i < p->most; i++) {
		if (i == p->options.index || p->peers[i].beat == 0 || !train_peers_lives(p, i))
			continue;
		rc = differs(p, i, err);
		if (rc <= 0)
			continue;
		rc = 0;
		may = i;
		if (p->peers[i].seen)
			break;
	}
	*who = may;
	return rc < 0 ? rc : 0;
}

int train_peers_check(struct peers *p, struct star_error *err)
{
	struct star_error why = { 0 };
	uint32_t who;
	int rc = find_other(p, &who, &why);

	if (rc == 0 && who < PEERS_MAX && p->peers[who].seen)
		rc = -EINVAL;
	return rc < 0 ? star_error_set(err, rc, "%s", why.text) : 0;
}

int train_peers_join(struct peers *p, uint64_t until_ns, struct star_error *err)
{
	uint64_t told_ns = 0;
	unsigned pause_us = 0;

	while (!p->joined) {
		struct star_error why = { 0 };
		uint32_t who;
		int rc = find_other(p, &who, &why);

		p->joined = rc == 0 && who == PEERS_MAX;
		if (rc == 0 && !p->joined && (p->peers[who].seen || clock_ns() >= until_ns))
			rc = -EINVAL;
		if (rc < 0)
			return star_error_set(err, rc, "%s", why.text);
		if (!p->joined && train_peers_quiet(&told_ns))
			fprintf(stderr, "%s; waiting until worker %" PRIu32 " is known to be gone\n", why.text, who);
		if (!p->joined)
			train_peers_pause(&pause_us);
	}
	return 0;
}

/* A worker that has begun and not finished, and whose heartbeat differs from the previous look, if there was one. */
static bool one_beats(const double (*found)[ROW], const double *before)
{
	for (uint32_t i = 0; i < PEERS_LOOK_MIN; i++)
		if (found[i][BEAT] != 0 && found[i][CLOCK] < CLOCK_DONE && (!before || found[i][BEAT] != before[i]))
			return true;
	return false;
}

int train_peers_job_lives(const struct peers_options *options, const char *job, struct star_error *err)
{
	const uint64_t until_ns = clock_ns() + options->lease_us * 1000;
	double(*found)[ROW] = calloc(PEERS_LOOK_MIN, sizeof(*found)), *before = calloc(PEERS_LOOK_MIN, sizeof(*before));
	uint64_t *keys = calloc(PEERS_LOOK_MIN, sizeof(*keys)), told_ns = 0;
	char name[NAME_BYTES];
	struct star_table *table = NULL;
	unsigned pause_us = 0;
	int lives = -1, rc = 0;

	snprintf(name, sizeof(name), "%s/workers", job);
	if (!found || !before || !keys)
		rc = star_error_set(err, -ENOMEM, "no memory for the workers of another job");
	else if (!(table = star_lookup(options->cluster, name, options->deadline_us, err)))
		rc = err->code;
	for (uint64_t i = 0; rc == 0 && i < PEERS_LOOK_MIN; i++)
		keys[i] = i;
	for (bool first = true; rc == 0 && lives < 0; first = false) {
		rc = star_pull(table, keys, PEERS_LOOK_MIN, found, STAR_READ_ONLY, options->deadline_us, err);
		if (rc < 0)
			break;
		if (!one_beats(found, NULL) || clock_ns() >= until_ns)
			lives = 0;
		else if (!first && one_beats(found, before))
			lives = 1;
		for (uint32_t i = 0; first && i < PEERS_LOOK_MIN; i++)
			before[i] = found[i][BEAT];
		if (lives < 0 && train_peers_quiet(&told_ns))
			fprintf(stderr, "waiting until the workers of the job \"%s\" are known to be gone\n", job);
		if (lives < 0)
			train_peers_pause(&pause_us);
	}
	free(keys);
	free(before);
	free(found);
	return rc == -ENOENT ? 0 : rc < 0 ? rc : lives;
}

uint64_t train_peers_slowest(const struct peers *p, uint32_t *index)
{
	uint64_t least = UINT64_MAX;

	for (uint32_t i = 0; i < p->options.count; i++) {
		/* A clock was written by a worker, or by anybody. */
		const double clock = p->peers[i].clock;
		const uint64_t steps = clock > 0 && clock < CLOCK_DONE ? (uint64_t)clock : 0;

		if (i == p->options.index || !train_peers_lives(p, i) || steps >= least)
			continue;
		least = steps;
		if (index)
			*index = i;
	}
	return least;
}

void train_peers_pause(unsigned *pause_us)
{
	struct timespec pause = { 0 };

	*pause_us = *pause_us == 0 ? PAUSE_MIN_US : *pause_us * 2 < PAUSE_MAX_US ? *pause_us * 2 : PAUSE_MAX_US;
	pause.tv_nsec = (long)*pause_us * 1000;
	nanosleep(&pause, NULL);
}

bool train_peers_quiet(uint64_t *told_ns)
{
	const uint64_t now_ns = clock_ns();

	if (*told_ns == 0)
		*told_ns = now_ns;
	if (now_ns - *told_ns < TELL_S * UINT64_C(1000000000))
		return false;
	*told_ns = now_ns;
	return true;
}

/* The others are further ahead than they could be of a live worker. */
static int catch_up(struct peers *p, uint64_t staleness, uint64_t *clock, struct star_error *err)
{
	if (p->slowest == UINT64_MAX || p->slowest <= staleness + 1 || *clock >= p->slowest - staleness - 1)
		return 0;
	*clock = p->slowest;
	return train_peers_set_clock(p, *clock, err);
}

static bool may_begin(const struct peers *p, uint64_t staleness, uint64_t clock)
{
	return p->looked_ns && (p->slowest >= clock || clock - p->slowest <= staleness);
}

int train_peers_await(struct peers *p, uint64_t staleness, uint64_t *clock, uint64_t until_ns, struct star_error *err)
{
	uint64_t told_ns = 0;
	unsigned pause_us = 0;

	/* Clocks only increase, and a worker that joins late continues with those of the others: so what was sufficient
	 * at the last look still is. */
	while (!may_begin(p, staleness, *clock)) {
		uint32_t behind = 0;
		int rc = train_peers_look(p, err);

		if (rc == 0)
			rc = catch_up(p, staleness, clock, err);
		if (rc < 0)
			return rc;
		if (may_begin(p, staleness, *clock))
			return 0;
		train_peers_slowest(p, &behind);
		if (clock_ns() >= until_ns)
			return star_error_set(err, -ETIME,
					      "worker %u is alive and at step %" PRIu64 ", this one at %" PRIu64
					      ": the wait for it has timed out",
					      behind, p->slowest, *clock);
		if (train_peers_quiet(&told_ns))
			fprintf(stderr, "step %" PRIu64 ": waiting for worker %u, which is at step %" PRIu64 "\n",
				*clock, behind, p->slowest);
		train_peers_pause(&pause_us);
	}
	return 0;
}
