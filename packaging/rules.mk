# SPDX-License-Identifier: BSD-3-Clause
# The Debian packages, into build/deb. PREBUILT=1: of the programs that are in the build directory, without source package and debug
# symbols, which takes seconds; else everything is compiled from scratch, with Debian's flags.
PREBUILT ?=

.PHONY: deb
#: deb        the Debian packages, into build/deb; PREBUILT=1 packs what is built already
deb:
	$(call packages,deb)
	$(if $(PREBUILT),$(call build,all $(PYTHON_SYSTEM)))
	$(Q)packaging/make-deb --version $(VERSION) $(if $(PREBUILT),--prebuilt $(BUILD)) --to build/deb $(if $(JOBS),--jobs $(JOBS))
