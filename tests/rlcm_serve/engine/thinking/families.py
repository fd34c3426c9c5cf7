"""Tokenizers with the special tokens of model families, and chat templates of their form.

The vocabulary is the 256 bytes, so every text can be encoded. The templates are shortened: what a
tool call needs is left out, and what concerns thinking is as in the models.
"""

from __future__ import annotations

from dataclasses import dataclass

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

THINK = ("<think>", "</think>")
CHATML = ("<|im_start|>", "<|im_end|>")
DEEPSEEK_TOKENS = ("<｜User｜>", "<｜Assistant｜>", "<｜end▁of▁sentence｜>")
HARMONY = ("<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|return|>", "<|call|>")

DEEPSEEK_R1 = """\
{%- for m in messages %}
{%- if m.role == 'user' %}{{ '<｜User｜>' + m.content }}
{%- elif m.role == 'assistant' %}{{ '<｜Assistant｜>' + m.content.split('</think>')[-1] }}
{{- '<｜end▁of▁sentence｜>' }}
{%- else %}{{ m.content }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<｜Assistant｜><think>\\n' }}{% endif %}"""

DEEPSEEK_V31 = """\
{%- if thinking is not defined %}{% set thinking = enable_thinking | default(false) %}{% endif %}
{%- for m in messages %}
{%- if m.role == 'user' %}{{ '<｜User｜>' + m.content }}
{%- elif m.role == 'assistant' %}
{{- '<｜Assistant｜></think>' + m.content.split('</think>')[-1] + '<｜end▁of▁sentence｜>' }}
{%- else %}{{ m.content }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<｜Assistant｜>' + ('<think>' if thinking else '</think>') }}{% endif %}"""

