# SPDX-License-Identifier: BSD-3-Clause
$(eval $(call library,train))

# libstartrain: graphs, sessions and readers for programs of one's own, on top of libstar. Only what the installed headers declare is visible,
# by a pragma in each of them; what it has of the other libraries is hidden, as libstar's own copy is. nodelete: as libstar.
STARTRAIN_PARTS := graph exec offload input train
STARTRAIN_OBJECTS := $(foreach l,$(STARTRAIN_PARTS),$(OBJ_lib_$(l))) $(BUILD)/lib/client/spec.o $(BUILD)/lib/config/cluster_spec.o
STARTRAIN_INSIDE := $(filter-out $(STARTRAIN_PARTS) client jsonrpc,$(call closure,$(STARTRAIN_PARTS)))
STARTRAIN_HEADERS := $(addprefix graph/,graph.h ops.h build.h gradient.h parts.h ps.h text.h) exec/exec.h offload/cut.h input/input.h input/plan.h input/schema.h input/vocabulary.h \
	$(addprefix train/,session.h estimator.h cluster.h queue.h summary.h auc.h metrics.h) tensor/dtype.h config/cluster_spec.h
SHARED += libstartrain
HEADERS_libstartrain := $(addprefix lib/,$(STARTRAIN_HEADERS)) lib/base/star_error.h
$(BUILD)/lib/libstartrain.so: $(STARTRAIN_OBJECTS) $(foreach l,$(STARTRAIN_INSIDE),$(BUILD)/lib/lib$(l).a) $(BUILD)/lib/libstar.so lib/train/libstartrain.map
	@echo "  LINK    $@"
	$(Q)$(CC) $(LDFLAGS) -shared -Wl,-soname,libstartrain.so.$(ABI) -Wl,--version-script=lib/train/libstartrain.map -Wl,-z,nodelete $(if $(strip $(SANITIZE)),,-Wl,-z,defs) \
		-Wl,--exclude-libs,ALL -o $@ $(STARTRAIN_OBJECTS) \
		-Wl,--start-group $(foreach l,$(STARTRAIN_INSIDE),$(BUILD)/lib/lib$(l).a) -Wl,--end-group \
		$(BUILD)/lib/libstar.so $(sort $(foreach l,$(STARTRAIN_PARTS) $(STARTRAIN_INSIDE),$(EXT_LIBS_$(l)))) -lm
	$(Q)ln -sf $(@F) $@.$(ABI)

# The example of docs/training.rst.
$(eval $(call binary,tool,train_likes,docs/examples/estimator,train graph,))
