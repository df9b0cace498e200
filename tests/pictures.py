"""Make the pictures of the README: an HTML report as PNG, `kschedctl browse` as SVG.

``python tests/pictures.py`` makes them of the demo cluster; it needs Playwright, a Chromium and Textual. Tests only
look whether the README shows what is there.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PICTURES = ROOT / "kschedctl" / "cli" / "topics" / "pictures"
REPORT, BROWSE = PICTURES / "report.png", PICTURES / "browse.svg"
POD = "shop/cart-5f7b8c9d4-zr5mt"
WINDOW = {"width": 1100, "height": 720}
SCREEN = (110, 34)
FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def photograph_report() -> None:
    """Take a picture of the HTML report."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only whoever makes pictures needs it

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_file = Path(folder) / "report.html"
        command = [sys.executable, "-m", "kschedctl", "explain", POD, "--demo", "-o", "html"]
        with page_file.open("wb") as file:
            subprocess.run(command, stdout=file, check=False, cwd=ROOT, env={**os.environ, "NO_COLOR": "1"})
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport=WINDOW, color_scheme="light")
        page.goto(page_file.as_uri())
        page.screenshot(path=REPORT)
        browser.close()


def photograph_browse() -> None:
    """Take a picture of the browser in the terminal."""
    sys.path.insert(0, str(ROOT / "tests" / "commands" / "browse"))
    from driven_browser import drive, start_demo_session  # noqa: PLC0415 - only whoever makes pictures needs Textual

    async def keep(browser: Any, pilot: Any) -> None:
        picture = browser.export_screenshot(title="kschedctl browse --demo")
        BROWSE.write_text(FONT.sub("", picture))  # the reader's own monospace font; nothing is fetched

    drive(start_demo_session(), keep, SCREEN)


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    photograph_report()
    photograph_browse()
