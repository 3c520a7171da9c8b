# SPDX-License-Identifier: BSD-3-Clause
"""Configurations of the system tests: dicts, and their text."""
import json

from starcheck import SOAK


def libconfig(value, indent=0):
    """A dict as the text of a libconfig file."""
    pad = "\t" * indent
    if isinstance(value, dict):
        text = "".join(f"{pad}{name} = {_value(member, indent)};\n" for name, member in value.items()
                       if member is not None)
        return text
    return _value(value, indent)


def _value(value, indent):
    if isinstance(value, dict):
        return "{\n" + libconfig(value, indent + 1) + "\t" * indent + "}"
    if isinstance(value, (list, tuple)):
        brackets = "()" if any(isinstance(member, (dict, list, tuple)) for member in value) else "[]"
        return brackets[0] + " " + ", ".join(_value(member, indent) for member in value) + " " + brackets[1]
    return json.dumps(value)


def merge(base, changes):
    """A dict of dicts with the changes; neither argument is modified."""
    merged = dict(base)
    for name, value in changes.items():
        both = isinstance(value, dict) and isinstance(base.get(name), dict)
        merged[name] = merge(base[name], value) if both else value
    return merged


# The memory that a node touches at its start, for each reactor: by default 112 MiB, which takes as long as all the rest of a
# start. Tests have few rows.
LITTLE = {"checkpoint": {"copies_mib": 16, "log_mib": 4}, "journal": {"ring_mib": 8}}


def with_little(config):
    """A node's configuration, with as little memory of checkpoints and of journals where it does not say how much; `make soak` has the defaults."""
    used = {"checkpoint": "checkpoint" in config, "journal": "journal" in config or "standby" in config}
    return config if SOAK else merge({group: LITTLE[group] for group in used if used[group]}, config)
