import pytest


@pytest.fixture(autouse=True)
def quick(unoptimized_graphs: None, without_figures: None) -> None:
    """Every test here is."""
