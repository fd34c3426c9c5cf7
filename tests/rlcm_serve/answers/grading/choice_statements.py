r"""What models write around a letter `{L}`: a second letter `{M}`, a denial, a lead.

`choice_questions.py` has the forms that the study counts.
"""

SECOND_LETTERS = [
    *[
        "{L} (or {M})",
        "{L}, maybe {M}",
        "{L}. No, {M}",
        "{L} (possibly {M})",
        "{L} ({M})",
        "({L}) ({M})",
    ],
    *["{L}, or possibly ({M})", "{L}: no, it is {M}", "{L}. Wait, {M}.", "{L}. Actually, it's {M}"],
    *["{L}. The answer is {M}.", "{L}, but {M} is also possible", "{L}, {M} is also correct"],
    *["{L}, and {M} too", "{L}; alternatively {M}", "{L}, perhaps option {M}", "{L}\nNo, {M}."],
    *["{L}. mitochondria or {M}. ribosome", "{L}) cells ({M})", "{L}: cells, {M}: tissue"],
    *["{L}, not X but {M}", "{L}, because it fits. Also {M}.", "{L} is correct, {M} is correct"],
    *["{L} is correct, and so is {M}", "{L}, unless {M}", "{L} – or {M}", "{L}. Either {M} or X"],
    *["{L}, change it to {M}", "{L} (same as {M})", r"\text{{{L}, or }} {M}", "**{L}** or **{M}**"],
    *["{L}, also {M}", "{L}. Correction: {M}", "{L}, or {M}?", "{L}! No: {M}!", "{L}, I mean {M}"],
    *["{L}。不，{M}。", "{L}、{M}", "{L}或{M}", "{L}，{M}", "选{L}和{M}", "答案：{L}、{M}"],
    *[
        "{L}; then again, {M} might be right",
        "{L}, {M} could be right as well",
        "({L}) or else ({M})",
    ],
    *["{L}) 4, {M}) 3", "({L}) 3 ({M}) 4", "{L}. {M}) 3", "{L}) 4 {M}) 3", "({L}) foo, ({M}) bar"],
    *["{L}, together with {M}", "{L}, however {M} might also be right", r"{L} \lor {M}"],
    *["{L} (not certain; {M} possible)", r"({L}) \lor ({M})", "{L}) foo\n{M}) bar"],
]
"""An option, and another one beside it."""

DENIALS = [
    *["({L}) is wrong", "{L}, wrong", "{L}: incorrect", "{L}) is not correct", "({L}) isn't right"],
    *[
        "({L}) is incorrect.",
        "{L}: wrong!",
        "{L} (wrong)",
        "({L}) is clearly wrong",
        "{L}. Incorrect",
    ],
    *["({L}) cannot be right", "({L}) can't be the answer", "({L}) is false", "({L}) is excluded"],
    *["({L}) was ruled out", "({L}) can be eliminated", "({L}) does not fit", "({L}) is too small"],
    *[
        "{L}, not correct",
        "{L}: definitely not",
        "{L} - incorrect",
        "({L}) seems wrong",
        "({L}) fails",
    ],
    *[
        "{L}, no",
        "{L}. No, wait",
        "({L}) is not it",
        "({L}) must be rejected",
        "{L}, not the answer",
    ],
    *["Option {L}: wrong", "**{L}** – incorrect", r"\text{{({L}) is wrong}}", "{L}. cells, wrong"],
    *["{L}：错误", "{L}。不正确", "{L}, 不对", "选项{L}不正确", "不选{L}", "答案不是{L}"],
    *["It is not {L}", "The wrong answer is {L}", "not ({L})", "the wrong one is ({L})"],
    *["anything but ({L})", "I would avoid option {L}", "none, not even ({L})"],
    *["{L}, but that is wrong", "{L}; this is incorrect", "{L}, which is wrong"],
    *["{L}. It isn't right", "{L} (this option is wrong)"],
]
"""An option that the answer denies."""

LEADS = [
    *[r"\text{{Option }} {L}", r"\text{{Option}}~{L}", r"\text{{Answer: }}{L}", "Final: {L}"],
    *[
        "Final: ({L})",
        "**Final:** {L}",
        r"\textbf{{Final answer:}} {L}",
        r"\text{{The answer is }}({L})",
    ],
    *[
        r"\text{{Option }} \mathbf{{{L}}}",
        r"\text{{Option }}\boxed{{{L}}}",
        r"\text{{choice }} {L}.",
    ],
    *[
        "选{L}",
        "选 {L}",
        "答案：{L}",
        "答案:{L}",
        "{L}。",
        "答案是{L}。",
        "答案为 {L}",
        "故选{L}",
        "故选：{L}.",
    ],
    *[
        "选项{L}",
        "正确答案是{L}",
        "应选{L}",
        "选择 {L}",
        "因此，答案选{L}。",
        "（{L}）",
        "【{L}】",
        "本题选{L}",
    ],
    *[
        "故答案为：{L}",
        "正确选项为{L}",
        r"\text{{选}}{L}",
        r"\text{{答案：}} {L}",
        "最终答案：**{L}**",
    ],
    *["Final: option {L}", "Final: the answer is {L}", "{L} is the only correct option"],
]
"""A letter behind or before what is no part of it."""

STATEMENTS = [
    *[
        "{L}, not {M}",
        "{L} (not {M})",
        "{L} rather than {M}",
        "{L} instead of {M}",
        "{L}, not option {M}",
    ],
    *["{L}, because {M} is too small", "{L}, since {M} and X are wrong", "{L}. {M} is wrong."],
    *["{L} because {M} is impossible", "{L}; {M} is excluded", "{L} is correct, {M} is wrong"],
    *[
        "{L}. Vitamin {M}",
        "{L}. vitamin {M} deficiency",
        "{L}) the point {M}",
        "{L}: hepatitis {M}",
    ],
    *[
        "{L}. {M}-cells divide",
        "{L}) x^2/2 + {M}",
        "{L}: P({M}) = 1/2",
        "{L}. neither {M} nor X holds",
    ],
    *["{L} is right, as ({M}) is wrong", "{L}, as opposed to {M}", "{L}, since ({M}) does not fit"],
    *["{L}, probably", "{L} (most likely)", "{L}: cannot be determined", "{L}. does not change"],
    *[
        "{L}) No, it is not",
        "{L}. Not enough information",
        "{L}. None of the above",
        "{L}. No",
        "{L} - No",
    ],
    *["{L}. not all of them", "{L} is the best answer", "({L}) is correct.", "({L}) works best"],
    *[
        "{L}. Washington, D.C.",
        "{L}. A ribosome",
        "{L}, I think",
        "{L}. I could not find a better one",
    ],
    *[
        "{L}: 10 m/s",
        "{L}. f(x) = a + b",
        "{L}: the rate(s) of a and b",
        "{L}。线粒体",
        "{L}、线粒体",
    ],
    *[
        "({L}) is equal to zero",
        "{L}. is equal to zero",
        "{L}（线粒体）",
        "{L}. It fails to converge",
    ],
    *["{L}. ({M}) violates the law", "{L}; ({M}), (X) and (Y) violate it", "选{L}，不选{M}"],
    *[
        "选{L}，因为{M}错",
        "{L}. (see {M})",
        "{L} (see figure {M})",
        "{L}) ({M})-2-butene",
        "{L}: C(5, 2)",
        "{L}, (cf. step {M})",
        "({L}) is the incorrect statement",
        "{L}, not ({M})",
    ],
]
"""One option, whatever else is said; `{M}` is no choice there."""
