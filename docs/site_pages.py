"""What MkDocs does not do by itself for the site of `make docs`; see `hooks` in mkdocs.yml.

Pages of the repository outside of docs/ become pages of the site, every public name of the packages
gets an entry in its reference, and every page is written as Markdown too, with a list in llms.txt.
"""

from __future__ import annotations

import importlib
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation, Section
from mkdocs.structure.pages import Page

REPOSITORY = Path(__file__).parents[1]
# File of the repository -> its page on the site.
PAGES = {
    "README.md": "first-steps.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/README.md": "benchmarks.md",
    "samples/SOURCES.md": "sources.md",
    "samples/kubernetes/README.md": "kubernetes.md",
    "shard_format/FORMAT.md": "format.md",
}
TITLES = {"README.md": "First steps", "samples/SOURCES.md": "Sources of the samples"}
# Each name has one entry, on the page of the first package here that has it.
PACKAGES = ("shardmill", "beam_jobs", "reader", "trainer", "shard_format")
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]*)(#[^)\s]*)?\)")
_TITLE = re.compile(r"^# .*", re.MULTILINE)
_ROW = re.compile(r"^\|.*", re.MULTILINE)  # of a table
_CODE = re.compile(r"`[^`]+`")
_COMMANDS = re.compile(r'<div class="language-(?:sh|console) highlight">.*?</div>', re.DOTALL)
_OPTION = re.compile(r"(?<=[\s>])(--[a-z][a-z-]*)(?=[\s=<])")
_NOT_FOUND = (
    "<p>There is no page at this address. Search above, or begin at the "
    '<a href="/index.html">home page</a>.</p>'
)
_FENCED = re.compile(r"(^ *```.*?^ *```)", re.DOTALL | re.MULTILINE)

_copies: dict[str, str] = {}  # page -> its Markdown, for the copy beside the HTML


def on_config(config: MkDocsConfig) -> None:
    """Lists the decisions in the navigation."""
    paths = sorted((REPOSITORY / "docs" / "decisions").glob("0*.md"))
    pages = ["decisions/index.md", *(f"decisions/{path.name}" for path in paths)]
    for chapter in config.nav or []:
        for entries in chapter.values():
            if "decisions/" in entries:
                entries[entries.index("decisions/")] = {"Decisions": pages}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that are not in docs/."""
    for source, page in PAGES.items():
        text = (REPOSITORY / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    for page, (text, copy) in _references().items():
        files.append(File.generated(config, page, content=text))
        _copies[page] = copy
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Leads links of the repository to pages of the site; links to code become plain text."""
    sources = {uri: source for source, uri in PAGES.items()}
    uri = page.file.src_uri
    source = sources.get(uri, f"docs/{uri}")
    if source in TITLES:
        page.title = TITLES[source]

    def link(match: re.Match[str]) -> str:
        mark, text, target, anchor = match.groups("")
        if not target or "://" in target:
            return match.group()
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if path not in PAGES and not path.startswith("docs/"):
            if not (REPOSITORY / path).exists():
                raise PluginError(f"{source} links to {target}, which does not exist.")
            return text
        place = PAGES.get(path, path.removeprefix("docs/"))
        return f"{mark}[{text}]({posixpath.relpath(place, posixpath.dirname(uri) or '.')}{anchor})"

    parts = _FENCED.split(markdown)  # text and blocks of code in turns
    parts[::2] = [_LINK.sub(link, part) for part in parts[::2]]
    if source in TITLES:
        parts[0] = _TITLE.sub(f"# {TITLES[source]}", parts[0], count=1)
    _copies.setdefault(uri, "".join(parts))
    parts[::2] = [_ROW.sub(_with_bars, part) for part in parts[::2]]
    return "".join(parts)


def _with_bars(row: re.Match[str]) -> str:
    """Undoes GitHub's escape of a bar in code, whose backslash Python-Markdown would show."""
    return _CODE.sub(lambda code: code[0].replace(r"\|", "|"), row[0])


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Marks options in commands, so that lines are not broken after their hyphens."""
    return _COMMANDS.sub(
        lambda block: _OPTION.sub(r'<span class="option">\1</span>', block[0]), html
    )


def on_post_template(output: str, template_name: str, config: MkDocsConfig) -> str:
    """Says on the page for unknown addresses where to go."""
    if template_name != "404.html":
        return output
    return output.replace("</h1>", f"</h1>\n{_NOT_FOUND}", 1)


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> None:
    """Keeps the order of the pages for llms.txt."""
    _chapters[:] = [(chapter.title, list(_pages(chapter))) for chapter in nav.items]


def on_post_build(config: MkDocsConfig) -> None:
    """Writes the Markdown copies, and llms.txt, which lists them."""
    site = Path(config.site_dir)
    for uri, text in _copies.items():
        (site / uri).write_text(text, encoding="utf-8")
    lines = [f"# {config.site_name}", "", f"> {config.site_description}"]
    for title, pages in _chapters:
        lines += ["", f"## {title}", ""]
        lines += [f"- [{page.title}]({page.file.src_uri})" for page in pages]
    (site / "llms.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")


_chapters: list[tuple[str, list[Page]]] = []


def _pages(item: object) -> Iterator[Page]:
    if isinstance(item, Section):
        for child in item.children:
            yield from _pages(child)
    elif isinstance(item, Page):
        yield item


def _references() -> dict[str, tuple[str, str]]:
    """Returns the page of each package -> its text for mkdocstrings, and its Markdown copy."""
    loader = griffe.GriffeLoader(search_paths=[REPOSITORY])
    packages = {name: loader.load(name) for name in (*PACKAGES, "foundation", "inference")}
    loader.resolve_aliases(implicit=True)
    homes: dict[str, str] = {}  # path of an object -> page with its entry
    pages = {}
    for package in PACKAGES:
        page = f"{package}.md"
        head = f"# {package}\n\n{packages[package].docstring.value}\n"
        text, copy = [head], [head]  # of the site, and in Markdown
        for name in importlib.import_module(package).__all__:
            target = packages[package][name]
            target = target.final_target if target.is_alias else target
            if target.is_module:  # of the name of its function: beam_jobs.repair.repair
                target = target[name]
            if target.docstring is None:
                raise PluginError(
                    f"{target.path} is public as {package}.{name}: write a docstring."
                )
            home = homes.setdefault(target.path, page)
            if home != page:
                text.append(f"## {name}\n\nSee [{name}]({home}#{target.path}).\n")
            else:
                text.append(f"::: {target.path}\n")
            copy.append(
                f"## {name}\n\n```python\n{_signature(target)}\n```\n\n{target.docstring.value}\n"
            )
        pages[f"api/{page}"] = ("\n".join(text), "\n".join(copy))
    return pages


def _signature(target: griffe.Object) -> str:
    if isinstance(target, griffe.Function):
        return str(target.signature())
    if isinstance(target, griffe.Class):
        return f"class {target.name}"
    return f"{target.name} = {target.value}"
