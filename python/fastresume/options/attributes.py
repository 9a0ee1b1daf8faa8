"""What to write instead of attributes that there are not: other libraries', or those of earlier releases."""

from __future__ import annotations

from fastresume.options.hints import SEQUENCES, SORTED

_IN_ROOMS = {
    "checkpoint": "CheckpointError Entry Manifest Randomness Record Restored",
    "distributed": "check_same",
    "intervals": "max_merge remaining slice_intervals",
    "kafka": "ArrowIPC Avro JSON",
    "maxcompute": "MaxComputeSource",
    "sources": "ArrowStream RowSource Segment lance paimon",
    "testing": "assert_exact_resume",
    "training": "Accumulation Evaluator INTERRUPTED Preemption RESUMABLE Window accumulate",
}
"""The names of rooms that are asked of the package itself."""

OF_NAMES = {
    "column": "fr.col(name)",
    "field": "fr.col(name)",
    "Checkpointer": "from fastresume.checkpoint import Checkpointer",
    "KafkaDataset": "from fastresume.kafka import KafkaDataset",
    **{name: f"fr.{room}.{name}" for room, names in _IN_ROOMS.items() for name in names.split()},
    "ResumeCallback": "from fastresume.integrations.lightning import ResumeCallback, or of .transformers",
    "ResumeState": "from fastresume.integrations.dcp import ResumeState",
    **dict.fromkeys(
        ("DataLoader", "Dataloader", "StatefulDataLoader", "StreamingDataLoader", "BatchedDataLoader"),
        "fr.Loader(dataset)",
    ),
    **dict.fromkeys(
        ("Dataset", "StreamingDataset", "read_parquet", "scan_parquet", "make_reader", "make_batch_reader"),
        "fr.ParquetDataset(paths, batch_size=n)",
    ),
    "load_dataset": "fr.ParquetDataset(paths, batch_size=n), whose paths may be 'hf://datasets/owner/name'",
    **dict.fromkeys(
        (
            "interleave",
            "interleave_datasets",
            "CombinedStreamingDataset",
            "StaticMixtureWorkSource",
            "MixtureSpec",
        ),
        "fr.Mixture({name: (dataset, weight), ...}, batch_size=n)",
    ),
    **dict.fromkeys(
        ("DistributedSampler", "split_dataset_by_node"),
        "fr.ParquetDataset(paths, world=(rank, world_size)), or leave world= out: ranks are found",
    ),
    **dict.fromkeys(
        ("random_split", "train_test_split"), "rows=fr.Split(0.0, 0.9) and rows=fr.Split(0.9, 1.0)"
    ),
    **dict.fromkeys(
        ("MDSWriter", "optimize", "make_spark_converter"),
        "pyarrow.parquet.write_table(table, path), or another writer of Parquet",
    ),
    "TokensLoader": "fr.ParquetDataset(paths, unit=fr.Packed('tokens', length=n))",
    "Categorify": "fr.col(name).codes()",
    "HashBucket": "fr.col(name).hash(buckets)",
    "FillMissing": "fr.col(name).fill_null(value)",
    "ListSlice": "fr.col(name).pad(length, truncate='head')",
    "Rename": "fr.col(name).alias(new)",
    "Normalize": "dataset.map(function)",
    "JaggedTensor": "fr.Jagged",
    "KeyedJaggedTensor": "batch.to_keyed_jagged_tensor(names)",
}

