"""Makes spark_tables.tar.xz: tables that Spark wrote, with the rows that Spark itself reads of them.

It takes Java 17, pyspark 4.0 and pyarrow; the jars delta-spark 4.0, delta-storage, antlr4-runtime,
iceberg-spark-runtime 1.10, iceberg-aws-bundle and sqlite-jdbc in one directory; and a server of S3, such as
`moto_server`: `python make_spark_tables.py JARS ENDPOINT`.
"""
# ruff: noqa: E501, S608  (statements of SQL)

from __future__ import annotations

import datetime as dt
import json
import os
import sys
import tarfile
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

DELTA = {
    "partitioned": """
        CREATE TABLE {t} (id BIGINT, day DATE, city STRING, x INT) USING delta PARTITIONED BY (day, city) LOCATION '{p}';
        INSERT INTO {t} VALUES (1, DATE'2024-02-29', 'a b/ü:%', 10), (2, DATE'1969-12-31', 'x', 20), (3, NULL, NULL, 30);
        INSERT INTO {t} SELECT id, DATE'2024-03-01', 'y=1', CAST(id AS INT) FROM range(4, 40);
        DELETE FROM {t} WHERE city = 'x'""",
    "deleted": """
        CREATE TABLE {t} (id BIGINT, x INT, s STRING) USING delta LOCATION '{p}' TBLPROPERTIES ('delta.enableDeletionVectors'='true', 'delta.checkpointInterval'='4');
        INSERT INTO {t} SELECT id, CAST(id % 7 AS INT), concat('s', id) FROM range(0, 100, 1, 1);
        INSERT INTO {t} SELECT id, CAST(id % 7 AS INT), NULL FROM range(100, 150, 1, 1);
        DELETE FROM {t} WHERE id % 10 = 3;
        UPDATE {t} SET x = -1 WHERE id % 25 = 0;
        MERGE INTO {t} AS t USING (SELECT id, CAST(1000 AS INT) AS x, 'm' AS s FROM range(145, 155, 1, 1)) AS n ON t.id = n.id WHEN MATCHED AND n.id % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *;
        DELETE FROM {t} WHERE id BETWEEN 10 AND 12;
        OPTIMIZE {t};
        RESTORE TABLE {t} TO VERSION AS OF 3;
        DELETE FROM {t} WHERE id = 99""",
    "named": """
        CREATE TABLE {t} (id BIGINT, a INT, b INT, s STRUCT<x: INT, y: STRING>, l ARRAY<INT>) USING delta LOCATION '{p}' TBLPROPERTIES ('delta.columnMapping.mode'='name');
        INSERT INTO {t} SELECT id, CAST(id AS INT), CAST(-id AS INT), named_struct('x', CAST(id AS INT), 'y', concat('y', id)), array(CAST(id AS INT), 7) FROM range(0, 10, 1, 1);
        ALTER TABLE {t} RENAME COLUMN a TO c;
        ALTER TABLE {t} RENAME COLUMN b TO a;
        ALTER TABLE {t} RENAME COLUMN s.x TO z;
        ALTER TABLE {t} ADD COLUMNS (n DOUBLE);
        INSERT INTO {t} (id, c, a, s, l, n) SELECT id, CAST(id AS INT), CAST(-id AS INT), named_struct('z', CAST(id AS INT), 'y', NULL), array(), 0.5D FROM range(10, 20, 1, 1);
        ALTER TABLE {t} DROP COLUMN c;
        ALTER TABLE {t} ADD COLUMNS (c STRING);
        INSERT INTO {t} (id, a, s, l, n, c) SELECT id, 1, NULL, NULL, NULL, 'c' FROM range(20, 25, 1, 1)""",
    "upgraded": """
        CREATE TABLE {t} (id BIGINT, a INT, p STRING) USING delta PARTITIONED BY (p) LOCATION '{p}';
        INSERT INTO {t} SELECT id, CAST(id AS INT), 'p' FROM range(0, 10, 1, 1);
        ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode'='name', 'delta.minReaderVersion'='2', 'delta.minWriterVersion'='5');
        ALTER TABLE {t} RENAME COLUMN a TO b;
        ALTER TABLE {t} RENAME COLUMN p TO q;
        INSERT INTO {t} SELECT id, CAST(id AS INT), 'q' FROM range(10, 20, 1, 1)""",
    "by_id": """
        CREATE TABLE {t} (id BIGINT, a INT) USING delta LOCATION '{p}' TBLPROPERTIES ('delta.columnMapping.mode'='id');
        INSERT INTO {t} SELECT id, CAST(id AS INT) FROM range(0, 10, 1, 1);
        ALTER TABLE {t} RENAME COLUMN a TO b;
        INSERT INTO {t} SELECT id, CAST(-id AS INT) FROM range(10, 12, 1, 1)""",
    "widened": """
        CREATE TABLE {t} (id BIGINT, b TINYINT, s SMALLINT, i INT, f FLOAT, d DATE, m DECIMAL(5,2)) USING delta LOCATION '{p}' TBLPROPERTIES ('delta.enableTypeWidening'='true', 'delta.feature.timestampNtz'='supported');
        INSERT INTO {t} SELECT id, CAST(id - 5 AS TINYINT), CAST(id * 100 AS SMALLINT), CAST(id * 100000 AS INT), CAST(id / 8 AS FLOAT), date_add(DATE'2024-01-01', CAST(id AS INT)), CAST(id AS DECIMAL(5,2)) FROM range(0, 10, 1, 1);
        ALTER TABLE {t} ALTER COLUMN b TYPE SMALLINT;
        ALTER TABLE {t} ALTER COLUMN s TYPE INT;
        ALTER TABLE {t} ALTER COLUMN i TYPE BIGINT;
        ALTER TABLE {t} ALTER COLUMN f TYPE DOUBLE;
        ALTER TABLE {t} ALTER COLUMN b TYPE BIGINT;
        INSERT INTO {t} SELECT id, id * 10000000000, 1000000, id * 10000000000, 0.1D, DATE'1960-01-01', 1.25 FROM range(10, 15, 1, 1);
        ALTER TABLE {t} ALTER COLUMN d TYPE TIMESTAMP_NTZ;
        INSERT INTO {t} SELECT id, 1, 1, 1, 1, TIMESTAMP_NTZ'2024-01-01 01:02:03.000004', 1.25 FROM range(15, 17, 1, 1);
        ALTER TABLE {t} ALTER COLUMN m TYPE DECIMAL(12,4);
        INSERT INTO {t} SELECT id, 1, 1, 1, 1, TIMESTAMP_NTZ'2024-01-01 01:02:03.000004', 12345.6789 FROM range(17, 19, 1, 1)""",
    "widened_double": """
        CREATE TABLE {t} (id BIGINT, i INT, j INT) USING delta LOCATION '{p}' TBLPROPERTIES ('delta.enableTypeWidening'='true', 'delta.feature.timestampNtz'='supported');
        INSERT INTO {t} SELECT id, CAST(id AS INT), CAST(id AS INT) FROM range(0, 10, 1, 1);
        ALTER TABLE {t} ALTER COLUMN i TYPE DOUBLE;
        ALTER TABLE {t} ALTER COLUMN j TYPE DECIMAL(12,2);
        INSERT INTO {t} SELECT id, 0.5D, 1.25 FROM range(10, 15, 1, 1)""",
    "checkpointed": """
        CREATE TABLE {t} (id BIGINT, p INT) USING delta PARTITIONED BY (p) LOCATION '{p}' TBLPROPERTIES ('delta.checkpointPolicy'='v2', 'delta.checkpointInterval'='3');
        INSERT INTO {t} SELECT id, 0 FROM range(0, 5, 1, 1);
        INSERT INTO {t} SELECT id, 1 FROM range(5, 10, 1, 1);
        INSERT INTO {t} SELECT id, 2 FROM range(10, 15, 1, 1);
        INSERT INTO {t} SELECT id, 3 FROM range(15, 20, 1, 1);
        INSERT INTO {t} SELECT id, 4 FROM range(20, 25, 1, 1);
        INSERT INTO {t} SELECT id, 5 FROM range(25, 30, 1, 1);
        INSERT INTO {t} SELECT id, 6 FROM range(30, 35, 1, 1);
        INSERT INTO {t} SELECT id, 7 FROM range(35, 40, 1, 1)""",
    "changes": """
        CREATE TABLE {t} (id BIGINT, x INT) USING delta LOCATION '{p}' TBLPROPERTIES ('delta.enableChangeDataFeed'='true');
        INSERT INTO {t} SELECT id, 1 FROM range(0, 10, 1, 1);
        UPDATE {t} SET x = 2 WHERE id = 5;
        DELETE FROM {t} WHERE id = 7""",
    "times": """
        CREATE TABLE {t} (id BIGINT, at TIMESTAMP, n TIMESTAMP_NTZ, h TIMESTAMP) USING delta PARTITIONED BY (h) LOCATION '{p}';
        INSERT INTO {t} VALUES (1, TIMESTAMP'2024-01-01 03:04:05.000006Z', TIMESTAMP_NTZ'1960-01-01 00:00:00.5', TIMESTAMP'2024-01-01 03:04:05.000006Z'), (2, NULL, NULL, TIMESTAMP'1965-01-01 00:00:00Z')""",
    "clustered": """
        CREATE TABLE {t} (id BIGINT, x INT) USING delta CLUSTER BY (x) LOCATION '{p}';
        INSERT INTO {t} SELECT id, CAST(id % 3 AS INT) FROM range(0, 30, 1, 1);
        OPTIMIZE {t};
        INSERT OVERWRITE {t} SELECT id, 1 FROM range(50, 55, 1, 1)""",
    "variant": """
        CREATE TABLE {t} (id BIGINT, v VARIANT) USING delta LOCATION '{p}';
        INSERT INTO {t} SELECT id, parse_json('{{"a":1}}') FROM range(0, 3, 1, 1)""",
}
"""The statements of each Delta table."""

