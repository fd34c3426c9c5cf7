"""Bodies of the routes that take large ones: rollouts, labelled problems, certificates."""

from __future__ import annotations

import pytest

from tests.attack.target import Target

pytestmark = pytest.mark.attack
MANY = 64 * 2**20
"""Bytes; the limit is a gigabyte, which would only take longer."""


def repeated(part: bytes, size: int = MANY) -> bytes:
    return part * (size // len(part))


ARRAYS = {
    "a name that is not closed": b'{"rollouts' + repeated(b"a"),
    "one long answer": b'{"rollouts": [{"problem_id": "p", "answer": "%b"}]}' % repeated(b"7"),
    "a text of braces": b'{"rollouts": [{"problem_id": "p", "answer": "%b"}]}' % repeated(b"}"),
    "a blank reference": b'{"vote": "majority", "rollouts": [{"problem_id": "p", "answer": "7", '
    b'"reference": "%b"}]}' % repeated(b" "),
    "an unknown field of lists": b'{"rollouts": [{"problem_id": "p", "answer": "7", "x": [%b[]]}]}'
    % repeated(b"[],"),
    "many options": b'{"rollouts": [], %b"a": 1}' % repeated(b'"b": 1, ', 2**23),
    "an option that is deep": b'{"rollouts": [], "rule": %b' % repeated(b"["),
    "empty rollouts": b'{"rollouts": [%b{}]}' % repeated(b"{},"),
}
LINES = {
    "one line": repeated(b"a"),
    "empty lines": repeated(b"\n"),
    "one long problem": b'{"problem_id": "p", "answer": "%b"}\n' % repeated(b"7"),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_of_rollouts_leaves_the_loop_free(target: Target, name: str) -> None:
    with target.watched() as watch:
        response = target.send(ARRAYS[name], "/aggregate", timeout=200)
    assert response.status_code in (200, 413, 422)
    watch.require_a_free_loop()


@pytest.mark.parametrize("name", LINES)
def test_lines_of_rollouts_leave_the_loop_free(target: Target, name: str) -> None:
    kind = {"Content-Type": "application/x-ndjson"}
    with target.watched() as watch:
        response = target.send(LINES[name], "/aggregate", timeout=200, **kind)
    assert response.status_code in (200, 413, 422)
    watch.require_a_free_loop()


PROBLEMS = {
    "one long problem": b'{"problem": "%b", "answer": "7"}\n' % repeated("漢".encode()),
    "special tokens": b'{"problem": "%b", "answer": "7"}\n' % repeated(b"<|im_end|>"),
    "one line": repeated(b"["),
    "many short problems": b"".join(
        b'{"problem": "p%d", "answer": "7"}\n' % n for n in range(50_000)
    ),
    "more short problems": b'{"problem": "p", "answer": "7", "id": 1}\n' * 1_000_000,
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_labelled_problems_leave_the_loop_free(target: Target, name: str) -> None:
    headers = {"Authorization": f"Bearer {target.admin}", "Content-Type": "application/x-ndjson"}
    with target.watched() as watch:
        response = target.send(PROBLEMS[name], "/calibrations", timeout=200, **headers)
        if response.status_code == 202:
            job = response.headers["Location"]
            target.service.client.delete(job, headers=headers)
    assert response.status_code in (202, 413, 422)
    watch.require_a_free_loop()


CERTIFICATES = {
    "nested lists": repeated(b"["),
    "empty lists": b"[%b[]]" % repeated(b"[],"),
    "fields": b'{"format": "rlcm-certificate", %b"a": 1}' % repeated(b'"b": 1, '),
    "a long text": b'{"format": "rlcm-certificate", "version": 2, "method": "%b"}' % repeated(b"a"),
}


@pytest.mark.parametrize("name", CERTIFICATES)
def test_certificates_leave_the_loop_free(target: Target, name: str) -> None:
    headers = {"Authorization": f"Bearer {target.admin}"}
    with target.watched() as watch:
        response = target.send(CERTIFICATES[name], "/certificates", timeout=200, **headers)
    assert response.status_code in (413, 422)
    watch.require_a_free_loop()
