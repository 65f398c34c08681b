"""From the results to docs/scorecard.md, its charts, and the table in README.md."""

from __future__ import annotations

import io
import re
import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jinja2

from benchmarks.measure import HERE, Run
from benchmarks.scorecard.row import OURS, Column, Row
from benchmarks.scorecard.rows import ROWS
from benchmarks.scorecard.taking_turns import written

RESULTS = HERE / "results" / "scorecard.json"
PAGE = HERE.parent / "docs" / "scorecard.md"
_README = HERE.parent / "README.md"
_CHARTS = HERE.parent / "docs" / "scorecard"
_LOG_FROM = 100  # between the best and the last, from which an even axis shows only one of them
_ERROR = re.compile(r"[\w.]*(Error|Exception)\b")
_SAID = 80  # characters of the reason why a subject failed
_MARKS = "<!-- scorecard -->", "<!-- end of scorecard -->"
_OURS_COLOR, _PEER_COLOR, _LIMIT_COLOR = "#0b6e4f", "#7a8b99", "#d5dbe0"


class Standing(NamedTuple):
    """Who leads a row.

    Attributes:
        ours: The best of shardmill's configurations, by the first column.
        best: The best of all peers; empty where none was measured.
        leads: Whether no peer is better.
        ratio: How many times better shardmill is, the median of what it is in each turn; below 1
            where it does not lead, None where a figure is 0 or no number.
    """

    ours: str
    best: str
    leads: bool
    ratio: float | None


def standing(row: Row, result: Mapping[str, Any]) -> Standing:
    """Compares the best of shardmill's configurations with the best of the peers'."""
    first, subjects = row.columns[0], result["subjects"]

    def best(names: list[str]) -> str:
        numbers = {name: _median(subjects[name], first) for name in names}
        ranked = [name for name in names if isinstance(numbers[name], (int, float))]
        if not ranked:
            return names[0] if names else ""
        return (max if first.better == "more" else min)(ranked, key=numbers.__getitem__)

    ours = best([name for name, own in subjects.items() if own["of"] == OURS])
    peer = best([name for name, own in subjects.items() if own["of"] not in ("", OURS)])
    if not peer:
        return Standing(ours, "", True, None)
    runs = ([Run(**one) for one in subjects[name]["runs"]] for name in (ours, peer))
    pairs = [(first.value(own), first.value(other)) for own, other in zip(*runs, strict=False)]
    numbers = [value for pair in pairs for value in pair]
    if all(isinstance(value, (int, float)) and value for value in numbers):
        ratio = statistics.median(own / other for own, other in pairs)
        ratio = ratio if first.better == "more" else 1 / ratio
        return Standing(ours, peer, ratio >= 1, ratio)
    order = ranked(row, {"subjects": {name: subjects[name] for name in (ours, peer)}})
    is_equal = _median(subjects[ours], first) == _median(subjects[peer], first)
    return Standing(ours, peer, is_equal or order[0] == ours, None)


def _median(subject: Mapping[str, Any], column: Column) -> float | str:
    value: float | str = subject["figures"][column.name]["median"]
    return value


def ranked(row: Row, result: Mapping[str, Any]) -> list[str]:
    """The names of the subjects, the best first; those without a number last."""
    first, subjects = row.columns[0], result["subjects"]
    sign = -1 if first.better == "more" else 1

    def key(name: str) -> tuple[bool, float]:
        value = _median(subjects[name], first)
        return (True, 0.0) if isinstance(value, str) else (False, sign * value)

    return sorted(subjects, key=key)


def table(row: Row, result: Mapping[str, Any], *, is_markdown: bool = False) -> str:
    """A table of the medians, with the spread of the first column and its ratio to shardmill."""
    first = row.columns[0]
    head = ["", first.name, "of shardmill", *(column.name for column in row.columns[1:])]
    lines = [head]
    for name in ranked(row, result):
        subject = result["subjects"][name]
        figures = subject["figures"]
        ratio = figures[first.name].get("ratio")
        shown = f"**{name}**" if is_markdown and subject["of"] == OURS else name
        rest = (written(column, _median(subject, column)) for column in row.columns[1:])
        lines.append([shown, _spread(first, figures[first.name]), _ratio(ratio), *rest])
    for name, reason in result["failed"].items():
        said = reason.strip().splitlines()
        # Launchers of processes end with words of their own.
        last = next((line for line in reversed(said) if _ERROR.match(line)), said[-1])
        lines.append([name, f"failed: {last[:_SAID]}", *[""] * len(row.columns)])
    return _markdown(lines) if is_markdown else _aligned(lines)


