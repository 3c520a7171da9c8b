/* SPDX-License-Identifier: BSD-3-Clause */
/* Kinds, defaults, bounds, and that docs/optimizers.rst says the same. */
#include "tests/optim/cases.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

void kinds_and_their_names(void)
{
	unsigned kinds = 0;

#define X(NAME, number, name) \
	CHECK_STR(optim_kind_name(number), name); \
	CHECK_UINT(optim_kind_parse(name), number); \
	CHECK_HAS(optim_kind_names(), name); \
	CHECK_UINT(number, ++kinds); /* numbers of the protocol, without a gap */
	OPTIM_KINDS(X)
#undef X
	CHECK(!optim_kind_name(0));
	CHECK(!optim_kind_name(kinds + 1));
	CHECK(!optim_kind_name(UINT32_MAX));
	CHECK_UINT(optim_kind_parse(""), 0);
	CHECK_UINT(optim_kind_parse("Adam"), 0);
	CHECK_UINT(optim_kind_parse("adamm"), 0);
	CHECK_INT(strncmp(optim_kind_names(), "sgd, adagrad, ", 14), 0);
}

/* The shortest decimal that is read as the same float32. */
static const char *number(double value)
{
	static char text[4][32];
	static unsigned turn;
	char *out = text[turn++ % 4];

	for (int digits = 1; digits <= 9; digits++) {
		snprintf(out, sizeof(text[0]), "%.*g", digits, value);
		if (strtof(out, NULL) == (float)value)
			break;
	}
	return out;
}

struct page {
	char text[16384];
	size_t used;
};

static void add(struct page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct page *page, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(page->text + page->used, sizeof(page->text) - page->used, format, args);
	va_end(args);
	page->used += n > 0 && (size_t)n < sizeof(page->text) - page->used ? (size_t)n : 0;
}

