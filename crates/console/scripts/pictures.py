#!/usr/bin/env python3
"""Takes pictures of pages of the console in Chromium, at two widths and in two themes.

    python3 pictures.py LINK FOLDER /console/evidence /console/runs

LINK signs in (`hapax dev` prints one), or is any page of the `over_http` example. It prints what is wider than the window.
"""
import base64
import json
import os
import re
import subprocess
import sys
import urllib.request

LOOKS = [(1440, 900, "light"), (1440, 900, "dark"), (390, 844, "light"), (390, 844, "dark")]
link, folder, pages = sys.argv[1], sys.argv[2], sys.argv[3:]
only = os.environ.get("LOOKS")
os.makedirs(folder, exist_ok=True)
origin = re.match(r"https?://[^/]+", link).group()
driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
port = next(match.group(1) for line in driver.stdout if (match := re.search(r"on port (\d+)\.", line)))
session = ""


def ask(path, body=None, method="POST"):
    data = json.dumps(body or {}).encode() if method == "POST" else None
    request = urllib.request.Request(f"http://127.0.0.1:{port}{session}{path}", data=data, method=method,
                                     headers={"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)["value"]


try:
    options = {"args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--lang=en-GB"]}
    made = ask("/session", {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}})
    session = f"/session/{made['sessionId']}"
    ask("/url", {"url": link})
    for width, height, theme in LOOKS:
        if only and f"{width}-{theme}" not in only.split(","):
            continue
        cdp = lambda cmd, params: ask("/goog/cdp/execute", {"cmd": cmd, "params": params})
        cdp("Emulation.setDeviceMetricsOverride", {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 800})
        cdp("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": theme}]})
        for page in pages:
            ask("/url", {"url": origin + page})
            over = ask("/execute/sync", {"script": "return document.documentElement.scrollWidth - innerWidth", "args": []})
            if over > 0:
                print(f"{page} is {over} pixels wider than {width}")
            size = ask("/execute/sync", {"script": "return document.documentElement.scrollHeight", "args": []})
            clip = {"x": 0, "y": 0, "width": width, "height": min(max(size, height), 2600), "scale": 1}
            shot = cdp("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
            name = re.sub(r"[^A-Za-z0-9]+", "-", page.removeprefix("/console")).strip("-") or "home"
            with open(os.path.join(folder, f"{name[:60]}-{width}-{theme}.png"), "wb") as file:
                file.write(base64.b64decode(shot["data"]))
finally:
    if session:
        ask("", method="DELETE")
    driver.terminate()
