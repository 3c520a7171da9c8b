# SPDX-License-Identifier: BSD-3-Clause
# Installation. What is installed stands once, in INSTALL_FILES (source:destination below PREFIX), and `uninstall` takes
# away the same. Man pages and completions are whatever docs/man and scripts/completion hold.
INSTALL_FILES = \
	$(foreach b,$(BINARIES_program),$(b):bin/$(notdir $(b))) \
	lib/client/star.h:include/star.h lib/client/star_program.h:include/star_program.h lib/base/star_error.h:include/star_error.h \
	$(foreach h,$(STARTRAIN_HEADERS),lib/$(h):include/startrain/$(h)) \
	$(foreach m,$(wildcard docs/man/*.1),$(m):share/man/man1/$(notdir $(m))) \
	$(foreach m,$(wildcard docs/man/*.8),$(m):share/man/man8/$(notdir $(m))) \
	$(foreach c,$(wildcard scripts/completion/*.bash),$(c):share/bash-completion/completions/$(basename $(notdir $(c)))) \
	$(foreach d,$(wildcard drivers-config/*),$(d):share/starserver/drivers-config/$(notdir $(d))) \
	$(foreach s,hugepages bind-nic,scripts/$(s):share/starserver/scripts/$(s))
to = $(DESTDIR)$(PREFIX)/$(lastword $(subst :, ,$(1)))
from = $(firstword $(subst :, ,$(1)))
# A program and a script are executable, a page is not.
mode = $(if $(filter $(BINARIES_program) scripts/hugepages scripts/bind-nic,$(1)),755,644)

#: install    into DESTDIR/PREFIX (/usr/local)
install: all
	$(Q)set -e; $(foreach f,$(INSTALL_FILES),install -D -m $(call mode,$(call from,$(f))) $(call from,$(f)) $(call to,$(f));)
	$(Q)install -d $(DESTDIR)$(PREFIX)/lib/pkgconfig
	$(Q)cp -P $(BUILD)/lib/libstar.so* $(BUILD)/lib/libstar-dpdk.so $(BUILD)/lib/libstartrain.so* $(DESTDIR)$(PREFIX)/lib/
	$(Q)set -e; for p in star startrain; do sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' scripts/$$p.pc.in \
		> $(DESTDIR)$(PREFIX)/lib/pkgconfig/$$p.pc; done
	$(Q)install -d $(DESTDIR)$(PREFIX)/lib/systemd/system
	$(Q)sed -e 's|@PREFIX@|$(PREFIX)|' scripts/starserver@.service.in > $(DESTDIR)$(PREFIX)/lib/systemd/system/starserver@.service
	@echo "  INSTALL $(DESTDIR)$(PREFIX)"

#: uninstall  takes away what install put there
uninstall:
	$(Q)rm -f $(foreach f,$(INSTALL_FILES),$(call to,$(f))) $(DESTDIR)$(PREFIX)/lib/libstar.so* $(DESTDIR)$(PREFIX)/lib/libstar-dpdk.so \
		$(DESTDIR)$(PREFIX)/lib/libstartrain.so* $(addprefix $(DESTDIR)$(PREFIX)/lib/pkgconfig/,star.pc startrain.pc) $(DESTDIR)$(PREFIX)/lib/systemd/system/starserver@.service
	$(Q)for d in /drivers-config /scripts ''; do rmdir $(DESTDIR)$(PREFIX)/share/starserver$$d 2>/dev/null || true; done
	$(Q)for d in /graph /input /session /tensor ''; do rmdir $(DESTDIR)$(PREFIX)/include/startrain$$d 2>/dev/null || true; done
	@echo "  REMOVED $(DESTDIR)$(PREFIX)"
