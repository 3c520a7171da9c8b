/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows with a history, in the format "histories". Users like some categories, and tend to stay with what they have
 * clicked on last; users, categories and the items of each follow a power law. Each item has a position in a space of
 * few dimensions, near that of its category.
 */
#include <math.h>
#include <stdbool.h>

#include "app/startrain/zoo/generate.h"
#include "base/hash.h"

enum { USERS = 20000, CATEGORIES = 16, ITEMS = 32 /* of each category */, FAVOURITES = 3, SPACE = 3, CLICKS_MAX = 40 };
enum { PLACE_OF_CATEGORY = 1, PLACE_OF_ITEM, WEIGHT_OF_ITEM, FAVOURITE };

static const double BIAS = -2.4, INTEREST = 0.8, ITEM_WEIGHT = 0.3, SCATTER = 0.1, DECAY = 0.95;
static const double SAME_AGAIN = 0.5, LIKED = 0.6, FROM_HISTORY = 0.5;

struct item {
	uint32_t category, rank;
};

void history_teacher_init(struct history_teacher *t, uint64_t seed)
{
	t->seed = seed;
	power_law_init(&t->users, 1.1, USERS);
	power_law_init(&t->categories, 1.1, CATEGORIES);
	power_law_init(&t->items, 1.2, ITEMS);
}

static uint32_t number_of(struct item item)
{
	return item.rank * CATEGORIES + item.category;
}

static void item_place(const struct history_teacher *t, struct item item, double place[static SPACE])
{
	double squares = 0;

	for (unsigned i = 0; i < SPACE; i++) {
		place[i] = teacher_weight(t->seed, PLACE_OF_CATEGORY, item.category, i) +
			   SCATTER * teacher_weight(t->seed, PLACE_OF_ITEM, number_of(item), i);
		squares += place[i] * place[i];
	}
	for (unsigned i = 0; i < SPACE; i++)
		place[i] /= sqrt(squares);
}

/* The cosine, if it is positive. */
static double likeness(const struct history_teacher *t, struct item a, struct item b)
{
	double x[SPACE], y[SPACE], cosine = 0;

	item_place(t, a, x);
	item_place(t, b, y);
	for (unsigned i = 0; i < SPACE; i++)
		cosine += x[i] * y[i];
	return cosine > 0 ? cosine : 0;
}

static uint32_t draw_category(const struct history_teacher *t, uint32_t user, struct prng *prng)
{
	const uint32_t which = prng_below(prng, FAVOURITES);

	if (prng_unit(prng) < LIKED)
		return (uint32_t)(hash_mix(t->seed ^ hash_mix(FAVOURITE + hash_mix(user * FAVOURITES + which))) %
				  CATEGORIES);
	return power_law_draw(&t->categories, prng);
}

/* Short histories are more frequent than long ones. */
static uint32_t draw_history(const struct history_teacher *t, uint32_t user, struct item clicks[static CLICKS_MAX],
			     struct prng *prng)
{
	const double unit = prng_unit(prng);
	const uint32_t count = (uint32_t)((CLICKS_MAX + 1) * unit * unit);

	for (uint32_t i = 0; i < count; i++) {
		const bool again = prng_unit(prng) < SAME_AGAIN;

		clicks[i].category = i && again ? clicks[i - 1].category : draw_category(t, user, prng);
		clicks[i].rank = power_law_draw(&t->items, prng);
	}
	return count;
}

struct auc_example history_teacher_write(const struct history_teacher *t, uint64_t row, FILE *file)
{
	struct item clicks[CLICKS_MAX], candidate;
	double score = BIAS, weight = INTEREST;
	struct prng prng;
	uint32_t user, count;
	bool label;

	prng_seed(&prng, t->seed ^ hash_mix(row + 1));
	user = power_law_draw(&t->users, &prng);
	count = draw_history(t, user, clicks, &prng);
	candidate.category = count && prng_unit(&prng) < FROM_HISTORY ? clicks[prng_below(&prng, count)].category
								      : power_law_draw(&t->categories, &prng);
	candidate.rank = power_law_draw(&t->items, &prng);
	for (uint32_t i = count; i-- > 0; weight *= DECAY)
		score += weight * likeness(t, clicks[i], candidate);
	score += ITEM_WEIGHT * teacher_weight(t->seed, WEIGHT_OF_ITEM, number_of(candidate), 0);
	label = prng_unit(&prng) < 1 / (1 + exp(-score));
	fprintf(file, "%d\tu%u\ti%u\tc%u\t", label, user, number_of(candidate), candidate.category);
	for (uint32_t i = 0; i < count; i++)
		fprintf(file, "%si%u:c%u", i ? " " : "", number_of(clicks[i]), clicks[i].category);
	fputc('\n', file);
	return (struct auc_example){ .score = (float)score, .label = label };
}
