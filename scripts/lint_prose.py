# SPDX-License-Identifier: BSD-3-Clause
"""The checks of scripts/lint that read prose: comments, pages and the change log."""
import os
import re

REPEATED_FROM = 20  # characters of a line: two entries may end with the same word
BANNED_WORDS = "lint/banned-words"
COLUMNS, TAB = 120, 8
RST_NOTE = re.compile(r"\.\. (?:note|warning|tip|important|hint|caution)::")
RST_BORDER = re.compile(r"=+( +=+)+")
RST_ADORNMENT = re.compile(r"([-=~^\"'#*+.])\1{2,}")
RST_FIELD = re.compile(r":[^:`]+:(\s|$)|\||>>>|\.\. ")
RST_ITEM = re.compile(r"(?:[*+-]|#\.|\d+\.|\(?[a-z0-9]\)) +(?=\S)")
RST_WORD = re.compile(r"(?:\\.|``.+?``(?=\W|$)|:[\w:+-]+:`[^`]+`|(?<![`\w])`[^`]+`_{0,2}|\S)+")  # what marks it stays in one line
FOREIGN_FILES = "lint/foreign-files"
OPTIONS = "lib/config/options.c"
C_SOURCES = (".c", ".h", ".inc", ".pml")
TOP = ("app", "bench", "docs", "drivers-config", "lib", "lint", "packaging", "scripts", "tests")
NAMED = re.compile(r"(?<![\w./*$%{}~@:+=-])[\w.-]+(?:/[\w.-]+)*(?![\w/*$%{}@(])")
SOURCE = re.compile(r"\w\.(?:c|h|inc|rst|py|pml|test|mk)$")
PLACEHOLDER = re.compile(r"(?:^|/)[A-Z]+(?:\.\w+)?(?:/|$)")  # lib/NAME/rules.mk


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def indent_of(line):
    return len(line) - len(line.lstrip())


def skip_inner(lines, at, indent):
    """Behind the lines that are indented further, or empty."""
    while at < len(lines) and (not lines[at].strip() or indent_of(lines[at]) > indent):
        at += 1
    return at


def paragraphs(lines):
    """[(first line, behind its last)] of a page's text: paragraphs, items of lists, terms and what they mean. Titles, tables, literal blocks, fields,
    comments and directives other than notes are none."""
    found, at = [], 0
    while at < len(lines):
        line, indent = lines[at].strip(), indent_of(lines[at])
        end = at
        while end < len(lines) and lines[end].strip():
            end += 1
        if not line:
            at += 1
        elif line == ".." or line.startswith(".. "):
            at = at + 1 if RST_NOTE.fullmatch(line) else skip_inner(lines, at + 1, indent)
        elif line.startswith(("+-", "+=")):
            at = end
        elif RST_BORDER.fullmatch(line):  # of a simple table: one stands below its head, one at its end
            at += 1
            while at < len(lines) and not (RST_BORDER.fullmatch(lines[at].strip()) and not "".join(lines[at + 1:at + 2]).strip()):
                at += 1
            at += 1
        else:
            found += paragraphs_of_block(lines, at, end)
            at = end
            if lines[end - 1].rstrip().endswith("::"):
                item = RST_ITEM.match(lines[end - 1].strip()) if found[-1:] == [(end - 1, end)] else None
                at = skip_inner(lines, at, indent_of(lines[end - 1]) + (item.end() if item else 0))
    return found


def paragraphs_of_block(lines, at, end):
    """Those of lines without an empty one in between."""
    found, items_at = [], None
    while at < end:
        line, indent = lines[at].strip(), indent_of(lines[at])
        following = lines[at + 1].strip() if at + 1 < end else ""
        if RST_ADORNMENT.fullmatch(line):
            at += 1
        elif indent == 0 and RST_ADORNMENT.fullmatch(following):
            at += 2
        elif RST_FIELD.match(line):
            at = min(skip_inner(lines, at + 1, indent), end)
        else:
            item = RST_ITEM.match(line) if items_at in (None, indent) else None
            body, items_at = indent + (item.end() if item else 0), indent if item else items_at
            first, at = at, at + 1
            while at < end and indent_of(lines[at]) == body and not (items_at == body and RST_ITEM.match(lines[at].strip())):
                at += 1
            found.append((first, at))
    return found


def check_columns(lint):
    """Lines of C and of configurations end at column 120, and those of the pages' text, where there is a space to break them at. (An .inc may
    be a table of numbers.)"""
    for name in lint.files:
        if name.endswith(".rst"):
            lines = lint.text(name).split("\n")
            for number in (number for first, end in paragraphs(lines) for number in range(first, end)):
                if len(lines[number]) > COLUMNS and len(RST_WORD.findall(RST_ITEM.sub("", lines[number].strip(), 1))) > 1:
                    lint.error("columns", name, number + 1, f"the line ends at column {len(lines[number])}, beyond {COLUMNS}: break it")
            continue
        if not name.endswith((".c", ".h", ".conf")):
            continue
        then = "" if name.endswith(".conf") else ", and make format"
        for number, line in enumerate(lint.text(name).split("\n"), 1):
            width = len(line.expandtabs(TAB))
            if width > COLUMNS:
                lint.error("columns", name, number, f"the line ends at column {width}, beyond {COLUMNS}: break it{then}")


