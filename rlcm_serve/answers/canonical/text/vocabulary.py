"""Letters, words and commands that mean mathematics."""

from __future__ import annotations

_FUNCTIONS = "sin cos tan cot sec csc sinh cosh tanh exp ln log lg arcsin arccos arctan"
_GREEK = """
alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi rho sigma tau upsilon phi
chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega ell
"""
_ENGLISH = """
the is are of to in on at it he we be by or and was has had for not no as so do if my me up us go
yes all any one two six ten she her his him you can get how who why man day may now new old way see
say use let set but its
"""
FUNCTIONS = {name: name for name in _FUNCTIONS.split()} | {
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
}
GREEK = frozenset(_GREEK.split())
COMMANDS = frozenset(("frac", "sqrt", "binom", "pi", *GREEK, *FUNCTIONS))
"""Commands with which a factor may begin."""
WRITTEN = frozenset(("pi", "sqrt", "theta", "alpha", "beta", *FUNCTIONS))
"""Words that mean the command of the same name."""
ENGLISH = frozenset(_ENGLISH.split())
"""Short words that are no products of letters."""


def is_product(word: str) -> bool:
    """Whether letters alone are a product, such as `xy`, and not a word or a name such as `no`."""
    if len(word) > 3 or not word.islower():
        return False
    return not set(word) & set("aeiou") or set(word) <= set("abc")


def spells_mathematics(word: str) -> bool:
    """Whether the word is a letter, a product of letters or the name of a function."""
    return len(word) == 1 or word in WRITTEN or is_product(word)
