"""What to write instead of names that there are not: other libraries', or those of earlier releases."""

from __future__ import annotations

OF_NAMES = {
    "column": "fr.col(name)",
    "field": "fr.col(name)",
    "Checkpointer": "from fastresume.checkpoint import Checkpointer",
    "KafkaDataset": "from fastresume.kafka import KafkaDataset",
    "Evaluator": "fr.training.Evaluator",
    "Preemption": "fr.training.Preemption",
    "accumulate": "fr.training.accumulate",
    "DataLoader": "fr.Loader(dataset)",
    "Dataset": "fr.ParquetDataset(paths)",
    "read_parquet": "fr.ParquetDataset(paths)",
    "scan_parquet": "fr.ParquetDataset(paths)",
}

OF_COLUMNS = {
    "stack": "columns=[fr.stack('i_*', name='dense')]",
    "cast": "columns=[fr.col(name).cast(torch.float32)]",
    "hash": "columns=[fr.col(name).hash(buckets, seed=0)]",
    "dictionary": "columns=[fr.col(name).codes()]",
    "rename": "columns=[fr.col(name).alias(new)]",
    "pad": "columns=[fr.col(name).pad(length, truncate='head')]",
    "truncate": "columns=[fr.col(name).pad(length, truncate='head')]",
    "fixed": "columns=[fr.col(name).fixed(length)]",
    "decimals": "columns=[fr.col(name).decimal('float64')]",
    "optional": "columns=[fr.col(name).optional()]",
    "partitions": "columns=[fr.col(name).from_path()]",
    "partitioning": "columns=[fr.col(name).from_path()]",
    "fill_null": "columns=[fr.col(name).fill_null(value)]",
    "dtype": "columns=[fr.col(name).cast(dtype)]",
    "schema": "columns=[fr.col(name).cast(dtype)]; dataset.schema tells what there is",
    **dict.fromkeys(("names", "usecols", "select", "features", "feature_columns"), "columns=[...]"),
}

OF_LOADERS = {
    "num_workers": "fr.Loader(dataset, num_workers=n), or no workers: threads decode",
    "prefetch_factor": "fr.Loader(dataset, prefetch_bytes=...)",
    "pin_memory": "fr.Loader(dataset, device='cuda')",
    "device": "fr.Loader(dataset, device='cuda')",
    "persistent_workers": "fr.Loader(dataset, num_workers=n): its workers live as long as it does",
    "worker_init_fn": "dataset.map(function), which runs in the workers",
    "threads": "fr.Loader(dataset, threads=n)",
}

ANYWHERE = {
    "drop_last": "tail='drop' (the default), 'short' or 'pad' of ParquetDataset",
    "collate_fn": "dataset.map(function): a batch is whole already",
    "transform": "dataset.map(function)",
    "transforms": "dataset.map(function)",
    "map": "dataset.map(function)",
    "batched": "dataset.map(function), which gets whole batches",
    "set_epoch": "nothing: each pass is shuffled again, and batch.epoch tells which it is",
    "epoch": "nothing: each pass is shuffled again, and dataset.epoch tells which is next",
    "epochs": "for epoch in range(loader.epoch, epochs): for batch in loader: ...",
    "infinite": "while True: for batch in loader: ...",
    "sampler": "shuffle=True and world= of ParquetDataset",
    "batch_sampler": "batch_size=, shuffle=True and world= of ParquetDataset",
    "generator": "seed= of ParquetDataset",
    "split": "rows=fr.Split(0.0, 0.9) of ParquetDataset",
    "streaming": "nothing: files are never read whole",
    "shuffle_buffer": "shuffle=fr.Shuffle(window_rows=n) of ParquetDataset: how far rows move",
    "buffer_size": "shuffle=fr.Shuffle(window_rows=n) of ParquetDataset: how far rows move",
}

