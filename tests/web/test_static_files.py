"""Styles and scripts, sent by an ASGI server. In tests, Django's warnings are errors."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient

from apps.web import __file__ as app

pytestmark = pytest.mark.once
ADDRESS = "/static/guildhall.css"


async def fetch(headers: dict[str, str]) -> tuple[Any, bytes]:
    """The response and its content, read as the server reads it."""
    response: Any = await AsyncClient().get(ADDRESS, headers=headers)
    if not response.streaming:
        return response, response.content
    content = b"".join([piece async for piece in response])
    response.close()
    return response, content


def test_an_asgi_server_sends_a_file_without_a_warning():
    response, content = async_to_sync(fetch)({})
    assert response.status_code == HTTPStatus.OK
    with open(app.replace("__init__.py", "static/guildhall.css"), "rb") as file:
        assert content == file.read()


def test_a_part_of_a_file_is_sent_alone():
    response, content = async_to_sync(fetch)({"Range": "bytes=0-3"})
    assert (response.status_code, len(content)) == (HTTPStatus.PARTIAL_CONTENT, 4)


def test_a_file_that_the_browser_has_is_not_sent_again():
    first, _ = async_to_sync(fetch)({})
    response, content = async_to_sync(fetch)({"If-None-Match": first["ETag"]})
    assert (response.status_code, content) == (HTTPStatus.NOT_MODIFIED, b"")
    assert "Content-Type" not in response
