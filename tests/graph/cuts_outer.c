/* SPDX-License-Identifier: BSD-3-Clause */
/* What lite moves before an apply_rows where a gradient is an outer product: a number for each row times a row of its
 * example's, as in skip-gram. */
#include <stdio.h>
#include <string.h>

#include "graph/build.h"
#include "graph/gradient.h"
#include "graph/text.h"
#include "offload/cut.h"
#include "tests/graph/cases.h"
#include "tests/graph/cutting.h"
#include "tests/unit.h"

/* 64 examples with six ids each, rows of 16, and a vector of each example's own. */
static const char head[] = "star 1\n"
			   "ids = feed() dtype=\"int64\" shape=[64, 6]\n"
			   "table = table() dtype=\"float32\" dim=16 trainable=1 @/job:ps\n"
			   "rows = lookup(table, ids)\n";
static const char row[] = "vector = feed() dtype=\"float32\" shape=[64, 1, 16]\n"
			  "products = matmul(rows, vector) transpose_a=0 transpose_b=1\n";
static const char column[] = "vector = feed() dtype=\"float32\" shape=[64, 16, 1]\n"
			     "products = matmul(rows, vector)\n";
/* The same numbers, transposed: they do not lie as the ids do. */
static const char turned[] = "vector = feed() dtype=\"float32\" shape=[64, 1, 16]\n"
			     "products = matmul(vector, rows) transpose_a=0 transpose_b=1\n";
/* Two vectors: no number for each row. */
static const char two[] = "vector = feed() dtype=\"float32\" shape=[64, 16, 2]\n"
			  "products = matmul(rows, vector)\n";
static const char tail[] = "square = square(products)\n"
			   "loss = mean(square)\n"
			   "results loss\n";

void outer_products_are_sent_as_their_factors(void)
{
	static const struct {
		const char *products;
		uint32_t reactors;
		bool moves;
	} cases[] = { { row, 1, true },	    { column, 1, true },  { column, 4, true },
		      { column, 6, false }, { turned, 1, false }, { two, 1, false } };

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct graph_cut_options options = { .protocol = GRAPH_STAR_SERVER_LITE,
							   .reactors = cases[i].reactors };
		const uint64_t ids = 64 * 6, factors = ids * 4 + (uint64_t)cases[i].reactors * 64 * 16 * 4;
		struct star_error err = { 0 };
		struct graph *g;
		struct graph_cut *cut;
		char text[1024];

		snprintf(text, sizeof(text), "%s%s%s", head, cases[i].products, tail);
		g = graph_parse(text, strlen(text), "text", &err);
		if (!CHECK(g) || !CHECK_INT(graph_train(g, g->results[0], NULL, NULL), 0)) {
			printf("# %s\n", err.text);
			graph_destroy(g);
			return;
		}
		cut = graph_cut_create(g, &options, &err);
		if (CHECK(cut) && cut_is_right(cut, 1)) {
			CHECK_UINT(cut->moved_count, cases[i].moves);
			CHECK_UINT(cut->rounds, 2);
			/* ids twice; numbers of the examples, in 4 bytes where nobody says how many there are */
			CHECK_UINT(cut->to_ps_bytes, 2 * ids * 8 + (cases[i].moves ? ids * 4 + factors : ids * 16 * 4));
		}
		graph_cut_destroy(cut);
		graph_destroy(g);
	}
}
