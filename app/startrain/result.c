/* SPDX-License-Identifier: BSD-3-Clause */
/* The phases before and after training: create the tables and measure; measure again, write and print the result. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "app/startrain/progress.h"
#include "app/startrain/tables.h"

static int held_out(struct job *job, struct tables *tables, double *loss, struct star_error *err)
{
	const struct reader reader = { tables_read, tables };

	return quality_held_out(&reader, &job->options.training, &job->corpus, &job->sampler, loss, err);
}

int prepare_run(struct job *job, uint32_t worker, struct star_error *err)
{
	struct tables tables;
	int rc = tables_open(&tables, &job->options, job->options.first_worker, err);

	if (rc != 0)
		return rc;
	if (job->options.evaluate)
		rc = held_out(job, &tables, &job->shared->held_out_before, err);
	tables_close(&tables);
	return rc;
}

static int write_dump(struct job *job, const float *in, const float *out, struct star_error *err)
{
	const size_t elements = (size_t)job->corpus.vocabulary.size * job->options.training.dim;

	if (fwrite(in, sizeof(*in), elements, job->dump) == elements &&
	    fwrite(out, sizeof(*out), elements, job->dump) == elements && fflush(job->dump) == 0)
		return 0;
	return star_error_set(err, -EIO, "cannot write %s: %s", job->options.dump, strerror(errno));
}

static void print_json(struct job *job, double after, const float *in)
{
	const struct options *o = &job->options;
	const struct totals t = job_totals(job);

	printf("{\"workers\": %u, \"seed\": %llu, \"epochs\": %u, \"dim\": %u, \"batch\": %u, \"words_read\": %llu, "
	       "\"vocabulary\": %u, \"examples\": %llu, \"rows_pulled\": %llu, \"rows_pushed\": %llu, "
	       "\"seconds\": %.3f",
	       o->workers, (unsigned long long)o->training.seed, o->training.epochs, o->training.dim, o->training.batch,
	       (unsigned long long)job->corpus.words_read, job->corpus.vocabulary.size, (unsigned long long)t.examples,
	       (unsigned long long)t.rows_pulled, (unsigned long long)t.rows_pushed, job->training_s);
	if (o->evaluate)
		printf(", \"held_out_before\": %.9g, \"held_out_after\": %.9g", job->shared->held_out_before, after);
	if (in != NULL) {
		printf(", \"neighbours\": ");
		quality_print_neighbours(stdout, &job->corpus.vocabulary, in, o->training.dim, o->neighbours, true);
	}
	printf("}\n");
}

static void print_text(struct job *job, double after, const float *in)
{
	const struct options *o = &job->options;
	const struct totals t = job_totals(job);

	printf("trained: %.1f million examples, %u workers of %u here, %.1f s\n", (double)t.examples * 1e-6,
	       o->local_workers, o->workers, job->training_s);
	if (o->evaluate)
		printf("held-out loss: %.4f before, %.4f after\n", job->shared->held_out_before, after);
	if (in != NULL) {
		printf("nearest neighbours:\n");
		quality_print_neighbours(stdout, &job->corpus.vocabulary, in, o->training.dim, o->neighbours, false);
	}
}

static int finish_tables(struct job *job, struct tables *tables, struct star_error *err)
{
	const struct options *o = &job->options;
	const struct reader reader = { tables_read, tables };
	float *rows[SIDES] = { NULL };
	double after = 0;
	int rc = 0;

	for (int side = 0; side < SIDES; side++)
		if (o->dump != NULL || (o->neighbours > 0 && side == WORDS_IN)) {
			rows[side] = quality_read_all(&reader, side, job->corpus.vocabulary.size, o->training.dim, err);
			if (rows[side] == NULL) {
				rc = err->code;
				goto free_rows;
			}
		}
	if (o->dump != NULL)
		rc = write_dump(job, rows[WORDS_IN], rows[WORDS_OUT], err);
	if (rc == 0 && o->evaluate)
		rc = held_out(job, tables, &after, err);
	if (rc == 0)
		(o->json ? print_json : print_text)(job, after, o->neighbours > 0 ? rows[WORDS_IN] : NULL);
free_rows:
	for (int side = 0; side < SIDES; side++)
		free(rows[side]);
	return rc;
}

int finish_run(struct job *job, uint32_t worker, struct star_error *err)
{
	struct tables tables;
	int rc = tables_open(&tables, &job->options, job->options.first_worker, err);

	if (rc != 0)
		return rc;
	rc = finish_tables(job, &tables, err);
	tables_close(&tables);
	return rc;
}
