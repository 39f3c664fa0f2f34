"""Reading METRICS_ADDRESS of a real server."""

from __future__ import annotations

import re
from contextlib import closing
from http.client import HTTPConnection
from typing import NamedTuple
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families

from tests.server import PATIENCE, Server
from tests.waiting import eventually

ADDRESS = {"METRICS_ADDRESS": "127.0.0.1:0"}
PRINTED = re.compile(r"Metrics are at (http://\S+)/metrics")


class Answer(NamedTuple):
    status: int
    text: str


def address_in(log: str) -> str:
    match = PRINTED.search(log)
    return match[1] if match else ""


def get(address: str, path: str, method: str = "GET") -> Answer:
    parts = urlsplit(address)
    with closing(HTTPConnection(str(parts.hostname), parts.port, timeout=PATIENCE)) as connection:
        connection.request(method, path)
        response = connection.getresponse()
        return Answer(response.status, response.read().decode())


class Metrics:
    """The metrics of one answer."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.samples = [
            sample for family in text_string_to_metric_families(text) for sample in family.samples
        ]

    def value(self, name: str, /, **labels: str) -> float:
        """The sum of the samples with this name and these labels among others."""
        return sum(
            sample.value
            for sample in self.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    @property
    def names(self) -> set[str]:
        return {sample.name for sample in self.samples}


def metrics_at(address: str) -> Metrics:
    answer = get(address, "/metrics")
    assert answer.status == 200, answer
    return Metrics(answer.text)


def metrics_of(server: Server) -> Metrics:
    return metrics_at(eventually(lambda: address_in(server.log)))
