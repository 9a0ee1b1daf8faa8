"""What to write instead of arguments that there are not: other libraries', or those of earlier releases."""

from __future__ import annotations

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
    **dict.fromkeys(
        ("partitions", "partitioning", "hive_partitioning"), "columns=[fr.col(name).from_path()]"
    ),
    "fill_null": "columns=[fr.col(name).fill_null(value)]",
    **dict.fromkeys(("dtype", "dtypes"), "columns=[fr.col(name).cast(dtype)]"),
    "schema": "columns=[fr.col(name).cast(dtype)]; dataset.schema tells what there is",
    **dict.fromkeys(
        ("names", "usecols", "select", "features", "feature_columns", "schema_fields", "input_fields"),
        "columns=[...]",
    ),
    "label_fields": "columns=[...], with the labels: batch['label']",
    **dict.fromkeys(("num_buckets", "fg_mode"), "columns=[fr.col(name).hash(buckets)]"),
}

OF_LOADERS = {
    "num_workers": "fr.Loader(dataset, num_workers=n), or no workers: threads decode",
    **dict.fromkeys(("prefetch_factor", "predownload"), "fr.Loader(dataset, prefetch_bytes=...)"),
    "pin_memory": "fr.Loader(dataset, device='cuda')",
    "device": "fr.Loader(dataset, device='cuda')",
    "persistent_workers": "fr.Loader(dataset, num_workers=n): its workers live as long as it does",
    "worker_init_fn": "dataset.map(function), which runs in the workers",
    "threads": "fr.Loader(dataset, threads=n)",
}

SEQUENCES = (
    "lists into files once, as frame.groupby(name, as_index=False).agg(list).to_parquet(path): a row is a "
    "sequence then"
)
"""What to write instead of what gathers the rows of one user or session."""

SORTED = (
    "the files in that order once, as frame.sort_values(name).to_parquet(path): rows come in their order "
    "without shuffle=True"
)
"""What to write instead of what sorts rows."""

MESHES = ("mesh", "device_mesh", "dp_mesh")
"""What others call the argument that takes a device mesh."""

ANYWHERE = {
    **dict.fromkeys(
        ("group_by", "groupby", "group", "by", "key", "session", "session_id", "sequence_id", "user"),
        SEQUENCES,
    ),
    **dict.fromkeys(("sort_by", "order_by", "sort", "sort_values", "orderby", "sort_key"), SORTED),
    **dict.fromkeys(
        ("stratify", "stratify_by", "stratify_by_column", "balance", "class_weights"),
        "rows=fr.Split(0.0, 0.9), which has nearly that share of each value; weights of a fr.Mixture, of one "
        "dataset for each value by filter=, choose shares",
    ),
    **dict.fromkeys(
        ("group_by_length", "bucket_by_length", "bucket_boundaries", "length_column_name"),
        "unit=fr.Bins(name, cost=n): rows whose lengths together are at most n",
    ),
    **dict.fromkeys(
        ("drop_last", "drop_remainder"), "tail='drop' (the default), 'short' or 'pad' of ParquetDataset"
    ),
    "collate_fn": "dataset.map(function): a batch is whole already",
    **dict.fromkeys(("transform", "transforms", "transform_spec", "map"), "dataset.map(function)"),
    "batched": "dataset.map(function), which gets whole batches",
    "set_epoch": "nothing: each pass is shuffled again, and batch.epoch tells which it is",
    "epoch": "nothing: each pass is shuffled again, and dataset.epoch tells which is next",
    **dict.fromkeys(
        ("epochs", "num_epochs", "stop_after_passes"),
        "for epoch in range(loader.epoch, epochs): for batch in loader: ...",
    ),
    "epoch_size": "nothing: stop after any number of steps, and the next iter() resumes there",
    "infinite": "while True: for batch in loader: ...",
    "sampler": "shuffle=True and world= of ParquetDataset",
    "batch_sampler": "batch_size=, shuffle=True and world= of ParquetDataset",
    **dict.fromkeys(("generator", "shuffle_seed", "random_state", "random_seed"), "seed= of ParquetDataset"),
    "split": "its files, as 'data/train-*.parquet', or rows=fr.Split(0.0, 0.9) for a share of the rows",
    "streaming": "nothing: files are never read whole",
    **dict.fromkeys(
        (
            *("shuffle_buffer", "shuffle_buffer_size", "buffer_size", "shuffle_block_size"),
            *("shuffle_row_groups", "shuffling_queue_capacity"),
        ),
        "shuffle=fr.Shuffle(window_rows=n) of ParquetDataset: how far rows move",
    ),
    "shuffle_algo": "nothing: shuffle=True has one, blocks over the whole dataset and rows within windows",
    **dict.fromkeys(
        ("num_canonical_nodes", "canonical_replicas"),
        "lanes=n: the same global batches on each number of ranks that divides it",
    ),
    **dict.fromkeys(
        (
            *("cur_shard", "shard_count", "global_rank", "global_size", "num_shards", "shard"),
            *("num_replicas", "world_rank", "shard_id", "shard_index", "process_index", "process_count"),
            *("num_processes", "dp_rank", "dp_size", "dp_world_size", "dp_degree"),
            *("data_parallel_rank", "data_parallel_size"),
        ),
        "world=(rank, world_size)",
    ),
    **dict.fromkeys(("process_group", "pg", "dp_group", "data_parallel_group"), "world=process_group"),
    **dict.fromkeys(MESHES, "world=mesh[name], the dimension over which the rows are divided"),
    "microbatch_size": "batch_size=",
}

