"""Writers that all try to create one object at the same moment."""

from __future__ import annotations

import threading

from foundation import storage
from foundation.storage import Place

_WRITERS = 12


def winner_of_race(place: Place) -> bytes:
    """What the one writer wrote that created the object; others were told that it exists."""
    winners: list[bytes] = []
    start = threading.Barrier(_WRITERS)

    def race(number: int) -> None:
        content = str(number).encode() * 100
        start.wait()
        try:
            storage.write_bytes(place, content, if_absent=True)
        except FileExistsError:
            return
        winners.append(content)

    racers = [threading.Thread(target=race, args=(number,)) for number in range(_WRITERS)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert len(winners) == 1, winners
    return winners[0]
