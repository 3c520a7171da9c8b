# SPDX-License-Identifier: BSD-3-Clause
$(eval $(call library,client_dpdk))

# libstar's transport by DPDK: a shared library of its own, which star_open loads (lib/client/backend.c). It exports one symbol;
# of libstar it has its own copy of what is pure (codec, headers).
STAR_DPDK_LIBRARIES := $(foreach l,$(filter-out client_dpdk,$(call closure,client_dpdk)),$(BUILD)/lib/lib$(l).a)
$(BUILD)/lib/libstar-dpdk.so: $(OBJ_lib_client_dpdk) $(STAR_DPDK_LIBRARIES)
	@echo "  LINK    $@"
	$(Q)$(CC) $(LDFLAGS) -shared -Wl,-soname,libstar-dpdk.so -Wl,-z,nodelete $(if $(strip $(SANITIZE)),,-Wl,-z,defs) \
		-o $@ $(OBJ_lib_client_dpdk) \
		-Wl,--start-group $(STAR_DPDK_LIBRARIES) -Wl,--end-group \
		$(sort $(foreach l,$(call closure,client_dpdk),$(EXT_LIBS_$(l)))) -lm
