# SPDX-License-Identifier: BSD-3-Clause
# The stack as a shared object for packetdrill (README.rst here), and its test.
PACKETDRILL ?=
SCRIPTS ?=
VERSIONS ?=
PACKETDRILL_BUILD := $(BUILD)/tests/packetdrill
OBJ_packetdrill_so := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/packetdrill/so/*.c))
OBJECTS += $(OBJ_packetdrill_so)
$(OBJ_packetdrill_so): EXTRA_CFLAGS = $(foreach l,$(call closure,net),$(EXT_CFLAGS_$(l)))
$(PACKETDRILL_BUILD)/packetdrill.so: $(OBJ_packetdrill_so) $(foreach l,$(call closure,net),$(BUILD)/lib/lib$(l).a)
	@echo "  LINK    $@"
	$(Q)$(CC) -shared $(LDFLAGS) -o $@ $(OBJ_packetdrill_so) \
		-Wl,--start-group $(foreach l,$(call closure,net),$(BUILD)/lib/lib$(l).a) -Wl,--end-group \
		$(sort $(foreach l,$(call closure,net),$(EXT_LIBS_$(l)))) -ldl
tests: $(PACKETDRILL_BUILD)/packetdrill.so

$(eval $(call binary,test,test-packetdrill,tests/packetdrill/test,,tests/unit.c))
$(PACKETDRILL_BUILD)/test/test-packetdrill: | $(PACKETDRILL_BUILD)/packetdrill.so

.PHONY: packetdrill packetdrill-build
#: packetdrill  run packetdrill scripts on our TCP; PACKETDRILL=its program SCRIPTS="files or directories" VERSIONS=ipv4,ipv6
packetdrill:
	$(call build,packetdrill-build)
	$(Q)tests/packetdrill/run --build $(PACKETDRILL_BUILD) --packetdrill "$(PACKETDRILL)" $(if $(VERSIONS),--versions $(VERSIONS)) $(SCRIPTS)
packetdrill-build: $(PACKETDRILL_BUILD)/packetdrill.so
