"""From a request to a page. Every page is of a set, A or B, at one of its generations.

/                            the records of A
/a/0/records                 those that fit a filter, page by page
/a/0/record?id=ID            the record of an id, which is at
/a/0/record/SPLIT/ROW        everything about one record
/a/0/image/SPLIT/ROW         one of its images
/a/0/duplicates              clusters of duplicates
/a/0/quarantine[/NUMBER]     rejected and filtered records
/a/0/differences?other=b/1   from this one to another one
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from beam_jobs.generations.log import GenerationInfo, generations
from beam_jobs.report.markup import TEMPLATES, environment, readable
from beam_jobs.report.sections.selection import content as not_selected
from foundation.errors import SetReplacedError, ShardmillError, UsageError
from foundation.storage import Place
from shard_format import ShardSetError, naming
from shard_format.duplicates import count_duplicates
from shard_format.set_comparison import compare_sets
from viewer.reader_view import AUGMENT, SIZES, draws_of
from viewer.rejected import RejectedRecords
from viewer.selection import RecordFilter
from viewer.values import are_decoded, boxes_of, image_size, segment_texts, shown_values
from viewer.viewed_set import Card, ViewedSet

_IMAGES, _TEXTS, _CLUSTERS, _DIFFERENCES, _REJECTED = 48, 24, 8, 24, 48  # on one page
_SIDES = {"small": 224, "large": 1024}  # pixels of images
_SIZE = 224  # pixels, of what the reader makes
_MOST_DIGITS = 18  # of numbers in URLs
_OPENED = 6  # generations of sets
_HERE = Path(__file__).with_name("templates")
_SHEETS = (TEMPLATES / "style.css", _HERE / "view.css")
_PAGES = {"record": "records", "rejected": "quarantine"}  # that others belong to
_CODES = {UsageError: 400, ShardSetError: 404}

Values = dict[str, Any]  # of a template
Page = Callable[[Request, ViewedSet], Values]


class Pages:
    """The pages of one set, or of two to compare.

    Args:
        first: Set A.
        second: Set B, or None.
        generation: Generation of A that is shown first; None for the newest.

    Attributes:
        first: Set A at that generation.

    Raises:
        ShardSetError: A place is not a shard set.
        DamageError: A manifest is not what was written.
        UsageError: There is no such generation.
    """

    def __init__(self, first: Place, second: Place | None, generation: int | None) -> None:
        self._places = {"a": first} | ({"b": second} if second is not None else {})
        self._viewed = functools.lru_cache(_OPENED)(ViewedSet)
        self._rejected = functools.lru_cache(_OPENED)(RejectedRecords)
        self._compared = functools.lru_cache(1)(compare_sets)
        self._logs = {name: generations(place) for name, place in self._places.items()}
        self._start = "a", self._logs["a"][-1].number if generation is None else generation
        self.first = self._viewed(first, self._start[1])
        self._templates = environment(_HERE, filters={"flat": _flat, "lines": _lines})

    def app(self) -> Starlette:
        """What answers requests."""
        pages = {
            "records": ("records", self._records),
            "record/{split:int}/{row:int}": ("record", self._record),
            "duplicates": ("duplicates", self._duplicates),
            "quarantine": ("quarantine", self._quarantine),
            "quarantine/{number:int}": ("rejected", self._one_rejected),
            "differences": ("differences", self._differences),
        }
        answers: dict[str, Any] = {"record": self._record_of_id}
        answers["image/{split:int}/{row:int}"] = self._image
        answers |= {path: functools.partial(self._shown, *page) for path, page in pages.items()}
        named = {f"/{{side}}/{{generation:int}}/{path}": one for path, one in answers.items()}
        named |= {"/": answers["records"]}
        routes = [Route(path, self._answering(answer)) for path, answer in named.items()]
        routes.append(Route("/style.css", _style))
        return Starlette(routes=routes, exception_handlers={404: self._no_page})

    def _answering(self, answer: Callable[[Request, ViewedSet], Response]) -> Any:
        """What answers a request, or says what is wrong."""

        def answering(request: Request) -> Response:
            try:
                return answer(request, self._opened(request))
            except (ShardmillError, UnicodeDecodeError) as error:
                code = next((own for kind, own in _CODES.items() if isinstance(error, kind)), 500)
                return self._page("error", request, {"message": str(error)}, code)

        return answering

    def _no_page(self, request: Request, error: Exception) -> Response:
        return self._page("error", request, {"message": "There is no such page."}, 404)

    def _key(self, request: Request) -> tuple[str, int]:
        named = request.path_params
        return (named["side"], named["generation"]) if "side" in named else self._start

    def _opened(self, request: Request) -> ViewedSet:
        """The set of a request; opened again, if it was replaced since."""
        side, generation = self._key(request)
        if side not in self._places:
            raise ShardSetError("There is one set. Name another one after it to compare both.")
        try:
            viewed = self._viewed(self._places[side], generation)
            viewed.opened.check()
        except SetReplacedError:
            for cache in (self._viewed, self._rejected, self._compared):
                cache.cache_clear()
            self._logs = {name: generations(place) for name, place in self._places.items()}
            viewed = self._viewed(self._places[side], generation)
        return viewed

    def _shown(self, template: str, page: Page, request: Request, viewed: ViewedSet) -> Response:
        values = page(request, viewed)
        code = 400 if values.get("problem_of_filter") else 200
        return self._page(template, request, {**values, "viewed": viewed}, code)

    def _page(self, template: str, request: Request, values: Values, code: int) -> Response:
        side, generation = self._key(request)
        keys = [(name, one.number) for name, log in self._logs.items() for one in log]
        names = {name: str(place) for name, place in self._places.items()}
        shared: Values = {
            "base": f"/{side}/{generation}",
            "here": (side, generation),
            "viewed": None,
        }
        shared |= {"keys": keys, "names": names, "page": _PAGES.get(template, template)}
        page = self._templates.get_template(f"{template}.html")
        return HTMLResponse(page.render(shared | values), code)

    def _records(self, request: Request, viewed: ViewedSet) -> Values:
        """The records that fit a filter."""
        wanted, start = _filter(request), _number(request, "start")
        most, problem, following = _IMAGES if viewed.kind == "image" else _TEXTS, "", None
        searched = bool(wanted.text) and not viewed.searches_index
        total, cards = 0, list[Card]()
        try:
            selection = viewed.select(viewed.indexed(wanted))
            total = len(selection)
            if searched:
                cards, following = viewed.search(wanted, start, most)
            else:
                cards = viewed.cards(selection.places(start, start + most))
        except UsageError as error:
            problem = str(error)
        shown: Values = {"wanted": wanted, "cards": cards, "problem_of_filter": problem}
        shown |= {"searched": searched, "following": following}
        return {**shown, "start": start, "total": total, "most": most}

    def _record_of_id(self, request: Request, viewed: ViewedSet) -> Response:
        """Leads to the record of an id."""
        record_id = request.query_params.get("id", "")
        places = viewed.find([record_id])
        if not places:
            raise ShardSetError(
                f"No record has the id {record_id!r}. It may be a duplicate, or in the quarantine."
            )
        side, generation = self._key(request)
        split, row = places[record_id]
        return RedirectResponse(f"/{side}/{generation}/record/{split}/{row}", 303)

    def _record(self, request: Request, viewed: ViewedSet) -> Values:
        """Everything about one record."""
        split, row = place = request.path_params["split"], request.path_params["row"]
        location, schema = viewed.location(*place), viewed.manifest.schema
        shard = viewed.manifest.splits[location.split].shards[location.shard].file
        values = _tried(lambda: viewed.values(location))
        problem, values = (values, {}) if isinstance(values, str) else ("", values)
        flat = {one.name: values.get(one.name, []) for one in schema.features}
        image, wanted, query = viewed.finished.image, _filter(request), request.query_params
        augment = query.get("augment", AUGMENT.get(viewed.kind, "none"))
        size = min(max(_number(request, "size", _SIZE), SIZES[0]), SIZES[1])
        draws: Any = "An image is damaged, or larger than what is decoded here."
        if are_decoded(schema, values):
            draws = _tried(lambda: draws_of(viewed, split, location.record_id, augment, size))
        clusters = _tried(lambda: viewed.cluster(viewed.kept_ids(location.record_id)))
        about: Values = {"split": split, "row": row, "location": location, "shard": shard}
        about |= {"origin": self._origin(request, shard), "problem": problem, "clusters": clusters}
        stored: Values = {"features": shown_values(schema, values, _number(request, "at"))}
        stored |= {"image": image, "size": image_size(values, image) if image else None}
        stored |= {"boxes": boxes_of(schema, flat)}
        stored |= {"documents": segment_texts(viewed.finished, values)}
        made = {"augment": augment, "image_size": size, "sizes": SIZES, "draws": draws}
        around = _tried(lambda: viewed.select(viewed.indexed(wanted)).around(split, row))
        return {**about, **stored, **made, "wanted": wanted, "neighbours": around}

    def _origin(self, request: Request, shard: str) -> GenerationInfo:
        """The generation that a shard is of."""
        log = self._logs[self._key(request)[0]]
        folders = {naming.generation_folder(one.number): one for one in log[1:]}
        return next((one for name, one in folders.items() if shard.startswith(f"{name}/")), log[0])

    def _image(self, request: Request, viewed: ViewedSet) -> Response:
        """One image of a record; a picture that says so where it cannot be decoded."""
        query, image = request.query_params, viewed.finished.image
        name = query.get("feature", image.name if image else "")
        place = (request.path_params["split"], request.path_params["row"], name)
        side, number = (
            _SIDES.get(query.get("side", ""), _SIDES["small"]),
            _number(request, "number"),
        )
        try:
            data = viewed.picture(*place, number, side, query.get("marks", ""))
        except Exception:  # a parser of a damaged or hostile image may raise anything
            return Response((_HERE / "no_image.svg").read_text(), media_type="image/svg+xml")
        return Response(data, media_type="image/jpeg")

    def _duplicates(self, request: Request, viewed: ViewedSet) -> Values:
        """Clusters of duplicates side by side."""
        conflicting, start = "conflicting" in request.query_params, _number(request, "start")
        kept = viewed.clusters(conflicting)
        clusters = viewed.cluster(kept[start : start + _CLUSTERS].to_pylist())
        counts = count_duplicates(viewed.finished.directory, viewed.manifest)
        shown = {"counts": counts, "clusters": clusters, "conflicting": conflicting}
        return {**shown, "start": start, "total": len(kept), "most": _CLUSTERS}

    def _quarantine(self, request: Request, viewed: ViewedSet) -> Values:
        """Rejected and filtered records of a reason."""
        rejected, start = self._rejected(viewed.finished), _number(request, "start")
        reason, text = (request.query_params.get(name, "") for name in ("reason", "text"))
        numbers = rejected.numbers(reason, text)
        rows = [(one, rejected.record(one)) for one in numbers[start : start + _REJECTED].tolist()]
        kept = {name for name, _, _ in rejected.reasons}
        reasons = viewed.manifest.ledger.reasons
        elsewhere = {name: count for name, count in reasons.items() if name not in kept}
        shown: Values = {"reasons": rejected.reasons, "elsewhere": elsewhere, "rows": rows}
        shown |= {"reason": reason, "text": text, "selection": not_selected(viewed.finished)}
        return {**shown, "start": start, "total": len(numbers), "most": _REJECTED}

    def _one_rejected(self, request: Request, viewed: ViewedSet) -> Values:
        """One record of the quarantine, with what can be shown of its original."""
        number = request.path_params["number"]
        return {"example": self._rejected(viewed.finished).example(number)}

    def _differences(self, request: Request, viewed: ViewedSet) -> Values:
        """What differs between this set, or generation, and another one."""
        here, start = self._key(request), _number(request, "start")
        name, _, number = request.query_params.get("other", "").partition("/")
        if name not in self._places or not _is_number(number):
            return {"compared": None, "other": None}
        other, what = (name, int(number)), request.query_params.get("what", "")
        places = (self._places[here[0]], self._places[name], here[1], other[1])
        compared, after = self._compared(*places), self._viewed(places[1], other[1])
        rows = compared.records
        rows = rows.filter(pc.equal(rows["what"], what)) if what else rows
        page = rows.slice(min(start, len(rows)), _DIFFERENCES).to_pylist()
        ids = [row["record_id"] for row in page]
        sides = [(here, viewed.cards_of(ids)), (other, after.cards_of(ids))]
        shown = {"compared": compared, "counts": compared.counts(), "other": other, "what": what}
        shown |= {"rows": page, "sides": sides, "kinds": (viewed.kind, after.kind)}
        return {**shown, "start": start, "total": len(rows), "most": _DIFFERENCES}


def _filter(request: Request) -> RecordFilter:
    names = RecordFilter.__dataclass_fields__
    return RecordFilter(**{name: request.query_params.get(name, "").strip() for name in names})


def _number(request: Request, name: str, default: int = 0) -> int:
    text = request.query_params.get(name, "")
    return int(text) if _is_number(text) else default


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS


def _tried(part: Callable[[], Any]) -> Any:
    """A part of a page, or why it cannot be shown: the rest of the page is."""
    try:
        return part()
    except (ShardmillError, UnicodeDecodeError) as error:
        return str(error)


def _flat(text: str) -> str:
    return readable(text.replace("\n", " "))


def _lines(text: str) -> list[str]:
    return [readable(line) for line in text.replace("\r\n", "\n").split("\n")]


def _style(request: Request) -> Response:
    return Response("".join(one.read_text() for one in _SHEETS), media_type="text/css")
