"""The random generators of a process: Python's, numpy's, torch's, and the current accelerator's.

Law 10 says that no call of ours reads or moves them. A checkpoint is the exception that its user asks for:
`Checkpointer.save` reads them, and `Checkpointer.restore` sets them, after all else.
"""

from __future__ import annotations

import hashlib
import json
import random  # noqa: TID251  (law 10's exception; see above)
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fastresume import _core

_TAG = b"fastresume random 1"


@dataclass(frozen=True)
class Randomness:
    """The states of the generators at one moment, of one rank.

    Only the present device's is among them, so that what eight devices saved loads on one.

    Example:
        >>> import torch
        >>> before = Randomness.now()
        >>> first = torch.rand(1)
        >>> before.restore()
        >>> torch.equal(torch.rand(1), first)
        True
    """

    python: Any
    numpy: dict[str, Any]
    torch: Tensor
    accelerator: tuple[str, Tensor] | None

    @classmethod
    def now(cls) -> Randomness:
        """The states of this moment."""
        numpy_state: Any = np.random.get_state(legacy=False)  # noqa: TID251, NPY002  (see above)
        device = _accelerator()
        state = None if device is None else (device, _module(device).get_rng_state().cpu())
        return cls(random.getstate(), numpy_state, torch.get_rng_state(), state)

    def restore(self) -> None:
        """Sets the generators; of an accelerator only if this process has one of the same kind."""
        random.setstate(self.python)
        np.random.set_state(self.numpy)  # noqa: TID251, NPY002  (see above)
        torch.set_rng_state(self.torch)
        device = _accelerator()
        if self.accelerator is not None and self.accelerator[0] == device:
            _module(device).set_rng_state(self.accelerator[1])

    def to_json(self) -> bytes:
        """The states as JSON: numbers and hexadecimal digits; floats come back as they were."""
        version, words, gauss = self.python
        arrays = self.numpy["state"]
        if self.numpy["bit_generator"] != "MT19937":
            raise ValueError(
                "numpy's global generator must be MT19937, as it is unless it was replaced, found "
                f"{self.numpy['bit_generator']}"
            )
        device = self.accelerator
        return json.dumps(
            {
                "python": [version, list(words), gauss],
                "numpy": {
                    "words": arrays["key"].tolist(),
                    "place": int(arrays["pos"]),
                    "has_gauss": int(self.numpy["has_gauss"]),
                    "gauss": float(self.numpy["gauss"]),
                },
                "torch": _digits(self.torch),
                "accelerator": None if device is None else [device[0], _digits(device[1])],
            },
            separators=(",", ":"),
        ).encode()

    @classmethod
    def from_json(cls, text: bytes) -> Randomness:
        """What `to_json` wrote.

        Raises:
            StateError: if it is something else.
        """
        try:
            found = json.loads(text)
            version, words, gauss = found["python"]
            arrays, device = found["numpy"], found["accelerator"]
            return cls(
                (int(version), tuple(words), gauss),
                {
                    "bit_generator": "MT19937",
                    "state": {"key": np.array(arrays["words"], np.uint32), "pos": arrays["place"]},
                    "has_gauss": arrays["has_gauss"],
                    "gauss": arrays["gauss"],
                },
                _tensor(found["torch"]),
                None if device is None else (device[0], _tensor(device[1])),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise _core.StateError(f"the states of random generators can't be read: {error!r}") from None


def derive(text: bytes, rank: int, world_size: int) -> None:
    """Seeds the generators anew, where a job resumes on another number of ranks.

    The seed is the first 8 bytes, the highest first, of SHA-256("fastresume random 1", the 32 bytes of
    SHA-256(states of rank 0 as they were saved), world size and rank as 8 bytes each, the highest first).
    Python's and torch's generators, and the accelerator's, are seeded with it, numpy's with its two halves of
    32 bits, the higher first. So streams differ by rank, by world size and by the moment that was saved, and
    come again in each such resume.
    """
    words = rank.to_bytes(8, "big"), world_size.to_bytes(8, "big")
    hashed = hashlib.sha256(_TAG + hashlib.sha256(text).digest() + words[1] + words[0]).digest()
    seed = int.from_bytes(hashed[:8], "big")
    random.seed(seed)
    np.random.seed([seed >> 32, seed & 0xFFFFFFFF])  # noqa: TID251, NPY002  (see above)
    torch.default_generator.manual_seed(seed)
    device = _accelerator()
    if device is not None:
        _module(device).manual_seed(seed)


def _accelerator() -> str | None:
    found = torch.accelerator.current_accelerator(check_available=True)
    return None if found is None else found.type


def _module(device: str) -> Any:
    return torch.get_device_module(device)


def _digits(state: Tensor) -> str:
    return state.numpy().tobytes().hex()


def _tensor(digits: str) -> Tensor:
    return torch.frombuffer(bytearray.fromhex(digits), dtype=torch.uint8)
