/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/remote.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "client/star.h"
#include "offload/compile.h"
#include "offload/template.h"
#include "train/objects.h"
#include "train/dedup.h"
#include "train/narrow.h"

struct remote {
	struct graph_ps ps; /* must be first */
	struct remote_options options;
	struct remote_update *updates;
	uint32_t updates_count;
	atomic_uint_least64_t tag; /* the last tag of what a step keeps on PS tasks */
};

/* An operation of a part: a pull, push, ..., or a program's run. */
struct item {
	struct request_template template;
	const struct graph_node *node;
	const struct compiled *compiled; /* of a run; or NULL */
	struct star_program *program;
	bool dedup;	     /* its ids may be deduplicated */
	uint64_t sums_bytes; /* maximum size of gradients that are summed here */
	struct narrow_rows narrow;
};

struct remote_part {
	struct item *items;
	uint32_t count;
	struct token *idle; /* under the lock */
};

/* The state of a call while it is in flight; it is reused by later calls. */
struct token {
	struct token *next;
	struct remote_part *part;
	struct star_op *ops;
	struct star_request **requests;
	uint32_t requests_count;
	uint32_t ops_count; /* operations that `wait` has to execute */
	struct template_step step;
	struct compiled_run *runs; /* for items that are runs */
	bool *ran;
	const struct dedup **dedup; /* for items whose ids were deduplicated; or NULL */
	float **sums;
	struct narrow_call *narrow; /* for items whose rows are sent in another type */
};

struct prepared {
	struct star_table **tables; /* by node: the table of a handle */
	struct remote_part *parts;
	uint32_t parts_count;
	bool each;			     /* each operation is a separate call */
	struct dedup *dedup;		     /* protected by the lock; an entry belongs to its run */
	const struct compile_plan *compiled; /* the cut's; or */
	struct compile_plan *own;
	pthread_mutex_t lock;
	struct compiled_left **left; /* by run; protected by the lock */
	uint32_t left_count;
};

/* ---- parts ---- */

static const struct compiled *compiled_at(const struct compiled *list, const uint32_t *in, uint32_t i,
					  const struct graph_node *node)
{
	return in[i] && list[in[i] - 1].after == node->id ? &list[in[i] - 1] : NULL;
}

/* Whether rows of these ids are summed by bags, which star_server_lite lets PS tasks do: then ids are not deduplicated
 * with star_server either, because star_server_lite must never send more. */
static bool are_bags(const struct graph *graph, struct graph_value ids)
{
	for (uint32_t n = 0; n < graph->nodes_count; n++) {
		const struct graph_node *bag = graph->nodes[n], *rows;

		if (bag->op != GRAPH_SEGMENT_SUM && bag->op != GRAPH_SEGMENT_MEAN && bag->op != GRAPH_SEGMENT_SQRTN)
			continue;
		rows = graph->nodes[bag->inputs[0].node];
		if (rows->op == GRAPH_LOOKUP && graph_same(rows->inputs[1], ids))
			return true;
	}
	return false;
}

/*
 * Whether deduplicating the ids of an operation changes nothing but bytes: not if occurrences are counted, or if each
 * gradient is checked.
 */
static bool may_deduplicate(const struct graph_ps_plan *plan, const struct request_template *d)
{
	static const char *const counted[] = { "filter", "full", "nonfinite" };
	const struct graph_node *node;

	if (d->keys == TEMPLATE_NOT_THERE || d->handle == TEMPLATE_NOT_THERE)
		return false;
	for (node = plan->graph->nodes[d->handle]; node->op == GRAPH_IDENTITY;)
		node = plan->graph->nodes[node->inputs[0].node];
	for (unsigned i = 0; i < sizeof(counted) / sizeof(counted[0]); i++)
		if (graph_attr(node, counted[i]))
			return false;
	return node->op == GRAPH_TABLE && !strcmp(graph_attr_string(node, "dtype", "float32"), "float32") &&
	       (d->op.kind == STAR_PULL || d->op.kind == STAR_PUSH);
}

static void set_once(const struct graph_ps_plan *plan, const struct graph_part *from, struct item *item)
{
	const struct request_template *d = &item->template;

	item->dedup = may_deduplicate(plan, d) && !are_bags(plan->graph, from->feeds[d->keys]);
	if (!item->dedup || d->op.kind != STAR_PUSH)
		return;
	item->dedup = d->values != TEMPLATE_NOT_THERE;
	if (item->dedup)
		item->sums_bytes = graph_type_bytes(graph_ps_type(plan, from->feeds[d->values]));
}

