/* SPDX-License-Identifier: BSD-3-Clause */
#include "session/remote.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "client/star.h"

enum { OPTIONS_TEXT = 1024, NOT_THERE = UINT32_MAX, LOOK_MS = 100 };

struct remote {
	struct graph_ps ps; /* first */
	struct remote_options options;
	struct remote_update *updates;
	uint32_t updates_count;
};

/* An operation of a part, without a step's memory. */
struct draft {
	struct star_op op;
	uint32_t keys, values, fetch; /* which feed or fetch of the part it is; NOT_THERE: none */
};

struct part {
	struct draft *drafts;
	uint32_t count;
	struct token *idle; /* under the lock */
};

/* What a call needs while it is in flight; later ones use it again. */
struct token {
	struct token *next;
	struct part *part;
	struct star_op *ops;
	struct star_request **requests;
	uint32_t requests_count;
	double minus_one, counted; /* a step_add's gradient, and its result if nobody fetches it */
};

struct prepared {
	struct star_table **tables; /* by node: what a handle is of */
	struct part *parts;
	uint32_t parts_count;
	bool each; /* operation is a call of its own */
	pthread_mutex_t lock;
};

/* ---- variables and tables ---- */

/* What star_spec has no member for: "beta1=0.8,whole=1". */
static int options_text(const struct graph_node *node, char text[static OPTIONS_TEXT], struct star_error *err)
{
	static const char *const others[] = { "dtype", "shape",	    "dim",  "initializer", "scale",
					      "seed",  "optimizer", "rate", "trainable" };
	size_t used = 0;

	text[0] = 0;
	for (uint32_t i = 0; i < node->attrs_count; i++) {
		const struct graph_attr *attr = &node->attrs[i];
		const char *comma = used ? "," : "";
		bool other = false;
		int n;

		for (unsigned k = 0; k < sizeof(others) / sizeof(others[0]); k++)
			other |= !strcmp(attr->name, others[k]);
		if (other)
			continue;
		n = attr->kind == GRAPH_INT ? snprintf(text + used, OPTIONS_TEXT - used, "%s%s=%lld", comma, attr->name,
						       (long long)attr->i)
		    : attr->kind == GRAPH_FLOAT
			    ? snprintf(text + used, OPTIONS_TEXT - used, "%s%s=%.17g", comma, attr->name, attr->f)
		    : attr->kind == GRAPH_STRING && !strpbrk(attr->s, ",=") /* which would begin another option */
			    ? snprintf(text + used, OPTIONS_TEXT - used, "%s%s=%s", comma, attr->name, attr->s)
			    : -1;
		if (n < 0 || (size_t)n >= OPTIONS_TEXT - used)
			return star_error_set(err, -EINVAL, "node \"%s\": attribute %s is no option", node->name,
					      attr->name);
		used += (size_t)n;
	}
	return 0;
}

static struct star_table *create_object(const struct remote *remote, const struct graph_node *node,
					struct star_error *err)
{
	char options[OPTIONS_TEXT];
	uint64_t shape[GRAPH_DIMS_MAX];
	struct star_spec spec = {
		.name = node->name,
		.dtype = graph_attr_string(node, "dtype", NULL),
		.dim = (uint32_t)graph_attr_int(node, "dim", 0),
		.ndim = node->outputs[0].shape.ndim,
		.shape = shape,
		.initializer = graph_attr_string(node, "initializer", NULL),
		.scale = (float)graph_attr_float(node, "scale", 0),
		.seed = (uint64_t)graph_attr_int(node, "seed", 0),
		.optimizer = graph_attr_string(node, "optimizer", NULL),
		.rate = (float)graph_attr_float(node, "rate", 0),
		.options = options,
	};

	if (options_text(node, options, err) < 0)
		return NULL;
	for (unsigned i = 0; i < spec.ndim; i++)
		shape[i] = (uint64_t)node->outputs[0].shape.dims[i];
	if (node->op == GRAPH_VARIABLE && spec.ndim == 0) { /* a scalar is one element */
		spec.ndim = 1;
		shape[0] = 1;
	}
	return node->op == GRAPH_TABLE
		       ? star_table_create(remote->options.cluster, &spec, remote->options.deadline_us, err)
		       : star_variable_create(remote->options.cluster, &spec, remote->options.deadline_us, err);
}

/* Until somebody else has made it. */
static struct star_table *await_object(const struct remote *remote, const struct graph_node *node,
				       struct star_error *err)
{
	const struct timespec pause = { .tv_nsec = LOOK_MS * 1000000 };
	struct star_table *table;

