"""Multiple choice: the letter in an answer, the options' texts, and the grader."""

from rlcm_serve.answers.grading.choice.grader import ChoiceGrader

__all__ = ["ChoiceGrader"]
