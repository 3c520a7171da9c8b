/* SPDX-License-Identifier: BSD-3-Clause */
/* Objects and layouts to JSON and back, and each way in which they can be malformed. */
#include "tests/control/cases.h"

#include "jsonrpc/member.h"
#include "tests/control/harness.h"

#include <errno.h>
#include <float.h>
#include <stdlib.h>

#include "base/nearest.h"
#include "jsonrpc/jsonrpc.h"
#include "jsonrpc/object_json.h"
#include "tensor/dtype.h"

static struct object_spec table_spec(void)
{
	struct object_spec spec = { .kind = OBJECT_TABLE, .dtype = STAR_FLOAT32, .dim = 64, .name = "words" };

	wire_object_spec_defaults(&spec, OPTIM_ADAGRAD);
	spec.initializer = OBJECT_UNIFORM;
	return spec;
}

static void round_trip(const struct object_spec *spec)
{
	struct star_error err = { 0 };
	struct object_spec back;
	json_t *json = jsonrpc_object_encode(spec), *parsed;
	char *text;

	if (!CHECK(json != NULL))
		return;
	text = json_dumps(json, 0);
	parsed = json_loads(text, 0, NULL);
	if (jsonrpc_object_decode(parsed, &back, &err) < 0)
		unit_fail(__FILE__, __LINE__, "%s of %s", err.text, text);
	else if (!CHECK_INT(wire_object_spec_same(spec, &back, &err), 0))
		unit_fail(__FILE__, __LINE__, "%s", err.text);
	CHECK_STR(back.name, spec->name);
	CHECK_UINT(back.id, spec->id);
	CHECK_UINT(back.seed, spec->seed);
	free(text);
	json_decref(parsed);
	json_decref(json);
}

void object_round_trips(void)
{
	static const float numbers[] = { 0, 1, -1, 0.1f, FLT_MAX, FLT_MIN, 1e-45f, 3.14159274f };
	static const uint64_t seeds[] = { 0, 1, INT64_MAX, UINT64_C(1) << 63, UINT64_MAX };
	struct object_spec spec = table_spec();
	struct star_error err;

	for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		spec.scale = numbers[i];
		spec.mean = -numbers[i];
		round_trip(&spec);
	}
	for (unsigned i = 0; i < sizeof(seeds) / sizeof(seeds[0]); i++) {
		spec.seed = seeds[i];
		round_trip(&spec);
	}
	spec.id = WIRE_OBJECTS_MAX;
	spec.dim = WIRE_DIM_MAX;
	memset(spec.name, '"', WIRE_NAME_MAX);
	round_trip(&spec);
	strcpy(spec.name, "gr\303\274n /\\ \360\237\214\237");
	round_trip(&spec);
	spec.kind = OBJECT_VARIABLE;
	spec.dim = 0;
	spec.ndim = 3;
	memcpy(spec.shape, ((uint64_t[]){ 1000, 3, 7 }), 3 * sizeof(uint64_t));
	CHECK_INT(wire_object_spec_check(&spec, &err), 0);
	round_trip(&spec);
	strcpy(spec.name, "not UTF-8: \377");
	CHECK(jsonrpc_object_encode(&spec) == NULL);
}

