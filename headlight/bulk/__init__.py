"""Bulk jobs: blocks of texts with retries, and tables (Parquet, Arrow) in and out."""
