# SPDX-License-Identifier: BSD-3-Clause
"""Snippets that scripts/lint must refuse, and near misses that it must not: (name, {file: text}, check, what it says).

Each is laid over the sound little tree of tests/system/lint.test: libraries base, optim and net, program tool. Where the
last member is None, the tree must pass. For the check `symbols` it is built, but for files that are called unbuilt.c.
"""

C = "/* SPDX-License-Identifier: BSD-3-Clause */\n"
S = "# SPDX-License-Identifier: BSD-3-Clause\n"


def function(body, name="optim_run"):
    return C + f"void {name}(void);\n\nvoid {name}(void)\n{{\n{body}}}\n"


BANNED_CALLS = """
malloc calloc realloc free printf fprintf puts abort exit log_info log_error rte_panic rte_exit rte_malloc
pthread_mutex_lock pthread_mutex_init __sync_fetch_and_add __atomic_fetch_add __atomic_compare_exchange_n
__atomic_exchange_n usleep nanosleep sleep read write
""".split()
FAST_LIBRARIES = "net rpc service store optim tensor wire reactor".split()

STATIC = C + "static {} {}(int row)\n{{\n}}\n"
PREFIXES = "lint/symbol-prefixes"
WORDS = "lint/banned-words"
OPTIONS = "lib/config/options.c"
OPTION = C + 'const char *const config_options[] = { "control.socket" };\n'
BUILT = {
    PREFIXES: S + "base sgd_log\noptim sgd\n",
    "lib/base/a.c": function("", "base_run") + function("", "sgd_log"),
    "lib/optim/a.c": function(""),
    "lib/optim/sgd.c": function("", "sgd"),
}

# A library for programs, as it was accepted: a call and a struct that programs see, and a struct that they do not.
OFFERS = "struct optim_rate {\n\tint kind;\n\tfloat rate;\n};\n"
CALLS = "struct optim_state;\nint optim_run(struct optim_rate *rate, struct optim_state *state);\n"
CODE = C + '#include "optim/optim.h"\n\nstruct optim_state {\n\tint steps;\n};\n\n'
RUN = "int optim_run(struct optim_rate *rate, struct optim_state *state)\n{\n\treturn rate->kind + state->steps;\n}\n"
ACCEPTED = {
    "lib/optim/rules.mk": S + "$(eval $(call library,optim))\nSHARED += liboptim\nHEADERS_liboptim := lib/optim/optim.h\n",
    "accepted/lib/optim/optim.h": C + OFFERS + CALLS,
    "accepted/lib/optim/a.c": CODE + RUN,
    "lib/optim/optim.h": C + OFFERS + CALLS,
    "lib/optim/a.c": CODE + RUN,
}

# A page, and what stands in for starctl.
SIZED = {
    "docs/sizing.rst": "One.\n\n    $ starctl size rows=1\n    a row  208 B\n\nTwo.\n",
    "build/release/app/starctl/starctl": "#!/bin/sh\n" + '[ "$*" = "size rows=1" ] && echo "a row  208 B"\n',
}

