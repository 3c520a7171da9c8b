/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of lib/config share: configuration texts in files of their own, and a clean environment. */
#ifndef TESTS_CONFIG_SUPPORT_H
#define TESTS_CONFIG_SUPPORT_H

#include "config/config.h"
#include "tests/unit.h"

/* One line each, so that what a case adds behind PS_FILE is in line 5. */
#define NODE "node = { job_name = \"ps\"; task_index = 0; };\n"
#define CLUSTER "cluster = { ps = [ \"198.18.1.1:3333\", \"198.18.1.2:3333\" ]; worker = [ \"198.18.1.9:1\" ]; };\n"
#define MAP "endpoint_map = ( { control = \"198.18.1.1:3333\"; data = \"198.18.0.1:5555\"; } );\n"
#define PORTS "ports = ( { device = \"net_af_packet\"; interface = \"star0\"; address = \"198.18.0.1/24\"; } );\n"
#define PS_FILE NODE CLUSTER MAP PORTS

/* Writes a file of the test's folder, which support_clean removes; returns its path. name: without a slash. */
const char *support_write(const char *name, const char *text, size_t bytes);
const char *support_folder(void);
void support_clean(void);

/* Loads a text as a file, with one override ("name=value") or none (NULL). */
struct config *support_load(const char *text, const char *override, struct star_error *err);

/* Loads a text that must be refused with all of the parts, parted by '|', in the message. */
void support_refused(const char *text, const char *override, const char *parts);
void support_has_parts(const char *text, const char *parts);

/* Unsets every variable that lib/config reads. */
void support_clear_environment(void);

/* Runs on one core only, or on all as before. */
void support_one_core(bool one);

#define CASES(X) \
	X(every_bad_file_is_refused_with_its_line) \
	X(a_pair_may_keep_journals) \
	X(integers_are_not_cut_to_32_bits) \
	X(include_is_refused) \
	X(comments_are_closed) \
	X(files_that_cannot_be_read) \
	X(pipes_are_no_files) \
	X(file_forms_that_are_fine) \
	X(defaults) \
	X(default_reactors) \
	X(command_line_overrides) \
	X(bad_overrides) \
	X(command_line_lists) \
	X(damaged_files_are_loaded_or_refused) \
	X(pci_addresses_have_small_letters) \
	X(printed_configuration_reads_back_the_same) \
	X(pairs_are_printed_and_read_again) \
	X(printed_strings_are_quoted) \
	X(driver_files_load) \
	X(comments_of_driver_files_are_whole) \
	X(ports_are_read_one_by_one) \
	X(help_and_reference_name_every_option) \
	X(example_of_the_reference_loads) \
	X(precedence) \
	X(environment_governs_by_job) \
	X(tf_config_says_which_ps_task_it_is) \
	X(environment_switches) \
	X(bad_environment) \
	X(environment_endpoint_map) \
	X(worker_environment) \
	X(worker_files) \
	X(bad_worker_files) \
	X(cores_are_counted) \
	X(pinned_cores) \
	X(pinned_neighbours_have_cores_of_their_own) \
	X(map_forms_that_are_fine) \
	X(bad_map_lines) \
	X(map_limits) \
	X(own_entry) \
	X(kernel_owned_data_addresses) \
	X(ipv6_data_addresses) \
	X(workers_lines_are_kept) \
	X(data_ports_that_overlap) \
	X(ports_of_the_kernel_that_overlap) \
	X(map_file_in_configuration) \
	X(map_of_the_working_directory) \
	X(seeds_map) \
	X(addresses) \
	X(jobs_without_ports) \
	X(kernel_stack)

#define X(name) void name(void);
CASES(X)
#undef X

#endif
