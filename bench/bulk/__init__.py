"""Bulk jobs from Parquet to Parquet: Headlight's ways, its engine alone, and its peers."""
