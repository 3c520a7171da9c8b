# SPDX-License-Identifier: BSD-3-Clause
# The HTML pages. Sphinx reads a copy of docs/ in the build directory, to which the generated pages are added, so that
# nothing generated lies among the sources.
DOCS_SOURCE := $(BUILD)/docs-source

#: docs       the HTML pages, into build/docs
docs: $(BUILD)/app/starserver/starserver
	$(call packages,docs)
	$(Q)rm -rf $(DOCS_SOURCE) && mkdir -p $(BUILD) && cp -r docs $(DOCS_SOURCE)
	$(Q)$< --print-options-rst > $(DOCS_SOURCE)/configuration.rst
	$(Q)$< --print-metrics-rst > $(DOCS_SOURCE)/metrics-list.txt
	$(Q)/usr/bin/sphinx-build -q -W --keep-going -D release=$(VERSION) -b html $(DOCS_SOURCE) build/docs
	@echo "  DOCS    build/docs/index.html"
