/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of this library. Threads: as ckpt.h. */
#ifndef CKPT_INTERNAL_H
#define CKPT_INTERNAL_H

#include "ckpt/ckpt.h"

#define CKPT_MANIFEST_NAME "manifest.json"
#define CKPT_PARTIAL ".partial"

enum {
	CKPT_FILE_BYTES_MIN = 2 * CHECKPOINT_ALIGN, /* a header and the last block */
	/* No sum over the files of a manifest exceeds 63 bits. */
	CKPT_FILE_SHIFT_MAX = 46,
	/* Only the owner and the group may read parameters. */
	CKPT_FILE_MODE = 0640,
	CKPT_FOLDER_MODE = 0750,
};

/* error.c: sets a message that says what could not be done with which file, and what to do. name may be NULL. Returns
 * code. */
int ckpt_io_error(struct star_error *err, int code, const char *what, const char *path, const char *name);

/* error.c: sets a message about damage in a file. Returns -EBADMSG. */
int ckpt_damaged(struct star_error *err, const char *path, const char *name, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* error.c: opens a directory. Returns its descriptor, or a negative errno. */
int ckpt_open_folder(const char *path, struct star_error *err);

/* claim.c: whether another process uses a checkpoint (ckpt_use); holder: that process, or 0 if it is unknown. */
bool ckpt_is_used(int folder, const char *name, pid_t *holder);
/* claim.c: locks the file by which saves (LOCK_SH) and prunes (LOCK_EX) exclude each other. Returns its descriptor, or
 * a negative errno. */
int ckpt_lock_saves(const char *directory, int how, uint64_t wait_us, struct star_error *err);

/* manifest.c: whether a file may have this name. */
bool ckpt_file_name_ok(const char *name);

/* manifest.c: returns the manifest's text, to be freed; NULL if ckpt_manifest_parse would refuse it. */
char *ckpt_manifest_text(const struct ckpt_manifest *manifest, size_t *bytes, struct star_error *err);
/* text need not end with a zero. path is for messages. */
int ckpt_manifest_parse(const char *path, const char *text, size_t bytes, struct ckpt_manifest *manifest,
			struct star_error *err);

/* manifest.c: reads the manifest's text in an open directory. Returns it, to be freed; NULL with err. */
char *ckpt_manifest_load(int folder, const char *path, size_t *bytes, struct star_error *err);

/* commit.c: writes a small file atomically, and syncs it. */
int ckpt_write_file(int folder, const char *path, const char *name, const char *text, size_t bytes,
		    struct star_error *err);

/* manifest.c: finds the object with that id, or NULL. */
const struct object_spec *ckpt_manifest_object(const struct ckpt_manifest *manifest, uint32_t id);

/* directory.c: "00000007-full", "00000008-delta.partial". */
void ckpt_name(char name[static CHECKPOINT_ID_MAX], uint64_t id, bool delta, const char *ending);

/* commit.c: whether all data files are in a checkpoint's directory, with the sizes that the manifest says. */
int ckpt_check_files(int folder, const char *path, const struct ckpt_manifest *manifest, struct star_error *err);

/* directory.c: fills in what the manifest says. */
void ckpt_entry_fill(struct ckpt_entry *entry, const struct ckpt_manifest *manifest);

/* chain.c: whether the error only means that this process could not read, not that a file is damaged. */
bool ckpt_is_unread(int rc);

/* commit.c: removes a directory with the files in it. 0 also if there is none. */
int ckpt_remove_folder(int parent, const char *name);

/* block.c: the checksums of wire/checkpoint.h; ckpt_add_checksum combines them to that of a file. */
uint32_t ckpt_header_checksum(const struct checkpoint_header *header);
uint32_t ckpt_block_checksum(const void *block, uint32_t payload_bytes);
uint32_t ckpt_add_checksum(uint32_t sum, uint32_t checksum);
static inline uint32_t ckpt_block_bytes(uint32_t payload_bytes)
{
	const uint32_t bytes = (uint32_t)sizeof(struct checkpoint_block) + payload_bytes;

	return (bytes + CHECKPOINT_ALIGN - 1) / CHECKPOINT_ALIGN * CHECKPOINT_ALIGN;
}

#endif
