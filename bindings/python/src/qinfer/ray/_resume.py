"""Jobs that go on: which rows a folder of results has already."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet
import ray
from ray.data import Dataset


def remaining(ds: Dataset, done: str | Path | Iterable[Any], *, id: str = "id") -> Dataset:  # noqa: A002
    """The rows whose `id` is not among those that are done: the ids, or the folder to which an earlier run of the job has
    written its results (write_json() or write_parquet()), see done_ids()."""
    ids = done_ids(done, id=id) if isinstance(done, str | Path) else list(done)
    if not ids:
        return ds
    known = ray.put(pa.array(ids))

    def keep(batch: pa.Table) -> pa.Table:
        column = batch.column(id)
        values = ray.get(known).cast(column.type)
        return batch.filter(pa.compute.invert(pa.compute.is_in(column, value_set=values)))

    return ds.map_batches(keep, batch_format="pyarrow")


def done_ids(folder: str | Path, *, id: str = "id") -> list[Any]:  # noqa: A002
    """The ids of the rows in a folder of results, JSON lines or Parquet, none where there is no folder. A file that was being
    written when its process ended is renamed to NAME.torn, so that no reader takes it for a whole one, and its rows are not
    done: call it when no job writes there."""
    found: list[Any] = []
    for path in sorted(Path(folder).glob("*")):
        if path.suffix not in (".json", ".jsonl", ".parquet"):
            continue
        try:
            found += list(_ids_of(path, id))
        except ValueError:  # of pyarrow and json, where what is there is not whole; an OSError says nothing of that
            path.rename(path.with_name(f"{path.name}.torn"))
    return found


def _ids_of(path: Path, id: str) -> Iterator[Any]:  # noqa: A002
    if path.suffix == ".parquet":
        yield from pyarrow.parquet.read_table(path, columns=[id]).column(id).to_pylist()
        return
    with path.open("rb") as lines:
        for line in lines:
            yield json.loads(line)[id]
