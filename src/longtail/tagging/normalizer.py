"""What happens to a text before it is cut into words (markup, case, accents, stems), and the way back."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from longtail.tagging.scripts import word_pattern

# Where each character of a normalised text begins and ends in the original.
Origin = tuple[Sequence[int], Sequence[int]]
# A new text, and the span of what it replaces.
Part = tuple[str, int, int]

# Soft hyphens, joiners and variation selectors: they change how a word looks, not which word it is.
_INVISIBLE = re.compile("[\u00ad\u200c\u200d\ufe00-\ufe0f]+")
# Accents that stand for themselves, in Latin, Greek and Cyrillic; the points of Hebrew and Arabic. Vowel signs of Indic
# scripts and Thai are combining characters too, but without them nothing is left of a word.
_ACCENTS = re.compile(
    "[\u0300-\u036f\u0591-\u05bd\u05bf-\u05c7\u064b-\u065f\u0670\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+"
)
_STROKES = str.maketrans({"ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "ħ": "h", "Ħ": "H", "ŧ": "t"})
_ENTITY = re.compile(r"&(?:#[0-9]{1,8}|#[xX][0-9a-fA-F]{1,8}|[A-Za-z][A-Za-z0-9]{1,31});")
_TAG_NAME = re.compile(r"/?([A-Za-z][A-Za-z0-9]*)")
# Tags that may stand within a word.
_INLINE = frozenset(
    ["a", "abbr", "b", "bdi", "bdo", "cite", "code", "dfn", "em", "font", "i", "ins", "kbd", "mark", "q", "s"]
    + ["small", "span", "strong", "sub", "sup", "tt", "u", "var", "wbr"]
)
_RAW = frozenset(["script", "style"])
_ENDS = {what: re.compile(re.escape(what), re.IGNORECASE) for what in ("-->", ">", "</script", "</style")}
_MAX_STEMS = 1 << 20


@dataclass(frozen=True)
class Normalizer:
    """Turns a text into the form that is cut into words.

    With `is_unicode`, spellings of one word become one: composed and decomposed, full-width and half-width, upper and
    lower case of all languages at once. Turkish has two letters i; all of ``I ı İ i`` become ``i``, because nothing
    indicates the language of a text. ASCII text is only lowered.
    """

    lowercase: bool = True
    is_unicode: bool = True
    strip_accents: bool = False
    strip_html: bool = False
    stem: Callable[[str], str] | None = None
    _stems: dict[str, str] = field(default_factory=dict, compare=False, repr=False)

    def __call__(self, text: str) -> str:
        """Return the normalised text."""
        if self.strip_html and ("<" in text or "&" in text):
            text = "".join(part for part, _, _ in html_parts(text))
        text = self._letters(text)
        if self.stem is not None:
            text = word_pattern(unicode=self.is_unicode).sub(lambda match: self._stemmed(match.group()), text)
        return text

    def with_origin(self, text: str) -> tuple[str, Origin]:
        """Also return where in the text each character of the result comes from."""
        origin: Origin = (range(len(text)), range(1, len(text) + 1))
        if self.strip_html and ("<" in text or "&" in text):
            text, origin = _joined(html_parts(text), origin)
        whole = self._letters(text)
        if len(whole) != len(text) or (self.is_unicode and not text.isascii()):
            parts = [(self._letters(text[begin:end]), begin, end) for begin, end in _clusters(text)]
            if "".join(part for part, _, _ in parts) != whole:  # a letter changed with its neighbours: go by words then
                spans = [match.span() for match in re.finditer(r"\s+|\S+", text)]
                parts = [(self._letters(text[begin:end]), begin, end) for begin, end in spans]
            if "".join(part for part, _, _ in parts) != whole:
                parts = [(whole, 0, len(text))]
            text, origin = _joined(parts, origin)
        else:
            text = whole
        if self.stem is not None:
            text, origin = _joined(self._stem_parts(text), origin)
        return text, origin

    def _letters(self, text: str) -> str:
        if text.isascii():
            return text.lower() if self.lowercase else text
        if not self.is_unicode:
            text = text.lower() if self.lowercase else text
            return self._without_accents(text) if self.strip_accents else text
        text = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text))
        if self.lowercase:
            text = text.casefold().replace("i\u0307", "i").replace("ı", "i")
        if self.strip_accents:
            text = self._without_accents(text)
        return unicodedata.normalize("NFC", text)

    def _without_accents(self, text: str) -> str:
        bare = _ACCENTS.sub("", unicodedata.normalize("NFKD", text)).translate(_STROKES)
        return unicodedata.normalize("NFC", bare)  # puts together again what is no accent, such as Korean syllables

    def _stemmed(self, word: str) -> str:
        found = self._stems.get(word)
        if found is None:
            assert self.stem is not None
            found = self.stem(word) or word
            if len(self._stems) >= _MAX_STEMS:
                self._stems.clear()
            self._stems[word] = found
        return found

    def _stem_parts(self, text: str) -> Iterable[Part]:
        end = 0
        for match in word_pattern(unicode=self.is_unicode).finditer(text):
            yield text[end : match.start()], end, match.start()
            yield self._stemmed(match.group()), match.start(), match.end()
            end = match.end()
        yield text[end:], end, len(text)


def html_parts(text: str) -> Iterable[Part]:
    """Yield what is left of a text without tags, comments, scripts and styles.

    One pass: an end that is missing is looked for once, so that hostile input costs no more than its length.
    """
    position = 0
    missing: set[str] = set()
    while position < len(text):
        at = text.find("<", position)
        if at < 0:
            yield from _unescaped(text, position, len(text))
            return
        end, gap = _tag_end(text, at, missing)
        if end < 0:  # a "<" that opens no tag is text
            yield from _unescaped(text, position, at + 1)
            position = at + 1
            continue
        yield from _unescaped(text, position, at)
        if gap:
            yield gap, at, end
        position = end


def _tag_end(text: str, at: int, missing: set[str]) -> tuple[int, str]:
    """Return where the tag at "<" ends (-1: it is none) and what stands in its place."""
    if text.startswith("<!--", at):
        end = _find("-->", text, at + 4, missing)
        return end, " "
    name = _TAG_NAME.match(text, at + 1)
    if name is None and text[at + 1 : at + 2] not in ("!", "?"):
        return -1, ""
    end = _find(">", text, at + 1, missing)
    tag = "" if name is None else name.group(1).lower()
    if end >= 0 and tag in _RAW and text[at + 1] != "/":
        close = _find(f"</{tag}", text, end, missing)
        closed = _find(">", text, close, missing) if close >= 0 else -1
        end = closed if closed >= 0 else end
    return end, ("" if tag in _INLINE else " ")


def _find(what: str, text: str, begin: int, missing: set[str]) -> int:
    """Return where the next `what` ends, in any case; -1, remembered, if there is none."""
    if what in missing:
        return -1
    match = _ENDS[what].search(text, begin)
    if match is None:
        missing.add(what)
        return -1
    return match.end()


def _unescaped(text: str, begin: int, end: int) -> Iterable[Part]:
    """Yield a part of the text with its entities replaced."""
    position = begin
    if text.find("&", begin, end) >= 0:
        for match in _ENTITY.finditer(text, begin, end):
            yield text[position : match.start()], position, match.start()
            yield html.unescape(match.group()), match.start(), match.end()
            position = match.end()
    yield text[position:end], position, end


def _clusters(text: str) -> Iterable[tuple[int, int]]:
    """Yield the spans of characters together with the marks that follow them: normal forms change nothing larger."""
    begin = 0
    for at, character in enumerate(text):
        if at and not _joins(character):
            yield begin, at
            begin = at
    if text:
        yield begin, len(text)


def _joins(character: str) -> bool:
    if character < "\u0300":
        return character == "\u00ad"
    return (
        unicodedata.category(character)[0] == "M"
        or character in "\u200c\u200d\uff9e\uff9f"
        or "\u1160" <= character <= "\u11ff"
    )


def _joined(parts: Iterable[Part], origin: Origin) -> tuple[str, Origin]:
    """Put parts together. A part no longer than what it replaces keeps its characters in place; others share it all."""
    begins_before, ends_before = origin
    begins: list[int] = []
    ends: list[int] = []
    texts: list[str] = []
    for part, begin, end in parts:
        if not part:
            continue
        texts.append(part)
        if len(part) <= end - begin:
            begins.extend(begins_before[begin : begin + len(part)])
            ends.extend(ends_before[begin : begin + len(part) - 1])
        else:
            begins.extend([begins_before[begin]] * len(part))
            ends.extend([ends_before[end - 1]] * (len(part) - 1))
        ends.append(ends_before[end - 1])
    return "".join(texts), (begins, ends)
