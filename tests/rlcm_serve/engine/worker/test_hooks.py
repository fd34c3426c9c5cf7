"""The one list of what is used of vLLM: complete, and true of the vLLM that is installed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlcm_serve.engine.worker import hooks
from rlcm_serve.engine.worker.hooks import (
    FRONT_END,
    SUPPORTED,
    V1_RUNNER,
    V2_RUNNER,
    Hook,
    check_hooks,
)
from rlcm_serve.errors import UnsupportedVllm

ENGINE = Path(hooks.__file__).parent.parent
LISTED = (*FRONT_END, *V1_RUNNER, *V2_RUNNER)

OBJECTS = {
    "AsyncEngineArgs": {"AsyncEngineArgs", "arguments"},
    "AsyncLLM": {"AsyncLLM", "llm"},
    "BatchUpdate": {"batch_update"},
    "CacheConfig": {"cache_config"},
    "CompilationConfig": {"compilation_config"},
    "CompletionOutput": {"part"},
    "FlexibleArgumentParser": {"parser"},
    "LogitsContext": {"ctx"},
    "LogitsProcRequestState": {"req_states"},
    "LoRAConfig": {"lora_config"},
    "LoadConfig": {"load_config"},
    "ModelConfig": {"model_config"},
    "ModelRegistry": {"ModelRegistry"},
    "OutputProcessor": {"output_processor"},
    "ParallelConfig": {"parallel_config"},
    "RequestOutput": {"output"},
    "RequestOutputKind": {"RequestOutputKind"},
    "SamplingParams": {"params", "sampling_params"},
    "SchedulerConfig": {"scheduler", "scheduler_config"},
    "VllmConfig": {"vllm_config"},
    "_LazyRegisteredModel": {"entry"},
    "current_platform": {"current_platform"},
}
"""What the engine package calls vLLM's objects, by their class."""
NOT_VLLM = {
    ("output", "append"),  # a list of token ids, in the V1 processor
    ("part", "stop"),  # of a slice, in the distributions of tokens
}


VARIABLE = re.compile(r"\"(VLLM_[A-Z0-9_]+)\"")


def modules() -> list[tuple[str, ast.Module]]:
    files = sorted(ENGINE.rglob("*.py"))
    assert len(files) > 10
    return [(file.name, ast.parse(file.read_text())) for file in files]


def imported() -> Iterator[tuple[str, str]]:
    """What is imported from vLLM, as hooks name it, with the file that does."""
    for file, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "vllm":
                yield from ((f"{node.module}:{alias.name}", file) for alias in node.names)
            if isinstance(node, ast.Import):
                assert not any(alias.name.split(".")[0] == "vllm" for alias in node.names), file


def name_of(node: ast.expr) -> str | None:
    """The last name of `x`, `self.x` or `self.y.x`."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


def attributes() -> Iterator[tuple[str, str, str]]:
    """Attributes used of vLLM's objects: the object's class, the attribute, the file."""
    for file, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute):
                owner = name_of(node.value)
                for cls, names in OBJECTS.items():
                    if owner in names and (owner, node.attr) not in NOT_VLLM:
                        yield cls, node.attr, file


def test_whatever_is_imported_of_vllm_is_listed() -> None:
    listed = {hook.where for hook in LISTED}
    used = set(imported())
    assert len(used) > 15
    assert {name for name, _ in used} <= listed, used


def test_whatever_is_used_of_its_objects_is_listed() -> None:
    listed = {(hook.where.split(":")[1], name) for hook in LISTED for name in hook.has}
    listed |= {tuple(hook.where.split(":")[1].split(".")) for hook in LISTED}
    used = set(attributes())
    assert len(used) > 25
    missing = [one for one in used if one[:2] not in listed]
    assert not missing


def test_whatever_is_set_in_its_environment_is_listed() -> None:
    listed = {name for hook in LISTED if hook.where == "vllm:envs" for name in hook.has}
    used = {name for file in ENGINE.rglob("*.py") for name in VARIABLE.findall(file.read_text())}
    assert len(used) > 4
    assert used == listed


def test_whatever_vllm_calls_by_position_is_listed() -> None:
    ours = {
        node.name: [argument.arg for argument in node.args.args[1:]]
        for file, tree in modules()
        if file == "processor_v2.py"
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    }
    listed = {hook.where.rpartition(":")[2]: hook.takes for hook in V2_RUNNER}
    assert tuple(ours["add_request"]) == listed["LogitsProcessor.add_request"]
    assert tuple(ours["apply"]) == listed["LogitsProcessor.apply"]
    assert tuple(ours["__init__"]) == listed["LogitsProcessor"]


@pytest.mark.parametrize("runner", [None, "v1", "v2"])
def test_the_vllm_that_is_installed_has_them_all(runner: str | None) -> None:
    assert check_hooks(runner) is None


def test_an_unknown_version_with_all_hooks_starts_with_a_warning() -> None:
    assert check_hooks("v1", lambda: "0.31.4+cpu") is None
    warning = check_hooks("v1", lambda: "0.99.0")
    assert warning is not None
    assert "0.99.0" in warning
    assert f"install vLLM {SUPPORTED[0]}" in warning


@pytest.mark.parametrize(
    ("hook", "missing"),
    [
        (Hook("vllm.no_such_module:Thing"), "vllm.no_such_module:Thing"),
        (Hook("vllm:NoSuchClass"), "vllm:NoSuchClass"),
        (
            Hook("vllm.v1.engine.async_llm:AsyncLLM", has=("errored", "no_such_attribute")),
            "vllm.v1.engine.async_llm:AsyncLLM.no_such_attribute",
        ),
        (
            Hook("vllm.v1.engine.async_llm:AsyncLLM.generate", takes=("prompt", "urgency")),
            "vllm.v1.engine.async_llm:AsyncLLM.generate(urgency=)",
        ),
    ],
)
def test_a_hook_that_is_missing_is_named(
    hook: Hook, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks, "FRONT_END", (*FRONT_END, hook))
    with pytest.raises(UnsupportedVllm) as refusal:
        check_hooks("v1", lambda: "0.99.0")
    assert str(refusal.value) == (
        f"vLLM 0.99.0 lacks {missing}, which this service relies on: install vLLM "
        f"{SUPPORTED[0]} (`make install`)"
    )


def test_attributes_that_instances_are_given_count() -> None:
    assert not list(Hook("vllm:RequestOutput", has=("num_cached_tokens",)).missing())
    assert list(Hook("vllm:RequestOutput", has=("no_such_attribute",)).missing())


def test_no_vllm_at_all_is_an_error_that_says_so() -> None:
    def absent() -> str:
        raise ModuleNotFoundError("No module named 'vllm'")

    with pytest.raises(UnsupportedVllm, match="cannot be imported"):
        check_hooks("v1", absent)


def test_a_plugin_that_vllm_will_not_load_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_PLUGINS", "rlcm,other")
    assert check_hooks("v1") is None
    monkeypatch.setenv("VLLM_PLUGINS", "other")
    with pytest.raises(UnsupportedVllm, match="VLLM_PLUGINS is 'other'"):
        check_hooks("v1")
    monkeypatch.delenv("VLLM_PLUGINS")
    monkeypatch.setattr(hooks, "PLUGIN", "not installed")
    with pytest.raises(UnsupportedVllm, match="entry point"):
        check_hooks("v1")


def test_the_plugin_group_is_vllms() -> None:
    from vllm.plugins import DEFAULT_PLUGINS_GROUP

    assert hooks.PLUGIN_GROUP == DEFAULT_PLUGINS_GROUP
