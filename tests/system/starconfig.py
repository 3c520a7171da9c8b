# SPDX-License-Identifier: BSD-3-Clause
"""Configurations of the system tests: dicts, and their text."""
import json


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
    """A dict of dicts with the changes; neither of the two is another one then."""
    merged = dict(base)
    for name, value in changes.items():
        both = isinstance(value, dict) and isinstance(base.get(name), dict)
        merged[name] = merge(base[name], value) if both else value
    return merged
