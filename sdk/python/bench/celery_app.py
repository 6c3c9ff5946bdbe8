"""The no-op task of Celery that compare.py measures: acknowledged late, without results."""
import os
from typing import Any

from celery import Celery

app: Any = Celery("celery_app", broker=os.environ["BENCH_REDIS"])
app.conf.update(task_acks_late=True, task_ignore_result=True,
                worker_prefetch_multiplier=int(os.environ.get("BENCH_PREFETCH", "4")))


def _noop() -> None:
    return None


noop = app.task(_noop, name="noop")
