/* SPDX-License-Identifier: BSD-3-Clause */
/* The first losses of each model against those of the same model in PyTorch: golden.inc, which golden.py writes. */
#include <stdio.h>

#include "app/startrain/zoo/zoo.h"
#include "base/hash.h"
#include "graph/cut.h"
#include "graph/gradient.h"
#include "session/local.h"
#include "tests/models/cases.h"
#include "tests/unit.h"

/* As in golden.py. */
enum {
	STEPS = 100,
	BATCH = 16,
	DIM = 4,
	SEED = 7,
	DENSE = 3,
	FIELDS = 4,
	IDS = 20,
	HISTORY = 5,
	WINDOW = 6,
	CLASSES = 30,
	NEGATIVES = 3
};

static const double TOLERANCE = 1e-4; /* relative */

static const struct {
	const char *model, *optimizer;
	double rate;
	const char *dense_optimizer;
	double dense_rate;
	float losses[STEPS];
} vectors[] = {
#include "tests/models/golden.inc"
};

enum { VECTORS = sizeof(vectors) / sizeof(vectors[0]) };

static uint64_t draw(uint64_t step, uint64_t what, uint64_t i, uint64_t n)
{
	return hash_mix(hash_mix(step * 16 + what) + i) % n;
}

/* ---- batches ---- */

struct batch {
	float labels[BATCH], dense[BATCH][DENSE], near[BATCH][NEGATIVES + 1];
	float history_labels[BATCH];
	int64_t history_ids[BATCH][3], items[BATCH * HISTORY], categories[BATCH * HISTORY], others[BATCH * HISTORY];
	int64_t first[BATCH], lengths[BATCH], clicks;
	int32_t segments[BATCH * HISTORY];
	int64_t ids[BATCH][FIELDS], words[BATCH][WINDOW + 1], centers[BATCH], targets[BATCH][NEGATIVES + 1];
};

static int64_t category(int64_t item)
{
	return 3000 + item % 5;
}

static void fill_histories(struct batch *b, uint64_t step)
{
	b->clicks = 0;
	for (uint64_t row = 0; row < BATCH; row++) {
		const int64_t item = (int64_t)(2000 + draw(step, 9, row, IDS));

		b->history_ids[row][0] = (int64_t)(1000 + draw(step, 10, row, IDS));
		b->history_ids[row][1] = item;
		b->history_ids[row][2] = category(item);
		b->history_labels[row] = (float)(((uint64_t)item + (draw(step, 11, row, 8) == 0)) % 2);
		b->lengths[row] = (int64_t)draw(step, 12, row, HISTORY + 1);
		b->first[row] = b->clicks;
		for (uint64_t i = 0; i < (uint64_t)b->lengths[row]; i++, b->clicks++) {
			b->items[b->clicks] = (int64_t)(2000 + draw(step, 13, row * HISTORY + i, IDS));
			b->categories[b->clicks] = category(b->items[b->clicks]);
			b->segments[b->clicks] = (int32_t)row;
		}
	}
	for (uint64_t i = 0; i < (uint64_t)b->clicks; i++)
		b->others[i] = (int64_t)draw(step, 14, i, (uint64_t)b->clicks);
}

static void fill(struct batch *b, uint64_t step)
{
	fill_histories(b, step);
	for (uint64_t row = 0; row < BATCH; row++) {
		for (uint64_t i = 0; i < FIELDS; i++)
			b->ids[row][i] = (int64_t)(1000 * i + draw(step, 0, row * FIELDS + i, IDS));
		for (uint64_t i = 0; i < DENSE; i++)
			b->dense[row][i] = (float)((double)draw(step, 1, row * DENSE + i, 257) - 128) / 64;
		b->labels[row] = (float)((b->ids[row][0] + (draw(step, 2, row, 8) == 0)) % 2);

		b->words[row][0] = (int64_t)draw(step, 3, row, CLASSES);
		for (uint64_t i = 1; i <= WINDOW; i++) {
			const uint64_t at = row * (WINDOW + 1) + i;

			b->words[row][i] = draw(step, 4, at, 4) ? (3 * b->words[row][i - 1] + 1) % CLASSES
								: (int64_t)draw(step, 5, at, CLASSES);
		}

		b->centers[row] = (int64_t)draw(step, 6, row, CLASSES);
		b->targets[row][0] = (b->centers[row] + 1 + (int64_t)draw(step, 7, row, 2)) % CLASSES;
		b->near[row][0] = 1;
		for (uint64_t i = 0; i < NEGATIVES; i++) {
			b->targets[row][i + 1] = (int64_t)draw(step, 8, row * NEGATIVES + i, CLASSES);
			b->near[row][i + 1] = 0;
		}
	}
}

