/* SPDX-License-Identifier: BSD-3-Clause */
#include "exec/exec.h"
#include "tests/models/job.h"

#include "base/hash.h"
#include "graph/gradient.h"

static uint64_t draw(uint64_t step, uint64_t what, uint64_t i, uint64_t n)
{
	return hash_mix(hash_mix(step * 16 + what) + i) % n;
}

/* ---- batches ---- */

static int64_t category(int64_t item)
{
	return 3000 + item % 5;
}

static void fill_histories(struct batch *b, uint64_t step, bool full)
{
	b->clicks = 0;
	for (uint64_t row = 0; row < BATCH; row++) {
		const int64_t item = (int64_t)(2000 + draw(step, 9, row, IDS));

		b->history_ids[row][0] = (int64_t)(1000 + draw(step, 10, row, IDS));
		b->history_ids[row][1] = item;
		b->history_ids[row][2] = category(item);
		b->history_labels[row] = (float)(((uint64_t)item + (draw(step, 11, row, 8) == 0)) % 2);
		b->lengths[row] = full ? HISTORY : (int64_t)draw(step, 12, row, HISTORY + 1);
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

void job_fill(struct job *j, uint64_t step, bool full)
{
	struct batch *b = &j->batch;

	fill_histories(b, step, full);
	for (uint64_t row = 0; row < BATCH; row++) {
		for (uint64_t i = 0; i < FIELDS; i++)
			b->ids[row][i] = (int64_t)(1000 * i + draw(step, 0, row * FIELDS + i, IDS));
		for (uint64_t i = 0; i < DENSE; i++)
			b->dense[row][i] = (float)((double)draw(step, 1, row * DENSE + i, 257) - 128) / 64;
		b->labels[row] = (float)((b->ids[row][0] + (draw(step, 2, row, 8) == 0)) % 2);

		b->second_labels[row] = (float)((b->ids[row][1] + (draw(step, 15, row, 8) == 0)) % 2);

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
	for (unsigned i = 0; j->clicks_feed < FEEDS && i < CLICKS_FEEDS; i++)
		j->tensors[j->clicks_feed + i].type.shape.dims[0] = b->clicks;
}

/* ---- models ---- */

static struct graph_value feed(struct job *j, const char *name, struct graph_type type, void *data)
{
	const uint32_t i = j->feeds_count++;

	j->feeds[i] = (struct graph_plan_feed){ name, type };
	j->tensors[i] = (struct graph_tensor){ type, data };
	if (j->open)
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
	struct graph_value loss;

	in.labels = feed(j, "labels", zoo_type(STAR_FLOAT32, 1, BATCH, 0), j->batch.labels);
	in.ids = feed(j, "ids", zoo_type(STAR_INT64, 2, BATCH, FIELDS), j->batch.ids);
	in.dense = feed(j, "dense", zoo_type(STAR_FLOAT32, 2, BATCH, DENSE), j->batch.dense);
	if (j->options.model->tasks) {
		in.more_count = 1;
		in.more_labels[0] = feed(j, "labels/1", zoo_type(STAR_FLOAT32, 1, BATCH, 0), j->batch.second_labels);
	}
	loss = graph_sigmoid_loss(j->graph, j->options.model->logits(zoo, &in), in.labels);
	if (in.more_count)
		loss = graph_plus(j->graph, loss, graph_sigmoid_loss(j->graph, zoo->more_logits[0], in.more_labels[0]));
	return loss;
}

void job_build(struct job *j, const struct zoo_options *options, bool open)
{
	struct zoo zoo = { .graph = graph_create(), .options = &j->options, .train = true, .auxiliary = GRAPH_NONE };
	struct graph_value loss;

	*j = (struct job){ .options = *options, .graph = zoo.graph, .clicks_feed = FEEDS, .open = open };
	j->options.dim = DIM;
	j->options.history = HISTORY;
	j->options.seed = SEED;
	loss = options->model->kind != ZOO_ROWS ? text_loss(j, &zoo)
	       : options->model->history	? loss_of_histories(j, &zoo)
						: loss_of_rows(j, &zoo);
	graph_train(j->graph, loss, NULL, NULL);
	graph_set_results(j->graph, &loss, 1);
}