	while (!(table = star_lookup(remote->options.cluster, node->name, remote->options.deadline_us, err)) &&
	       err->code == -ENOENT && clock_ns() < remote->options.until_ns)
		nanosleep(&pause, NULL);
	if (!table && err->code == -ENOENT)
		star_error_set(err, -ETIMEDOUT, "\"%s\" was not there in time: the chief (worker 0) makes it",
			       node->name);
	return table;
}

/* A waiting session takes what there is, if it is what its graph says: creating compares. */
static struct star_table *make_object(const struct remote *remote, const struct graph_node *node,
				      struct star_error *err)
{
	if (remote->options.wait && !await_object(remote, node, err))
		return NULL;
	return create_object(remote, node, err);
}

/* ---- parts ---- */

static uint32_t find(const struct graph_value *values, uint32_t count, struct graph_value value)
{
	for (uint32_t i = 0; i < count; i++)
		if (graph_same(values[i], value))
			return i;
	return NOT_THERE;
}

/* The feed that a node's input is; an error if it is made on the PS task itself. */
static int feed_of(const struct graph_part *part, const struct graph_node *node, uint32_t input, uint32_t *feed,
		   struct star_error *err)
{
	*feed = find(part->feeds, part->feeds_count, node->inputs[input]);
	if (*feed == NOT_THERE)
		return star_error_set(
			err, -ENOTSUP,
			"node \"%s\": its input %u is made on a PS task, and used there: let it come by the "
			"worker, through a node with the device /job:worker",
			node->name, input);
	return 0;
}

static int draft_node(const struct prepared *p, const struct graph_part *part, const struct graph_node *node,
		      struct draft *d, struct star_error *err)
{
	int rc = 0;

	*d = (struct draft){ .keys = NOT_THERE, .values = NOT_THERE, .fetch = NOT_THERE };
	/* What takes no handle has no table, or no input at all: refused below. */
	d->op.table = node->inputs_count ? p->tables[node->inputs[0].node] : NULL;
	d->op.rate = (float)graph_attr_float(node, "rate", 0);
	d->op.scale = (float)graph_attr_float(node, "scale", 0);
	if (node->outputs_count)
		d->fetch = find(part->fetches, part->fetches_count, (struct graph_value){ node->id, 0 });
	switch (node->op) {
	case GRAPH_READ:
		d->op.kind = STAR_PULL;
		break;
	case GRAPH_LOOKUP:
		d->op.kind = STAR_PULL;
		d->op.flags = graph_attr_int(node, "read_only", 0) ? STAR_READ_ONLY : 0;
		rc = feed_of(part, node, 1, &d->keys, err);
		break;
	case GRAPH_APPLY:
	case GRAPH_ASSIGN:
		d->op.kind = node->op == GRAPH_APPLY ? STAR_PUSH : STAR_ASSIGN;
		rc = feed_of(part, node, 1, &d->values, err);
		break;
	case GRAPH_APPLY_ROWS:
		d->op.kind = STAR_PUSH;
		rc = feed_of(part, node, 1, &d->keys, err);
		if (rc == 0)
			rc = feed_of(part, node, 2, &d->values, err);
		break;
	case GRAPH_STEP_ADD:
		d->op.kind = STAR_PUSH_PULL;
		d->op.dtype = "float64";
		break;
	default:
		rc = star_error_set(err, -ENOTSUP,
				    "node \"%s\": %s is not done on PS tasks: give it the device /job:worker",
				    node->name, graph_op_name(node->op));
	}
	return rc;
}

/* Nobody waits for what a pull without a fetch would bring. */
static bool is_needed(const struct draft *d)
{
	return d->op.kind != STAR_PULL || d->fetch != NOT_THERE;
}

static int draft_part(const struct graph_ps_plan *plan, struct prepared *p, uint32_t index, struct star_error *err)
{
	const struct graph_part *from = &plan->parts[index];
	struct part *part = &p->parts[index];

	if (from->place == GRAPH_PLACE_WORKER)
		return 0;
	part->drafts = calloc(from->nodes_count, sizeof(*part->drafts));
	if (!part->drafts)
		return star_error_set(err, -ENOMEM, "no memory for a plan");
	for (uint32_t i = 0; i < from->nodes_count; i++) {
		const struct graph_node *node = plan->graph->nodes[from->nodes[i]];
		struct draft *d = &part->drafts[part->count];
		int rc;

		if (node->outputs_count && node->outputs[0].dtype == 0) /* a handle */
			continue;
		rc = draft_node(p, from, node, d, err);
		if (rc < 0)
			return rc;
		part->count += is_needed(d);
	}
	return 0;
}

static int make_objects(const struct remote *remote, const struct graph *graph, struct prepared *p,
			struct star_error *err)
{
	for (uint32_t i = 0; i < graph->nodes_count; i++) {
		const struct graph_node *node = graph->nodes[i];

		if (!node->outputs_count || node->outputs[0].dtype != 0)
			continue;
		p->tables[i] =
			node->op == GRAPH_IDENTITY ? p->tables[node->inputs[0].node] : make_object(remote, node, err);
		if (!p->tables[i])
			return err->code;
	}
	return 0;
}

