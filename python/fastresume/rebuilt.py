"""What a pickle leaves out of an object, and its copy builds again: locks, connections, what is computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar


class Rebuilt:
    """An object that is pickled without some of its attributes, which a copy builds again.

    A class names them in `_REBUILT`, beside those of its base classes, and builds them in `_rebuild`.
    """

    _REBUILT: ClassVar[tuple[str, ...]] = ()

    def _rebuild(self) -> None:
        """Builds what a pickle leaves out."""
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        left_out = {name for each in type(self).__mro__ for name in vars(each).get("_REBUILT", ())}
        return {name: value for name, value in self.__dict__.items() if name not in left_out}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self._rebuild()
