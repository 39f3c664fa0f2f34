"""Routes outside the API, and the prefix of the API."""

from __future__ import annotations

from django.contrib import admin
from django.templatetags.static import static
from django.urls import include, path
from django.views.generic import RedirectView

from apps.core.slugs import register_converters

register_converters()

# The routes below need the converters.
from apps.repos.http import views as git_http  # noqa: E402
from apps.web import errors  # noqa: E402
from config import api  # noqa: E402
from config.moving.pages import export_account  # noqa: E402
from config.offboarding.views import offboard_page  # noqa: E402
from config.overview import overview  # noqa: E402

GIT = {
    "info/refs": git_http.info_refs,
    "git-upload-pack": git_http.upload_pack,
    "git-receive-pack": git_http.receive_pack,
}
urlpatterns = [
    *(
        path(f"{owner}/<repo_slug:repo_slug>.git/{end}", view, name=end)
        for owner in ("teams/<team_slug:team_slug>", "users/<username:username>")
        for end, view in GIT.items()
    ),
    path("api/v1/", include(api.urlpatterns)),
    path("favicon.ico", RedirectView.as_view(url=static("guildhall.svg")), name="favicon"),
    path("settings/export", export_account, name="export-account"),
    path("", include("apps.web.routes")),
    path("admin/overview/", admin.site.admin_view(overview), name="overview"),
    path("admin/offboard/<int:pk>/", admin.site.admin_view(offboard_page), name="offboard"),
    path("admin/", admin.site.urls),
]
handler400 = errors.bad_request
handler403 = errors.forbidden
handler404 = errors.not_found
handler500 = errors.server_error
