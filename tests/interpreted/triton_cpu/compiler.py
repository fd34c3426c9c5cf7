"""The compiler of the backend, which is never asked to compile."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from triton.backends.compiler import BaseBackend


class Compiler(BaseBackend):
    """Supports no target."""

    @staticmethod
    def supports_target(target: object) -> bool:
        return False

    def hash(self) -> str:
        return "interpreter"

    def parse_options(self, options: dict[str, Any]) -> object:
        raise NotImplementedError

    def add_stages(self, stages: dict[str, Any], options: object) -> None:
        raise NotImplementedError

    def load_dialects(self, context: object) -> None:
        raise NotImplementedError

    def get_module_map(self) -> dict[str, ModuleType]:
        return {}
