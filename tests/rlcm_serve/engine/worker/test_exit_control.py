from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from calibration import FULL_BUDGET, ExitPolicy
from rlcm_serve.engine.worker.exit_control import EXTRA_ARG, ControlSpec, ExitControl
from rlcm_serve.engine.worker.readings.table import TableAddress

HIGH, LOW, THINK_END = 510, 511, 4
SPEC = ControlSpec(
    policy=FULL_BUDGET,
    interval=16,
    budget=100,
    stop_high=HIGH,
    stop_low=LOW,
    think_end=THINK_END,
    table=TableAddress("/dev/shm/table", slots=4, capacity=8),
    slot=2,
    ticket=7,
)


@dataclass
class Reported:
    """What a control wrote: the latest reading of each checkpoint, c_end, and all signals."""

    checkpoints: dict[int, float] = field(default_factory=dict)
    final: tuple[int, float] | None = None
    signals: list[Sequence[float]] = field(default_factory=list)

    def add(self, number: int, confidence: float, signals: Sequence[float], inputs: object) -> None:
        self.checkpoints[number] = confidence
        self.signals += [signals] if signals else []

    def keep(self, tokens: int, interval: int) -> None:
        self.checkpoints = {n: c for n, c in self.checkpoints.items() if n * interval <= tokens}

    def finish(
        self, tokens: int, confidence: float, signals: Sequence[float], inputs: object
    ) -> None:
        self.final = tokens, confidence
        self.signals += [signals] if signals else []


def control(policy: ExitPolicy = FULL_BUDGET, budget: int = 100) -> tuple[ExitControl, Reported]:
    reported = Reported()
    spec = replace(SPEC, policy=policy, budget=budget)
    return ExitControl(spec, reported), reported  # type: ignore[arg-type]


def test_states_are_read_at_every_interval_and_at_the_budget() -> None:
    exits, _ = control(budget=40)
    assert [tokens for tokens in range(60) if exits.reads_at(tokens)] == [16, 32, 40]


def test_a_budget_on_a_checkpoint_is_read_once() -> None:
    exits, reported = control(ExitPolicy(lambda_high=0.1), budget=32)
    assert [tokens for tokens in range(60) if exits.reads_at(tokens)] == [16, 32]
    assert exits.read(32, 0.9) == LOW, "the final reading fires nothing"
    assert reported == Reported({}, (32, 0.9))


def test_a_budget_of_0_reads_the_prompts_last_state() -> None:
    exits, reported = control(budget=0)
    assert exits.reads_at(0)
    for confidence in (0.9, 0.2):  # the chunks of a prefill; the last one has the prompt's end
        assert exits.read(0, confidence) == LOW
    assert reported == Reported({}, (0, 0.2))


def test_the_step_after_the_budgets_is_not_read() -> None:
    """Asynchronous scheduling: it was under way before the stop id was seen."""
    exits, _ = control(budget=40)
    assert not exits.reads_at(41)
    assert not exits.reads_at(48)


def test_high_and_low_have_ids_of_their_own() -> None:
    policy = ExitPolicy(lambda_low=0.2, lambda_high=0.8)
    assert control(policy)[0].read(16, 0.8) == HIGH
    assert control(policy)[0].read(16, 0.2) == LOW
    assert control(policy)[0].read(16, 0.5) is None


def test_checkpoints_are_reported_by_number() -> None:
    exits, reported = control()
    for tokens, confidence in ((16, 0.1), (32, 0.2), (48, 0.3)):
        exits.read(tokens, confidence)
    assert reported.checkpoints == {1: 0.1, 2: 0.2, 3: 0.3}


def test_of_two_readings_at_one_length_the_last_counts() -> None:
    exits, reported = control(ExitPolicy(lambda_high=0.8))
    assert exits.read(16, 0.9) == HIGH  # a chunk of a prefill: what it samples is thrown away
    assert exits.read(16, 0.5) is None
    assert reported.checkpoints == {1: 0.5}


def test_reading_a_length_again_does_not_count_for_patience() -> None:
    policy = ExitPolicy(lambda_low=0.3, patience=32)
    exits, _ = control(policy)
    assert exits.read(16, 0.1) is None
    assert exits.read(32, 0.1) == LOW
    assert exits.read(32, 0.1) == LOW, "the same once more"
    exits, _ = control(policy)
    exits.read(16, 0.1)
    assert exits.read(32, 0.9) is None  # thrown away: not what breaks the low streak
    assert exits.read(32, 0.1) == LOW
    exits, _ = control(policy)
    exits.read(16, 0.1)
    assert exits.read(32, 0.1) == LOW  # thrown away: the state was not low
    assert exits.read(32, 0.9) is None
    assert exits.read(48, 0.1) is None, "low since 32 only"
    assert exits.read(64, 0.1) == LOW


