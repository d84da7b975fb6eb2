"""The lines that README.md and docs/mcp.md give to be pasted."""

import re

from processes import ROOT

README = ROOT / "README.md"
MCP = ROOT / "docs/mcp.md"
# What whoever pastes them puts in place of.
CONFIG, SERVER, KEY, HERE = "/home/me/adjutant.toml", "https://adjutant.example", "adj_...", "http://127.0.0.1:7433"


def snippets(page, title):
    """The blocks of code under the words in bold that begin with a title, up to the next such words."""
    parts = re.split(r"^\*\*(.+?)\*\*", page.read_text(), flags=re.MULTILINE)
    [text] = [text for name, text in zip(parts[1::2], parts[2::2]) if name.startswith(title)]
    found = re.findall(r"^```\w+\n(.*?)^```", text.split("\n## ")[0], flags=re.MULTILINE | re.DOTALL)
    assert found, f"{page}: no code under {title}"
    return found


def pasted(text, config="", server="", key=""):
    """With what is one's own put in."""
    for placeholder, own in ((CONFIG, config), (SERVER, server), (HERE, server), (KEY, key)):
        text = text.replace(placeholder, str(own) if own else placeholder)
    return text
