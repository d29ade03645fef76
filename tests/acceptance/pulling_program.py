"""A plain Python program that pulls jobs in eight threads until SIGTERM and then says which it ran. Run by test_pulling.py."""

from __future__ import annotations

import json
import signal
import threading
from typing import Any

import django

THREADS = 8


def work(puller: Any, ran: list[int]) -> None:
    for lease in puller:
        with lease:
            ran.append(lease.args["n"])
            lease.complete()


def main() -> None:
    django.setup()
    from django_stampeded import Puller

    ran: list[int] = []
    with Puller("default", max_leases=2 * THREADS) as puller:
        signal.signal(signal.SIGTERM, lambda number, frame: puller.stop())
        threads = [threading.Thread(target=work, args=(puller, ran)) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    print(json.dumps(ran))


if __name__ == "__main__":
    main()
