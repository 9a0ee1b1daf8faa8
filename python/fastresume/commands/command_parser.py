"""The parser of one command's arguments."""

from __future__ import annotations

import argparse
from typing import Any

from fastresume._core import nearest


class CommandParser(argparse.ArgumentParser):
    """A parser of a command's arguments: its errors show the command's usage, and name the near option."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """The arguments, and [] because none may be left; an error shows the usage of this command."""
        given, left = super().parse_known_args(args, namespace)
        if left:
            option = left[0].split("=")[0]
            near = nearest(option, list(self._option_string_actions)) if option.startswith("-") else None
            hint = "" if near is None else f": did you mean {near}?"
            self.error(f"unrecognized arguments: {' '.join(left)}{hint}")
        return given, left
