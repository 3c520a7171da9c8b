# SPDX-License-Identifier: BSD-3-Clause
# Fuzz targets: libFuzzer with the address and undefined-behaviour sanitizers. They need clang, so they are not part of
# `all`, and what they are built from lies in a directory of its own: the libraries' sources, compiled from scratch.
FUZZ ?=
SECONDS ?= 60
FUZZ_BUILD := build/fuzz
FUZZ_CC := clang-14
# DPDK's headers and its macros inside each other trip two warnings that gcc does not give.
# Hidden as in what is released.
FUZZ_CFLAGS := -std=gnu11 -g -O1 -fno-omit-frame-pointer -pthread -fvisibility=hidden -fno-strict-aliasing -ffp-contract=off \
	-march=x86-64-v2 -mtune=generic $(filter-out -Wshadow -Wundef,$(WARNINGS)) -Wno-unknown-pragmas -fno-sanitize-recover=undefined
FUZZERS :=

# fuzzer: 1 name, 2 the libraries it uses, 3 further objects' sources, 4 those that its stubs stand in for.
define fuzzer
FUZZERS += $(1)
FUZZ_OBJ_$(1) := $$(patsubst %.c,$$(FUZZ_BUILD)/%.o,tests/fuzz/$(1).c $(3) \
	$$(filter-out $(4),$$(foreach l,$$(call closure,$(2)),$$(wildcard lib/$$(l)/*.c))))
$$(FUZZ_BUILD)/fuzz-$(1): $$(FUZZ_OBJ_$(1))
	@echo "  LINK    $$@"
	$$(Q)$$(FUZZ_CC) -fsanitize=fuzzer,address,undefined -pthread -Wl,--as-needed -o $$@ $$(FUZZ_OBJ_$(1)) \
		$$(sort $$(foreach l,$$(call closure,$(2)),$$(EXT_LIBS_$$(l)))) -lm
$$(patsubst %.c,$$(FUZZ_BUILD)/%.o,tests/fuzz/$(1).c $(3)): EXTRA_CFLAGS = $$(foreach l,$$(call closure,$(2)),$$(EXT_CFLAGS_$$(l)))
endef

$(eval $(call fuzzer,net,net,$(addprefix tests/fuzz/,net_frames.c net_options.c net_check.c pool.c),))
$(eval $(call fuzzer,dgram,rpc,tests/fuzz/pool.c,))
$(eval $(call fuzzer,dgram_sealed,rpc,tests/fuzz/pool.c,))
# Streams without the segments under them: rpc_tcp.c stands in for lib/net, and rpc_dgram.c for the sessions that there are not.
$(eval $(call fuzzer,rpc,service,$(addprefix tests/fuzz/,rpc_tcp.c rpc_dgram.c rpc_run.c pool.c),lib/net/% lib/rpc/dgram%))
# Methods without sockets and threads: jsonrpc.c replaces the files that have them.
$(eval $(call fuzzer,jsonrpc,control,,$(addprefix lib/,control/control.c control/executor.c control/follower.c jsonrpc/jsonrpc.c control/line_accept.c control/line_server.c control/line_tls.c control/listen.c)))
# The port's thread is left out: memif.c includes the conversation with a client, and has the reactors take their turns in it.
$(eval $(call fuzzer,memif,port net,tests/fuzz/pool.c,lib/port/memif_client.c))
$(eval $(call fuzzer,config,config,,))
$(eval $(call fuzzer,keys,secure,,))
$(eval $(call fuzzer,handshake,secure,,))
$(eval $(call fuzzer,ticket,secure,,))
$(eval $(call fuzzer,audit,control,,))
$(eval $(call fuzzer,records,recorder,,))
$(eval $(call fuzzer,endpoint-map,config,,))
$(eval $(call fuzzer,tf-config,config,,))
$(eval $(call fuzzer,program,wire,,))
$(eval $(call fuzzer,client,client,tests/fuzz/client_sides.c,))
# Without threads and ports: client_dpdk.c replaces the files that have them. And without the server's half of lib/rpc.
$(eval $(call fuzzer,client_dpdk,client_dpdk,$(addprefix tests/fuzz/,client_dpdk_node.c client_sides.c pool.c),lib/port/% \
	$(addprefix lib/client_dpdk/,setup.c transport.c) $(addprefix lib/rpc/,budget.c held.c leave.c quota.c record.c replay.c reply.c sealed.c server.c session.c stream.c)))
$(eval $(call fuzzer,ckpt,ckpt,,))
$(eval $(call fuzzer,journal,journal,,))
$(eval $(call fuzzer,replication,pair,,))
$(eval $(call fuzzer,etcd,etcd pair,,))
# A node's own loading, over reactors that restore.c stands in for.
$(eval $(call fuzzer,restore,service config ckpt,lib/node/restore.c lib/node/apply.c,))
$(eval $(call fuzzer,rows,input,,))
$(eval $(call fuzzer,schema,input,,))
$(eval $(call fuzzer,source,input,,))
$(eval $(call fuzzer,graph,graph,,))
$(eval $(call fuzzer,graph-run,exec offload,,))

define fuzz_library
$$(patsubst %.c,$$(FUZZ_BUILD)/%.o,$$(wildcard lib/$(1)/*.c)): EXTRA_CFLAGS = $$(foreach l,$$(call closure,$(1)),$$(EXT_CFLAGS_$$(l)))
endef
$(foreach l,$(patsubst lib/%/rules.mk,%,$(wildcard lib/*/rules.mk)),$(eval $(call fuzz_library,$(l))))
# clang does not know the pragmas by which these ask for their instructions.
$(addprefix $(FUZZ_BUILD)/lib/,optim/avx2.o optim/avx2_64.o tensor/convert_avx2.o exec/kernel_math_avx2.o): EXTRA_CFLAGS = -mavx2 -mf16c
$(addprefix $(FUZZ_BUILD)/lib/,optim/avx512.o optim/avx512_64.o tensor/convert_avx512.o): EXTRA_CFLAGS = -mavx512f

$(FUZZ_BUILD)/%.o: %.c
	@mkdir -p $(@D)
	@echo "  FUZZ-CC $<"
	$(Q)$(FUZZ_CC) $(EXTRA_CFLAGS) $(CPPFLAGS) $(FUZZ_CFLAGS) -fsanitize=fuzzer-no-link,address,undefined -MMD -MP -c -o $@ $<

.PHONY: fuzz fuzz-build test-fuzz
#: fuzz       build the fuzz targets with clang and run them; FUZZ="net rpc" runs some, SECONDS=60 each
fuzz:
	$(call packages,test)
	$(call build,fuzz-build)
	$(Q)tests/fuzz/run --build $(FUZZ_BUILD) --seconds $(SECONDS) $(or $(FUZZ),$(FUZZERS))
#: test-fuzz  build them, replay what once stopped one, and try some thousand inputs of each
test-fuzz:
	$(call packages,test)
	$(Q)scripts/run-tests --build $(BUILD) --timeout $$(( $${STAR_SOAK:-0} ? 40000 : 3600 )) --system tests/fuzz
fuzz-build: $(addprefix $(FUZZ_BUILD)/fuzz-,$(FUZZERS))

-include $(sort $(foreach f,$(FUZZERS),$(FUZZ_OBJ_$(f):.o=.d)))
