/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of tables: the reading of texts, which options go together, learning rates by step. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tensor/dtype.h"
#include "tests/wire/cases.h"
#include "wire/object.h"

static struct object_spec table(unsigned dtype, unsigned optimizer)
{
	struct object_spec spec = { .kind = OBJECT_TABLE, .dtype = (uint8_t)dtype, .dim = 8, .name = "emb" };

	wire_object_spec_defaults(&spec, optimizer);
	return spec;
}

static struct object_spec variable(uint64_t elements, unsigned dtype, unsigned optimizer)
{
	struct object_spec spec = table(dtype, optimizer);

	spec.kind = OBJECT_VARIABLE;
	spec.dim = 0;
	spec.ndim = 1;
	spec.shape[0] = elements;
	return spec;
}

/* Reads options, then checks the whole. Returns the message, "" if all is well. */
static const char *judge(struct object_spec spec, const char *options)
{
	static struct star_error err;

	err = (struct star_error){ 0 };
	if (wire_object_spec_options(&spec, options, &err) == 0)
		wire_object_spec_check(&spec, &err);
	return err.text;
}

void options_are_read(void)
{
	struct object_spec spec = table(STAR_FLOAT32, OPTIM_ADAM);
	struct star_error err = { 0 };

	CHECK_INT(wire_object_spec_options(&spec,
					   "beta1=0.8, schedule=cosine,schedule_steps=100000,\n\tfilter = bloom , "
					   "filter_frequency=4294967295, seed=18446744073709551615, staleness=1,,",
					   &err),
		  0);
	CHECK_STR(err.text, "");
	CHECK(spec.optim.beta1 == 0.8f);
	CHECK_UINT(spec.schedule, SCHEDULE_COSINE);
	CHECK_UINT(spec.schedule_steps, 100000);
	CHECK_UINT(spec.filter, FILTER_BLOOM);
	CHECK_UINT(spec.filter_frequency, UINT32_MAX);
	CHECK_UINT(spec.seed, UINT64_MAX);
	CHECK_UINT(spec.staleness, 1);
	CHECK_INT(wire_object_spec_options(&spec, NULL, NULL), 0);
	CHECK_INT(wire_object_spec_options(&spec, " ", NULL), 0);
}