/* Each option away from its default, in every type of value; and all of them left out. */
void options_round_trip(void)
{
	struct object_spec spec = { .kind = OBJECT_TABLE, .dtype = STAR_SCALED_INT8, .dim = 3, .name = "o" }, back;
	struct star_error err = { 0 };
	json_t *json;

	wire_object_spec_defaults(&spec, OPTIM_ADAMW);
	if (!CHECK_INT(wire_object_spec_options(
			       &spec,
			       "initializer=truncated_normal, scale=0.1, mean=-0.3, seed=18446744073709551615, "
			       "rate=0.3, beta1=0.7, weight_decay=1e-6, clip_norm=3.3, count_per_table=1, "
			       "schedule=exponential, schedule_steps=7, schedule_rate=0.9, warmup_steps=1000000, "
			       "staleness=1, nonfinite=clip, versions=1, master=1, stochastic=1, filter=bloom, "
			       "filter_frequency=4294967295, filter_value=0.7, filter_keys=12345678901, "
			       "filter_error=0.003, steps_to_live=77, l2_threshold=1e-9, rows_max=1000000, "
			       "full=evict_lfu",
			       &err),
		       0))
		unit_fail(__FILE__, __LINE__, "%s", err.text);
	round_trip(&spec);
	json = json_pack("{s:s, s:s, s:i}", "name", "plain", "kind", "table", "dim", 4);
	CHECK_INT(jsonrpc_object_decode(json, &back, &err), 0);
	json_decref(json);
	spec = (struct object_spec){ .kind = OBJECT_TABLE, .dtype = STAR_FLOAT32, .dim = 4, .name = "plain" };
	wire_object_spec_defaults(&spec, OPTIM_SGD);
	CHECK_INT(wire_object_spec_same(&spec, &back, &err), 0);
}

/* A node brings its objects when it joins, by pages: each in one request, with the ids of all that it has no room
 * for. */
void the_longest_page_of_the_catalogue_fits_in_a_request(void)
{
	struct object_spec spec = { .kind = OBJECT_VARIABLE, .dtype = STAR_SCALED_INT8, .id = WIRE_OBJECTS_MAX };
	size_t longest = 0;

	memset(spec.name, '"', WIRE_NAME_MAX);
	spec.ndim = OBJECT_NDIM_MAX;
	for (unsigned i = 0; i < OBJECT_NDIM_MAX; i++)
		spec.shape[i] = UINT64_MAX; /* longer than any that passes */
	for (unsigned kind = 1; optim_kind_name(kind); kind++) {
		json_t *json;
		size_t bytes;

		wire_object_spec_defaults(&spec, kind);
		for (const struct object_option *o = wire_object_options; o->name; o++)
			wire_object_option_set(o, &spec, o->type == OPTION_NAME ? 1 : (uint64_t)o->most,
					       -1.23456789e-38f);
		json = jsonrpc_object_encode(&spec);
		bytes = json_dumpb(json, NULL, 0, JSON_COMPACT | JSON_REAL_PRECISION(15));
		longest = bytes > longest ? bytes : longest;
		json_decref(json);
	}
	CHECK(longest > 1000 &&
	      JSONRPC_OBJECTS_PAGE * (longest + 1) + WIRE_OBJECTS_MAX * sizeof("16384") + 1000 < JSONRPC_REQUEST_MAX);
}

struct bad_member {
	const char *member;
	const char *json; /* NULL: left out */
	const char *says;
};

static json_t *spoiled(json_t *json, const struct bad_member *bad)
{
	if (bad->json)
		json_object_set_new(json, bad->member, json_loads(bad->json, JSON_DECODE_ANY, NULL));
	else
		json_object_del(json, bad->member);
	return json;
}