OF_DATASETS = {
    **ANYWHERE,
    **OF_COLUMNS,
    **OF_LOADERS,
    "skip": "rows=~fr.Intervals([[start, stop], ...])",
    "filters": "filter=",
    "data_files": "the first argument, paths",
    "data_dir": "the first argument, paths",
    "num_shards": "world=(rank, world_size)",
    "shard": "world=(rank, world_size)",
    **dict.fromkeys(("limit", "n_rows", "nrows", "max_rows", "num_rows", "head"), "rows=[[0, n]]"),
    **dict.fromkeys(("use_threads", "num_threads"), "fr.Loader(dataset, threads=n)"),
    "num_replicas": "world=(rank, world_size)",
    "world_rank": "world=(rank, world_size)",
    "local_rank": "world=(rank, world_size), of all nodes",
    "filesystem": "storage_options=, and an address as 's3://bucket/data/'",
    "token": "storage_options={'token': ...}",
    "revision": "the address, 'hf://datasets/owner/name@revision/path'; of a table, 'delta://path?version=12'",
    "weights": "fr.Mixture({name: (dataset, weight), ...})",
    "probabilities": "fr.Mixture({name: (dataset, weight), ...})",
    "order_paths": "[[path] for path in paths] as the first argument, which keeps the order of the list",
    "max_page_bytes": "nothing: a page may take 1 GiB when it is decompressed",
    "engine": "nothing: there is one",
    "memory_map": "nothing: what is read is asked for by ranges",
}

OF_SHUFFLES = {
    **dict.fromkeys(("buffer_size", "shuffle_buffer", "rows", "size"), "fr.Shuffle(window_rows=n)"),
    "seed": "seed= of ParquetDataset",
    "generator": "seed= of ParquetDataset",
}

OF_UNITS = {
    **dict.fromkeys(("max_length", "seq_len", "seq_length", "block_size"), "length="),
    **dict.fromkeys(("eos", "eos_token_id", "sep", "sep_token_id"), "separator="),
    **dict.fromkeys(("max_tokens", "capacity", "max_cost"), "cost="),
    **dict.fromkeys(("columns", "column", "names"), "fr.Packed('tokens', length=n), columns without a name"),
    "pad": "rest='pad'",
    "drop_last": "rest='drop' (the default) or 'pad'",
}

OF_WORLDS = {
    **dict.fromkeys(("size", "ranks", "num_ranks", "num_replicas"), "world_size="),
    "local_rank": "rank=, of all nodes",
}

OF_CACHES = {
    **dict.fromkeys(("path", "directory", "dir", "cache_dir"), "fr.Cache(manifest=file, data=directory)"),
    **dict.fromkeys(("bytes", "max_bytes", "size"), "data_bytes="),
}

OF_LIMITS = {**dict.fromkeys(("limit", "most", "max", "max_rows", "rows"), "at_most=")}

OF_MAP = {
    "batched": "nothing: the function gets whole batches",
    "batch_size": "nothing: the function gets the dataset's batches",
    "num_proc": "fr.Loader(dataset, num_workers=n)",
    "num_parallel_calls": "fr.Loader(dataset, num_workers=n)",
    "with_indices": "batch.rows() in the function",
    "fn_kwargs": "functools.partial(function, ...)",
    "input_columns": "columns= of ParquetDataset",
    "remove_columns": "columns= of ParquetDataset, or what the function returns",
}

OF_MIXTURES = {
    **ANYWHERE,
    **dict.fromkeys(("columns", "filter", "rows", "nulls"), "{name: (ParquetDataset(paths, ...), weight)}"),
    **dict.fromkeys(("shuffle", "sampler"), "{name: (ParquetDataset(paths, shuffle=True), weight)}"),
    **dict.fromkeys(("weights", "probabilities"), "{name: (dataset, weight)}"),
    **dict.fromkeys(("num_workers", "pin_memory", "device"), "fr.Loader(mixture, ...)"),
    "stopping_strategy": "stop='first' (the default), 'all' or a number of rows",
}

OF_ARROW = {
    **OF_DATASETS,
    "cache": "nothing: no footers are read",
    "verify_checksums": "nothing: arrays have no checksums",
    "paths": "the first argument, source",
    "table": "the first argument, source",
    "data": "the first argument, source",
}

OF_KAFKA = {
    **OF_DATASETS,
    "topics": "topic=[...]",
    "bootstrap_servers": "config={'bootstrap.servers': ...}",
    "group_id": "nothing: there is no consumer group",
    "auto_offset_reset": "start=",
    "tail": "nothing: rows that make no global batch begin the next round",
}

