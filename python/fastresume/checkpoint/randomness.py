"""The random generators of a process: Python's, numpy's, torch's, and the current accelerator's.

Law 10 says that no call of ours reads or moves them. A checkpoint is the exception that its user asks for:
`Checkpointer.save` reads them, and `Checkpointer.restore` sets them, after all else.
"""

from __future__ import annotations

import hashlib
import json
import random  # noqa: TID251  (law 10's exception; see above)

import numpy as np
import torch
from torch import Tensor

import fastresume._core as _core
from fastresume.rng import Generators, accelerator

_TAG = b"fastresume random 1"


class Randomness(Generators):
    """The states of the generators at one moment, of one rank.

    Only the present device's is among them, so that what eight devices saved loads on one.

    Examples:
        >>> import torch
        >>> before = Randomness.now()
        >>> first = torch.rand(1)
        >>> before.restore()
        >>> torch.equal(torch.rand(1), first)
        True
    """

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
    """Seeds the generators again when a job resumes on another number of ranks.

    The seed is the first 8 bytes, the highest first, of SHA-256("fastresume random 1", the 32 bytes of
    SHA-256(states of rank 0 as they were saved), world size and rank as 8 bytes each, the highest first).
    Python's and torch's generators, and the accelerator's, are seeded with it, numpy's with its two halves of
    32 bits, the higher first. So streams differ by rank, by world size and by the moment that was saved, and
    are the same in each such resume.
    """
    words = rank.to_bytes(8, "big"), world_size.to_bytes(8, "big")
    hashed = hashlib.sha256(_TAG + hashlib.sha256(text).digest() + words[1] + words[0]).digest()
    seed = int.from_bytes(hashed[:8], "big")
    random.seed(seed)
    np.random.seed([seed >> 32, seed & 0xFFFFFFFF])  # noqa: TID251, NPY002  (see above)
    torch.default_generator.manual_seed(seed)
    device = accelerator()
    if device is not None:
        device[1].manual_seed(seed)


def _digits(state: Tensor) -> str:
    return state.numpy().tobytes().hex()


def _tensor(digits: str) -> Tensor:
    return torch.frombuffer(bytearray.fromhex(digits), dtype=torch.uint8)