OF_PLACES = ("data_files", "data_dir", "files", "url", "remote", "source")
"""What others call the argument that says where the rows are."""

OF_DATASETS = {
    **ANYWHERE,
    **OF_COLUMNS,
    **OF_LOADERS,
    "skip": "rows=~fr.Intervals([[start, stop], ...])",
    "filters": "filter=",
    **dict.fromkeys(("dropna", "drop_nulls", "drop_null", "skip_nulls"), "filter=fr.col(name).is_valid()"),
    "predicate": "filter=fr.col(name) > 0",
    **dict.fromkeys(OF_PLACES, "the first argument, paths"),
    "local": "the first argument, paths; cache=fr.Cache(data=directory) keeps what is read of a store",
    "row_groups": "rows=[[start, stop], ...], which reads no row group without such rows",
    **dict.fromkeys(("limit", "n_rows", "nrows", "max_rows", "num_rows", "head"), "rows=[[0, n]]"),
    **dict.fromkeys(("use_threads", "num_threads"), "fr.Loader(dataset, threads=n)"),
    **dict.fromkeys(
        ("packing", "max_length", "seq_len", "seq_length", "block_size", "item_loader"),
        "unit=fr.Packed('tokens', length=n)",
    ),
    **dict.fromkeys(("max_tokens", "token_budget"), "unit=fr.Bins('tokens', cost=n)"),
    "local_rank": "world=(rank, world_size), of all nodes",
    "filesystem": "storage_options=, and an address as 's3://bucket/data/'",
    "token": "storage_options={'token': ...}",
    **dict.fromkeys(
        ("timestamp_as_of", "as_of"),
        "table.load_as_version(time) of a deltalake.DeltaTable, which is taken as paths",
    ),
    "revision": "the address, 'hf://datasets/owner/name@revision/path'; of a table, 'delta://path?version=12'",
    **dict.fromkeys(("weight", "weights", "probabilities"), "fr.Mixture({name: (dataset, weight), ...})"),
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
    **dict.fromkeys(("datasets", "streams"), "the first argument, {name: (dataset, weight), ...}"),
    **dict.fromkeys(
        ("repetitions", "repeat"),
        "weights, each the rows of its source times its repetitions, and stop=their sum",
    ),
    **dict.fromkeys(
        ("stopping_strategy", "iterate_over_all"), "stop='first' (the default), 'all' or a number of rows"
    ),
    **dict.fromkeys(("num_workers", "pin_memory", "device"), "fr.Loader(mixture, ...)"),
}

SETTINGS_OF_MIXTURES = {
    **OF_MIXTURES,
    **dict.fromkeys(
        ("sources", "datasets", "weights", "shares"),
        "a new Mixture({name: (dataset, weight), ...}), which takes the state of this one",
    ),
}

OF_ARROW = {
    **OF_DATASETS,
    "cache": "nothing: no footers are read",
    **dict.fromkeys(("rank", "world_size"), "world=(rank, world_size)"),
    "verify_checksums": "nothing: arrays have no checksums",
    **dict.fromkeys((*OF_PLACES[:-1], "local", "paths", "table", "data"), "the first argument, source"),
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
    "odps_data_compression": "compression=",
    "batch_size": "fr.ArrowDataset(source, batch_size=n)",
    "session": "state=, or load_state_dict() of the dataset",
}

