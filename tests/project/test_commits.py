"""Commit messages say what changes in the imperative, in 72 characters, and then why."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NO_ORDER = re.compile(
    r"(The|A|An|It|This|There|No|Some|All|Each|\w+(?<!s)(?<!Focu)s|(?!Bring)\w+ing|(?!Need|Feed|Embed|Seed|Speed|Proceed)\w+ed)\b"
)
"""First words of a sentence about the code. Orders that end in -ss are none of them: Pass, Address."""


def faults(message: str) -> list[str]:
    """What is wrong with a commit's message; nothing if it is as CONTRIBUTING.md says."""
    subject, _, body = message.strip().partition("\n")
    if subject.startswith(("Merge ", "Revert ")):
        return []
    found = []
    if len(subject) > 72:
        found.append(f"its subject has {len(subject)} characters: 72 at most")
    if NO_ORDER.match(subject) or not subject[:1].isupper():
        found.append("its subject begins with no order, as 'Read the footer once' does")
    if subject.endswith("."):
        found.append("its subject ends with a full stop")
    if not body.strip():
        found.append("it has no body: say why")
    return found


def test_the_rule_knows_an_order_from_a_sentence() -> None:
    why = "\n\nBecause of this."
    for good in (
        "Read the footer once",
        "Pass keys on",
        "Need no pandas to open rows",
        'Revert "Reads twice"',
    ):
        assert faults(good + why) == [], good
    for bad in ("Reads the footer once", "The footer is read", "Fixed it", "Reading twice", "read it"):
        assert faults(bad + why), bad
    assert faults("Read the footer once") == ["it has no body: say why"]
    assert faults("Read the footer once." + why) == ["its subject ends with a full stop"]
    assert faults("Read " + "x" * 68 + why) == ["its subject has 73 characters: 72 at most"]


def test_commits_since_the_rule_keep_it() -> None:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("there is no history here, as in an archive of the sources")
    asked = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    known = subprocess.run(asked, check=False, capture_output=True, text=True, timeout=60)
    if known.returncode:
        pytest.skip(f"git does not read the history: {known.stderr.strip()[:200]}")

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", ROOT, *arguments], check=True, capture_output=True, text=True
        ).stdout

    added = git("log", "--diff-filter=A", "--format=%H", "--", "tests/project/test_commits.py").split()
    since = f"{added[-1]}..HEAD" if added else "HEAD..HEAD"
    messages = [one for one in git("log", "--format=%h %B%x00", since).split("\x00") if one.strip()]
    message = {one.split(maxsplit=1)[0]: faults(one.strip().split(" ", 1)[1]) for one in messages}
    assert {commit: found for commit, found in message.items() if found} == {}