void bad_options_say_what_is_meant(void)
{
	static const char *const cases[][2] = {
		{ "beta3=0.8", "there is no option \"beta3\"; did you mean \"beta1\"?" },
		{ "filtre=counter", "there is no option \"filtre\"; did you mean \"filter\"?" },
		{ "optimzer=adam", "there is no option \"optimzer\"; did you mean \"optimizer\"?" },
		{ "=1", "there is no option \"\"" },
		{ "beta1", "option beta1 needs a value, as in \"beta1=...\"" },
		{ "beta1=", "option beta1 needs a value" },
		{ "beta1=0.5, beta1=0.5", "option beta1 is given twice" },
		{ "beta1=0.5x", "option beta1 is \"0.5x\"; possible: 0 to 0.99999994" },
		{ "beta1=1e999", "option beta1 is \"1e999\"; possible: 0 to 0.99999994" },
		{ "beta1=nan", "option beta1 is \"nan\"; possible: 0 to 0.99999994" },
		{ "beta1=1.5", "beta1 of optimizer adam is 1.5: it must be between 0 and 0.99999994" },
		{ "filter=count", "option filter is \"count\"; possible: none, counter, bloom" },
		{ "filter_frequency=-1", "option filter_frequency is \"-1\"; possible: 0 to 4294967295" },
		{ "filter_frequency=4294967296", "option filter_frequency is \"4294967296\"" },
		{ "seed=18446744073709551616", "option seed is \"18446744073709551616\"; possible: 0 to 2^64 - 1" },
		{ "staleness=yes", "option staleness is \"yes\"; possible: 0 or 1" },
		{ "staleness=2", "option staleness is \"2\"; possible: 0 or 1" },
		{ "dtype=float16", "\"dtype\" is not an option: it is given separately" },
		{ "optimizer=sgd", "\"optimizer\" is not an option" },
		{ "momentum=0.9", "momentum is 0.9, but optimizer adam does not use it" },
	};
	char longest[300];

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		CHECK_HAS(judge(table(STAR_FLOAT32, OPTIM_ADAM), cases[i][0]), cases[i][1]);
	memset(longest, 'n', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = 0;
	CHECK_HAS(judge(table(STAR_FLOAT32, OPTIM_ADAM), longest), "no comma for 299 bytes");
}

void texts_of_numbers_are_short(void)
{
	char text[OBJECT_OPTION_TEXT];

	CHECK_STR(wire_object_float_text(0.1f, text), "0.1");
	CHECK_STR(wire_object_float_text(0, text), "0");
	CHECK_STR(wire_object_float_text(-1e-30f, text), "-1e-30");
	CHECK_STR(wire_object_float_text(16777217, text), "16777216");
	CHECK_STR(wire_object_float_text(3.4028234663852886e38f, text), "3.4028235e+38");
}

/* Every combination that can't be, and its sentence. */
void options_that_do_not_go_together_are_refused(void)
{
	const struct {
		struct object_spec spec;
		const char *options, *part;
	} cases[] = {
		{ table(STAR_INT32, OPTIM_SGD), "", "optimizer sgd does not support element type int32" },
		{ table(STAR_INT8, OPTIM_ADAM), "", "optimizer adam does not support element type int8" },
		{ table(STAR_INT64, OPTIM_NONE), "initializer=uniform, scale=3",
		  "uniform does not support element type int64" },
		{ table(STAR_INT64, OPTIM_NONE), "initializer=constant, scale=0.5",
		  "scale is 0.5, which element type" },
		{ table(STAR_INT8, OPTIM_NONE), "initializer=constant, scale=128", "scale is 128, which element type" },
		{ table(STAR_FLOAT16, OPTIM_SGD), "initializer=constant, scale=1e5",
		  "which element type float16 cannot hold" },
		{ table(STAR_INT8, OPTIM_NONE), "filter=counter, filter_frequency=2, filter_value=0.5",
		  "filter_value is 0.5, which element type" },
		{ table(STAR_INT32, OPTIM_NONE), "l2_threshold=1", "l2_threshold=1 needs a real element type" },
		{ table(STAR_FLOAT32, OPTIM_NONE), "warmup_steps=5", "warmup_steps=5 needs an optimizer" },
		{ table(STAR_FLOAT32, OPTIM_NONE), "nonfinite=pass", "nonfinite=pass needs an optimizer" },
		{ table(STAR_FLOAT32, OPTIM_NONE), "rate=1", "rate is 1, but optimizer none does not use it" },
		{ table(STAR_FLOAT32, OPTIM_SGD), "scale=1", "scale=1 needs initializer constant, uniform, normal or" },
		{ table(STAR_FLOAT32, OPTIM_SGD), "initializer=constant, mean=1", "mean=1 needs initializer uniform" },
		{ table(STAR_FLOAT32, OPTIM_SGD), "schedule_steps=5", "schedule_steps=5 needs a schedule" },
		{ table(STAR_FLOAT32, OPTIM_SGD), "schedule_rate=0.5", "schedule_rate=0.5 needs a schedule" },
		{ table(STAR_FLOAT32, OPTIM_SGD), "schedule=cosine", "a schedule needs schedule_steps" },
		{ table(STAR_FLOAT32, OPTIM_SGD), "schedule=exponential, schedule_steps=9",
		  "needs a schedule_rate above 0" },
		{ table(STAR_FLOAT32, OPTIM_LAMB), "", "optimizer lamb needs a variable with whole=1" },
		{ variable(100, STAR_FLOAT32, OPTIM_LAMB), "", "optimizer lamb needs a variable with whole=1" },
		{ variable(1 << 27, STAR_FLOAT32, OPTIM_LAMB), "whole=1", "lamb needs the gradient in one request" },
		{ variable(1 << 27, STAR_FLOAT32, OPTIM_SGD), "whole=1, clip_global_norm=1",
		  "clip_global_norm needs the gradient in one request" },
		{ table(STAR_FLOAT32, OPTIM_SGD), "whole=1", "whole=1 needs a variable" },
		{ table(STAR_FLOAT32, OPTIM_ADAGRAD), "epsilon=0", "a gradient of 0 would divide 0 by 0" },
		{ table(STAR_FLOAT32, OPTIM_ADAM), "epsilon=0", "a gradient of 0 would divide 0 by 0" },
		{ table(STAR_FLOAT32, OPTIM_SGD), "clip_global_norm=1", "clip_global_norm=1 needs whole=1" },
		{ variable(100, STAR_FLOAT32, OPTIM_SGD), "clip_global_norm=1", "clip_global_norm=1 needs whole=1" },
		{ table(STAR_FLOAT32, OPTIM_SGD), "master=1", "master=1 needs element type float16, bfloat16 or" },
		{ table(STAR_FLOAT64, OPTIM_SGD), "stochastic=1", "stochastic=1 needs element type float16" },
		{ table(STAR_FLOAT16, OPTIM_NONE), "master=1", "master=1 needs an optimizer" },
		{ table(STAR_FLOAT32, OPTIM_SGD), "filter=counter", "a filter needs filter_frequency" },
		{ table(STAR_FLOAT32, OPTIM_SGD), "filter=bloom, filter_frequency=2",
		  "filter=bloom needs filter_keys" },
		{ table(STAR_FLOAT32, OPTIM_SGD), "filter_frequency=2", "filter_frequency=2 needs filter=counter or" },
		{ table(STAR_FLOAT32, OPTIM_SGD), "filter_value=2", "filter_value=2 needs filter=counter or" },
		{ table(STAR_FLOAT32, OPTIM_SGD), "filter=counter, filter_frequency=2, filter_keys=9",
		  "filter_keys=9 needs filter=bloom" },
		{ variable(100, STAR_FLOAT32, OPTIM_SGD), "filter=counter, filter_frequency=2",
		  "filter=counter needs a table" },
		{ variable(100, STAR_FLOAT32, OPTIM_SGD), "steps_to_live=9", "steps_to_live=9 needs a table" },
		{ variable(100, STAR_FLOAT32, OPTIM_SGD), "l2_threshold=9", "l2_threshold=9 needs a table" },
		{ variable(100, STAR_FLOAT32, OPTIM_SGD), "rows_max=9", "rows_max=9 needs a table" },
		{ variable(100, STAR_FLOAT32, OPTIM_SGD), "full=evict_lru", "full=evict_lru needs a table" },
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *sentence = judge(cases[i].spec, cases[i].options);

		CHECK_HAS(sentence, cases[i].part);
		CHECK_HAS(sentence, "\"emb\"");
	}
}

void options_that_go_together_pass(void)
{
	const struct {
		struct object_spec spec;
		const char *options;
	} cases[] = {
		{ table(STAR_INT32, OPTIM_NONE), "initializer=constant, scale=-7, filter=counter, filter_frequency=2" },
		{ table(STAR_FLOAT16, OPTIM_ADAM), "master=1, count_per_table=1, clip_norm=1, l1=0.1, l2=0.1" },
		{ table(STAR_FLOAT32, OPTIM_ADAGRAD), "epsilon=0, initial_accumulator=0.1" },
		{ table(STAR_SCALED_INT8, OPTIM_SGD), "stochastic=1, nonfinite=clip, versions=1, staleness=1" },
		{ table(STAR_FLOAT64, OPTIM_FTRL), "initializer=normal, mean=1, scale=1, l2_shrinkage=0.1" },
		{ table(STAR_FLOAT32, OPTIM_SGD),
		  "filter=bloom, filter_frequency=3, filter_keys=1000000, filter_error=0.001, filter_value=0.5, "
		  "steps_to_live=1000, l2_threshold=1e-6, rows_max=100000, full=evict_lru" },
		{ table(STAR_FLOAT32, OPTIM_SGD),
		  "warmup_steps=10, schedule=exponential, schedule_steps=1000, schedule_rate=0.96" },
		{ variable(1 << 20, STAR_FLOAT32, OPTIM_LAMB), "whole=1, trust_max=10" },
		{ variable(1 << 10, STAR_FLOAT64, OPTIM_LAMB), "whole=1" },
		{ variable(1 << 20, STAR_BFLOAT16, OPTIM_ADAMW), "whole=1, clip_global_norm=1, initializer=he_normal" },
	};
	struct object_spec spec = variable(100, STAR_FLOAT32, OPTIM_SGD);

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		CHECK_STR(judge(cases[i].spec, cases[i].options), "");
	for (unsigned kind = 1; optim_kind_name(kind); kind++)
		if (kind != OPTIM_LAMB)
			CHECK_STR(judge(table(STAR_FLOAT32, kind), ""), "");
	CHECK_INT(wire_object_spec_check(&spec, NULL), 0);
	CHECK_UINT(spec.versions, 1); /* a variable's rows have versions, whether asked for or not */
}

/* What an option's text says reads back as the same value. */
void texts_of_options_read_back(void)
{
	struct object_spec spec = table(STAR_FLOAT32, OPTIM_ADAM), back = spec;

	CHECK_INT(wire_object_spec_options(&spec, "rate=0.3, beta2=0.12345678, seed=123456789012345678, filter=bloom",
					   NULL),
		  0);
	for (const struct object_option *o = wire_object_options; o->name; o++) {
		char text[OBJECT_OPTION_TEXT], item[OBJECT_OPTION_TEXT + 64];

		snprintf(item, sizeof(item), "%s=%s", o->name, wire_object_option_text(o, &spec, text));
		CHECK_INT(wire_object_spec_options(&back, item, NULL), 0);
		CHECK(strlen(wire_object_option_possible(o, text)) > 0 && strlen(o->text) > 0);
	}
	CHECK_INT(wire_object_spec_same(&spec, &back, NULL), 0);
}

static void check_rate(const struct object_spec *spec, uint64_t step, double expected)
{
	const double rate = (double)wire_object_rate(spec, 2, step);

	if (!CHECK(fabs(rate - expected) <= 2e-7 * expected))
		printf("# step %llu: %.9g, not %.9g\n", (unsigned long long)step, rate, expected);
}

/* Against the formulas in the C library's functions: to a float's last bit. */
void rates_follow_their_schedule(void)
{
	struct object_spec spec = table(STAR_FLOAT32, OPTIM_SGD);

	CHECK(wire_object_rate(&spec, 0.3f, 0) == 0.3f);
	CHECK(wire_object_rate(&spec, 0.3f, UINT64_MAX) == 0.3f);
	CHECK_INT(wire_object_spec_options(
			  &spec, "warmup_steps=4, schedule=exponential, schedule_steps=100, schedule_rate=0.96", NULL),
		  0);
	for (uint64_t step = 1; step <= 4; step++)
		check_rate(&spec, step, 2 * (double)step / 4);
	check_rate(&spec, 0, 2.0 / 4); /* unknown: the first */
	for (uint64_t t = 0; t < 100000; t += 1 + t / 3)
		check_rate(&spec, t + 5, 2 * pow((double)0.96f, (double)t / 100));
	CHECK(wire_object_rate(&spec, 2, UINT64_MAX) == 0);
	spec.warmup_steps = 0;
	spec.schedule = SCHEDULE_COSINE;
	spec.schedule_rate = 0.25f;
	for (uint64_t t = 0; t <= 100; t++)
		check_rate(&spec, t + 1, 2 * (0.25 + 0.75 * (1 + cos(3.14159265358979323846 * (double)t / 100)) / 2));
	check_rate(&spec, 102, 0.5);
	check_rate(&spec, UINT64_MAX, 0.5);
}
