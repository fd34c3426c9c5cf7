"""Live monitoring as clients and operators see it: the whole app around a scripted engine."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from calibration import ExitPolicy
from rlcm_serve.monitoring.running import betting
from rlcm_serve.settings import Settings
from rlcm_serve.solving.fingerprints import fingerprint_of
from rlcm_serve.store.answers import stored as stored_answers
from rlcm_serve.store.answers.table import AnswerRow, WithdrawalRow
from rlcm_serve.store.answers.withdrawals import withdraw
from rlcm_serve.store.caller import Scope
from tests.rlcm_serve.api.serving import PATIENCE, Running, serving, starting
from tests.rlcm_serve.scripted_engine import IDENTITY, Script, certificate

pytestmark = pytest.mark.anyio
POLICY = ExitPolicy(lambda_low=0.1, patience=32, lambda_high=0.9, lambda_answer=0.4)


def stored(running: Running) -> list[AnswerRow]:
    with running.context.database.reading() as session:
        return list(session.scalars(select(AnswerRow).order_by(AnswerRow.sequence)))


async def answered(running: Running) -> list[AnswerRow]:
    """The rows of all answers given so far."""
    assert running.context.monitoring is not None
    await running.context.monitoring.writer.written()
    return stored(running)


async def chat(running: Running, **changes: Any) -> dict[str, Any]:
    turns = [{"role": "user", "content": "A dial shows 4."}]
    body = {"model": "scripted", "messages": turns} | changes
    response = await running.client.post("/v1/chat/completions", json=body)
    assert response.status_code == 200, response.text
    said: dict[str, Any] = response.json()
    return said


async def test_the_reference_of_an_audited_abstention_is_kept(
    certified: Path, tmp_path: Path
) -> None:
    settings = Settings(state=tmp_path, audit_share=1, audit_texts=True)
    async with serving(Script(c_end=0.2), certificates=[certified], settings=settings) as running:
        id_ = (await running.solve(alpha=0.2)).json()["id"]
        judged = await feedback(running, {"id": id_, "right": False})
        (row,) = await answered(running)
        with running.context.database.session() as session:
            session.add(
                WithdrawalRow(
                    certificate="c", slot="s", delta=0.1, time=row.started - 1, why="an alarm"
                )
            )
        listed = (await running.client.get("/audit")).json()
        kept = await feedback(running, {"id": id_, "reference": "8"})
        after = (await running.client.get("/audit")).json()
        (shown,) = (await running.client.get("/answers")).json()["answers"]
    assert "a reference is taken" in judged["refused"][0]["why"]
    assert [(one["abstained"], one["answer"]) for one in listed["answers"]] == [(True, None)]
    assert (kept["labelled"], kept["audited"], kept["refused"]) == (1, 0, [])
    assert after["waiting"] == 0
    assert (shown["label"], shown["tested"]) == (None, False)


async def test_one_question_asked_again_withdraws_nothing(certified: Path, tmp_path: Path) -> None:
    """Every ask has the guarantee. The first one alone enters the monitors."""
    settings = Settings(state=tmp_path, audit_share=1)
    sure = Script(confidences=(0.95,), c_end=0.95)
    async with serving(sure, certificates=[certified], settings=settings) as running:
        given = [(await running.solve()).json() for _ in range(20)]
        assert all(one["guarantee"] for one in given)
        await feedback(running, *({"id": one["id"], "right": False} for one in given))
        await look(running)
        body = (await running.client.get("/monitoring")).json()
        listed = (await running.client.get("/answers")).json()["answers"]
    (shown,) = body["certificates"]
    assert shown["guarantee"] == "given"
    level = shown["levels"][0]
    assert (level["questions"], level["test"]["labels"]) == (20, 1)
    assert [one["tested"] for one in listed] == [False] * 19 + [True]


async def test_a_row_says_whether_its_conversation_was_not_the_profiles(tmp_path: Path) -> None:
    earlier = [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}]
    turn = {"role": "user", "content": "Double it."}
    async with serving(Script(c_end=0.6), settings=Settings(state=tmp_path)) as running:
        await chat(running)
        await chat(running, messages=[*earlier, turn])
        rows = await answered(running)
    assert [row.departs for row in rows] == [False, True]


async def test_every_answer_becomes_a_row(certified: Path, tmp_path: Path) -> None:
    scripts = Script(c_end=0.6), Script(c_end=0.2), Script(confidences=(0.95,), c_end=0.95)
    settings = Settings(state=tmp_path, audit_share=1)
    async with serving(*scripts, certificates=[certified], settings=settings) as running:
        given = (await running.solve(alpha=0.15, kind="dials")).json()
        declined = (await running.solve(problem="A dial shows 5.", alpha=0.2)).json()
        early = (await chat(running))["rlcm"]
        full = (await running.solve(problem="A dial shows 6.", temperature=0.3)).json()
        rows = await answered(running)
    assert [row.id for row in rows] == [one["id"] for one in (given, declined, early, full)]
    assert [one["audit"] for one in (given, declined, early, full)] == [True, False, True, True]
    assert [row.answered for row in rows] == [True, False, True, True]
    assert [row.alpha for row in rows] == [0.1, 0.2, 0.1, None]
    assert [row.confidence for row in rows] == [0.6, 0.2, 0.95, 0.6]
    assert {row.certificate[:12] for row in rows[:3] if row.certificate} == {
        given["guarantee"]["certificate"]
    }
    assert rows[3].certificate is None
    assert (rows[0].kind, rows[0].risk, rows[0].profile) == ("dials", "selective", "default")
    usage = given["usage"]
    assert rows[0].tokens == usage["reasoning_tokens"] + usage["answer_tokens"]
    assert all(row.started <= row.time < row.due for row in rows)
    assert {row.question for row in rows} == {None}  # texts are not kept


async def test_streams_say_whether_the_answer_was_drawn(tmp_path: Path) -> None:
    async with serving(settings=Settings(state=tmp_path, audit_share=1)) as running:
        solved = await running.solve(stream=True, on_infeasible="full_budget")
        turns = [{"role": "user", "content": "A dial shows 4."}]
        body = {"model": "scripted", "messages": turns, "stream": True}
        chunks = await running.client.post("/v1/chat/completions", json=body)
        responses = await running.client.post(
            "/v1/responses", json={"model": "scripted", "input": "A dial?", "stream": True}
        )
    done = json.loads(solved.text.rpartition("event: done\ndata: ")[2])
    assert done["audit"] is True
    for streamed in (chunks, responses):
        assert '"audit":true' in streamed.text


async def test_a_character_that_databases_refuse_is_no_part_of_an_answers_id(
    database_url: str, tmp_path: Path
) -> None:
    settings = Settings(state=tmp_path, database=database_url, audit_share=1, audit_texts=True)
    async with serving(settings=settings) as running:
        asked = {"problem": "A \0 dial.", "kind": "\0", "on_infeasible": "full_budget"}
        id_ = (await running.solve(**asked)).json()["id"]
        label = {"id": "\0", "right": True}
        refused = await running.client.post("/feedback", json={"answers": [label]})
        in_lines = await running.client.post(
            "/feedback",
            content=json.dumps(label),
            headers={"content-type": "application/x-ndjson"},
        )
        done = await feedback(running, {"id": id_, "reference": "8\0"})
    assert (refused.status_code, in_lines.status_code) == (422, 422), refused.text
    assert refused.json()["errors"][0]["field"] == "answers[0].id"
    assert done["labelled"] == 1, "elsewhere the text is stored without it"


async def test_nothing_is_stored_if_monitoring_is_off(tmp_path: Path) -> None:
    async with serving(settings=Settings(state=tmp_path, monitor=False)) as running:
        assert (await running.solve()).json()["audit"] is False
        assert stored(running) == []


async def test_the_share_of_a_kind_is_its_own(tmp_path: Path) -> None:
    settings = Settings(state=tmp_path, audit_share=0, audit_shares=["kind:dials=1"])
    async with serving(settings=settings) as running:
        assert (await running.solve()).json()["audit"] is False
        assert (await running.solve(kind="dials")).json()["audit"] is True
        assert [row.audit_share for row in await answered(running)] == [0, 1]


async def feedback(running: Running, *labels: dict[str, Any], key: str = "") -> dict[str, Any]:
    response = await running.client.post(
        "/feedback", json={"answers": labels}, headers={"X-API-Key": key}
    )
    assert response.status_code == 200, response.text
    said: dict[str, Any] = response.json()
    return said


async def test_labels_come_back_and_the_last_one_is_shown(certified: Path, tmp_path: Path) -> None:
    settings = Settings(state=tmp_path, audit_share=1)
    async with serving(
        Script(c_end=0.6), Script(c_end=0.2), certificates=[certified], settings=settings
    ) as running:
        given = (await running.solve()).json()["id"]
        declined = (await running.solve(problem="A dial shows 5.")).json()["id"]
        first = await feedback(
            running,
            {"id": given, "right": True},
            {"id": declined, "right": True},
            {"id": "chatcmpl-none", "right": True},
        )
        again = await feedback(running, {"id": given, "right": False})
        (row, _) = await answered(running)
    assert (first["labelled"], first["audited"], first["unknown"]) == (1, 1, ["chatcmpl-none"])
    assert [one["id"] for one in first["refused"]] == [declined]
    assert "abstained" in first["refused"][0]["why"]
    assert (again["labelled"], again["corrected"], again["audited"]) == (0, 1, 0)
    assert row.right is False


@pytest.mark.parametrize("texts", [True, False])
async def test_references_are_graded_as_in_calibration(tmp_path: Path, texts: bool) -> None:
    """The answer is 7; without texts the label must bring it, and it is held to its digest."""
    settings = Settings(state=tmp_path, audit_share=1, audit_texts=texts)
    async with serving(settings=settings) as running:
        ids = [(await running.solve(problem=f"A dial shows {n}.")).json()["id"] for n in range(4)]
        said = await feedback(
            running,
            {"id": ids[0], "reference": r"\frac{14}{2}", "answer": "7"},
            {"id": ids[1], "reference": "8", "answer": "7"},
            {"id": ids[2], "reference": "7", "answer": "7.0"},
            {"id": ids[3], "reference": "7"},
        )
        rows = await answered(running)
    if texts:
        assert [row.right for row in rows] == [True, False, True, True]
        assert said["refused"] == []
    else:
        assert [row.right for row in rows] == [True, False, None, None]
        whys = {one["id"]: one["why"] for one in said["refused"]}
        assert "exactly as it was given" in whys[ids[2]]
        assert "keeps no texts" in whys[ids[3]]


async def test_labels_may_come_as_lines_and_bad_ones_are_refused_whole(tmp_path: Path) -> None:
    async with serving(settings=Settings(state=tmp_path)) as running:
        id_ = (await running.solve()).json()["id"]
        lines = f'{{"id": "{id_}", "right": true}}\n\n{{"id": "x", "right": false}}\n'

        async def post(content: str, kind: str = "application/x-ndjson") -> tuple[int, Any]:
            response = await running.client.post(
                "/feedback", content=content, headers={"content-type": kind}
            )
            return response.status_code, response.json()

        status, said = await post(lines)
        assert (status, said["labelled"], said["unknown"]) == (200, 1, ["x"])
        for line, why in (('{"id": 3}', "id: "), ("[", "JSON decode error")):
            status, refused = await post(lines + line)
            assert (status, refused["detail"].startswith(f"the body, line 4: {why}")) == (422, True)
        assert (await post("\n"))[0] == 422
        assert (await post('{"answers": []}', "application/json"))[0] == 422
        assert (await post(lines, "text/csv"))[0] == 415
        (both,) = (await feedback(running, {"id": id_, "right": True, "reference": "7"}))["refused"]
        assert "either right or reference" in both["why"]


async def test_changes_of_one_answer_beyond_the_limit_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_answers, "MOST_LABELS", 2)
    async with serving(settings=Settings(state=tmp_path)) as running:
        id_ = (await running.solve()).json()["id"]
        labels = [{"id": id_, "right": right} for right in (True, False, True, False)]
        said = await feedback(running, *labels)
        (row,) = await answered(running)
    assert (said["labelled"], said["corrected"], said["unchanged"], row.right) == (1, 1, 1, False)
    (refused,) = said["refused"]
    assert refused["id"] == id_
    assert "the last label stays" in refused["why"]


async def test_answers_of_other_keys_look_unknown(tmp_path: Path) -> None:
    settings = Settings(state=tmp_path, auth="on", audit_share=1, audit_texts=True)
    async with serving(settings=settings) as running:
        keys = {
            name: running.context.keys.create(name, [Scope(scope)])[0]
            for name, scope in (("one", "solve"), ("two", "solve"), ("boss", "admin"))
        }

        async def waiting(name: str) -> list[str | None]:
            headers = {"X-API-Key": keys[name]}
            response = await running.client.get("/audit?limit=5", headers=headers)
            assert response.status_code == 200, response.text
            listed = response.json()["answers"]
            assert response.json()["waiting"] == len(listed)
            return [one["question"] for one in listed]

        body = {"problem": "A dial shows 4.", "alpha": 0.1, "on_infeasible": "full_budget"}
        solved = await running.client.post("/solve", json=body, headers={"X-API-Key": keys["one"]})
        id_ = solved.json()["id"]
        label = {"id": id_, "right": True}
        assert (await feedback(running, label, key=keys["two"]))["unknown"] == [id_]
        assert [await waiting(name) for name in keys] == [[body["problem"]], [], [body["problem"]]]
        assert (await feedback(running, label, key=keys["boss"]))["labelled"] == 1
        assert (await feedback(running, label, key=keys["one"]))["labelled"] == 1
        assert await waiting("boss") == []


async def test_without_monitoring_there_is_nothing_to_label(tmp_path: Path) -> None:
    async with serving(settings=Settings(state=tmp_path, monitor=False)) as running:
        response = await running.client.post("/feedback", json={"answers": [{"id": "x"}]})
        assert response.status_code == 404
        assert "setting monitor" in response.json()["detail"]
        assert (await running.client.get("/audit")).status_code == 404


async def look(running: Running) -> None:
    """One look of the monitors, which otherwise look once a second."""
    assert running.context.monitoring is not None
    await running.context.monitoring.writer.written()
    looks = running.context.monitoring.betting
    await asyncio.to_thread(looks.work, lambda: running.context.service.guarantees)


async def until_withdrawn(running: Running) -> dict[str, Any]:
    """The first answer without a guarantee."""
    async with asyncio.timeout(PATIENCE):
        for number in count():
            solved: dict[str, Any] = (await running.solve(problem=f"Now {number}?")).json()
            if solved["guarantee"] is None:
                return solved
            await asyncio.sleep(0.05)
    raise AssertionError


async def test_wrong_answers_withdraw_the_guarantee_until_an_admin_restores_the_policy(
    certified: Path, tmp_path: Path
) -> None:
    """Labels show a risk above alpha: the next answers run at the full budget and say why."""
    settings = Settings(state=tmp_path, audit_share=1, unanswered_s=0.001)
    high = Script(confidences=(0.95,), c_end=0.95)
    async with serving(high, certificates=[certified], settings=settings) as running:
        first = (await running.solve()).json()
        assert first["exit"] == "high"
        id_ = first["guarantee"]["certificate"]
        assert (await running.client.post(f"/certificates/{id_}/restore")).status_code == 409
        given = [(await running.solve(problem=f"Dial {n}?")).json()["id"] for n in range(40)]
        labels = [{"id": one, "right": False} for one in [first["id"], *given]]
        assert (await feedback(running, *labels))["audited"] == 41
        await look(running)

        await until_withdrawn(running)  # it may have begun before the alarm, under the policy
        withdrawn = (await running.solve(problem="A question after the alarm?")).json()
        assert withdrawn["exit"] != "high"  # the full budget
        assert "risk alarm at alpha 0.1: 41 of 41" in withdrawn["no_guarantee_reason"]
        assert withdrawn["no_guarantee_code"] == "withdrawn"
        listed = (await running.client.get("/certificates")).json()["certificates"]
        assert [one["id"] for one in listed if one["withdrawn"]] == [id_]
        assert "risk alarm at alpha 0.1: 41 of 41" in listed[0]["withdrawn"]
        body = (await running.client.get("/monitoring")).json()
        (shown,) = body["certificates"]
        assert (shown["id"], shown["guarantee"], shown["active"]) == (id_, "withdrawn", True)
        level, other = shown["levels"]
        assert [one["test"]["alarmed"] for one in (level, other)] == [True, False]
        assert level["test"]["log_wealth"] > level["test"]["threshold"]
        assert (level["labels"]["wrong"], level["labels"]["right"]) == (41, 0)
        whats = [event["what"] for event in body["events"]]
        assert whats.count("risk_alarm") == whats.count("withdrawn") == 1

        restored = await running.client.post(f"/certificates/{id_}/restore")
        assert restored.status_code == 200, restored.text
        assert restored.json()["certificates"][0]["guarantee"] == "restored"
        again = (await running.solve(problem="A dial shows 99.")).json()
        assert (again["exit"], again["guarantee"]) == ("high", None)
        assert "put back without a guarantee" in again["no_guarantee_reason"]
        assert (await running.client.post(f"/certificates/{id_}/restore")).status_code == 409


async def test_a_withdrawn_guarantee_stays_withdrawn_after_a_restart(
    certified: Path, tmp_path: Path
) -> None:
    settings = Settings(state=tmp_path, database=f"sqlite:///{tmp_path}/one.db")
    async with serving(certificates=[certified], settings=settings) as running:
        database = running.context.database
        digest = running.context.service.guarantees.certificates[0].digest
        with database.session() as session:
            withdraw(
                session,
                database,
                certificate=digest,
                slot="s",
                delta=0.1,
                time=1.0,
                why="risk alarm at alpha 0.1",
            )
    async with serving(certificates=[certified], settings=settings) as running:
        solved = (await running.solve()).json()
        assert solved["guarantee"] is None
        assert solved["no_guarantee_reason"].startswith("risk alarm at alpha 0.1")


async def test_alarms_are_posted_to_the_webhook(
    certified: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(betting, "LOOK_EVERY", 0.05)
    posted: list[dict[str, Any]] = []
    told = asyncio.Event()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(re.findall(rb"content-length: (\d+)", head.lower())[0])
        posted.append(json.loads(await reader.readexactly(length)))
        if posted[-1]["event"] == "risk_alarm":
            told.set()
        writer.write(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    settings = Settings(
        state=tmp_path,
        audit_share=1,
        alarm_webhook=f"http://127.0.0.1:{port}/",
        drift_alarm="none",
        risk_alarm="warn",
        runbook_url="https://docs.example.com/runbooks.html",
    )
    async with server, serving(certificates=[certified], settings=settings) as running:
        given = [(await running.solve(problem=f"Dial {n}?")).json()["id"] for n in range(40)]
        await feedback(running, *({"id": one, "right": False} for one in given))
        async with asyncio.timeout(PATIENCE):
            await told.wait()
        assert (await running.solve(problem="One more?")).json()["guarantee"] is not None
        async with asyncio.timeout(PATIENCE):
            hook = ""
            while hook != "delivered":
                body = (await running.client.get("/monitoring")).json()
                (event,) = [one for one in body["events"] if one["what"] == "risk_alarm"]
                hook = event["hook"]
    alarm = next(one for one in posted if one["event"] == "risk_alarm")
    assert (alarm["action"], alarm["alpha"]) == ("warn", 0.1)
    runbook = "https://docs.example.com/runbooks.html#rlcmriskalarm"
    assert alarm["runbook"] == event["runbook"] == runbook
    figures = alarm["figures"]  # of the look that found it, which may have come between labels
    assert 0 < figures["wrong"] == figures["labels"] <= 40


async def test_the_figures_need_a_key_that_may_read_them(tmp_path: Path) -> None:
    async with serving(settings=Settings(state=tmp_path, auth="on")) as running:
        status = {}
        for scope in Scope:
            key = running.context.keys.create(scope, [scope])[0]
            asked = await running.client.get("/monitoring", headers={"X-API-Key": key})
            status[str(scope)] = asked.status_code
    assert status == {"solve": 403, "label": 403, "metrics": 200, "admin": 200}


@pytest.mark.parametrize("tested", ["trusted", "all"])
async def test_a_caller_who_lies_about_its_answers_raises_no_alarm(
    certified: Path, tmp_path: Path, tested: str
) -> None:
    """Its labels are shown; those of a key with the scope `label` are tested."""
    settings = Settings(state=tmp_path, auth="on", audit_share=1, tested_labels=tested)
    async with serving(certificates=[certified], settings=settings) as running:
        liar, judge, boss = (
            running.context.keys.create(scope, [Scope(scope)])[0]
            for scope in ("solve", "label", "admin")
        )
        ids = []
        for number in range(41):
            body = {"problem": f"Dial {number}?", "alpha": 0.1}
            solved = await running.client.post("/solve", json=body, headers={"X-API-Key": liar})
            ids.append(solved.json()["id"])
        said = await feedback(running, *({"id": one, "right": False} for one in ids), key=liar)
        assert said["labelled"] == 41
        assert said["audited"] == (41 if tested == "all" else 0)
        await look(running)

        async def figures() -> tuple[str, dict[str, int]]:
            response = await running.client.get("/monitoring", headers={"X-API-Key": boss})
            (shown,) = response.json()["certificates"]
            labels: dict[str, int] = shown["levels"][0]["labels"]
            return shown["guarantee"], labels

        guarantee, labels = await figures()
        if tested == "all":
            assert (guarantee, labels["wrong"]) == ("withdrawn", 41)
            return
        assert (guarantee, labels["others_wrong"]) == ("given", 41)
        assert labels["waiting"] == 41
        response = await running.client.get("/audit", headers={"X-API-Key": judge})
        assert response.json()["waiting"] == 41
        nobody_can = {"id": ids.pop(), "skip": True}
        said = await feedback(running, nobody_can, key=liar)
        assert (said["skipped"], "scope label" in said["refused"][0]["why"]) == (0, True)
        said = await feedback(running, nobody_can | {"right": True}, key=judge)
        assert (said["skipped"], "either skip" in said["refused"][0]["why"]) == (0, True)
        said = await feedback(running, nobody_can, key=judge)
        assert (said["skipped"], said["labelled"], said["refused"]) == (1, 0, [])
        said = await feedback(running, *({"id": one, "right": True} for one in ids), key=judge)
        assert said["audited"] == 40
        await look(running)
        guarantee, labels = await figures()
        assert (guarantee, labels["right"], labels["others_wrong"]) == ("given", 40, 1)


async def test_a_key_that_judges_answers_may_not_ask(tmp_path: Path) -> None:
    async with serving(settings=Settings(state=tmp_path, auth="on")) as running:
        key = {"X-API-Key": running.context.keys.create("judge", [Scope.LABEL])[0]}
        refused = await running.client.post(
            "/solve", json={"problem": "A?", "alpha": 0.1}, headers=key
        )
        assert refused.status_code == 403
        assert (await running.client.get("/answers", headers=key)).status_code == 403


async def test_a_certificate_that_the_engine_voids_is_not_said_to_give_a_guarantee(
    tmp_path: Path,
) -> None:
    """It was fitted in another data type, so no answer here has its guarantee."""
    fitted = replace(fingerprint_of(IDENTITY), dtype="float32")
    certificate({0.1: POLICY}, fingerprint=fitted).save(tmp_path / "certificate.json")
    files, settings = [tmp_path / "certificate.json"], Settings(state=tmp_path)
    async with serving(Script(c_end=0.6), certificates=files, settings=settings) as running:
        assert (await running.solve()).json()["guarantee"] is None
        await look(running)
        (shown,) = (await running.client.get("/monitoring")).json()["certificates"]
    assert (shown["active"], shown["guarantee"]) == (True, "void")
    assert "the certified value is float32" in shown["why"]


async def test_which_certificates_are_active_is_not_known_before_the_engine_has_started(
    certified: Path, tmp_path: Path
) -> None:
    """The figures are there, so that none of them is taken for one of an inactive certificate."""
    settings = Settings(state=tmp_path, database=f"sqlite:///{tmp_path}/one.db")
    async with serving(certificates=[certified], settings=settings) as running:
        await running.solve()
        await look(running)
    async with starting(certificates=[certified], settings=settings) as running:
        before = (await running.client.get("/monitoring")).json()
        await running.until_settled()
        after = (await running.client.get("/monitoring")).json()
    assert [before["certificates_known"], after["certificates_known"]] == [False, True]
    assert [one["active"] for one in after["certificates"]] == [True]
