/* SPDX-License-Identifier: BSD-3-Clause */
/* Checkpoints for the cases: directories of their own, tables of all shapes, rows of random bytes. */
#ifndef TESTS_CKPT_SUPPORT_H
#define TESTS_CKPT_SUPPORT_H

#include "ckpt/ckpt.h"
#include "ckpt/internal.h"

/* A new directory, which unit_remove takes away with what is in it. Returns path. */
enum { DIRECTORY_MAX = 256 };
char *make_directory(char path[static DIRECTORY_MAX]);
/* The same in memory where there is a file system for that: for cases that write often. */
char *make_memory_directory(char path[static DIRECTORY_MAX]);

/* A path in a directory. */
struct path {
	char text[CKPT_PATH_MAX];
};
struct path in(const char *directory, const char *name);

/* Tables of every kind of row, ids from 1; ended by none: OBJECTS of them. */
enum { OBJECTS = 9, FILES_MAX = 16 };
const struct object_spec *sample_objects(void);

/* What a save writes: rows of each object in each file; a delta's keys are the first of its parent's, and the one after
 * them is gone. */
struct save {
	uint64_t id, parent;
	uint32_t files;
	uint32_t rows;	    /* of each object in each file */
	uint32_t run_rows;  /* in a run at most */
	uint32_t run_limit; /* bytes of payload at most; 0: as many as fit */
	bool buffered;
	uint64_t seed;	/* of the rows' bytes, keys excepted */
	uint32_t looks; /* of the first file's tables, less 3; each further file has one more */
};

uint64_t sample_key(uint32_t file, const struct object_spec *spec, uint32_t n);
/* The random bytes of row n of an object in a file of a checkpoint: key first, padding 0. bytes: ckpt_row_bytes. */
void sample_row(const struct save *save, uint32_t file, const struct object_spec *spec, uint32_t n, uint8_t *row,
		uint32_t bytes);

/* Writes it; 0, or what failed. It is abandoned then. */
int save_checkpoint(const char *directory, const struct save *save, struct star_error *err);

/* A checkpoint of no rows, whose manifest is written as it is told: where its parent may be missing, or its chain too
 * long. */
struct bare {
	uint64_t id, parent, lineage;
	uint32_t partitions; /* 0: those of save_checkpoint */
};
void save_bare(const char *directory, const struct bare *bare);

/* "00000007-full" */
struct path checkpoint_path(const char *directory, const struct save *save);

/* The text of a manifest with one occurrence of `from` replaced, and a checksum that matches again. To be freed. */
char *changed_manifest(const char *text, const char *from, const char *to, size_t *bytes);

/* Reads a checkpoint and compares all of it with what was saved; false with failures recorded. */
bool check_saved(const char *path, const struct save *save);

/* "3 4<3 9": checkpoints 3, 4 on top of 3, and 9. */
void save_all(const char *directory, const char *text);
/* "5-full": its manifest goes; a byte of its data is flipped. */
void destroy_manifest(const char *directory, const char *short_name);
void damage_data(const char *directory, const char *short_name);
/* All of that in a new directory in memory; of the two, NULL is none. */
void save_and_spoil(char directory[static DIRECTORY_MAX], const char *saved, const char *damaged,
		    const char *destroyed);
/* What there is, as "3-full 4-delta!": '!' where it is damaged. */
const char *list_text(const char *directory, char text[static 512]);

/* A whole file, to be freed; and back. */
uint8_t *read_file(const char *path, size_t *bytes);
void write_file(const char *path, const void *data, size_t bytes);

#endif