void each_malformed_member_of_an_object_is_named(void)
{
	static const struct bad_member bad[] = {
		{ "name", NULL, "\"name\" is missing" },
		{ "name", "\"\"", "1 to 127 bytes" },
		{ "name", "3", "\"name\" must be a string of 1 to 127 bytes, not 3" },
		{ "name", "\"a\\nb\"", "control character" },
		{ "kind", NULL, "\"kind\" is missing" },
		{ "kind", "\"tabel\"", "\"kind\" is \"tabel\"; possible: table, variable" },
		{ "dtype", "\"float99\"", "possible: float32" },
		{ "dim", NULL, "\"dim\" is missing: it must be an integer from 1 to 4096" },
		{ "dim", "0", "not 0" },
		{ "dim", "-1", "not -1" },
		{ "dim", "4097", "1 to 4096, not 4097" },
		{ "dim", "64.0", "not 64.0" },
		{ "dim", "\"64\"", "not \"64\"" },
		{ "dim", "[64]", "not [64]" },
		{ "dim", "9223372036854775807", "not 9223372036854775807" },
		{ "initializer", "\"xavier\"", "possible: zeros, constant, uniform, normal" },
		{ "initializer", "3", "\"initializer\" must be a string of 1 to 127 bytes, not 3" },
		{ "optimizer", "\"adagard\"", "\"optimizer\" is \"adagard\"; possible: sgd, adagrad" },
		{ "optimizer", "\"adam\"", "initial_accumulator is 0.1, but optimizer adam does not use it" },
		{ "filter", "\"count\"", "possible: none, counter, bloom" },
		{ "filter_frequency", "4294967296", "0 to 4294967295, not 4294967296" },
		{ "filter_frequency", "5", "filter_frequency=5 needs filter=counter" },
		{ "versions", "1", "\"versions\" must be true or false, not 1" },
		{ "rows_max", "2000000000000000", "rows_max is 2000000000000000; possible: 0 to 1000000000000000" },
		{ "scale", "1e39", "fits into 32 bits" },
		{ "scale", "-1e39", "fits into 32 bits" },
		{ "rate", "null", "not null" },
		{ "epsilon", "-1", "epsilon" },
		{ "initial_accumulator", "-0.5", "accumulator" },
		{ "seed", "-1", "not -1" },
		{ "seed", "\"18446744073709551616\"", "not \"18446744073709551616\"" },
		{ "seed", "\"12x\"", "not \"12x\"" },
		{ "seed", "\"-1\"", "not \"-1\"" },
		{ "seed", "\"\"", "not \"\"" },
		{ "seed", "1.5", "not 1.5" },
		{ "id", "0", "1 to 16384, not 0" },
		{ "id", "16385", "1 to 16384, not 16385" },
		{ "shape", "[3]", "belongs to variables" },
		{ "dims", "3", "unknown member \"dims\"; did you mean \"dim\"?" },
	};
	struct star_error err = { 0 };
	struct object_spec spec;

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		json_t *json = spoiled(table_json("words", 64), &bad[i]);

		if (CHECK_INT(jsonrpc_object_decode(json, &spec, &err), -EINVAL))
			CHECK_HAS(err.text, bad[i].says);
		else
			unit_fail(__FILE__, __LINE__, "case %u: %s = %s", i, bad[i].member,
				  bad[i].json ? bad[i].json : "(none)");
		json_decref(json);
	}
	CHECK_INT(jsonrpc_object_decode(NULL, &spec, &err), -EINVAL);
	CHECK_HAS(err.text, "must be a JSON object");
}

void each_malformed_shape_of_a_variable_is_refused(void)
{
	static const struct bad_member bad[] = {
		{ "shape", NULL, "array of 1 to 8 sizes" },
		{ "shape", "[]", "array of 1 to 8 sizes" },
		{ "shape", "[1,1,1,1,1,1,1,1,1]", "array of 1 to 8 sizes" },
		{ "shape", "7", "array of 1 to 8 sizes" },
		{ "shape", "[4, 0]", "size 1 must be a positive integer" },
		{ "shape", "[4, \"4\"]", "size 1 must be a positive integer" },
		{ "shape", "[4294967296, 4294967296]", "at most 2^38" },
		{ "dim", "3", "leave it out" },
	};
	struct star_error err = { 0 };
	struct object_spec spec;

	for (unsigned i = 0; i <= sizeof(bad) / sizeof(bad[0]); i++) {
		json_t *json = table_json("matrix", 1);

		json_object_set_new(json, "kind", json_string("variable"));
		json_object_set_new(json, "shape", json_pack("[i, i]", 10, 20));
		json_object_del(json, "dim");
		if (i < sizeof(bad) / sizeof(bad[0])) {
			spoiled(json, &bad[i]);
			if (CHECK_INT(jsonrpc_object_decode(json, &spec, &err), -EINVAL))
				CHECK_HAS(err.text, bad[i].says);
		} else {
			CHECK_INT(jsonrpc_object_decode(json, &spec, &err), 0);
			CHECK_UINT(spec.dim, 200);
		}
		json_decref(json);
	}
}

