"""Webhooks reach no private address: by no spelling, name, second lookup or redirect."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from functools import partial
from ipaddress import ip_network

import pytest

from apps.core.errors import Invalid
from apps.webhooks.addresses import address_of, check_url, is_allowed
from apps.webhooks.sending import Message, Outcome, Resolve, Sender, look_up
from tests.webhooks.receivers import Answer, Receiver

pytestmark = pytest.mark.once

PRIVATE = [
    "0.0.0.0",  # noqa: S104 - to be refused
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.1",
    "192.0.0.1",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:0:7f00:1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::7f00:1",
    "100::1",
    "2001::1",
    "2001:0:7f00:1::",
    "2001:10::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::1",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%lo",
    "fec0::1",
    "ff02::1",
    "ff0e::1",
]
PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "100.63.255.255",
    "172.15.255.255",
    "172.32.0.1",
    "192.88.98.1",
    "223.255.255.255",
    "::ffff:8.8.8.8",
    "2001:4860:4860::8888",
    "2606:4700:4700::1111",
    "2a00:1450::1",
]
SPELLINGS = [
    "127.0.0.1",
    "127.1",
    "127.0.1",
    "0x7f000001",
    "0x7f.0.0.1",
    "0x7f.1",
    "2130706433",
    "017700000001",
    "0177.0.0.1",
    "127.0.0.1.",
    "localhost",
    "LOCALHOST",
    "0",
    "0.0.0.0",  # noqa: S104 - to be refused
    "0x0",
    "127.127.127.127",
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::ffff:0:0]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "[fe80::1]",
    "[::ffff:0:7f00:1]",
]
MALFORMED = [
    "ftp://ci.example.org/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:25/",
    "//ci.example.org/",
    "ci.example.org/hook",
    "https:///hook",
    "https://user@ci.example.org/",
    "https://user:pass@ci.example.org/",
    "https://@ci.example.org/",
    "https://ci.example.org/#part",
    "https://ci.example.org#",
    "https://ci.example.org:0/",
    "https://ci.example.org:x/",
    "https://ci.example.org:99999/",
    "https://[::1/",
    "https://[fe80::1%25lo]/",
    "https://bücher.example/",
    "https://127.0.0.1\\@ci.example.org/",
    "https://ci.example.org\\.127.0.0.1/",
    "https://ci%2eexample.org/",
    "https://127。0。0。1/",
    "https://①②⑦.⓪.⓪.①/",
    "https://ci.example.org/ä",
]


class Listener:
    """A socket at a port of every address of this machine, which counts connections."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
        self.socket.setblocking(False)
        self.port = self.socket.getsockname()[1]

    def connections(self) -> int:
        count = 0
        while True:
            try:
                self.socket.accept()[0].close()
            except BlockingIOError:
                return count
            count += 1


@pytest.fixture
def listener() -> Iterator[Listener]:
    listener = Listener()
    with listener.socket:
        yield listener


@pytest.fixture(autouse=True)
def with_http(settings):
    settings.WEBHOOK_ALLOW_HTTP = True


def resolving(*answers: list[str]) -> Resolve:
    """A resolver with these answers, one for each lookup."""
    remaining = list(answers)

    async def resolve(host: str, port: int) -> list[str]:
        return remaining.pop(0)

    return resolve


def sent(url: str, resolve: Resolve = look_up) -> Outcome:
    async def send() -> Outcome:
        async with Sender(resolve) as sender:
            return await sender.send(Message(address_of(url), {}, b"{}"))

    return asyncio.run(send())


