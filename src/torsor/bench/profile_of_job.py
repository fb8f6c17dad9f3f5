"""Where the time of a main job goes, as PyTorch's profiler sees it."""

from torch.profiler import ProfilerActivity, profile

from torsor.bench.jobs import find_job
from torsor.training.memory import keep_freed_memory


def table_of(job: str, calls: int = 3, rows: int = 20, **sizes: int) -> str:
    """Profile a job after a call of warm-up.

    Args:
        job: "looped", "osmformer" or "streaming".
        calls: of the job.
        rows: of the table, those in which most time was spent by themselves.
        **sizes: arguments of the job in the place of its own.

    Returns:
        The profiler's table as text.

    Raises:
        ValueError: when there is no such job, or a number is below 1.
    """
    for name, value in {"calls": calls, "rows": rows}.items():
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    made = find_job(job)(**sizes)
    keep_freed_memory()
    made.call()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for _ in range(calls):
            made.call()
    lines = profiler.key_averages().table(sort_by="self_cpu_time_total", row_limit=rows, max_name_column_width=48)
    return f"{job}: {made.about}; {calls} calls\n{lines}"
