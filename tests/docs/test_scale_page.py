"""docs/scale.md is what the cost function of the product gives."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def generator(load_script):
    return load_script("docs/make_scale.py")


def test_the_page_is_what_the_cost_function_gives(generator):
    written = generator.PAGE.read_text(encoding="utf-8")
    assert written == generator.page(), "run: python docs/make_scale.py"


@pytest.mark.parametrize("terabytes", [1, 10, 100])
def test_requests_of_the_page_are_about_four_for_8_mib(generator, terabytes):
    work = generator.work_of(terabytes)
    stages = generator.stages_of(work, generator.choose_levels(work, generator.MERGING))
    requests = sum(
        stage.traffic.requests
        for stage in stages
        if stage.name.startswith(("plan", "merge", "shard"))
    )
    assert requests / (work.payload_bytes / 2**23) < 5
