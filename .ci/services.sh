# Sourced by .ci/run: finds PostgreSQL and Redis running here, else starts what is installed in a
# temporary folder, else installs Debian's packages and starts those.
#
# have_postgres [URL]   sets `database`, the URL of a new database with a name of its own
# have_redis            sets `redis`, for the tests that need one
# stop_services         drops the database, ends what was started here and removes the folder
#
# GUILDHALL_CI_OWN_SERVICES=1 passes over what is running.

folder=$(mktemp -d -t guildhall-ci.XXXXXX)
name=guildhall_ci_${EPOCHSECONDS}_$$
started=()
server=
database=
redis=

have_postgres() {
    local url
    for url in "${1:-}" postgres:///postgres postgres://postgres@127.0.0.1/postgres; do
        [[ $url == postgres* && -z ${GUILDHALL_CI_OWN_SERVICES:-} ]] || continue
        use_server "$url" && return
    done
    start_postgres "$(postgres_programs)"
}

# The newest installed programs; those of the distribution, since PATH may hold mere wrappers.
postgres_programs() {
    local found
    found=$(ls -d /usr/lib/postgresql/*/bin /usr/pgsql-*/bin 2>/dev/null | sort -V | tail -n 1)
    [[ -n $found ]] || found=$(dirname "$(command -v postgres || echo missing/postgres)")
    if [[ ! -x $found/initdb ]]; then
        install_packages postgresql >&2
        found=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
    fi
    echo "$found"
}

start_postgres() {
    echo "PostgreSQL: starting $1/postgres"
    local data=$folder/postgres owner
    mkdir "$data"
    # PostgreSQL refuses to run as root.
    if [[ $EUID -eq 0 ]]; then
        owner=$(id -u postgres 2>/dev/null || id -u nobody)
        chmod 711 "$folder"
        chown "$owner" "$data"
    fi
    (become "${owner:-}" "$data" "$1/initdb" -D "$data/cluster" -U guildhall --auth=trust \
        --encoding=UTF8 --locale=C.UTF-8 --no-sync) >"$folder/initdb.log" ||
        { cat "$folder/initdb.log"; return 1; }
    become "${owner:-}" "$data" "$1/postgres" -D "$data/cluster" -k "$data" \
        -c listen_addresses= -c fsync=off -c max_connections=200 >"$folder/postgres.log" 2>&1 &
    started+=($!)
    local url=postgres://guildhall@${data//\//%2F}/postgres
    await answers "$url" || { cat "$folder/postgres.log"; return 1; }
    use_server "$url"
}

# become UID FOLDER COMMAND…: turns this (sub)shell into the command, there, run by that user; by
# oneself where the number is empty.
become() {
    local user=$1
    export LC_ALL=C.UTF-8 HOME=$2
    cd "$2"
    shift 2
    [[ -z $user ]] || set -- setpriv --reuid="$user" --regid="$(id -g "$user")" --clear-groups "$@"
    exec "$@"
}

# Makes our database there; says why not in one line, without the URL, which may hold a password.
use_server() {
    .venv/bin/python - "$1" "$name" <<'PYTHON' || return
import sys
import psycopg
try:
    with psycopg.connect(sys.argv[1], autocommit=True, connect_timeout=3) as connection:
        version = connection.info.server_version // 10000
        if version < 14:
            sys.exit(f"PostgreSQL: {version} is running, 14 or later is needed")
        connection.execute(f"CREATE DATABASE {sys.argv[2]} TEMPLATE template0 ENCODING 'UTF8'")
        print(f"PostgreSQL: {version} is running, {sys.argv[2]} is made")
except psycopg.Error as error:
    sys.exit(f"PostgreSQL: {' '.join(str(error).split())}")
PYTHON
    server=$1
    local plain=${server%%\?*}
    database=${plain%/*}/$name${server#"$plain"}
}

answers() {
    .venv/bin/python -c 'import psycopg, sys; psycopg.connect(sys.argv[1], connect_timeout=3).close()' \
        "$1" 2>/dev/null
}

# A test run that was broken off leaves databases named after ours.
drop_databases() {
    .venv/bin/python - "$server" "$name" <<'PYTHON'
import sys
import psycopg
with psycopg.connect(sys.argv[1], autocommit=True) as connection:
    found = connection.execute(
        "SELECT datname FROM pg_database WHERE strpos(datname, %s) > 0", [sys.argv[2]]
    )
    for (name,) in found.fetchall():
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
PYTHON
}

have_redis() {
    if [[ -z ${GUILDHALL_CI_OWN_SERVICES:-} ]] && pongs 6379; then
        echo "Redis: one is running"
        redis=redis://127.0.0.1:6379/0
        return
    fi
    local program port
    program=$(command -v redis-server || command -v valkey-server || true)
    if [[ -z $program ]]; then
        install_packages redis-server
        program=$(command -v redis-server)
    fi
    port=$(.venv/bin/python -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    echo "Redis: starting $program on port $port"
    "$program" --bind 127.0.0.1 --port "$port" --dir "$folder" --save '' >"$folder/redis.log" 2>&1 &
    started+=($!)
    await pongs "$port" || { cat "$folder/redis.log"; return 1; }
    redis=redis://127.0.0.1:$port/0
}

pongs() {
    local answer
    exec 3<>"/dev/tcp/127.0.0.1/$1" || return 1
    printf 'PING\r\n' >&3
    read -r -t 3 -u 3 answer || true
    exec 3>&-
    [[ $answer == +PONG* ]]
} 2>/dev/null

# await COMMAND…: until it succeeds, for two minutes at most.
await() {
    local turn
    for turn in {1..400}; do
        "$@" && return
        sleep 0.3
    done
    echo "waited in vain for: $1"
    return 1
}

install_packages() {
    local as_root=()
    [[ $EUID -eq 0 ]] || as_root=(sudo -n)
    echo "installing $*"
    "${as_root[@]}" apt-get update
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install --yes --no-install-recommends "$@"
}

stop_services() {
    local pid
    [[ -z $database ]] || drop_databases || true
    for pid in "${started[@]}"; do
        # INT: PostgreSQL then waits for nobody; Redis takes it as the end too.
        kill -INT "$pid" 2>/dev/null || true
        wait "$pid" || true
    done
    rm -rf "$folder"
}
