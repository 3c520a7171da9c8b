/* SPDX-License-Identifier: BSD-3-Clause */
/* `startrain key`: prints the key of a word of a column, as models compute it. Returns the exit status. */
#ifndef STARTRAIN_KEY_H
#define STARTRAIN_KEY_H

int key_main(int argc, char **argv);

#endif
