"""The folder of all pages that mkdocs builds."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from making.command_line import command_line_page
from making.links import MOVED, PLAIN, ROOT, code_page, outside_fences, page_of, with_site_links
from making.notebooks import page as notebook_page
from making.notebooks import scripts
from making.paper import REPORT, paper_pages
from making.pictures import moments_figure
from making.reference import reference_pages

DOCS = ROOT / "docs"
_PICTURE = re.compile(r"^!\[([^\]]*)\]\(([^)\s]*pictures/[\w-]+\.svg)\)$", re.MULTILINE)
_STYLE = re.compile(r"<style>.*?</style>\n?", re.DOTALL)


def assemble(into: Path) -> int:
    """Write all pages of the site into a folder, in place of what it holds; how many there are."""
    shutil.rmtree(into, ignore_errors=True)
    wanted: set[str] = set()
    pages = {}
    for path in sorted(DOCS.rglob("*.md")):
        name = str(path.relative_to(DOCS))
        text = outside_fences(path.read_text(), lambda part, path=path: _inlined(part, path))  # type: ignore[misc]
        pages[name] = with_site_links(text, f"docs/{name}", name, wanted)
    for file in ("CHANGELOG.md", "CONTRIBUTING.md", "results/README.md"):
        pages[MOVED[file]] = with_site_links((ROOT / file).read_text(), file, MOVED[file], wanted)
    for page, text in paper_pages().items():
        own, _, rest = text.partition("\n\n- ") if page == "paper/index.md" else ("", "", text)
        pages[page] = (own + "\n\n- " if own else "") + with_site_links(rest, REPORT, page, wanted)
    for script in scripts():
        name = f"examples/{script.stem}"
        pages[f"{name}.md"] = with_site_links(notebook_page(script), f"{name}.ipynb", f"{name}.md", wanted)
    pages |= reference_pages()
    pages["reference/command-line.md"] = command_line_page()
    done: set[str] = set()
    while todo := sorted(wanted - done):
        for file in todo:
            done.add(file)
            if file.endswith(PLAIN):
                _copy(ROOT / file, into / page_of(file))
            else:
                pages[page_of(file)] = code_page(file, wanted)
    check_navigation(set(pages))
    for page, text in pages.items():
        (into / page).parent.mkdir(parents=True, exist_ok=True)
        (into / page).write_text(text)
    for path in (DOCS / "assets").iterdir():
        _copy(path, into / "assets" / path.name)
    return len(pages)


def check_navigation(pages: set[str]) -> None:
    """Raise if a page is in no menu of mkdocs.yml, or an entry there is no page.

    Pages of the project's own files need no entry: they are made because some page links to them.

    Raises:
        ValueError: names them, and says what to do.
    """
    entries = set(re.findall(r"[\w/-]+\.md$", (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2], re.MULTILINE))
    orphans = sorted(page for page in pages - entries if not page.startswith("code/"))
    if orphans or (missing := sorted(entries - pages)):
        wrong = f"no menu leads to {', '.join(orphans)}" if orphans else f"there is no page {', '.join(missing)}"
        raise ValueError(f"{wrong}; correct `nav` in mkdocs.yml")


def _inlined(text: str, page: Path) -> str:
    """A page with its pictures inside, so that they follow the page's light or dark colours."""

    def picture(link: re.Match[str]) -> str:
        if link[2].endswith("/moments.svg"):
            return moments_figure()
        svg = _STYLE.sub("", (page.parent / link[2]).read_text())
        return f'<figure class="picture">\n{svg.strip()}\n</figure>'

    return _PICTURE.sub(picture, text)


def _copy(file: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, to)