/* ---- models ---- */

enum { FEEDS = 8, CLICKS_FEEDS = 4 };

/* A model's graph, and the batch's parts that it is fed with. */
struct job {
	struct zoo_options options;
	struct graph *graph;
	struct batch batch;
	struct graph_plan_feed feeds[FEEDS];
	struct graph_tensor tensors[FEEDS];
	uint32_t feeds_count;
	uint32_t clicks_feed; /* the first of the CLICKS_FEEDS that have a row for each click; FEEDS: there are none */
};

static struct graph_value feed(struct job *j, const char *name, struct graph_type type, void *data)
{
	const uint32_t i = j->feeds_count++;

	j->feeds[i] = (struct graph_plan_feed){ name, type };
	j->tensors[i] = (struct graph_tensor){ type, data };
	type.shape.dims[0] = -1;
	return graph_feed(j->graph, name, type.dtype, type.shape.dims, type.shape.ndim);
}

static struct graph_value text_loss(struct job *j, struct zoo *zoo)
{
	struct zoo_text_inputs in = { .window = WINDOW, .negatives = NEGATIVES, .classes = CLASSES };
	struct graph_value predictions;

	if (j->options.model->kind == ZOO_WINDOWS) {
		in.words = feed(j, "words", zoo_type(STAR_INT64, 2, BATCH, WINDOW + 1), j->batch.words);
	} else {
		in.centers = feed(j, "centers", zoo_type(STAR_INT64, 1, BATCH, 0), j->batch.centers);
		in.targets = feed(j, "targets", zoo_type(STAR_INT64, 2, BATCH, NEGATIVES + 1), j->batch.targets);
		in.labels = feed(j, "labels", zoo_type(STAR_FLOAT32, 2, BATCH, NEGATIVES + 1), j->batch.near);
	}
	return j->options.model->text(zoo, &in, &predictions);
}

static struct graph_value feed_clicks(struct job *j, const char *name, unsigned dtype, void *data)
{
	return feed(j, name, zoo_type(dtype, 1, BATCH * HISTORY, 0), data);
}

static struct graph_value loss_of_histories(struct job *j, struct zoo *zoo)
{
	struct batch *b = &j->batch;
	struct zoo_inputs in = { .fields = 3 };
	struct graph_value loss;

	j->clicks_feed = j->feeds_count;
	in.clicks.items = feed_clicks(j, "items", STAR_INT64, b->items);
	in.clicks.categories = feed_clicks(j, "categories", STAR_INT64, b->categories);
	in.clicks.segments = feed_clicks(j, "segments", STAR_INT32, b->segments);
	in.clicks.others = feed_clicks(j, "others", STAR_INT64, b->others);
	in.clicks.first = feed(j, "first", zoo_type(STAR_INT64, 1, BATCH, 0), b->first);
	in.clicks.lengths = feed(j, "lengths", zoo_type(STAR_INT64, 1, BATCH, 0), b->lengths);
	in.labels = feed(j, "labels", zoo_type(STAR_FLOAT32, 1, BATCH, 0), b->history_labels);
	in.ids = feed(j, "ids", zoo_type(STAR_INT64, 2, BATCH, 3), b->history_ids);
	loss = graph_sigmoid_loss(j->graph, j->options.model->logits(zoo, &in), in.labels);
	return graph_is_none(zoo->auxiliary) ? loss : graph_plus(j->graph, loss, zoo->auxiliary);
}

static struct graph_value loss_of_rows(struct job *j, struct zoo *zoo)
{
	struct zoo_inputs in = { .dense_count = DENSE, .fields = FIELDS };

	in.labels = feed(j, "labels", zoo_type(STAR_FLOAT32, 1, BATCH, 0), j->batch.labels);
	in.ids = feed(j, "ids", zoo_type(STAR_INT64, 2, BATCH, FIELDS), j->batch.ids);
	in.dense = feed(j, "dense", zoo_type(STAR_FLOAT32, 2, BATCH, DENSE), j->batch.dense);
	return graph_sigmoid_loss(j->graph, j->options.model->logits(zoo, &in), in.labels);
}

