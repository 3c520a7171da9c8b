# SPDX-License-Identifier: BSD-3-Clause
# One graph: this file holds the switches and the recipes, each directory's rules.mk says what is made of it,
# and deps.mk which library may use which. `make help` lists the targets.

MAKEFLAGS += --no-builtin-rules --warn-undefined-variables
.DEFAULT_GOAL := all
.SUFFIXES:
.DELETE_ON_ERROR:
SHELL := /bin/bash

VERSION := 0.1.0
PREFIX ?= /usr/local
# Of the libraries, below PREFIX, and of what systemd and udev read; Debian has places of its own for both.
LIBDIR ?= lib
SYSTEMLIB ?= $(PREFIX)/lib
DESTDIR ?=
# What a distribution adds to the flags below.
ADD_CPPFLAGS ?=
ADD_CFLAGS ?=
ADD_LDFLAGS ?=
V ?= 0
CC := gcc
CXX := g++
ASAN ?= 0
UBSAN ?= 0
TSAN ?= 0
COVERAGE ?= 0
BENCH ?=
TESTS ?=
JOBS ?=
TRANSPORT ?= tcp
HA ?= 0
SECURE ?= 0
LOCAL ?= 0
AGAIN ?=

variant := $(if $(filter 1,$(ASAN)),asan-)$(if $(filter 1,$(UBSAN)),ubsan-)$(if $(filter 1,$(TSAN)),tsan-)$(if $(filter 1,$(COVERAGE)),coverage-)
BUILD := build/$(if $(variant),$(variant:-=),release)
Q := $(if $(filter 1,$(V)),,@)

# DPDK's own flags inject -march=corei7 and so come first; what needs more than x86-64-v2 asks for it by function.
# Asked for once, when first needed: `make test` installs the package before it builds.
dpdk = $(or $(shell pkg-config $(1) libdpdk 2>/dev/null),$(error libdpdk is not installed: run scripts/install-packages build))
DPDK_CFLAGS = $(eval DPDK_CFLAGS := $$(call dpdk,--cflags))$(DPDK_CFLAGS)
DPDK_LIBS = $(eval DPDK_LIBS := $$(call dpdk,--libs))$(DPDK_LIBS)
SANITIZE := $(if $(filter 1,$(ASAN)),-fsanitize=address) $(if $(filter 1,$(UBSAN)),-fsanitize=undefined -fno-sanitize-recover=undefined) \
	$(if $(filter 1,$(TSAN)),-fsanitize=thread) $(if $(filter 1,$(COVERAGE)),--coverage)
WARNINGS := -Wall -Wextra -Werror -Wundef -Wshadow -Wpointer-arith -Wstrict-prototypes -Wmissing-prototypes \
	-Wold-style-definition -Wwrite-strings -Wvla -Wno-unused-parameter
OPTIMIZE := $(if $(filter 1,$(COVERAGE)),-O0,-O2)
CPPFLAGS := -D_GNU_SOURCE -DSTAR_VERSION='"$(VERSION)"' -I. -Ilib -Ilib/base -Ilib/client $(ADD_CPPFLAGS)
CFLAGS := -std=gnu11 -g $(OPTIMIZE) -fPIC -pthread -fvisibility=hidden -fno-strict-aliasing -ffp-contract=off \
	-march=x86-64-v2 -mtune=generic $(WARNINGS) $(SANITIZE) $(ADD_CFLAGS)
CXXFLAGS := -std=gnu++17 $(filter-out -std=% -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition,$(CFLAGS))
LDFLAGS := -pthread -Wl,--as-needed -Wl,-z,relro $(SANITIZE) $(ADD_LDFLAGS)
# The libraries' ABI, which is also the version of their symbols (lib/client/libstar.map): another number where programs that were linked
# with the old library could not run with the new one.
ABI := 1

include deps.mk

