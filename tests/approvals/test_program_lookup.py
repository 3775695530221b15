"""Which programs of a search path may run without approval."""

from pathlib import Path

from holdfast.approvals.program_lookup import why_untrusted


def _program(directory: Path, *, mode: int = 0o755) -> str:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "tool").touch(mode)
    return str(directory)


def test_the_first_program_of_the_search_path_decides(tmp_path: Path) -> None:
    workspace = str(tmp_path / "work")
    ours, data = _program(tmp_path / "work" / "bin"), _program(tmp_path / "data", mode=0o644)
    (tmp_path / "directory" / "tool").mkdir(parents=True)
    before = f"{data}:{tmp_path}/directory:/gone"
    for spelled in (ours, f"{ours}/", f"{ours}//"):
        why = why_untrusted("tool", search_path=f"{before}:{spelled}:/usr/bin", workspace=workspace)
        assert why == f"{ours}/tool is in the workspace"
    assert why_untrusted("tool", search_path=before, workspace=workspace) is None
    assert why_untrusted("sh", search_path=f"{before}:/:/bin/:{ours}", workspace=workspace) is None


def test_a_relative_directory_before_a_program_is_not_trusted() -> None:
    for search_path, named in (("bin:/bin", "bin"), (":/bin", "."), ("/gone::/bin", "."), ("./x/:/bin", "./x/")):
        why = why_untrusted("sh", search_path=search_path, workspace="/work")
        assert why == f"the search path has the relative directory {named!r}"
    assert why_untrusted("sh", search_path="/bin:bin", workspace="/work") is None
    assert why_untrusted("sh", search_path="", workspace="/work") is None