def _spread(column: Column, figure: Mapping[str, Any]) -> str:
    median = written(column, figure["median"])
    if figure.get("low") == figure.get("high"):
        return median
    return f"{median} ({written(column, figure['low'])} to {written(column, figure['high'])})"


def _ratio(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


def _markdown(lines: list[list[str]]) -> str:
    rows = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([rows[0], "| --- " * len(lines[0]) + "|", *rows[1:]])


def _aligned(lines: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if not place else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def write_pages(results: Mapping[str, Any]) -> None:
    """Writes the page, its charts and the table in README.md."""
    PAGE.write_text(page(results), encoding="utf-8")
    _CHARTS.mkdir(exist_ok=True)
    for name, result in results.items():
        if has_chart(ROWS[name]):
            (_CHARTS / f"{name}.svg").write_text(chart(ROWS[name], result), encoding="utf-8")
    _README.write_text(in_readme(_README.read_text(encoding="utf-8"), results), encoding="utf-8")


def page(results: Mapping[str, Any]) -> str:
    """The content of docs/scorecard.md."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
    )
    rows = [
        {
            "row": ROWS[name],
            "result": results[name],
            "standing": standing(ROWS[name], results[name]),
            "table": table(ROWS[name], results[name], is_markdown=True),
            "has_chart": has_chart(ROWS[name]),
            "pages": list(_pages(results[name])),
        }
        for name in ROWS
        if name in results
    ]
    overview = overview_table(results)
    return environment.get_template("page.md.jinja").render(rows=rows, overview=overview)


def _pages(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(peer, page of its documentation), each once."""
    pairs = {(one["of"], one["follows"]): None for one in result["subjects"].values()}
    return ((peer, page) for peer, page in pairs if page)


def overview_table(results: Mapping[str, Any], link: str = "") -> str:
    """One line for each row: shardmill, the best peer, and how they compare.

    Args:
        results: Those of the scorecard.
        link: The page with the rows, where it is another one.
    """
    lines = [["job", "unit", "shardmill", "best peer", "times as good"]]
    for name, row in ROWS.items():
        if name not in results:
            continue
        own = standing(row, results[name])
        first, subjects = row.columns[0], results[name]["subjects"]
        if not own.best:
            continue
        best = subjects[own.best]
        lines.append(
            [
                f"[{row.title}]({link}#{name})",
                first.name,
                written(first, _median(subjects[own.ours], first)),
                f"{written(first, _median(best, first))}, {own.best}",
                _ratio(own.ratio),
            ]
        )
    return _markdown(lines)


def in_readme(text: str, results: Mapping[str, Any]) -> str:
    """README.md with the table of these results."""
    begin, end = _MARKS
    inner = f"{begin}\n{overview_table(results, 'docs/scorecard.md')}\n{end}"
    return re.sub(f"{begin}.*?{end}", lambda _: inner, text, flags=re.DOTALL)


def has_chart(row: Row) -> bool:
    """Whether the first column is drawn."""
    return bool(row.columns[0].better)


def chart(row: Row, result: Mapping[str, Any]) -> str:
    """An SVG: a bar for each subject, with the least and the greatest run."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import MaxNLocator

    # The same bytes every time, and text as text.
    mpl.rcParams |= {"svg.hashsalt": row.name, "svg.fonttype": "none", "font.size": 9}
    first, names = row.columns[0], ranked(row, result)[::-1]
    figures = {name: result["subjects"][name]["figures"][first.name] for name in names}
    names = [name for name in names if "low" in figures[name]]
    owners = [result["subjects"][name]["of"] for name in names]
    medians = [figures[name]["median"] for name in names]
    spread = [
        [figures[name]["median"] - figures[name]["low"] for name in names],
        [figures[name]["high"] - figures[name]["median"] for name in names],
    ]
    colors = [_OURS_COLOR if o == OURS else _PEER_COLOR if o else _LIMIT_COLOR for o in owners]
    figure, axes = plt.subplots(figsize=(7.5, 0.6 + 0.27 * len(names)), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.2)  # inches: fonts of pages may be wider
    axes.barh(names, medians, xerr=spread, color=colors, error_kw={"lw": 0.8}, height=0.7)
    axes.set_xlabel(first.name)
    lows = [figures[name]["low"] for name in names]
    if min(lows) > 0 and max(medians) > _LOG_FROM * min(medians):
        axes.set_xscale("log")
        axes.set_xlabel(f"{first.name}, logarithmic")
    elif not first.digits:
        axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    axes.spines[["top", "right"]].set_visible(False)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.{first.digits}f}")
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)
    return file.getvalue()
