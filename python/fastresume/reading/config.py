"""How transforms are named in a `config()`: by name, and by a digest of their source."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
from typing import Any

from fastresume.reading.map_function import Transform, name_of

_DIGITS = 16


def transform_config(transform: Transform) -> dict[str, Any]:
    """The name of a transform, and a digest of its source; None where Python has no source of it.

    Of a `functools.partial` it is that of its function, of an object with `__call__` that of its class. What
    a function calls, and the values that it is given, are in no digest.
    """
    function: Any = transform
    while isinstance(function, functools.partial):
        function = function.func
    digest = None
    for named in (type(function), inspect.unwrap(function)):
        with contextlib.suppress(OSError, TypeError):
            digest = hashlib.sha256(inspect.getsource(named).encode()).hexdigest()[:_DIGITS]
    return {"name": name_of(function), "source": digest}
