/* SPDX-License-Identifier: BSD-3-Clause */
/* `startrain key`: the key of the row that stands for a text in a column. Returns the exit status. */
#ifndef STARTRAIN_KEY_H
#define STARTRAIN_KEY_H

int key_main(int argc, char **argv);

#endif