static void build(struct job *j, unsigned v)
{
	struct zoo zoo = { .graph = graph_create(), .options = &j->options, .train = true, .auxiliary = GRAPH_NONE };
	struct graph_value loss;

	*j = (struct job){ .graph = zoo.graph, .clicks_feed = FEEDS };
	j->options = (struct zoo_options){
		.model = zoo_model_find(vectors[v].model),
		.dim = DIM,
		.history = HISTORY,
		.seed = SEED,
		.optimizer = vectors[v].optimizer,
		.rate = vectors[v].rate,
		.dense_optimizer = vectors[v].dense_optimizer,
		.dense_rate = vectors[v].dense_rate,
	};
	loss = j->options.model->kind != ZOO_ROWS ? text_loss(j, &zoo)
	       : j->options.model->history	  ? loss_of_histories(j, &zoo)
						  : loss_of_rows(j, &zoo);
	graph_train(j->graph, loss, NULL, NULL);
	graph_set_results(j->graph, &loss, 1);
}

/* ---- training ---- */

/* The greatest relative difference. */
static double follow(struct job *j, unsigned v, struct graph_run *run)
{
	struct star_error err = { 0 };
	double greatest = 0;

	for (unsigned step = 0; step < STEPS; step++) {
		const double wanted = (double)vectors[v].losses[step];
		struct graph_tensor loss;
		double found, far;

		fill(&j->batch, step);
		for (unsigned i = 0; j->clicks_feed < FEEDS && i < CLICKS_FEEDS; i++)
			j->tensors[j->clicks_feed + i].type.shape.dims[0] = j->batch.clicks;
		if (graph_run_step(run, step + 1, j->tensors, &loss, &err) < 0) {
			unit_fail(__FILE__, __LINE__, "%s, step %u: %s", vectors[v].model, step, err.text);
			break;
		}
		found = (double)*(const float *)loss.data;
		far = fabs(found - wanted) / wanted;
		greatest = fmax(greatest, far);
		if (!(far <= TOLERANCE)) {
			unit_fail(__FILE__, __LINE__, "%s by %s, loss %u: %.9g, not %.9g", vectors[v].model,
				  vectors[v].optimizer, step, found, wanted);
			break;
		}
	}
	return greatest;
}

/* The same. */
static double train(unsigned v, enum graph_protocol protocol)
{
	const struct graph_cut_options how = { .protocol = protocol, .ps_tasks = 1, .stay = true };
	struct star_error err = { 0 };
	struct graph_ps *ps = local_create(&err);
	struct graph_plan_options options = { .ps = ps };
	struct graph_plan *plan = NULL;
	struct graph_run *run = NULL;
	struct graph_cut *cut;
	double greatest = 0;
	struct job job;

	build(&job, v);
	options.feeds = job.feeds;
	options.feeds_count = job.feeds_count;
	CHECK_INT(graph_error(job.graph, &err), 0);
	cut = graph_cut_create(job.graph, &how, &err);
	if (ps && cut)
		plan = graph_compile(job.graph, cut, &options, &err);
	if (plan)
		run = graph_run_create(plan, &err);
	if (run)
		greatest = follow(&job, v, run);
	else
		unit_fail(__FILE__, __LINE__, "%s: %s", vectors[v].model, err.text);
	graph_run_destroy(run);
	graph_plan_destroy(plan);
	graph_cut_destroy(cut);
	graph_destroy(job.graph);
	local_destroy(ps);
	local_forget();
	return greatest;
}

static void first_losses_are_those_of_pytorch(void)
{
	double greatest = 0;

	for (unsigned v = 0; v < VECTORS; v++)
		greatest = fmax(greatest, train(v, GRAPH_STAR_SERVER));
	printf("# at most %.2g from PyTorch's losses\n", greatest);
}

static void every_protocol_has_them(void)
{
	for (unsigned v = 0; v < VECTORS; v++)
		if (!strcmp(vectors[v].optimizer, "adam")) {
			train(v, GRAPH_GRPCPP);
			train(v, GRAPH_STAR_SERVER_LITE);
		}
}

static void every_model_has_vectors(void)
{
	for (const struct zoo_model *model = zoo_models; model->name; model++) {
		bool has = false;

		for (unsigned v = 0; v < VECTORS; v++)
			has |= !strcmp(vectors[v].model, model->name);
		if (!has)
			unit_fail(__FILE__, __LINE__, "golden.py lacks %s", model->name);
	}
}

const char *const unit_suite = "models";
const struct unit_case unit_cases[] = {
	{ "first losses are those of PyTorch", first_losses_are_those_of_pytorch },
	{ "every protocol has them", every_protocol_has_them },
	{ "every model has vectors", every_model_has_vectors },
	{ "windows follow one another", windows_follow_one_another },
	{ "workers share sentences", workers_share_sentences },
	{ "pairs are near each other", pairs_are_near_each_other },
	{ "a text without pairs is refused", a_text_without_pairs_is_refused },
	{ NULL, NULL },
};
