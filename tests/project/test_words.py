"""Sentences are short, each source file of Rust says first what it holds, and texts use today's words."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from support.code_blocks import without_blocks
from support.each_of import each_of

ROOT = Path(__file__).parents[2]
RUST = sorted((ROOT / "rust").glob("*/src/**/*.rs"))
PYTHON = sorted((ROOT / "python/fastresume").rglob("*.py"))

MOST_WORDS = 30
"""CONTRIBUTING asks for 25; a list of names may take a few more."""

LONGER = {
    "python/fastresume/checkpoint/checkpointer.py": 48,
    "python/fastresume/checkpoint/directory.py": 35,
    "python/fastresume/checkpoint/randomness.py": 37,
    "python/fastresume/dataset.py": 49,
    "python/fastresume/integrations/lightning.py": 31,
    "python/fastresume/state/cursor.py": 36,
    "python/fastresume/state/shared_cursor.py": 31,
    "rust/fastresume/src/projection/layout.rs": 33,
}
"""Files that have longer sentences still. No file is to be added: split its sentences."""

LITERAL = re.compile(r">>>|\.\.\. |\||#")
ITEM = re.compile(r"[-*] |\*{0,2}[\w`]+(, \*{0,2}[\w`]+)*: ")

Line = tuple[int, str]


def rust_blocks(text: str) -> Iterator[list[Line]]:
    """The comments of a Rust file, each as its lines."""
    block: list[Line] = []
    for number, line in enumerate(text.splitlines(), 1):
        if found := re.match(r"\s*//[/!]? ?(.*)", line):
            block.append((number, found[1]))
        else:
            yield block
            block = []
    yield block


def python_blocks(text: str) -> Iterator[list[Line]]:
    """The docstrings and comments of a Python file, each as its lines."""
    for node in ast.walk(ast.parse(text)):
        value = node.value if isinstance(node, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield list(enumerate(value.value.splitlines(), value.lineno))
    block: list[Line] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            if block and token.start[0] != block[-1][0] + 1:
                yield block
                block = []
            block.append((token.start[0], token.string.removeprefix("#").strip()))
    yield block


def sentences(block: list[Line]) -> Iterator[tuple[int, str]]:
    """The sentences of a comment with the line of each one's paragraph, without examples and tables."""
    paragraph: list[Line] = []
    is_code = False
    for number, line in [*block, (0, "")]:
        stripped = line.strip()
        is_fence = stripped.startswith("```")
        is_code ^= is_fence
        is_end = is_fence or is_code or not stripped or LITERAL.match(stripped)
        if paragraph and (is_end or ITEM.match(stripped)):
            joined = " ".join(part for _, part in paragraph)
            yield from ((paragraph[0][0], part) for part in re.split(r"(?<=[.!?:;])\s+", joined))
            paragraph = []
        if not is_end:
            paragraph.append((number, stripped))


def too_long(name: str, text: str, most: int) -> list[str]:
    """The sentences of a file with more words than these, and where each of them is."""
    blocks = rust_blocks(text) if name.endswith(".rs") else python_blocks(text)
    return [
        f"{name}:{number}: {len(sentence.split())} words: {sentence}"
        for block in blocks
        for number, sentence in sentences(block)
        if len(sentence.split()) > most
    ]


def test_no_sentence_of_a_docstring_or_comment_is_too_long() -> None:
    found = []
    for path in [*RUST, *PYTHON]:
        name = path.relative_to(ROOT).as_posix()
        found += too_long(name, path.read_text(encoding="utf-8"), LONGER.get(name, MOST_WORDS))
    assert len(RUST) > 100
    assert len(PYTHON) > 100
    assert not found, "split these sentences:\n" + "\n".join(found)


def test_each_rust_file_says_in_its_first_line_what_it_holds() -> None:
    assert not [path for path in RUST if not path.read_text(encoding="utf-8").startswith("//! ")]


LONG = "word " * MOST_WORDS + "word."
SHORT = "word " * (MOST_WORDS - 1) + "word."


