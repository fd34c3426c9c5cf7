"""Characters outside ASCII, written as LaTeX."""

from __future__ import annotations

import re
import unicodedata

from rlcm_serve.answers.canonical.text.chinese import as_english, circled

_LETTERS = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "ζ": "zeta",
    "η": "eta", "θ": "theta", "ι": "iota", "κ": "kappa", "λ": "lambda", "μ": "mu", "µ": "mu",
    "ν": "nu", "ξ": "xi", "π": "pi", "ρ": "rho", "σ": "sigma", "τ": "tau", "υ": "upsilon",
    "φ": "phi", "ϕ": "phi", "χ": "chi", "ψ": "psi", "ω": "omega", "Γ": "Gamma", "Δ": "Delta",
    "Θ": "Theta", "Λ": "Lambda", "Ξ": "Xi", "Π": "Pi", "Σ": "Sigma", "Φ": "Phi", "Ψ": "Psi",
    "Ω": "Omega", "𝜋": "pi", "ℓ": "ell",
}  # fmt: skip
_COMMANDS = {
    "√": "sqrt", "∞": "infty", "×": "times", "÷": "div", "·": "cdot", "⋅": "cdot", "∙": "cdot",
    "•": "cdot", "≤": "le", "⩽": "le", "≦": "le", "≥": "ge", "⩾": "ge", "≧": "ge", "≠": "ne",
    "≈": "approx", "≅": "approx", "≃": "approx", "≡": "equiv", "∪": "cup", "∩": "cap",
    "∈": "in", "∅": "emptyset", "∖": "setminus", "±": "pm", "∓": "mp", "⌊": "lfloor",
    "⌋": "rfloor", "⌈": "lceil", "⌉": "rceil", "⟨": "langle", "⟩": "rangle", "〈": "langle",
    "〉": "rangle", "∠": "angle", "△": "triangle", "∧": "wedge", "∨": "vee", "…": "dots",
    "⋯": "dots", "∣": "mid", "→": "to", "⇒": "implies", "∴": "therefore", "€": "euro",
    "£": "pounds", "¥": "yen", "₹": "rupee", "¢": "cent", "∑": "sum", "∫": "int", "∏": "prod",
    "∝": "propto", "∂": "partial", "⊂": "subset", "⊆": "subseteq", "∉": "notin", "⊥": "perp",
    "∥": "parallel", "¬": "lnot", "↔": "leftrightarrow", "⇔": "iff", "←": "leftarrow",
    "∀": "forall", "∃": "exists",
}  # fmt: skip
_TEXTS = {
    "−": "-", "–": "-", "—": "-", "‐": "-", "‑": "-", "﹣": "-", "°": "^\\circ ", "º": "^\\circ ",
    "˚": "^\\circ ", "′": "'", "’": "'", "‘": "'", "“": '"', "”": '"', "″": "''", "∛": "\\sqrt[3]",
    "∜": "\\sqrt[4]", "ℝ": "\\mathbb{R}", "ℤ": "\\mathbb{Z}", "ℕ": "\\mathbb{N}",
    "ℚ": "\\mathbb{Q}", "ℂ": "\\mathbb{C}", "⁄": "/", "∕": "/", "∗": "*", "∶": ":", "，": ",",
    "、": ",", "；": ";", "：": ":", "。": ".", "（": "(", "）": ")", "∘": "\\circ ",
    "\u2009": "\\,", "\u202f": "\\,", "\u200a": "\\,", "\u2008": "\\,", "\u00a0": "\\,",
    "\u2007": "\\,", "\u200b": "", "\u200c": "", "\u200d": "", "\u2060": "", "\ufeff": "",
    "\u2061": "", "\u2062": "", "\u2063": ",", "\uff5e": "\\sim ", "℃": "^\\circ C ",
    "℉": "^\\circ F ", "㎜": " mm ", "㎝": " cm ", "㎞": " km ", "㎏": " kg ", "㎡": " m^2 ",
    "⊄": "\\lnot\\subset ", "∦": "\\lnot\\parallel ", "∤": "\\lnot\\mid ",
    "≢": "\\lnot\\equiv ", "㎥": " m^3 ", "㎠": " cm^2 ", "㎤": " cm^3 ", "㎢": " km^2 ",
}  # fmt: skip
_VULGAR = {
    "½": (1, 2), "⅓": (1, 3), "⅔": (2, 3), "¼": (1, 4), "¾": (3, 4), "⅕": (1, 5), "⅖": (2, 5),
    "⅗": (3, 5), "⅘": (4, 5), "⅙": (1, 6), "⅚": (5, 6), "⅛": (1, 8), "⅜": (3, 8), "⅝": (5, 8),
    "⅞": (7, 8), "⅐": (1, 7), "⅑": (1, 9), "⅒": (1, 10),
}  # fmt: skip
_TABLE = str.maketrans(
    {c: f"\\{name} " for c, name in (_LETTERS | _COMMANDS).items()}
    | _TEXTS
    | {c: rf"\frac{{{top}}}{{{bottom}}}" for c, (top, bottom) in _VULGAR.items()}
)
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱˣ", "0123456789+-=()nix")
_LOWERED = str.maketrans("₀₁₂₃₄₅₆₇₈₉₊₋ₐₑₒₓₙₖₘᵢⱼ", "0123456789+-aeoxnkmij")
_RAISED_RUN = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱˣ]+")
_LOWERED_RUN = re.compile("[₀₁₂₃₄₅₆₇₈₉₊₋ₐₑₒₓₙₖₘᵢⱼ]+")
_OVERLINED = re.compile("(?:[0-9][\u0304\u0305])+")


def as_latex(text: str) -> str:
    r"""The text in LaTeX: `√2` becomes `\sqrt 2`, `x²` becomes `x^{2}`, thin spaces `\,`."""
    if "\\textcircled" in text:
        text = circled(text)
    if text.isascii():
        return text
    text = as_english(text)
    text = _OVERLINED.sub(lambda found: rf"\overline{{{found[0][::2]}}}", text)
    text = _RAISED_RUN.sub(lambda found: f"^{{{found[0].translate(_RAISED)}}}", text)
    text = _LOWERED_RUN.sub(lambda found: f"_{{{found[0].translate(_LOWERED)}}}", text)
    text = text.translate(_TABLE)
    return text if text.isascii() else unicodedata.normalize("NFKC", text)