/* The tables of the page, out of options.h and optim_defaults. */
static void write_tables(struct page *page)
{
	struct optim_options d;

	add(page, ".. csv-table:: Options\n   :header: option, least, most, meaning\n   :delim: |\n\n");
#define X(name, least, most, text) add(page, "   %s | %s | %s | %s\n", #name, number(least), number(most), text);
	OPTIM_NUMBERS(X)
#undef X
#define X(name, text) add(page, "   %s | 0 | 1 | %s\n", #name, text);
	OPTIM_SWITCHES(X)
#undef X
	add(page, "\n.. csv-table:: What each optimizer takes notice of, and its defaults\n"
		  "   :header: optimizer, options and defaults\n   :delim: |\n\n");
	for (unsigned kind = 1; optim_kind_name(kind); kind++) {
		const char *comma = "";

		d = defaults_of(kind);
		add(page, "   %s | ", optim_kind_name(kind));
#define X(name, ...) \
	if (optim_uses(kind, #name)) { \
		add(page, "%s%s %s", comma, #name, number((double)d.name)); \
		comma = ", "; \
	}
		OPTIM_NUMBERS(X)
		OPTIM_SWITCHES(X)
#undef X
		add(page, "%s\n", *comma ? "" : "\\-");
	}
}

void defaults_hold_and_are_documented(void)
{
	static const char first[] = ".. options begin\n\n", last[] = "\n.. options end\n";
	static struct page expected;
	static char page[65536];
	struct optim_options d;
	FILE *file;
	char *from, *to;

	CHECK_INT(optim_defaults(&d, 0), -EINVAL);
	CHECK_INT(optim_defaults(&d, UINT8_MAX), -EINVAL);
	for (unsigned kind = 1; optim_kind_name(kind); kind++) {
		d = defaults_of(kind);
		CHECK_UINT(d.kind, kind);
		CHECK_INT(optim_options_check(&d, NULL), 0);
		CHECK_INT(optim_uses(kind, "rate"), kind != OPTIM_NONE);
		CHECK_INT(optim_uses(kind, "kind"), 0);
		CHECK_INT(optim_uses(kind, ""), 0);
	}
	CHECK_INT(optim_uses(0, "rate"), 0);
	expected.used = 0;
	write_tables(&expected);
	file = fopen("docs/optimizers.rst", "r"); /* tests run in the project's folder */
	if (!CHECK(file != NULL))
		return;
	page[fread(page, 1, sizeof(page) - 1, file)] = 0;
	fclose(file);
	from = strstr(page, first);
	to = from ? strstr(from, last) : NULL;
	if (!CHECK(from && to))
		return;
	*to = 0;
	if (strcmp(from + sizeof(first) - 1, expected.text)) {
		printf("# docs/optimizers.rst, between \"options begin\" and \"options end\", should say:\n%s",
		       expected.text);
		unit_fail(__FILE__, __LINE__,
			  "docs/optimizers.rst differs from lib/optim/options.c: copy the tables above");
	}
}

/* Checkpoints are exported by them. The options decide which formula, and so which slots. */
void slots_have_names(void)
{
	struct prng p;

	prng_seed(&p, 40);
	for (unsigned kind = 1; optim_kind_name(kind); kind++)
		for (unsigned draw = 0; draw < 20; draw++) {
			const struct optim_options options = random_options(kind, &p);
			struct optim_state state;

			if (!CHECK_INT(optim_state(&options, &state), 0))
				return;
			for (unsigned i = 0; i < state.slots; i++)
				if (!state.slot_names[i]) {
					unit_fail(__FILE__, __LINE__,
						  "slot %u of %s has no name: add it to formula_slot_names in "
						  "lib/optim/optim.c",
						  i, optim_kind_name(kind));
					return;
				}
		}
}

static const struct {
	const char *name;
	size_t offset;
	float least, most;
} numbers[] = {
#define X(name, least, most, text) { #name, offsetof(struct optim_options, name), (float)(least), (float)(most) },
	OPTIM_NUMBERS(X)
#undef X
};
static const struct {
	const char *name;
	size_t offset;
} switches[] = {
#define X(name, text) { #name, offsetof(struct optim_options, name) },
	OPTIM_SWITCHES(X)
#undef X
};

enum { NUMBERS = sizeof(numbers) / sizeof(numbers[0]), SWITCHES = sizeof(switches) / sizeof(switches[0]) };

/* The answer to the defaults of a kind with number i at x. */
static int answer(unsigned kind, unsigned i, float x, struct star_error *err)
{
	struct optim_options o = defaults_of(kind);

	*err = (struct star_error){ 0 };
	memcpy((uint8_t *)&o + numbers[i].offset, &x, sizeof(x));
	return optim_options_check(&o, err);
}

static int answer_switch(unsigned kind, unsigned i, uint8_t x, struct star_error *err)
{
	struct optim_options o = defaults_of(kind);

	*err = (struct star_error){ 0 };
	memcpy((uint8_t *)&o + switches[i].offset, &x, sizeof(x));
	return optim_options_check(&o, err);
}

/* Every number of every kind, beyond its bounds, not finite, and at its bounds. */
void options_out_of_bounds_are_refused(void)
{
	struct star_error err;

	for (unsigned kind = 1; optim_kind_name(kind); kind++) {
		for (unsigned i = 0; i < NUMBERS; i++) {
			const float bad[] = { nextafterf(numbers[i].least, -INFINITY),
					      nextafterf(numbers[i].most, INFINITY), INFINITY, -INFINITY, NAN };
			/* Nothing else keeps its divisor from 0. */
			const bool above =
				kind == OPTIM_ADAGRAD_DECAY && strcmp(numbers[i].name, "initial_accumulator") == 0;

			if (!optim_uses(kind, numbers[i].name))
				continue;
			for (unsigned b = 0; b < 5; b++) {
				CHECK_INT(answer(kind, i, bad[b], &err), -EINVAL);
				CHECK_HAS(err.text, numbers[i].name);
				CHECK_HAS(err.text, optim_kind_name(kind));
			}
			CHECK_INT(answer(kind, i, numbers[i].most, &err), 0);
			CHECK_INT(answer(kind, i, numbers[i].least, &err), above ? -EINVAL : 0);
		}
		for (unsigned i = 0; i < SWITCHES; i++) {
			if (!optim_uses(kind, switches[i].name))
				continue;
			CHECK_INT(answer_switch(kind, i, 0, &err), 0);
			CHECK_INT(answer_switch(kind, i, 1, &err), 0);
			CHECK_INT(answer_switch(kind, i, 2, &err), -EINVAL);
			CHECK_HAS(err.text, switches[i].name);
			CHECK_HAS(err.text, "it must be 0 or 1");
		}
	}
}

void options_without_use_are_refused(void)
{
	struct star_error err;

	for (unsigned kind = 1; optim_kind_name(kind); kind++) {
		for (unsigned i = 0; i < NUMBERS; i++) {
			if (optim_uses(kind, numbers[i].name))
				continue;
			CHECK_INT(answer(kind, i, 0.5f, &err), -EINVAL);
			CHECK_HAS(err.text, numbers[i].name);
			CHECK_HAS(err.text, optim_kind_name(kind));
			CHECK_HAS(err.text, "does not use it");
		}
		for (unsigned i = 0; i < SWITCHES; i++) {
			if (optim_uses(kind, switches[i].name))
				continue;
			CHECK_INT(answer_switch(kind, i, 1, &err), -EINVAL);
			CHECK_HAS(err.text, switches[i].name);
			CHECK_HAS(err.text, "does not use it");
		}
	}
	CHECK_INT(optim_options_check(&(struct optim_options){ .kind = 99 }, &err), -EINVAL);
	CHECK_HAS(err.text, "99");
	CHECK_HAS(err.text, "sgd, adagrad, ");
}
