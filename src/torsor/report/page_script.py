"""The script of the report page, and the hash by which a browser runs it and no other."""

import base64
import hashlib
from importlib import resources

from markupsafe import Markup

PARTS = ("table_order.js", "hover.js", "page_start.js")


def page_script() -> tuple[Markup, str]:
    """The script as it stands in the page, and its source expression for the Content-Security-Policy."""
    folder = resources.files("torsor.report")
    text = "\n" + "\n".join((folder / part).read_text(encoding="utf-8") for part in PARTS)
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return Markup(text), f"sha256-{digest}"
