# SPDX-License-Identifier: BSD-3-Clause
# Installation. What is installed stands once, in INSTALL_FILES (source:destination), and `uninstall` takes away the same. Man pages and
# completions are whatever docs/man, scripts/man-from-help and scripts/completion hold. Nothing that is written into a file names DESTDIR.
INSTALL_SCRIPTS := hugepages bind-nic
# What is made here: a directory for each place, as two may be installed to at once.
INSTALL_TEXTS = $(BUILD)/install/$(subst /,_,$(DESTDIR)$(PREFIX))
share = $(PREFIX)/share
INSTALL_FILES = \
	$(foreach b,$(BINARIES_program),$(b):$(PREFIX)/bin/$(notdir $(b))) \
	$(foreach s,$(INSTALL_SCRIPTS),scripts/$(s):$(PREFIX)/sbin/starserver-$(s)) \
	scripts/plot-training:$(PREFIX)/bin/startrain-plot \
	$(foreach h,$(HEADERS_libstar),$(h):$(PREFIX)/include/$(notdir $(h))) \
	$(foreach h,$(STARTRAIN_HEADERS),lib/$(h):$(PREFIX)/include/startrain/$(h)) \
	$(foreach l,libstar libstartrain,$(BUILD)/lib/$(l).so:$(PREFIX)/$(LIBDIR)/$(l).so.$(ABI)) \
	$(BUILD)/lib/libstar-dpdk.so:$(PREFIX)/$(LIBDIR)/starserver/libstar-dpdk.so \
	$(foreach p,star startrain,$(INSTALL_TEXTS)/$(p).pc:$(PREFIX)/$(LIBDIR)/pkgconfig/$(p).pc) \
	$(foreach m,$(wildcard docs/man/*.1),$(m):$(share)/man/man1/$(notdir $(m))) \
	$(INSTALL_TEXTS)/starserver.8:$(share)/man/man8/starserver.8 $(INSTALL_TEXTS)/starserver.conf.5:$(share)/man/man5/starserver.conf.5 \
	$(foreach s,$(INSTALL_SCRIPTS),$(INSTALL_TEXTS)/starserver-$(s).8:$(share)/man/man8/starserver-$(s).8) \
	$(foreach c,$(wildcard scripts/completion/*.bash),$(c):$(share)/bash-completion/completions/$(basename $(notdir $(c)))) \
	scripts/completion/startrain.bash:$(share)/bash-completion/completions/starbench \
	$(foreach d,$(wildcard drivers-config/*),$(d):$(share)/starserver/drivers-config/$(notdir $(d))) \
	$(foreach g,$(wildcard scripts/gdb/*.py),$(g):$(share)/starserver/gdb/$(notdir $(g))) \
	$(foreach w,$(wildcard scripts/wireshark/*.lua),$(w):$(share)/starserver/wireshark/$(notdir $(w))) \
	$(foreach b,$(wildcard scripts/bpftrace/*.bt),$(INSTALL_TEXTS)/$(notdir $(b)):$(share)/starserver/bpftrace/$(notdir $(b))) \
	$(foreach r,$(wildcard scripts/prometheus/*),$(r):$(share)/starserver/prometheus/$(notdir $(r))) \
	$(INSTALL_TEXTS)/dashboard.json:$(share)/starserver/grafana/starserver.json \
	$(INSTALL_TEXTS)/starserver@.service:$(SYSTEMLIB)/systemd/system/starserver@.service \
	scripts/starserver.rules:$(SYSTEMLIB)/udev/rules.d/60-starserver.rules scripts/starserver.sysusers:$(PREFIX)/lib/sysusers.d/starserver.conf
# name:what it points to. Programs are linked with the names without a number.
INSTALL_LINKS = $(foreach l,libstar libstartrain,$(PREFIX)/$(LIBDIR)/$(l).so:$(l).so.$(ABI))
from = $(firstword $(subst :, ,$(1)))
to = $(DESTDIR)$(lastword $(subst :, ,$(1)))
# A program and a script are executable, a page is not.
mode = $(if $(filter $(BINARIES_program) $(addprefix scripts/,$(INSTALL_SCRIPTS) plot-training),$(1)),755,644)

# Each file takes its name by a rename: a program that has the old one mapped keeps it, and would die of SIGBUS were it written over.
#: install    into DESTDIR/PREFIX (/usr/local)
install: all
	$(Q)mkdir -p $(INSTALL_TEXTS)
	$(Q)set -e; for p in star startrain; do sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@VERSION@|$(VERSION)|' \
		scripts/$$p.pc.in > $(INSTALL_TEXTS)/$$p.pc; done
	$(Q)sed -e 's|@PREFIX@|$(PREFIX)|' scripts/starserver@.service.in > $(INSTALL_TEXTS)/starserver@.service
	$(Q)set -e; for b in scripts/bpftrace/*.bt; do sed -e 's|@PREFIX@|$(PREFIX)|' $$b > $(INSTALL_TEXTS)/$${b##*/}; done
	$(Q)set -e; $(BIN_program_starserver) --print-metrics-rst > $(INSTALL_TEXTS)/metrics.rst; \
		scripts/make-dashboard --version $(VERSION) < $(INSTALL_TEXTS)/metrics.rst > $(INSTALL_TEXTS)/dashboard.json
	$(Q)sed -e 's|/usr/local|$(PREFIX)|g' docs/man/starserver.8 > $(INSTALL_TEXTS)/starserver.8
	$(Q)scripts/man-from-help --version $(VERSION) --configuration $(BIN_program_starserver) > $(INSTALL_TEXTS)/starserver.conf.5
	$(Q)set -e; for s in $(INSTALL_SCRIPTS); do scripts/man-from-help --version $(VERSION) --script scripts/$$s \
		> $(INSTALL_TEXTS)/starserver-$$s.8; done
	$(Q)set -e; $(foreach f,$(INSTALL_FILES),install -D -m $(call mode,$(call from,$(f))) $(call from,$(f)) $(call to,$(f)).new; \
		mv -fT $(call to,$(f)).new $(call to,$(f));)
	$(Q)set -e; $(foreach l,$(INSTALL_LINKS),ln -sfT $(lastword $(subst :, ,$(l))) $(DESTDIR)$(call from,$(l));)
	$(Q)rm -rf $(INSTALL_TEXTS)
	@echo "  INSTALL $(DESTDIR)$(PREFIX)"

#: uninstall  takes away what install put there
uninstall:
	$(Q)rm -f $(foreach f,$(INSTALL_FILES),$(call to,$(f))) $(foreach l,$(INSTALL_LINKS),$(DESTDIR)$(call from,$(l)))
	$(Q)for d in $(share)/starserver $(PREFIX)/include/startrain $(PREFIX)/$(LIBDIR)/starserver; do \
		find $(DESTDIR)$$d -depth -type d -empty -delete 2>/dev/null || true; done
	@echo "  REMOVED $(DESTDIR)$(PREFIX)"