closure = $(sort $(1) $(foreach d,$(1),$(call closure,$(DEPS_$(d)))))
# library: every .c of lib/NAME becomes lib/libNAME.a.
define library
LIBRARIES += $(1)
OBJ_lib_$(1) := $$(patsubst %.c,$$(BUILD)/%.o,$$(wildcard lib/$(1)/*.c))
$$(BUILD)/lib/lib$(1).a: $$(OBJ_lib_$(1))
	@mkdir -p $$(@D)
	@echo "  AR      $$@"
	$$(Q)rm -f $$@ && ar rcs $$@ $$^
OBJECTS += $$(OBJ_lib_$(1))
$$(OBJ_lib_$(1)): EXTRA_CFLAGS = $$(foreach l,$$(call closure,$(1)),$$(EXT_CFLAGS_$$(l)))
endef
# binary: 1 kind (program, test, tool), 2 name, 3 its directory, 4 the libraries it uses, 5 further objects' sources.
define binary
$(1)S += $(2)
OBJ_$(1)_$(2) := $$(patsubst %,$$(BUILD)/%.o,$$(basename $$(wildcard $(3)/*.c) $(5)))
$$(BUILD)/$(3)/$(2): $$(OBJ_$(1)_$(2)) $$(foreach l,$$(call closure,$(4)),$$(BUILD)/lib/lib$$(l).a)
	@mkdir -p $$(@D)
	@echo "  LINK    $$@"
	$$(Q)$$(CC) $$(LDFLAGS) -o $$@ $$(OBJ_$(1)_$(2)) -Wl,--start-group $$(foreach l,$$(call closure,$(4)),$$(BUILD)/lib/lib$$(l).a) \
		-Wl,--end-group $$(sort $$(foreach l,$$(call closure,$(4)),$$(EXT_LIBS_$$(l)))) $$(if $$(filter test,$(1)),-lcunit) $$(EXTRA_LIBS) -lm
OBJECTS += $$(OBJ_$(1)_$(2))
$$(OBJ_$(1)_$(2)): EXTRA_CFLAGS = $$(foreach l,$$(call closure,$(4)),$$(EXT_CFLAGS_$$(l)))
BIN_$(1)_$(2) := $$(BUILD)/$(3)/$(2)
BINARIES_$(1) += $$(BUILD)/$(3)/$(2)
endef
program = $(call binary,program,$(1),app/$(1),$(2),)
# test: tests/NAME/*.c, linked with the libraries named and the common main of tests/unit.c.
test = $(call binary,test,test-$(1),tests/$(1),$(2),tests/unit.c)

LIBRARIES :=
OBJECTS :=
programS :=
testS :=
toolS :=
peerS :=
BINARIES_program :=
BINARIES_test :=
BINARIES_tool :=
BINARIES_peer :=
EXTRA_CFLAGS :=
EXTRA_LIBS :=

RULES := $(sort $(wildcard lib/*/rules.mk app/*/rules.mk tests/*/rules.mk)) $(wildcard bench/rules.mk docs/rules.mk tests/rules.mk scripts/rules.mk packaging/rules.mk)
include $(RULES)

