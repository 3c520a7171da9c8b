/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/system/star-sync/hold.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/star.h"

struct hold hold;

/* What a call is, by its operations, and how much of it is done when the worker stops. A session pushes and pulls at
 * once in rounds' rows alone, and commits and pulls in one call where it decides about a round. */
enum kind { OTHER, TICKET, GRADIENTS, DONE, KEEP, DROP, COMMIT, OPEN };
enum when { BEFORE, HALF, AFTER };

static const struct point {
	const char *name;
	enum kind kind;
	enum when when;
} points[] = {
	{ "ticket", TICKET, AFTER },	  /* it may push, and has not */
	{ "gradients", GRADIENTS, HALF }, /* some of its gradients have arrived */
	{ "pushed", DONE, BEFORE },	  /* all have, and it has not said so */
	{ "done", DONE, AFTER },	  /* it has */
	{ "complete", KEEP, BEFORE },	  /* leaders: all gradients are there */
	{ "kept", KEEP, AFTER },	  /* it is decided that they are committed, and nothing is */
	{ "stuck", DROP, BEFORE },	  /* a gradient is missing, and its worker has died */
	{ "dropped", DROP, AFTER },	  /* it is decided that they are thrown away, and nothing is */
	{ "half", COMMIT, HALF },	  /* some sums are applied */
	{ "committed", COMMIT, AFTER },	  /* all are, and the next round is not begun */
	{ "open-half", OPEN, HALF },	  /* some sums are thrown away */
	{ "opened", OPEN, AFTER },
};

/* The first of a list of points. */
static const struct point *first_of(const char *list)
{
	for (unsigned i = 0; i < sizeof(points) / sizeof(points[0]); i++)
		if (strlen(points[i].name) == strcspn(list, ",") && !strncmp(points[i].name, list, strcspn(list, ",")))
			return &points[i];
	return NULL;
}

static const char *rest_of(const char *list)
{
	list += strcspn(list, ",");
	return *list ? list + 1 : NULL;
}

int hold_parse(const char *list)
{
	for (; list; list = rest_of(list))
		if (!first_of(list))
			return -EINVAL;
	return 0;
}

static enum kind kind_of(const struct star_op *op, uint32_t count)
{
	if (op->kind == STAR_COMMIT && op[count - 1].kind == STAR_PULL)
		return op->flags & STAR_OPEN ? DROP : KEEP;
	if (op->kind == STAR_COMMIT)
		return op->flags & STAR_OPEN ? OPEN : COMMIT;
	if (op->flags & STAR_ACCUMULATE)
		return GRADIENTS;
	if (op->kind == STAR_PUSH_PULL)
		return ((const double *)op->values)[0] < 0 ? TICKET : DONE;
	return OTHER;
}

/* The point, if the worker is to stop at this call. */
static const struct point *point_at(const struct star_op *ops, uint32_t count)
{
	const struct point *point = hold.point && hold.made >= hold.step ? first_of(hold.point) : NULL;

	return point && point->kind == kind_of(ops, count) ? point : NULL;
}

static void stop(void)
{
	printf("held at %s\n", first_of(hold.point)->name);
	fflush(stdout);
	hold.point = rest_of(hold.point);
	raise(SIGSTOP);
}

int __real_star_execute(struct star_cluster *cluster, struct star_op *ops, uint32_t count, uint64_t deadline_us,
			struct star_error *err);
struct star_request *__real_star_execute_async(struct star_cluster *cluster, const struct star_op *ops, uint32_t count,
					       uint64_t deadline_us, star_done *done, void *arg,
					       struct star_error *err);
int __wrap_star_execute(struct star_cluster *cluster, struct star_op *ops, uint32_t count, uint64_t deadline_us,
			struct star_error *err);
struct star_request *__wrap_star_execute_async(struct star_cluster *cluster, const struct star_op *ops, uint32_t count,
					       uint64_t deadline_us, star_done *done, void *arg,
					       struct star_error *err);

int __wrap_star_execute(struct star_cluster *cluster, struct star_op *ops, uint32_t count, uint64_t deadline_us,
			struct star_error *err)
{
	const struct point *point = point_at(ops, count);
	const uint32_t first = !point || point->when == AFTER ? count : point->when == BEFORE ? 0 : count / 2;
	int rc = first ? __real_star_execute(cluster, ops, first, deadline_us, err) : 0;

	if (rc < 0 || !point)
		return rc;
	if (point->kind == TICKET && *(const double *)ops->results > hold.need)
		return rc;
	stop();
	return first < count ? __real_star_execute(cluster, ops + first, count - first, deadline_us, err) : rc;
}

/* Of gradients alone; those before the stop have arrived at it. */
struct star_request *__wrap_star_execute_async(struct star_cluster *cluster, const struct star_op *ops, uint32_t count,
					       uint64_t deadline_us, star_done *done, void *arg, struct star_error *err)
{
	const uint32_t first = point_at(ops, count) ? count / 2 : 0;

	if (first) {
		struct star_op some[8];

		if (first > sizeof(some) / sizeof(some[0]))
			abort();
		memcpy(some, ops, first * sizeof(*ops));
		if (__real_star_execute(cluster, some, first, deadline_us, err) < 0)
			return NULL;
		stop();
	}
	return __real_star_execute_async(cluster, ops + first, count - first, deadline_us, done, arg, err);
}