OF_MAXCOMPUTE = {
    **dict.fromkeys(("quota_name", "odps_data_quota_name"), "quota="),
    **dict.fromkeys(("selected_cols", "selected_columns"), "columns=[...]"),
    **dict.fromkeys(("is_orderby_partition", "orderby_partition"), "by_partition=True"),
    **dict.fromkeys(("partition", "partitions"), "the address: 'odps://project/tables/table/pt=1&pt=2'"),
    **dict.fromkeys(
        ("access_id", "access_key", "account"), "credentials={'access_id': ..., 'access_key': ...}"
    ),
    "batch_size": "fr.ArrowDataset(source, batch_size=n)",
    "session": "state=, or load_state_dict() of the dataset",
}

METHODS_OF_DATASETS = {
    "set_epoch": "nothing: each pass is shuffled again, and .epoch tells which is next",
    "shuffle": "ParquetDataset(paths, shuffle=True)",
    "batch": "ParquetDataset(paths, batch_size=n)",
    "filter": "ParquetDataset(paths, filter=fr.col(name) > 0)",
    "select": "ParquetDataset(paths, rows=[[start, stop], ...])",
    "select_columns": "ParquetDataset(paths, columns=[...])",
    "remove_columns": "ParquetDataset(paths, columns=['*', '!name'])",
    "rename_column": "ParquetDataset(paths, columns=[fr.col(name).alias(new)])",
    "take": "ParquetDataset(paths, rows=[[0, n]])",
    "skip": "ParquetDataset(paths, rows=~fr.Intervals([[0, n]]))",
    "shard": "ParquetDataset(paths, world=(rank, world_size))",
    "repeat": "for epoch in range(epochs): for batch in loader: ...",
    "train_test_split": "rows=fr.Split(0.0, 0.9) and rows=fr.Split(0.9, 1.0)",
    "with_transform": ".map(function)",
    "set_transform": ".map(function)",
    "head": ".peek()",
    "columns": ".schema of what is delivered; .column_names of the files",
    "features": ".schema",
    "dtypes": ".schema, whose fields have a dtype",
    "shape": ".num_rows, and .schema",
    "sampler": "nothing: shuffle=True and world= of ParquetDataset",
    "num_batches": "len(dataset), of a pass",
    "prefetch": "fr.Loader(dataset), which reads ahead",
    "weights": "mixture.shares",
    "read_rows": "mixture.datasets[name].read_rows([...]), or loader.dataset.read_rows([...])",
    "locate": "mixture.datasets[name].locate([...]), or loader.dataset.locate([...])",
    "batch_of_row": "batch_at(epoch, step): a row may come several times in a pass of a Mixture",
    **{
        name: f"mixture.datasets[name].{name}, or loader.dataset.{name}"
        for name in ("paths", "num_file_rows", "dictionaries")
    },
    **dict.fromkeys(("to_pandas", "to_table", "to_arrow"), "next(iter(dataset)).to_arrow(), batch by batch"),
}

OF_STATES = {
    "strict": "nothing: a state fits as a whole, or is refused",
    "map_location": "nothing: a state is text",
    "epoch": "nothing: the state says in which pass it is",
}

OF_BATCH_AT = {
    **dict.fromkeys(("rank", "world"), "world=(rank, world_size) of the dataset"),
    **dict.fromkeys(("index", "batch"), "step="),
}

METHODS_OF_CURSORS = {
    "step": "batch.step of the last batch",
    "global_step": "batch.global_step of the last batch",
    **dict.fromkeys(("state_dict", "to_dict", "state"), ".to_state()"),
    **dict.fromkeys(("to_json", "dumps"), "json.dumps(cursor.to_state())"),
    **dict.fromkeys(("load", "load_state_dict", "from_dict", "from_json"), "Cursor.from_state(state)"),
    **dict.fromkeys(("position", "offset", "rows"), ".consumed_rows"),
    "seed": ".order, which has it where rows are shuffled",
}

METHODS_OF_JAGGED = {
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
}

METHODS_OF_BATCHES = {
    "cuda": "batch.to('cuda')",
    "cpu": "batch.to('cpu')",
    "device": "batch['name'].device: each tensor has its own",
    "shape": "batch.num_rows, and batch['name'].shape",
    "size": "batch.num_rows, and batch['name'].shape",
    "to_pandas": "batch.to_arrow().to_pandas()",
    "source": "fr.Mixture({...}) of several datasets: a batch of one has no sources",
    "event_time": "KafkaDataset: a batch of other rows has no event time",
    "unit_offsets": "unit=fr.Bins(...) for the dataset: a batch of others has no bins",
}