CASES = [
    # comments
    ("comment_that_was_cut_off", {"lib/optim/a.c": function("\t/* thread. */\n")}, "text", "its beginning was cut off"),
    ("comment_of_a_member_in_one_word", {"lib/optim/a.c": function("\tint n; /* rows. */\n\t/* of rows */\n")}, "text", None),
    # names that perf and gdb can tell apart
    ("statics_of_a_word_in_three_files", {f"lib/optim/{n}.c": STATIC.format("void", "take") for n in "abc"}, "statics",
     "a static function take is in 3 files (lib/optim/a.c, lib/optim/b.c, lib/optim/c.c)"),
    ("statics_of_a_word_in_two_files", {f"lib/optim/{n}.c": STATIC.format("void", "take") for n in "ab"}, "statics", None),
    ("statics_with_a_subject_in_four_files", {f"lib/optim/{n}.c": STATIC.format("void *", "take_row") for n in "abcd"}, "statics", "take_row is in 4 files"),
    ("statics_with_a_subject_in_three_files", {f"lib/optim/{n}.c": STATIC.format("void", "take_row") for n in "abc"}, "statics", None),
    ("statics_with_attributes", {f"lib/optim/{n}.c": STATIC.format("void __attribute__((format(printf, 1, 2)))", "add") for n in "abc"}, "statics", "add is in 3 files"),
    ("statics_that_are_inline", {f"lib/optim/{n}.c": STATIC.format("inline void", "take") for n in "abcd"}, "statics", None),
    ("statics_that_are_only_declared", {f"lib/optim/{n}.c": C + "static void take(int row);\n" for n in "abcd"}, "statics", None),
    # what libraries offer to programs
    ("abi_as_accepted", ACCEPTED, "abi", None),
    ("abi_with_a_longer_struct", {**ACCEPTED, "lib/optim/optim.h": C + OFFERS.replace("float", "double") + CALLS}, "abi",
     "liboptim is not as it was last accepted (programs that are linked with it may break)"),
    ("abi_with_members_that_changed_places",
     {**ACCEPTED, "lib/optim/optim.h": C + OFFERS.replace("int kind", "float scale").replace("float rate", "int kind") + CALLS}, "abi", "make abi"),
    ("abi_without_a_function",
     {**ACCEPTED, "lib/optim/a.c": CODE + RUN.replace("optim_run", "optim_go"), "lib/optim/optim.h": C + OFFERS + CALLS.replace("optim_run", "optim_go")},
     "abi", "programs that are linked with it may break"),
    ("abi_with_another_argument",
     {**ACCEPTED, "lib/optim/a.c": CODE + RUN.replace("*state)", "*state, int n)").replace("kind +", "kind + n +"),
      "lib/optim/optim.h": C + OFFERS + CALLS.replace("*state)", "*state, int n)")}, "abi", "make abi"),
    ("abi_with_one_function_more",
     {**ACCEPTED, "lib/optim/a.c": CODE + RUN + "\nint optim_more(void)\n{\n\treturn 0;\n}\n",
      "lib/optim/optim.h": C + OFFERS + CALLS + "int optim_more(void);\n"}, "abi", "(it has changed)"),
    ("abi_whose_inside_has_changed", {**ACCEPTED, "lib/optim/a.c": CODE.replace("int steps;", "int more;\n\tint steps;") + RUN}, "abi", None),
    ("abi_that_was_never_accepted", {name: text for name, text in ACCEPTED.items() if not name.startswith("accepted/")}, "abi",
     "lint/abi/liboptim.abi:1: error: is not there; run: make abi"),
    ("abi_of_a_library_that_is_not_built", {name: ACCEPTED[name] for name in ("lib/optim/rules.mk", "lib/optim/optim.h")}, "abi", "warning: not compared"),
    # a page of figures
    ("sizing_as_printed", SIZED, "sizing", None),
    ("sizing_that_has_changed", {**SIZED, "docs/sizing.rst": SIZED["docs/sizing.rst"].replace("208 B", "200 B")}, "sizing", "make sizing"),
    ("sizing_without_what_prints_it", {"docs/sizing.rst": SIZED["docs/sizing.rst"]}, "sizing", "warning: not compared"),
    # layout of the text
    ("bad_format", {"lib/optim/a.c": C + "int  x ( void ) ;\n"}, "format", "make format"),
    ("no_licence_c", {"lib/optim/a.c": "int x;\n"}, "text", "first line"),
    ("no_licence_header", {"lib/optim/a.h": "#ifndef A\n#define A\n#endif\n"}, "text", "first line"),
    ("no_licence_script", {"scripts/x": "#!/bin/bash\nset -euo pipefail\n: --help\n"}, "text", "first line"),
    ("no_licence_conf", {"drivers-config/x.conf": "x = 1;\n"}, "text", "first line"),
    ("no_licence_makefile", {"lib/optim/rules.mk": "$(eval $(call library,optim))\n"}, "text", "first line"),
    ("licence_after_the_shebang", {"scripts/x": "#!/bin/bash\n" + S + "set -euo pipefail\n: --help\n"}, "text", None),
    ("licence_too_late", {"lib/optim/a.c": "\n\n" + C}, "text", "first line"),
    ("space_at_the_end", {"docs/x.rst": "text \n"}, "text", "white space"),
    ("tab_at_the_end", {"lib/optim/a.c": C + "int x;\t\n"}, "text", "white space"),
    ("no_newline_at_the_end", {"docs/x.rst": "text"}, "text", "no newline"),
    ("bytes_for_a_fuzzer", {"tests/fuzz/corpus/x/y": "text ", "tests/fuzz/regress/x/z": "text "}, "text", None),
    ("unfinished", {"lib/optim/a.c": C + "/* TO" "DO: all of it */\n"}, "text", "unfinished"),
    ("unfinished_script", {"scripts/x": "#!/bin/bash\n" + S + "# FIX" "ME\n"}, "text", "unfinished"),
    ("merge_that_was_not_resolved", {"lib/optim/a.h": C + "/*\n" + "<" * 7 + " HEAD\n * one\n" + "=" * 7 + "\n * other\n" + ">" * 7 + " main\n */\n"}, "text",
     "lib/optim/a.h:3: error: a mark of a merge"),
    ("merge_of_a_page", {"docs/x.rst": "One.\n" + ">" * 7 + " main\n"}, "text", "docs/x.rst:2: error: a mark of a merge"),
    ("title_of_seven", {"docs/x.rst": "A title\n" + "=" * 7 + "\n"}, "text", None),
    ("part_of_a_word", {"lib/optim/a.c": C + "/* mktemp X" "XXXXX */\n"}, "text", None),
    # columns, with tabs of 8
    ("line_of_120_columns", {"lib/optim/a.c": C + "/* " + "x" * 114 + " */\n"}, "columns", None),
    ("line_of_121_columns", {"lib/optim/a.c": C + "/* " + "x" * 115 + " */\n"}, "columns", "lib/optim/a.c:2: error: the line ends at column 121"),
    ("tabs_count_eight", {"lib/optim/a.h": C + "\t/* " + "x" * 107 + " */\n"}, "columns", "column 121"),
    ("tabs_that_fit", {"lib/optim/a.h": C + "\t/* " + "x" * 106 + " */\n"}, "columns", None),
    ("table_of_numbers", {"lib/optim/a.inc": C + "0.5, " * 40 + "1,\n"}, "columns", None),
    ("a_word_of_121_columns", {"docs/x.rst": "x" * 121 + "\n"}, "columns", None),
    ("text_of_120_columns", {"docs/x.rst": "x" * 60 + " " + "y" * 59 + "\n"}, "columns", None),
    ("text_of_121_columns", {"docs/x.rst": "x" * 60 + " " + "y" * 60 + "\n"}, "columns", "docs/x.rst:1: error: the line ends at column 121"),
    ("an_item_of_121_columns", {"README.rst": "* one\n* " + "x" * 60 + " " + "y" * 58 + "\n"}, "columns", "README.rst:2: error: the line ends at column 121"),
    ("what_a_term_means", {"docs/x.rst": "term\n    " + "x " * 60 + "\n"}, "columns", "docs/x.rst:2:"),
    ("a_note_of_121_columns", {"docs/x.rst": ".. note::\n\n   " + "x " * 60 + "\n"}, "columns", "docs/x.rst:3:"),
    ("a_literal_that_is_long", {"docs/x.rst": "``" + "x " * 60 + "x``\n"}, "columns", None),
    ("a_session_of_121_columns", {"docs/x.rst": "So::\n\n    $ " + "x " * 60 + "\n\n    $ " + "y " * 60 + "\n\n" + "Then " * 3 + "\n"}, "columns", None),
    ("text_behind_a_session", {"docs/x.rst": "So::\n\n    $ " + "x " * 60 + "\n\n" + "Then " * 30 + "\n"}, "columns", "docs/x.rst:5:"),
    ("a_table_of_121_columns", {"docs/x.rst": "=== " + "=" * 130 + "\na   " + "x " * 60 + "\n\nb   c\n=== " + "=" * 130 + "\n\n" + "y " * 61 + "\n"}, "columns",
     "docs/x.rst:7:"),
    ("a_grid_of_121_columns", {"docs/x.rst": "+" + "-" * 130 + "+\n| " + "x " * 64 + " |\n+" + "-" * 130 + "+\n"}, "columns", None),
    ("a_directive_of_121_columns", {"docs/x.rst": ".. list-table::\n\n   * - " + "x " * 60 + "\n"}, "columns", None),
    # words
    ("banned_word", {WORDS: S + "anew -> again\n", "docs/x.rst": "It begins\nanew.\n"}, "words",
     'docs/x.rst:2: error: "anew": the field says: again (lint/banned-words)'),
    ("banned_word_that_begins_a_sentence", {WORDS: S + "takers? -> consumer\n", "lib/optim/a.c": C + "/* Takers wait. */\n"}, "words", '"Takers"'),
    ("banned_word_in_a_script", {WORDS: S + "anew -> again\n", "scripts/x": "#!/bin/bash\n" + S + "# anew\n"}, "words", "scripts/x:3: error"),
    ("banned_identifier", {WORDS: S + "\\w+_A_TURN -> _PER_TURN\n", "lib/optim/a.c": C + "enum { ROWS_A_TURN = 3 };\n"}, "words", '"ROWS_A_TURN"'),
    ("part_of_another_word", {WORDS: S + "lent -> in flight\n", "docs/x.rst": "silent and lently\n"}, "words", None),
    ("banned_in_the_changelog", {WORDS: S + "anew -> again\n", "CHANGELOG.rst": "* Made anew.\n"}, "words", None),
    ("banned_words_that_do_not_parse", {WORDS: S + "(anew -> again\n"}, "words", "lint/banned-words:2: error: a line is PATTERN -> INSTEAD"),
    ("banned_words_without_an_arrow", {WORDS: S + "anew\n"}, "words", "lint/banned-words:2: error: a line is PATTERN -> INSTEAD"),
    # files that comments and pages name
    ("comment_names_what_is_gone", {"lib/optim/a.c": C + "/* See session/remote.h. */\n"}, "paths",
     "lib/optim/a.c:2: error: there is no session/remote.h"),
    ("page_names_a_page_that_is_gone", {"docs/x.rst": "Before.\n\nSee `docs/y.rst <docs/y.rst>`_.\n"}, "paths", "docs/x.rst:3: error: there is no docs/y.rst"),
    ("page_names_a_folder_that_is_gone", {"docs/x.rst": "``lib/session`` has it.\n"}, "paths", "there is no lib/session"),
    ("script_names_what_is_gone", {"scripts/x": "#!/bin/bash\n" + S + "# docs/y.rst says why\n"}, "paths", "scripts/x:3: error: there is no docs/y.rst"),
    ("names_what_there_is", {"lib/optim/a.c": C + "/* optim/optim.h, optim.h, lib/optim, <sys/types.h>, lib/NAME/rules.mk; docs/architecture.rst. */\n"},
     "paths", None),
    ("names_in_code", {"lib/optim/a.c": C + "const char *const optim_name = \"lib/gone.c /* lib/gone.c */\";\n"}, "paths", None),
    ("names_what_is_built", {"scripts/x": "#!/bin/bash\n" + S + "build/release/bench/echo bench/echo\n"}, "paths", None),
    ("changelog_names_what_is_gone", {"CHANGELOG.rst": "* lib/session is lib/train.\n"}, "paths", None),
    ("names_a_foreign_file", {"lint/foreign-files": S + "word2vec.c   the first word2vec\n", "lib/optim/a.c": C + "/* As word2vec.c. */\n"}, "paths", None),
    # options and tables of pages
    ("page_names_an_option_by_its_member", {OPTIONS: OPTION, "docs/x.rst": "Its socket:\n``control_socket``.\n"}, "rst",
     "docs/x.rst:2: error: there is no option control_socket: write control.socket"),
    ("page_names_an_option", {OPTIONS: OPTION, "docs/x.rst": "``control.socket``, control_socket, ``control_socket_path``\n"}, "rst", None),
    ("page_names_a_method", {OPTIONS: OPTION, "lib/optim/a.c": C + 'const char *const optim_method = "control_socket";\n',
                             "docs/x.rst": "``control_socket``\n"}, "rst", None),
    ("text_behind_a_border", {"docs/x.rst": "Before.\n\n==================``STAR_PULL``\n    Reads rows.\n"}, "rst",
     "docs/x.rst:3: error: text behind a table's border"),
    ("a_table", {"docs/x.rst": "====  ====\na     b\n====  ====\n\nTitle\n=====\n\nWhere ====x is text.\n"}, "rst", None),
    # what a merge leaves
    ("told_twice", {"CHANGELOG.rst": "Changes\n=======\n\n* TCP: SACK, timestamps and more.\n* UDP.\n* TCP: SACK, timestamps and more.\n"},
     "changelog", "line 4 says the same"),
    ("a_part_told_twice", {"CHANGELOG.rst": "* One thing,\n  and its second line that is long.\n* Another thing,\n"
                                            "  and its second line that is long.\n"}, "changelog", "line 2 says the same"),
    ("told_once", {"CHANGELOG.rst": "0.1\n---------------------\n\n* One.\n\n0.2\n---------------------\n\n* One.\n"}, "changelog", None),
    # sizes
    ("file_too_long", {"lib/optim/a.c": C + "int x;\n" * 700}, "text", "error: the file has 701 lines"),
    ("file_long", {"lib/optim/a.c": C + "int x;\n" * 600}, "text", "warning: the file has 601 lines"),
    ("file_not_long", {"lib/optim/a.c": C + "int x;\n" * 599}, "text", None),
    ("function_too_long", {"lib/optim/a.c": function("\t;\n" * 89)}, "functions", "error: function optim_run has 91 lines"),
    ("function_long", {"lib/optim/a.c": function("\t;\n" * 69)}, "functions", "warning: function optim_run has 71 lines"),
    ("function_not_long", {"lib/optim/a.c": function("\t;\n" * 68)}, "functions", None),
    ("function_with_braces_in_strings", {"lib/optim/a.c": function('\tg("\\\n}\\\n");\n' + "\t;\n" * 89)}, "functions",
     "error: function optim_run"),
    # headers
    ("header_needs_another", {"lib/optim/a.h": C + "static inline uint32_t f(void)\n{\n\treturn 0;\n}\n"}, "headers",
     "compile by itself"),
    ("header_alone", {"lib/optim/a.h": C + "#include <stdint.h>\nstatic inline uint32_t f(void)\n{\n\treturn 0;\n}\n"},
     "headers", None),
    ("test_header_needs_another", {"tests/a.h": C + "extern size_t n;\n"}, "headers", "compile by itself"),
    # edges
    ("edge_upwards", {"lib/base/a.c": C + '#include "net/net.h"\n'}, "edges", "base may use nothing"),
    ("edge_sideways", {"lib/optim/a.c": C + '#include "net/net.h"\n'}, "edges", "optim may use base"),
    ("edge_in_a_header", {"lib/optim/a.h": C + '# include "net/net.h"\n'}, "edges", "optim may use base"),
    ("edge_by_a_longer_path", {"lib/optim/a.c": C + '#include "lib/net/net.h"\n'}, "edges", "optim may use base"),
    ("edge_to_a_program", {"lib/net/a.c": C + '#include "app/tool/tool.h"\n'}, "edges", "not app"),
    ("edge_to_the_tests", {"lib/net/a.c": C + '#include "tests/unit.h"\n'}, "edges", "not tests"),
    ("edge_of_deps", {"lib/optim/a.c": C + '#include "base/base.h"\n#include "optim/optim.h"\n#include <stdio.h>\n'},
     "edges", None),
    ("edge_of_a_program", {"app/tool/a.c": C + '#include "net/net.h"\n#include "optim/optim.h"\n'}, "edges", None),
    ("dpdk_where_it_belongs", {"lib/net/a.c": C + "#include <rte_mbuf.h>\n"}, "edges", None),
    ("dpdk_elsewhere", {"lib/optim/a.c": C + "#include <rte_mbuf.h>\n"}, "edges", "DPDK is for"),
    ("dpdk_in_quotes", {"lib/optim/a.c": C + '#include "rte_ring.h"\n'}, "edges", "DPDK is for"),
    ("library_without_a_line", {"lib/stray/a.c": C}, "edges", "no rules.mk"),
    ("page_of_edges_lacks_one", {"docs/architecture.rst": ".. edges begin\n\n    base ->\n\n.. edges end\n"}, "page",
     "library net"),
    ("page_of_edges_has_another",
     {"docs/architecture.rst": ".. edges begin\n\n    base -> \n    optim -> base net\n    net -> base\n\n.. edges end\n"}, "page",
     "library optim"),
    # the fast path
    *[(f"calls_{name}", {"lib/optim/a.c": function(f"\tx = {name}(1);\n")}, "fast-path", f"{name}: ")
      for name in BANNED_CALLS],
    *[(f"calls_malloc_in_{name}", {f"lib/{name}/a.c": function("\tx = malloc (1);\n")}, "fast-path", "malloc: take memory")
      for name in FAST_LIBRARIES],
    ("calls_malloc_in_a_header", {"lib/optim/a.h": function("\tx = malloc(1);\n")}, "fast-path", "malloc: take memory"),
    ("volatile", {"lib/optim/a.c": C + "static volatile int shared;\n"}, "fast-path", "volatile: "),
    ("asm_volatile", {"lib/optim/a.c": function('\tasm volatile("" ::: "memory");\n')}, "fast-path", None),
    ("in_a_comment", {"lib/optim/a.c": function("\t/* malloc(1) would be\n\t * printf(2) */\n\tx = 1; // free(x)\n")},
     "fast-path", None),
    ("in_a_string", {"lib/optim/a.c": function('\tx = "a \\" malloc(1)";\n')}, "fast-path", None),
    ("after_a_string", {"lib/optim/a.c": function("\tx = '\"', y = malloc(1), z = '\"';\n")}, "fast-path", "malloc: "),
    ("a_longer_name", {"lib/optim/a.c": function("\toptim_free(x);\n\tprintf_count++;\n\tread_only(1);\n")}, "fast-path", None),
    ("a_member", {"lib/optim/a.c": function("\to->free(x);\n\to.write(x);\n")}, "fast-path", None),
    ("no_call", {"lib/optim/a.c": function("\tfree = read + write;\n")}, "fast-path", None),
    ("on_the_control_path", {"lib/base/a.c": function("\tx = malloc(1);\n\tprintf(x);\n")}, "fast-path", None),
    ("excepted", {"lib/optim/a.c": function("\tx = malloc(1);\n"),
                  "lint/fast-path-exceptions": S + "lib/optim/a.c malloc optim_create, once and at start\n"}, "fast-path", None),
    ("excepted_elsewhere", {"lib/optim/a.c": function("\tx = malloc(1);\n"), "lib/optim/b.c": function("\tx = malloc(1);\n"),
                            "lint/fast-path-exceptions": S + "lib/optim/b.c malloc optim_create, once and at start\n"},
     "fast-path", "lib/optim/a.c:6: error: malloc"),
    ("unused_exception", {"lint/fast-path-exceptions": S + "lib/optim/a.c malloc optim_create, once and at start\n"},
     "fast-path", "remove the exception"),
    ("exception_without_a_reason", {"lib/optim/a.c": function("\tx = malloc(1);\n"),
                                    "lint/fast-path-exceptions": S + "lib/optim/a.c malloc\n"}, "fast-path", "REASON"),
    ("exception_twice", {"lib/optim/a.c": function("\tx = malloc(1);\n"),
                         "lint/fast-path-exceptions": S + 2 * "lib/optim/a.c malloc optim_create, at start\n"}, "fast-path",
     "twice"),
    # externs, as built: BUILT has a base and an optim that are right
    ("externs_with_prefixes", BUILT, "symbols", None),
    ("extern_without_a_prefix", {**BUILT, "lib/optim/b.c": function("", "run_all")}, "symbols",
     "lib/optim/b.c:2: error: run_all has no library's prefix: make it static, or begin it with optim_ sgd_"),
    ("object_without_a_prefix", {**BUILT, "lib/optim/b.c": C + "\nint table[3];\n"}, "symbols",
     "lib/optim/b.c:3: error: table has no library's prefix"),
    ("extern_that_only_begins_like_one", {**BUILT, "lib/optim/b.c": function("", "optimize")}, "symbols",
     "optimize has no library's"),
    ("extern_with_anothers_prefix", {**BUILT, "lib/base/b.c": function("", "sgd_more")}, "symbols",
     "sgd_more has optim's prefix"),
    ("extern_with_a_longer_prefix_of_another", {**BUILT, "lib/optim/b.c": function("", "sgd_log")}, "symbols",
     "sgd_log has base's prefix"),
    ("extern_that_exists_twice", {**BUILT, "lib/optim/b.c": function("")}, "symbols",
     "lib/optim/b.c:2: error: optim_run exists in lib/optim/a.c too"),
    ("static_without_a_prefix", {**BUILT, "lib/optim/b.c": C + "static int run(void)\n{\n\treturn 1;\n}\n"
                                 "int optim_b(void);\nint optim_b(void)\n{\n\treturn run();\n}\n"}, "symbols", None),
    ("prefix_of_two", {**BUILT, PREFIXES: S + "base sgd_log\noptim sgd\nnet sgd\n"}, "symbols",
     "sgd is optim's already"),
    ("prefix_that_is_a_librarys_name", {**BUILT, PREFIXES: S + "base sgd_log\noptim sgd net\n"}, "symbols",
     "net is net's already"),
    ("prefix_of_no_library", {**BUILT, PREFIXES: S + "base sgd_log\noptim sgd\nstray x\n"}, "symbols",
     "of a library in lib/"),
    ("prefix_that_nothing_carries", {**BUILT, PREFIXES: S + "base sgd_log\noptim sgd adam\n"}, "symbols",
     "lint/symbol-prefixes:3: error: no extern of optim begins with adam_: remove the prefix"),
    ("externs_that_are_not_built", {**BUILT, "lib/optim/unbuilt.c": function("", "run_all")}, "symbols",
     "warning: 1 of 4 files are not built"),
    # programs and scripts
    ("program_without_a_page", {"app/other/rules.mk": S, "app/other/main.c": C + '/* --help */\n'}, "programs", "no man page"),
    ("program_without_help", {"app/other/rules.mk": S, "app/other/main.c": C, "docs/man/other.1": "text\n"}, "programs",
     "--help"),
    ("script_does_not_parse", {"scripts/x": "#!/bin/bash\n" + S + "set -euo pipefail # --help\nif true; then\n"}, "scripts",
     "does not parse"),
    ("script_goes_on_after_errors", {"scripts/x": "#!/bin/bash\n" + S + ": --help\n"}, "scripts", "set -euo pipefail"),
    ("script_without_help", {"scripts/x": "#!/bin/bash\n" + S + "set -euo pipefail\n"}, "scripts", "--help"),
    ("script_that_shellcheck_dislikes",
     {"scripts/x": "#!/bin/bash\n" + S + "set -euo pipefail # --help\nx=1\n"}, "scripts", "SC2034"),
    ("python_does_not_parse", {"scripts/x": "#!/usr/bin/python3\n" + S + "# --help\ndef f(:\n"}, "scripts", "does not parse"),
]