METHODS_OF_DATASETS = {
    "set_epoch": "nothing: each pass is shuffled again, and .epoch tells which is next",
    "shuffle": "ParquetDataset(paths, shuffle=True)",
    **dict.fromkeys(("batch", "batched", "window"), "ParquetDataset(paths, batch_size=n)"),
    "padded_batch": "ParquetDataset(paths, batch_size=n, columns=[fr.col(name).pad(length)])",
    **dict.fromkeys(
        ("pack_sequences", "pack_flat"), "ParquetDataset(paths, unit=fr.Packed('tokens', length=n))"
    ),
    "cache": "ParquetDataset(paths, cache=fr.Cache(manifest=file, data=directory))",
    "filter": "ParquetDataset(paths, filter=fr.col(name) > 0)",
    **dict.fromkeys(
        ("drop_nulls", "drop_null", "dropna"), "ParquetDataset(paths, filter=fr.col(name).is_valid())"
    ),
    **dict.fromkeys(("sort", "sort_by", "sort_values", "order_by"), SORTED),
    **dict.fromkeys(("group_by", "groupby"), SEQUENCES),
    "select": "ParquetDataset(paths, rows=[[start, stop], ...])",
    "select_columns": "ParquetDataset(paths, columns=[...])",
    "remove_columns": "ParquetDataset(paths, columns=['*', '!name'])",
    "rename_column": "ParquetDataset(paths, columns=[fr.col(name).alias(new)])",
    **dict.fromkeys(("take", "limit"), "ParquetDataset(paths, rows=[[0, n]])"),
    "skip": "ParquetDataset(paths, rows=~fr.Intervals([[0, n]]))",
    **dict.fromkeys(("shard", "streaming_split"), "ParquetDataset(paths, world=(rank, world_size))"),
    **dict.fromkeys(
        ("interleave", "sample_from_datasets"), "fr.Mixture({name: (dataset, weight), ...}, batch_size=n)"
    ),
    **dict.fromkeys(("union", "concatenate", "concat"), "ParquetDataset([path, other])"),
    "repeat": "for epoch in range(epochs): for batch in loader: ...",
    **dict.fromkeys(
        ("train_test_split", "split"),
        "ParquetDataset(paths, rows=fr.Split(0.0, 0.9)), and fr.Split(0.9, 1.0)",
    ),
    **dict.fromkeys(("with_transform", "set_transform", "map_transform"), "dataset.map(function)"),
    "map_batches": "dataset.map(function), which gets whole batches",
    "tokenize": "tokens into Parquet once, before: docs/how-to/tokenize.md",
    **dict.fromkeys(
        ("with_format", "set_format", "to_iterable_dataset"),
        "nothing: a dataset is a stream of batches, and these have tensors",
    ),
    **dict.fromkeys(
        ("iter_batches", "iter_torch_batches", "to_torch"), "for batch in fr.Loader(dataset): ..."
    ),
    "head": ".peek()",
    "sample": ".read_rows([...]) for single rows; ParquetDataset(paths, rows=fr.Split(0.0, 0.1)) for some",
    "columns": "dataset.schema of what is delivered; dataset.column_names of the files",
    **dict.fromkeys(("features", "element_spec"), "dataset.schema"),
    **dict.fromkeys(("keys", "values", "items"), "dataset.schema, a mapping of names to fields"),
    "dtypes": "dataset.schema, whose fields have a dtype",
    "shape": "dataset.num_rows, and dataset.schema",
    **dict.fromkeys(("rank", "global_rank"), "dataset.world.rank"),
    "seed": "dataset.config()['seed']",
    "sampler": "nothing: shuffle=True and world= of ParquetDataset",
    **dict.fromkeys(
        ("batches", "num_batches", "steps_per_epoch", "cardinality"), "len(dataset), the batches of a pass"
    ),
    "count": "dataset.num_rows",
    **dict.fromkeys(("n_shards", "num_shards"), "len(dataset.files)"),
    **dict.fromkeys(("get_state", "checkpoint"), "batch.state_dict(), of the batch that was trained"),
    "state": "batch.state_dict(), of the batch that was trained",
    **dict.fromkeys(
        ("set_state", "restore", "resume", "load", "load_state", "seek"), ".load_state_dict(state)"
    ),
    **dict.fromkeys(
        ("skip_batches", "skip_steps", "fast_forward"),
        ".load_state_dict(state), of the last batch that is done",
    ),
    "prefetch": "fr.Loader(dataset), which reads ahead",
    "weights": "mixture.shares",
    **dict.fromkeys(
        ("set_weights", "update_weights"), "another Mixture with them, which loads the state of this one"
    ),
    "watermark": "mixture.watermark of a Mixture with a KafkaDataset: rows of files have no event time",
    "batch_of_row": "batch_at(epoch, step): a row may come several times in a pass of a Mixture",
    **dict.fromkeys(("to_pandas", "to_table", "to_arrow"), "next(iter(dataset)).to_arrow(), batch by batch"),
}

METHODS_OF_SCHEMAS = {
    **dict.fromkeys(("names", "columns", "column_names"), "list(schema)"),
    **dict.fromkeys(("field", "get_field"), "schema[name]"),
    **dict.fromkeys(("types", "dtypes"), "[field.dtype for field in schema.values()]"),
    **dict.fromkeys(("to_arrow", "to_pyarrow", "arrow_schema"), "batch.to_arrow().schema"),
}

