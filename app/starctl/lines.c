/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables of checkpoints as JSON lines, without a node. */
#include "ckpt/lines.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "app/starctl/checkpoints.h"

/* The lines are the output: an error goes to standard error, and with --json nothing is printed instead. */
static int fail_export(const struct invocation *invocation, const struct star_error *err)
{
	fprintf(invocation->errors, "starctl: ");
	print_text(err->text, invocation->errors);
	fprintf(invocation->errors, "\n");
	return STARCTL_FAILED;
}

/* A stream only remembers that there was an error. This one remembers which. */
struct watched_output {
	FILE *to;
	int error; /* an errno */
};

static ssize_t watched_write(void *cookie, const char *bytes, size_t count)
{
	struct watched_output *out = cookie;

	if (fwrite(bytes, 1, count, out->to) == count && fflush(out->to) == 0)
		return (ssize_t)count;
	out->error = out->error ? out->error : errno;
	return 0;
}

static int export_to(struct watched_output *out, const char *directory, uint64_t id, const char *table,
		     struct checkpoint_progress *progress, struct star_error *err)
{
	FILE *lines = fopencookie(out, "w", (cookie_io_functions_t){ .write = watched_write });
	int rc;

	if (!lines)
		return star_error_set(err, -ENOMEM, "out of memory for the output");
	rc = ckpt_export(directory, id, table, lines, checkpoint_progress_report, progress, err);
	fclose(lines);
	return out->error ? star_error_set(err, -out->error, "cannot write the lines: %s", strerror(out->error)) : rc;
}

int run_checkpoint_export(const struct invocation *invocation)
{
	struct watched_output out = { .to = invocation->out };
	struct checkpoint_progress progress;
	char directory[CKPT_PATH_MAX];
	struct star_error err = { 0 };
	uint64_t id;
	int rc = checkpoint_locate(invocation->argv[0], directory, &id, &err);

	checkpoint_progress_begin(&progress, invocation, "export");
	if (rc == 0)
		rc = checkpoint_use_key(&err);
	if (rc == 0)
		rc = export_to(&out, directory, id, invocation->argv[1], &progress, &err);
	checkpoint_progress_end(&progress);
	return rc < 0 ? fail_export(invocation, &err) : STARCTL_OK;
}

static uint64_t size_of(FILE *in)
{
	struct stat status;

	return fstat(fileno(in), &status) == 0 && S_ISREG(status.st_mode) ? (uint64_t)status.st_size : 0;
}

int run_checkpoint_import(const struct invocation *invocation)
{
	const char *directory = invocation->argv[0], *name = invocation->argc > 1 ? invocation->argv[1] : NULL;
	FILE *in = name ? fopen(name, "r") : stdin;
	struct checkpoint_progress progress;
	struct ckpt_imported imported;
	struct star_error err = { 0 };
	int rc;

	if (!in) {
		star_error_set(&err, -errno, "cannot open %.300s: %s", name, strerror(errno));
		return fail(invocation, &err, STARCTL_FAILED);
	}
	checkpoint_progress_begin(&progress, invocation, "import");
	rc = checkpoint_use_key(&err);
	if (rc == 0)
		rc = ckpt_import(in, directory, size_of(in), &imported, checkpoint_progress_report, &progress, &err);
	checkpoint_progress_end(&progress);
	if (name)
		fclose(in);
	if (rc < 0)
		return fail(invocation, &err, STARCTL_FAILED);
	if (invocation->json)
		print_json(json_pack("{s:I, s:i, s:I}", "id", (json_int_t)imported.id, "tables", (int)imported.tables,
				     "rows", (json_int_t)imported.rows),
			   invocation->out);
	else
		fprintf(invocation->out, "checkpoint %" PRIu64 " has %" PRIu64 " rows of %u table%s\n", imported.id,
			imported.rows, imported.tables, imported.tables == 1 ? "" : "s");
	return STARCTL_OK;
}
