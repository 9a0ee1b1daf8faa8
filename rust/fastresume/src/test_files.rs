//! Small datasets for tests that need files.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parquet::data_type::Int64Type;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use crate::dataset::manifest::Manifest;
use crate::order::pass_order::{Order, OrderChoice};
use crate::order::selection::Selection;
use crate::projection::layout::Layout;
use crate::projection::request::Request;
use crate::resume::cursor::{Cursor, Identity};
use crate::resume::lanes::{Cut, WorkerId};
use crate::resume::pass::Pass;
use crate::resume::tail::Tail;

/// Cases to try: all of them, or one of so many under Miri, which takes a hundred times as long.
pub fn tried<I: IntoIterator>(all: I, of: usize) -> impl Iterator<Item = I::Item> {
    all.into_iter().step_by(if cfg!(miri) { of } else { 1 })
}

/// The only reader: it reads everything.
pub const ALONE: WorkerId = WorkerId { rank: 0, world_size: 1, worker: 0, workers: 1 };

/// A file of one int64 column with the number of each row. It is removed with this value.
pub struct Made {
    pub path: PathBuf,
    pub manifest: Arc<Manifest>,
    pub layout: Layout,
}

impl Made {
    /// A file of row groups with these numbers of rows.
    pub fn new(groups: &[usize]) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("fastresume-{}-{number}.parquet", std::process::id()));
        let schema = Arc::new(parse_message_type("message m { required int64 x; }").unwrap());
        let properties = Arc::new(WriterProperties::default());
        let mut writer = SerializedFileWriter::new(File::create(&path).unwrap(), schema, properties).unwrap();
        let mut first = 0;
        for &rows in groups {
            let numbers: Vec<i64> = (first..).take(rows).collect();
            first += i64::try_from(rows).unwrap();
            let mut group = writer.next_row_group().unwrap();
            let mut column = group.next_column().unwrap().unwrap();
            column.typed::<Int64Type>().write_batch(&numbers, None, None).unwrap();
            column.close().unwrap();
            group.close().unwrap();
        }
        writer.close().unwrap();
        let manifest =
            Arc::new(Manifest::open(std::slice::from_ref(&path), &AtomicBool::new(false)).unwrap());
        let layout = Layout::resolve(&manifest, &Request::default()).unwrap();
        Self { path, manifest, layout }
    }

    /// The order of all rows, in windows of `window_rows` rows if it is shuffled, and the pass over them.
    pub fn pass(&self, cut: Cut, window_rows: Option<u64>) -> (Order, Arc<Pass>) {
        let choice = window_rows.map_or(OrderChoice::Sequential, |rows| OrderChoice::Shuffled {
            seed: None,
            block_rows: Some(rows.div_ceil(4)),
            window_rows: Some(rows),
        });
        let Self { manifest, .. } = self;
        let kind = choice.resolve(manifest.num_rows(), manifest.row_bytes(), manifest.largest_group());
        let kind = kind.unwrap();
        let selection = Selection::everything(manifest.group_starts());
        let identity = Identity::of(manifest, &selection, kind.clone());
        let order = Order::new(&kind, 0, selection).unwrap();
        (order, Arc::new(Pass::new(&Cursor::start(identity), cut, Tail::Short, 1).unwrap()))
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.path));
    }
}