#define KEY10 "00112233445566778899"
#define KEY40 KEY10 KEY10 KEY10 KEY10

static struct layout *example_layout(void)
{
	struct layout *layout = calloc(1, sizeof(*layout) + 2 * sizeof(layout->nodes[0]));

	layout->epoch = 3;
	layout->partitions = 16384;
	layout->nodes_count = 2;
	layout->reactors = 5;
	layout->nodes[0] = (struct layout_node){ .incarnation = UINT32_MAX,
						 .data_host = "198.18.0.1",
						 .data_port = 5555,
						 .reactors = 2,
						 .request_max = WIRE_PAYLOAD_MAX,
						 .control = "ps0:3333" };
	layout->nodes[1] = (struct layout_node){ .incarnation = 7,
						 .data_host = "198.18.0.2",
						 .data_port = 65533,
						 .reactors = 3,
						 .request_max = WIRE_PAYLOAD_DEFAULT };
	layout->nodes[1].steering.entries = 128;
	layout->nodes[1].steering.key_bytes = STEERING_KEY_MAX;
	for (unsigned i = 0; i < STEERING_KEY_MAX; i++)
		layout->nodes[1].steering.key[i] = (uint8_t)(5 * i);
	for (unsigned i = 0; i < 128; i++)
		layout->nodes[1].steering.table[i] = (uint8_t)(i % 3);
	return layout;
}

void layout_round_trips(void)
{
	struct layout *layout = example_layout(), *back;
	struct star_error err = { 0 };
	json_t *json = jsonrpc_layout_encode(layout);

	back = jsonrpc_layout_decode(json, &err);
	if (!back)
		unit_fail(__FILE__, __LINE__, "%s", err.text);
	else
		CHECK_MEM(back, layout, sizeof(*layout) + 2 * sizeof(layout->nodes[0]));
	free(back);
	free(layout);
	json_decref(json);
}

void each_malformed_member_of_a_layout_is_named(void)
{
	static const struct bad_member of_layout[] = {
		{ "epoch", NULL, "\"epoch\" is missing" },
		{ "epoch", "0", "\"epoch\"" },
		{ "epoch", "4294967296", "not 4294967296" },
		{ "partitions", "0", "\"partitions\"" },
		{ "partitions", "16383", "power of two" },
		{ "partitions", "2097152", "1 to 1048576" },
		{ "reactors", "4", "\"reactors\" is 4, but the nodes have 5" },
		{ "nodes", NULL, "1 to 1024 nodes" },
		{ "nodes", "[]", "1 to 1024 nodes" },
		{ "nodes", "{}", "1 to 1024 nodes" },
		{ "nodes", "[3]", "a node must be a JSON object" },
	};
	static const struct bad_member of_node[] = {
		{ "task", "0", "task 0 is entry 1" },
		{ "task", NULL, "\"task\" is missing" },
		{ "incarnation", "0", "\"incarnation\"" },
		{ "data_host", "\"\"", "1 to 63 bytes" },
		{ "data_host", "\"a b\"", "not an address" },
		{ "data_host", "\"0123456789012345678901234567890123456789012345678901234567890123\"",
		  "1 to 63 bytes" },
		{ "data_port", "0", "1 to 65535" },
		{ "data_port", "65534", "above 65535" },
		{ "reactors", "65", "1 to 64" },
		{ "request_max", "0", "1048576 to 67108864" },
		{ "request_max", "67108865", "1048576 to 67108864" },
		{ "tickets", "3", "\"tickets\"" },
		{ "tickets", "\"\"", "1 to 79 bytes" },
		{ "steering", "3", "must be an object" },
		{ "steering", "{}", "\"key\" is missing" },
		{ "steering", "{\"key\": \"00\", \"queues\": [0]}", "40 to 52 bytes" },
		{ "steering", "{\"key\": \"" KEY40 "0\", \"queues\": [0]}", "hexadecimal" },
		{ "steering", "{\"key\": \"" KEY40 "zz\", \"queues\": [0]}", "hexadecimal" },
		{ "steering", "{\"key\": \"" KEY40 "\", \"queues\": [0, 1, 2]}", "power of two" },
		{ "steering", "{\"key\": \"" KEY40 "\", \"queues\": []}", "power of two" },
		{ "steering", "{\"key\": \"" KEY40 "\", \"queues\": [3]}", "entry 0 is not a reactor" },
		{ "steering", "{\"key\": \"" KEY40 "\", \"queues\": [0, -1]}", "entry 1 is not a reactor" },
		{ "steering", "{\"key\": \"" KEY40 "\", \"queues\": [0], \"x\": 1}", "x" },
		{ "reactors", "0", "1 to 64" },
	};
	const unsigned tops = sizeof(of_layout) / sizeof(of_layout[0]),
		       all = tops + sizeof(of_node) / sizeof(of_node[0]);
	struct layout *layout = example_layout(), *back;
	struct star_error err = { 0 };

	for (unsigned i = 0; i < all; i++) {
		const struct bad_member *bad = i < tops ? &of_layout[i] : &of_node[i - tops];
		json_t *json = jsonrpc_layout_encode(layout);

		spoiled(i < tops ? json : json_array_get(json_object_get(json, "nodes"), 1), bad);
		back = jsonrpc_layout_decode(json, &err);
		if (CHECK(back == NULL))
			CHECK_HAS(err.text, bad->says);
		else
			unit_fail(__FILE__, __LINE__, "case %u: %s", i, bad->member);
		free(back);
		json_decref(json);
	}
	CHECK(jsonrpc_layout_decode(NULL, &err) == NULL);
	free(layout);
}

