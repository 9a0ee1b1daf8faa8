"""The schedule of the benchmark: contenders run one after another, in turns, each in its own process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from fastresume.bench.checksum import difference
from fastresume.bench.contenders import REFERENCE, missing, named
from fastresume.bench.drawn import fault
from fastresume.bench.reading import STATE, Contender
from fastresume.bench.task import Task

Answer = dict[str, Any]


class Step(Protocol):
    """Called before each step, and with what was found after it."""

    def __call__(self, doing: str) -> None:
        """A step begins."""

    def tell(self, line: str) -> None:
        """A turn has ended."""


class ContenderError(Exception):
    """A contender's process ended without an answer, or with an error, which is the text."""


@dataclass
class Measured:
    """All measurements of one contender.

    Args:
        contender: the contender.
        problem: why it has no figures, or why they don't count.
        is_missing: whether it is not installed, or reads no store, which is no failure.
        checksum: the checksum of its rows.
        passes, resumes: the measurements of each round.
    """

    contender: Contender
    problem: str | None = None
    is_missing: bool = False
    checksum: Answer | None = None
    passes: list[Answer] = field(default_factory=list)
    resumes: list[dict[str, float]] = field(default_factory=list)

    @property
    def is_fit(self) -> bool:
        """Whether it takes part."""
        return self.problem is None


@dataclass(frozen=True)
class Taken:
    """The result of all turns.

    Args:
        expected: the checksum of the correct rows.
        measured: the measurements of each contender.
        is_interrupted: whether rounds are missing; the others are complete.
    """

    expected: Answer
    measured: list[Measured]
    is_interrupted: bool


@dataclass(frozen=True)
class Turns:
    """What is measured, and how often.

    Args:
        task: what all contenders read.
        rounds: how often each contender has its turn.
        seconds: how long passes are repeated in one turn, at least.
        places: the places after which to resume, in percent of the pass.
    """

    task: Task
    rounds: int
    seconds: float
    places: Sequence[int]

    def take(self, names: Sequence[str], step: Step) -> Taken:
        """Check and measure all contenders, after the correct rows are known; calls `step` before each step.

        Raises:
            KeyboardInterrupt: if no round was complete by then.
        """
        found = [Measured(named(name, self.task.job)) for name in names]
        for one in found:
            if absent := missing(one.contender):
                one.problem, one.is_missing = f"not installed: {', '.join(absent)}", True
            elif self.task.is_in_store and not one.contender.reads_stores:
                one.problem, one.is_missing = "reads local files alone", True
            elif self.task.is_of_arrow and not one.contender.reads_arrow:
                one.problem, one.is_missing = "reads no files of Arrow", True
        expected = self._check(found, step)
        resuming = [one for one in found if one.contender.resumes]
        try:
            for number, one in self._in_turns(found, "a pass of", step):
                self._attempt(one, one.passes, what="pass", seconds=self.seconds)
                text = _in_words(one, self.task.unit)
                step.tell(f"round {number} of {self.rounds}: {one.contender.name}: {text}")
            if self.places:
                self._resume(resuming, step)
        except KeyboardInterrupt:
            _keep_whole_rounds([one.resumes for one in resuming if one.is_fit])
            if not _keep_whole_rounds([one.passes for one in found if one.is_fit]):
                raise
            return Taken(expected, found, is_interrupted=True)
        return Taken(expected, found, is_interrupted=False)

    def count_steps(self, names: Sequence[str]) -> int:
        """The approximate number of steps, for a progress bar."""
        present = [one for name in names if not missing(one := named(name, self.task.job))]
        resuming = sum(bool(one.resumes) for one in present) if self.places else 0
        return 1 + len(present) * (1 + self.rounds) + resuming * (1 + self.rounds)

    def _check(self, found: Sequence[Measured], step: Step) -> Answer:
        unit = self.task.unit
        step(f"what {unit}s there are ({REFERENCE})")
        expected = in_process(named(REFERENCE, self.task.job), what="check", task=self.task.to_json())
        if not expected["rows"]:
            raise ContenderError(f"{REFERENCE} delivers no {unit}s of these files")
        for one in found:
            if not one.is_fit:
                continue
            if one.contender.name == REFERENCE:
                one.checksum = expected
                continue
            step(f"the {unit}s of {one.contender.name}")
            try:
                one.checksum = in_process(one.contender, what="check", task=self.task.to_json())
            except ContenderError as cause:
                one.problem = f"failed: {cause}"
                step.tell(f"checked: {one.contender.name}: {one.problem}")
                continue
            is_mixture = self.task.job == "mix"  # whose contenders each have rows of their own
            wrong = fault(one.checksum, self.task) if is_mixture else difference(one.checksum, expected, unit)
            if wrong:
                one.problem = f"OTHER {unit.upper()}S: {wrong}"
            fine = "rows by weight" if is_mixture else f"the same {unit}s"
            step.tell(f"checked: {one.contender.name}: {one.problem or fine}")
        return expected

    def _resume(self, found: Sequence[Measured], step: Step) -> None:
        with tempfile.TemporaryDirectory() as directory:
            paths = {one.contender.name: str(Path(directory) / str(n)) for n, one in enumerate(found)}
            for one in found:
                if one.is_fit and one.contender.resumes == STATE:
                    step(f"the states of {one.contender.name}")
                    path = paths[one.contender.name]
                    self._attempt(one, [], what="states", places=self.places, path=path)
            for number, one in self._in_turns(found, "resumes of", step):
                path = paths[one.contender.name]
                self._attempt(one, one.resumes, what="resumes", places=self.places, path=path)
                step.tell(
                    f"resumes {number} of {self.rounds}: {one.contender.name}: {_resumes_in_words(one)}"
                )

    def _in_turns(self, found: Sequence[Measured], doing: str, step: Step) -> Iterator[tuple[int, Measured]]:
        for number in range(self.rounds):
            first = number % max(1, len(found))  # so that no contender always follows the same one
            for one in [*found[first:], *found[:first]]:
                if one.is_fit:
                    step(f"round {number + 1} of {self.rounds}: {doing} {one.contender.name}")
                    yield number + 1, one

    def _attempt(self, one: Measured, answers: list[Answer], **request: object) -> None:
        try:
            answers.append(in_process(one.contender, task=self.task.to_json(), **request))
        except ContenderError as cause:
            one.problem = f"failed: {cause}"