@each_of(
    ("name", "text"),
    [
        ("a.rs", f"//! {LONG}\n"),
        ("a.rs", f"/// {LONG[:60]}\n/// {LONG[60:]}\nfn f() {{\n}}\n"),
        ("a.rs", f"fn f() {{\n    // Short. {LONG}\n}}\n"),
        ("a.py", f'"""{LONG}"""\n'),
        (
            "a.py",
            f'def f():\n    """Short.\n\n    Raises:\n        A: {LONG[:60]}\n    {LONG[60:]}\n    """\n',
        ),
        ("a.py", f"# {LONG[:60]}\n# {LONG[60:]}\n"),
        ("a.py", f"a = 1  # {LONG}\n"),
    ],
)
def test_a_long_sentence_is_found_wherever_it_stands(name: str, text: str) -> None:
    assert len(too_long(name, text, MOST_WORDS)) == 1
    assert not too_long(name, text, MOST_WORDS + 1)


@each_of(
    ("name", "text"),
    [
        ("a.rs", f"//! {SHORT} {SHORT}\n"),
        ("a.rs", f"//! ```text\n//! {LONG}\n//! ```\n"),
        ("a.rs", f'const A: &str = "{LONG}";\n'),
        ("a.py", f'"""{SHORT}\n\n>>> f("{LONG}")\n"""\n'),
        ("a.py", f'a = "# {LONG}"\n'),
        ("a.py", f'def f():\n    """Short.\n\n    Args:\n        a: {SHORT}\n        b: {SHORT}\n    """\n'),
    ],
)
def test_examples_code_and_short_sentences_pass(name: str, text: str) -> None:
    assert not too_long(name, text, MOST_WORDS)


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

OLD_WORDS = {
    r"amid(st)?|in (the )?midst of|in mid[- ]pass": "in the middle of",
    r"in (the )?places? of|in (its|their) place": "instead of",
    r"go(es|ing|ne)? on|went on": "continues, resumes",
    r"behind": "after",
    r"of which": "a new sentence",
    r"but for|so many": "except; n",
    r"anew|from then on": "again; starts over",
    r"(comes?|becomes?|became) of": "happens to",
    r"stands?|stood|lies|lay": "is",
    r"beforehand|whatsoever|wherein|whereof|thereof|hence|thus": "an ordinary word",
    r"is told|are told|tells of|told of": "shows, reports",
    r"comes? again|come twice|comes? once": "is repeated; is delivered once",
    r"nobody|whoever": "no one, anybody, the user",
}
"""Words of another century, and what to write: as a good engineer speaks to a colleague."""

ALLOWED = {
    "docs/reference/checkpoint.md": {"nobody"},  # people, who start over by accident
    "docs/explanation/what-is-refused.md": {"nobody"},
    "python/fastresume/audit/history.py": {"stand", "stands"},  # a class and an attribute
}
"""Pages and files in which such a word is the right one."""

OLD_NAMES = {"told": "what it is: a message, a hint, statistics, what is stated, known or warned of"}
"""Words that names had for several things, and what to write."""

INLINE = re.compile(r"`[^`]*`|\]\([^)]*\)|<[^>\n]*>")


def old_words(text: str) -> list[str]:
    """The words of `OLD_WORDS` in a page's prose, tables and headings: not in code, nor in addresses."""
    prose = INLINE.sub(" x ", without_blocks(text))
    return [
        " ".join(found[0].split()).lower()
        for words in OLD_WORDS
        for found in re.finditer(rf"\b(?:{words.replace(' ', chr(92) + 's+')})\b", prose, re.IGNORECASE)
    ]


def python_texts(text: str) -> Iterator[str]:
    """The sentences of docstrings and comments in a Python file, and its other strings: errors and so on."""
    for block in python_blocks(text):
        yield from (sentence for _, sentence in sentences(block))
    nodes = list(ast.walk(ast.parse(text)))
    docs = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


def rust_texts(text: str) -> Iterator[str]:
    """The strings of a Rust file before its tests: what its errors say, and so on."""
    code = re.sub(r"^\s*//.*", "", text.partition("#[cfg(test)]")[0], flags=re.MULTILINE)
    for found in re.finditer(r'"((?:[^"\\]|\\.)*)"', code, re.DOTALL):
        yield re.sub(r"\\\n\s*", "", found[1])