_CHATML_TURNS = """\
{%- for m in messages %}
{%- if m.role != 'assistant' %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}
{%- else %}
{%- set content = m.content.split('</think>')[-1].lstrip('\\n') %}
{{- '<|im_start|>assistant\\n' }}
{%- if loop.last %}{{ '<think>\\n' + (m.reasoning_content or '') + '\\n</think>\\n\\n' }}{% endif %}
{{- content + '<|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}"""
QWEN3 = (
    _CHATML_TURNS
    + """
{%- if enable_thinking is defined and enable_thinking is false %}
{{- '<think>\\n\\n</think>\\n\\n' }}{% endif %}{% endif %}"""
)
QWEN3_THINKING_2507 = _CHATML_TURNS + "{{ '<think>\\n' }}{% endif %}"
CHATML_ALONE = """\
{%- for m in messages %}
{{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""
STRIPS_HISTORY = CHATML_ALONE.replace("m.content +", "m.content.split('</think>')[-1] +")
WRITES_REASONING = CHATML_ALONE.replace(
    "m.content +",
    "('<think>' + m.thinking + '</think>' if m.thinking else '') + m.content +",
)
NEMOTRON = """\
{%- set enable_thinking = enable_thinking | default(true) %}
{%- for m in messages %}
{%- set c = m.content.split('</think>')[-1] %}
{%- if m.role == 'assistant' %}
{%- set c = '<think>' + (m.reasoning_content or '') + '</think>' + c %}{% endif %}
{{- '<|im_start|>' + m.role + '\\n' + c + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n<think>' + ('\\n' if enable_thinking else '</think>') }}{% endif %}"""
NEMOTRON_NANO_2 = """\
{%- set ns = namespace(thinks=true) %}
{%- for m in messages %}
{%- if '/no_think' in m.content %}{% set ns.thinks = false %}{% endif %}
{{- '<|im_start|>' + m.role + '\\n' + m.content.replace('/no_think', '') + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' + ('<think>\\n' if ns.thinks else '<think></think>') }}{% endif %}"""
NEMOTRON_SUPER = """\
{%- set ns = namespace(thinks=true) %}
{%- for m in messages %}
{%- if m.role == 'system' and '/no_think' in m.content %}{% set ns.thinks = false %}{% endif %}
{%- set c = m.content.split('</think>')[-1] if m.role == 'assistant' else m.content %}
{{- '<|im_start|>' + m.role + '\\n' + c + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{%- if not ns.thinks %}{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}{% endif %}"""
GLM45 = """\
{{- '[gMASK]<sop>' }}
{%- for m in messages %}
{%- if m.role == 'assistant' %}
{{- '<|assistant|>\\n<think>' + (m.reasoning_content or '') + '</think>\\n' }}
{{- m.content.split('</think>')[-1] }}
{%- else %}{{ '<|' + m.role + '|>\\n' + m.content }}
{%- if m.role == 'user' and enable_thinking is defined and not enable_thinking %}/nothink{% endif %}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>' }}
{%- if enable_thinking is defined and not enable_thinking %}{{ '\\n<think></think>' }}{% endif %}
{%- endif %}"""
KIMI_K2 = """\
{%- for m in messages %}
{{- '<|im_start|>' + m.role + '\\n' }}
{%- if m.role == 'assistant' %}{{ '<think>' + (m.reasoning_content or '') + '</think>' }}{% endif %}
{{- m.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""
GPT_OSS = """\
{{- '<|start|>system<|message|>You are ChatGPT.\\nReasoning: ' + (reasoning_effort or 'medium') }}
{{- '\\n\\n# Valid channels: analysis, commentary, final.<|end|>' }}
{%- for m in messages %}
{%- if m.role == 'system' %}
{{- '<|start|>developer<|message|># Instructions\\n\\n' + m.content + '\\n\\n<|end|>' }}
{%- elif m.role == 'user' %}{{ '<|start|>user<|message|>' + m.content + '<|end|>' }}
{%- else %}
{%- if '<|channel|>' in m.content %}{{ raise_exception('channel tags in the content') }}{% endif %}
{%- if m.thinking and loop.last %}
{{- '<|start|>assistant<|channel|>analysis<|message|>' + m.thinking + '<|end|>' }}{% endif %}
{{- '<|start|>assistant<|channel|>final<|message|>' + m.content + '<|end|>' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start|>assistant' }}{% endif %}"""
MAGISTRAL = """\
{%- if messages[0].role != 'system' %}
{{- '[SYSTEM_PROMPT]First draft your thinking. Your format:\\n[THINK]Your thoughts.[/THINK]' }}
{{- 'Here, the answer.[/SYSTEM_PROMPT]' }}{% endif %}
{%- for m in messages %}
{%- if m.role == 'system' %}{{ '[SYSTEM_PROMPT]' + m.content + '[/SYSTEM_PROMPT]' }}
{%- elif m.role == 'user' %}{{ '[INST]' + m.content + '[/INST]' }}
{%- elif m.content is string %}{{ m.content + '</s>' }}
{%- else %}
{%- for block in m.content %}
{%- if block.type == 'thinking' %}{{ '[THINK]' + block.thinking + '[/THINK]' }}
{%- else %}{{ block.text }}{% endif %}
{%- endfor %}{{ '</s>' }}
{%- endif %}
{%- endfor %}"""
SMOLLM3 = """\
{%- set enable_thinking = enable_thinking | default(true) %}
{%- set ns = namespace(mode='/think' if enable_thinking else '/no_think', said='') %}
{%- if messages[0].role == 'system' %}
{%- if '/no_think' in messages[0].content %}{% set ns.mode = '/no_think' %}
{%- elif '/think' in messages[0].content %}{% set ns.mode = '/think' %}{% endif %}
{%- set ns.said = messages[0].content.replace('/no_think', '').replace('/think', '').rstrip() %}
{%- endif %}
{{- '<|im_start|>system\\n## Metadata\\n\\nReasoning Mode: ' + ns.mode + '\\n\\n' }}
{%- if ns.said %}{{ ns.said }}
{%- elif ns.mode == '/think' %}{{ 'Use the format: <think> Thought </think> Solution.' }}{% endif %}
{{- '<|im_end|>\\n' }}
{%- for m in messages %}
{%- if m.role == 'user' %}{{ '<|im_start|>user\\n' + m.content + '<|im_end|>\\n' }}
{%- elif m.role == 'assistant' %}
{{- '<|im_start|>assistant\\n' + m.content.lstrip('\\n') + '<|im_end|>\\n' }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}
{%- if ns.mode == '/no_think' %}{{ '<think>\\n\\n</think>\\n' }}{% endif %}{% endif %}"""
PHI_4_REASONING = """\
{{- '<|im_start|>system<|im_sep|>You are Phi. Structure your response: ' }}
{{- '<think> {Thought} </think> {Solution}.<|im_end|>' }}
{%- for m in messages %}
{%- if m.role == 'user' %}{{ '<|im_start|>user<|im_sep|>' + m.content + '<|im_end|>' }}
{%- elif m.role == 'assistant' %}
{{- '<|im_start|>assistant<|im_sep|>' + m.content + '<|im_end|>' }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant<|im_sep|>' }}{% endif %}"""
SEED_OSS = """\
{%- if thinking_budget is not defined %}{% set thinking_budget = -1 %}{% endif %}
{%- for m in messages %}
{{- '<seed:bos>' + m.role + '\\n' }}
{%- if m.reasoning_content %}{{ '<seed:think>' + m.reasoning_content + '</seed:think>' }}{% endif %}
{{- m.content + '<seed:eos>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<seed:bos>assistant\\n' }}
{%- if thinking_budget == 0 %}{{ '<seed:think><seed:cot_budget_reflect>' }}{% endif %}{% endif %}"""
GEMMA4 = """\
{%- if enable_thinking is defined and enable_thinking %}
{{- '<|turn>system\\n<|think|><turn|>\\n' }}{% endif %}
{%- for m in messages %}
{{- '<|turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' }}
{%- if m.reasoning %}{{ '<|channel>thought\\n' + m.reasoning + '\\n<channel|>' }}{% endif %}
{{- m.content + '<turn|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|turn>model\\n' }}{% endif %}"""
GEMMA4_LARGE = GEMMA4.replace(
    "{{ '<|turn>model\\n' }}",
    "{{ '<|turn>model\\n' }}"
    "{%- if not enable_thinking %}{{ '<|channel>thought\\n<channel|>' }}{% endif %}",
)
RECIPIENTS = """\
{%- for m in messages %}
{%- if m.role == 'assistant' %}
{%- if m.reasoning %}
{{- '<|im_start|>assistant to=self\\n' + m.reasoning + '<|im_end|>' }}{% endif %}
{{- '<|im_start|>assistant to=user\\n' + m.content + '<|im_end|>' }}
{%- else %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>' }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant' }}{% endif %}"""


@dataclass(frozen=True)
class Family:
    """Special tokens and a chat template; the last special token ends a completion."""

    tokens: tuple[str, ...]
    template: str
    merely_added: tuple[str, ...] = ()
    """Tokens that are not special, as `<think>` in Qwen's vocabularies."""

    def tokenizer(self) -> PreTrainedTokenizerFast:
        """A new tokenizer with these tokens."""
        return tokenizer_with(self.tokens, self.template, self.merely_added)


FAMILIES = {
    "deepseek-r1": Family((*THINK, *DEEPSEEK_TOKENS), DEEPSEEK_R1),
    "deepseek-v3.1": Family((*THINK, *DEEPSEEK_TOKENS), DEEPSEEK_V31),
    "qwen3": Family(CHATML, QWEN3, THINK),
    "qwen3-instruct-2507": Family(CHATML, CHATML_ALONE, THINK),
    "qwen3-thinking-2507": Family(CHATML, QWEN3_THINKING_2507, THINK),
    "gpt-oss": Family(HARMONY, GPT_OSS),
    "magistral": Family(
        ("[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[INST]", "[/INST]", "[THINK]", "[/THINK]", "</s>"),
        MAGISTRAL,
    ),
    "seed-oss": Family(
        ("<seed:bos>", "<seed:think>", "</seed:think>", "<seed:cot_budget_reflect>", "<seed:eos>"),
        SEED_OSS,
    ),
    "glm-4.5": Family(
        ("[gMASK]", "<sop>", "<|system|>", "<|assistant|>", "<|user|>"), GLM45, THINK
    ),
    "nemotron-3": Family((*THINK, *CHATML), NEMOTRON),
    "nemotron-nano-2": Family((*THINK, *CHATML), NEMOTRON_NANO_2),
    "nemotron-super": Family((*THINK, *CHATML), NEMOTRON_SUPER),
    "smollm3": Family((*THINK, *CHATML), SMOLLM3),
    "phi-4-reasoning": Family(("<|im_sep|>", *CHATML), PHI_4_REASONING, THINK),
    # Its <think> is plain text.
    "olmo-3-think": Family(CHATML, QWEN3_THINKING_2507),
    "kimi-k2-thinking": Family((*THINK, *CHATML), KIMI_K2),
    "gemma-4": Family(("<|turn>", "<|think|>", "<|channel>", "<channel|>", "<turn|>"), GEMMA4),
    "gemma-4-large": Family(
        ("<|turn>", "<|think|>", "<|channel>", "<channel|>", "<turn|>"), GEMMA4_LARGE
    ),
    "plain": Family(CHATML, CHATML_ALONE),
    # What the rendered prompts cannot tell.
    "strips-history": Family((*THINK, *CHATML), STRIPS_HISTORY),
    "writes-reasoning": Family((*THINK, *CHATML), WRITES_REASONING),
    "two-formats": Family(
        (*THINK, "[THINK]", "[/THINK]", *CHATML),
        CHATML_ALONE.replace("assistant\\n' }}", "assistant\\n<think>[THINK]' }}"),
    ),
    "no-closing-token": Family(("<think>", *CHATML), QWEN3_THINKING_2507),
    "unknown-form": Family(CHATML, RECIPIENTS),
}


def tokenizer_with(
    special: tuple[str, ...], template: str, merely_added: tuple[str, ...] = ()
) -> PreTrainedTokenizerFast:
    """The 256 bytes, then the special tokens, then the merely added ones."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: number for number, letter in enumerate(letters)}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in special])
    tokenizer.add_tokens([AddedToken(name, special=False) for name in merely_added])
    made = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=special[-1])
    made.chat_template = template
    return made
