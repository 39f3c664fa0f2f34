"""The routes of a site with an `OIDC_ISSUER`, which a running site decides at its start."""

from apps.web import openid
from config import urls
from config.urls import handler400, handler403, handler404, handler500

__all__ = ["handler400", "handler403", "handler404", "handler500", "urlpatterns"]
urlpatterns = [*urls.urlpatterns, *openid.routes()]
