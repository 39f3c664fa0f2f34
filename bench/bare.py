"""Django without anything, for the comparison in bench/api.py."""

import django
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpRequest, HttpResponse
from django.urls import path


def answer(_: HttpRequest) -> HttpResponse:
    return HttpResponse(b"{}", headers={"Content-Length": "2"})


urlpatterns = [path("", answer)]
settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], MIDDLEWARE=[])
django.setup()
application = WSGIHandler()
