"""Places for requests and room for bodies."""

from __future__ import annotations

import pytest

from tasknorm.serve import Limits
from tasknorm.serve.admission import Admission
from tasknorm.serve.refusals import RefusedError


def test_places_are_bounded_and_given_back() -> None:
    admission = Admission(Limits(queue=2))
    with admission.place(), admission.place():
        with pytest.raises(RefusedError, match="at most 2 requests") as caught, admission.place():
            pass
        assert caught.value.status == 503
        assert 1 <= int(caught.value.headers["Retry-After"]) <= 60
    with pytest.raises(ValueError, match="inside"), admission.place():
        raise ValueError("inside")
    assert admission.inside == 0
    assert admission.refused == 1


def test_room_for_bodies_is_bounded_and_given_back() -> None:
    admission = Admission(Limits(all_bodies_megabytes=1))
    admission.receive(900_000)
    with pytest.raises(RefusedError, match="1,000,000 bytes together"):
        admission.receive(100_001)
    admission.release(900_000)
    admission.receive(1_000_000)
