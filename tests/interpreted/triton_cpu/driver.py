"""The driver of the backend: active, and without a device."""

from __future__ import annotations

from typing import NoReturn

from triton.backends.driver import DriverBase


class Driver(DriverBase):
    """Launches nothing, because the interpreter runs every kernel itself."""

    @classmethod
    def is_active(cls) -> bool:
        return True

    def map_python_to_cpp_type(self, ty: str) -> NoReturn:
        raise NotImplementedError

    def get_current_target(self) -> NoReturn:
        raise NotImplementedError

    def get_active_torch_device(self) -> NoReturn:
        raise NotImplementedError

    def get_benchmarker(self) -> NoReturn:
        raise NotImplementedError