/* Operations in the nodes' order; a compiled component is one operation, at the position of its lookup or update. */
static int make_items(const struct remote *remote, const struct graph_ps_plan *plan, struct prepared *p, uint32_t index,
		      struct star_error *err)
{
	const uint32_t *in = p->compiled->parts[index].in;
	const struct graph_part *from = &plan->parts[index];
	struct remote_part *part = &p->parts[index];
	int rc = 0;

	for (uint32_t i = 0; rc >= 0 && i < from->nodes_count; i++) {
		const struct graph_node *node = plan->graph->nodes[from->nodes[i]];
		struct item *item = &part->items[part->count];

		item->node = node;
		item->compiled = compiled_at(p->compiled->parts[index].list, in, i, node);
		if (item->compiled && remote->options.admit &&
		    (node->op == GRAPH_APPLY_ROWS || node->op == GRAPH_APPLY))
			return star_error_set(err, -ENOTSUP,
					      "node \"%s\": its gradients are computed on a PS task, and a synchronous "
					      "job's are summed there: give its inputs the device /job:worker",
					      node->name);
		if (item->compiled) {
			item->program = offload_compile_register(item->compiled, remote->options.cluster,
								 p->tables[item->compiled->handle],
								 remote->options.deadline_us, err);
			rc = item->program ? 1 : err->code;
		} else if (!in[i]) {
			rc = offload_template_node(plan, from, node, &item->template, err);
			if (rc > 0 && item->template.handle != TEMPLATE_NOT_THERE)
				item->template.op.table = p->tables[item->template.handle];
			if (rc > 0) {
				set_once(plan, from, item);
				train_narrow_set(&item->narrow, remote->options.wire, plan, from, &item->template);
			}
		} else {
			continue;
		}
		part->count += rc > 0;
	}
	return rc < 0 ? rc : 0;
}

static int prepare_part(const struct remote *remote, const struct graph_ps_plan *plan, struct prepared *p,
			uint32_t index, struct star_error *err)
{
	struct remote_part *part = &p->parts[index];

	if (plan->parts[index].place == GRAPH_PLACE_WORKER)
		return 0;
	part->items = calloc(plan->parts[index].nodes_count, sizeof(*part->items));
	return part->items ? make_items(remote, plan, p, index, err)
			   : star_error_set(err, -ENOMEM, "no memory for a plan");
}

static int make_objects(const struct remote *remote, const struct graph *graph, struct prepared *p,
			struct star_error *err)
{
	for (uint32_t i = 0; i < graph->nodes_count; i++) {
		const struct graph_node *node = graph->nodes[i];

		if (!node->outputs_count || node->outputs[0].dtype != 0)
			continue;
		p->tables[i] = node->op == GRAPH_IDENTITY ? p->tables[node->inputs[0].node]
							  : train_objects_make(&remote->options, node, err);
		if (!p->tables[i])
			return err->code;
	}
	return 0;
}

static void free_token(struct token *token)
{
	for (uint32_t i = 0; token->runs && i < token->part->count; i++)
		free(token->runs[i].scratch);
	for (uint32_t i = 0; token->sums && i < token->part->count; i++)
		free(token->sums[i]);
	for (uint32_t i = 0; token->narrow && i < token->part->count; i++)
		free(token->narrow[i].memory);
	free(token->narrow);
	free(token->runs);
	free(token->ran);
	free(token->dedup);
	free(token->sums);
	free(token->ops);
	free(token->requests);
	free(token);
}