OF_MAPPINGS = dict.fromkeys(
    ("items", "values", "get", "to_dict", "asdict", "_asdict"), ".as_dict(), which is a dict"
)

METHODS_OF_STATS = {**OF_MAPPINGS, **dict.fromkeys(("to_json", "json"), "json.dumps(stats.as_dict())")}

METHODS_OF_PLANS = {
    **OF_MAPPINGS,
    **dict.fromkeys(("to_json", "json"), "json.dumps(plan.as_dict())"),
    **dict.fromkeys(
        ("memory", "bytes", "memory_bytes", "peak_memory"), ".bytes_per_rank and .bytes_per_thread"
    ),
    **dict.fromkeys(("num_rows", "total_rows"), ".remaining_rows"),
    **dict.fromkeys(("batches", "num_batches", "num_steps", "steps_per_epoch"), ".steps"),
}

METHODS_OF_CURSORS = {
    **dict.fromkeys(("state_dict", "to_dict", "state"), ".to_state()"),
    **dict.fromkeys(("to_json", "dumps"), "json.dumps(cursor.to_state())"),
    **dict.fromkeys(("load", "load_state_dict", "from_dict", "from_json"), "fr.Cursor.from_state(state)"),
    **dict.fromkeys(("position", "offset", "rows"), ".consumed_rows"),
    "seed": ".order, which has it where rows are shuffled",
}

METHODS_OF_LOADERS = {
    **METHODS_OF_DATASETS,
    "map": "fr.Loader(dataset.map(function))",
    "skip": "loader.load_state_dict(state), of the last batch that is done",
    "collate_fn": "dataset.map(function): a batch is whole already",
    "drop_last": "loader.dataset.tail",
    "prefetch_factor": ".prefetch_bytes",
    "pin_memory": "fr.Loader(dataset, device='cuda'), whose batches come from pinned memory",
}

METHODS_OF_JAGGED = {
    **dict.fromkeys(("pad", "to_padded_dense"), ".to_padded(length)"),
    **dict.fromkeys(
        ("truncate", "head", "tail", "last", "first"),
        "columns=[fr.col(name).pad(length, truncate='head')] of the dataset, or 'tail' for the last elements",
    ),
    **dict.fromkeys(("reverse", "sort"), "dataset.map(function), row by row: fr.Jagged(values, offsets)"),
    "tolist": ".to_list(), or .to_strings() of texts",
    "numpy": ".values.numpy() and .offsets.numpy()",
    "shape": "len(jagged) for its rows, .lengths for those of each",
    "size": "len(jagged) for its rows, .lengths for those of each",
    "to_dense": ".to_padded()",
    "to_tensor": ".to_padded()",
    "padded": ".to_padded()",
    "to_padded_tensor": ".to_padded(value=0)",
    "unbind": "list(jagged)",
    "split": "list(jagged), or jagged[2:5] for some rows",
    "cuda": ".to('cuda')",
    "cpu": ".to('cpu')",
    "float": ".values.float(), or columns=[fr.col(name).cast(torch.float32)] of the dataset",
    "T": ".to_padded().T",
    "decode": ".to_strings()",
    **dict.fromkeys(("row_lengths", "length_per_key"), ".lengths"),
    **dict.fromkeys(("index_select", "select", "gather", "flip", "roll"), ".take(rows)"),
    **dict.fromkeys(("chunk", "narrow", "tensor_split"), "jagged[2:5] for some rows"),
    **dict.fromkeys(("masked_select", "compress"), ".take(mask.nonzero().squeeze(1))"),
    **dict.fromkeys(
        ("repeat", "repeat_interleave", "expand", "tile"), ".take(rows), which may name a row twice"
    ),
    **dict.fromkeys(
        ("unsqueeze", "squeeze", "view", "reshape", "permute", "transpose", "flatten"),
        ".to_padded() for a matrix, or .values of all rows",
    ),
    **dict.fromkeys(
        ("dim", "ndim"),
        "len(jagged) for its rows; torch.nn.EmbeddingBag takes (jagged.values, jagged.offsets), with "
        "include_last_offset=True",
    ),
}

