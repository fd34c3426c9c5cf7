"""JSON that stays one line wherever it is read."""

# With the characters that JSON escapes anyway, these are all where `str.splitlines` splits.
_LINE_ENDS = tuple((mark.encode(), rb"\u%04x" % ord(mark)) for mark in "\x85\u2028\u2029")


def with_escaped_line_ends(json: bytes) -> bytes:
    """The same JSON, with Unicode's line ends escaped.

    JSON may have them in strings as they are, but some clients split lines there, httpx's
    `iter_lines` among them.
    """
    for mark, escaped in _LINE_ENDS:
        json = json.replace(mark, escaped)
    return json
