"""The draw for audit: which answers need a label, so that labels are a fair sample of all."""

from __future__ import annotations

import hashlib
import hmac

from rlcm_serve.settings.shares import AuditShares

_UNIT = 2.0**-64


class AuditDraw:
    """Draws answers by a keyed hash of their ids.

    Without the secret, nobody can tell before an answer whether it will be drawn, and nobody can
    make an id that is. With it, the draw can be repeated by any replica and at any later time. The
    draw knows nothing of the question or of its answer, so drawn answers are a simple random sample
    of those with the same share.

    Args:
        secret: of the database, shared by its processes.
        shares: the share of answers that is drawn, by key and kind.
    """

    def __init__(self, secret: bytes, shares: AuditShares) -> None:
        self._secret = secret
        self._shares = shares

    def share(self, key_id: str | None, kind: str | None) -> float:
        """The probability with which an answer to this key and of this kind is drawn."""
        return self._shares.of(key_id, kind)

    def draws(self, id_: str, share: float) -> bool:
        """Whether the answer with this id is drawn, at this share."""
        keyed = hmac.digest(self._secret, b"audit " + id_.encode(), "sha256")
        return int.from_bytes(keyed[:8], "big") * _UNIT < share

    def digest(self, answer: str) -> bytes:
        """A keyed digest by which an answer is recognised; 32 bytes. It says nothing of the text
        to whoever lacks the secret."""
        text = hashlib.sha256(answer.encode("utf-8", "surrogatepass")).digest()
        return hmac.digest(self._secret, b"answer " + text, "sha256")

    def question_digest(self, digest: bytes) -> bytes:
        """A keyed digest by which a question is recognised, of its `digest_of_ask`; 32 bytes.

        It is the same whoever asks.
        """
        return hmac.digest(self._secret, b"question " + digest, "sha256")