METHODS_OF_BATCHES = {
    "load_state_dict": "loader.load_state_dict(state): a loader resumes, and not a batch",
    "cuda": "batch.to('cuda')",
    "cpu": "batch.to('cpu')",
    "device": "batch['name'].device: each tensor has its own",
    "shape": "batch.num_rows, and batch['name'].shape",
    "size": "batch.num_rows, and batch['name'].shape",
    "to_pandas": "batch.to_arrow().to_pandas()",
    "copy": "copy.copy(batch), or dict(batch)",
    "to_dict": "dict(batch)",
    "columns": "list(batch)",
    "batch_size": "batch.num_rows",
    "source": "fr.Mixture({...}) of several datasets: a batch of one has no sources",
    "event_time": "KafkaDataset: a batch of other rows has no event time",
    "unit_offsets": "unit=fr.Bins(...) for the dataset: a batch of others has no bins",
}

OF_RESTORED = {
    **dict.fromkeys(("epoch", "current_epoch"), "loader.epoch, of the loader that restore was given"),
    **dict.fromkeys(
        ("model", "optimizer", "scheduler", "loader"), "restore(model=model, ...), which fills yours"
    ),
    **dict.fromkeys(("global_step", "iteration"), ".step"),
    "batch": "batch.step, of the next batch",
}

METHODS_OF_EVALUATORS = dict.fromkeys(("evaluate", "validate", "test", "score"), ".run(model)")

METHODS_OF_PREEMPTIONS = dict.fromkeys(
    ("due", "is_set", "should_stop", "triggered", "is_preempted", "requested", "wait"),
    ".is_due(), after each step",
)

METHODS_OF_ACCUMULATIONS = dict.fromkeys(
    ("is_last", "size", "index", "sync_gradients"), "with accumulation(batch) as window: ... window.is_last"
)

METHODS_OF_CHECKPOINTERS = {
    **dict.fromkeys(("load", "load_checkpoint", "resume", "load_latest", "load_state_dict"), ".restore(...)"),
    **dict.fromkeys(("save_checkpoint", "async_save", "step"), ".save(step, ...)"),
    **dict.fromkeys(("all_steps", "steps", "list", "checkpoints"), "[entry.step for entry in .entries()]"),
    **dict.fromkeys(("latest_step", "latest_checkpoint"), ".latest(), whose step is .latest().step"),
    **dict.fromkeys(("best_step", "best_checkpoint"), ".best_entry()"),
    **dict.fromkeys(("finish", "wait_until_finished", "join"), ".wait()"),
    "delete": "keep=n of the Checkpointer, which removes what is older",
}

MATCH = "filter=pyarrow.compute.match_like(pyarrow.compute.field(name), 'a%')"
"""Rows whose text is like another one."""

_OF_NUMBERS = "abs log1p log2 log10 sqrt exp sign sin cos round floor ceil"
_OF_TIMES = "year month day hour minute"
_COMPUTED = {
    **{name: (name, "", "> 3") for name in _OF_NUMBERS.split()},
    **{name: (name, "", "== 3") for name in _OF_TIMES.split()},
    "log": ("ln", "", "> 3"),
    "absolute": ("abs", "", "> 3"),
    "pow": ("power", ", 2", "> 3"),
    "weekday": ("day_of_week", "", "== 3"),
    **dict.fromkeys(("lower", "to_lowercase"), ("utf8_lower", "", "== 'a'")),
    **dict.fromkeys(("upper", "to_uppercase"), ("utf8_upper", "", "== 'A'")),
    "strip": ("utf8_trim_whitespace", "", "== 'a'"),
    "replace": ("replace_substring", ", 'a', 'b'", "== 'b'"),
}
"""What other packages make of a column's values, by their names: pyarrow's function, and a use of it."""

_MADE_BY_MAP = "expm1 tanh sigmoid mean sum min max std var quantile rank"
"""The same where no filter of pyarrow has it, in each release that is taken."""

