//! Merges the cursors of ranks that are out of step into one.

use crate::error::{Error, Result, quoted};
use crate::intervals::set::Intervals;
use crate::resume::cursor::Cursor;
use crate::resume::lanes::{Cut, Division, WorkerId};

/// The cursor after everything that the ranks of a job were given: the state of rank 0, then that of rank 1,
/// ...
///
/// Equal states give that state. Otherwise every rank's part of the last cut is taken from its own state, and
/// the result has the consumed positions as intervals.
///
/// Whose rows a state tells is known by its rank and the number of ranks alone. That number is `world_size`, or what
/// the last cut says: a rank has one lane of each group, unless the user named more lanes.
///
/// # Errors
/// `Argument` without a state; `State` if they are not of one pass of one job, or not those of all ranks.
pub fn merge(states: &[Cursor], world_size: Option<u64>) -> Result<Cursor> {
    let Some(first) = states.first() else {
        return Err(Error::Argument(
            "no state is given: pass that of rank 0, then that of rank 1, ...".into(),
        ));
    };
    for (rank, state) in states.iter().enumerate() {
        check_same_pass(first, state).map_err(|reason| {
            Error::State(format!("the states of ranks 0 and {rank} are not of one pass: {reason}"))
        })?;
    }
    let most = states.iter().max_by_key(|state| state.cuts().len()).unwrap_or(first);
    let is_whole = check_whole(states.len() as u64, most, world_size);
    let Some((&(cut, _), earlier)) = most.cuts().split_last() else {
        return is_whole.map(|()| first.clone());
    };
    let mut done = Vec::with_capacity(states.len());
    for (rank, state) in states.iter().enumerate() {
        done.push(match state.cuts().strip_prefix(earlier) {
            Some([]) => 0,
            Some(&[(last, done)]) if last == cut => done,
            _ => {
                return Err(Error::State(format!(
                    "the states are not of one pass: rank {rank} has the cuts {}, another rank has {}",
                    quoted(format_args!("{:?}", numbers(state))),
                    quoted(format_args!("{:?}", numbers(most)))
                )));
            }
        });
    }
    is_whole?;
    if done.windows(2).all(|pair| pair[0] == pair[1]) {
        return Ok(first.clone());
    }
    if first.mixture().is_some() {
        let (rank, least) = done.iter().enumerate().min_by_key(|(_, done)| **done).unwrap_or((0, &0));
        return Err(Error::State(format!(
            "states of a mixture whose ranks are out of step can't be merged: what some ranks were given, and others \
             were not, has no place in one. Load that of rank {rank}, which has done the fewest batches, {least} \
             of the last cut: what others were given since is repeated, and nothing is lost"
        )));
    }
    let before = most.before_last_cut();
    let remaining = before.remaining()?;
    let consumed = remaining.complement(before.identity().num_rows);
    let taken = taken(&Division::new(cut, remaining), &done)?;
    let furthest = done.iter().max().copied().unwrap_or_default();
    let merged = Cursor::from_consumed(before.identity().clone(), before.epoch(), consumed.union(&taken))?;
    let merged = merged.of_pass_of(&before).with_first_epoch(before.first_epoch());
    Ok(match states.iter().find_map(Cursor::earlier_batches) {
        Some(earlier) => merged.with_earlier_batches(earlier.saturating_add(before.steps() + furthest)),
        None => merged,
    })
}

