"""`METRICS_ADDRESS`: metrics of all workers together, and health for operators."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import prometheus_client
import pytest
import yaml
from django.utils import timezone

from apps.browse.read_slots import slow_slots
from apps.core import metrics
from apps.core.errors import TooMany, Unavailable
from apps.core.workers import workers
from apps.events.models import Event
from apps.jobs.worker import Job, OnDone, run_round
from apps.repos.http.transfer_slots import TransferSlots
from apps.repos.models import PushJournal
from apps.repos.models.fork import Fork
from apps.webhooks.models import Webhook
from config.monitoring import MEMORY
from config.site_metrics import database_gauges
from tests.gitclient import Git
from tests.monitored import ADDRESS, address_in, get, metrics_at, metrics_of
from tests.server import ROOT, Server
from tests.tail import opened
from tests.waiting import eventually

SECRET = "hush"


@pytest.fixture(scope="module")
def monitored(tmp_path_factory: Any, new_server: Callable[..., Server]) -> Iterator[Server]:
    """`bin/serve` with two workers."""
    folder = tmp_path_factory.mktemp("metrics")
    with new_server(folder, WEB_CONCURRENCY="2", **ADDRESS) as server:
        eventually(lambda: len(server.children()) == 2)
        yield server
        server.stop(signal.SIGINT)  # a killed one leaves its folder


def ask(server: Server, path: str, times: int = 1, **headers: str) -> None:
    """Requests on connections of their own, which several workers accept."""
    for _ in range(times):
        with closing(server.connect()) as connection:
            connection.request("GET", path, headers=headers)
            connection.getresponse().read()


def requests_of(server: Server, operation: str) -> float:
    return metrics_of(server).value("guildhall_requests_total", operation=operation)


def folder_of(server: Server) -> Path:
    return MEMORY / f"guildhall-metrics-{urlsplit(address_in(server.log)).netloc.replace(':', '-')}"


def files_of(server: Server) -> set[str]:
    return {path.name for path in folder_of(server).iterdir()}


def kill_a_worker(server: Server) -> None:
    """Kill a worker, and wait until another has taken its place."""
    before = server.pids
    os.kill(before[0], signal.SIGKILL)
    eventually(lambda: len(server.pids) == len(before) and before[0] not in server.pids)


def test_requests_of_all_workers_are_counted_also_of_those_that_died(monitored):
    before = requests_of(monitored, "list_teams")
    ask(monitored, "/api/v1/teams", 8)
    eventually(lambda: requests_of(monitored, "list_teams") == before + 8)
    for _ in range(3):
        kill_a_worker(monitored)
        ask(monitored, "/api/v1/teams", 8)
    eventually(lambda: requests_of(monitored, "list_teams") == before + 32)
    seconds = metrics_of(monitored)
    assert seconds.value("guildhall_request_seconds_count", operation="list_teams") == before + 32
    assert {name.rpartition("_")[2] for name in files_of(monitored)} == {"0.db", "1.db"}


def test_the_file_of_a_worker_that_was_killed_while_it_was_made_is_passed_over(monitored):
    path = folder_of(monitored) / "counter_7.db"
    path.touch()
    try:
        assert metrics_of(monitored).value("guildhall_ready", part="database") == 1
    finally:
        path.unlink()


def test_labels_have_neither_paths_nor_secrets(monitored):
    for number in range(20):
        ask(monitored, f"/api/v1/{SECRET}{number}?{SECRET}=1", Authorization=f"Bearer {SECRET}")
        ask(monitored, f"/teams/{SECRET}{number}?{SECRET}=1", Cookie=f"sessionid={SECRET}")
    eventually(lambda: requests_of(monitored, "-") >= 20)
    now = metrics_of(monitored)
    assert SECRET not in now.text and monitored.token("alice") not in now.text
    operations = {s.labels["operation"] for s in now.samples if "operation" in s.labels}
    assert len(operations) < 20, operations


def test_gits_and_streams_are_counted(monitored, tmp_path):
    slug = f"r{uuid4().hex[:12]}"
    monitored.api("alice").post("/users/alice/repos", name="Api", slug=slug).gives(201)
    ours = Git(
        tmp_path / "ours", f"{monitored.url}/users/alice/{slug}.git", monitored.token("alice")
    )
    ours.commit()
    ours("push", "--quiet", ours.url, "main")

    def pushes(name: str) -> float:
        return metrics_of(monitored).value(name, subcommand="receive-pack")

    started = eventually(lambda: pushes("guildhall_gits_started_total"))
    eventually(lambda: pushes("guildhall_git_seconds_count") == started)
    assert metrics_of(monitored).value("guildhall_git_seconds_sum", subcommand="receive-pack") > 0
    assert metrics_of(monitored).value("guildhall_git_slots_held") == 0
    with opened(monitored, "alice", "scope=user:alice"):
        eventually(lambda: metrics_of(monitored).value("guildhall_streams_open") == 1)
        monitored.api("alice").post("/teams", name="Lag", slug=slug).gives(201)
        eventually(lambda: metrics_of(monitored).value("guildhall_stream_lag_events") == 0)
    eventually(lambda: metrics_of(monitored).value("guildhall_streams_open") == 0)


def test_operators_see_parts_and_the_public_one_word(monitored):
    address = address_in(monitored.log)
    assert get(address, "/healthz") == (200, "ok\n")
    eventually(lambda: get(address, "/readyz").status == 200)
    assert json.loads(get(address, "/readyz").text)["parts"]["database"] == "ok"
    assert get(address, "/readyz", "HEAD").text == ""
    assert get(address, "/nothing").status == 404 and get(address, "/metrics", "POST").status == 501
    assert get(monitored.url, "/readyz") == (200, "ready\n")
    assert get(monitored.url, "/metrics").status == 404


def test_the_folder_is_private_and_goes_with_the_server(tmp_path, new_server):
    with new_server(tmp_path, WEB_CONCURRENCY="1", **ADDRESS) as server:
        eventually(lambda: files_of(server))
        assert folder_of(server).stat().st_mode & 0o777 == 0o700
        taken = urlsplit(address_in(server.log)).netloc
        refused = subprocess.run(
            [sys.executable, "manage.py", "run_jobs"],
            cwd=ROOT,
            env={**server.environment, "METRICS_ADDRESS": f"127.0.0.1:{int(taken[10:]) - 2}"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert refused.returncode == 1
        assert refused.stderr.startswith(f"METRICS_ADDRESS: cannot listen at {taken}: ")
        server.stop(signal.SIGINT)
        assert not folder_of(server).exists()


@pytest.mark.slow
def test_a_server_whose_folder_was_removed_serves_without_metrics(tmp_path, new_server):
    with new_server(tmp_path, WEB_CONCURRENCY="1", **ADDRESS) as server:
        eventually(lambda: files_of(server))
        shutil.rmtree(folder_of(server))
        kill_a_worker(server)
        server.api("alice").get("/teams").gives(200)
        assert get(address_in(server.log), "/healthz").status == 200
        assert "was removed: restart" in server.log


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gunicorn-deployed", "gunicorn-asgi"])
def test_a_reload_of_gunicorn_loses_no_count(tmp_path, new_server, kind):
    with new_server(tmp_path, kind, **ADDRESS) as server:
        ask(server, "/api/v1/teams", 5)
        eventually(lambda: requests_of(server, "list_teams") == 5)
        before, size = set(server.pids), len(server.pids)
        server.process.send_signal(signal.SIGHUP)
        eventually(lambda: len(server.pids) == size and not before & set(server.pids))
        ask(server, "/api/v1/teams", 5)
        eventually(lambda: requests_of(server, "list_teams") == 10)
        assert json.loads(get(address_in(server.log), "/readyz").text)["status"] != "draining"
        server.stop(signal.SIGINT)
        assert not folder_of(server).exists()


def test_a_worker_of_its_own_counts_its_jobs(tmp_path, monitored):
    command = [sys.executable, "manage.py", "run_jobs"]
    lines: list[str] = []
    with subprocess.Popen(
        command, cwd=ROOT, env=monitored.environment, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            lines.append(process.stdout.readline())
            address = address_in(lines[0])

            def last_run() -> float:
                name = "guildhall_job_last_success_timestamp_seconds"
                return metrics_at(address).value(name, name="make_next_fork")

            eventually(last_run)
            now = metrics_at(address)
            assert now.value("guildhall_job_seconds_count", name="make_next_fork") > 0
            assert now.value("guildhall_jobs_failed_total") == 0
            assert now.value("guildhall_ready", part="database") == 1
        finally:
            process.terminate()


def gauges() -> dict[str, float]:
    return {
        sample.labels.get("work", sample.name): sample.value
        for family in database_gauges()
        for sample in family.samples
    }


def test_old_journals_and_overdue_forks_are_seen(team_repo, alice):
    assert gauges()["guildhall_journal_oldest_age_seconds"] == gauges()["fork"] == 0
    hour_ago = timezone.now() - dt.timedelta(hours=1)
    PushJournal.objects.create(
        repo=team_repo, push=uuid4(), actor=alice, full_name="refs/heads/main",
        old="0" * 40, new="1" * 40, created_at=hour_ago,
    )  # fmt: skip
    fork = Fork.objects.create(
        upstream=team_repo, owner_user=alice, created_by=alice, created_at=hour_ago
    )
    assert 3600 <= gauges()["guildhall_journal_oldest_age_seconds"] < 4000
    assert 3600 <= gauges()["fork"] < 4000
    fork.take()
    assert gauges()["fork"] == 0


def test_events_that_wait_for_the_worker_are_seen(make, team_repo, alice):
    hook = {"repo": team_repo, "url": "https://ci.example.org/", "created_by": alice}
    Webhook.objects.create(**hook, cursor_event_id=Event.objects.newest_id())
    assert gauges()["webhook"] == 0
    make.thread(team_repo, by=alice)
    Event.objects.update(created_at=timezone.now() - dt.timedelta(minutes=1))
    assert 60 <= gauges()["webhook"] < 600
    Webhook.objects.update(consecutive_failures=1)
    assert gauges()["webhook"] == 0
    lost = timezone.now() - dt.timedelta(minutes=2)
    Webhook.objects.update(lease_until=lost, is_active=True)
    assert 120 <= gauges()["webhook"] < 600


def test_the_lag_is_that_of_the_slowest_hub(make, acme, alice):
    for slug in ("api", "web"):
        make.repo(acme, slug, by=alice)
    newest = Event.objects.latest("id").pk
    assert gauges()["guildhall_stream_lag_events"] == 0
    try:
        workers.hubs[5], workers.hubs[6] = newest, newest - 1
        assert gauges()["guildhall_stream_lag_events"] == 1
        workers.hubs[6] = 0  # it reads no longer
        assert gauges()["guildhall_stream_lag_events"] == 0
    finally:
        workers.hubs[5] = workers.hubs[6] = 0


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., float]:
    """`counted(name, label=…)`: the value of a metric in this process."""
    registry = prometheus_client.CollectorRegistry()
    for metric in metrics.METRICS:
        kind = getattr(prometheus_client, metric.kind)
        made = kind(
            metric.name, metric.help_text, metric.labels, registry=registry, **metric.options
        )
        monkeypatch.setattr(metric, "metric", made)
        monkeypatch.setattr(metric, "children", {})
    return lambda name, /, **labels: registry.get_sample_value(name, labels) or 0


def test_refusals_are_counted_by_their_limit(counted, settings):
    settings.GIT_SLOTS, settings.GIT_SLOTS_PER_PERSON = 2, 1
    slots, name = TransferSlots(), "guildhall_slots_refused_total"
    with slots.slot("person:7"):
        with pytest.raises(TooMany), slots.slot("person:7"):
            pass
        with slots.slot("person:8"), pytest.raises(TooMany), slots.slot("person:9"):
            pass
    for limit, times in {"person": 1, "all": 1, "anonymous": 0, "reads": 0}.items():
        assert counted(name, limit=limit) == times, limit
    reads = slow_slots(1, 1)
    with reads.slot("a"), pytest.raises(Unavailable), reads.slot("a", waits=False):
        pass
    assert counted(name, limit="reads") == 1


def test_failures_of_jobs_are_counted(counted, db):
    fails = True

    def flaky(on_done: OnDone) -> bool:
        if fails:
            raise ValueError("flaky")
        return True

    last = "guildhall_job_last_success_timestamp_seconds"
    assert run_round([Job(flaky)], print) is False
    assert counted("guildhall_jobs_failed_total", name="flaky") == 1
    assert counted(last, name="flaky") == 0
    fails = False
    assert run_round([Job(flaky)], print) is True
    assert counted("guildhall_jobs_failed_total", name="flaky") == 1
    assert counted("guildhall_job_seconds_count", name="flaky") == 2
    assert counted(last, name="flaky") > 0


def test_waits_for_connections_and_the_event_lock_are_counted_on_postgresql(monitored):
    if not monitored.database:
        pytest.skip("SQLite has neither a pool nor this lock")
    slug = f"t{uuid4().hex[:12]}"
    monitored.api("alice").post("/teams", name="Waits", slug=slug).gives(201)

    def waits() -> list[float]:
        names = ("database_connection", "event_lock")
        now = metrics_of(monitored)
        return [now.value(f"guildhall_{name}_wait_seconds_count") for name in names]

    eventually(lambda: all(waits()))


OFF = """
import os, sys, django
os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
django.setup()
import config.asgi, config.monitoring, config.urls
packages = {"prometheus_client", "sentry_sdk", "opentelemetry"}
print(sorted(packages & sys.modules.keys()))
"""


@pytest.mark.once
def test_nothing_is_loaded_that_is_off(tmp_path):
    environment = {"PATH": os.environ["PATH"], "DATA_DIR": str(tmp_path / "data")}
    command = [sys.executable, "-c", OFF]
    out = subprocess.check_output(command, cwd=ROOT, env=environment, text=True)
    assert out == "[]\n"


EXPRESSION = re.compile(r"\bguildhall_[a-z_]+")


def exported() -> set[str]:
    """The names that series may have, by the tables of the code and the gauges of the site."""
    suffixes = {
        "Counter": ("_total",),
        "Histogram": ("_bucket", "_sum", "_count"),
        "Summary": ("_sum", "_count"),
        "Gauge": ("",),
    }
    counted = {
        metric.name + suffix for metric in metrics.METRICS for suffix in suffixes[metric.kind]
    }
    source = (ROOT / "config" / "site_metrics.py").read_text()
    return counted | set(re.findall(r'"(guildhall_[a-z_]+)"', source))


@pytest.mark.once
def test_dashboard_rules_and_documentation_name_exported_metrics():
    dashboard = (ROOT / "deploy" / "grafana" / "guildhall.json").read_text()
    rules = (ROOT / "deploy" / "prometheus" / "guildhall.rules.yml").read_text()
    assert json.loads(dashboard)["panels"]
    names = set()
    for group in yaml.safe_load(rules)["groups"]:
        for rule in group["rules"]:
            assert rule.keys() == {"alert", "expr", "for", "labels", "annotations"}, rule
            names.add(rule["alert"])
    assert len(names) > 5
    for text in (dashboard, rules):
        used = set(EXPRESSION.findall(text))
        assert used and used <= exported(), used - exported()
    documented = set(EXPRESSION.findall((ROOT / "docs" / "metrics.md").read_text()))
    missing = {
        name
        for name in exported()
        if not name.endswith(("_bucket", "_sum", "_count")) and name not in documented
    }
    assert missing == set()