OF_LOADER = {
    **ANYWHERE,
    "batch_size": "ParquetDataset(paths, batch_size=n)",
    "shuffle": "ParquetDataset(paths, shuffle=True)",
    "seed": "ParquetDataset(paths, seed=n)",
    **{
        name: f"ParquetDataset(paths, {name}=...)"
        for name in (
            "columns",
            "filter",
            "rows",
            "nulls",
            "tail",
            "world",
            "lanes",
            "groups",
            "unit",
            "cache",
            "global_batch_size",
            "bad_rows",
            "on_change",
            "storage_options",
            "credentials",
            "read_bytes",
            "verify_checksums",
        )
    },
    "on_iter": "ParquetDataset(paths, on_iter='restart')",
    **dict.fromkeys(("rank", "world_size"), "ParquetDataset(paths, world=(rank, world_size))"),
    **dict.fromkeys(("workers", "n_workers"), "num_workers="),
    **dict.fromkeys(("num_threads", "n_threads"), "threads="),
    "pin_memory": "device='cuda'",
    "persistent_workers": "nothing: workers live as long as the loader",
    "worker_init_fn": "dataset.map(function), which runs in the workers",
    "timeout": "watchdog_seconds=",
    "in_order": "nothing: batches always come in order",
    "prefetch": "prefetch_bytes=",
    "prefetch_factor": "prefetch_bytes=, of all workers together",
}

OF_CHECKPOINTERS = {
    **dict.fromkeys(
        ("max_to_keep", "save_total_limit", "keep_last_n", "total_limit", "save_top_k"), "keep=n"
    ),
    **dict.fromkeys(
        ("dirpath", "path", "root", "folder", "checkpoint_dir", "save_dir"), "Checkpointer(directory)"
    ),
    **dict.fromkeys(("monitor", "metric", "mode"), "best=(metric, 'max' or 'min')"),
    **dict.fromkeys(
        ("every", "save_interval_steps", "interval"), "if step % n == 0: checkpointer.save(step, ...)"
    ),
    "async_save": "checkpointer.save(step, ..., wait=False)",
    "timeout": "timeout_seconds=n",
}

OF_RESTORE = {
    "strict": "allow={'model'}, which takes what fits, or partial=True, which takes the parts that you pass",
    "map_location": "nothing: values go to the devices of the parts that you pass",
}

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

