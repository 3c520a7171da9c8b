/* SPDX-License-Identifier: BSD-3-Clause */
/* What lite moves to variables. */
#include "graph/build.h"
#include "offload/cut.h"
#include "tests/graph/cases.h"
#include "tests/graph/cutting.h"
#include "tests/unit.h"

static const char ps0[] = "/job:ps/task:0";

/* Of a variable that nobody else needs: [3, 4], squared and added up, with the worker's numbers and without. */
void sums_of_variables_move(void)
{
	for (unsigned i = 0; i < 5; i++) {
		struct graph *g = graph_create();
		struct graph_value v = PUT0(g, GRAPH_VARIABLE, "v", ps0), read = PUT1(g, GRAPH_READ, "read", NULL, v);
		struct graph_value from =
			i == 1 ? PUT2(g, GRAPH_ADD, NULL, NULL, read, PUT0(g, GRAPH_CONST, "c", NULL)) : read;
		struct graph_value square = PUT1(g, GRAPH_SQUARE, "square", NULL, from), results[2];
		struct graph_cut *cut;

		results[0] = i == 2   ? put_sum(g, "sum", square, 1)
			     : i == 3 ? graph_mean(g, square)
				      : graph_sum(g, square);
		results[1] = read;
		graph_set_results(g, results, i == 4 ? 2 : 1);
		cut = cut_by(g, GRAPH_STAR_SERVER_LITE, false);
		if (cut && cut_is_right(cut, 1)) {
			/* All of a sum, and what leads to it; but not a constant of the variable's shape. */
			const bool moves = i == 0 || i == 3;

			CHECK_UINT(graph_cut_moved(cut, square.node), moves);
			CHECK_UINT(graph_cut_moved(cut, results[0].node), moves);
			CHECK_UINT(cut->from_ps_bytes, moves ? 4 : 48);
		}
		graph_cut_destroy(cut);
		graph_destroy(g);
	}
}