def test_reading_a_length_again_does_not_smooth_twice() -> None:
    exits, _ = control(ExitPolicy(lambda_high=0.7, smoothing=0.5))
    exits.read(16, 0.2)
    for _ in range(5):
        assert exits.read(32, 1.0) is None  # 0.6 each time
    assert exits.read(48, 1.0) == HIGH


def test_a_draft_that_is_refused_takes_back_the_readings_after_it() -> None:
    policy = ExitPolicy(lambda_low=0.3, patience=48, smoothing=0.1)
    alone, _ = control(policy)
    exits, reported = control(policy)
    for tokens, confidence in ((16, 0.1), (32, 0.9), (48, 0.9)):  # the last two at wrong drafts
        exits.read(tokens, confidence)
    exits.keep(31)
    assert reported.checkpoints == {1: 0.1}
    alone.read(16, 0.1)
    for tokens in (32, 48, 64):
        assert exits.read(tokens, 0.2) == alone.read(tokens, 0.2)
    exits.end(40, 0.2)
    assert reported.checkpoints == {1: 0.1, 2: 0.2}


def test_the_end_is_the_models_closing_token() -> None:
    exits, reported = control()
    assert exits.is_end(THINK_END)
    assert not exits.is_end(THINK_END + 1)
    exits.end(37, 0.6)
    assert not exits.thinking
    assert reported.final == (37, 0.6)


def test_all_signals_are_reported_with_the_one_that_acts() -> None:
    exits, reported = control(ExitPolicy(lambda_high=0.8), budget=48)
    assert exits.read(16, 0.25, (0.9, 0.25, 0.5, 0.5)) is None, "the probe is not what acts"
    assert exits.read(32, 0.85, (0.1, 0.85, 0.5, 0.5)) == HIGH
    exits.end(37, 0.5, (0.2, 0.5, 0.5, 0.5))
    assert [signals[0] for signals in reported.signals] == [0.9, 0.1, 0.2]


def test_tokens_are_tracked_only_where_the_table_has_room_for_them() -> None:
    with_tokens = replace(SPEC, table=replace(SPEC.table, tokens=64))
    assert not SPEC.tracks_tokens
    assert with_tokens.tracks_tokens
    assert not replace(with_tokens, budget=0).tracks_tokens, "it samples no tokens"


def test_a_model_without_a_closing_token_never_ends_by_one() -> None:
    spec = replace(SPEC, think_end=None)
    exits = ExitControl(spec, Reported())  # type: ignore[arg-type]
    assert not any(exits.is_end(token) for token in range(512))


def test_a_spec_travels_as_plain_values() -> None:
    policy = ExitPolicy(lambda_low=0.1, patience=32, lambda_high=0.9, smoothing=0.3)
    spec = replace(SPEC, policy=policy, think_end=None, statistics=(0.5, -1.0))
    extra_args = spec.to_extra_args()
    assert ControlSpec.from_extra_args(extra_args | {"another": 1}) == spec
    flat = [*extra_args[EXTRA_ARG].values(), *extra_args[EXTRA_ARG]["policy"].values()]
    assert all(isinstance(value, int | float | str | dict | tuple | None) for value in flat)


@pytest.mark.parametrize("extra_args", [None, {}, {"another": 1}])
def test_a_request_without_exit_control_has_no_spec(extra_args: dict[str, int] | None) -> None:
    assert ControlSpec.from_extra_args(extra_args) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"interval": 0}, "interval 0"),
        ({"budget": -1}, "budget -1"),
        ({"reads": "tea leaves"}, "'tea leaves': give one of probe, .*, tail, entropy"),
        ({"ticket": ...}, "malformed.*ticket"),
        ({"surprise": 1}, "malformed.*surprise"),
        ({"table": {"path": "x"}}, "malformed.*slots"),
    ],
)
def test_a_malformed_spec_is_refused(change: dict[str, object], message: str) -> None:
    plain = SPEC.to_extra_args()[EXTRA_ARG] | change
    plain = {name: value for name, value in plain.items() if value is not ...}
    with pytest.raises(ValueError, match=message):
        ControlSpec.from_extra_args({EXTRA_ARG: plain})


@pytest.mark.parametrize("sent", [5, None, [1, 2], "x"])
def test_what_is_no_spec_at_all_is_refused(sent: object) -> None:
    with pytest.raises(ValueError, match="malformed"):
        ControlSpec.from_extra_args({EXTRA_ARG: sent})


def test_a_policy_that_the_rule_refuses_is_refused() -> None:
    plain = SPEC.to_extra_args()[EXTRA_ARG] | {"policy": {"lambda_low": 0.9, "lambda_high": 0.1}}
    with pytest.raises(ValueError, match="λ1 must stay below λ2"):
        ControlSpec.from_extra_args({EXTRA_ARG: plain})