MERGE_ON_READ = ", ".join(f"'write.{how}.mode'='merge-on-read'" for how in ("delete", "update", "merge"))

ICEBERG = {
    "format1": """
        CREATE TABLE {t} (id BIGINT, a INT, s STRING) USING iceberg TBLPROPERTIES ('format-version'='1');
        INSERT INTO {t} SELECT id, CAST(id AS INT), concat('s', id) FROM range(0, 10, 1, 1);
        INSERT INTO {t} SELECT id, CAST(id AS INT), NULL FROM range(10, 15, 1, 1);
        DELETE FROM {t} WHERE id = 3""",
    "merged": """
        CREATE TABLE {t} (id BIGINT, x INT, s STRING) USING iceberg
            TBLPROPERTIES ('format-version'='2', {m});
        INSERT INTO {t} SELECT id, CAST(id % 7 AS INT), concat('s', id) FROM range(0, 40, 1, 1);
        INSERT INTO {t} SELECT id, CAST(id % 7 AS INT), NULL FROM range(40, 60, 1, 1);
        DELETE FROM {t} WHERE id % 10 = 3;
        ALTER TABLE {t} CREATE TAG kept;
        UPDATE {t} SET x = -1 WHERE id % 25 = 0;
        MERGE INTO {t} AS t USING (SELECT id, 1000 AS x, 'm' AS s FROM range(55, 65, 1, 1)) AS n ON t.id = n.id
            WHEN MATCHED AND n.id % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *;
        ALTER TABLE {t} CREATE BRANCH side;
        INSERT INTO {t}.branch_side VALUES (1000, 1, 'side')""",
    "evolved": """
        CREATE TABLE {t} (id BIGINT, a INT, f FLOAT, m DECIMAL(5,2), s STRUCT<x: INT, y: STRING>, l ARRAY<INT>)
            USING iceberg;
        INSERT INTO {t} SELECT id, CAST(id AS INT), CAST(id / 8 AS FLOAT), CAST(id AS DECIMAL(5,2)),
            named_struct('x', CAST(id AS INT), 'y', 'y'), array(CAST(id AS INT), 7) FROM range(0, 5, 1, 1);
        ALTER TABLE {t} RENAME COLUMN a TO b;
        ALTER TABLE {t} ALTER COLUMN b TYPE BIGINT;
        ALTER TABLE {t} ALTER COLUMN f TYPE DOUBLE;
        ALTER TABLE {t} ALTER COLUMN m TYPE DECIMAL(12,2);
        ALTER TABLE {t} RENAME COLUMN s.x TO z;
        ALTER TABLE {t} ADD COLUMNS (n DOUBLE);
        ALTER TABLE {t} ALTER COLUMN n FIRST;
        INSERT INTO {t} (n, id, b, f, m, s, l) SELECT 0.5D, id, id * 10000000000, 0.1D, 1.25,
            named_struct('z', 1, 'y', NULL), array() FROM range(5, 9, 1, 1)""",
    "swapped": """
        CREATE TABLE {t} (id BIGINT, a INT, b INT) USING iceberg;
        INSERT INTO {t} VALUES (0, 1, 2);
        ALTER TABLE {t} RENAME COLUMN a TO c;
        ALTER TABLE {t} RENAME COLUMN b TO a;
        ALTER TABLE {t} RENAME COLUMN c TO b;
        INSERT INTO {t} VALUES (1, 1, 2)""",
    "hidden": """
        CREATE TABLE {t} (id BIGINT, at TIMESTAMP, s STRING, p STRING) USING iceberg
            PARTITIONED BY (bucket(2, id), days(at), truncate(1, s));
        INSERT INTO {t} VALUES (1, TIMESTAMP'2024-01-01 03:04:05.000006Z', 'abc', 'p'),
            (2, TIMESTAMP'1969-12-31 23:59:59Z', 'abd', 'q'), (3, NULL, NULL, NULL);
        ALTER TABLE {t} DROP PARTITION FIELD truncate(1, s);
        ALTER TABLE {t} ADD PARTITION FIELD p;
        INSERT INTO {t} VALUES (5, TIMESTAMP'2024-01-01 03:04:05Z', 'abc', 'p'), (6, NULL, 'y', NULL)""",
    "vectors": """
        CREATE TABLE {t} (id BIGINT, x INT) USING iceberg TBLPROPERTIES ('format-version'='3', {m});
        INSERT INTO {t} SELECT id, CAST(id % 7 AS INT) FROM range(0, 40, 1, 1);
        INSERT INTO {t} SELECT id, CAST(id % 7 AS INT) FROM range(40, 60, 1, 1);
        DELETE FROM {t} WHERE id % 10 = 3;
        DELETE FROM {t} WHERE id = 5;
        UPDATE {t} SET x = -1 WHERE id % 25 = 0""",
    "upgraded": """
        CREATE TABLE {t} (id BIGINT, x INT) USING iceberg TBLPROPERTIES ('format-version'='2', {m});
        INSERT INTO {t} SELECT id, CAST(id % 7 AS INT) FROM range(0, 20, 1, 1);
        DELETE FROM {t} WHERE id % 10 = 3;
        ALTER TABLE {t} SET TBLPROPERTIES ('format-version'='3');
        DELETE FROM {t} WHERE id = 5""",
    "overwritten": """
        CREATE TABLE {t} (id BIGINT, p INT) USING iceberg PARTITIONED BY (p);
        INSERT INTO {t} SELECT id, CAST(id % 2 AS INT) FROM range(0, 6, 1, 1);
        INSERT OVERWRITE {t} SELECT 100, 1;
        CALL lake.system.rewrite_data_files(table => '{t}', options => map('rewrite-all', 'true'));
        INSERT INTO {t} VALUES (7, 9)""",
}
"""The statements of each Iceberg table."""


