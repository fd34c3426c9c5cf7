r"""Options of the kind that science questions have, and the forms in which models choose one.

The options are written for these tests. They hold what makes a letter hard to find: `a and b`,
slashes, single letters, commas, brackets, formulas, full stops and LaTeX.
"""

QUESTIONS = [
    ["nucleus", "mitochondria", "ribosome", "Golgi apparatus"],
    ["The mitochondria.", "The nucleus.", "A ribosome.", "The membrane."],
    ["1 and 2", "2 and 3", "1 and 3", "1, 2 and 3"],
    ["a and b", "b and c", "a and c", "all of a, b and c"],
    ["Only (a)", "Only (b)", "Both (a) and (b)", "Neither (a) nor (b)"],
    ["either A or B", "neither A nor B", "A and B", "A, B, and C"],
    ["10 m/s", "10 m", "10 s", "10 kg m/s"],
    ["NaOH/H2O", "HCl/H2O", "LiAlH4/THF", "NaBH4/MeOH, s"],
    ["(R, s)", "(S, r)", "(R, R)", "(S, S)"],
    ["(R)-2-butanol", "(S)-2-butanol", "2-methyl-2-propanol", "(E)-but-2-ene"],
    ["Co", "CO", "CO2", "C"],
    ["$\\mathrm{H_2O}$", "$\\mathrm{H_2O_2}$", "$\\mathrm{HO_2}$", "$\\mathrm{H_3O^+}$"],
    ["$10^{-4}$ eV", "$10^{-8}$ eV", "$10^{-9}$ eV", "$10^{-11}$ eV"],
    ["\\(E_n = \\frac{n^2}{2}\\)", "\\(E_n = n+1\\)", "\\(E_n = 2n\\)", "\\(E_n = n\\)"],
    ["1.2", "1.25", "12", "1.3"],
    ["10", "1", "100", "1000"],
    ["1/2", "3/4", "1/4", "2/3"],
    ["B-cells and T-cells", "B-cells", "T-cells", "C. elegans"],
    ["Yes.", "No.", "Only if x > 0.", "It cannot be determined"],
    ["a", "b", "c", "d"],
    ["1-bromobutane, s", "2-bromobutane, r/s", "b) and c)", "D-glucose"],
    ["from 5' to 3'", "from 3' to 5'", "in both directions", "at random."],
    ['"red"', '"blue"', '"green"', "none; it is black"],
    ["A - B", "B - A", "A + B", "A = B"],
    ["5°", "50°", "15°", "25 °C"],
    ["Λ = 0.7", "Ω = 0.3", "Λ + Ω = 1", "σ ≥ 8"],
    ["AB", "BC", "CD", "ABC"],
    ["He is right because she lied", "She lied; he did not.", "Nobody lied!", "Both lied?"],
]
"""The options of each question, each of which means one thing."""

LETTER_FORMS = [
    *["{L}", "{l}", "({L})", "[{L}]", "{{{L}}}", "{L})", "{L}.", "{L}:", "{L};", "{L},", " {L} "],
    *['"{L}"', "'{L}'", "“{L}”", "`{L}`", "*{L}*", "**{L}**", "**({L})**", "__{L}__", "<{L}>"],
    *["${L}$", r"\({L}\)", r"\[{L}\]", r"\left({L}\right)", r"\left[{L}\right]", r"\{{{L}\}}"],
    *[
        r"\text{{{L}}}",
        r"\text{{({L})}}",
        r"\textbf{{{L}}}",
        r"\mathrm{{{L}}}",
        r"\mathbf{{({L})}}",
    ],
    *[r"\boxed{{{L}}}", r"\boxed{{\text{{{L}}}}}", r"$\boxed{{{L}}}$", r"\text{{ {L} }}", r"{L}\,"],
    *[r"\color{{red}}{{{L}}}", r"{{\bf {L}}}", r"\fbox{{{L}}}", "{L}\\\\"],
    *[r"\underline{{{L}}}", r"\mathsf{{{L}}}", r"\displaystyle {L}", r"\textbf{{({L}).}}", "{L}\n"],
    *[
        "option {L}",
        "Option ({L})",
        "choice {L}",
        "Answer: {L}",
        "answer {L}",
        "The answer is {L}.",
    ],
    *["the correct option is ({L})", "The correct answer is: {L}", "The best answer is **{L}**."],
    *["Therefore, the answer is {L}", "So the answer is ({L}).", "Final Answer: {L}", "#### {L}"],
    *["I choose {L}", "I would pick ({L}).", "It is {L}.", r"\text{{Option {L}}}", "Option: {L}"],
    *["Answer = {L}", "The answer must be {L}!", "My answer: {L}", "the answer is option {L}"],
    *["{L} is correct", "{L} is the correct answer.", "Option {L} is correct.", "({L}) is right"],
]
"""The letter alone."""

