"""The page of mra-server in a headless browser: its three parts work, nothing is fetched from elsewhere, no script fails.

    python tests/test_server_page.py BIN [--screenshots FOLDER] [--model FILE]

Talks to chromium by its debugging pipe; exit 77 where there is none.
"""
from __future__ import annotations

import argparse
import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from server_client import Server, wait_until

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    def __init__(self, profile: str):
        to_child, self.write_fd = os.pipe()
        self.read_fd, from_child = os.pipe()

        def inherit():  # the pipe's places: reads 3, writes 4
            a, b = os.dup(to_child), os.dup(from_child)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(
            [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--remote-debugging-pipe",
             f"--user-data-dir={profile}", "--window-size=1000,900", "about:blank"],
            preexec_fn=inherit, close_fds=False, stderr=subprocess.DEVNULL)
        os.close(to_child)
        os.close(from_child)
        self.n, self.buffer, self.events, self.session = 0, b"", [], None
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(domain + ".enable")

    def receive(self) -> dict:
        while b"\0" not in self.buffer:
            data = os.read(self.read_fd, 1 << 20)
            if not data:
                raise RuntimeError("the browser has ended")
            self.buffer += data
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def send(self, method: str, **params) -> dict:
        self.n += 1
        message = {"id": self.n, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_fd, json.dumps(message).encode() + b"\0")
        while True:
            m = self.receive()
            if m.get("id") == self.n:
                if "error" in m:
                    raise RuntimeError(f"{method}: {m['error']}")
                return m["result"]
            self.events.append(m)

    def value(self, script: str):
        r = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in r:
            raise RuntimeError(f"{script}: {r['exceptionDetails']}")
        return r["result"].get("value")

    def screenshot(self, file: Path) -> None:
        file.write_bytes(base64.b64decode(self.send("Page.captureScreenshot", captureBeyondViewport=True)["data"]))

    def dark(self, on: bool) -> None:
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if on else "light"}])

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def check(what: str, good: bool) -> None:
    if not good:
        raise SystemExit(f"FAILED: {what}")


def press(b: Browser, part: str) -> str:
    b.value(f"document.getElementById('tab-{part}').click(); document.getElementById('{part}-go').click()")
    time_of = f"document.getElementById('{part}-time')"
    check(f"{part} is not done", wait_until(lambda: b.value(f"{time_of}.textContent") not in ("", "...")))
    check(f"{part}: {b.value(time_of + '.textContent')}", not b.value(f"{time_of}.classList.contains('error')"))
    return b.value(f"{time_of}.textContent")


def visit(b: Browser, s: Server, folder: Path | None) -> None:
    b.send("Page.navigate", url=f"http://127.0.0.1:{s.port}/")
    check("no models", wait_until(lambda: "tokens" in (b.value("document.getElementById('model')?.textContent") or "")))
    time_text = press(b, "similarity")
    check("no time", "ms" in time_text and "attention exact" in time_text)
    cells = b.value("[...document.querySelectorAll('.heat td')].map(c => [c.textContent, c.style.background])")
    check("a heat map of 5 texts", len(cells) == 25)
    check("its diagonal", all(cells[6 * i][0] == "1.00" for i in range(5)))
    check("its colours", len({c[1] for c in cells}) > 3)
    for dark in (False, True):
        b.dark(dark)
        b.value("document.getElementById('similarity-go').click()")
        time.sleep(0.3)
        paper = b.value("getComputedStyle(document.body).backgroundColor")
        check(f"dark {dark}: {paper}", (paper == "rgb(255, 255, 255)") != dark)
        if folder:
            b.screenshot(folder / f"similarity-{'dark' if dark else 'light'}.png")
    b.dark(False)
    press(b, "search")
    check("4 hits", b.value("document.querySelectorAll('#search-out li').length") == 4)
    scores = b.value("[...document.querySelectorAll('#search-out b')].map(x => +x.textContent)")
    check("best first", scores == sorted(scores, reverse=True))
    if folder:
        b.screenshot(folder / "search.png")
    press(b, "tokens")
    check("tokens", b.value("document.querySelectorAll('#tokens-out span').length") > 4)
    check("special tokens", b.value("document.querySelectorAll('#tokens-out .special').length") == 2)
    if folder:
        b.screenshot(folder / "tokens.png")
    b.value("document.getElementById('tokens-text').value = '<img src=x onerror=alert(1)>'")
    press(b, "tokens")
    check("text is text", b.value("document.querySelectorAll('#tokens-out img').length") == 0)


def check_events(b: Browser, s: Server, n_refused: int) -> None:
    urls = [e["params"]["request"]["url"] for e in b.events if e["method"] == "Network.requestWillBeSent"]
    outside = [u for u in urls if not u.startswith((f"http://127.0.0.1:{s.port}/", "data:"))]
    check(f"fetched from elsewhere: {outside}", not outside)
    bad = [e for e in b.events if e["method"] == "Runtime.exceptionThrown"]
    bad += [e for e in b.events if e["method"] == "Log.entryAdded" and e["params"]["entry"]["level"] == "error"]
    check(f"script errors: {bad}", len(bad) == n_refused)
    b.events.clear()


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("bin")
    p.add_argument("--screenshots", type=Path)
    p.add_argument("--model")
    o = p.parse_args()
    if not CHROMIUM:
        print("skipped: no chromium")
        sys.exit(77)
    models = (o.model,) if o.model else ("bert.gguf", "xlm-roberta.gguf")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        b = Browser(profile)
        try:
            with Server(o.bin, models=models) as s:
                visit(b, s, o.screenshots)
                check_events(b, s, 0)
            with Server(o.bin, "--api-key", "secret", models=models) as s:
                b.send("Page.navigate", url=f"http://127.0.0.1:{s.port}/")
                check("asks for a key", wait_until(lambda: b.value("document.getElementById('key-box')?.open")))
                b.value("const k = document.getElementById('key'); k.value = 'secret'; k.dispatchEvent(new Event('change'))")
                check("takes the key", wait_until(lambda: "tokens" in b.value("document.getElementById('model').textContent")))
                press(b, "search")
                check_events(b, s, 1)  # the one without a key
        finally:
            b.close()
    print("the page works")


if __name__ == "__main__":
    main()
