//! This project's reader without Python: batches of tensors' memory, decoded in the caller's thread.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fastresume::{
    Cursor, Cut, Identity, Layout, Manifest, NullPolicy, Order, OrderChoice, Pass, Policy, Polled, Request,
    Selection, Shapes, Stack, Tail, ThreadPool, WorkerId,
};

use crate::Outcome;

const BATCH_ROWS: u64 = 4096;

/// Nobody stops a benchmark.
static GO: AtomicBool = AtomicBool::new(false);

/// What is delivered, and how.
#[derive(Clone)]
pub struct Way {
    pub is_stacked: bool,
    pub is_shuffled: bool,
    /// Columns in which there are nulls: these get masks.
    pub with_nulls: Vec<String>,
}

/// Opens the files, and reads a pass over them; gives the rows.
pub fn read_all(paths: &[String], way: &Way) -> Outcome<u64> {
    let named: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
    let manifest = Arc::new(Manifest::open(&named, &GO)?);
    let layout = layout(&manifest, way)?;
    let choice = if way.is_shuffled {
        OrderChoice::Shuffled { seed: None, block_rows: None, window_rows: None }
    } else {
        OrderChoice::Sequential
    };
    let kind = choice.resolve(manifest.num_rows(), manifest.row_bytes(), manifest.largest_group())?;
    let identity = Identity {
        fingerprint: manifest.fingerprint().to_owned(),
        num_rows: manifest.num_rows(),
        selection: None,
        order: kind.clone(),
    };
    let order = Order::new(&kind, 0, Selection::everything(manifest.group_starts()))?;
    let pass = Pass::new(&Cursor::start(identity), Cut::new(1, 1, BATCH_ROWS)?, Tail::Short, 1)?;
    let place = WorkerId { rank: 0, world_size: 1, worker: 0, workers: 1 };
    let mut pipeline = ThreadPool::new(manifest, layout, order, Arc::new(pass), place, 0, 0)?;
    let mut rows = 0;
    loop {
        match pipeline.poll(Duration::ZERO)? {
            Polled::Batch(batch) => rows += batch.rows as u64,
            Polled::Pending => {}
            Polled::End => return Ok(rows),
        }
    }
}

/// A matrix for each type that several columns have, if they are stacked; masks where there are nulls.
fn layout(manifest: &Manifest, way: &Way) -> Outcome<Layout> {
    let plain = Layout::resolve(manifest, &Request::default(), &[], &[], &Shapes::default())?;
    let mut stacks: Vec<Stack> = Vec::new();
    for field in plain.fields().iter().filter(|field| way.is_stacked && !field.kind.is_jagged()) {
        let name = format!("all_{}", field.dtype.name());
        match stacks.iter_mut().find(|(stack, _)| *stack == name) {
            Some((_, members)) => members.push(field.name.clone()),
            None => stacks.push((name, vec![field.name.clone()])),
        }
    }
    stacks.retain(|(_, members)| members.len() > 1);
    let mut masked: Vec<String> = Vec::new();
    for column in &way.with_nulls {
        let stack = stacks.iter().find(|(_, members)| members.contains(column));
        let name = stack.map_or(column, |(stack, _)| stack);
        if !masked.contains(name) {
            masked.push(name.clone());
        }
    }
    let nulls: Vec<NullPolicy> = masked.into_iter().map(|name| (Some(name), Policy::Mask)).collect();
    Ok(Layout::resolve(manifest, &Request::default(), &stacks, &nulls, &Shapes::default())?)
}