REASONED_FORMS = [
    *[
        "{L}, because it fits all of the data",
        "{L}; the others are too small",
        "{L} because of that",
    ],
    *["({L}) since the energy is conserved", "{L}: see above", "{L}. This follows from step 2."],
    *["{L} – as computed", "{L} - as computed", "{L}) by elimination", "{L}, as shown above."],
    *[
        "**{L}**: it is the only one left",
        r"\text{{{L}}}, because the rest is wrong",
        "{L}\nBy step 1",
    ],
    *["Answer: {L}. All others are too large.", "{L}, not the other one", "{L} (by elimination)"],
    *["{L}, since both a and b are excluded", "{L}. The rate is in m/s and not in b/c"],
]
"""The letter and a reason."""

BOTH_FORMS = [
    *["{L}) {t}", "{L}. {t}", "({L}) {t}", "[{L}] {t}", "{L}: {t}", "{L} {t}", "{L} - {t}"],
    *["{L}) {t}.", "({L}) {t}.", "**{L}**: {t}", "**{L}) {t}**", "{L}, {t}", "{L}; {t}"],
    *["{L}\n{t}", "{L} – {t}", "{L}. {t}!", r"\textbf{{({L})}} {t}", r"\text{{{L}) {t}}}"],
    *["Option {L}: {t}", "The answer is {L}) {t}.", "The correct answer is ({L}) {t}", "{t} ({L})"],
    *[r"\textbf{{{L}}}. {t}", r"\text{{({L}) }} {t}", 'Answer: {L}) "{t}"', "{L} ({t})"],
    *["{t} (option {L})", "{t}, option {L}", "**Answer: {L}) {t}**"],
]
"""The letter and the option's own text."""

TEXT_FORMS = [
    *["{t}", "{t}.", " {t} ", "{t},", "**{t}**", '"{t}"', "`{t}`", "“{t}”", r"\text{{{t}}}"],
    *["The answer is {t}.", "Answer: {t}", "the correct answer is: {t}", r"\boxed{{{t}}}", "${t}$"],
    *[r"\textbf{{{t}}}", r"\({t}\)", "So the answer is **{t}**.", "{t}\n"],
]
"""The option's own text alone."""

SEVERAL_FORMS = [
    *["{L}, {M}", "{L} and {M}", "{L} or {M}", "{L}/{M}", "({L}), ({M})", "{L} & {M}", "{L}; {M}"],
    *["({L}) and ({M})", "both {L} and {M}", "{L}, {M} and A", "{L}+{M}", "{L}. {M}", "{L}.{M}"],
    *["either {L} or {M}", "{L} or {M}, because both fit", "{L}) or {M})", r"\text{{{L} and {M}}}"],
    *[
        "{L}{M}",
        "The answer is {L} or {M}.",
        "**{L}**, **{M}**",
        r"\{{{L}, {M}\}}",
        "{L} as well as {M}",
    ],
    *["{L}, and {M}", "({L}) and also ({M})", "{L}, or maybe {M}", "{L}\n{M}", "{L} {M}"],
]
"""Two letters, which choose none."""

NO_FORMS = [
    *["", ".", "not {L}", "The answer is not {L}", "all of them", "none of these", "I do not know"],
    *["{L} is wrong", "{L} is not correct", "{L}{L}", "{L}x", "{L}1", "neither", "f({L})", "{L}_1"],
    *["{L}^2", "{L} = 5", "2{L}", r"\frac{{{L}}}{{2}}", "[{L}]_0", "({L})-butanol", "-{L}"],
    *["{L}-ray", "~", "???", "anything but {L}"],
]
"""What chooses none."""
