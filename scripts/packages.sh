# Sourced by the scripts that set something up; they say in `by_hand` what to do where this cannot.

# Installs packages of the distribution, as root or by sudo.
apt_install() { # packages
    [ $# -gt 0 ] || return 0
    command -v apt-get >/dev/null || by_hand "these packages are missing, and there is no apt-get: $*"
    echo "$(basename "$0" .sh): installing $*"
    apt_lists "$*"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
}

# Unpacks a package of the distribution into a folder, and installs nothing.
apt_unpack() { # package, folder
    command -v apt-get >/dev/null && command -v dpkg >/dev/null ||
        by_hand "$1 is missing, and there is no apt-get"
    echo "$(basename "$0" .sh): fetching $1"
    # A fresh machine does not know yet what there is.
    (cd "$2" && apt-get download -qq "$1" 2>/dev/null) || {
        apt_lists "$1"
        (cd "$2" && apt-get download -qq "$1")
    }
    (cd "$2" && dpkg -x ./*.deb .)
}

# apt-get with lists of its own in this folder, and not the machine's: for sources of packages. Of the
# machine's it takes the mirrors, the keys and the proxies. DEB-SRC lines are in the folder's parts/.
apt_apart() { # folder, apt-get or apt-cache, arguments
    local folder=$1
    mkdir -p "$folder/parts" "$folder/lists/partial" "$folder/cache/archives/partial"
    cat >"$folder/apt.conf" <<CONF
#clear APT::Update;
APT::Update::Error-Mode "any";
APT::Sandbox::User "$(id -un)";
Dir::Etc::SourceList "/dev/null";
Dir::Etc::SourceParts "$folder/parts";
Dir::State::Lists "$folder/lists";
Dir::Cache "$folder/cache";
CONF
    "$2" --config-file "$folder/apt.conf" "${@:3}"
}

# Lines of sources.list for suites of Debian, on the mirrors from which the machine has its own.
debian_suites() { # deb or deb-src, suites
    local codename key=/usr/share/keyrings/debian-archive-keyring.gpg suite mirror signed=
    codename=$(. /etc/os-release && [ "$ID" = debian ] && echo "${VERSION_CODENAME:-sid}") || return 0
    [ ! -e $key ] || signed="[signed-by=$key] "
    for suite in "${@:2}"; do
        mirror=$(apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' 'Component: main' |
            awk -v own="$codename" -v kind="$([[ $suite != *-security ]] || echo -security)" \
                '$1 == own kind || kind == "" && $1 ~ /^(stable|testing|sid)$/ { print $2; exit }')
        [ -z "$mirror" ] || echo "$1 $signed$mirror $suite main"
    done
}

# Makes a new Debian without services in ROOTS, once for a user, and prints its file.
roots=${XDG_CACHE_HOME:-$HOME/.cache}/dlock/roots
debian_root() { # suite, architecture
    local kept=$roots/$1-$2.tar folder
    [ -f "$kept" ] || {
        echo "$(basename "$0" .sh): making a root of $1 for $2" >&2
        folder=$(mktemp -d)
        # The certificates of this machine: its mirror may be behind a proxy.
        debootstrap --variant=minbase --include=ca-certificates --arch="$2" "$1" "$folder" >"$folder.log" ||
            { tail "$folder.log" >&2; return 1; }
        rm "$folder.log"
        # Packages start no service.
        printf '#!/bin/sh\nexit 101\n' >"$folder/usr/sbin/policy-rc.d"
        chmod +x "$folder/usr/sbin/policy-rc.d"
        chmod 755 "$folder"
        mkdir -p "$roots"
        tar --create --file "$kept.part" --directory "$folder" .
        mv "$kept.part" "$kept"
        rm -rf "$folder"
    }
    echo "$kept"
}

# Installs what is in packaging/checks.txt, once for a user.
checks=${XDG_CACHE_HOME:-$HOME/.cache}/dlock/checks
install_checks() {
    ! cmp -s packaging/checks.txt "$checks/checks.txt" || return 0
    echo "$(basename "$0" .sh): fetching what packaging/checks.txt names"
    python3 -c 'import ensurepip, venv' 2>/dev/null || apt_install python3-venv
    rm -rf "$checks"
    python3 -m venv "$checks"
    "$checks/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary=:all: \
        --requirement packaging/checks.txt
    cp packaging/checks.txt "$checks/checks.txt"
}

apt_lists() { # what for
    [ "$(id -u)" = 0 ] || command -v sudo >/dev/null ||
        by_hand "these packages are missing, and there is neither root nor sudo: $1"
    as_root apt-get update -qq
}

as_root() { # command
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}
