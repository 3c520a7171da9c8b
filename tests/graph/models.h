/* SPDX-License-Identifier: BSD-3-Clause */
/* Small models that several cases use. */
#ifndef TESTS_GRAPH_MODELS_H
#define TESTS_GRAPH_MODELS_H

#include "graph/build.h"

/* Census-like: a wide part of one table, a deep one of another and two layers. Returns the loss. */
struct graph_value model_wide_deep(struct graph *graph, unsigned dtype);

/* A GRU-like recurrence over ids [t, b] with a lookup in its body, dim wide. Returns the loss. */
struct graph_value model_recurrent(struct graph *graph, unsigned dtype, int64_t dim, int64_t most);

#endif
