"""What a certificate promises and costs, field by field, as several bodies have it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

CertificateId = Annotated[str, Field(description="Start of its digest.", examples=["93a2ad9a11e8"])]
BoundedRisk = Annotated[str, Field(description="What alpha bounds.", examples=["selective"])]
PromiseKind = Annotated[
    str,
    Field(
        description="Whether all levels hold at once (simultaneous) or each alone (pointwise).",
        examples=["simultaneous"],
    ),
]
Delta = Annotated[
    float, Field(description="Probability with which the promise may fail.", examples=[0.1])
]
Samples = Annotated[int, Field(description="Samples of a question.", examples=[1])]
Vote = Annotated[str, Field(description="How they are merged.", examples=["confidence"])]
ThinkingBudget = Annotated[
    int | None, Field(description="Thinking budget of one sample, tokens.", examples=[960])
]
RiskOnCalibration = Annotated[
    float | None, Field(description="On the calibration problems.", examples=[0.071])
]
RiskUpper = Annotated[
    float | None,
    Field(description="Upper bound that holds for all policies tested.", examples=[0.112]),
]
ShareAnswered = Annotated[
    float | None, Field(description="Of the calibration problems.", examples=[0.93])
]
ExpectedTokens = Annotated[
    float | None, Field(description="Mean per question, all samples together.", examples=[133.2])
]
FullBudgetTokens = Annotated[
    float | None, Field(description="The same without early exits.", examples=[381.5])
]
