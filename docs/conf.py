# SPDX-License-Identifier: BSD-3-Clause
# Sphinx's configuration. `make docs` gives the release; configuration.rst is written by starserver itself.
project = "StarServer"
author = "the StarServer developers"
copyright = "2026, " + author
exclude_patterns = ["man"]
html_theme = "alabaster"
html_theme_options = {"page_width": "1100px", "sidebar_width": "240px"}
highlight_language = "none"
nitpicky = True
# Debian's libjs-mathjax: formulas without a network.
mathjax_path = "file:///usr/share/javascript/mathjax/MathJax.js?config=TeX-AMS_HTML"