void nearest_name_is_found(void)
{
	static const char *const names[] = { "layout", "lookup", "status", "tables", NULL };
	static const char *const none[] = { NULL };
	char longer[4096];

	memset(longer, 's', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = 0;
	CHECK_STR(nearest_name("statsu", names, sizeof(names[0])), "status");
	CHECK_STR(nearest_name("lokup", names, sizeof(names[0])), "lookup");
	CHECK_STR(nearest_name("table", names, sizeof(names[0])), "tables");
	CHECK_STR(nearest_name(longer, names, sizeof(names[0])), "status");
	CHECK(nearest_name("", names, sizeof(names[0])) != NULL);
	CHECK(nearest_name("x", none, sizeof(none[0])) == NULL);
}

/* Paths, and sentences that were cut. */
void text_of_any_bytes_is_json(void)
{
	static const struct {
		const char *text, *shown;
	} cases[] = {
		{ "", "" },
		{ "/plain", "/plain" },
		{ "/\xc3\xa4/\xe2\x82\xac/\xf0\x9f\x98\x80", "/\xc3\xa4/\xe2\x82\xac/\xf0\x9f\x98\x80" },
		{ "a\xc3\xa4 cut \xc3", "a\xc3\xa4 cut " }, /* at the end it is left out, ... */
		{ "cut \xe2\x82", "cut " },
		{ "cut \xf0\x9f\x98", "cut " },
		{ "\xc3 in the middle: \xe2\x82, \xc3\xa4", "? in the middle: ??, \xc3\xa4" },
		{ "\xff\xfe\x80", "???" },
		{ "\xc0\xaf \xed\xa0\x80", "?? ???" }, /* overlong, and half a pair */
	};
	char longest[5000];

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		json_t *json = jsonrpc_member_from_text(cases[i].text);

		CHECK_STR(json_string_value(json), cases[i].shown);
		json_decref(json);
	}
	for (size_t i = 0; i < sizeof(longest) - 1; i++)
		longest[i] = i % 2 ? (char)0xa4 : (char)0xc3;
	longest[sizeof(longest) - 1] = 0;
	for (size_t odd = 0; odd < 2; odd++) {
		json_t *json = jsonrpc_member_from_text(longest + odd);

		CHECK_UINT(json_string_length(json), 4096 - odd);
		json_decref(json);
	}
}
