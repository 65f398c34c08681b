"""A parameter that is a path or a URL, for the commands that read a shard set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:  # pyarrow takes a while to import
    from shard_format.storage import Place


class _PlaceType(click.ParamType[Any]):
    """A `Place` of the storage layer; shells complete paths."""

    name = "path"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Place:
        """See click.ParamType."""
        from shard_format import UsageError
        from shard_format.storage import place_of

        try:
            return place_of(value)
        except UsageError as error:
            self.fail(str(error), param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """See click.ParamType."""
        return click.Path().shell_complete(ctx, param, incomplete)


PLACE = _PlaceType()
