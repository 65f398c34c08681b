"""`shardmill export-annotations`: the objects of a set for programs that look at them."""

from __future__ import annotations

import click

from cli.places import FOLDER, PLACE
from foundation.storage import Place


@click.command("export-annotations")
@click.argument("directory", metavar="DIR", type=PLACE)
@click.option("--out", required=True, metavar="FOLDER", type=FOLDER, help="Where the files go.")
@click.option(
    "--to",
    default="coco",
    show_default=True,
    metavar="FORM",
    help="In which form; coco is the only one.",
)
@click.option("--images", is_flag=True, help="Write the images as files, too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, nothing else.")
def export_annotations(directory: Place, out: Place, to: str, images: bool, as_json: bool) -> None:
    """Write the boxes and segmentations of a set for FiftyOne, Datumaro or pycocotools.

    Of each split, FOLDER/annotations/instances_SPLIT.json in the form of COCO, in pixels of the
    stored images; with --images also FOLDER/images/SPLIT.

    \b
    Examples:
      shardmill export-annotations set --out coco
      shardmill export-annotations set --out coco --images
    """
    import reader
    from cli.console import bar_if_long, print_json, say
    from foundation.wording import counted

    with bar_if_long("export"):
        done = reader.export_annotations(directory, out, to, images=images)
    if as_json:
        print_json(
            {
                "form": to,
                "folder": str(done.folder),
                "images": done.images,
                "objects": done.objects,
                "root_hash": done.root_hash,
                "files": {split: str(file) for split, file in done.files.items()},
            }
        )
        return
    amount = f"{counted(done.objects, 'object')} in {counted(done.images, 'image')}"
    say(f"written    {amount}, to {done.folder}")
