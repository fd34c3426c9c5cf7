"""One form of JSON for whatever is hashed or signed."""

import json
from collections.abc import Mapping
from typing import Any


def canonical_json(values: Mapping[str, Any]) -> bytes:
    """JSON with sorted names, without spaces, in ASCII: equal values give equal bytes.

    Raises:
        ValueError: a number is not finite.
    """
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")