def old_names(name: str, text: str) -> list[str]:
    """The names in a file's code that have a word of `OLD_NAMES`: not in strings, nor in comments."""
    if name.endswith(".py"):
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        names = [token.string for token in tokens if token.type == tokenize.NAME]
    else:
        names = re.findall(r"[A-Za-z_]\w*", re.sub(r'//.*|"(?:[^"\\\n]|\\.)*"', "", text))
    parts = {each: re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", each) for each in names}
    return [each for each in names if OLD_NAMES.keys() & {part.lower() for part in parts[each]}]


@each_of("page", PAGES)
def test_a_page_uses_the_words_of_today(page: Path) -> None:
    name = page.relative_to(ROOT).as_posix()
    found = set(old_words(page.read_text())) - ALLOWED.get(name, set())
    assert not found, f"{name}: see OLD_WORDS for what to write"


def test_docstrings_comments_and_messages_use_the_words_of_today() -> None:
    messages = [path for path in RUST if "src" in path.parts and not path.stem.endswith("_tests")]
    texts = [(path, python_texts) for path in PYTHON] + [(path, rust_texts) for path in messages]
    found = []
    for path, of in texts:
        name = path.relative_to(ROOT).as_posix()
        for text in of(path.read_text(encoding="utf-8")):
            words = set(old_words(text)) - ALLOWED.get(name, set())
            found += [f"{name}: {', '.join(sorted(words))}: {text[:200]}"] if words else []
    assert len(texts) > 400
    assert not found, "see OLD_WORDS for what to write:\n" + "\n".join(found)


@each_of("page", PAGES)
def test_a_page_that_speaks_of_passes_names_epochs(page: Path) -> None:
    prose = without_blocks(page.read_text())
    assert not re.search(r"\b(the|each|every|next|one) pass\b", prose) or "epoch" in prose.lower()


def test_old_words_are_found_in_prose_alone() -> None:
    assert old_words("A job that goes\non amid a pass, of which none is left.") == [
        "amid",
        "goes on",
        "of which",
    ]
    assert not old_words("`goes on`, [continues](amid.md)\n\n```\nbut for\n```\n")
    assert list(rust_texts('// "amid"\nfail("goes \\\n    on \\"so\\"");\n')) == ['goes on \\"so\\"']


@each_of(
    "text",
    [
        '"""What comes\nbehind it."""\n',
        'def f():\n    """Short.\n\n    Raises:\n        A: if it is behind `b`.\n    """\n',
        "a = 1  # The batch behind it.\n",
        "# The batch\n# behind it.\n",
        'raise ValueError(f"{a} has rows " "behind it")\n',
        'raise ValueError(f"{a} has rows behind {b}")\n',
    ],
)
def test_an_old_word_is_found_in_each_text_of_python(text: str) -> None:
    assert [word for each in python_texts(text) for word in old_words(each)] == ["behind"]


def test_names_and_examples_of_python_may_have_old_words() -> None:
    text = '"""What `is_behind` says.\n\n>>> f("behind")\n"""\nif is_behind:  # of `behind`\n    behind()\n'
    assert not [word for each in python_texts(text) for word in old_words(each)]


def test_no_name_in_code_has_an_old_word() -> None:
    names = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in [*RUST, *PYTHON]}
    found = [f"{name}: {', '.join(old)}" for name, text in names.items() if (old := old_names(name, text))]
    assert not found, "see OLD_NAMES for what to write:\n" + "\n".join(found)


@each_of("name", ["a.py", "a.rs"])
def test_an_old_name_is_found_in_code_alone(name: str) -> None:
    code = "told = is_told(Told, told_by, untold, ToldValue, bunch_of_gold)"
    comment = {"a.py": "# told", "a.rs": "// told"}[name]
    assert old_names(name, f'{code} + "told" {comment}\n') == [
        "told",
        "is_told",
        "Told",
        "told_by",
        "ToldValue",
    ]
