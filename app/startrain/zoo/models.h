/* SPDX-License-Identifier: BSD-3-Clause */
/* Models that are not in models.c, as functions for struct zoo_model. Pure functions that add nodes to the graph. */
#ifndef STARTRAIN_ZOO_MODELS_H
#define STARTRAIN_ZOO_MODELS_H

#include "app/startrain/zoo/zoo.h"

/* Two arguments: layer sizes and their number. */
#define ZOO_UNITS(...) (const int64_t[]){ __VA_ARGS__ }, (sizeof((const int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t))

struct graph_value zoo_dssm(struct zoo *zoo, const struct zoo_inputs *in);
struct graph_value zoo_din(struct zoo *zoo, const struct zoo_inputs *in);
struct graph_value zoo_dien(struct zoo *zoo, const struct zoo_inputs *in);

struct graph_value zoo_language(struct zoo *zoo, const struct zoo_text_inputs *in, struct graph_value *predictions);
struct graph_value zoo_skip_gram(struct zoo *zoo, const struct zoo_text_inputs *in, struct graph_value *predictions);

#endif
