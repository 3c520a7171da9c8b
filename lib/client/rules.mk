# SPDX-License-Identifier: BSD-3-Clause
$(eval $(call library,client))

# libstar: what workers link with. Only the STAR_API symbols are visible; of the other libraries only what is used goes
# in.
SHARED += libstar
HEADERS_libstar := lib/client/star.h lib/client/star_program.h lib/base/star_error.h
# Its symbols have a version, by libstar.map. nodelete: it has threads, and state that is made once a process, so a dlclose must not unmap it.
STAR_LIBRARIES := $(foreach l,$(filter-out client,$(call closure,client)),$(BUILD)/lib/lib$(l).a)
$(BUILD)/lib/libstar.so: $(OBJ_lib_client) $(STAR_LIBRARIES) lib/client/libstar.map
	@echo "  LINK    $@"
	$(Q)$(CC) $(LDFLAGS) -shared -Wl,-soname,libstar.so.$(ABI) -Wl,--version-script=lib/client/libstar.map -Wl,-z,nodelete $(if $(strip $(SANITIZE)),,-Wl,-z,defs) \
		-o $@ $(OBJ_lib_client) \
		-Wl,--start-group $(STAR_LIBRARIES) -Wl,--end-group \
		$(sort $(foreach l,$(call closure,client),$(EXT_LIBS_$(l)))) -lm
	$(Q)ln -sf $(@F) $@.$(ABI)

# The example of docs/libstar.rst.
$(eval $(call binary,tool,pull_push,docs/examples,client,))
$(eval $(call binary,tool,keep_going,docs/examples/reopen,client,))
