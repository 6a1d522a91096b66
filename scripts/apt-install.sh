#!/bin/sh
# Installs Debian packages, as root, without starting the services they bring: the tests start their own.
# A policy-rc.d that is already there is the administrator's and stays as it is.
set -eu

policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  trap 'rm -f "$policy"' EXIT
  trap 'exit 130' INT TERM HUP
  # It says no only as long as this script lives, so that one left behind by a kill does no harm.
  printf '#!/bin/sh\nkill -0 %s 2>/dev/null && exit 101\nexit 0\n' "$$" >"$policy"
  chmod 755 "$policy"
fi

export DEBIAN_FRONTEND=noninteractive
apt="apt-get -qq -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0"
install() { $apt install -y --no-install-recommends "$@" >/dev/null; }

# Lists may be missing, or name versions that the archive has replaced.
if ! apt-cache show "$@" >/dev/null 2>&1; then $apt update; fi
install "$@" || { $apt update && install "$@"; }
