"""What an import should end as, what it did end as, and the difference in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from django.db.models import Count, Max, Min, Sum

from django_stampeded.models import Job
from django_stampeded.states import FINAL, State
from example_project.imports import services
from example_project.imports.models import CsvImport
from example_project.imports.tasks import (
    PUBLISH_ATTEMPTS,
    ask_registry,
    examine_record,
    import_file,
    mail_report,
    publish_report,
    write_report,
)

Ends = Mapping[tuple[str, str], int]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Jobs by (task, state), the attempts made beyond the first of each job, and the time all of it took."""

    ends: Ends
    retries: int
    seconds: float

    @property
    def jobs(self) -> int:
        return sum(self.ends.values())

    @property
    def done(self) -> int:
        """How many jobs have reached a final state."""
        return sum(n for (_, state), n in self.ends.items() if state in FINAL)

    @property
    def finished(self) -> bool:
        return bool(self.ends) and self.done == self.jobs

    @property
    def by_state(self) -> dict[str, int]:
        states: Counter[str] = Counter()
        for (_, state), n in self.ends.items():
            states[state] += n
        return dict(states)


def observed(source: CsvImport) -> Outcome:
    """Reads how the jobs of an import stand now."""
    jobs = Job.objects.filter(args__import_id=source.pk)
    rows = list(
        jobs.values("task", "state").annotate(
            n=Count("pk"), attempts=Sum("attempt"), first=Min("inserted_at"), last=Max("finished_at")
        )
    )
    ended = [row["last"] for row in rows if row["last"]]
    begun = [row["first"] for row in rows]
    return Outcome(
        ends={(row["task"], row["state"]): row["n"] for row in rows},
        retries=sum(row["attempts"] for row in rows) - sum(row["n"] for row in rows),
        seconds=(max(ended) - min(begun)).total_seconds() if ended else 0.0,
    )


def planned(source: CsvImport) -> Outcome:
    """What must come out once the file has been read: every refusal of the registry is known beforehand."""
    labels = source.records.filter(needs_reference=True).values_list("label", flat=True)
    refusals = [services.refusals(label) for label in labels]
    ends = {
        (import_file.name, State.COMPLETED): 1,
        (examine_record.name, State.COMPLETED): source.total or 0,
        (ask_registry.name, State.COMPLETED): len(refusals),
        (write_report.name, State.COMPLETED): 1,
        (mail_report.name, State.COMPLETED): 1,
        (publish_report.name, State.DISCARDED): 1,
    }
    return Outcome({key: n for key, n in ends.items() if n}, sum(refusals) + PUBLISH_ATTEMPTS - 1, 0.0)


def differences(plan: Outcome, found: Outcome) -> list[str]:
    """One sentence for each point in which the result is not the planned one."""
    said = []
    for task, state in sorted({*plan.ends, *found.ends}):
        wanted, got = plan.ends.get((task, state), 0), found.ends.get((task, state), 0)
        if wanted != got:
            said.append(f"{got:,} jobs of {short(task)} are {state} where {wanted:,} were planned.")
    if plan.retries != found.retries:
        said.append(f"{found.retries:,} retries were made where {plan.retries:,} were planned.")
    return said


def short(task: str) -> str:
    """A task's name without the module it lives in."""
    return task.rpartition(".")[2]
