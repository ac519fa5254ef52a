# Sourced by the commands here: an environment out of nothing, as root on Debian with nothing but
# python3, and functions that they share.
export PATH="${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}"
export CI="${CI:-true}" # what is missing here fails, and is not skipped
export HOME="${HOME:-/root}" LC_ALL="${LC_ALL:-C.UTF-8}"
PYTHON="${PYTHON:-python3}"
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '== %s\n' "$*"; }

install_missing() {
  local missing=()
  command -v make >/dev/null || missing+=(make)
  "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
  command -v chromium >/dev/null || missing+=(chromium)
  command -v chromedriver >/dev/null || missing+=(chromium-driver)
  [ ${#missing[@]} -gt 0 ] || return 0
  say "install ${missing[*]}"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -qq -y "${missing[@]}" >/dev/null
}