static void release_remote(void *ctx, void *prepared)
{
	struct prepared *p = prepared;

	(void)ctx;
	if (!p)
		return;
	for (uint32_t i = 0; p->parts && i < p->parts_count; i++) {
		for (struct token *token = p->parts[i].idle, *next; token; token = next) {
			next = token->next;
			free_token(token);
		}
		free(p->parts[i].items);
	}
	for (uint32_t i = 0; i < p->left_count; i++)
		offload_compiled_left_free(p->compiled, p->left[i]);
	free(p->left);
	offload_compile_free(p->own);
	free(p->parts);
	free(p->tables);
	train_dedup_free(p->dedup);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

static bool updates(const struct item *item)
{
	return !item->compiled && (item->template.op.kind == STAR_PUSH || item->template.op.kind == STAR_PUSH_PULL);
}

/*
 * A row's sum is divided by the number of contributions, so a worker may only add to it once per step, with all its
 * gradients for that row. For variables, blocks are counted, so a block must not contain several rows.
 */
static int check_by_row(const struct remote *remote, const struct graph_ps_plan *plan, const struct item *item,
			const struct remote_update *known, struct star_error *err)
{
	const struct graph_node *handle = plan->graph->nodes[item->template.handle];
	const struct star_table *table = item->template.op.table;

	if ((known && known->node != item->node) || plan->graph != remote->options.mean_by_row)
		return star_error_set(
			err, -ENOTSUP,
			"node \"%s\": with mean_by_row each table is updated in one place, and not in a loop "
			"or branch: combine the gradients first, as graph_train does",
			item->node->name);
	if (star_blocks(table) && star_blocks(table) % (uint64_t)handle->outputs[0].shape.dims[0])
		return star_error_set(
			err, -ENOTSUP,
			"node \"%s\": several rows of variable \"%s\" share a block, and with mean_by_row each "
			"is divided by its own contributors: make it a table",
			item->node->name, handle->name);
	return 0;
}

static bool is_by_row(const struct remote *remote, const struct item *item)
{
	return remote->options.mean_by_row && item->node->op == GRAPH_APPLY_ROWS;
}

static struct remote_update *find_update(struct remote *remote, const struct star_table *table)
{
	for (uint32_t u = 0; u < remote->updates_count; u++)
		if (remote->updates[u].table == table)
			return &remote->updates[u];
	return NULL;
}

static const struct graph_node *handle_of(const struct graph_ps_plan *plan, const struct item *item)
{
	const struct graph_node *node = plan->graph->nodes[item->template.handle];

	while (node->op == GRAPH_IDENTITY)
		node = plan->graph->nodes[node->inputs[0].node];
	return node;
}

/* Lists each table once, with what its updates have in common. */
static int list_updates(struct remote *remote, const struct graph_ps_plan *plan, const struct prepared *p,
			struct star_error *err)
{
	uint32_t count = remote->updates_count + 1;
	struct remote_update *more;

	for (uint32_t i = 0; i < p->parts_count; i++)
		count += p->parts[i].count;
	more = realloc(remote->updates, count * sizeof(*more));
	if (!more)
		return star_error_set(err, -ENOMEM, "no memory for a plan");
	remote->updates = more;
	for (uint32_t i = 0; i < p->parts_count; i++)
		for (uint32_t k = 0; k < p->parts[i].count; k++) {
			const struct item *item = &p->parts[i].items[k];
			const struct star_op *op = &item->template.op;
			const struct remote_update *known = find_update(remote, op->table);

			if (!updates(item))
				continue;
			if ((is_by_row(remote, item) || (remote->options.mean_by_row && known && known->by_ids)) &&
			    check_by_row(remote, plan, item, known, err) < 0)
				return err->code;
			if (!known)
				remote->updates[remote->updates_count++] =
					(struct remote_update){ .table = op->table,
								.name = handle_of(plan, item)->name,
								.has_rate = op->flags & STAR_RATE,
								.rate = op->rate,
								.counter = op->kind == STAR_PUSH_PULL,
								.by_ids = item->node->op == GRAPH_APPLY_ROWS,
								.node = item->node };
		}
	return 0;
}

static int find_compiled(const struct graph_ps_plan *plan, struct prepared *p, struct star_error *err)
{
	p->compiled = offload_compile_found(plan);
	if (!p->compiled)
		p->compiled = p->own = offload_compile_parts(plan, err);
	return p->compiled ? 0 : err->code;
}

static int prepare_remote(void *ctx, const struct graph_ps_plan *plan, void **prepared, struct star_error *err)
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
	if (rc == 0)
		rc = find_compiled(plan, p, err);
	for (uint32_t i = 0; rc == 0 && i < plan->parts_count; i++)
		rc = prepare_part(remote, plan, p, i, err);
	if (rc == 0)
		rc = list_updates((struct remote *)ctx, plan, p, err);
	if (rc < 0)
		release_remote(ctx, p);
	else
		*prepared = p;
	return rc;
}

uint32_t train_remote_updates(const struct graph_ps *ps, const struct remote_update **list)
{
	const struct remote *remote = (const struct remote *)ps;

	*list = remote->updates;
	return remote->updates_count;
}

/* ---- calls ---- */

static struct token *make_token(struct remote_part *part)
{
	const uint32_t count = part->count ? part->count : 1;
	struct token *token = calloc(1, sizeof(*token));
	bool good;

