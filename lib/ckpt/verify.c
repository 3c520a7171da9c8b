/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads and checks a whole checkpoint, without a server. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "ckpt/internal.h"

struct verification {
	const char *path;
	const struct ckpt_manifest *manifest;
	ckpt_progress *progress;
	void *ctx;
	uint64_t done, total;
};

static int check_block(const struct verification *v, const struct ckpt_file *file, uint32_t block,
		       const uint8_t *payload, uint32_t bytes, uint64_t *rows, uint64_t *deleted,
		       struct star_error *err)
{
	struct star_error why = { 0 };
	struct checkpoint_run run;
	const void *records;
	uint32_t at = 0;
	int rc;

	while ((rc = ckpt_run_next(payload, bytes, &at, v->manifest, &run, &records, &why)) > 0) {
		rc = ckpt_run_check(v->manifest, &run, records, &why);
		if (rc < 0)
			break;
		*rows += run.kind == CHECKPOINT_ROWS ? run.count : 0;
		*deleted += run.kind == CHECKPOINT_DELETED ? run.count : 0;
	}
	return rc < 0 ? ckpt_damaged(err, v->path, file->name, "block %u: %.200s", block, why.text) : 0;
}

static int verify_file(struct verification *v, const struct ckpt_file *file, struct star_error *err)
{
	struct star_error why = { 0 };
	struct ckpt_reader *reader = ckpt_reader_create(v->path, v->manifest, file, &why);
	uint64_t rows = 0, deleted = 0;
	const uint8_t *payload;
	uint32_t bytes;
	int rc = reader ? 1 : why.code;

	for (uint32_t block = 0; rc > 0; block++) {
		rc = ckpt_reader_next(reader, &payload, &bytes, &why);
		if (rc <= 0)
			break;
		v->done += ckpt_block_bytes(bytes);
		if (check_block(v, file, block, payload, bytes, &rows, &deleted, &why) < 0)
			rc = -EBADMSG;
		else if (v->progress && !v->progress(v->ctx, v->done, v->total))
			rc = star_error_set(&why, -ECANCELED, "it was given up");
	}
	ckpt_reader_destroy(reader);
	if (rc < 0)
		return star_error_set(err, rc, "%s", why.text);
	if (rows != file->rows || deleted != file->deleted)
		return ckpt_damaged(err, v->path, file->name,
				    "it has %" PRIu64 " rows and %" PRIu64 " deleted keys; its manifest says %" PRIu64
				    " and %" PRIu64,
				    rows, deleted, file->rows, file->deleted);
	return 0;
}

int ckpt_verify(const char *path, ckpt_progress *progress, void *ctx, struct star_error *err)
{
	struct ckpt_manifest manifest;
	struct verification v = { .path = path, .manifest = &manifest, .progress = progress, .ctx = ctx };
	int rc = ckpt_manifest_read(path, &manifest, err);

	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < manifest.files_count; i++)
		v.total += manifest.files[i].bytes;
	for (uint32_t i = 0; i < manifest.files_count && rc == 0; i++) {
		const uint64_t before = v.done;

		rc = verify_file(&v, &manifest.files[i], err);
		v.done = before + manifest.files[i].bytes;
		if (rc == 0 && progress && !progress(ctx, v.done, v.total))
			rc = star_error_set(err, -ECANCELED, "it was given up");
	}
	ckpt_manifest_free(&manifest);
	return rc;
}