METHODS_OF_COLUMNS = {
    "rename": ".alias(name)",
    "name": ".names",
    "tokenize": "a function of batch[name].to_strings() for dataset.map, or write tokens to the files",
    **dict.fromkeys(("astype", "to", "type"), ".cast(dtype), as .cast(torch.float32)"),
    "float": ".cast(torch.float32)",
    "double": ".cast(torch.float64)",
    "half": ".cast(torch.float16)",
    "bfloat16": ".cast(torch.bfloat16)",
    **dict.fromkeys(("int", "long"), ".cast(torch.int64)"),
    "fillna": ".fill_null(value) for nulls; batch[name].nan_to_num() in dataset.map(function) for NaN",
    **dict.fromkeys(
        ("fill_nan", "nan_to_num"),
        "batch[name].nan_to_num() in dataset.map(function): .fill_null(value) is of nulls",
    ),
    **dict.fromkeys(
        ("is_nan", "isnan", "is_not_nan", "drop_nans"),
        "filter=~pyarrow.compute.is_nan(pyarrow.compute.field(name)), which leaves rows with a NaN out",
    ),
    "is_in": ".isin([...])",
    "isnull": ".is_null()",
    "isna": ".is_null()",
    "notnull": ".is_valid()",
    "notna": ".is_valid()",
    "is_not_null": ".is_valid()",
    **dict.fromkeys(("drop_nulls", "drop_null", "dropna"), "filter=fr.col(name).is_valid()"),
    "between": "(fr.col(name) >= low) & (fr.col(name) <= high)",
    "is_between": "(fr.col(name) >= low) & (fr.col(name) <= high)",
    "exclude": "columns=['*', '!name']",
    **dict.fromkeys(("categorical", "factorize", "encode", "dictionary"), ".codes()"),
    "bucket": ".hash(buckets)",
    **dict.fromkeys(
        ("truncate", "first", "head"), ".pad(length, truncate='head'), which keeps the first elements"
    ),
    **dict.fromkeys(("last", "tail"), ".pad(length, truncate='tail'), which keeps the last elements"),
    "mod": ".hash(buckets) for buckets; batch[name] % n in dataset.map(function) for the rest",
    "map": "dataset.map(function)",
    "apply": "dataset.map(function)",
    "map_elements": "dataset.map(function)",
    "str": f"dataset.map(function); .split(separator) makes lists of texts; {MATCH} chooses rows",
    **dict.fromkeys(
        ("contains", "startswith", "starts_with", "endswith", "ends_with", "like", "ilike", "match", "rlike"),
        f"{MATCH}, or another function of pyarrow",
    ),
    **dict.fromkeys(
        ("len", "length", "lengths", "list_len", "size", "num_elements"),
        "batch[name].lengths, or filter=pyarrow.compute.list_value_length(pyarrow.compute.field(name)) > 0",
    ),
    **{
        name: "dataset.map(function), or filter=pyarrow.compute."
        f"{function}(pyarrow.compute.field(name){more}) {compared}"
        for name, (function, more, compared) in _COMPUTED.items()
    },
    **dict.fromkeys(_MADE_BY_MAP.split(), "dataset.map(function)"),
    **dict.fromkeys(
        ("one_hot", "get_dummies", "to_dummies"),
        "torch.nn.functional.one_hot(batch[name], n) in dataset.map(function)",
    ),
    **dict.fromkeys(
        ("normalize", "standardize", "zscore"), "(batch[name] - mean) / std in dataset.map(function)"
    ),
    **dict.fromkeys(
        ("bucketize", "digitize", "cut"), "torch.bucketize(batch[name], boundaries) in dataset.map(function)"
    ),
    "dt": "dataset.map(function); a filter compares with a datetime",
    "list": ".pad(length) or .fixed(length)",
    **dict.fromkeys(("struct", "field", "get_field", "getField", "getItem"), "fr.col('struct.member')"),
    **dict.fromkeys(("clamp", "clamp_min", "maximum"), ".clip(low, high), or .clip(low)"),
    **dict.fromkeys(("clamp_max", "minimum"), ".clip(high=high)"),
}

METHODS_OF_CONDITIONS = {
    **{
        name: f"fr.col(name).{name}(...), and join conditions by &, | and ~"
        for name in ("is_null", "is_valid", "isin")
    },
    **dict.fromkeys(("cast", "alias", "fill_null"), "columns=[fr.col(name)...]: a condition is for filter="),
    **dict.fromkeys(("mean", "sum", "any", "all"), "filter=condition, then dataset.num_rows"),
}

METHODS_OF_STACKS = {
    "alias": "fr.stack(..., name=...)",
    **dict.fromkeys(
        ("cast", "fill_null", "mask_null", "hash", "codes", "optional", "from_path", "decimal"),
        "it of the columns, as fr.stack(fr.col('i_*').fill_null(0), name='dense')",
    ),
}

METHODS_OF_ITERATORS = {
    **dict.fromkeys(("state_dict", "get_state"), "loader.state_dict(), or batch.state_dict()"),
    **dict.fromkeys(("load_state_dict", "set_state"), "loader.load_state_dict(state), then iter(loader)"),
}
