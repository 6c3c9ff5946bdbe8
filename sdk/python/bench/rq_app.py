"""The no-op job of RQ that compare.py measures."""


def noop() -> None:
    return None
