"""What an operator is told about processes that count rate limits for themselves."""

import pytest
from django.core.checks import run_checks
from django.core.management import call_command

from config.checks import counters_are_shared, gunicorn_workers
from tests.server import Server

COUNTED_APART = "Rate limits are counted in each process for itself"


def test_a_deployment_without_redis_is_warned(settings):
    assert [one.id for one in counters_are_shared(None)] == ["guildhall.W001"]
    assert "guildhall.W001" not in {one.id for one in run_checks()}
    settings.REDIS_URL = "redis://localhost"
    assert counters_are_shared(None) == []


@pytest.mark.parametrize(
    ("arguments", "environment", "workers"),
    [
        (["config.wsgi:application"], {}, 1),
        (["--workers", "4", "config.wsgi:application"], {}, 4),
        (["-w2", "-k", "gthread", "--threads", "16", "config.wsgi:application"], {}, 2),
        (["--workers=3", "--bind", "fd://5"], {"WEB_CONCURRENCY": "8"}, 3),
        ([], {"WEB_CONCURRENCY": "8"}, 8),
        ([], {"GUNICORN_CMD_ARGS": "--workers 5 --name 'a b'"}, 5),
    ],
)
def test_the_number_of_workers_is_that_of_gunicorn(arguments, environment, workers):
    assert gunicorn_workers(arguments, environment) == workers


@pytest.mark.slow
@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({"WEB_CONCURRENCY": "2"}, True),
        ({"WEB_CONCURRENCY": "2", "REDIS_URL": "redis://127.0.0.1:1"}, False),
        ({}, False),
    ],
)
def test_the_start_of_several_workers_says_that_they_count_apart(environment, told, tmp_path):
    with Server(tmp_path, "gunicorn", **environment) as server:
        assert (COUNTED_APART in server.log) == told


def test_check_deploy_says_so(capsys):
    call_command("check", "--deploy")
    assert f"(guildhall.W001) {COUNTED_APART}" in capsys.readouterr().err
