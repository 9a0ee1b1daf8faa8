"""Filters: from conditions on columns to selections of rows."""
