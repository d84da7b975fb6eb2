"""The snippets of README.md and docs/connect.md that a reader pastes."""

import re

from processes import ROOT

README = ROOT / "README.md"
CONNECT = ROOT / "docs/connect.md"
# Placeholders that the reader replaces with values of their own.
CONFIG, SERVER, KEY, HERE = "/home/me/adjutant.toml", "https://adjutant.example", "adj_...", "http://127.0.0.1:7433"


def section(page, title):
    """The text under a heading, up to the next heading of the same level."""
    return page.read_text().split(f"\n## {title}\n")[1].split("\n## ")[0]


def blocks(text):
    """The language and the text of each block of code. A final backslash joins two lines."""
    found = re.findall(r"^```(\w*)\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    return [(language, code.replace("\\\n", "")) for language, code in found]


def block(text, language, words):
    """The one block of this language that contains these words."""
    [found] = [code for name, code in blocks(text) if name == language and words in code]
    return found


def snippets(page, title):
    """The blocks of code after the bold words that start with a title, up to the next bold words or
    heading."""
    parts = re.split(r"^\*\*(.+?)\*\*", page.read_text(), flags=re.MULTILINE)
    [text] = [text for name, text in zip(parts[1::2], parts[2::2]) if name.startswith(title)]
    found = [code for _, code in blocks(text.split("\n## ")[0])]
    assert found, f"{page}: no code under {title}"
    return found


def pasted(text, config="", server="", key=""):
    """The text with the placeholders replaced."""
    for placeholder, own in ((CONFIG, config), (SERVER, server), (HERE, server), (KEY, key)):
        text = text.replace(placeholder, str(own) if own else placeholder)
    return text
