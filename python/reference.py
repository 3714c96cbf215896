"""The page docs/python.md: a guide written by hand, and what docstrings say."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
PACKAGE = FOLDER / "molbox_client"
# Classes in the order in which one meets them, and where they are.
CLASSES = {
    "Client": "_sync.py",
    "Job": "_sync.py",
    "System": "_sync.py",
    "Analysis": "_sync.py",
    "File": "_sync.py",
    "Margin": "_margin.py",
}
BASE = "Task"
NOTICE = "<!-- Written by `cargo xtask regenerate` from python/guide.md and the docstrings. -->\n\n"


def page() -> str:
    """The text of the page."""
    sections = [text for name, file in CLASSES.items() for text in section(name, file)]
    note = "Each class has an asynchronous one beside it, `AsyncClient`, `AsyncJob` and so on, with"
    head = ["## Reference", f"{note} the same members, to be used with `await`."]
    guide = (FOLDER / "guide.md").read_text()
    return NOTICE + guide + "\n" + "\n\n".join([*head, *sections]) + "\n"


def section(name: str, file: str) -> Iterator[str]:
    """What there is to know of a class."""
    classes = {
        node.name: node
        for node in ast.parse((PACKAGE / file).read_text()).body
        if isinstance(node, ast.ClassDef)
    }
    node = classes[name]
    yield f"### {name}"
    yield from prose(node)
    inherited = [base.id for base in node.bases if isinstance(base, ast.Name)]
    members = [*classes[BASE].body] if BASE in inherited else []
    for member in [*node.body, *members]:
        if isinstance(member, ast.FunctionDef) and not member.name.startswith("_"):
            yield f"#### `{name}.{member.name}{call(member)}`"
            yield from prose(member)


def call(function: ast.FunctionDef) -> str:
    """How a method is called; a property is not."""
    decorators = [getattr(one, "id", "") for one in function.decorator_list]
    if any("property" in one for one in decorators):
        return ""
    given = function.args
    # Types are in the package; here they would hide the names.
    for argument in [*given.posonlyargs, *given.args, *given.kwonlyargs, given.kwarg]:
        if argument is not None:
            argument.annotation = None
    given.args = given.args[1:]
    return f"({ast.unparse(given)})"


def prose(node: ast.ClassDef | ast.FunctionDef) -> Iterator[str]:
    """A docstring as Markdown: its parameters are a list."""
    text = ast.get_docstring(node) or ""
    parts = re.split(r"\n(\w+)\n-{3,}\n", f"{text}\n")
    yield parts[0].strip()
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        yield f"{title}:"
        yield items(body)


def items(body: str) -> str:
    """Entries of a section as a list: their name, then what is indented below it."""
    entries: list[str] = []
    for line in body.strip("\n").splitlines():
        if line.startswith(" "):
            entries[-1] += f" {line.strip()}"
        elif line.strip():
            name, _, kind = line.partition(" : ")
            entries.append(f"- `{name.strip()}`" + (f" ({kind}):" if kind else ":"))
    return "\n".join(entries)