	if (!token)
		return NULL;
	token->part = part;
	token->ops = calloc(count, sizeof(*token->ops));
	token->requests = calloc(count, sizeof(struct star_request *));
	token->runs = calloc(count, sizeof(*token->runs));
	token->ran = calloc(count, sizeof(*token->ran));
	token->dedup = calloc(count, sizeof(struct dedup *));
	token->sums = calloc(count, sizeof(float *));
	token->narrow = calloc(count, sizeof(*token->narrow));
	good = token->ops && token->requests && token->runs && token->ran && token->dedup && token->sums &&
	       token->narrow;
	for (uint32_t i = 0; good && i < part->count; i++) {
		if (part->items[i].sums_bytes) {
			token->sums[i] = malloc(part->items[i].sums_bytes);
			good = token->sums[i] != NULL;
		}
		if (good && part->items[i].narrow.bytes) {
			token->narrow[i].memory = malloc(part->items[i].narrow.bytes);
			good = token->narrow[i].memory != NULL;
		}
		if (!good || !part->items[i].compiled || !part->items[i].compiled->scratch_bytes)
			continue;
		token->runs[i].scratch = malloc(part->items[i].compiled->scratch_bytes);
		good = token->runs[i].scratch != NULL;
	}
	if (good)
		return token;
	free_token(token);
	return NULL;
}

static struct token *take_token(struct prepared *p, struct remote_part *part)
{
	struct token *token;

	pthread_mutex_lock(&p->lock);
	token = part->idle;
	if (token)
		part->idle = token->next;
	pthread_mutex_unlock(&p->lock);
	if (token)
		return token;
	return make_token(part);
}

static void give_token(struct prepared *p, struct token *token)
{
	pthread_mutex_lock(&p->lock);
	token->next = token->part->idle;
	token->part->idle = token;
	pthread_mutex_unlock(&p->lock);
}

/* Gradients are pushed to sums, and one worker counts the step. False: this one is too late for both. */
static bool to_sums(const struct remote_round *round, struct star_op *op)
{
	bool goes = round->tag != 0;

	if (op->kind == STAR_PUSH_PULL) {
		*(double *)op->results = round->global_step;
		op->kind = STAR_PUSH;
		op->results = NULL;
		goes &= round->counts;
	}
	op->flags = STAR_ACCUMULATE | (op->flags & STAR_SCALE);
	op->tag = round->tag;
	op->rate = 0;
	return goes;
}

/* 0: the part's gradients are applied, or it has none; 1: they are pushed to *round's sums, or dropped. */
static int ask_admission(const struct remote *remote, const struct remote_part *part, struct remote_round *round,
			 struct star_error *err)
{
	bool any = false;

	for (uint32_t i = 0; remote->options.admit && i < part->count; i++)
		any |= updates(&part->items[i]);
	if (!any)
		return 0;
	return remote->options.admit(remote->options.arg, round, err) < 0 ? err->code : 1;
}

/* What the steps of a run keep on PS tasks; NULL: nothing, or out of memory. Only that run's thread uses it. */
static struct compiled_left *left_of(struct prepared *p, uint32_t run)
{
	struct compiled_left *left = NULL, **more;

	if (p->compiled->groups_count == 0)
		return NULL;
	pthread_mutex_lock(&p->lock);
	if (run >= p->left_count) {
		more = realloc(p->left, (run + UINT64_C(1)) * sizeof(*more));
		for (uint32_t i = p->left_count; more && i <= run; i++)
			more[i] = NULL;
		p->left = more ? more : p->left;
		p->left_count = more ? run + 1 : p->left_count;
	}
	if (run < p->left_count) {
		if (!p->left[run])
			p->left[run] = calloc(p->compiled->groups_count, sizeof(*left));
		left = p->left[run];
	}
	pthread_mutex_unlock(&p->lock);
	return left;
}

/* The operation of an item: 1; 0: it has nothing to do; or a negative errno. */
static int fill_remote_op(struct remote *remote, struct prepared *p, const struct item *item,
			  const struct graph_ps_call *call, struct compiled_left *left, struct token *token,
			  struct compiled_run *run, struct star_op *op, struct star_error *err)
{
	if (!item->compiled)
		return offload_template_fill(&item->template, call, &token->step, op, err);
	if (item->compiled->group && !left)
		return star_error_set(err, -ENOMEM, "no memory for a call");
	if (item->compiled->begins && offload_compiled_leave(p->compiled, item->compiled, call,
							     atomic_fetch_add(&remote->tag, 1) + 1, left, err) < 0)
		return err->code;
	return offload_compiled_fill(p->compiled, item->compiled, item->program, call, left, run, op, err);
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

/* Deduplicates the ids of the operation, if that is worthwhile. */
static void go_once(struct prepared *p, const struct graph_ps_call *call, struct token *token, uint32_t item,
		    struct star_op *op)
{
	const struct request_template *d = &token->part->items[item].template;
	const struct graph_value ids = call->plan->parts[call->part].feeds[d->keys];
	const uint64_t most = (uint64_t)graph_elements(&graph_ps_type(call->plan, ids)->shape);
	struct dedup *dedup = NULL;

