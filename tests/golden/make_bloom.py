"""Makes bloom_duckdb.parquet, whose bloom filters are another writer's: run it where DuckDB is installed."""

from pathlib import Path

import duckdb  # type: ignore[import-not-found]  # nothing else needs it

QUERY = """
COPY (
    SELECT
        range * 7919 % 400 * 1000003 AS x,
        'word ' || (range * 31 % 400) AS s,
        (range * 17 % 400) / 8.0 AS f
    FROM range(400)
) TO 'bloom_duckdb.parquet' (FORMAT parquet, DICTIONARY_SIZE_LIMIT 400, COMPRESSION zstd)
"""

if __name__ == "__main__":
    duckdb.sql(QUERY.replace("TO '", f"TO '{Path(__file__).parent}/"))