def read_banned_words(lint):
    """A line: PATTERN -> INSTEAD; [(compiled, instead)]."""
    words = []
    for number, line in enumerate((lint.text(BANNED_WORDS) if BANNED_WORDS in lint.files else "").split("\n"), 1):
        if not line.strip() or line.startswith("#"):
            continue
        pattern, arrow, instead = line.partition(" -> ")
        if pattern[0].islower():
            pattern = f"[{pattern[0]}{pattern[0].upper()}]{pattern[1:]}"
        try:
            words.append((re.compile(rf"\b(?:{pattern})(?<=\w)\b"), instead))
        except re.error:
            arrow = ""
        if not arrow:
            lint.error("words", BANNED_WORDS, number, "a line is PATTERN -> INSTEAD, the pattern a regular expression")
    return words


def check_words(lint):
    """The field's words, not ones of our own."""
    words = read_banned_words(lint)
    for name in lint.files:
        text = lint.text(name)
        if text is None or name in ("CHANGELOG.rst", "LICENSE", BANNED_WORDS, "tests/lint/cases.py"):
            continue
        for pattern, instead in words:
            for match in pattern.finditer(text):
                lint.error("words", name, line_of(text, match.start()), f"\"{match[0]}\": the field says: {instead} ({BANNED_WORDS})")


def comments(name, text):
    """A file's text, of C its comments alone; what is left out is replaced by spaces, line by line the same. None where nothing is to be read."""
    if name.endswith(C_SOURCES):
        pattern = r'(//[^\n]*|/\*.*?\*/)|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|.'
        return re.sub(pattern, lambda m: m[1] or re.sub(r"[^\n]", " ", m[0]), text, flags=re.S)
    return text if name.endswith((".rst", ".py", ".test", ".mk")) or text.startswith("#!") else None


def read_foreign_files(lint):
    lines = (lint.text(FOREIGN_FILES) or "").split("\n") if FOREIGN_FILES in lint.files else []
    return {line.split()[0] for line in lines if line.strip() and not line.startswith("#")}


def names_of_files(names):
    """What a comment may call them: a/b.test is a/b.test, a/b, b.test, b and, for its folder, a."""
    found = set()
    for name in names:
        parts = name.split("/")
        for first in range(len(parts)):
            found.update("/".join(parts[first:last]) for last in range(first + 1, len(parts) + 1))
            found.add(os.path.splitext("/".join(parts[first:]))[0])
    return found


def check_paths(lint):
    """Files that comments and pages name exist. The change log may name what there was."""
    tree, foreign = names_of_files(lint.files), read_foreign_files(lint)
    for name in lint.files:
        text = lint.text(name)
        if text is None or name in ("CHANGELOG.rst", "tests/lint/cases.py", "tests/system/lint.test", FOREIGN_FILES):
            continue
        text = comments(name, text)
        is_page, is_c = name.endswith(".rst"), name.endswith(C_SOURCES)
        for match in NAMED.finditer(text or ""):
            path = match[0].rstrip("./-")
            is_below_top = path.partition("/")[0] in TOP and "/" in path
            if not (is_below_top and SOURCE.search(path) or (is_page or is_c) and (is_below_top or SOURCE.search(path))):
                continue  # a program's own files may be built, or made
            if is_c and text[match.start() - 1] == "<":  # of the system
                continue
            if not (path in tree or path in foreign or PLACEHOLDER.search(path)):
                lint.error("paths", name, line_of(text, match.start()),
                           f"there is no {path}: name what there is now; a file of another project's goes into {FOREIGN_FILES}")


def check_rst(lint):
    """Pages name options as they are written, and their tables stand by themselves."""
    options = {name.replace(".", "_"): name for name in re.findall(r'\{ "(\w+\.\w+)"', lint.text(OPTIONS) or "")} if OPTIONS in lint.files else {}
    # A method of the control plane may have such a name.
    sources = "".join(lint.text(name) for name in lint.files if name.endswith(".c"))
    for name in lint.files:
        if not name.endswith(".rst"):
            continue
        text = lint.text(name)
        for match in re.finditer(r"``(\w+)``", text):
            if match[1] in options and f'"{match[1]}"' not in sources:
                lint.error("rst", name, line_of(text, match.start()), f"there is no option {match[1]}: write {options[match[1]]}")
        for match in re.finditer(r"^ *={4,}(?=[^=\s])", text, re.M):
            lint.error("rst", name, line_of(text, match.end()), "text behind a table's border: the table is not shown as one")


def check_changelog(lint):
    """Nothing is said twice, as a merge of two branches leaves it."""
    name, seen = "CHANGELOG.rst", {}
    for number, line in enumerate((lint.text(name) or "").split("\n") if name in lint.files else (), 1):
        told = line.strip()
        if len(told) >= REPEATED_FROM and re.search(r"\w", told) and seen.setdefault(told, number) != number:
            lint.error("changelog", name, number, f"line {seen[told]} says the same: keep one of them")