METHODS_OF_COLUMNS = {
    "rename": ".alias(name)",
    "name": ".names",
    "astype": ".cast(torch.float32)",
    "to": ".cast(torch.float32)",
    "float": ".cast(torch.float32)",
    "long": ".cast(torch.int64)",
    "fillna": ".fill_null(value)",
    "fill_nan": "batch[name].nan_to_num() in dataset.map(function): .fill_null(value) is of nulls",
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
    "drop_nulls": "filter=fr.col(name).is_valid()",
    "between": "(fr.col(name) >= low) & (fr.col(name) <= high)",
    "is_between": "(fr.col(name) >= low) & (fr.col(name) <= high)",
    "categorical": ".codes()",
    "factorize": ".codes()",
    "encode": ".codes()",
    "dictionary": ".codes()",
    "bucket": ".hash(buckets)",
    "truncate": ".pad(length, truncate='head')",
    "map": "dataset.map(function)",
    "apply": "dataset.map(function)",
    "map_elements": "dataset.map(function)",
    "str": f"dataset.map(function); .split(separator) makes lists of texts; {MATCH} chooses rows",
    **dict.fromkeys(
        ("contains", "startswith", "starts_with", "endswith", "ends_with", "like", "ilike", "match", "rlike"),
        f"{MATCH}, or another function of pyarrow",
    ),
    **dict.fromkeys(
        ("abs", "log", "sqrt", "exp", "round", "floor", "year", "month", "day", "hour", "lower", "upper"),
        "dataset.map(function), or filter=pyarrow.compute.abs(pyarrow.compute.field(name)) > 3",
    ),
    "dt": "dataset.map(function); a filter compares with a datetime",
    "list": ".pad(length) or .fixed(length)",
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

OF_PADDING = {
    **dict.fromkeys(("max_length", "max_len", "size", "width", "output_size"), "length="),
    **dict.fromkeys(("padding_value", "pad_value", "fill_value", "padding", "constant_values"), "value="),
    **dict.fromkeys(("padding_side", "where"), "side="),
}

OF_CASTS = {"dtype": "columns=[fr.col(name).cast(dtype)] of the dataset, or .to(dtype) of one tensor"}

BESIDE = "nothing: columns are side by side, as [B, k]"

OF_CALLS = {
    "ParquetDataset": OF_DATASETS,
    "ArrowDataset": OF_ARROW,
    "KafkaDataset": OF_KAFKA,
    "Mixture": OF_MIXTURES,
    "Loader": OF_LOADER,
    "Checkpointer": OF_CHECKPOINTERS,
    "checkpointer.restore": OF_RESTORE,
    "fr.maxcompute.open": OF_MAXCOMPUTE,
    "fr.Shuffle": OF_SHUFFLES,
    "fr.Packed": OF_UNITS,
    "fr.Bins": OF_UNITS,
    "fr.World": OF_WORLDS,
    "fr.Cache": OF_CACHES,
    "fr.MaskBadRows": OF_LIMITS,
    "fr.Split": {
        **dict.fromkeys(("fraction", "frac", "share", "size", "train_size"), "fr.Split(0.0, 0.8)"),
        "test_size": "fr.Split(0.8, 1.0)",
        **dict.fromkeys(("random_state", "generator"), "seed="),
    },
    **{
        f"{of}.{name}": hint
        for of in ("dataset", "loader")
        for name, hint in (
            ("map", OF_MAP),
            ("load_state_dict", OF_STATES),
            ("batch_at", OF_BATCH_AT),
            ("batch_of_row", OF_BATCH_AT),
        )
    },
    "fr.stack": {**dict.fromkeys(("axis", "dim"), BESIDE), "out": BESIDE},
    "fr.col(...).fill_null": dict.fromkeys(("strategy", "limit", "method"), "a value, as .fill_null(0)"),
    "fr.col(...).clip": {
        **dict.fromkeys(("min", "a_min", "lower", "lower_bound"), "low="),
        **dict.fromkeys(("max", "a_max", "upper", "upper_bound"), "high="),
    },
    "fr.col(...).cast": {
        **dict.fromkeys(
            ("strict", "safe", "errors"), "nothing: a number that the type can't hold is an error"
        ),
        "to": ".cast(torch.float32)",
    },
    "fr.col(...).codes": {
        "dtype": "nothing: a code is int64, and dataset.map(function) makes another type of it",
        **dict.fromkeys(("categories", "vocabulary", "vocab"), "values=[...]"),
        **dict.fromkeys(("default", "default_value", "oov"), "unknown=, with values=[...]"),
    },
    "fr.col(...).hash": dict.fromkeys(("num_buckets", "n_buckets", "size", "modulus", "n"), "buckets="),
    "fr.col(...).split": dict.fromkeys(("by", "sep", "pat", "pattern", "delimiter"), "separator="),
    "fr.col(...).pad": {
        **OF_PADDING,
        "truncation": "truncate='head' or 'tail': which end is kept of a longer row",
    },
    "fr.Jagged": {
        "lengths": "offsets=torch.tensor([0, *lengths]).cumsum(0)",
        "weights": "fr.Jagged(weights, offsets), of their own",
    },
    "jagged.to_padded": OF_PADDING,
    **dict.fromkeys(("batch.to", "jagged.to"), OF_CASTS),
}
"""By the name of a function, class or method: what to write instead of an argument that it has not."""

EXAMPLES = {
    "Mixture": "fr.Mixture({name: (dataset, weight), ...}, batch_size=n)",
    "fr.Bins": "fr.Bins('tokens', cost=8192), with one column",
    "fr.Split": "fr.Split(0.0, 0.8)",
    "fr.Intervals": "fr.Intervals([[0, 100]])",
    "fr.World": "fr.World(rank, world_size)",
    "fr.col(...).isin": ".isin([1, 2])",
    "fr.col(...).fixed": ".fixed(16), or .fixed((2, 8)) for lists of lists",
    "fr.col(...).codes": ".codes(['a', 'b'])",
    "dataset.batch_of_row": "dataset.batch_of_row(0, 70), of the pass 0",
    "loader.batch_of_row": "loader.batch_of_row(0, 70), of the pass 0",
}
"""A call to write, where an argument is missing or is one too many."""
