"""Extractors by their names in profiles."""

from __future__ import annotations

from functools import lru_cache

from rlcm_serve.answers.extraction import fields, patterns
from rlcm_serve.answers.extraction.base import Extractor
from rlcm_serve.answers.extraction.boxed import BoxedExtractor
from rlcm_serve.answers.extraction.code import CodeExtractor
from rlcm_serve.answers.extraction.installed import ENTRY_POINT, installed
from rlcm_serve.answers.extraction.texts import AnswerLineExtractor, TextExtractor
from rlcm_serve.errors import ProfileRefused
from rlcm_serve.profiles.profile import Profile

BOXED = BoxedExtractor()
"""The extractor of a profile that names none."""
TEXT = TextExtractor()
_BY_NAME: dict[str, Extractor] = {
    one.spec: one for one in (BOXED, AnswerLineExtractor(), TEXT, CodeExtractor())
}
_CHOICES = f"{', '.join(_BY_NAME)}, regex:PATTERN, json:FIELD or module:object"


@lru_cache(maxsize=256)
def extractor_named(spec: str) -> Extractor:
    """The extractor that a profile names.

    `module:object` is an `Extractor` or a subclass of it, in a package that is installed.

    Raises:
        ProfileRefused: there is none; the message says why.
    """
    if spec in _BY_NAME:
        return _BY_NAME[spec]
    if spec.startswith(patterns.PREFIX):
        return patterns.RegexExtractor(spec.removeprefix(patterns.PREFIX))
    if spec.startswith(fields.PREFIX):
        return fields.JsonExtractor(spec.removeprefix(fields.PREFIX))
    if ENTRY_POINT.fullmatch(spec):
        found: Extractor = installed("extractor", spec, Extractor)
        found.spec = spec
        return found
    raise ProfileRefused(f"extractor is {spec!r}: give {_CHOICES}")


def extractor_of(profile: Profile, schema: str | None) -> Extractor:
    """The extractor of answers that follow a schema, or none, under a profile.

    A text that follows another schema than the profile's is an answer as a whole: the profile's
    extractor may find nothing in it.
    """
    return extractor_named(profile.extractor) if schema == profile.schema_text else TEXT


def opening_under(profile: Profile) -> str:
    """The text that a forced answer under a profile continues; empty where it follows a schema.

    Raises:
        ProfileRefused: as `extractor_named`.
    """
    return extractor_named(profile.extractor).opening if profile.schema is None else ""