# DPDK's headers include gcc's of all x86 instructions, which take longer to read than the rest of a file to compile: they are read once.
# Its name has a sum of the flags: gcc fails on one that was made with others. Where gcc is ccache it is not made: ccache would not cache.
PCH ?= $(if $(findstring ccache,$(realpath $(shell command -v $(CC)))),0,1)
INTRINSICS := $(if $(filter 1,$(PCH)),$(BUILD)/intrinsics-$(firstword $(shell echo '$(subst ',,$(CFLAGS))' | cksum)).h)
ifneq ($(INTRINSICS),)
$(INTRINSICS).gch:
	@mkdir -p $(@D)
	@echo "  CC      $@"
	$(Q)echo '#include <x86intrin.h>' > $(INTRINSICS)
	$(Q)$(CC) $(DPDK_CFLAGS) $(CPPFLAGS) $(CFLAGS) -x c-header -o $@ $(INTRINSICS)
endif

$(BUILD)/%.o: %.c | $(INTRINSICS:=.gch)
	@mkdir -p $(@D)
	@echo "  CC      $<"
	$(Q)$(CC) $(and $(INTRINSICS),$(findstring rte_config.h,$(EXTRA_CFLAGS)),-include $(INTRINSICS)) $(EXTRA_CFLAGS) $(CPPFLAGS) $(CFLAGS) \
		-MMD -MP -c -o $@ $<

# For what the benches compare with: the project itself is C.
$(BUILD)/%.o: %.cc
	@mkdir -p $(@D)
	@echo "  CXX     $<"
	$(Q)$(CXX) $(CPPFLAGS) $(CXXFLAGS) -MMD -MP -c -o $@ $<

.PHONY: all tests demo test soak chaos bench lint abi sizing format docs install uninstall help clean facts shared
#: all        build the programs, libstar and libstartrain (the default)
all: $(BINARIES_program) $(BUILD)/lib/libstar.so $(BUILD)/lib/libstar-dpdk.so $(BUILD)/lib/libstartrain.so
#: tests      build everything, the test programs included
tests: all $(BINARIES_test) $(BINARIES_tool)

# A second make, because pkg-config can answer only after the packages are there.
packages = $(Q)scripts/install-packages $(1)
build = +$(Q)$(MAKE) --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,-j$(or $(JOBS),$(shell nproc))) $(1)

#: demo       install what it needs, build, and train word vectors on a test network; TRANSPORT=dpdk without a kernel in between, SECURE=1 with keys,
#:            LOCAL=1 as any user; HA=1 on a pair whose primary is killed
demo:
	$(call packages,$(if $(filter 1,$(HA)),ha,demo))
	$(call build,all)
	$(Q)STAR_BUILD=$(BUILD) $(if $(filter 1,$(HA)),scripts/demo-ha,scripts/demo $(if $(filter 1,$(LOCAL)),--local,--transport $(TRANSPORT) $(if $(filter 1,$(SECURE)),--secure)))
#: test       install what it needs, build, and run all tests; TESTS="net config" runs some; AGAIN=1 runs a failed case once more
test:
	$(call packages,test)
	$(call build,all $(BINARIES_test) $(filter-out $(BUILD)/bench/%,$(BINARIES_tool)))
	$(Q)scripts/run-tests --build $(BUILD) $(if $(AGAIN),--again) $(addprefix --unit ,$(BINARIES_test)) $(TESTS)
#: soak       the same tests in their long forms, and those that are too long for `make test`: hours; TESTS="net kernel-peer" runs some
soak: export STAR_SOAK := 1
soak: test $(if $(TESTS),,test-fuzz)
#: chaos      kill, stop and cut off workers and nodes, pairs and journals, RUNS=n times of each kind (200), from SEED=n (1)
chaos:
	$(call packages,test)
	$(call build,tests)
	$(Q)export STAR_SOAK=1 STAR_BUILD=$(BUILD) CHAOS_RUNS=$(or $(RUNS),200) CHAOS_SEED=$(or $(SEED),1); \
		tests/system/chaos.test && tests/system/chaos-pairs.test
#: bench      install what it needs, build, and run all benchmarks; BENCH=name runs one
bench:
	$(call packages,bench)
	$(call build,all $(BINARIES_tool) $(BINARIES_peer))
	$(Q)STAR_BUILD=$(BUILD) bench/run $(BENCH)
#: lint       check the rules of the source tree; changes nothing
lint:
	$(Q)scripts/lint
#: abi        write what libstar and libstartrain offer to programs into lint/abi: accepts what lint says has changed
abi:
	$(call build,$(patsubst %,$(BUILD)/lib/%.so,$(SHARED)))
	$(Q)scripts/lint --accept-abi
#: sizing     write what `starctl size` prints into docs/sizing.rst, where lint says that it has changed
sizing:
	$(call build,$(BIN_program_starctl))
	$(Q)scripts/sizing-page --write --starctl $(BIN_program_starctl)
#: format     clang-format all C files
format:
	$(Q)git ls-files --cached --others --exclude-standard '*.c' '*.h' '*.inc' | xargs -r clang-format-14 -i

# What scripts/lint wants to know: a line a library, "name | what it may use | its compiler flags".
facts:
	@true$(foreach l,$(LIBRARIES),$(info $(l) | $(call closure,$(l)) | $(foreach d,$(call closure,$(l)),$(EXT_CFLAGS_$(d))) \
		$(CPPFLAGS) $(CFLAGS)))

# The same of libraries for programs: "name | the headers that programs include".
shared:
	@true$(foreach l,$(SHARED),$(info $(l) | $(HEADERS_$(l))))

#: help       this list; switches: V=1 ASAN=1 UBSAN=1 TSAN=1 COVERAGE=1 PCH=0 JOBS=n PREFIX=dir DESTDIR=dir LIBDIR=lib
help:
	@sed -n 's/^#: //p' $(MAKEFILE_LIST)

#: clean      remove build/
clean:
	$(Q)rm -rf build

# Goals are reached in turn (`make -j4 all wheel`): some are a make of their own, which writes the same files.
earlier :=
$(foreach g,$(filter-out $(BUILD)/%,$(MAKECMDGOALS)),$(if $(filter-out $(g),$(earlier)),$(eval $(g): | $(earlier)))$(eval earlier := $(g)))

-include $(sort $(OBJECTS:.o=.d))
