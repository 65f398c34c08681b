"""Annotations by image, in a file of SQLite: a corpus may have more than fit in memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import orjson

from beam_jobs.corpus.annotations.objects import (
    NO_CLASS,
    REPEATED,
    AnnotatedObject,
    ImageAnnotations,
    checked_object,
)
from shard_format import InputError

_TABLES = """
CREATE TABLE images (id TEXT PRIMARY KEY, name TEXT, width INTEGER, height INTEGER, mask TEXT,
                     used TEXT) WITHOUT ROWID;
CREATE TABLE objects (image TEXT, id TEXT, object TEXT);
PRAGMA journal_mode = OFF;
"""
_INDEXES = """
CREATE INDEX by_name ON images (name);
CREATE INDEX by_mask ON images (mask);
CREATE INDEX by_image ON objects (image);
"""
_BATCH = 10_000  # objects that are written at a time
_MOST_OF_IMAGE = 1_000_000  # objects


class AnnotationStore:
    """Images with their objects, in the order in which they are added."""

    def __init__(self) -> None:
        # A file without a name, which is gone with the connection.
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._database.executescript(_TABLES)
        self._database.execute("BEGIN")
        self._waiting: list[tuple[str, str, str]] = []
        self._classes: dict[str, str] = {}

    def add_image(
        self, identity: str, name: str, width: int = 0, height: int = 0, mask: str = ""
    ) -> None:
        """Adds an image.

        Args:
            identity: Names it among the annotations.
            name: Its path, below any folder; without an ending it is that of any image.
            width: Width in pixels; 0 where annotations are shares of the image.
            height: Height likewise.
            mask: Path of the file with its mask.

        Raises:
            InputError: There is another one of that identity.
        """
        row = (identity, name, width, height, mask, None)
        try:
            self._database.execute("INSERT INTO images VALUES (?, ?, ?, ?, ?, ?)", row)
        except sqlite3.IntegrityError:
            raise InputError(
                f"--annotations have two images {identity!r}, so that nothing says whose an "
                f"object is; one is {name!r}. Correct the annotations."
            ) from None

    def add_object(self, image: str, one: AnnotatedObject, identity: str = "") -> None:
        """Adds an object of an image, which may be added later.

        Args:
            image: Identity of the image.
            one: The object.
            identity: Its own, which no other one may have; "" where it has none.
        """
        content = orjson.dumps(tuple(checked_object(one))).decode()
        self._waiting.append((image, identity, content))
        if len(self._waiting) >= _BATCH:
            self._write()

    def add_class(self, name: str, identity: str = "") -> None:
        """Adds a class, unless it is there.

        Args:
            name: Its name.
            identity: What objects have as their label, if not that name.

        Raises:
            InputError: There is another one of that identity.
        """
        known = self._classes.setdefault(identity or name, name)
        if known != name:
            raise InputError(
                f"--annotations have two classes {identity}: {known!r} and {name!r}. Correct the "
                "annotations."
            )

    def finish(self) -> None:
        """Ends adding; behind it, images are looked up."""
        self._write()
        self._database.executescript(_INDEXES)  # which commits what was added

    def _write(self) -> None:
        self._database.executemany("INSERT INTO objects VALUES (?, ?, ?)", self._waiting)
        self._waiting = []

    @property
    def classes(self) -> list[str]:
        """Names of the classes, in the order in which they were added."""
        return list(dict.fromkeys(self._classes.values()))

    def look_up(self, path: str) -> ImageAnnotations | None:
        """The annotations of the image at a path; None if there are none.

        An image is found by its whole path, or by the last parts of it, with its ending or
        without.

        Raises:
            LookupError: Several images have that name, or an image at another path has had it.
        """
        for name in _names_of(path):
            rows = self._database.execute(
                "SELECT id, width, height, mask, used FROM images WHERE name = ? LIMIT 2", (name,)
            ).fetchall()
            if len(rows) > 1:
                raise LookupError(f"several annotated images are called {name!r}")
            for identity, width, height, mask, used in rows:
                if used is not None and used != path:
                    raise LookupError(f"the annotations of {name!r} are also those of {used!r}")
                self._database.execute("UPDATE images SET used = ? WHERE id = ?", (path, identity))
                objects = tuple(self._objects(identity))
                return ImageAnnotations(width, height, objects, mask)
        return None

    def _objects(self, image: str) -> Iterator[AnnotatedObject]:
        rows = self._database.execute(
            "SELECT id, object FROM objects WHERE image = ? ORDER BY rowid LIMIT ?",
            (image, _MOST_OF_IMAGE),
        )
        seen: set[str] = set()
        for identity, content in rows:
            own, *values = orjson.loads(content)
            one = AnnotatedObject(self._classes.get(own, ""), *values)
            if identity and identity in seen:
                one = AnnotatedObject(one.label, problem=REPEATED)
            elif not one.label and not one.problem:
                one = AnnotatedObject(one.label, problem=NO_CLASS)
            seen.add(identity)
            yield one

    def has_mask(self, path: str) -> bool:
        """Whether a file is the mask of an image."""
        rows = self._database.execute("SELECT 1 FROM images WHERE mask = ? LIMIT 1", (path,))
        return rows.fetchone() is not None

    def unused(self) -> Iterator[str]:
        """The names of images that were not looked up, in order."""
        rows = self._database.execute("SELECT name FROM images WHERE used IS NULL ORDER BY name")
        return (name for (name,) in rows)

    def without_image(self) -> Iterator[tuple[str, int]]:
        """(image, number of objects) of objects whose image was not added."""
        return iter(
            self._database.execute(
                "SELECT image, COUNT(*) FROM objects WHERE image NOT IN (SELECT id FROM images) "
                "GROUP BY image ORDER BY image"
            ).fetchall()
        )


def _names_of(path: str) -> Iterator[str]:
    """The names by which an image may be annotated: with its folders, then with fewer of them."""
    *folders, name = path.split("/")
    stem = name.rpartition(".")[0] or name
    for start in range(len(folders) + 1):
        for own in dict.fromkeys((name, stem)):
            yield "/".join((*folders[start:], own))