@pytest.mark.parametrize("address", PRIVATE)
def test_a_private_address_is_not_allowed(address):
    assert not is_allowed(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_allowed(address):
    assert is_allowed(address)


@pytest.mark.parametrize("host", SPELLINGS)
def test_no_spelling_of_this_machine_gets_a_connection(host, listener):
    outcome = sent(f"http://{host}:{listener.port}/hook")
    assert outcome.error in {"blocked_address", "dns"} and outcome.status is None
    assert listener.connections() == 0


@pytest.mark.parametrize("address", PRIVATE)
@pytest.mark.parametrize("other", ["", "8.8.8.8"])
def test_no_name_with_a_private_address_gets_a_connection(address, other, listener):
    answer = [name for name in (other, address) if name]
    url = f"http://innocent.example:{listener.port}/hook"
    assert sent(url, resolving(answer)).error == "blocked_address"
    assert listener.connections() == 0


def test_a_blocked_outcome_says_nothing_about_the_target(listener):
    open_port = sent(f"http://127.0.0.1:{listener.port}/", resolving(["127.0.0.1"]))
    closed_port = sent("http://10.0.0.1:9/", resolving(["10.0.0.1"]))
    assert (open_port.error, open_port.status, open_port.body) == ("blocked_address", None, "")
    assert (closed_port.error, closed_port.status, closed_port.body) == (
        "blocked_address",
        None,
        "",
    )


def test_a_name_is_looked_up_once_and_its_checked_address_gets_the_connection(settings, listener):
    settings.WEBHOOK_ALLOWED_NETS = [ip_network("127.0.0.2/32")]
    with Receiver(host="127.0.0.2") as receiver:
        url = f"http://rebinding.example:{receiver.port}/hook"
        resolve = resolving(["127.0.0.2"], ["127.0.0.1"])
        assert sent(url, resolve).status == 204
        assert sent(url, resolve).error == "blocked_address"
        assert len(receiver.requests) == 1
        assert receiver.requests[0].headers["host"] == f"rebinding.example:{receiver.port}"


def _same(answer: Answer, _: object) -> Answer:
    return answer


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(settings, listener, status):
    settings.WEBHOOK_ALLOWED_NETS = [ip_network("127.0.0.2/32")]
    targets = [f"http://127.0.0.1:{listener.port}/", "http://169.254.169.254/latest/meta-data/"]
    for target in targets:
        answer = (status, {"Location": target}, b"")
        with Receiver(partial(_same, answer), "127.0.0.2") as there:
            outcome = sent(there.url)
        assert (outcome.error, outcome.status) == ("redirect", status)
    assert listener.connections() == 0


def test_variables_of_proxies_are_ignored(settings, listener, monkeypatch):
    settings.WEBHOOK_ALLOWED_NETS = [ip_network("127.0.0.2/32")]
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "https_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{listener.port}")
    with Receiver(host="127.0.0.2") as receiver:
        assert sent(receiver.url).status == 204
    assert listener.connections() == 0


def test_the_operator_opens_networks_and_http(settings):
    with Receiver() as receiver:
        assert sent(receiver.url).error == "blocked_address"
        settings.WEBHOOK_ALLOWED_NETS = [ip_network("127.0.0.0/8")]
        settings.WEBHOOK_ALLOW_HTTP = False
        assert sent(receiver.url).error == "blocked_address"
        settings.WEBHOOK_ALLOW_HTTP = True
        assert sent(receiver.url).status == 204
        mapped = resolving(["::ffff:127.0.0.1"])
        assert sent(receiver.url, mapped).error in {"", "refused"}  # it listens to IPv4 only
    assert not is_allowed("10.0.0.1")


@pytest.mark.parametrize("url", MALFORMED)
def test_a_malformed_url_is_refused(url):
    with pytest.raises(Invalid) as refusal:
        check_url(url)
    assert refusal.value.code == "invalid_url"


def test_a_url_of_guildhall_itself_is_refused_and_so_are_long_ones_and_plain_http(settings):
    settings.BASE_URL = "https://code.example.org"
    own = [
        "https://code.example.org/x",
        "https://CODE.example.org:443/",
        "https://code.example.org./",
    ]
    for url in [*own, "https://ci.example.org/" + "x" * 2026]:
        with pytest.raises(Invalid):
            check_url(url)
    settings.WEBHOOK_ALLOW_HTTP = False
    with pytest.raises(Invalid):
        check_url("http://ci.example.org/")
    check_url("https://ci.example.org:8443/hook?token=1")
    check_url("https://ci.example.org/" + "x" * 2025)
