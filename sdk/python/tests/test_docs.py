"""What the README shows runs, and the package can be built and installed."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import venv
from pathlib import Path

import pawl
import pawl.testing

FOLDER = Path(__file__).resolve().parents[1]
SNIPPETS = re.findall(r"(?ms)^```python\n(.*?)^```$", (FOLDER / "README.md").read_text())


def test_the_readme_runs(shared: pawl.testing.Server, client: pawl.Client, tmp_path: Path) -> None:
    assert len(SNIPPETS) == 9
    for n, text in enumerate(SNIPPETS):
        if "pydantic_ai" in text and importlib.util.find_spec("pydantic_ai") is None:
            continue  # on Python 3.10, for which it has no version
        text = text.replace("http://127.0.0.1:7033", shared.url)
        text = text.replace(
            "worker.run()  # until",
            "worker.options = dataclasses.replace(worker.options, drain=True)\nworker.run()  # until",
        )
        path = tmp_path / f"snippet_{n}.py"
        path.write_text(text)
        subprocess.run([sys.executable, path], check=True, timeout=60)
    mail = client.list_tasks(type="mail.send").first()
    assert mail is not None
    assert client.task_result(mail["id"])["payload"] == {"to": "ana@example.com", "text": "Hello!"}


def test_the_wheel_is_built_and_installed(tmp_path: Path) -> None:
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "build",
        "--no-isolation",
        "--wheel",
        "--outdir",
        tmp_path,
        FOLDER,
    ]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    [wheel] = tmp_path.glob("pawl_work-*.whl")
    venv.create(tmp_path / "env", with_pip=True, system_site_packages=False)
    python = tmp_path / "env/bin/python"
    install: list[str | Path] = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel]
    subprocess.run(install, check=True, timeout=300)
    code = "import pawl, importlib.resources as r; print(pawl.__version__, (r.files('pawl') / 'py.typed').is_file())"
    out = subprocess.run([python, "-I", "-c", code], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert out.stdout == f"{pawl.__version__} True\n"
