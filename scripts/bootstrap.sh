# Sourced by the other scripts: changes to the root of the checkout and installs tox in a private virtual environment.
set -eu
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "Python 3.11 or newer is needed, found $("$python" --version 2>&1): set PYTHON=/path/to/python3.11" >&2
    exit 1
}
if [ ! -x .venv-tox/bin/tox ]; then
    echo "Preparing a private virtual environment in .venv-tox ..." >&2
    "$python" -m venv .venv-tox || {
        echo "python -m venv failed: on Debian and Ubuntu install the package python3-venv" >&2
        rm -rf .venv-tox
        exit 1
    }
    .venv-tox/bin/python -m pip install --quiet --disable-pip-version-check "tox>=4.11"
fi
