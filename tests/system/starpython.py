# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of the Python package share: the package where an ordinary user can read it, and its cases."""
import os
import re
import shutil

from starlib import *

NOBODY = 65534
PACKAGE = os.path.join(BUILD, "python")
TESTS = os.path.join(ROOT, "tests/python")
EXAMPLES = os.path.join(ROOT, "docs/examples/torch")


@shared
def site():
    """Copies that an ordinary user can read, wherever the build folder is: (environment, folder)."""
    folder = os.path.join(scratch(), "site")
    os.chmod(scratch(), 0o755)
    for name, origin in (("package", PACKAGE), ("tests", TESTS), ("examples", EXAMPLES)):
        check(os.path.isdir(origin), f"there is no {origin}: run make python")
        shutil.copytree(origin, os.path.join(folder, name), ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("golden.py", "golden.inc"):
        shutil.copy(os.path.join(ROOT, "tests/models", name), f"{folder}/tests")
    for name in ("starserver", "startrain"):  # of a sanitized build there may be the package alone (`make ASAN=1 python`)
        built = program(name)
        shutil.copy(built if os.path.exists(built) else os.path.join(ROOT, f"build/release/app/{name}/{name}"), folder)
    home = os.path.join(folder, "home")
    os.mkdir(home)
    if os.geteuid() == 0:
        os.chown(home, NOBODY, NOBODY)
    environment = {"PYTHONPATH": f"{folder}/package:{folder}/tests:{folder}/examples", "STARSERVER": f"{folder}/starserver",
                   "STARTRAIN": f"{folder}/startrain", "HOME": home, "TMPDIR": home, "PYTHONDONTWRITEBYTECODE": "1", "STAR_TEST_SLOW": str(SLOW), "PYTHONFAULTHANDLER": "1",
                   **sanitized(f"{folder}/tests")}
    return environment, folder


def sanitized(tests):
    """What an interpreter without sanitizers needs for a package that was built with them."""
    names = [name for name in ("asan", "tsan") if name in os.path.basename(BUILD)]
    if not names:
        return {}
    # A sanitizer's library must be the first one of a program that was built without it. It looks for what throws C++'s exceptions,
    # which PyTorch does, when the program begins.
    environment = {"LD_PRELOAD": " ".join(run("gcc", f"-print-file-name={name}").stdout.strip()
                                          for name in (f"lib{names[0]}.so", "libstdc++.so.6"))}
    if names[0] == "asan":
        # Each of Python's objects is a piece of malloc's, which the sanitizer sees, with Python's own debug hooks around it.
        environment |= {"PYTHONMALLOC": "malloc_debug", "LSAN_OPTIONS": f"suppressions={tests}/leaks.supp:print_suppressions=0",
                        # Two frames are malloc and its caller, which the suppressions name.
                        "ASAN_OPTIONS": "detect_leaks=1:malloc_context_size=2"}
    return environment


def as_user(*argv, **options):
    """Runs it as an ordinary user."""
    environment, _ = site()
    user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"] if os.geteuid() == 0 else []
    return run(*user, *argv, env={**environment, **options.pop("env", {})}, **options)


def python_case(module, group=None, timeout_s=300):
    name = f"{module}.{group}" if group else module

    def function():
        done = as_user("/usr/bin/python3", "-X", "dev", "-W", "ignore", "-m", "unittest", "-v", name,
                       expect=None, timeout_s=timeout_s, cwd="/")
        check(done.returncode == 0, f"{name}:\n{done.stdout}{done.stderr}")
        check(re.search(r"^Ran [1-9]", done.stderr, re.M), f"nothing was run:\n{done.stderr}")
    function.__name__ = name.replace(".", "_").lower()
    return case(function, timeout_s=timeout_s + 20)


def fresh_venv(*options):
    """The interpreter of a new virtual environment of the ordinary user's, with nothing but the wheel installed."""
    environment, folder = site()
    version = re.search(r"^VERSION := (\S+)", open(os.path.join(ROOT, "Makefile"), encoding="utf-8").read(), re.M)[1]
    wheels = os.path.join(folder, "wheels")
    run("/usr/bin/python3", os.path.join(ROOT, "lib/python/make-wheel"), "--version", version, "--package",
        os.path.join(PACKAGE, "starserver"), "--to", wheels)
    name = f"starserver-{version}-cp311-abi3-linux_x86_64.whl"
    equal(os.listdir(wheels), [name], "the wheels")
    venv = f"{environment['HOME']}/venv"
    as_user("/usr/bin/python3", "-m", "venv", *options, venv, env={"PYTHONPATH": None}, cwd="/", timeout_s=120)
    as_user(f"{venv}/bin/pip", "install", "--no-index", "--disable-pip-version-check", f"{wheels}/{name}",
            env={"PYTHONPATH": None}, cwd="/", timeout_s=120)
    return f"{venv}/bin/python"


def manual_examples():
    """The programs in docs/python.rst."""
    with open(os.path.join(ROOT, "docs/python.rst"), encoding="utf-8") as file:
        blocks = re.findall(r"^\.\. code-block:: python\n\n((?:    .*\n|\n)+)", file.read(), re.M)
    return ["".join(line[4:] if line.strip() else line for line in block.splitlines(True)) for block in blocks]
