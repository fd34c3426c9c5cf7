"""Passes without padding give what passes with it do."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from training.rl.trainer.passes import dealt_by_length, passes, trimmed

LENGTHS = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 9)), min_size=1, max_size=8)


def padded(lengths: list[tuple[int, int]]) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Prompts on the left, completions on the right; the ids tell rows and places."""
    prompt, width = (max(each) for each in zip(*lengths, strict=True))
    ids = torch.zeros(len(lengths), prompt + width, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, (before, after) in enumerate(lengths):
        mask[row, prompt - before : prompt + after] = 1
        ids[row] = 100 * (row + 1) + torch.arange(prompt + width)
    return ids * mask, mask, width


@given(LENGTHS, st.integers(1, 4))
def test_every_token_is_in_one_pass(lengths: list[tuple[int, int]], size: int) -> None:
    ids, mask, width = padded(lengths)
    rebuilt = torch.zeros(len(lengths), width, dtype=torch.long)
    seen: list[int] = []
    longest = 0
    for each in passes(ids, mask, width, size):
        assert len(each.rows) <= size
        assert each.mask.any(0)[0]
        rebuilt[each.rows, : each.width] = each.ids[:, -each.width :]
        own = [lengths[row][1] for row in each.rows.tolist()]
        assert each.width == max(own)
        assert min(own) >= longest  # the short ones first
        longest = max(own)
        seen += each.rows.tolist()
    assert sorted(seen) == list(range(len(lengths)))
    assert torch.equal(rebuilt, ids[:, -width:])


@given(LENGTHS)
def test_only_padding_is_trimmed(lengths: list[tuple[int, int]]) -> None:
    ids, mask, width = padded(lengths)
    ids, mask = (torch.nn.functional.pad(each, (2, 3)) for each in (ids, mask))
    prompt = ids.shape[1] - width - 3
    inputs = {
        "prompt_ids": ids[:, :prompt],
        "prompt_mask": mask[:, :prompt],
        "completion_ids": ids[:, prompt:],
        "completion_mask": mask[:, prompt:],
        "old_per_token_logps": ids[:, prompt:] * 0.5,
        "advantages": torch.arange(len(lengths)),
    }
    kept = trimmed(inputs)
    for name in ("prompt_ids", "completion_ids", "old_per_token_logps"):
        assert kept[name].sum() == inputs[name].sum()
    assert kept["prompt_ids"].shape[1] == max(before for before, _ in lengths)
    assert kept["completion_ids"].shape == kept["old_per_token_logps"].shape
    assert kept["completion_ids"].shape[1] == max(after for _, after in lengths)
    assert torch.equal(kept["advantages"], inputs["advantages"])


def test_rows_stay_whole_when_they_are_dealt_by_length() -> None:
    lengths = torch.tensor([5, 1, 4, 2, 6, 3])
    masks = (torch.arange(6) < lengths[:, None]).long()
    parts = [
        {"completion_mask": masks[rows], "name": rows, "num_items_in_batch": torch.tensor(21)}
        for rows in torch.arange(6).split(2)
    ]
    dealt = dealt_by_length(parts)
    assert [part["name"].tolist() for part in dealt] == [[1, 3], [5, 2], [0, 4]]
    for part in dealt:
        assert torch.equal(part["completion_mask"].sum(1), lengths[part["name"]])
        assert part["num_items_in_batch"] == 21
