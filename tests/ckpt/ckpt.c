/* SPDX-License-Identifier: BSD-3-Clause */
/* What is written is read again. */
#include "tests/ckpt/cases.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "store/snapshot.h"
#include "store/store.h"
#include "tensor/dtype.h"
#include "tests/ckpt/support.h"
#include "tests/unit.h"

void what_was_saved_is_read(void)
{
	static const struct save saves[] = {
		{ .id = 1, .files = 1, .rows = 1, .run_rows = 1 },
		{ .id = 2, .files = 3, .rows = 0, .run_rows = 1 },
		{ .id = 3, .parent = 2, .files = 4, .rows = 17, .run_rows = 5, .run_limit = 4096 },
		{ .id = 4, .files = 2, .rows = 20000, .run_rows = 100000 },
		{ .id = 5, .files = 2, .rows = 20000, .run_rows = 77, .run_limit = 1000008, .buffered = true },
		{ .id = 123456789, .parent = 5, .files = 5, .rows = 1000, .run_rows = 64, .run_limit = 8000 },
	};
	char directory[DIRECTORY_MAX];
	struct star_error err = { 0 };

	make_directory(directory);
	for (unsigned i = 0; i < sizeof(saves) / sizeof(saves[0]); i++) {
		const struct path path = checkpoint_path(directory, &saves[i]);

		if (!CHECK_INT(save_checkpoint(directory, &saves[i], &err), 0) || !check_saved(path.text, &saves[i]) ||
		    !CHECK_INT(ckpt_verify(path.text, NULL, NULL, &err), 0)) {
			printf("# %s: %s\n", path.text, err.text);
			break;
		}
	}
	unit_remove(directory);
}

/* By hand from lib/wire/checkpoint.h. */
void rows_have_the_sizes_of_the_format(void)
{
	static const uint32_t bytes[OBJECTS] = {
		8 + 4 * 4,				   /* plain */
		8 + 4 + 4 + 4 + 5 * 4 + 2 * 5 * 4,	   /* adam: version, seen, updates, values, m, v */
		8 + 4 * 4 + 3 * 2 + 3 * 4 + 3 * 3 * 4 + 2, /* narrow: rounds, frequency, used, updates */
		8 + 4 + 7 * 2 + 2 * 7 * 4 + 6,		   /* half: used */
		8 + 2 * 8 + 2 * 2 * 8,			   /* wide */
		8 + 4 + 12 + 9 * 4 + 4,			   /* scaled */
		8 + 8,					   /* counts */
		8 + 3 + 5,				   /* letters */
		8 + 4 + 4 + 60 * 4 + 2 * 60 * 4,	   /* dense: one block of 60: version, updates */
	};

	for (unsigned i = 0; i < OBJECTS; i++)
		if (!CHECK_UINT(ckpt_row_bytes(&sample_objects()[i]), bytes[i]))
			printf("# of \"%s\", dim %u\n", sample_objects()[i].name, sample_objects()[i].dim);
}

/* One definition, if it is one: what ckpt reckons from it is what a store's table writes. */
static unsigned compare_sizes(unsigned optimizer, unsigned dtype, uint32_t dim, bool variable, const char *options,
			      const char *more, uint8_t *arena, size_t arena_bytes)
{
	struct object_spec spec = { .kind = variable ? OBJECT_VARIABLE : OBJECT_TABLE,
				    .dtype = (uint8_t)dtype,
				    .dim = variable ? 0 : dim,
				    .ndim = variable ? 2 : 0,
				    .shape = { 10, dim },
				    .name = "t" };
	struct store_table *table;
	struct star_error err;
	struct store *store;

	wire_object_spec_defaults(&spec, optimizer);
	if (wire_object_spec_options(&spec, options, &err) < 0 || wire_object_spec_options(&spec, more, &err) < 0 ||
	    wire_object_spec_check(&spec, &err) < 0)
		return 0;
	spec.id = 1;
	store = store_create(arena, arena_bytes, &err);
	table = store ? store_table_create(store, &spec, 1, &err) : NULL;
	if (!CHECK(table))
		printf("# %s\n", err.text);
	else if (!CHECK_UINT(ckpt_row_bytes(&spec), store_row_record_bytes(table)))
		printf("# %s, type %u, dim %u, \"%s\", \"%s\"\n", optim_kind_name(optimizer), dtype, spec.dim, options,
		       more);
	if (store)
		store_destroy(store);
	return 1;
}

