"""All settings, read from the environment. An invalid value stops the start.

config/environment.py reads each variable; docs/deploy.md describes them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from apps.core.memory import return_freed_memory
from apps.core.slugs import PREFIX, path_schemas
from config.environment import Environment, origin_of

ROOT = Path(__file__).resolve().parent.parent
# Files of this process are private to its user: database, repositories, mail in a folder.
os.umask(0o077)
return_freed_memory()
env = Environment(ROOT)

DATA_DIR = env.data_dir
DATA_DIR.mkdir(mode=0o700, parents=True, exist_ok=True)
DATA_DIR_HOLDS_DATABASE = env.holds_database
REPOSITORIES_DIR = DATA_DIR / "repositories"
BASE_URL = env.base_url
HOST = env.host
PORT = env.port
WEB_CONCURRENCY = env.workers
SECRET_KEY = env.secret_key
ALLOWED_HOSTS = env.allowed_hosts
DATABASES = {"default": env.database}
REDIS_URL = env.redis_url
TRUSTED_PROXIES = env.trusted_proxies
GIT_SLOTS = env.git_slots
GIT_SLOTS_PER_PERSON, GIT_SLOTS_PER_ADDRESS = env.git_slots_per_person, env.git_slots_per_address
UPLOAD_BYTES_PER_DAY = env.upload_mib_per_day * 1024 * 1024
REPO_BYTES, OWNER_BYTES = env.repo_mib * 1024 * 1024, env.owner_mib * 1024 * 1024
DEFAULT_FROM_EMAIL = SERVER_EMAIL = env.email_from
EMAIL_BACKEND = f"django.core.mail.backends.{env.email.kind}.EmailBackend"
SENDS_MAIL = env.email.kind != "console"
EMAIL_FILE_PATH = env.email.folder
EMAIL_HOST, EMAIL_PORT = env.email.host, env.email.port
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = env.email.user, env.email.password
EMAIL_USE_TLS, EMAIL_USE_SSL = env.email.starts_tls, env.email.inside_tls
EMAIL_TIMEOUT = 20
WEBHOOK_ALLOW_HTTP = env.webhook_allow_http
WEBHOOK_ALLOWED_NETS = env.webhook_allowed_nets
AUDIT_DAYS = env.audit_days
METRICS_ADDRESS = env.metrics_address
GRACEFUL_TIMEOUT = env.graceful_timeout
SSH_ADDRESS, SSH_URL = env.ssh_address, env.ssh_url
SENTRY_DSN = env.sentry_dsn
SENDS_SPANS = env.sends_spans
# Sign-in by OpenID Connect (docs/single-sign-on.md). Without an issuer, none of it is loaded.
OIDC_ISSUER, OIDC_NAME = env.oidc.issuer, env.oidc.name
OIDC_CLIENT_ID, OIDC_CLIENT_SECRET = env.oidc.client_id, env.oidc.client_secret
OIDC_GROUPS_CLAIM, OIDC_STAFF_GROUP = env.oidc.groups_claim, env.oidc.staff_group
OIDC_SIGNUPS_ALL = bool(OIDC_ISSUER) and env.oidc.signups_all
OIDC_TEAM_GROUPS = env.oidc.team_groups
LOCAL_PASSWORDS = env.local_passwords
DEBUG = False
# On SQLite there is one machine, and usually one process, which runs the worker as well.
WORKER_THREAD = env.database["ENGINE"].endswith("sqlite3")

INSTALLED_APPS = [
    "config.apps.ConfigApp",  # first, because its commands replace those of Django
    "config.apps.StaffSiteApp",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "apps.jobs",
    "apps.idempotency",
    "apps.events",
    "apps.site",
    "apps.accounts",
    "apps.teams",
    "apps.repos",
    "apps.webhooks",
    "apps.statuses",
    "apps.browse",
    "apps.ssh",
    "apps.uploads",
    "apps.threads",
    "apps.pulls",
    "apps.web",
]
MIDDLEWARE = [
    "apps.core.request_log.request_log",
    "config.cross_origin.cross_origin",  # before `api_errors`, because browsers hide other answers
    "apps.core.middleware.api_errors",
    "apps.browse.middleware.reject_early_retries",
    "apps.web.headers.page_headers",
    "django.middleware.security.SecurityMiddleware",
    "config.static.StaticFiles",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "apps.accounts.authentication.session_principal",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
CSRF_FAILURE_VIEW = "apps.web.errors.csrf_failure"
ROOT_URLCONF = "config.urls"
ASGI_APPLICATION = "config.asgi.application"
WSGI_APPLICATION = "config.wsgi.application"
APPEND_SLASH = False
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [ROOT / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

AUTH_USER_MODEL = "accounts.User"
# Sessions name the first one, however they began, so that they last when the second one goes.
AUTHENTICATION_BACKENDS = ["django.contrib.auth.backends.ModelBackend"]
if OIDC_ISSUER:
    AUTHENTICATION_BACKENDS += ["apps.accounts.openid.backend.OpenIdBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
LANGUAGE_CODE = "en-us"
USE_I18N = False
USE_TZ = True
TIME_ZONE = "UTC"
FORMAT_MODULE_PATH = ["config.formats"]
STATIC_URL = "/static/"
STATIC_ROOT = DATA_DIR / "static"
STATIC_ROOT.mkdir(exist_ok=True)
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "config.static.HashedStorage",
        "OPTIONS": {"file_permissions_mode": 0o600},
    },
    "uploads": (
        {"BACKEND": "apps.uploads.bucket.UploadBucket", "OPTIONS": env.uploads_bucket}
        if env.uploads_bucket
        else {
            "BACKEND": "apps.uploads.files.UploadFolder",
            "OPTIONS": {"location": DATA_DIR / "uploads"},
        }
    ),
}
WHITENOISE_USE_FINDERS = True
FILE_UPLOAD_HANDLERS = ["apps.core.files.NoFiles"]
SECURE_CONTENT_TYPE_NOSNIFF = True
SESSION_ENGINE = "apps.accounts.sessions"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = BASE_URL.startswith("https://")
SESSION_COOKIE_AGE = 14 * 86400
SESSION_COOKIE_HTTPONLY = CSRF_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
# Pages of these origins may call the API with a bearer token. The setting for credentials stays
# off: it would let them read what the cookie of a visitor may read.
CORS_ALLOWED_ORIGINS = env.cors_origins
CORS_URLS_REGEX = f"^{PREFIX}/"
CORS_ALLOW_HEADERS = [
    "Authorization",
    "Content-Type",
    "Idempotency-Key",
    "If-None-Match",
    "Last-Event-ID",
]
CORS_EXPOSE_HEADERS = [
    "Allow",
    "Content-Disposition",
    "ETag",
    "Idempotency-Replayed",
    "Location",
    "Retry-After",
    "WWW-Authenticate",
    "X-Ignored-Parameters",
    "X-RateLimit-Limit",
    "X-RateLimit-Remaining",
    "X-RateLimit-Reset",
    "X-RateLimit-Resource",
    "X-Request-Id",
]
# TLS ends at the proxy: the origin that a browser sends is that of BASE_URL, not of the request.
CSRF_TRUSTED_ORIGINS = [origin_of(BASE_URL)] if BASE_URL else []
PASSWORD_RESET_TIMEOUT = 3 * 3600
MESSAGE_STORAGE = "django.contrib.messages.storage.cookie.CookieStorage"

# Parts of higher apps, such as event scopes. Lower apps must not import them.
EVENT_SCOPES = {
    "user": "apps.accounts.scopes.UserEventScope",
    "team": "apps.teams.scopes.TeamEventScope",
    "repo": "apps.repos.scopes.RepoEventScope",
    "thread": "apps.threads.scopes.ThreadEventScope",
    "pull": "apps.threads.scopes.PullEventScope",
}
STREAM_AUTHENTICATION = [
    "apps.accounts.authentication.TokenAuthentication",
    "apps.accounts.authentication.StreamSession",
]
EVENT_BODIES = "apps.pulls.event_bodies.event_bodies"
AFTER_PUSH = ["apps.pulls.pushes"]
# The module that finds pulls for pages and records of code.
PULLS_OF_CODE = "apps.pulls.queries"

# The module that ends and wakes auto-merges for lower apps.
AUTO_MERGES = "apps.pulls.auto_merge"
# The function that stores and replays answers to requests with an Idempotency-Key.
ANSWER_ONCE = "apps.idempotency.replays.answer_once"
# The jobs of the worker, in order of precedence. `every`: seconds between two runs. Without it, a
# job runs as long as there is work, and the jobs below it after that.
JOBS: list[dict[str, Any]] = [
    {"function": "apps.repos.jobs.settle_journals", "every": 30.0},
    {"function": "apps.repos.jobs.point_heads", "every": 30.0},
    {"function": "apps.repos.jobs.sweep_folders", "every": 24 * 3600.0},
    {"function": "apps.repos.purge.purge_deleted", "every": 600.0},
    {"function": "apps.repos.tips.fill_all_tips", "every": 10.0},
    {"function": "apps.browse.pushers.read_all_pushes", "every": 5.0},
    {"function": "apps.uploads.jobs.sweep_uploads", "every": 3600.0},
    {"function": "apps.idempotency.jobs.forget_old_requests", "every": 600.0},
    {"function": "apps.accounts.jobs.delete_expired_sessions", "every": 24 * 3600.0},
    {"function": "apps.accounts.jobs.warn_of_expiring_tokens", "every": 3600.0},
    {"function": "apps.webhooks.jobs.prune_deliveries", "every": 600.0},
    {"function": "apps.events.jobs.prune_audit", "every": 3600.0},
    {"function": "apps.repos.jobs.make_next_fork"},
    {"function": "apps.repos.commits.find_next_commits"},
    {"function": "apps.repos.jobs.tidy_next_repo"},
    {"function": "apps.accounts.jobs.send_next_ping_mail"},
    {"function": "apps.pulls.jobs.try_next_auto_merge"},
    {"function": "apps.pulls.jobs.complete_next_version"},
    {"function": "apps.pulls.jobs.follow_next_comments"},
    {"function": "apps.pulls.jobs.check_next_conflict"},
    {"function": "apps.web.jobs.prepare_next_changes"},
]
# Context managers that are open while the worker runs, for work that is no loop of jobs.
WORKER_CONTEXTS = ["apps.webhooks.dispatch.dispatching"]

# Seconds between two checks whether another process has changed a rate limit.
LIMITS_LOOK = 2.0

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["apps.accounts.authentication.TokenAuthentication"],
    "UNAUTHENTICATED_TOKEN": "apps.accounts.principal.Principal",
    "DEFAULT_THROTTLE_CLASSES": ["apps.site.limits.RecordedThrottle"],
    "DEFAULT_PERMISSION_CLASSES": ["apps.core.access.HasLevel"],
    "DEFAULT_FILTER_BACKENDS": ["apps.core.filters.StrictFilterBackend"],
    "DEFAULT_PAGINATION_CLASS": "apps.core.pagination.PagePagination",
    "DEFAULT_RENDERER_CLASSES": ["apps.core.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["apps.core.parsers.StrictJSONParser"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "apps.core.renderers.IgnoreAcceptNegotiation",
    "DEFAULT_METADATA_CLASS": None,
    "DEFAULT_SCHEMA_CLASS": "apps.core.openapi.OperationSchema",
    "EXCEPTION_HANDLER": "apps.core.renderers.handle_exception",
    "URL_FORMAT_OVERRIDE": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Guildhall",
    "DESCRIPTION": "Teams, git repositories, pull requests, threads and one resumable event feed.",
    "VERSION": "1.1.0",
    "LICENSE": {"name": "Apache 2.0", "identifier": "Apache-2.0"},
    "OAS_VERSION": "3.1.0",
    "SERVERS": [{"url": PREFIX}],
    "SCHEMA_PATH_PREFIX": PREFIX,
    "SCHEMA_PATH_PREFIX_TRIM": True,
    "PATH_CONVERTER_OVERRIDES": path_schemas(),
    "COMPONENT_SPLIT_REQUEST": True,
    "COMPONENT_SPLIT_PATCH": False,
    "SORT_OPERATION_PARAMETERS": False,
    "POSTPROCESSING_HOOKS": [
        "apps.core.openapi.complete_document",
        "config.openapi.hooks.name_words",
        "config.openapi.hooks.add_words_and_examples",
    ],
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
}
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "text": {"()": "config.logs.TextFormatter"},
        "json": {"()": "config.logs.JsonFormatter"},
    },
    "filters": {"request": {"()": "config.logs.RequestId"}},
    "handlers": {
        "stderr": {
            "class": "logging.StreamHandler",
            "formatter": env.log_format,
            "filters": ["request"],
        }
    },
    "root": {"handlers": ["stderr"], "level": "WARNING"},
    # Refusals (4xx) are not logged; Django would log some with a stack trace.
    "loggers": {
        # The log says why a push was refused.
        "apps.repos.http": {"level": "INFO"},
        "apps.ssh.log": {"level": "INFO" if env.access_log else "WARNING"},
        "asyncssh": {"level": "ERROR"},
        "apps.core.request_log": {"level": "INFO" if env.access_log else "WARNING"},
        "django.request": {"level": "ERROR"},
        "django.security": {"level": "CRITICAL"},
    },
}