static void release(void *ctx, void *prepared)
{
	struct prepared *p = prepared;

	(void)ctx;
	if (!p)
		return;
	for (uint32_t i = 0; p->parts && i < p->parts_count; i++) {
		for (struct token *token = p->parts[i].idle, *next; token; token = next) {
			next = token->next;
			free(token->ops);
			free(token->requests);
			free(token);
		}
		free(p->parts[i].drafts);
	}
	free(p->parts);
	free(p->tables);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

/* Each table once: what its gradients share. */
static int list_updates(struct remote *remote, const struct prepared *p, struct star_error *err)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < p->parts_count; i++)
		count += p->parts[i].count;
	free(remote->updates);
	remote->updates = calloc(count ? count : 1, sizeof(*remote->updates));
	remote->updates_count = 0;
	if (!remote->updates)
		return star_error_set(err, -ENOMEM, "no memory for a plan");
	for (uint32_t i = 0; i < p->parts_count; i++)
		for (uint32_t k = 0; k < p->parts[i].count; k++) {
			const struct star_op *op = &p->parts[i].drafts[k].op;
			bool known = op->kind != STAR_PUSH && op->kind != STAR_PUSH_PULL;

			for (uint32_t u = 0; u < remote->updates_count; u++)
				known |= remote->updates[u].table == op->table;
			if (!known)
				remote->updates[remote->updates_count++] = (struct remote_update){
					.table = op->table, .rate = op->rate, .counter = op->kind == STAR_PUSH_PULL
				};
		}
	return 0;
}

static int prepare(void *ctx, const struct graph_ps_plan *plan, void **prepared, struct star_error *err)
{
	const struct remote *remote = ctx;
	struct prepared *p = calloc(1, sizeof(*p));
	int rc = 0;

	*prepared = NULL;
	if (!p)
		return star_error_set(err, -ENOMEM, "no memory for a plan");
	pthread_mutex_init(&p->lock, NULL);
	p->parts_count = plan->parts_count;
	p->parts = calloc(plan->parts_count, sizeof(*p->parts));
	p->tables = calloc(plan->graph->nodes_count, sizeof(struct star_table *));
	p->each = plan->cut && plan->cut->protocol == GRAPH_GRPCPP && !plan->cut->fuse;
	if (!p->parts || !p->tables)
		rc = star_error_set(err, -ENOMEM, "no memory for a plan");
	if (rc == 0)
		rc = make_objects(remote, plan->graph, p, err);
	for (uint32_t i = 0; rc == 0 && i < plan->parts_count; i++)
		rc = draft_part(plan, p, i, err);
	if (rc == 0)
		rc = list_updates((struct remote *)ctx, p, err);
	if (rc < 0)
		release(ctx, p);
	else
		*prepared = p;
	return rc;
}

uint32_t remote_updates(const struct graph_ps *ps, const struct remote_update **list)
{
	const struct remote *remote = (const struct remote *)ps;

	*list = remote->updates;
	return remote->updates_count;
}

/* ---- calls ---- */

static struct token *take_token(struct prepared *p, struct part *part)
{
	struct token *token;

	pthread_mutex_lock(&p->lock);
	token = part->idle;
	if (token)
		part->idle = token->next;
	pthread_mutex_unlock(&p->lock);
	if (token)
		return token;
	token = calloc(1, sizeof(*token));
	if (!token)
		return NULL;
	token->part = part;
	token->ops = calloc(part->count ? part->count : 1, sizeof(*token->ops));
	token->requests = calloc(part->count ? part->count : 1, sizeof(struct star_request *));
	token->minus_one = -1;
	if (token->ops && token->requests)
		return token;
	free(token->ops);
	free(token->requests);
	free(token);
	return NULL;
}

static void give_token(struct prepared *p, struct token *token)
{
	pthread_mutex_lock(&p->lock);
	token->next = token->part->idle;
	token->part->idle = token;
	pthread_mutex_unlock(&p->lock);
}

/* Gradients go to sums, and one worker counts the step. False: this one has come too late for both. */
static bool to_sums(const struct remote_round *round, struct star_op *op)
{
	bool goes = round->tag != 0;

	if (op->kind == STAR_PUSH_PULL) {
		*(double *)op->results = round->global_step;
		op->kind = STAR_PUSH;
		op->results = NULL;
		goes &= round->counts;
	}
	op->flags = STAR_ACCUMULATE;
	op->tag = round->tag;
	op->rate = 0;
	return goes;
}