void rows_have_the_sizes_of_the_store(void)
{
	static const char *const policies[] = { "",
						"full=evict_lru,rows_max=9",
						"full=evict_lfu,rows_max=9",
						"steps_to_live=5",
						"full=evict_lfu,rows_max=9,steps_to_live=5,versions=1",
						"whole=1",
						"staleness=1,versions=1",
						"filter=counter,filter_frequency=3" };
	static const char *const states[] = { "",
					      "master=1",
					      "stochastic=1",
					      "master=1,stochastic=1",
					      "versions=1",
					      "count_per_table=1",
					      "sparse_rmsprop=1",
					      "centered=1",
					      "centered=1,momentum=0.5",
					      "momentum=0" };
	static const uint32_t dims[] = { 1, 2, 3, 5, 8, 63, 1000 };
	const size_t arena_bytes = 8 << 20;
	uint8_t *arena = aligned_alloc(4096, arena_bytes);
	unsigned compared = 0, kinds = 0;

	for (unsigned kind = 1; optim_kind_name(kind); kind++, kinds++)
		for (unsigned dtype = STAR_FLOAT32; dtype <= STAR_SCALED_INT8; dtype++)
			for (unsigned p = 0; p < sizeof(policies) / sizeof(policies[0]); p++)
				for (unsigned s = 0; s < sizeof(states) / sizeof(states[0]); s++)
					for (unsigned d = 0; d < 2 * sizeof(dims) / sizeof(dims[0]); d++)
						compared += compare_sizes(kind, dtype, dims[d / 2], d % 2, policies[p],
									  states[s], arena, arena_bytes);
	printf("# %u definitions of %u optimizers\n", compared, kinds);
	CHECK(kinds >= 13 && compared > 5000);
	free(arena);
}

void writer_refuses_impossible_blocks(void)
{
	static const uint32_t bad[] = { 0, 4, CHECKPOINT_PAYLOAD_MAX + 8, UINT32_MAX };
	uint8_t *block = aligned_alloc(CHECKPOINT_ALIGN, CHECKPOINT_BLOCK_MAX);
	struct ckpt_writer_options options = { .header = { .id = 1, .partitions = 1 } };
	char directory[DIRECTORY_MAX], path[CKPT_PATH_MAX], name[16];
	struct star_error err = { 0 };
	struct ckpt_file file;

	make_directory(directory);
	CHECK_INT(ckpt_begin(directory, 1, 0, path, &err), 0);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct ckpt_writer *writer;

		snprintf(name, sizeof(name), "%u.star", i);
		writer = ckpt_writer_create(path, name, &options, &err);
		if (!CHECK(writer))
			break;
		CHECK_INT(ckpt_writer_block(writer, block, bad[i], 0, 0, &err), -EINVAL);
		CHECK_HAS(err.text, "a multiple of 8");
		/* And nothing after it: the file would lack something. */
		CHECK_INT(ckpt_writer_block(writer, block, 8, 0, 0, &err), -EINVAL);
		CHECK_INT(ckpt_writer_finish(writer, &file, &err), -EINVAL);
		CHECK_HAS(err.text, "could not be written before");
		ckpt_writer_destroy(writer);
	}
	CHECK(!ckpt_writer_create(path, "0.star", &options, &err));
	CHECK_INT(err.code, -EEXIST);
	for (unsigned i = 0; i < 5; i++) {
		static const char *const names[] = { "", "../x.star", ".hidden", "manifest.json", "a/b" };

		CHECK(!ckpt_writer_create(path, names[i], &options, &err));
		CHECK_INT(err.code, -EINVAL);
	}
	ckpt_abandon(path);
	CHECK(access(path, F_OK) < 0);
	free(block);
	unit_remove(directory);
}

/* Not a figure, only that it is not faster than told: that holds on a busy machine, too. */
void limit_of_bytes_a_second_holds(void)
{
	const struct ckpt_writer_options options = { .header = { .id = 1, .partitions = 1 }, .limit_mib_s = 20 };
	uint8_t *block = aligned_alloc(CHECKPOINT_ALIGN, CHECKPOINT_BLOCK_MAX);
	char directory[DIRECTORY_MAX], path[CKPT_PATH_MAX];
	struct star_error err = { 0 };
	struct ckpt_writer *writer;
	struct ckpt_file file;
	uint64_t begin;

	make_directory(directory);
	CHECK_INT(ckpt_begin(directory, 1, 0, path, &err), 0);
	begin = clock_us();
	writer = ckpt_writer_create(path, "a.star", &options, &err);
	memset(block, 0, CHECKPOINT_BLOCK_MAX);
	for (unsigned i = 0; i < 5 && writer; i++)
		CHECK_INT(ckpt_writer_block(writer, block, CHECKPOINT_PAYLOAD_MAX, 0, 0, &err), 0);
	if (CHECK(writer))
		CHECK_INT(ckpt_writer_finish(writer, &file, &err), 0);
	/* The last block need not wait for what comes after it. */
	CHECK(clock_us() - begin >= 5 * 1000000 / 20);
	ckpt_writer_destroy(writer);
	free(block);
	unit_remove(directory);
}

