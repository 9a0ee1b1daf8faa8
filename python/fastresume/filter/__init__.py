"""From conditions on columns to selections of rows."""
