"""Ships the supervisor of sandboxes in a wheel: static Linux binaries for the processors there is a compiler for.

Without a compiler, or on macOS, the wheel is built all the same; `takeback.machines.supervisor.build` then compiles at
the first use. The aarch64 binary comes from a cross compiler and was not run.
"""

from __future__ import annotations

import importlib.util
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "takeback/machines/supervisor"


class SupervisorHook(BuildHookInterface):
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or version == "editable":
            return
        spec = importlib.util.spec_from_file_location("sources", Path(self.root) / "src" / PACKAGE / "sources.py")
        assert spec and spec.loader
        sources = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sources)
        self._folder = Path(tempfile.mkdtemp(prefix="takeback-supervisor-"))
        for machine in ("x86_64", "aarch64"):
            native = machine == platform.machine() and platform.system() == "Linux"
            names = [*sources.CROSS_COMPILERS[machine], *(sources.COMPILERS if native else ())]
            compiler = next((found for name in names if (found := shutil.which(name))), None)
            binary = self._folder / machine / "init"
            binary.parent.mkdir()
            if compiler is None:
                self.app.display_warning(f"no compiler for {machine}: the wheel comes without that supervisor")
                continue
            done = subprocess.run(sources.command(compiler, binary), capture_output=True, text=True, check=False)
            if done.returncode != 0:
                self.app.display_warning(f"the supervisor for {machine} cannot be compiled: {done.stderr[-2000:]}")
                continue
            build_data["force_include"][str(binary)] = f"{PACKAGE}/bin/{machine}/init"
            if not native:
                note = binary.parent / "NOT-RUN.txt"
                note.write_text(f"This binary for {machine} came from a cross compiler and was not run.\n")
                build_data["force_include"][str(note)] = f"{PACKAGE}/bin/{machine}/NOT-RUN.txt"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        folder = getattr(self, "_folder", None)
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