static bool updates(const struct draft *d)
{
	return d->op.kind == STAR_PUSH || d->op.kind == STAR_PUSH_PULL;
}

/* 0: the part's gradients are applied, or it has none; 1: they go to *round's sums, or nowhere. */
static int ask(const struct remote *remote, const struct part *part, struct remote_round *round, struct star_error *err)
{
	bool any = false;

	for (uint32_t i = 0; remote->options.admit && i < part->count; i++)
		any |= updates(&part->drafts[i]);
	if (!any)
		return 0;
	return remote->options.admit(remote->options.arg, round, err) < 0 ? err->code : 1;
}

/* The operation with this step's memory: 1; 0: it has no keys, so there is nothing to do; or -E2BIG. */
static int fill_op(const struct graph_ps_call *call, struct token *token, const struct draft *d, struct star_op *op,
		   struct star_error *err)
{
	*op = d->op;
	op->step = call->step;
	if (d->keys != NOT_THERE) {
		const struct graph_tensor *keys = &call->feeds[d->keys];

		op->keys = keys->data;
		if (graph_elements(&keys->type.shape) > UINT32_MAX)
			return star_error_set(err, -E2BIG, "%lld ids: an operation has 2^32 - 1 at most",
					      (long long)graph_elements(&keys->type.shape));
		op->count = (uint32_t)graph_elements(&keys->type.shape);
		if (op->count == 0)
			return 0;
	}
	if (d->values != NOT_THERE)
		op->values = call->feeds[d->values].data;
	else if (op->kind == STAR_PUSH_PULL)
		op->values = &token->minus_one;
	if (op->kind == STAR_PUSH_PULL)
		op->results = d->fetch != NOT_THERE ? call->fetches[d->fetch].data : &token->counted;
	else if (d->fetch != NOT_THERE)
		op->values = call->fetches[d->fetch].data;
	if (!op->dtype)
		op->dtype = dtype_name(d->values != NOT_THERE ? call->feeds[d->values].type.dtype
							      : call->fetches[d->fetch].type.dtype);
	return 1;
}

static int wait_all(struct token *token, struct star_error *err)
{
	int rc = 0;

	for (uint32_t i = 0; i < token->requests_count; i++) {
		struct star_error other;
		const int status = star_request_wait(token->requests[i], rc == 0 ? err : &other);

		rc = rc == 0 ? status : rc;
	}
	token->requests_count = 0;
	return rc;
}

static int start(void *ctx, const struct graph_ps_call *call, void **result, struct star_error *err)
{
	const struct remote *remote = ctx;
	struct prepared *p = call->prepared;
	const struct part *part = &p->parts[call->part];
	struct token *token = take_token(p, &p->parts[call->part]);
	struct remote_round round = { 0 };
	uint32_t count = 0, step;
	int summed;

	if (!token)
		return star_error_set(err, -ENOMEM, "no memory for a call");
	summed = ask(remote, part, &round, err);
	if (summed < 0) {
		give_token(p, token);
		return summed;
	}
	for (uint32_t i = 0; i < part->count; i++) {
		int rc = fill_op(call, token, &part->drafts[i], &token->ops[count], err);

		if (rc > 0 && summed && updates(&part->drafts[i]) && !to_sums(&round, &token->ops[count]))
			rc = 0;

		if (rc < 0) {
			give_token(p, token);
			return rc;
		}
		count += (uint32_t)rc;
	}
	step = p->each ? 1 : count;
	for (uint32_t i = 0; i < count; i += step) {
		struct star_request *request = star_execute_async(remote->options.cluster, &token->ops[i], step,
								  remote->options.deadline_us, NULL, NULL, err);

		if (!request) {
			const int rc = err->code;
			struct star_error other;

			wait_all(token, &other);
			give_token(p, token);
			return rc;
		}
		token->requests[token->requests_count++] = request;
	}
	*result = token;
	return 0;
}

static int wait(void *ctx, const struct graph_ps_call *call, void *given, struct star_error *err)
{
	struct token *token = given;
	const struct remote *remote = ctx;
	const int rc = wait_all(token, err);

	give_token(call->prepared, token);
	if (rc != -EALREADY || !remote->options.admit)
		return rc;
	remote->options.refused(remote->options.arg);
	return 0;
}

struct graph_ps *remote_create(const struct remote_options *options)
{
	struct remote *remote = calloc(1, sizeof(*remote));

	if (!remote)
		return NULL;
	remote->options = *options;
	remote->ps = (struct graph_ps){
		.ctx = remote, .prepare = prepare, .release = release, .start = start, .wait = wait
	};
	return &remote->ps;
}

void remote_destroy(struct graph_ps *ps)
{
	if (ps)
		free(((struct remote *)ps)->updates);
	free(ps);
}
