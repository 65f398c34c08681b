"""20,000 URLs with every fault: the ledger closes, and 20 kills change nothing."""

from __future__ import annotations

from collections import Counter

import pytest

from shard_format import load_manifest, verify
from tests.beam_jobs.urls.test_originals import FLAGS
from tests.beam_jobs.urls.test_outcomes import write_list
from tests.fixtures.killed_commands import KILLED
from tests.fixtures.url_farm import HOSTS, Farm

URLS, KILLS = 20_000, 20
# Those whose answer depends on the URL alone, not on packets or on how often it was asked.
VARYING = ("busy", "recovers", "short")
FIXED = {kind: why for kind, why in Farm.ANSWERS.items() if kind not in VARYING}


def paths():
    """Nine of ten are images as they should be, the others all kinds in turn."""
    kinds = [*FIXED]
    for number in range(URLS):
        kind = "ok" if number % 10 else kinds[number // 10 % len(kinds)]
        yield f"{kind}/3/{number}" if kind == "hops" else f"{kind}/{number}"


@pytest.mark.proof
@pytest.mark.timeout(1800)
def test_many_urls_are_fetched_once_whatever_is_killed(farm, tmp_path, commands):
    names = [*paths()]
    urls = [farm.url(path, HOSTS[number % len(HOSTS)]) for number, path in enumerate(names)]
    source = write_list(tmp_path / "urls.csv", urls)
    flags = [flag for flag in FLAGS if flag not in ("--workers", "1")]

    def run(name, **kill):
        out = str(tmp_path / name)
        folders = ["--out", out, "--keep-originals", f"{out}-kept"]
        return commands.run("preprocess", "images", source, *flags, *folders, **kill)

    whole = run("whole")
    assert whole.code == 0, whole.output
    manifest = load_manifest(tmp_path / "whole")
    ledger = manifest.ledger
    expected = Counter(FIXED[path.partition("/")[0]] for path in names)
    assert ledger.kept == expected.pop("")
    assert Counter(ledger.reasons) == expected
    assert ledger.read == ledger.kept + ledger.quarantined + ledger.duplicates + ledger.filtered

    farm.asked.clear()
    kills = 0
    while kills < KILLS:
        assert run("killed", kill_at=whole.operations // (KILLS + 1)).code == KILLED
        kills += 1
    done = run("killed")
    assert done.code == 0, done.output
    assert load_manifest(tmp_path / "killed").root_hash == manifest.root_hash
    verify(tmp_path / "killed")
    assert farm.asked.total() < 2 * sum(4 if "hops" in path else 1 for path in names)

    farm.asked.clear()
    farm.healed = True
    replay = commands.run("quarantine", "replay", str(tmp_path / "killed"))
    assert replay.code == 0, replay.output
    temporary = {path for path in names if path.partition("/")[0] in Farm.TEMPORARY}
    assert farm.asked == Counter(temporary)
    assert load_manifest(tmp_path / "killed").ledger.kept == ledger.kept + len(temporary)
