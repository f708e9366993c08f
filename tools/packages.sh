# shellcheck shell=bash
# packages.sh - sourced by ./run and ./test: finds what is missing and installs it, saying so first.
# On Debian and its relatives packages are looked up and installed; elsewhere only commands and
# libraries are looked up, and what is missing is named.

# shellcheck source=tools/progress.sh
. "$(dirname "${BASH_SOURCE[0]}")/progress.sh"

build_packages=(gcc libc6-dev meson ninja-build pkg-config libsqlite3-dev libssl-dev
        libutf8proc-dev libyaml-dev libuv1-dev libcurl4-openssl-dev libedit-dev
        libmicrohttpd-dev libgnutls28-dev zlib1g-dev libwslay-dev libpq-dev)
build_commands=(cc meson ninja pkg-config)
build_libraries=('sqlite3 >= 3.40' 'libcrypto >= 3.0' 'libutf8proc >= 2.5' 'yaml-0.1 >= 0.2'
        'libuv >= 1.40' 'libcurl >= 7.87' 'libedit >= 3.1' 'libmicrohttpd >= 0.9.75'
        'gnutls >= 3.6' 'zlib >= 1.2.11')

# Bring the vocabularies. Without them the build goes on, and tokens are only estimated.
vocab_packages=(nodejs npm)

fail()
{
    echo "$0: $*" >&2
    exit 1
}

# Prints the packages of "$@" that are not installed.
packages_missing()
{
    local have name
    # It fails when it does not know one of them.
    have=$(dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' "$@" 2>/dev/null || true)
    have=$(sed -n 's/^ii *//p' <<<"$have")
    for name in "$@"; do
        grep -qxF "$name" <<<"$have" || echo "$name"
    done
}

as_root()
{
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}

packages_install()
{
    if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
        echo "packages are missing, and this is neither root nor is there sudo. As root, run:" >&2
        echo "    apt-get update && apt-get install -y --no-install-recommends $*" >&2
        exit 1
    fi
    echo "installing with apt-get: $*"
    as_root apt-get update -qq </dev/null || echo "apt-get update failed; going on without" >&2
    # The pipe's status is that of apt-get, because its readers do not fail.
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
            -o APT::Status-Fd=1 "$@" </dev/null | progress_of_apt ||
            fail "apt-get could not install: $*"
}

# Makes sure that the Debian packages "$@" are there.
packages_need()
{
    local missing
    mapfile -t missing < <(packages_missing "$@")
    [ ${#missing[@]} = 0 ] || packages_install "${missing[@]}"
}

# Installs PostgreSQL without the server that its package would create and start: tools/pg-test
# starts its own.
postgres_need()
{
    local config=/etc/postgresql-common/createcluster.conf
    [ -n "$(packages_missing postgresql)" ] || return 0
    packages_need postgresql-common
    as_root sed -i 's/^#* *create_main_cluster *=.*/create_main_cluster = false/' "$config"
    packages_need postgresql
}

# Unpacks the packages "$2"... into the directory $1, with the packages that they need and that are
# not installed. Installing them would start their services; only libraries are installed. If they
# cannot be had, the directory does not exist afterwards.
packages_unpack()
{
    local dir=$1 name downloads
    local -a names
    [ ! -d "$dir" ] || return 0
    shift
    echo "unpacking $* into $dir"
    mapfile -t names < <(apt-get install -s --no-install-recommends "$@" 2>/dev/null |
            sed -n 's/^Inst \([^ ]*\) .*/\1/p')
    for name in "${names[@]}"; do
        case $name in lib*) packages_need "$name" ;; esac
    done
    downloads=$(mktemp -d)
    chmod 755 "$downloads"
    if (cd "$downloads" && apt-get download -qq "${names[@]}") 2>/dev/null; then
        mkdir -p "$dir.new"
        for name in "$downloads"/*.deb; do dpkg -x "$name" "$dir.new"; done
        mv "$dir.new" "$dir"
    else
        echo "apt-get could not download $*; their tests are skipped"
    fi
    rm -rf "$downloads"
}

node_is_there()
{
    command -v node >/dev/null && command -v npm >/dev/null &&
            [ "$(node -p 'process.versions.node.split(".")[0] >= 18')" = true ]
}

# Installs Node and npm if they are missing and can be had. Fails if they are still missing.
node_want()
{
    if node_is_there; then return; fi
    if is_debian; then (packages_need "${vocab_packages[@]}"); fi
    node_is_there
}

# Installs Chromium if it is missing and can be had. Fails if it is still missing.
chromium_want()
{
    [ -x /usr/bin/chromium ] || (packages_need chromium fonts-liberation)
    [ -x /usr/bin/chromium ]
}

is_debian()
{
    command -v dpkg-query >/dev/null && command -v apt-get >/dev/null
}

# Elsewhere: goes on if the commands "$@" and the libraries are there, else names what isn't.
commands_need()
{
    local missing=() name
    for name in "$@"; do
        command -v "$name" >/dev/null || missing+=("$name")
    done
    for name in "${build_libraries[@]}"; do
        pkg-config --exists "$name" 2>/dev/null || missing+=("$name (library and headers)")
    done
    [ ${#missing[@]} = 0 ] && return
    echo "this is not a Debian system, so nothing is installed for you. Still needed:" >&2
    printf '    %s\n' "${missing[@]}" >&2
    echo "On Debian they are the packages: ${build_packages[*]}" >&2
    exit 1
}
