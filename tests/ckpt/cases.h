/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases, by file. */
#ifndef TESTS_CKPT_CASES_H
#define TESTS_CKPT_CASES_H

/* ckpt.c */
void what_was_saved_is_read(void);
void rows_have_the_sizes_of_the_format(void);
void writer_refuses_impossible_blocks(void);
void limit_of_bytes_a_second_holds(void);

#endif
