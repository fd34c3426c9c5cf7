"""`rlcm doctor`: what was detected of a model, what is refused and why, and a self-test."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from rlcm_serve.commands.options import (
    AnswerMaxTokensOption,
    ConfidenceOption,
    IntervalOption,
    JsonOption,
    LogOption,
    MaxTokensOption,
    ModelOption,
    ProbeOption,
    ProfileOption,
    TemperatureOption,
    ThinkingOption,
    TopPOption,
    VerboseOption,
    VllmArguments,
    engine_settings,
)

if TYPE_CHECKING:
    from rlcm_serve.engine.diagnosis.findings import Findings
    from rlcm_serve.engine.diagnosis.model import Examined
    from rlcm_serve.engine.diagnosis.self_test import SelfTest
    from rlcm_serve.engine.launch import EngineSettings

_COLOURS = {"fine": "green", "note": "yellow", "refused": "red"}


def doctor(
    model: ModelOption = "embedded",
    probe: ProbeOption = None,
    profile: ProfileOption = None,
    confidence: ConfidenceOption = "probe",
    interval: IntervalOption = None,
    max_tokens: MaxTokensOption = None,
    answer_max_tokens: AnswerMaxTokensOption = None,
    temperature: TemperatureOption = None,
    top_p: TopPOption = None,
    thinking: ThinkingOption = None,
    self_test: Annotated[
        bool,
        typer.Option(
            "--self-test",
            help="Also start vLLM, and compare a run of ten tokens with a forward pass.",
        ),
    ] = False,
    as_json: JsonOption = False,
    engine_log: LogOption = None,
    verbose: VerboseOption = False,
    vllm_arguments: VllmArguments = None,
) -> None:
    """Show what is detected of a model, what is refused and why. Loads no weights.

    The exit status is 0 if the model can be served with these options, 1 if not. With
    `--self-test`, vLLM is started, readings and exits of a short run are compared with what they
    should be, and the certificates in the model's folder are checked.
    """
    settings = engine_settings(
        model,
        probe=probe,
        profile=profile,
        interval=interval,
        max_tokens=max_tokens,
        answer_max_tokens=answer_max_tokens,
        temperature=temperature,
        top_p=top_p,
        thinking=thinking,
        confidence=confidence,
        engine_log=engine_log,
        verbose=verbose,
        vllm_arguments=vllm_arguments,
    )
    findings, passed = _examine(settings, self_test)
    if as_json:
        found: dict[str, Any] = {"model": model, **findings.to_json()}
        found["self_test"] = None if passed is None else asdict(passed)
        typer.echo(json.dumps(found, indent=2))
    else:
        print_findings(findings)
    raise typer.Exit(0 if findings.can_be_served else 1)


def _examine(settings: EngineSettings, self_test: bool) -> tuple[Findings, SelfTest | None]:
    from rlcm_serve.answers.profile_graders import require_answerable
    from rlcm_serve.engine.diagnosis.capabilities import examine_vllm
    from rlcm_serve.engine.diagnosis.findings import Findings, Refused
    from rlcm_serve.engine.diagnosis.model import examine_model
    from rlcm_serve.engine.launch import set_environment

    set_environment()
    findings = Findings()
    try:
        examined = examine_model(settings, findings)
        for profile in examined.settings.profiles:
            with findings.refusing(f"profile {profile.name}", "change the profile"):
                require_answerable(profile)
        examine_vllm(examined.settings, examined, findings)
    except Refused:
        return findings, None
    _note_certificates(examined.files.folder, findings)
    if not self_test:
        return findings, None
    return findings, asyncio.run(_test(examined, findings))


def _note_certificates(folder: Any, findings: Findings) -> None:
    from rlcm_serve.solving.guarantees import find_certificates

    count = len(find_certificates(folder))
    if count:
        findings.fine("certificates", f"{count} in {folder / 'certificates'}")
    else:
        findings.note(
            "certificates",
            f"none in {folder / 'certificates'}: answers come without a guarantee",
            "record problems with `rlcm collect`, and fit one with `rlcm fit`",
        )


async def _test(examined: Examined, findings: Findings) -> SelfTest | None:
    """Starts the engine and tests it; notes what came of it."""
    from rlcm_serve.engine.diagnosis.self_test import self_test
    from rlcm_serve.engine.vllm_engine import VllmEngine
    from rlcm_serve.errors import RlcmError

    settings, files = examined.settings, examined.files
    engine = VllmEngine(replace(settings, record_inputs=True, needs_probe=False))
    try:
        await engine.start()
        passed = await self_test(engine, files)
    except RlcmError as error:
        log = f"see {settings.log}" if settings.log else "see vLLM's output"
        findings.refuse("self-test", str(error), log)
        return None
    else:
        if passed is not None:
            findings.fine("self-test", _told(passed))
        _check_certificates(engine, files.folder, findings)
        return passed
    finally:
        engine.stop()


def _told(passed: SelfTest) -> str:
    parts = []
    if passed.worst is not None:
        parts.append(f"confidences by at most {passed.worst:.1g}")
    if passed.worst_state is not None:
        parts.append(f"states by at most {passed.worst_state:.1g} of their norm")
    return (
        f"{passed.readings} readings compared with {passed.reference} differ in "
        f"{' and in '.join(parts)}; {passed.seconds:.2f} s"
    )


def _check_certificates(engine: Any, folder: Any, findings: Findings) -> None:
    from calibration.errors import CalibrationError
    from rlcm_serve.errors import RlcmError
    from rlcm_serve.solving.guarantees import Guarantees, find_certificates

    try:
        loaded = Guarantees.load(engine.identities, find_certificates(folder))
    except (RlcmError, CalibrationError) as error:
        findings.refuse(
            "certificates", str(error), "move the certificate away, or calibrate this setup again"
        )
        return
    for one in loaded.certificates:
        for caveat in loaded.caveats(one.id):
            findings.note("certificates", f"{one.id}: {caveat}")


def print_findings(findings: Findings) -> None:
    """Prints findings as a table that fits the terminal, and the verdict."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for _ in range(3):
        table.add_column(overflow="fold")
    for one in findings.found:
        colour = _COLOURS[one.verdict]
        text = f"{one.text}\n-> {one.remedy}" if one.remedy else one.text
        table.add_row(f"[{colour}]{one.verdict}[/]", one.topic, _plain(text))
    console = Console()
    console.print(table)
    verdict = "can be served" if findings.can_be_served else "cannot be served like this"
    console.print(f"The model {verdict}.", highlight=False)


def _plain(text: str) -> Any:
    """The text as it is: square brackets are no markup."""
    from rich.text import Text

    return Text(text)