def session(jars: Path, **config: str) -> Any:
    """A session of Spark that compiles little, since the tables are small."""
    from pyspark.sql import SparkSession  # type: ignore[import-not-found]  # nothing else needs it

    java = "-Duser.timezone=UTC -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    plain = {
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": java,
        "spark.driver.host": "127.0.0.1",
        "spark.jars": ",".join(str(jar) for jar in sorted(jars.glob("*.jar"))),
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder.master("local[1]")
    for key, value in (plain | config).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def run(spark: Any, statements: str, **names: str) -> None:
    for statement in statements.split(";"):
        spark.sql(statement.format(**names))


def rows(frame: Any) -> list[dict[str, Any]]:
    return [plain(row) for row in frame.collect()]


def plain(value: Any) -> Any:
    """A value as it is delivered: times in microseconds, decimals without their point."""
    if isinstance(value, dt.datetime):
        return (value - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
    if isinstance(value, dt.date):
        return (value - dt.date(1970, 1, 1)).days
    if isinstance(value, Decimal):
        return int(value.scaleb(-int(value.as_tuple().exponent)))
    if isinstance(value, list):
        return [plain(each) for each in value]
    if hasattr(value, "asDict"):
        return {key: plain(each) for key, each in value.asDict().items()}
    return value if value is None or isinstance(value, int | float | str) else str(value)


def delta(jars: Path, root: Path) -> dict[str, dict[str, Any]]:
    """Writes the Delta tables; gives the rows of each."""
    spark = session(
        jars,
        **{
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.sql.warehouse.dir": str(root / "none"),
            "spark.databricks.delta.snapshotPartitions": "1",
        },
    )
    expected: dict[str, dict[str, Any]] = {}
    for name, statements in DELTA.items():
        path = root / "delta" / name
        run(spark, statements, t=name, p=str(path))
        expected[name] = {"": rows(spark.read.format("delta").load(str(path)))}
    spark.stop()
    return expected


def iceberg(jars: Path, root: Path, endpoint: str) -> dict[str, dict[str, Any]]:
    """Writes the Iceberg tables; gives where the metadata of each is, and the rows of each of its snapshots."""
    from pyarrow.fs import FileSelector, FileType, S3FileSystem, copy_files

    keys = {"access_key": "testing", "secret_key": "testing"}
    store = S3FileSystem(endpoint_override=endpoint, region="us-east-1", allow_bucket_creation=True, **keys)
    store.create_dir("lake")
    os.environ["AWS_REGION"] = "us-east-1"
    found = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".cache-enabled": "false",
        ".catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        ".io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        ".s3.access-key-id": keys["access_key"],
        ".s3.endpoint": endpoint,
        ".s3.path-style-access": "true",
        ".s3.secret-access-key": keys["secret_key"],
        ".uri": f"jdbc:sqlite:{root}/catalog.db",
        ".warehouse": "s3://lake",
    }
    spark = session(
        jars,
        **{
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        },
        **{f"spark.sql.catalog.lake{key}": value for key, value in found.items()},
    )
    spark.sql("CREATE NAMESPACE lake.ns")
    expected: dict[str, dict[str, Any]] = {}
    for name, statements in ICEBERG.items():
        table = f"lake.ns.{name}"
        run(spark, statements, t=table, m=MERGE_ON_READ)
        snapshots = [row[0] for row in spark.sql(f"SELECT snapshot_id FROM {table}.snapshots").collect()]
        log = spark.sql(f"SELECT file FROM {table}.metadata_log_entries ORDER BY timestamp DESC, file DESC")
        expected[name] = {
            "metadata": log.first()[0],
            "": rows(spark.table(table)),
            **{
                str(number): rows(spark.read.option("snapshot-id", number).table(table))
                for number in snapshots
            },
        }
    spark.stop()
    for file in store.get_file_info(FileSelector("lake", recursive=True)):
        if file.type == FileType.File:
            target = root / "iceberg" / file.path.removeprefix("lake/")
            target.parent.mkdir(parents=True, exist_ok=True)
            copy_files(file.path, str(target), source_filesystem=store)
    return expected


def main() -> None:
    jars, endpoint = Path(sys.argv[1]).absolute(), sys.argv[2]
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        expected = {"iceberg": iceberg(jars, root, endpoint), "delta": delta(jars, root)}
        (root / "expected.json").write_text(json.dumps(expected))
        with tarfile.open(Path(__file__).with_name("spark_tables.tar.xz"), "w:xz") as archive:
            for path in [
                root / "expected.json",
                *sorted((root / "delta").rglob("*")),
                *sorted((root / "iceberg").rglob("*")),
            ]:
                if path.is_file() and path.suffix != ".crc":
                    archive.add(path, str(path.relative_to(root)))


if __name__ == "__main__":
    main()
