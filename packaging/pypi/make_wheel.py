"""Makes a wheel that carries the hapax program and the Python SDK. Needs nothing but Python itself.

usage: make_wheel.py VERSION PLATFORM_TAG PROGRAM README LICENSE... OUTPUT_FOLDER
"""

import base64
import hashlib
import os
import sys
import time
import zipfile

METADATA = """\
Metadata-Version: 2.1
Name: hapax
Version: {version}
Summary: Durable workflows whose effects happen once: the hapax command, and workflows in Python
License: MIT OR Apache-2.0
Requires-Python: >=3.10
Description-Content-Type: text/markdown

{readme}"""

SDK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../sdk/python/src")

WHEEL = """\
Wheel-Version: 1.0
Generator: hapax xtask dist
Root-Is-Purelib: false
Tag: py3-none-{tag}
"""


def main(version, tag, program, readme, *rest):
    licences, folder = rest[:-1], rest[-1]
    info = f"hapax-{version}.dist-info"
    read = lambda path: open(path, "rb").read()
    text = read(readme).decode()
    # Scripts in a wheel's data folder are put beside python, so that `hapax` is the program itself and no Python starts.
    files = [(f"hapax-{version}.data/scripts/hapax", read(program), 0o755)]
    files += [(name, read(os.path.join(SDK, name)), 0o644) for name in sdk_files()]
    files += [(f"{info}/licenses/{os.path.basename(path)}", read(path), 0o644) for path in licences]
    files += [
        (f"{info}/METADATA", METADATA.format(version=version, readme=text).encode(), 0o644),
        (f"{info}/WHEEL", WHEEL.format(tag=tag).encode(), 0o644),
    ]
    record = [f"{name},sha256={digest(data)},{len(data)}" for name, data, _ in files] + [f"{info}/RECORD,,"]
    files.append((f"{info}/RECORD", ("\n".join(record) + "\n").encode(), 0o644))

    # The same files make the same wheel.
    moment = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), 315532800))[:6]
    path = os.path.join(folder, f"hapax-{version}-py3-none-{tag}.whl")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for name, data, mode in files:
            entry = zipfile.ZipInfo(name, moment)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
    print(path)


def sdk_files():
    """The modules of the package `hapax`, which are the same for every platform."""
    for folder, folders, names in os.walk(os.path.join(SDK, "hapax")):
        folders.sort()
        for name in sorted(names):
            if name.endswith(".py") or name == "py.typed":
                yield os.path.relpath(os.path.join(folder, name), SDK)


def digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    main(*sys.argv[1:])