OF_STATES = {
    "check_same": "loader.load_state_dict(state, check_same=True), or fr.distributed.check_same(state)",
    "strict": "nothing: a state fits as a whole, or is refused",
    "map_location": "nothing: a state is text",
    "epoch": "nothing: the state says in which pass it is",
}

OF_BATCH_AT = {
    **dict.fromkeys(("rank", "world"), "world=(rank, world_size) of the dataset"),
    **dict.fromkeys(("index", "batch"), "step="),
}

OF_LOADER = {
    **ANYWHERE,
    **{
        name: f"ParquetDataset(paths, {hint})"
        for name, hint in ANYWHERE.items()
        if hint.startswith(("world=", "rows=", "unit="))
    },
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

OF_GROUPS = {
    **dict.fromkeys(("process_group", "pg", "ranks", "world"), "group=torch.distributed.new_group(ranks)"),
    **dict.fromkeys(MESHES, "group=mesh[name].get_group()"),
}

OF_CHECKPOINTERS = {
    **OF_GROUPS,
    **dict.fromkeys(
        ("max_to_keep", "save_total_limit", "keep_last_n", "total_limit", "save_top_k"), "keep=n"
    ),
    **dict.fromkeys(
        ("dirpath", "path", "root", "folder", "checkpoint_dir", "save_dir"), "Checkpointer(directory)"
    ),
    **dict.fromkeys(("monitor", "metric", "mode"), "best=(metric, 'max' or 'min')"),
    **dict.fromkeys(
        ("every", "save_every", "save_steps", "save_interval_steps", "interval"),
        "if step % n == 0: checkpointer.save(step, ...)",
    ),
    "async_save": "checkpointer.save(step, ..., wait=False)",
    "timeout": "timeout_seconds=n",
}

OF_SAVE = {
    **dict.fromkeys(("epoch", "global_step", "loss", "config", "args", "scaler"), "extra={name: value}"),
    **dict.fromkeys(
        ("dataset", "dataloader", "batch", "state", "cursor"), "loader=, which takes each of these"
    ),
    "metric": "metrics={name: value}",
    **dict.fromkeys(("async_save", "blocking", "block"), "wait=False, which writes while the job continues"),
    "model_state_dict": "model=model",
    "optimizer_state_dict": "optimizer=optimizer",
}

OF_RESTORE = {
    "strict": "allow={'model'}, which takes what fits, or partial=True, which takes the parts that you pass",
    "map_location": "nothing: values go to the devices of the parts that you pass",
}

OF_PADDING = {
    **dict.fromkeys(("max_length", "max_len", "size", "width", "output_size"), "length="),
    **dict.fromkeys(("padding_value", "pad_value", "fill_value", "padding", "constant_values"), "value="),
    **dict.fromkeys(("padding_side", "where"), "side="),
}

OF_ENCODING = "[each.decode(encoding) for each in jagged.to_bytes()]"
"""What to write for texts that are not UTF-8."""

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
    "checkpointer.save": OF_SAVE,
    "fr.maxcompute.open": OF_MAXCOMPUTE,
    "fr.Shuffle": OF_SHUFFLES,
    "fr.Packed": OF_UNITS,
    "fr.Bins": OF_UNITS,
    "fr.World": OF_WORLDS,
    "fr.Cache": OF_CACHES,
    **dict.fromkeys(
        ("fr.training.Evaluator", "fr.training.Preemption", "fr.distributed.check_same"), OF_GROUPS
    ),
    "Segment": {
        **dict.fromkeys(("num_rows", "count", "length", "size", "n_rows", "row_count"), "rows="),
        **dict.fromkeys(("path", "file", "id", "key", "segment"), "name="),
    },
    "fr.training.accumulate": {
        **dict.fromkeys(
            (
                "gradient_accumulation_steps",
                "accumulate_grad_batches",
                "accumulation_steps",
                "num_steps",
                "every",
            ),
            "steps=",
        ),
        **dict.fromkeys(
            ("loader", "dataset"), "fr.training.accumulate(model, steps=4): batches know the pass"
        ),
    },
    "fr.testing.assert_exact_resume": dict.fromkeys(
        ("loader", "dataset"),
        "assert_exact_resume(lambda: fr.Loader(fr.ParquetDataset(paths, batch_size=n)))",
    ),
    "fr.MaskBadRows": OF_LIMITS,
    "fr.Split": {
        **dict.fromkeys(("fraction", "frac", "share", "size", "train_size"), "fr.Split(0.0, 0.8)"),
        "test_size": "fr.Split(0.8, 1.0)",
        **dict.fromkeys(("random_state", "generator"), "seed="),
        **dict.fromkeys(
            ("by", "key", "group", "groups", "stratify", "column"),
            "rows=mask, which you make of a column: a Split knows numbers of rows alone",
        ),
    },
    **{of: {"num_workers": "workers="} for of in ("dataset.plan", "mixture.plan")},
    "dataset.map": OF_MAP,
    **{
        f"{of}.{name}": hint
        for of in ("dataset", "loader")
        for name, hint in (
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
    "jagged.to_padded": {
        **OF_PADDING,
        **dict.fromkeys(("truncate", "truncation"), "fr.col(name).pad(length, truncate='head') in columns="),
    },
    "jagged.to_strings": {"encoding": OF_ENCODING},
    **dict.fromkeys(("batch.to", "jagged.to"), OF_CASTS),
}
"""By the name of a function, class or method: what to write instead of an argument that it has not."""

EXAMPLES = {
    "fr.Batch": "dataset.peek(), or next(iter(loader))",
    "fr.Schema": "dataset.schema",
    "fr.Stats": "loader.stats()",
    "fr.Cursor": "fr.Cursor.from_state(state)",
    "Mixture": "fr.Mixture({name: (dataset, weight), ...}, batch_size=n)",
    "fr.Shuffle": "fr.Shuffle(window_rows=n), which is what a buffer is elsewhere",
    "Loader": "fr.Loader(dataset, num_workers=n); batch_size=n and shuffle=True are of the dataset",
    "fr.distributed.open": "fr.distributed.open(paths, batch_size=n)",
    "checkpointer.save": "checkpointer.save(step, model=model, optimizer=optimizer, loader=loader)",
    "checkpointer.restore": "checkpointer.restore(model=model, optimizer=optimizer, loader=loader)",
    "fr.Bins": "fr.Bins('tokens', cost=8192), with one column",
    "fr.training.Preemption": "fr.training.Preemption(every=1, signals=(signal.SIGTERM,))",
    "fr.training.accumulate": "fr.training.accumulate(model, steps=4)",
    "accumulation": "with accumulation(batch) as window: ..., for each batch",
    "fr.distributed.check_same": "fr.distributed.check_same(state)",
    "fastresume.integrations.accelerate.register": "register(accelerator, loader)",
    "state.trained": "trained(batch), of the batch that was trained",
    "Segment": "Segment('day=1', 1000)",
    "fr.kafka.JSON": "fr.kafka.JSON(pyarrow.schema([('user', pyarrow.int64())]))",
    "fr.Split": "fr.Split(0.0, 0.8)",
    "fr.Intervals": "fr.Intervals([[0, 100]])",
    "fr.World": "fr.World(rank, world_size)",
    "fr.col(...).isin": ".isin([1, 2])",
    "fr.col(...).fixed": ".fixed(16), or .fixed((2, 8)) for lists of lists",
    "fr.col(...).codes": ".codes(['a', 'b'])",
    "batch.generator": "batch.generator(draw=1), or batch.generator(device='cuda')",
    "dataset.peek": "dataset.peek(), or dataset.read_rows(range(5)) for some rows",
    "dataset.batch_of_row": "dataset.batch_of_row(0, row), of the pass 0",
    "loader.batch_of_row": "loader.batch_of_row(0, row), of the pass 0",
}
"""A call to write, where an argument is missing or is one too many."""

SEVERAL = {"ParquetDataset": "a list of paths", "ArrowDataset": "a list of tables or paths"}
"""What to write where a second argument is one more of the first."""

SEVERAL_DATASETS = (
    "write fr.ParquetDataset([path, other]) for rows one after another, or fr.Mixture({name: (dataset, "
    "weight), ...}, batch_size=n)"
)
"""What to write instead of torch's ways to join datasets."""
