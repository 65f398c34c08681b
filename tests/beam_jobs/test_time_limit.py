"""The time limit: exact under many threads, and no thread is left over."""

from __future__ import annotations

import gc
import threading
import time

import pytest

from beam_jobs.corpus.record import FILTER, Rejection
from beam_jobs.images import decode
from beam_jobs.images.decode import DecodingOptions, decode_image
from beam_jobs.images.decode.time_limit import within

HELPER = "shardmill-decode"


def helpers() -> set[threading.Thread]:
    gc.collect()
    return {thread for thread in threading.enumerate() if thread.name == HELPER}


def wait_until(condition) -> bool:
    end = time.monotonic() + 10
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return False


def in_a_thread(function) -> None:
    """A thread of its own, whose helper ends with it."""
    failures = []

    def run():
        try:
            function()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    if failures:
        raise failures[0]


def test_one_helper_serves_all_calls_of_a_thread():
    def calls():
        names = {within(5, threading.get_ident) for _ in range(50)}
        assert len(names) == 1 and threading.get_ident() not in names

    before = helpers()
    in_a_thread(calls)
    assert wait_until(lambda: helpers() <= before)


def test_what_is_raised_arrives():
    def fail():
        raise KeyError("inside")

    for _ in range(3):
        with pytest.raises(KeyError, match="inside"):
            within(5, fail)
    assert within(5, lambda: 3) == 3


def test_many_threads_get_their_own_results():
    before, wrong = helpers(), []

    def work(number):
        for step in range(200):
            if within(60, lambda step=step: (number, step)) != (number, step):
                wrong.append((number, step))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert wait_until(lambda: helpers() <= before)


@pytest.mark.parametrize("computes", [True, False])
def test_a_slow_call_is_abandoned_and_the_next_one_works(computes):
    stop = threading.Event()

    def slow():
        while not stop.is_set():
            if not computes:
                stop.wait(60)

    def calls():
        begun = time.monotonic()
        with pytest.raises(Rejection, match=r"too-slow: .*more than --time-limit 0.05 seconds"):
            within(0.05, slow)
        # Waiting costs no CPU time, so the clock on the wall decides, at ten times the limit.
        assert time.monotonic() - begun >= (0.05 if computes else 0.5)
        assert within(60, lambda: "next") == "next"
        assert len(helpers() - before) == 2  # the abandoned one is still busy

    before = helpers()
    try:
        in_a_thread(calls)
    finally:
        stop.set()
    assert wait_until(lambda: helpers() <= before)


def test_time_that_other_threads_take_does_not_count():
    """Ten busy threads and 0.2 s of work of one's own: far more than 0.9 s on the wall."""
    stop = threading.Event()

    def spin():
        while not stop.is_set():
            pass

    def work():
        end = time.thread_time() + 0.2
        while time.thread_time() < end:
            pass
        return "done"

    threads = [threading.Thread(target=spin, daemon=True) for _ in range(10)]
    for thread in threads:
        thread.start()
    try:
        begun = time.monotonic()
        assert within(0.9, work) == "done"
        assert time.monotonic() - begun > 0.9
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_a_slow_image_is_refused(monkeypatch):
    stop = threading.Event()
    monkeypatch.setattr(decode, "decode_with_pillow", lambda data, options: stop.wait(60))
    try:
        with pytest.raises(Rejection) as refusal:
            decode_image(b"GIF89a", DecodingOptions(1000, time_limit=0.02))
    finally:
        stop.set()
    assert refusal.value.reason == "too-slow"
    assert refusal.value.stage != FILTER
