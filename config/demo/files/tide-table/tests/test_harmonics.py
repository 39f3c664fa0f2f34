from datetime import timedelta

import pytest

from tides.harmonics import EPOCH, Constituent, height_at

MOON = Constituent("M2", amplitude=2.0, phase=0.0)


def test_it_is_high_water_when_the_phase_is_zero():
    assert height_at(EPOCH, 3.0, [MOON]) == pytest.approx(5.0)


def test_it_is_low_water_half_a_period_later():
    half = timedelta(hours=180 / 28.9841042)
    assert height_at(EPOCH + half, 3.0, [MOON]) == pytest.approx(1.0)
