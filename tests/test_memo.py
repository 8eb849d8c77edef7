"""Results by key and version."""

from ctrlruntime.memo import VersionMemo


def test_a_result_is_computed_once_for_each_version() -> None:
    memo: VersionMemo[str, str | None] = VersionMemo()
    calls: list[str] = []

    def make(text: str) -> str | None:
        calls.append(text)
        return None

    for version in ("1", "1", "2", "2", "1"):
        assert memo.compute("a", version, lambda version=version: make(version)) is None  # type: ignore[misc]
    assert calls == ["1", "2", "1"]


def test_a_result_of_another_version_is_not_returned() -> None:
    memo: VersionMemo[str, int] = VersionMemo()
    memo.put("a", ("uid", 1), 10)
    assert memo.get("a", ("uid", 1)) == 10
    assert memo.get("a", ("uid", 2)) is None
    assert memo.get("b", ("uid", 1)) is None


def test_what_was_not_used_for_longest_is_dropped_first() -> None:
    memo: VersionMemo[str, int] = VersionMemo(limit=2)
    memo.put("a", 1, 1)
    memo.put("b", 1, 2)
    memo.get("a", 1)
    memo.put("c", 1, 3)
    assert [memo.get(key, 1) for key in "abc"] == [1, None, 3]
    assert len(memo) == 2


def test_a_forgotten_key_has_no_result() -> None:
    memo: VersionMemo[str, int] = VersionMemo()
    memo.put("a", 1, 1)
    assert memo.forget("a") == 1
    assert memo.forget("a") is None
    assert memo.get("a", 1) is None
