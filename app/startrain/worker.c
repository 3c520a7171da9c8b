/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker: for each batch of its share of the text, it pulls the rows, computes, and pushes the gradients. While a
 * push is in flight, the next batch is sampled and pulled: channels are first in, first out, so this pull sees the
 * push, and a single worker always computes the same.
 */
#include <errno.h>
#include <stdlib.h>

#include "app/startrain/batch.h"
#include "app/startrain/job.h"
#include "app/startrain/model.h"
#include "app/startrain/tables.h"

struct worker {
	struct job *job;
	struct figures *figures;
	uint32_t index; /* in the job */
	struct tables tables;
	struct batch batches[2]; /* the one that is being pushed, and the next one */
	struct stream stream;
	uint32_t epoch;
	uint64_t sentences; /* of the completed epochs */
	uint64_t step;
	float *rows[SIDES];
	float *gradients[SIDES];
	void *pulled[SIDES], *pushed[SIDES]; /* the same in the type on the wire: if that is float32, the same memory */
	struct star_request *push;
};

static int open_epoch(struct worker *w, struct star_error *err)
{
	const struct options *o = &w->job->options;

	return stream_init(&w->stream, &w->job->sampler, &w->job->corpus.training, o->training.window, w->index,
			   o->workers, o->training.seed, w->epoch, err);
}

static int make_wire(struct worker *w, uint32_t rows, struct star_error *err)
{
	const size_t bytes = tables_wire_bytes(&w->tables, rows);

	for (int side = 0; side < SIDES; side++) {
		w->pulled[side] = bytes ? malloc(bytes) : w->rows[side];
		w->pushed[side] = bytes ? malloc(bytes) : w->gradients[side];
		if (w->pulled[side] == NULL || w->pushed[side] == NULL)
			return star_error_set(err, -ENOMEM, "not enough memory for a batch");
	}
	return 0;
}

static int worker_init(struct worker *w, struct star_error *err)
{
	const struct training *t = &w->job->options.training;
	size_t elements;
	int rc;

	for (int i = 0; i < 2; i++) {
		rc = batch_init(&w->batches[i], w->job->corpus.vocabulary.size, t->batch, t->negatives, err);
		if (rc != 0)
			return rc;
	}
	elements = (size_t)batch_rows_max(&w->batches[0]) * t->dim;
	for (int side = 0; side < SIDES; side++) {
		w->rows[side] = malloc(elements * sizeof(float));
		w->gradients[side] = malloc(elements * sizeof(float));
		if (w->rows[side] == NULL || w->gradients[side] == NULL)
			return star_error_set(err, -ENOMEM, "not enough memory for a batch");
	}
	rc = open_epoch(w, err);
	if (rc == 0)
		rc = tables_open(&w->tables, &w->job->options, w->index, err);
	return rc == 0 ? make_wire(w, batch_rows_max(&w->batches[0]), err) : rc;
}

static void worker_fini(struct worker *w)
{
	tables_close(&w->tables);
	stream_fini(&w->stream);
	for (int side = 0; side < SIDES; side++) {
		if (w->pulled[side] != w->rows[side])
			free(w->pulled[side]);
		if (w->pushed[side] != w->gradients[side])
			free(w->pushed[side]);
		free(w->rows[side]);
		free(w->gradients[side]);
	}
	for (int i = 0; i < 2; i++)
		batch_fini(&w->batches[i]);
}

/* Fills the batch from this epoch or the next one; a batch without pairs means the end. */
static int next_batch(struct worker *w, struct batch *b, struct star_error *err)
{
	int rc;

	while (batch_fill(b, &w->stream) == 0 && w->epoch + 1 < w->job->options.training.epochs) {
		w->sentences += w->stream.order_count;
		stream_fini(&w->stream);
		w->epoch++;
		rc = open_epoch(w, err);
		if (rc != 0)
			return rc;
	}
	return 0;
}

static void describe_batch(struct worker *w, const struct batch *b, enum star_op_kind kind, void *const *values,
			   struct star_op *ops)
{
	const struct row_set *sets[SIDES] = { [WORDS_IN] = &b->in, [WORDS_OUT] = &b->out };

	for (int side = 0; side < SIDES; side++)
		ops[side] = (struct star_op){
			.kind = kind,
			.table = w->tables.side[side],
			.keys = sets[side]->keys,
			.count = sets[side]->count,
			.values = values[side],
			.step = w->step,
			.dtype = w->tables.wire,
		};
}

static int wait_for_push(struct worker *w, struct star_error *err)
{
	struct star_request *push = w->push;

	w->push = NULL;
	return push != NULL ? star_request_wait(push, err) : 0;
}

/* There is a single writer, so a load and a store suffice, without a locked instruction. */
static void add_figure(_Atomic uint64_t *sum, uint64_t n)
{
	*sum = *sum + n;
}

static int run_batch(struct worker *w, const struct batch *b, struct star_error *err)
{
	const uint64_t deadline_us = w->job->options.deadline_us;
	struct figures *f = w->figures;
	struct star_op ops[SIDES];
	double loss;
	int rc;

	w->step++;
	describe_batch(w, b, STAR_PULL, w->pulled, ops);
	rc = star_execute(w->tables.cluster, ops, SIDES, deadline_us, err);
	if (rc == 0)
		rc = wait_for_push(w, err); /* it reads the gradients until it is complete */
	if (rc != 0)
		return rc;
	tables_unpack(&w->tables, w->rows[WORDS_IN], w->pulled[WORDS_IN], b->in.count);
	tables_unpack(&w->tables, w->rows[WORDS_OUT], w->pulled[WORDS_OUT], b->out.count);
	loss = model_loss(b, w->job->options.training.dim, w->rows[WORDS_IN], w->rows[WORDS_OUT],
			  w->gradients[WORDS_IN], w->gradients[WORDS_OUT]);
	tables_pack(&w->tables, w->pushed[WORDS_IN], w->gradients[WORDS_IN], b->in.count);
	tables_pack(&w->tables, w->pushed[WORDS_OUT], w->gradients[WORDS_OUT], b->out.count);
	describe_batch(w, b, STAR_PUSH, w->pushed, ops);
	w->push = star_execute_async(w->tables.cluster, ops, SIDES, deadline_us, NULL, NULL, err);
	if (w->push == NULL)
		return err->code;
	if (w->job->options.in_turn) {
		rc = wait_for_push(w, err);
		if (rc != 0)
			return rc;
	}
	add_figure(&f->examples, b->pairs);
	add_figure(&f->rows_pulled, b->in.count + b->out.count);
	add_figure(&f->rows_pushed, b->in.count + b->out.count);
	f->loss = f->loss + loss;
	f->sentences = w->sentences + w->stream.next;
	return 0;
}

int worker_run(struct job *job, uint32_t index, struct star_error *err)
{
	struct worker w = { .job = job,
			    .index = index,
			    .figures = &job->shared->figures[index - job->options.first_worker] };
	struct batch *b = &w.batches[0];
	int rc = worker_init(&w, err);

	if (rc == 0)
		rc = next_batch(&w, b, err);
	while (rc == 0 && b->pairs > 0) {
		rc = run_batch(&w, b, err);
		b = b == &w.batches[0] ? &w.batches[1] : &w.batches[0];
		if (rc == 0)
			rc = next_batch(&w, b, err);
	}
	if (rc == 0)
		rc = wait_for_push(&w, err);
	else
		wait_for_push(&w, NULL);
	w.figures->sentences = w.sentences + w.stream.order_count;
	worker_fini(&w);
	return rc;
}
