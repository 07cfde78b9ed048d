"""Foreign HTML made harmless: known elements and attributes are written anew, everything else is left out.

Notebooks hold what their outputs and their authors put there. Scripts, event handlers, frames, forms and whatever is
fetched from elsewhere do not survive, and unbalanced elements cannot reach beyond the piece they stand in.
"""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser

_TEXT = ("a", "abbr", "b", "br", "code", "del", "em", "i", "ins", "kbd", "mark", "q", "s", "samp", "small", "span")
_MORE_TEXT = ("strong", "sub", "sup", "tt", "u", "var", "img")
_BLOCKS = ("blockquote", "details", "div", "figcaption", "figure", "hr", "p", "pre", "summary")
_LISTS = ("dd", "dl", "dt", "li", "ol", "ul", "h1", "h2", "h3", "h4", "h5", "h6")
_TABLES = ("caption", "col", "colgroup", "table", "tbody", "td", "tfoot", "th", "thead", "tr")
_TAGS = frozenset((*_TEXT, *_MORE_TEXT, *_BLOCKS, *_LISTS, *_TABLES))
_MOST_UNCLOSED = 1000
_EMPTY = frozenset(("br", "col", "hr", "img"))
# What stands in these is not text for people.
_UNSEEN = frozenset(("script", "style", "title", "textarea", "template", "noscript", "iframe", "object", "svg", "math"))
_PLAIN = frozenset(("alt", "colspan", "rowspan", "start", "width", "height", "title", "open"))
_ADDRESS = re.compile(r"(https?://|mailto:)", re.IGNORECASE)
_PICTURE = re.compile(r"data:image/(png|jpeg|gif|webp|svg\+xml);base64,[A-Za-z0-9+/=\s]*", re.IGNORECASE)
# The names of notebooks' parts, of highlighted code and of coloured terminal text; none of the page's own.
_CLASS = re.compile(r"[a-z]{1,3}\d?|highlight|dataframe|input|input_area|output|output_area|output_\w+|ansi-[\w-]+")
_BOX = ("height", "margin", "max-width", "min-width", "opacity", "padding", "table-layout", "vertical-align", "width")
_EDGES = ("border", "border-bottom", "border-collapse", "border-left", "border-radius", "border-right", "border-top")
_FONT = ("font-family", "font-size", "font-style", "font-weight", "line-height", "text-align", "text-decoration")
_STYLES = frozenset((*_BOX, *_EDGES, *_FONT, "background", "background-color", "color", "white-space"))
# No brackets but a colour's, no minus before a number: nothing is fetched, nothing laid over its neighbours.
_VALUE = re.compile(r"(?:[\w\s.%#,'\"/]|(?<=[a-z])-(?=[a-z])|\b(?:rgb|hsl)a?\([\d\s.,%]*\))*")


def clean(content: str, *, lower: int = 0) -> str:
    """HTML that may stand in a page of ours.

    Args:
        content: HTML of any kind, whole or not.
        lower: By how many levels headings sink: with 2, `h1` becomes `h3`.
    """
    if content.count("<") > content.count(">") + _MOST_UNCLOSED:
        # No HTML, and the parser would look from each of them to the end.
        return f"<pre>{html.escape(content, quote=False)}</pre>"
    cleaner = _Cleaner(lower)
    cleaner.feed(_without_comments(content))
    cleaner.close()
    return "".join([*cleaner.written, *(f"</{tag}>" for tag in reversed(cleaner.open))])


def shows_something(content: str) -> bool:
    """Whether cleaned HTML holds a picture or a word."""
    return "<img" in content or bool(re.sub(r"<[^>]*>", "", content).strip())


class _Cleaner(HTMLParser):
    def __init__(self, lower: int) -> None:
        super().__init__(convert_charrefs=True)
        self.lower = lower
        self.written: list[str] = []
        self.open: list[str] = []
        self.unseen: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag in _UNSEEN:
            self.unseen.append(tag)
        if self.unseen or tag not in _TAGS:
            return
        given = {name: value or "" for name, value in attributes}
        if tag == "img" and not _PICTURE.fullmatch(given.get("src", "")):
            # A picture elsewhere would tell that server who reads the page, and when.
            self.written.append(
                f"<i>[{html.escape(given.get('alt') or 'a picture that is not part of this page')}]</i>"
            )
            return
        kept = {name: text for name, value in given.items() if (text := _attribute(tag, name, value)) is not None}
        if tag == "a" and "href" in kept:
            kept["rel"] = "noopener noreferrer"
        tag = self._sunk(tag)
        written = "".join(f' {name}="{html.escape(text)}"' for name, text in kept.items())
        self.written.append(f"<{tag}{written}>")
        if tag not in _EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        # As browsers do: a slash at the end of a start tag means nothing.
        if tag not in _UNSEEN:
            self.handle_starttag(tag, attributes)

    def handle_endtag(self, tag: str) -> None:
        if self.unseen:
            if tag in self.unseen:
                del self.unseen[self.unseen.index(tag) :]
            return
        tag = self._sunk(tag)
        while tag in self.open:
            last = self.open.pop()
            self.written.append(f"</{last}>")
            if last == tag:
                return

    def handle_data(self, data: str) -> None:
        if not self.unseen:
            self.written.append(html.escape(data, quote=False))

    def _sunk(self, tag: str) -> str:
        return f"h{min(6, int(tag[1]) + self.lower)}" if re.fullmatch(r"h[1-6]", tag) else tag


def _without_comments(content: str) -> str:
    # Here rather than by the parser, whose time for unclosed ones grows with the square of their number.
    kept, start = [], 0
    while (begin := content.find("<!--", start)) >= 0:
        kept.append(content[start:begin])
        end = content.find("-->", begin + 4)
        if end < 0:
            return "".join(kept)
        start = end + 3
    return "".join([*kept, content[start:]])


def _attribute(tag: str, name: str, value: str) -> str | None:
    """An attribute's value as it may stand, None when it may not."""
    if name == "href":
        # Browsers read an address without the characters that are hidden in it here.
        address = re.sub(r"[\x00-\x20]", "", value)
        return address if tag == "a" and _ADDRESS.match(address) else None
    if name == "src":
        return value if tag == "img" else None
    if name == "class":
        return " ".join(word for word in value.split() if _CLASS.fullmatch(word)) or None
    if name == "style":
        return _style(value) or None
    return value if name in _PLAIN else None


def _style(text: str) -> str:
    pairs = (part.partition(":") for part in text.split(";"))
    kept = [(name.strip().lower(), value.strip()) for name, _, value in pairs]
    return ";".join(f"{name}:{value}" for name, value in kept if name in _STYLES and _VALUE.fullmatch(value))
