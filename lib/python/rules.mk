# SPDX-License-Identifier: BSD-3-Clause
# The Python package starserver: a directory that PYTHONPATH may name, build/release/python, and a wheel. Not part of `all`, as
# it needs python3-dev; `tests` builds it.
LIBRARIES += python
PYTHON := /usr/bin/python3
PYTHON_DIR := $(BUILD)/python
PYTHON_SOURCES := $(foreach d,starserver starserver/torch,$(wildcard $(addprefix lib/python/$(d)/,*.py *.pyi py.typed)))
PYTHON_NATIVE := $(PYTHON_DIR)/starserver/_native.abi3.so
OBJ_lib_python := $(patsubst %.c,$(BUILD)/%.o,$(wildcard lib/python/*.c))
OBJECTS += $(OBJ_lib_python)
$(OBJ_lib_python): EXTRA_CFLAGS = $(EXT_CFLAGS_python)

# libstar lies beside it: a wheel is the same directory, packed.
$(PYTHON_NATIVE): $(OBJ_lib_python) $(BUILD)/lib/libstar.so
	@mkdir -p $(@D)
	@echo "  LINK    $@"
	$(Q)rm -f $(@D)/libstar.so.*
	$(Q)cp -f $(BUILD)/lib/libstar.so $(@D)/libstar.so.$(ABI)
	$(Q)$(CC) $(LDFLAGS) -shared -Wl,-rpath,'$$ORIGIN' -o $@ $(OBJ_lib_python) $(@D)/libstar.so.$(ABI)

# For a distribution's package: with the libstar that the loader finds.
PYTHON_SYSTEM := $(BUILD)/lib/python/_native.abi3.so
$(PYTHON_SYSTEM): $(OBJ_lib_python) $(BUILD)/lib/libstar.so
	@echo "  LINK    $@"
	$(Q)$(CC) $(LDFLAGS) -shared -o $@ $(OBJ_lib_python) $(BUILD)/lib/libstar.so

$(PYTHON_DIR)/.complete: $(PYTHON_NATIVE) $(PYTHON_SOURCES)
	$(Q)$(foreach f,$(PYTHON_SOURCES),install -D -m 644 $(f) $(PYTHON_DIR)/$(f:lib/python/%=%) &&) touch $@

BINARIES_tool += $(PYTHON_DIR)/.complete

.PHONY: python wheel test-python
#: python     the Python package starserver, into build/release/python
python:
	$(call packages,build)
	$(call build,$(PYTHON_DIR)/.complete)
#: wheel      the same as a wheel, into build/release/dist
wheel:
	$(call packages,build)
	$(call build,$(PYTHON_DIR)/.complete)
	$(Q)$(PYTHON) lib/python/make-wheel --version $(VERSION) --package $(PYTHON_DIR)/starserver --to $(BUILD)/dist
#: test-python  install PyTorch, and run the tests of starserver.torch and its examples
test-python:
	$(call packages,torch)
	$(call build,$(PYTHON_DIR)/.complete $(foreach p,starserver startrain,$(BUILD)/app/$(p)/$(p)))
	$(Q)scripts/run-tests --build $(BUILD) $(if $(AGAIN),--again) --system tests/python
