# SPDX-License-Identifier: BSD-3-Clause
"""What of the extension the typed part of the package calls."""
from typing import Any

def unique(keys: Any, distinct: Any, inverse: Any) -> int: ...
