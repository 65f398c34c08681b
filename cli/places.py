"""Parameters that are a path or a URL, or a path alone."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem
from typing_extensions import override

if TYPE_CHECKING:  # pyarrow takes a while to import
    from foundation.storage import Place


class _PlaceType(click.ParamType[Any]):
    """A `Place` of the storage layer; shells complete paths.

    Args:
        path: What a local path must be.
        local: Whether a URL is refused.
    """

    name = "path"

    def __init__(self, path: click.Path, *, local: bool = False) -> None:
        self._path = path
        self._local = local

    @override
    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Place:
        from foundation.storage import local_path, local_place_of, place_of
        from shard_format import UsageError

        try:
            place = local_place_of(value) if self._local else place_of(value)
        except UsageError as error:
            self.fail(str(error), param, ctx)
        if local_path(place) is not None:
            self._path.convert(str(place), param, ctx)
        return place

    @override
    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return self._path.shell_complete(ctx, param, incomplete)


def local_copy(model: Place) -> Path:
    """The path of a run or an export; one at a URL is copied until the command ends.

    Checkpoints and logs stay where they are.

    Raises:
        InputError: There are no files at the URL.
    """
    if isinstance(model, Path):
        return model
    from foundation.storage import fetch_tree
    from shard_format import InputError

    scratch = click.get_current_context().with_resource(TemporaryDirectory(prefix="shardmill-"))
    folder = Path(scratch, model.name)
    if not fetch_tree(model, folder, ("checkpoints", "head", "lock", "tensorboard")):
        raise InputError(f"There are no files in {model}. Pass the URL of a run or an export.")
    return folder


PLACE = _PlaceType(click.Path())
FILE = _PlaceType(click.Path(dir_okay=False))
FOLDER = _PlaceType(click.Path(file_okay=False))
LOCAL = _PlaceType(click.Path(), local=True)
LOCAL_FOLDER = _PlaceType(click.Path(file_okay=False), local=True)