def _in_words(one: Measured, unit: str) -> str:
    """The last pass of a contender in words."""
    if one.problem:
        return one.problem
    turn = one.passes[-1]
    return f"{turn['rows'] / turn['seconds'] / 1e6:.2f} million {unit}s/s"


def _resumes_in_words(one: Measured) -> str:
    """The last resumes of a contender in words."""
    if one.problem:
        return one.problem
    return ", ".join(f"{1000 * seconds:.1f} ms at {place} %" for place, seconds in one.resumes[-1].items())


def _keep_whole_rounds(found: Sequence[list[Any]]) -> int:
    """Drop the measurements of an incomplete round; return the number of complete rounds."""
    whole = min(map(len, found), default=0)
    for answers in found:
        del answers[whole:]
    return whole


def in_process(contender: Contender, **request: object) -> Answer:
    """The answer of a separate process.

    Raises:
        ContenderError: if there is none.
    """
    text = json.dumps({**request, "contender": contender.name})
    environment: Mapping[str, str] = {**os.environ, **contender.environment}
    command = [sys.executable, "-P", "-m", "fastresume.bench"]  # -P: no module of the user's directory
    ended = subprocess.run(  # noqa: S603  (this program itself)
        command, input=text, capture_output=True, text=True, env=environment, check=False
    )
    if ended.returncode != 0:
        said = [line for line in ended.stderr.splitlines() if line.strip()]
        last = said[-1] if said else "it said nothing"
        raise ContenderError(f"{last} (exit status {ended.returncode})")
    try:
        answer: Answer = json.loads(ended.stdout)
    except ValueError:
        raise ContenderError("it ended without an answer (exit status 0)") from None
    return answer
