"""The page of mra-inspect in a headless browser: its parts are there, a hostile text stays a text, no script fails, nothing is fetched.

    python tests/test_inspect_page.py BIN [--screenshots FOLDER] [--page FILE]

Exit 77 where there is no chromium.
"""
from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from server_client import wait_until
from test_server_page import CHROMIUM, Browser, check

MODELS = Path(__file__).resolve().parent / "golden" / "models"
HOSTILE = "first </script><script>document.title='broken'</script> <img src=x onerror=\"document.title='broken'\"> &lt; <!-- last"


def make(folder: str, bin_folder: str, name: str, text: str, *options: str) -> Path:
    page = Path(folder) / name
    subprocess.run([Path(bin_folder) / "mra-inspect", "-t", "1", "-m", MODELS / "roberta.gguf", text, "-o", page, *options], check=True)
    return page


def visit(b: Browser, page: Path) -> None:
    b.events.clear()
    b.send("Page.navigate", url=page.as_uri())
    check(f"{page}: its script did not end", wait_until(lambda: b.value("document.documentElement?.dataset.ready") == "yes"))


def check_events(b: Browser, page: Path) -> None:
    bad = [e for e in b.events if e["method"] == "Runtime.exceptionThrown" or (e["method"] == "Log.entryAdded" and e["params"]["entry"]["level"] == "error")]
    check(f"script errors: {bad}", not bad)
    urls = [e["params"]["request"]["url"] for e in b.events if e["method"] == "Network.requestWillBeSent"]
    check(f"fetched: {urls}", all(u == page.as_uri() for u in urls))


def check_parts(b: Browser, page: Path) -> None:
    visit(b, page)
    n = b.value("d.n")
    check("a token for each", b.value("document.querySelectorAll('#text span').length") == n)
    check("a picture for each head", b.value("thumbs.length") == b.value("d.n_layer * d.n_head") > 0)
    check("facts", b.value("document.querySelectorAll('.fact').length") == 6)
    check("times", b.value("document.querySelectorAll('#parts .bar').length") >= 3)
    check("colours", b.value("new Set(pixels[0]).size") > 3)
    corner = "[...document.getElementById('big').getContext('2d').getImageData(0, 0, 1, 1).data].join()"
    light = b.value(corner)
    b.dark(True)
    check("dark pictures", wait_until(lambda: b.value(corner) != light))
    b.dark(False)
    b.value("document.querySelectorAll('#thumbs button')[1].click()")
    check("a head can be chosen", "head 1" in b.value("document.getElementById('numbers').textContent"))
    b.value("document.getElementById('big').dispatchEvent(new PointerEvent('pointermove', { clientX: document.getElementById('big').getBoundingClientRect().left + 3, "
            "clientY: document.getElementById('big').getBoundingClientRect().top + 3 }))")
    check("what is under the pointer", "times the average" in b.value("document.getElementById('at').textContent"))
    b.send("Emulation.setDeviceMetricsOverride", width=360, height=800, deviceScaleFactor=1, mobile=True)
    check("wider than a phone", b.value("document.documentElement.scrollWidth") <= 360)
    b.send("Emulation.clearDeviceMetricsOverride")
    check_events(b, page)


def check_hostile(b: Browser, page: Path) -> None:
    visit(b, page)
    check("the text breaks out", b.value("document.title") != "broken" and b.value("document.images.length") == 0)
    check("the text is another", HOSTILE == b.value("[...document.querySelectorAll('#text span:not(.special)')].map(s => s.textContent).join('')"))
    check_events(b, page)


def screenshots(b: Browser, page: Path, folder: Path) -> None:
    for name, width, dark in (("light", 1100, False), ("dark", 1100, True), ("phone", 390, False)):
        b.send("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500)
        b.dark(dark)
        visit(b, page)
        b.screenshot(folder / f"inspect-{name}.png")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("bin")
    parser.add_argument("--screenshots", type=Path)
    parser.add_argument("--page", type=Path, help="for the screenshots; default: a small one")
    args = parser.parse_args()
    if not CHROMIUM:
        print("skipped: no chromium")
        sys.exit(77)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        b = Browser(folder)
        try:
            words = " ".join(f"word {i} of the long text" for i in range(12))
            page = make(folder, args.bin, "page.html", words, "--truncate", "right", "--attn", "mra", "--frame", "mra2", "--budget", "1/2")
            check_parts(b, page)
            check_hostile(b, make(folder, args.bin, "hostile.html", HOSTILE, "--truncate", "right"))
            if args.screenshots:
                screenshots(b, (args.page or page).resolve(), args.screenshots)
        finally:
            b.close()
    print("inspect page: good")


if __name__ == "__main__":
    main()
