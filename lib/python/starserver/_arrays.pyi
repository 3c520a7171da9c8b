# SPDX-License-Identifier: BSD-3-Clause
"""What of arrays the typed part of the package calls."""
from typing import Any

def key_buffer(keys: Any) -> tuple[Any, int]: ...