/// Checks that two cursors are of the same pass of the same job.
fn check_same_pass(mine: &Cursor, theirs: &Cursor) -> std::result::Result<(), String> {
    let described = |cursor: &Cursor| {
        let identity = cursor.identity();
        [
            ("dataset", identity.fingerprint.clone()),
            ("selection of rows", identity.selection_name()),
            ("order", serde_json::to_string(&identity.order).unwrap_or_default()),
            ("epoch", cursor.epoch().to_string()),
            ("first_epoch", cursor.first_epoch().to_string()),
        ]
    };
    for ((what, mine), (_, theirs)) in described(mine).iter().zip(&described(theirs)) {
        if mine != theirs {
            return Err(format!("{what} {} and {what} {}", quoted(mine), quoted(theirs)));
        }
    }
    if mine.consumed != theirs.consumed {
        return Err("they began with different intervals consumed".into());
    }
    // A rank that was given nothing yet may not have counted them.
    if let (Some(mine), Some(theirs)) = (mine.earlier_batches(), theirs.earlier_batches())
        && mine != theirs
    {
        return Err(format!("earlier_batches {mine} and earlier_batches {theirs}"));
    }
    if mine.generations != theirs.generations {
        return Err("rows came to them at different places of the pass".into());
    }
    Ok(())
}

/// Refuses states that are not those of all ranks: the others may be behind, and their rows would be lost.
fn check_whole(given: u64, most: &Cursor, world_size: Option<u64>) -> Result<()> {
    if let Some(ranks) = world_size {
        return if given == ranks { Ok(()) } else { Err(Error::State(differs(given, ranks))) };
    }
    let unknown = |why: &str| {
        Err(Error::State(format!(
            "{given} states are merged, and {why}: pass world_size=, the number of ranks that the job had"
        )))
    };
    let Some(&(cut, _)) = most.cuts().last() else {
        // Before the first batch nothing can be lost; after a pass, a rank may still be within it.
        let is_start = most.epoch() == most.first_epoch();
        return if is_start {
            Ok(())
        } else {
            unknown("states between two passes do not tell of how many ranks")
        };
    };
    if cut.lanes() == 1 {
        return unknown("any number of ranks may have shared their one lane");
    }
    let ranks = cut.lanes() / cut.groups();
    if given == ranks {
        return Ok(());
    }
    Err(Error::State(format!(
        "{}, if lanes= was not named: the states have {} lanes in {} groups. Pass world_size= where it was",
        differs(given, ranks),
        cut.lanes(),
        cut.groups()
    )))
}

/// How so many states differ from those of all ranks.
fn differs(given: u64, ranks: u64) -> String {
    let lacking = match ranks.saturating_sub(given) {
        0 => format!("there are only ranks 0 to {}", ranks.saturating_sub(1)),
        1 => format!("that of rank {given} is lacking"),
        _ => format!("those of ranks {given} to {} are lacking", ranks - 1),
    };
    format!("{given} states are merged of a job of {ranks} ranks: {lacking}")
}

/// The positions that the ranks were given, each so many batches of the division.
fn taken(division: &Division, done: &[u64]) -> Result<Intervals> {
    let world_size = done.len() as u64;
    let mut ranges = Vec::new();
    for (rank, &done) in (0..).zip(done) {
        let reader = WorkerId { rank, world_size, worker: 0, workers: 1 };
        let streams = division.streams(reader, 0).map_err(|_| {
            Error::State(format!(
                "{world_size} states are merged, but that many ranks can't share the cut {:?}",
                cut_numbers(division.cut())
            ))
        })?;
        for stream in streams {
            let slices = done.saturating_sub(stream.first_batch).div_ceil(stream.batch_stride);
            let rows = slices.min(stream.slices) * stream.slice_rows;
            let counted = stream.stretches(0).map_while(|stretch| {
                let end =
                    stretch.end.min(stretch.start + (rows - stream.rows_before(stretch.start).min(rows)));
                (stretch.start < end).then_some(stretch.start..end)
            });
            ranges.extend(counted.flat_map(|counted| division.remaining().slice(counted)));
        }
    }
    Intervals::new(ranges)
}

fn cut_numbers(cut: Cut) -> [u64; 3] {
    [cut.lanes(), cut.groups(), cut.rows()]
}

fn numbers(cursor: &Cursor) -> Vec<[u64; 4]> {
    cursor.cuts().iter().map(|&(cut, done)| [cut.lanes(), cut.groups(), cut.rows(), done]).collect()
}
