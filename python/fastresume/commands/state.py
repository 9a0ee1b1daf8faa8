"""The run of `fastresume state`: what a state says, and whether it fits files."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import fastresume._core as _core
from fastresume.amounts import plural
from fastresume.commands.opening import open_manifest
from fastresume.commands.state_file import named
from fastresume.messages import in_words
from fastresume.state.cursor import Cursor

FITS, FITS_NOT, UNUSABLE = 0, 1, 2


def run(given: argparse.Namespace) -> int:
    """The exit status: 0 if it is a state, and fits; 1 if it does not fit; 2 if it is none."""
    try:
        place, cursor = named(given.file, given.key)
        found = {"file": place, **described(cursor)}
        if given.path:
            found |= compared(cursor, given.path)
    except (_core.FastresumeError, OSError, ValueError, ImportError) as cause:
        sys.stderr.write(f"fastresume state: {in_words(cause)}\n")
        return UNUSABLE
    text = json.dumps(found, indent=2) + "\n" if given.json else shown(found)
    sys.stdout.write(text.encode(errors="backslashreplace").decode())
    return FITS if found.get("fits", True) else FITS_NOT


def described(cursor: Cursor) -> dict[str, Any]:
    """What a state says, by name."""
    text = cursor._core.values()
    if "mixture" in text["order"]:
        return described_mixture(cursor, text)
    return {
        "dataset": text["dataset"],
        "selection": text["selection"],
        "order": text["order"],
        "epoch": cursor.epoch,
        "passes_of_this_job": cursor.epoch - text["first_epoch"],
        "step": sum(done for *_, done in text["cuts"]),
        "rows_delivered": cursor.consumed_rows,
        "rows_left": cursor.num_rows - cursor.consumed_rows,
        "cuts": text["cuts"],
        "generations": text.get("generations", []),
    }


def described_mixture(cursor: Cursor, text: Mapping[str, Any]) -> dict[str, Any]:
    """What the state of a mixture says: its sources, the rows of each that were delivered, and its stages."""
    order, core = text["order"], cursor._core
    names = [name for name, *_ in order["sources"]]
    present = (order["weights"], text["dataset"]["rows"], text["cuts"])
    stages = [
        {
            "shares": {name: part / sum(weights) for name, part in zip(names, weights, strict=True) if part},
            "rows": rows,
            "rows_delivered": sum(done * each * lanes // groups for lanes, groups, each, done in cuts),
            "cuts": cuts,
        }
        for weights, rows, cuts in (*order["stages"], present)
    ]
    delivered = zip(order["sources"], _core.Axes.rows_taken(core), strict=True)
    stream = order["stop"]["round"] if isinstance(order["stop"], dict) else None  # each pass has other rows
    return {
        "sources": {
            name: {
                "dataset": dataset,
                "rows": rows,
                "seed": None if sizes is None else sizes[0],
                "rows_delivered": count,
                "passes": count / rows if rows and name != stream else None,
            }
            for (name, dataset, rows, sizes, *_), count in delivered
        },
        "stop": order["stop"],
        "epoch": cursor.epoch,
        "passes_of_this_job": cursor.epoch - text["first_epoch"],
        "step": core.steps,
        "rows_delivered": sum(stage["rows_delivered"] for stage in stages),
        "rows_left": cursor.num_rows - cursor.consumed_rows,
        "stages": stages,
    }


def compared(cursor: Cursor, paths: Sequence[str]) -> dict[str, Any]:
    """Whether a state fits the files of some paths, and if not, why; whatever it selects of them.

    Raises:
        DataError, SourceError: if a file can't be read.
    """
    if "mixture" in cursor.order:
        raise ValueError("the state is of a mixture, whose sources are several datasets: leave PATH out")
    manifest = open_manifest(paths)
    if cursor._core.fingerprint == manifest.fingerprint:
        return {"fits": True, "why": None}
    choice = None if cursor.order["kind"] == "sequential" else (None, None, None)
    try:
        cursor._core.fitted(manifest, choice, False)
    except _core.StateError as cause:
        return {"fits": False, "why": str(cause)}
    return {"fits": True, "why": None}


def shown(found: dict[str, Any]) -> str:
    """The same as lines for people."""
    if "sources" in found:
        return f"state    {found['file']}\n" + shown_of_mixture(found)
    order = found["order"]
    how = order["kind"] + (f" with seed {order['seed']}" if "seed" in order else "")
    is_all = found["selection"] is None
    chosen = "" if is_all else f", a selection by rows=, filter= or unit=, {found['selection'][:16]}"
    total = found["rows_delivered"] + found["rows_left"]
    counted = f"{plural(total, 'row')}, all rows" if is_all else f"{total:,} rows, sequences or bins"
    lines = [
        f"state    {found['file']}",
        f"dataset  {found['dataset']['fingerprint']}: {counted}{chosen}",
        f"order    {how}",
        f"pass     {found['epoch']} ({found['passes_of_this_job']} done by this job)",
        f"step     {found['step']} of the pass, over all its cuts",
        f"rows     {found['rows_delivered']:,} delivered, {found['rows_left']:,} left",
    ]
    lines += _cuts(found["cuts"])
    for end, cuts in found["generations"]:
        lines.append(f"growth   rows after {end:,} were added after {plural(cuts, 'cut')}")
    if "fits" in found:
        same = "" if is_all else ", if rows=, filter= and unit= select the same"
        lines.append(f"fits     yes{same}" if found["fits"] else f"fits     no: {found['why']}")
    return "\n".join(lines) + "\n"


def shown_of_mixture(found: dict[str, Any]) -> str:
    """The same of a mixture."""
    lines, stop = ["mixture"], found["stop"]
    ends = f"a round of {stop['round']}" if isinstance(stop, dict) else f"stop={stop!r}"
    for name, of in found["sources"].items():
        how = "sequential" if of["seed"] is None else f"shuffled with seed {of['seed']}"
        over = "rounds" if of["passes"] is None else f"passes, {of['passes']:.2f} passes"
        lines += [
            f"source   {name}: {plural(of['rows'], 'row')}, {how}, dataset {of['dataset']}",
            f"         {plural(of['rows_delivered'], 'row')} delivered over all {over}",
        ]
    lines += [
        f"pass     {found['epoch']} ({found['passes_of_this_job']} done by this job), {ends}",
        f"step     {found['step']} of the pass, over all its stages",
        f"rows     {found['rows_delivered']:,} delivered, {found['rows_left']:,} left",
    ]
    for number, stage in enumerate(found["stages"]):
        shares = ", ".join(f"{name} {share:.2%}" for name, share in stage["shares"].items())
        lines.append(
            f"stage    {number}: {shares}; {stage['rows_delivered']:,} of {plural(stage['rows'], 'row')}"
        )
        lines += _cuts(stage["cuts"])
    return "\n".join(lines) + "\n"


def _cuts(cuts: list[list[int]]) -> list[str]:
    return [
        f"cut      {plural(lanes, 'lane')} in {plural(groups, 'group')}, {plural(rows, 'row')} each: "
        f"{plural(done, 'batch', 'batches')} done"
        for lanes, groups, rows, done in cuts
    ]