const char *const unit_suite = "ckpt";
const struct unit_case unit_cases[] = {
	{ "what was saved is read", what_was_saved_is_read },
	{ "rows have the sizes of the format", rows_have_the_sizes_of_the_format },
	{ "rows have the sizes of the store", rows_have_the_sizes_of_the_store },
	{ "writer refuses impossible blocks", writer_refuses_impossible_blocks },
	{ "limit of bytes a second holds", limit_of_bytes_a_second_holds },
	{ "no flipped byte is accepted", no_flipped_byte_is_accepted },
	{ "no file that was cut off or made longer is accepted", no_cut_file_is_accepted },
	{ "foreign files are refused", foreign_files_are_refused },
	{ "hostile manifests are refused", hostile_manifests_are_refused },
	{ "hostile runs are refused", hostile_runs_are_refused },
	{ "hostile blooms are refused", hostile_blooms_are_refused },
	{ "what no node loads is passed over", what_no_node_loads_is_passed_over },
	{ "a save that ends anywhere leaves the last good one", save_that_ends_anywhere_leaves_the_last_good_one },
	{ "a prune that ends anywhere leaves the last good one", prune_that_ends_anywhere_leaves_the_last_good_one },
	{ "a save that fails anywhere says why", save_that_fails_anywhere_says_why },
	{ "file systems without O_DIRECT are written and read", file_systems_without_direct_are_used },
	{ "a full file system is told", full_file_system_is_told },
	{ "a read-only directory is told", read_only_directory_is_told },
	{ "a directory that vanishes is told", vanished_directory_is_told },
	{ "a mount that vanishes is told", vanished_mount_is_told },
	{ "a directory of another cluster is told", directory_of_another_cluster_is_told },
	{ "chains are found", chains_are_found },
	{ "good chains are found", good_chains_are_found },
	{ "what nodes refuse is told", what_nodes_refuse_is_told },
	{ "prune counts what is whole", prune_counts_what_is_whole },
	{ "deltas go on from what is whole", deltas_go_on_from_what_is_whole },
	{ "deltas know what they go on from", deltas_know_what_they_go_on_from },
	{ "deltas are of their parents lineage", deltas_are_of_their_parents_lineage },
	{ "no older checkpoint is exported silently", no_older_one_is_exported_without_a_word },
	{ "what does not count is listed as such", what_does_not_count_is_listed },
	{ "strange numbers stop no save", strange_numbers_stop_no_save },
	{ "prune keeps chains whole", prune_keeps_chains_whole },
	{ "prune goes past what is not ours", prune_goes_past_what_is_not_ours },
	{ "prune leaves what others wrote", prune_leaves_what_others_wrote },
	{ "prune leaves what comes meanwhile", prune_leaves_what_comes_meanwhile },
	{ "prune leaves what is in use", prune_leaves_what_is_in_use },
	{ "a save and a prune wait for each other", a_save_and_a_prune_wait_for_each_other },
	{ "long chains are read", long_chains_are_read },
	{ "deltas that could not be restored are refused", deltas_that_could_not_be_restored_are_refused },
	{ "what was dropped is written down", what_was_dropped_is_written_down },
	{ "drops are of one lineage", drops_are_of_one_lineage },
	{ "drops one after the other are added", drops_one_after_the_other_are_added },
	{ "a drop that is not added leaves nothing", a_drop_that_is_not_added_leaves_nothing },
	{ "a drop that is not written leaves nothing", a_drop_that_is_not_written_leaves_nothing },
	{ "no list of drops is written that is not read", no_list_of_drops_is_written_that_is_not_read },
	{ "what may not be read is not passed over", what_may_not_be_read_is_not_passed_over },
	{ "files are not for everybody", files_are_not_for_everybody },
	{ "an import respects who writes there", import_respects_who_writes_there },
	{ "tables go out as lines and come back", tables_go_out_as_lines_and_come_back },
	{ "uses count back from the youngest", uses_count_back_from_the_youngest },
	{ "elements read back bit for bit", elements_read_back_bit_for_bit },
	{ "elements of text are rounded once", elements_of_text_are_rounded_once },
	{ "wrong lines are refused", wrong_lines_are_refused },
	{ "lines that no node would load are refused", lines_that_no_node_would_load_are_refused },
	{ "bloom filters go out as lines and come back", bloom_filters_go_out_as_lines_and_come_back },
	{ "manifests have an HMAC under a key", manifests_have_an_hmac_under_a_key },
	{ "no touched manifest is believed", no_touched_manifest_is_believed },
	{ "older checkpoints are adopted", older_checkpoints_are_adopted },
	{ "keys of checkpoints are changed", keys_of_checkpoints_are_changed },
	{ NULL, NULL },
};
