"""The questions that the table asks, and what each loader did: words for what was seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path

from beside.job import SETS, Job
from beside.lives import Crew, Life, LoaderError
from beside.loaders import LOADERS

SAVED = 20
"""Batches after which each rank saves its state. What is left fills batches on all ranks and workers."""
KILLED = 23
"""Batches after which each rank is killed: what comes after the state is trained in vain."""
OTHER_BATCH = 20
LARGE_BATCH, AT_90 = 64, 540
"""Rows in a batch of the large data set, and the batches that are 90 % of it."""
MIXED = 100
"""Batches of a mixture that are read after a resume."""
WEIGHTS, OTHER_WEIGHTS = (0.7, 0.3), (0.3, 0.7)

EXACT = "exact"
MOST_WORDS = 16
"""Of an error."""


@dataclass
class Answers:
    """Runs the jobs of one loader, and says what came of each resume. Jobs that questions share run once."""

    crew: Crew
    directory: Path

    @property
    def job(self) -> Job:
        return Job(str(self.directory), world_size=3, num_workers=2)

    @cached_property
    def whole(self) -> Life:
        return self.crew.live(self.job)

    @cached_property
    def first(self) -> Life:
        return self.crew.live(self.job, save_after=SAVED, stop_after=KILLED)

    def resumed(self, **changes: int) -> str:
        """What came of a resume in the order of the files, with these changes."""
        second = self.crew.live(replace(self.job, **changes), self.first.states)
        return _in_words(self.first.until(SAVED).then(second), SETS["all"])

    def killed(self) -> str:
        second = self.crew.live(self.job, self.first.states)
        words = _in_words(self.first.until(SAVED).then(second), SETS["all"])
        return words if words != EXACT else f"{EXACT}, {self.order(self.first, second, self.whole)}"

    def ranks(self) -> str:
        return self.resumed(world_size=2)

    def between(self) -> str:
        """Saved after a batch of which the rows are no whole number of batches for the ranks that resume."""
        job = replace(self.job, num_workers=0)
        first = self.crew.live(job, save_after=SAVED + 1, stop_after=KILLED)
        second = self.crew.live(replace(job, world_size=2), first.states)
        batch = 2 * job.batch_size
        return _in_words(first.until(SAVED + 1).then(second), SETS["all"], batch)

    def no_workers(self) -> str:
        return self.resumed(num_workers=0)

    def more_workers(self) -> str:
        return self.resumed(num_workers=3)

    def batch(self) -> str:
        return self.resumed(batch_size=OTHER_BATCH)

    def shuffled(self) -> str:
        """Whether rows and their order are those of the unbroken run."""
        return self.shuffled_from(self.shuffled_first)

    def shuffled_without_workers(self) -> str:
        job = replace(self.job, shuffle=True, num_workers=0)
        return self.shuffled_from(self.crew.live(job, save_after=SAVED, stop_after=KILLED), num_workers=0)

    def shuffled_from(self, first: Life, **changes: int) -> str:
        job = replace(self.job, shuffle=True, **changes)
        whole, second = self.crew.live(job), self.crew.live(job, first.states)
        words = _in_words(first.until(SAVED).then(second), SETS["all"])
        return words if words != EXACT else f"{EXACT}, {self.order(first, second, whole)}"

    @cached_property
    def shuffled_first(self) -> Life:
        return self.crew.live(replace(self.job, shuffle=True), save_after=SAVED, stop_after=KILLED)

    def state(self) -> str:
        """The pickled bytes of all that has to be saved: of one rank if all ranks saved the same."""
        states = [Path(path).read_bytes() for path in self.shuffled_first.states]
        of_all = "" if len(set(states)) == 1 else f", of {len(states)} ranks"
        return f"{sum(map(len, set(states))):,} bytes{of_all}"

    def first_batch(self) -> str:
        job = Job(str(self.directory), "large", batch_size=LARGE_BATCH, shuffle=True)
        request = {"what": "timed", "job": asdict(job), "states": [], "save_after": AT_90}
        (found,) = self.crew.ask([request], seconds=600)
        return f"{next(each['ratio'] for each in found if 'ratio' in each):.1f}"

    def weights(self) -> str:
        """Rows of each source that were passed over or came twice, and whether the new weights hold."""
        job = Job(str(self.directory), weights=WEIGHTS)
        first = self.crew.live(job, save_after=SAVED, stop_after=KILLED)
        job = replace(job, weights=OTHER_WEIGHTS)
        second = self.crew.live(job, first.states, stop_after=MIXED)
        rows = first.until(SAVED).then(second)
        # Sources are read in their order: what is missing below the last row of each was passed over.
        last = {name: max(set(rows) & set(SETS[name]), default=-1) for name in "ab"}
        expected = [row for name in "ab" for row in SETS[name] if row <= last[name]]
        words = _in_words(rows, expected if LOADERS[self.crew.loader].mixes_in_order else ())
        later = Life(()).then(second)
        share = sum(row in SETS["a"] for row in later) / len(later)
        nearest = min((WEIGHTS[0], OTHER_WEIGHTS[0]), key=lambda weight: abs(weight - share))
        return f"{words}, {'new' if nearest == OTHER_WEIGHTS[0] else 'old'} weights"

    @staticmethod
    def order(first: Life, second: Life, whole: Life) -> str:
        both = zip(first.batches, second.batches, strict=True)
        same = tuple((*before[:SAVED], *after) for before, after in both) == whole.batches
        return "same order" if same else "another order"


def _in_words(rows: list[int], expected: Sequence[int], batch: int = 0) -> str:
    """How many rows were lost or repeated, and whether the lost ones only fill no global batch at the end."""
    times = Counter(rows)
    lost = sorted(set(expected) - times.keys())
    is_tail = len(lost) < batch and lost == list(expected[-len(lost) :])
    found = {"dropped at the end" if is_tail else "lost": len(lost), "repeated": len(rows) - len(times)}
    words = [f"{number:,} {word}" for word, number in found.items() if number]
    return " and ".join(words) or EXACT


QUESTIONS: dict[str, Callable[[Answers], str]] = {
    "killed, resumed on the same 3 ranks with 2 workers each": Answers.killed,
    "resumed on 2 ranks instead of 3": Answers.ranks,
    "the same without workers, saved one batch later": Answers.between,
    "resumed without workers instead of with 2": Answers.no_workers,
    "resumed with 3 workers instead of 2": Answers.more_workers,
    "resumed with batches of 20 instead of 16": Answers.batch,
    "shuffled, killed, resumed on the same 3 ranks without workers": Answers.shuffled_without_workers,
    "shuffled, killed, resumed on the same 3 ranks with 2 workers each": Answers.shuffled,
    "what must be saved of a shuffled pass": Answers.state,
    "first batch after a resume at 90 %, over that of a fresh start": Answers.first_batch,
    "a mixture of 0.7 and 0.3, resumed as 0.3 and 0.7": Answers.weights,
}
TIMED = (Answers.first_batch,)
"""Questions whose answer is not the same each time."""


def answer(question: str, answers: Answers) -> tuple[str, str]:
    """What was seen, and what the loader said if it refused or failed."""
    try:
        return QUESTIONS[question](answers), ""
    except LoaderError as error:
        lines = str(error).strip().splitlines()
        # Workers hand over a traceback: its last line is the error.
        words = (lines[-1] if "Traceback" in str(error) else " ".join(lines)).split()
        said = " ".join(words[:MOST_WORDS]).rstrip(":") + (" ..." if len(words) > MOST_WORDS else "")
        return error.kind, said.replace("|", "/").replace("`", "'")
