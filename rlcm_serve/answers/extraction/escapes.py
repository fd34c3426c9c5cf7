r"""LaTeX in JSON whose backslashes a model did not double: `"\frac{1}{2}"`, `"3\times 10^5"`.

JSON reads `\f`, `\t`, `\n`, `\r` and `\b` as one character, and refuses the escapes that it does
not know, such as those of `\sqrt` and `\%`.
"""

from __future__ import annotations

import re

_NAMES = """
backepsilon backprime backsim backslash bar barwedge because begin beta beth between bf
bfseries big bigcap bigcirc bigcup bigg biggl biggm biggr bigl bigm bigodot bigoplus bigotimes
bigr bigsqcup bigstar bigtriangledown bigtriangleup biguplus bigvee bigwedge binom blacklozenge
blacksquare blacktriangle bm bmatrix bmod boldmath boldsymbol bot bowtie boxdot boxed boxminus
boxplus boxtimes bra braket breve bullet bumpeq
fallingdotseq fbox fcolorbox flat footnotesize forall frac frak framebox frown
nRightarrow nVdash nabla natural ncong ne nearrow neg neq newcommand newline nexists ngeq
ngeqslant ngtr ni nleftarrow nleftrightarrow nleq nleqslant nless nmid nobreak nolimits
nonumber normalsize not notag notin notni nparallel nprec npreceq nrightarrow nsim nsubseteq
nsucc nsucceq nsupseteq ntriangleleft ntriangleright nu nvDash nvdash nwarrow
raisebox rangle rbrace rbrack rceil restriction rfloor rgroup rho right rightarrow
rightarrowtail rightharpoondown rightharpoonup rightleftarrows rightleftharpoons
rightrightarrows rightsquigarrow risingdotseq rlap rm root rq rrbracket rtimes rule rvert
rVert
tag tan tanh tau tbinom text textbf textcircled textcolor textdegree textit textmd textnormal
textrm textsc textsf textsl textstyle textsubscript textsuperscript texttt textup tfrac tg
therefore theta thetasym thickapprox thicksim thickspace thinspace tilde times tiny to top
triangle triangledown triangleleft trianglelefteq triangleq triangleright trianglerighteq tt
twoheadleftarrow twoheadrightarrow
"""
COMMANDS = frozenset(_NAMES.split())
"""LaTeX's commands whose first letter makes an escape of JSON."""
_ALSO_WORDS = frozenset({"nexists", "ni", "nless", "nmid", "nparallel"})
"""Those that are also the end of a line with the next line's first word: a command only after a
blank or at the start of a formula."""
_STARTS = frozenset(' \t"$({[')
_TOKEN = re.compile(
    r'\\{4}|\\["/]|\\u[0-9a-fA-F]{4}|(?P<pair>\\\\)|\\(?P<name>[A-Za-z]+)|(?P<odd>\\)|(?P<quote>")'
)
_CHARACTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
"""JSON's escapes by a letter."""
_ESCAPED = re.compile(r"[A-Za-z]{2}|[,;:!{}%]")
"""What follows two backslashes that mean one: a command, or a sign such as a thin space's."""


def with_commands(text: str) -> str:
    r"""The text with a second backslash where a model wrote one of LaTeX's in a JSON string.

    These are a backslash before a known command, and one that is no escape of JSON. What is
    doubled already stays, and so does `\n` before anything else. In a string with an undoubled
    `\begin`, two backslashes that end a row are two.
    """
    if "\\" not in text:
        return text
    pieces, end, has_rows = list[str](), 0, False
    for found in _TOKEN.finditer(text):
        name = found["name"]
        has_rows = not found["quote"] and (has_rows or name == "begin")
        if found["pair"]:
            is_doubled = has_rows and not _ESCAPED.match(text, found.end())
        else:
            is_doubled = bool(found["odd"]) or (name is not None and _is_latex(name, text, found))
        if is_doubled:
            pieces += [text[end : found.start()], found.group().replace("\\", r"\\")]
            end = found.end()
    return "".join([*pieces, text[end:]])


def without_commands(written: str) -> str:
    r"""JSON whose texts `with_commands` leaves as they are: `\nu` as `\u000au`."""

    def escaped(found: re.Match[str]) -> str:
        name = found["name"]
        if name is None or not _is_latex(name, written, found):
            return found.group()
        return f"\\u{ord(_CHARACTERS[name[0]]):04x}{name[1:]}"

    return _TOKEN.sub(escaped, written)


def _is_latex(name: str, text: str, found: re.Match[str]) -> bool:
    """Whether a backslash with these letters is LaTeX's rather than an escape of JSON."""
    if name[0] not in _CHARACTERS:
        return True
    return name in COMMANDS and (
        name not in _ALSO_WORDS or text[found.start() - 1 : found.start()] in _STARTS
    )
