"""`headlight embed` of tables: Parquet and Arrow files in, Parquet out."""