	if (most <= UINT32_MAX / 4) {
		pthread_mutex_lock(&p->lock);
		dedup = train_dedup_get(&p->dedup, ids, call->run, (uint32_t)most);
		pthread_mutex_unlock(&p->lock);
	}
	if (!dedup || !train_dedup_find(dedup, op->keys, op->count))
		return;
	op->keys = dedup->keys;
	op->count = dedup->count;
	if (op->kind == STAR_PULL) {
		token->dedup[item] = dedup;
		return;
	}
	train_dedup_sum(dedup, op->values, (size_t)graph_elements(&call->feeds[d->values].type.shape) / dedup->n,
			token->sums[item]);
	op->values = token->sums[item];
}

static int start_remote_part(void *ctx, const struct graph_ps_call *call, void **result, struct star_error *err)
{
	struct remote *remote = ctx;
	struct prepared *p = call->prepared;
	struct compiled_left *left = left_of(p, call->run);
	const struct remote_part *part = &p->parts[call->part];
	struct token *token = take_token(p, &p->parts[call->part]);
	struct remote_round round = { 0 };
	uint32_t count = 0, step;
	int summed;

	if (!token)
		return star_error_set(err, -ENOMEM, "no memory for a call");
	summed = ask_admission(remote, part, &round, err);
	if (summed < 0) {
		give_token(p, token);
		return summed;
	}
	for (uint32_t i = 0; i < part->count; i++) {
		const struct item *item = &part->items[i];
		struct star_op *op = &token->ops[count];
		int rc = fill_remote_op(remote, p, item, call, left, token, &token->runs[i], op, err);

		if (rc > 0 && summed && updates(item) && !to_sums(&round, op))
			rc = 0;
		if (rc < 0) {
			give_token(p, token);
			return rc;
		}
		token->ran[i] = item->compiled && rc > 0;
		token->dedup[i] = NULL;
		if (rc > 0 && item->dedup && !summed)
			go_once(p, call, token, i, op);
		token->narrow[i].rows = NULL;
		if (rc > 0 && item->narrow.bytes)
			train_narrow_to_wire(&item->narrow, &token->narrow[i], op);
		count += (uint32_t)rc;
	}
	step = p->each ? 1 : count;
	*result = token;
	token->ops_count = call->waited_for && step == count && !remote->options.io_threads ? count : 0;
	if (token->ops_count) /* by this thread: an I/O thread would have to be woken for it, and then this thread
			       * for the reply */
		return 0;
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
	return 0;
}

static void expand_rows(const struct graph_ps_call *call, const struct request_template *d, const struct dedup *dedup)
{
	const struct graph_tensor *rows = &call->fetches[d->fetch];

	train_dedup_expand(dedup, rows->data, graph_type_bytes(&rows->type) / dedup->n);
}

static int wait_remote_part(void *ctx, const struct graph_ps_call *call, void *given, struct star_error *err)
{
	struct token *token = given;
	const struct remote *remote = ctx;
	const int rc = token->ops_count ? star_execute(remote->options.cluster, token->ops, token->ops_count,
						       remote->options.deadline_us, err)
					: wait_all(token, err);

	for (uint32_t i = 0; rc == 0 && i < token->part->count; i++) {
		if (token->ran[i])
			offload_compiled_finish(token->part->items[i].compiled, call, &token->runs[i]);
		if (token->narrow[i].rows)
			train_narrow_from_wire(&token->part->items[i].narrow, &token->narrow[i]);
		if (token->dedup[i])
			expand_rows(call, &token->part->items[i].template, token->dedup[i]);
	}
	give_token(call->prepared, token);
	if (rc != -EALREADY || !remote->options.admit)
		return rc;
	remote->options.refused(remote->options.arg);
	return 0;
}

struct graph_ps *train_remote_create(const struct remote_options *options)
{
	struct remote *remote = calloc(1, sizeof(*remote));

	if (!remote)
		return NULL;
	remote->options = *options;
	remote->ps = (struct graph_ps){ .ctx = remote,
					.prepare = prepare_remote,
					.release = release_remote,
					.start = start_remote_part,
					.wait = wait_remote_part };
	return &remote->ps;
}

void train_remote_destroy(struct graph_ps *ps)
{
	if (ps)
		free(((struct remote *)ps)->updates);
	free(ps);
}
