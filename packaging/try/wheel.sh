# The wheel, into an empty environment, without an index.
. /try/first_answer.sh

python3 -m venv /work
/work/bin/pip install --quiet --no-index --disable-pip-version-check /packages/hapax-*.whl
/work/bin/hapax --version
/work/bin/python -c 'import hapax; print(hapax.__version__)'
first_answer /work/bin/hapax
/work/bin/pip uninstall --quiet --yes hapax
[ ! -e /work/bin/hapax ]
