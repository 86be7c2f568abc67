"""Links to files of the project, as links to pages of the site."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]
MOVED = {
    "examples": "examples/index.md",
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "results/README.md": "paper/runs.md",
    "results/report/claims.md": "paper/index.md",
    "results/report/report.md": "paper/index.md",
    **{f"examples/{path.name}": f"examples/{path.stem}.md" for path in (ROOT / "examples").glob("[0-9][0-9]_*.py")},
}
PLAIN = (".svg", ".png", ".html", ".ipynb")  # shown as they are, not as text in a page
LANGUAGES = {".py": "python", ".json": "json", ".toml": "toml", ".cff": "yaml"}
_LINK = re.compile(r"(?<!`)\]\((?!https?:|#|mailto:)([^()\s#]+)(#[^()\s]*)?\)")
_FENCE = re.compile(r"^( *)(`{3,}).*?^\1\2 *$", re.MULTILINE | re.DOTALL)


def outside_fences(text: str, change: Callable[[str], str]) -> str:
    """A page's text, changed wherever it is not code."""
    parts, start = [], 0
    for fence in _FENCE.finditer(text):
        parts += [change(text[start : fence.start()]), fence[0]]
        start = fence.end()
    return "".join([*parts, change(text[start:])])


def is_page(file: str) -> bool:
    """Whether a path of the project is a page of the site, be it written or generated."""
    return file.startswith("docs/") and file.endswith(".md")


def page_of(file: str) -> str:
    """The path within the site of a file of the project, both relative."""
    if file in MOVED:
        return MOVED[file]
    if is_page(file):
        return file.removeprefix("docs/")
    if file.endswith(PLAIN):
        return f"code/{file}"
    return f"code/{file}/index.md" if (ROOT / file).is_dir() else f"code/{file}.md"


def with_site_links(text: str, file: str, page: str, wanted: set[str]) -> str:
    """The text of a file, whose links lead to pages.

    Args:
        text: Markdown.
        file: where the text stands in the project; its links are relative to this.
        page: where it will stand in the site.
        wanted: gets the files of the project that are linked to and are no page of their own.

    Raises:
        ValueError: if a link leads to no file; names both.
    """

    def changed(link: re.Match[str]) -> str:
        linked = os.path.normpath(str(PurePosixPath(file).parent / link[1]))
        if not is_page(linked) and not (ROOT / linked).exists():  # pages may be generated: the build knows them all
            raise ValueError(f"{file}: the link to {link[1]!r} leads to no file; correct it")
        if not is_page(linked) and linked not in MOVED:
            wanted.add(linked)
        relative = os.path.relpath(page_of(linked), str(PurePosixPath(page).parent))
        return f"]({relative}{link[2] or ''})"

    return outside_fences(text, lambda part: _LINK.sub(changed, part))


def code_page(file: str, wanted: set[str]) -> str:
    """A page that shows a file of the project, or lists a folder of it."""
    path = ROOT / file
    if path.is_dir():
        inside = sorted(p for p in path.iterdir() if not p.name.startswith((".", "_")))
        lines = [f"- [{p.name}{'/' if p.is_dir() else ''}]({p.name})" for p in inside]
        text = f"# {file}/\n\n" + "\n".join(lines) + "\n"
        return with_site_links(text, f"{file}/index.md", page_of(file), wanted)
    content = path.read_text()
    fence = "`" * 5
    return f"# {path.name}\n\n`{file}`\n\n{fence}{LANGUAGES.get(path.suffix, 'text')}\n{content}{fence}\n"
